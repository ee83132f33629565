//! The number of threads, and parallel loops.
//!
//! This is the only crate that uses rayon. Sums are split at multiples of a grain that the caller chooses, not by the
//! number of threads, and combined in a fixed tree, so that they have the same bits for any number of
//! threads; work whose parts are independent may be split by the number of threads. The calling thread starts at once and takes part; helpers
//! that wake too late find nothing left and are not waited for.
//!
//! `threads` has the count, `pool` owns the workers and survives `fork()`, `job` runs one loop, `inside` notices loops within loops, `denormals` makes the
//! floating-point flags equal on all threads, and `address` is an address that they share.

#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

mod address;
mod denormals;
mod inside;
mod job;
mod pool;
mod threads;

use std::cell::UnsafeCell;
use std::ops::Range;

pub use address::Address;
pub use denormals::set_flush_denormal;
pub use threads::{cores, num_threads, set_group, set_num_threads};

/// Whether this thread already runs inside a parallel loop; a nested loop runs inline.
pub fn in_parallel_region() -> bool {
    inside::is_inside()
}

/// Runs `f` over `0..len`, split at multiples of `grain`, on as many threads as there are.
///
/// Every call of `f` gets exactly one piece, also when everything runs on one thread.
pub fn parallel_for(len: usize, grain: usize, f: impl Fn(Range<usize>) + Sync) {
    let grain = grain.max(1);
    if len <= grain {
        if len > 0 {
            f(0..len);
        }
        return;
    }
    parallel_tasks(len.div_ceil(grain), |piece| f(bounds(piece, len, grain)));
}

/// `parallel_for` whose pieces may fail: returns the first error in the order of the pieces. All pieces run in any
/// case.
pub fn try_parallel_for<E: Send>(
    len: usize,
    grain: usize,
    f: impl Fn(Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    parallel_reduce(len, grain, f, Result::and).unwrap_or(Ok(()))
}

/// Maps the pieces of `0..len` and combines the values as a binary tree over neighbours, whose shape depends only on
/// `len` and `grain`. `None` for an empty range.
pub fn parallel_reduce<T: Send>(
    len: usize,
    grain: usize,
    map: impl Fn(Range<usize>) -> T + Sync,
    combine: impl Fn(T, T) -> T,
) -> Option<T> {
    let grain = grain.max(1);
    if len <= grain {
        return (len > 0).then(|| map(0..len));
    }
    let pieces = len.div_ceil(grain);
    let slots = Slots((0..pieces).map(|_| UnsafeCell::new(None)).collect());
    parallel_tasks(pieces, |piece| {
        let value = map(bounds(piece, len, grain));
        // SAFETY: each piece is claimed by one thread, and the slots are read after all are done.
        unsafe { *slots.place(piece) = Some(value) };
    });
    let mut values: Vec<T> = slots.0.into_iter().filter_map(UnsafeCell::into_inner).collect();
    while values.len() > 1 {
        let mut level = Vec::with_capacity(values.len().div_ceil(2));
        let mut rest = values.into_iter();
        while let Some(left) = rest.next() {
            level.push(match rest.next() {
                Some(right) => combine(left, right),
                None => left,
            });
        }
        values = level;
    }
    values.pop()
}

/// Runs `f(0)` to `f(n - 1)`, in any order and on any thread. A panic in one is propagated to the caller; the rest may
/// then be skipped.
pub fn parallel_tasks(n: usize, f: impl Fn(usize) + Sync) {
    let threads = num_threads();
    if threads.min(n) <= 1 || inside::is_inside() {
        (0..n).for_each(f);
        return;
    }
    match pool::workers(threads - 1) {
        Some(pool) => job::run(&pool.mailboxes, |helper| pool.spawn(helper), n, threads.min(n) - 1, &f),
        None => (0..n).for_each(f),
    }
}

fn bounds(piece: usize, len: usize, grain: usize) -> Range<usize> {
    let start = piece * grain;
    start..len.min(start + grain)
}

struct Slots<T>(Vec<UnsafeCell<Option<T>>>);
// SAFETY: `parallel_reduce` writes each slot from one thread only and reads them after the loop.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    fn place(&self, index: usize) -> *mut Option<T> {
        self.0[index].get()
    }
}

#[cfg(test)]
mod tests;
