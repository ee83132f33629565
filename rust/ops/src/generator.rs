//! A random generator that can be shared, and the one that every call without `generator=` uses.

use std::cell::UnsafeCell;
use std::sync::Arc;

use once_cell::race::OnceBox;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_rng::Stream;

/// A handle on a stream of random numbers; clones draw from the same stream.
#[derive(Clone)]
pub struct Generator(Arc<Shared>);

/// A stream that is drawn from only in its turn.
struct Shared(UnsafeCell<Stream>);
// SAFETY: `draw` takes the turn that belongs to the stream's address.
unsafe impl Sync for Shared {}

/// Threads that draw from the same stream take turns, and a fork waits for its turn; streams share these few locks.
static TURNS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Random, ()) }; 16];

static DEFAULT: OnceBox<Generator> = OnceBox::new();

impl Generator {
    /// The generator of the whole process.
    pub fn default_stream() -> Self {
        DEFAULT.get_or_init(|| Box::new(Generator::fresh())).clone()
    }

    /// A generator of its own, with torch's initial seed.
    pub fn fresh() -> Self {
        Generator(Arc::new(Shared(UnsafeCell::new(Stream::default()))))
    }

    /// Draws from the stream, alone.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        let _turn = TURNS[Arc::as_ptr(&self.0).addr() / 64 % TURNS.len()].lock();
        // SAFETY: this thread has the stream's turn.
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
