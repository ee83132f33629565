//! Daemon threads at the end of the process.
//!
//! When the interpreter exits, it ends each daemon thread that asks for the GIL: `pthread_exit` unwinds the thread's stack
//! as if by an exception that no frame may catch. Rust's frames stop such an exception, or release the GIL once more, and
//! both end the process. So a thread that has frames of the engine waits for the end of the process instead, as all daemon
//! threads do from Python 3.14 on.

use std::cell::{Cell, OnceCell, UnsafeCell};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use pyo3::ffi;

use crate::without_gil;

/// What glibc and musl store for a function that `pthread_exit` calls; larger than either needs.
struct Registration(UnsafeCell<MaybeUninit<[usize; 8]>>);

unsafe extern "C" {
    fn _pthread_cleanup_push(registration: *mut c_void, routine: extern "C" fn(*mut c_void), argument: *mut c_void);
}

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
    /// In a box: memory of a thread's own variables may lie above its stack, where the C library would take the function
    /// for one of the thread's first frame.
    static REGISTRATION: OnceCell<Box<Registration>> = const { OnceCell::new() };
}

/// Makes this thread wait instead of being unwound. Called wherever Python code may run below frames of the engine.
#[inline]
pub fn keep_frames() {
    if !REGISTERED.get() {
        register();
    }
}

#[cold]
fn register() {
    REGISTERED.set(true);
    // `pthread_exit` calls the function before the first frame is left, because its registration does not lie on the
    // stack. It is not removed: a thread that returns does not read it.
    let _ = REGISTRATION.try_with(|place| {
        let registration = place.get_or_init(|| Box::new(Registration(UnsafeCell::new(MaybeUninit::uninit()))));
        // SAFETY: the memory lives until the thread's variables are destroyed, when its functions have been called; only
        // the C library uses it.
        unsafe { _pthread_cleanup_push(registration.0.get().cast(), wait_for_the_end, null_mut()) };
    });
}

/// Returns unless the interpreter is exiting: a thread that ends before is unwound as usual.
extern "C" fn wait_for_the_end(_: *mut c_void) {
    // SAFETY: it may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } != 0 {
        return;
    }
    without_gil::end_work();
    loop {
        std::thread::park();
    }
}
