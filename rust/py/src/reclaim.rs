//! Python objects that own a tensor's bytes are released only by a thread that holds the GIL.
//!
//! A storage may be dropped on a worker thread, which must neither touch a reference count nor wait for the GIL. So its
//! owner goes into a queue, which is emptied when a tensor object is destroyed and when the interpreter next runs
//! pending calls.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use rushlight_core::fork::{ForkMutex, Rank};

/// A value that must be dropped with the GIL.
pub trait Owned: Send {
    fn end(self: Box<Self>, py: Python<'_>);
}

static QUEUE: ForkMutex<Vec<Box<dyn Owned>>> = ForkMutex::new(Rank::FreeList, Vec::new());
static WAITING: AtomicBool = AtomicBool::new(false);

/// Owns a value until it is dropped, on any thread.
pub struct DeferredDrop(Option<Box<dyn Owned>>);

// SAFETY: nothing accesses the value inside; it is only dropped.
unsafe impl Sync for DeferredDrop {}

impl DeferredDrop {
    pub fn new(owned: impl Owned + 'static) -> DeferredDrop {
        DeferredDrop(Some(Box::new(owned)))
    }
}

impl Drop for DeferredDrop {
    fn drop(&mut self) {
        let Some(owned) = self.0.take() else { return };
        // Thread-local values of the main thread are dropped after the interpreter has ended.
        // SAFETY: may be called at any time.
        if unsafe { ffi::Py_IsInitialized() } == 0 {
            std::mem::forget(owned);
            return;
        }
        QUEUE.lock().push(owned);
        if !WAITING.swap(true, Ordering::AcqRel) {
            // SAFETY: may be called from any thread; a full queue is no problem, because destroying tensors empties
            // ours too.
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
pub struct PyHandle(Option<Py<PyAny>>);

impl PyHandle {
    pub fn new(object: Py<PyAny>) -> PyHandle {
        PyHandle(Some(object))
    }

    pub fn get(&self, py: Python<'_>) -> Py<PyAny> {
        self.0.as_ref().map_or_else(|| py.None(), |object| object.clone_ref(py))
    }

    pub fn bind<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.get(py).into_bound(py)
    }

    /// The object's address, for the garbage collector.
    pub fn as_ptr(&self) -> *mut c_void {
        self.0.as_ref().map_or(std::ptr::null_mut(), |object| object.as_ptr().cast())
    }
}

impl Drop for PyHandle {
    fn drop(&mut self) {
        drop(self.0.take().map(DeferredDrop::new));
    }
}

extern "C" fn collect(_: *mut c_void) -> c_int {
    // SAFETY: the interpreter runs pending calls with the GIL.
    drain(unsafe { Python::assume_attached() });
    0
}

/// Drops the queued values.
#[inline]
pub fn drain(py: Python<'_>) {
    if WAITING.load(Ordering::Acquire) {
        empty(py);
    }
}

#[cold]
fn empty(py: Python<'_>) {
    WAITING.store(false, Ordering::Release);
    // Dropping a value may run Python code, which may add to the queue, so the lock is not held.
    let all = std::mem::take(&mut *QUEUE.lock());
    for owned in all {
        owned.end(py);
    }
}
