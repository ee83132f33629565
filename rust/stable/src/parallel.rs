//! Loops of a library over the threads of the pool.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rushlight_core::Error;

use crate::errors::export;
use crate::exceptions;

/// The body of a loop: the range `begin..end`, and the loop's context.
type Body = unsafe extern "C" fn(begin: i64, end: i64, context: *mut c_void);

static LOOPS: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The loop that this thread works for, and its number among the threads of that loop.
    static PLACE: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

export! {
    /// The range is split at multiples of `grain`, whatever the number of threads.
    fn torch_parallel_for(begin: i64, end: i64, grain: i64, body: Body, context: *mut c_void) {
        let len = end.checked_sub(begin).and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
        // A grain of 0 makes 64 pieces.
        let grain = usize::try_from(grain).ok().filter(|grain| *grain > 0).unwrap_or(len.div_ceil(64));
        let (function, context) = (body as *const () as usize, context.expose_provenance() as u64);
        let (this, threads) = (LOOPS.fetch_add(1, Ordering::Relaxed), AtomicU32::new(0));
        let before = PLACE.get();
        let done = rushlight_par::try_parallel_for(len, grain, |piece| {
            if PLACE.get().0 != this {
                PLACE.set((this, threads.fetch_add(1, Ordering::Relaxed)));
            }
            let (first, last) = (begin + piece.start as i64, begin + piece.end as i64);
            let function = std::ptr::with_exposed_provenance(function);
            exceptions::call_guarded(function, first as u64, last as u64, context).map_err(Error::from)
        });
        PLACE.set(before);
        done?;
    }

    fn torch_get_num_threads(result: *mut u32) {
        *result = rushlight_par::num_threads() as u32;
    }

    fn torch_get_thread_idx(result: *mut u32) {
        *result = if rushlight_par::in_parallel_region() { PLACE.get().1 } else { 0 };
    }
}
