//! A random generator that can be shared, and the one that every call without `generator=` uses.

use std::sync::{Arc, Mutex, PoisonError};

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_rng::Generator as Stream;

/// A handle on a stream of random numbers; clones draw from the same stream.
#[derive(Clone)]
pub struct Generator(Source);

#[derive(Clone)]
enum Source {
    Default,
    Own(Arc<Mutex<Stream>>),
}

static DEFAULT: ForkMutex<Option<Stream>> = ForkMutex::new(Rank::Random, "default generator", None);

impl Generator {
    /// The generator of the whole process.
    pub fn default_stream() -> Self {
        Generator(Source::Default)
    }

    /// A generator of its own, with torch's initial seed.
    pub fn fresh() -> Self {
        Generator(Source::Own(Arc::new(Mutex::new(Stream::default()))))
    }

    /// Draws from the stream, alone.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Stream) -> T) -> T {
        match &self.0 {
            Source::Default => draw(DEFAULT.lock().get_or_insert_with(Stream::default)),
            Source::Own(stream) => draw(&mut stream.lock().unwrap_or_else(PoisonError::into_inner)),
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
