//! A random generator that can be shared, and the one that every call without `generator=` uses.

use std::cell::UnsafeCell;
use std::sync::Arc;

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_rng::Generator as Stream;

/// A handle on a stream of random numbers; clones draw from the same stream.
#[derive(Clone)]
pub struct Generator(Source);

#[derive(Clone)]
enum Source {
    Default,
    Own(Arc<Own>),
}

/// A stream that is drawn from only in its turn.
struct Own(UnsafeCell<Stream>);
// SAFETY: `draw` takes the turn that belongs to the stream's address.
unsafe impl Sync for Own {}

/// Threads that draw from the same stream take turns, and a fork waits for its turn; streams share these few locks.
static TURNS: [ForkMutex<()>; 16] = [const { ForkMutex::new(Rank::Random, "generators", ()) }; 16];

static DEFAULT: ForkMutex<Option<Stream>> = ForkMutex::new(Rank::Random, "default generator", None);

impl Generator {
    /// The generator of the whole process.
    pub fn default_stream() -> Self {
        Generator(Source::Default)
    }

    /// A generator of its own, with torch's initial seed.
    pub fn fresh() -> Self {
        Generator(Source::Own(Arc::new(Own(UnsafeCell::new(Stream::default())))))
    }

    /// Draws from the stream, alone.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        match &self.0 {
            Source::Default => draw(DEFAULT.lock().get_or_insert_with(Stream::default)),
            Source::Own(stream) => {
                let _turn = TURNS[Arc::as_ptr(stream).addr() / 64 % TURNS.len()].lock();
                // SAFETY: this thread has the stream's turn.
                draw(unsafe { &mut *stream.0.get() })
            }
        }
    }

    pub fn same(&self, other: &Generator) -> bool {
        match (&self.0, &other.0) {
            (Source::Default, Source::Default) => true,
            (Source::Own(a), Source::Own(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Default for Generator {
    fn default() -> Self {
        Generator::default_stream()
    }
}
