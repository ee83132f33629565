//! Python objects that own a tensor's bytes, let go only by a thread that holds the interpreter's lock.
//!
//! A storage may die on a worker thread, which must neither touch a reference count nor wait for the interpreter. So its
//! owner goes into a queue, which is emptied when a tensor object dies and when the interpreter next looks.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use rushlight_core::fork::{ForkMutex, Rank};

/// Something that must be ended attached.
pub trait Owned: Send {
    fn end(self: Box<Self>, py: Python<'_>);
}

static QUEUE: ForkMutex<Vec<Box<dyn Owned>>> = ForkMutex::new(Rank::FreeList, Vec::new());
static WAITING: AtomicBool = AtomicBool::new(false);

/// Owns something until it is dropped, on whatever thread.
pub struct Keep(Option<Box<dyn Owned>>);

// SAFETY: nobody reaches what is inside; it only waits for its end.
unsafe impl Sync for Keep {}

impl Keep {
    pub fn new(owned: impl Owned + 'static) -> Keep {
        Keep(Some(Box::new(owned)))
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        let Some(owned) = self.0.take() else { return };
        QUEUE.lock().push(owned);
        if !WAITING.swap(true, Ordering::AcqRel) {
            // SAFETY: may be called from any thread; a full queue is no loss, since tensors that die empty ours too.
            unsafe { ffi::Py_AddPendingCall(Some(collect), std::ptr::null_mut()) };
        }
    }
}

impl Owned for Py<PyAny> {
    fn end(self: Box<Self>, py: Python<'_>) {
        self.drop_ref(py);
    }
}

/// A Python object that any thread may drop.
pub struct Held(Option<Py<PyAny>>);

impl Held {
    pub fn new(object: Py<PyAny>) -> Held {
        Held(Some(object))
    }

    pub fn get(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.as_ref().map_or_else(|| py.None(), |object| object.clone_ref(py))
    }

    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.get(py).into_bound(py)
    }

    /// The object's address, for the collector.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ref().map_or(std::ptr::null_mut(), |object| object.as_ptr().cast())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.take().map(Keep::new));
    }
}

extern "C" fn collect(_: *mut c_void) -> c_int {
    // SAFETY: the interpreter calls pending functions attached.
    drain(unsafe { Python::assume_attached() });
    0
}

/// Ends what waits.
#[inline]
pub fn drain(py: Python<'_>) {
    if WAITING.load(Ordering::Acquire) {
        empty(py);
    }
}

#[cold]
fn empty(py: Python<'_>) {
    WAITING.store(false, Ordering::Release);
    // An end may run Python code, which may fill the queue again: never under the lock.
    let all = std::mem::take(&mut *QUEUE.lock());
    for owned in all {
        owned.end(py);
    }
}
