//! Running results along a dimension: each element becomes what all before it and itself add up to.
//!
//! Operand and result are contiguous, seen as `[outer, n, inner]`. Lines are independent and shared out; within one the
//! order is the elements' own, so nothing depends on threads. Where `inner` is large, neighbouring lines run abreast.

use rushlight_par::Address;
use std::ops::Range;

/// The shape of a walk: how many blocks, how many elements along the dimension, how many lines in a block.
#[derive(Clone, Copy)]
pub struct Lines {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

/// Lines that run abreast.
pub const ABREAST: usize = 64;

impl Lines {
    /// Calls `body(first element's offset, lines abreast)` for all lines, in parallel.
    pub fn each(self, body: impl Fn(usize, usize) + Sync) {
        // Of lines without an element there may be more than anyone can count.
        if self.n == 0 {
            return;
        }
        let groups = self.inner.div_ceil(ABREAST);
        let work = self.n.max(1) * self.inner.clamp(1, ABREAST);
        let grain = (crate::pointwise::GRAIN / work).max(1);
        rushlight_par::parallel_for(self.outer * groups, grain, |range: Range<usize>| {
            for task in range {
                let (block, group) = (task / groups, task % groups * ABREAST);
                body(block * self.n * self.inner + group, ABREAST.min(self.inner - group));
            }
        });
    }
}

/// Writes `give(state)` after each `state = take(state, x)`.
///
/// # Safety
/// Both sides hold the whole shape.
#[inline]
pub unsafe fn scan<T: Copy, A: Copy + Send + Sync>(
    lines: Lines,
    to: *mut T,
    from: *const T,
    start: A,
    take: impl Fn(A, T) -> A + Sync,
    give: impl Fn(A) -> T + Sync,
) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    lines.each(|first, abreast| {
        // SAFETY: by the caller's word; unaligned because foreign memory may be.
        unsafe {
            if abreast == 1 {
                let mut state = start;
                for i in 0..lines.n {
                    let at = first + i * lines.inner;
                    state = take(state, from.at(at).read_unaligned());
                    to.at(at).write_unaligned(give(state));
                }
                return;
            }
            let mut states = [start; ABREAST];
            for i in 0..lines.n {
                let (to, from) = (to.at(first + i * lines.inner), from.at(first + i * lines.inner));
                for (j, state) in states.iter_mut().enumerate().take(abreast) {
                    *state = take(*state, from.add(j).read_unaligned());
                    to.add(j).write_unaligned(give(*state));
                }
            }
        }
    });
}

/// The best element so far and its place; later equals win, as in torch.
///
/// # Safety
/// All three sides hold the whole shape.
#[inline]
pub unsafe fn scan_best<T: Copy>(
    lines: Lines,
    values: *mut T,
    places: *mut i64,
    from: *const T,
    keeps: impl Fn(T, T) -> bool + Sync,
) {
    let (values, places, from) = (Address(values), Address(places), Address(from.cast_mut()));
    lines.each(|first, abreast| {
        for j in 0..abreast {
            // SAFETY: by the caller's word; unaligned because foreign memory may be.
            unsafe {
                let mut best = (0, if lines.n > 0 { from.at(first + j).read_unaligned() } else { return });
                for i in 0..lines.n {
                    let at = first + j + i * lines.inner;
                    let x = from.at(at).read_unaligned();
                    if !keeps(best.1, x) {
                        best = (i as i64, x);
                    }
                    values.at(at).write_unaligned(best.1);
                    places.at(at).write_unaligned(best.0);
                }
            }
        }
    });
}
