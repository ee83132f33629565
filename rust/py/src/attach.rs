//! Tracks whether this thread holds the GIL, without asking the interpreter.
//!
//! A thread that comes from Python holds it. It is released here around long work and acquired again when the engine
//! calls Python, so both directions go through this file.
//!
//! Work without the GIL reads the geometry of tensors that other threads use too. A thread that replaces a tensor's
//! geometry (`set_`, `resize_`, `.data =`) therefore holds the GIL and waits until no thread works without it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use rushlight::Result;
use rushlight_core::fork::{self, ChildHook};

use crate::errors::carry;
use crate::exit;
use crate::without_gil::{self, Flag, is_detached};

/// The number of threads that wait until none works without the GIL. Meanwhile no other thread begins such work, so that
/// the wait ends.
static WAITING: AtomicUsize = AtomicUsize::new(0);

pub static IN_CHILD: ChildHook = ChildHook::new(forget_threads);

/// In a forked child the other threads' work does not exist.
fn forget_threads() {
    without_gil::forget_others();
    WAITING.store(0, Ordering::Release);
}

/// Waits until no other thread works without the GIL, and returns holding it. A thread that itself works without it
/// must not call this: two such threads would wait for each other forever.
pub fn wait_until_alone() {
    debug_assert!(!is_detached(), "geometry is replaced only with the GIL");
    fork::assert_no_lock_held();
    if !without_gil::any() {
        return;
    }
    WAITING.fetch_add(1, Ordering::AcqRel);
    // SAFETY: not detached, so this thread came from Python and holds the GIL.
    let py = unsafe { Python::assume_attached() };
    while without_gil::any() {
        py.detach(|| std::thread::sleep(Duration::from_micros(50)));
    }
    WAITING.fetch_sub(1, Ordering::AcqRel);
}

/// Work that stays on this thread although the GIL is released around it.
struct Here<T>(T);
// SAFETY: `release` runs the work on the calling thread; nothing moves.
unsafe impl<T> Send for Here<T> {}

/// Waits without the GIL for other threads. The wait uses no tensor, so a thread that replaces geometry need not wait
/// for its end, which may depend on that very thread.
pub fn idle<T>(py: Python<'_>, wait: impl FnOnce() -> T) -> T {
    fork::assert_no_lock_held();
    exit::keep_frames();
    let wait = Here(wait);
    py.detach(move || {
        let wait = wait;
        Here((wait.0)())
    })
    .0
}

/// Runs `work` without the GIL, unless a thread waits for the end of such work.
pub fn release<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    if WAITING.load(Ordering::Acquire) > 0 {
        return work();
    }
    // Set before the GIL is released and cleared after it is acquired again: a call's geometry does not change between
    // its checks and its kernel.
    let _flag = Flag::set(true);
    idle(py, work)
}

/// Runs `work` on a thread that does not come from Python.
pub fn on_foreign_thread<T>(work: impl FnOnce() -> T) -> T {
    let _flag = Flag::set(true);
    work()
}

/// Runs `body` with the GIL, from any state of the engine.
pub fn acquire<T>(body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    attached(body).map_err(carry)
}

/// Called during a wait to check for Ctrl-C.
pub fn look() -> Result<()> {
    acquire(|py| py.check_signals())
}

/// `acquire` for a body that handles its own errors.
pub fn attached<T>(body: impl FnOnce(Python<'_>) -> T) -> T {
    fork::assert_no_lock_held();
    exit::keep_frames();
    Python::attach(|py| {
        let _flag = Flag::set(false);
        body(py)
    })
}

/// Called by the engine around long kernels.
pub fn while_detached(work: &mut dyn FnMut()) {
    if is_detached() {
        return work();
    }
    // SAFETY: kernels are called on a thread from Python, which holds the GIL unless `release` released it.
    let py = unsafe { Python::assume_attached() };
    release(py, work);
}
