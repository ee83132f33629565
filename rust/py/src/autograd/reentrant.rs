//! Walks within walks: a user's `backward` that calls `.backward()` again.
//!
//! Inside one walk nothing recurses, however deep the graph. A walk that begins within another stands on the same stack,
//! and Python's own limit of recursion does not know how much of it is left.

use std::cell::Cell;

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;

/// Walks within walks that fit on the smallest stack there is, without asking.
const FEW: usize = 8;
/// What must be left for one more walk, and the Python code in it.
const ROOM: usize = 192 << 10;

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The lowest address of this thread's stack, once somebody asked.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// One walk that this thread is in.
pub struct Walk(());

impl Walk {
    pub fn begin() -> PyResult<Walk> {
        let depth = DEPTH.get();
        if depth >= FEW && left() < ROOM {
            return Err(PyRecursionError::new_err(format!(
                "maximum recursion depth exceeded: {depth} backward passes within each other leave no room on the stack\nGive the thread more of it: threading.stack_size(64 << 20) before it starts."
            )));
        }
        DEPTH.set(depth + 1);
        Ok(Walk(()))
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Bytes of the stack below this call.
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

/// Where this thread's stack ends, as the C library knows it; the guard pages count as stack.
fn lowest() -> Option<usize> {
    // SAFETY: the attributes are those of the calling thread, written before they are read, and given back.
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
