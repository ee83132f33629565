//! Tasks that run beside their caller: `fork` gives a future at once, `wait` gives what the task returned.
//!
//! Tasks may block and may fork and wait themselves, so they have threads of their own instead of the pool's workers. Nested
//! waits cannot starve, however few threads there are: who waits for a task that nobody has begun runs it himself, so a
//! sleeping thread always waits for one that is at work. `future` is one task's state, `executor` the queue and the threads,
//! `waits` finds circles of tasks that wait for each other.

mod executor;
mod future;
mod waits;

pub use executor::{close, fork};
pub use future::{Future, Progress};

#[cfg(test)]
mod tests;
