//! Whether this thread holds the interpreter's lock, known without asking the interpreter.
//!
//! A thread that comes from Python holds it. Here it is released around long work and taken again where the engine calls
//! Python, so both directions go through this file.
//!
//! Work without the lock reads the geometry of tensors that other threads know too. Whoever replaces a tensor's geometry
//! (`set_`, `resize_`, `.data =`) therefore holds the lock and waits until nobody works without it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use rushlight::Result;
use rushlight_core::fork::ChildHook;

use crate::errors::carry;

thread_local! {
    static DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// How many threads are in work that runs without the lock. Changed by threads that hold it.
static WORKING: AtomicUsize = AtomicUsize::new(0);
/// How many threads wait until nobody is. Meanwhile nobody else begins, or they might wait for ever.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Whether the lock was released by `release` on this thread.
#[inline]
pub fn is_detached() -> bool {
    DETACHED.get()
}

/// Says that this thread works without the lock, or no longer does, until the guard is dropped, also by a panic.
struct Flag(bool);

impl Flag {
    fn set(detached: bool) -> Flag {
        Flag(Flag::turn(detached))
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
}

impl Drop for Flag {
    fn drop(&mut self) {
        Flag::turn(self.0);
    }
}

pub static IN_CHILD: ChildHook = ChildHook::new(forget_threads);

/// In a forked child the other threads' work does not exist.
fn forget_threads() {
    WORKING.store(usize::from(is_detached()), Ordering::Release);
    WAITING.store(0, Ordering::Release);
}

/// Waits until no other thread works without the lock, and returns holding it. Whoever works without it itself does not come
/// here: two that waited for each other would wait for ever.
pub fn wait_until_alone() {
    debug_assert!(!is_detached(), "geometry is replaced with the lock");
    if WORKING.load(Ordering::Acquire) == 0 {
        return;
    }
    WAITING.fetch_add(1, Ordering::AcqRel);
    // SAFETY: not detached, so this thread came from Python and holds the lock.
    let py = unsafe { Python::assume_attached() };
    while WORKING.load(Ordering::Acquire) > 0 {
        py.detach(|| std::thread::sleep(Duration::from_micros(50)));
    }
    WAITING.fetch_sub(1, Ordering::AcqRel);
}

/// Work that stays on this thread although the lock is released around it.
struct Here<T>(T);
// SAFETY: `release` runs the work on the calling thread; nothing moves.
unsafe impl<T> Send for Here<T> {}

/// Waits without the interpreter's lock for what other threads do. The wait touches no tensor, so a thread that replaces
/// geometry need not wait for its end, which may depend on that very thread.
pub fn idle<T>(py: Python<'_>, wait: impl FnOnce() -> T) -> T {
    let wait = Here(wait);
    py.detach(move || {
        let wait = wait;
        Here((wait.0)())
    })
    .0
}

/// Runs `work` without the interpreter's lock, unless somebody waits for the end of such work.
pub fn release<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    if WAITING.load(Ordering::Acquire) > 0 {
        return work();
    }
    // Set before the lock goes and cleared after it is back: a call's geometry stays from its checks to its kernel.
    let _flag = Flag::set(true);
    idle(py, work)
}

/// Runs `body` with the interpreter's lock, from wherever the engine is.
pub fn acquire<T>(body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    attached(body).map_err(carry)
}

/// The same for a body that keeps its errors.
pub fn attached<T>(body: impl FnOnce(Python<'_>) -> T) -> T {
    Python::attach(|py| {
        let _flag = Flag::set(false);
        body(py)
    })
}

/// What the engine calls around long kernels.
pub fn while_detached(work: &mut dyn FnMut()) {
    if is_detached() {
        return work();
    }
    // SAFETY: kernels are called from Python's side of this thread, which holds the lock unless `release` gave it away.
    let py = unsafe { Python::assume_attached() };
    release(py, work);
}
