//! Which thread sleeps for which: a circle would sleep for ever, so the one who would close it gets an error instead.

use std::sync::atomic::{AtomicU64, Ordering};

use rushlight_core::fork::{ForkMutex, Rank};

/// Pairs of a sleeping thread and the one that runs what it waits for.
static WAITS: ForkMutex<Vec<(u64, u64)>> = ForkMutex::new(Rank::Tables, Vec::new());

thread_local! {
    static NUMBER: u64 = {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        NEXT.fetch_add(1, Ordering::Relaxed)
    };
}

/// A number of this thread's own, never zero.
pub(crate) fn this_thread() -> u64 {
    NUMBER.with(|number| *number)
}

#[derive(Debug)]
pub(crate) struct Circle;

/// This thread sleeps until it is dropped.
pub(crate) struct Waiting(u64);

pub(crate) fn begin(runner: u64) -> Result<Waiting, Circle> {
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
    Err(Circle)
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITS.lock().retain(|(sleeper, _)| *sleeper != self.0);
    }
}

/// A forked child has none of the threads that slept.
pub(crate) fn forget() {
    WAITS.lock().clear();
}
