//! Which thread sleeps for which. A cycle would sleep forever, so the wait that would close it is an error.

use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::sync;
use rushlight_core::sync::atomic::{AtomicU64, Ordering};

sync::statics! {
    /// Pairs of a sleeping thread and the one that runs what it waits for.
    static WAITS: ForkMutex<Vec<(u64, u64)>> = ForkMutex::new(Rank::Tables, Vec::new());
    static NEXT: AtomicU64 = AtomicU64::new(1);
}

sync::thread_local! {
    static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// A number that identifies this thread, never zero.
pub(crate) fn this_thread() -> u64 {
    NUMBER.with(|number| *number)
}

#[derive(Debug)]
pub(crate) struct Deadlock;

/// Records that this thread sleeps, until it is dropped.
pub(crate) struct Waiting(u64);

pub(crate) fn begin(runner: u64) -> Result<Waiting, Deadlock> {
    let own = this_thread();
    let mut waits = WAITS.lock();
    let mut next = runner;
    while next != own {
        match waits.iter().find(|(sleeper, _)| *sleeper == next) {
            Some((_, other)) => next = *other,
            None => {
                waits.push((own, runner));
                return Ok(Waiting(own));
            }
        }
    }
    Err(Deadlock)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.lock().retain(|(sleeper, _)| *sleeper != self.0);
    }
}

/// A forked child has none of the sleeping threads.
pub(crate) fn forget() {
    WAITS.lock().clear();
}
