//! The threads that work without the GIL: whether this one does, and how many there are.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that run work without the GIL. Only changed by threads that hold it.
static WORKING: AtomicUsize = AtomicUsize::new(0);

/// Whether this thread works without the GIL.
#[inline]
pub fn is_detached() -> bool {
    DETACHED.get()
}

/// Whether any thread does.
#[inline]
pub fn any() -> bool {
    WORKING.load(Ordering::Acquire) > 0
}

/// Marks whether this thread works without the GIL, until the guard is dropped, also by a panic.
pub struct Flag(bool);

impl Flag {
    pub fn set(detached: bool) -> Flag {
        Flag(turn(detached))
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        turn(self.0);
    }
}

fn turn(detached: bool) -> bool {
    let before = DETACHED.replace(detached);
    match (before, detached) {
        (false, true) => _ = WORKING.fetch_add(1, Ordering::AcqRel),
        (true, false) => _ = WORKING.fetch_sub(1, Ordering::AcqRel),
        _ => {}
    }
    before
}

/// Notes that this thread will never work again.
pub fn end_work() {
    turn(false);
}

/// Notes that the other threads' work does not exist, in a forked child.
pub fn forget_others() {
    WORKING.store(usize::from(is_detached()), Ordering::Release);
}
