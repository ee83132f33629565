//! What threads share: the standard library's atomics, locks and threads under one name.
//!
//! Files that name this module instead of `std` can be compiled over another one. `rust/proofs` does so, with primitives whose
//! every order of steps is tried.

pub use std::cell::UnsafeCell;
pub use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError, atomic};
pub use std::{hint, thread, thread_local};

pub use crate::{__const_fn as const_fn, __statics as statics};

/// How often to look before sleeping.
pub const fn rounds(count: usize) -> usize {
    count
}

/// Has every `fork` call these: before it, and after it in the parent and in the child. None of them may unwind.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: functions live as long as the process.
    unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// Values that exist once in a process.
#[doc(hidden)]
#[macro_export]
macro_rules! __statics {
    ($($item:item)*) => { $($item)* };
}

/// A function that statics may call.
#[doc(hidden)]
#[macro_export]
macro_rules! __const_fn {
    ($item:item) => {
        $item
    };
}
