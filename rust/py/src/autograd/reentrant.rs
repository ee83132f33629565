//! Nested backward passes: a user's `backward` that calls `.backward()` again.
//!
//! One backward pass does not recurse, however deep the graph. A nested pass uses the same stack, and Python's
//! recursion limit does not take into account how much of it is left.

use std::cell::Cell;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// The number of nested passes that fit on the smallest possible stack, without a check.
const FREE_DEPTH: usize = 8;
/// The stack space required for one more pass, and the Python code in it.
const STACK_PER_PASS: usize = 192 << 10;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The lowest address of this thread's stack, once it was looked up.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// One backward pass in which this thread is.
pub struct ReentrantGuard(());

impl ReentrantGuard {
    pub fn begin() -> PyResult<ReentrantGuard> {
        let depth = DEPTH.get();
        if depth >= FREE_DEPTH && left() < STACK_PER_PASS {
            return Err(PyRecursionError::new_err(format!(
                "maximum recursion depth exceeded: {depth} nested backward passes fill the stack\nCall threading.stack_size(64 << 20) before the thread starts to give it a larger one."
            )));
        }
        DEPTH.set(depth + 1);
        Ok(ReentrantGuard(()))
    }
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The free bytes of the stack below this call.
fn left() -> usize {
    let local = 0u8;
    let here = std::ptr::from_ref(std::hint::black_box(&local)).addr();
    let lowest = LOWEST.get().unwrap_or_else(|| {
        let found = lowest().unwrap_or(0);
        LOWEST.set(Some(found));
        found
    });
    here.saturating_sub(lowest)
}

/// The end of this thread's stack, according to the C library; the guard pages count as stack.
fn lowest() -> Option<usize> {
    // SAFETY: the attributes are those of the calling thread; they are initialised before they are read, and destroyed
    // afterwards.
    unsafe {
        let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return None;
        }
        let (mut address, mut size) = (std::ptr::null_mut(), 0);
        let found = libc::pthread_attr_getstack(attributes.as_ptr(), &mut address, &mut size);
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        (found == 0).then_some(address.addr())
    }
}
