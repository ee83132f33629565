//! A random generator that can be shared, and the default one for calls without `generator=`.

use std::cell::UnsafeCell;
use std::sync::Arc;

use once_cell::race::OnceBox;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_rng::Stream;

/// A handle on a stream of random numbers; clones draw from the same stream.
#[derive(Clone)]
pub struct Generator(Arc<Shared>);

/// A stream that is accessed only under its lock.
struct Shared(UnsafeCell<Stream>);
// SAFETY: `draw` takes the lock that belongs to the stream's address.
unsafe impl Sync for Shared {}

/// Locks for drawing from a stream, which are also taken by a fork; all streams share these few locks.
static LOCKS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Random, ()) }; 16];

static DEFAULT: OnceBox<Generator> = OnceBox::new();

impl Generator {
    /// The default generator of the process.
    pub fn default_stream() -> Self {
        DEFAULT.get_or_init(|| Box::new(Generator::fresh())).clone()
    }

    /// A new generator, with torch's initial seed.
    pub fn fresh() -> Self {
        Generator(Arc::new(Shared(UnsafeCell::new(Stream::default()))))
    }

    /// Draws from the stream, with exclusive access.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        let _turn = LOCKS[Arc::as_ptr(&self.0).addr() / 64 % LOCKS.len()].lock();
        // SAFETY: this thread holds the stream's lock.
        draw(unsafe { &mut *self.0.0.get() })
    }

    pub fn same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Generator {
    fn default() -> Self {
        Generator::default_stream()
    }
}
