//! Whether this thread holds the interpreter's lock, known without asking the interpreter.
//!
//! A thread that comes from Python holds it. Here it is released around long work and taken again where the engine calls
//! Python, so both directions go through this file.

use std::cell::Cell;

use pyo3::prelude::*;
use rushlight::Result;

use crate::errors::carry;

thread_local! {
    static DETACHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the lock was released by `release` on this thread.
#[inline]
pub fn is_detached() -> bool {
    DETACHED.get()
}

/// Sets the flag until the guard is dropped, also by a panic.
struct Flag(bool);

impl Flag {
    fn set(detached: bool) -> Flag {
        Flag(DETACHED.replace(detached))
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        DETACHED.set(self.0);
    }
}

/// Work that stays on this thread although the lock is released around it.
struct Here<T>(T);
// SAFETY: `release` runs the work on the calling thread; nothing moves.
unsafe impl<T> Send for Here<T> {}

/// Runs `work` without the interpreter's lock.
pub fn release<T>(py: Python<'_>, work: impl FnOnce() -> T) -> T {
    let work = Here(work);
    py.detach(move || {
        let work = work;
        let _flag = Flag::set(true);
        Here((work.0)())
    })
    .0
}

/// Runs `body` with the interpreter's lock, from wherever the engine is.
pub fn acquire<T>(body: impl FnOnce(Python<'_>) -> PyResult<T>) -> Result<T> {
    Python::attach(|py| {
        let _flag = Flag::set(false);
        body(py)
    })
    .map_err(carry)
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
