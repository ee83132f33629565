//! Nested backward passes: a user's `backward` that calls `.backward()` again.
//!
//! One backward pass does not recurse, however deep the graph. A nested pass uses the same stack, and Python's
//! recursion limit counts its frames. So after some passes the next one runs on a thread of its own, while its caller
//! waits.

use std::cell::Cell;
use std::thread::{Builder, scope};

use pyo3::exceptions::PyRecursionError;
use pyo3::prelude::*;
use rushlight_autograd::{modes, saved};

use crate::attach::{idle, on_foreign_thread, release};

/// The number of nested passes that fit on the smallest possible stack, without a check.
const FREE_DEPTH: usize = 8;
/// The number of nested passes of one thread, as in torch: few enough for Python's recursion limit.
const MAX_DEPTH: usize = 60;
/// The stack space required for one more pass, and the Python code in it.
const STACK_PER_PASS: usize = 192 << 10;
/// The stack of a thread for nested passes.
const STACK: usize = 16 << 20;
/// The number of nested passes of all threads that wait for each other.
const LIMIT: usize = 10_000;

thread_local! {
    static DEPTH: Cell<Depth> = const { Cell::new(Depth { own: 0, all: 0 }) };
    /// The lowest address of this thread's stack, once it was looked up.
    static LOWEST: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The number of backward passes in which this thread is, and that of all threads that wait for it, too.
#[derive(Clone, Copy)]
struct Depth {
    own: usize,
    all: usize,
}

/// Restores the depth when it is dropped.
struct Guard(Depth);

impl Guard {
    fn enter(depth: Depth) -> Guard {
        Guard(DEPTH.replace(depth))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        DEPTH.set(self.0);
    }
}

/// Runs a backward pass without the GIL, on this thread or, if this one is in many already, on another.
pub fn run<T: Send>(py: Python<'_>, pass: impl FnOnce() -> T + Send) -> PyResult<T> {
    let Depth { own, all } = DEPTH.get();
    if all >= LIMIT {
        return Err(PyRecursionError::new_err(format!(
            "maximum recursion depth exceeded: {all} nested backward passes"
        )));
    }
    if own < MAX_DEPTH && (own < FREE_DEPTH || left() >= STACK_PER_PASS) {
        let _guard = Guard::enter(Depth { own: own + 1, all: all + 1 });
        return Ok(release(py, pass));
    }
    let (modes, hooks) = (modes::current(), saved::hooks());
    let work = move || {
        modes::adopt(modes);
        saved::adopt_hooks(hooks);
        let _guard = Guard::enter(Depth { own: 1, all: all + 1 });
        on_foreign_thread(pass)
    };
    idle(py, || {
        scope(|scope| {
            let builder = Builder::new().name("rushlight-backward".into()).stack_size(STACK);
            builder.spawn_scoped(scope, work).map(|thread| thread.join())
        })
    })
    .map_err(|error| {
        PyRecursionError::new_err(format!(
            "maximum recursion depth exceeded: no thread for backward pass {all} ({error})"
        ))
    })
    .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
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
