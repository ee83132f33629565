//! Cumulative results along a dimension: each element is the accumulation of itself and all before it.
//!
//! Operand and result are contiguous, viewed as `[outer, n, inner]`. Lines are independent and distributed over
//! threads; within one the order is the elements' own, so nothing depends on threads. If `inner` is large, adjacent
//! lines are processed side by side.

use rushlight_par::Address;
use std::ops::Range;

/// The shape of the loops: the number of blocks, of elements along the dimension, and of lines in a block.
#[derive(Clone, Copy)]
pub struct Lines {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

/// Lines that are processed side by side.
pub const ABREAST: usize = 64;

impl Lines {
    /// Calls `body(first element's offset, lines side by side)` for all lines, in parallel.
    pub fn each(self, body: impl Fn(usize, usize) + Sync) {
        // The number of lines without elements may overflow.
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
        // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
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

/// The best element so far and its index; of equal ones the last wins, as in torch.
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
            // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
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
