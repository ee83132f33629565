//! Tasks that run concurrently with their caller: `fork()` returns a future at once, and `wait()` returns what the task
//! returned.
//!
//! Tasks may block and may fork and wait themselves, so they have threads of their own instead of the pool's workers.
//! Nested waits cannot starve, however few threads there are: a thread that waits for a task that has not begun runs it
//! itself, so a sleeping thread always waits for a running task. `future` is one task's state, `executor` the queue and
//! the threads, and `deadlock` finds cycles of tasks that wait for each other.

mod deadlock;
mod executor;
mod future;

pub use executor::{close, fork};
pub use future::{Future, Progress};

#[cfg(test)]
mod tests;
