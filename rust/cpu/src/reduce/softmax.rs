//! Softmax and its logarithm along a dimension, forward and backward, each line while it is in the cache.
//!
//! Operands and result are contiguous, viewed as `[outer, n, inner]`. A line of adjacent elements is vectorised along
//! itself; if `inner` is large, adjacent lines are processed side by side.

use rushlight_par::Address;
use rushlight_simd::multiversion;

use super::cumulative::{ABREAST, Lines};
use crate::float::Float;

pub(crate) const LANES: usize = 32;

#[inline(always)]
pub(crate) fn tree<T: Copy>(mut lanes: [T; LANES], join: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for j in 0..half {
            lanes[j] = join(lanes[j], lanes[j + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// The sum of `f(element)` over `n`, in lanes and blocks, so that the error stays small for long rows.
#[inline(always)]
pub(crate) fn added<T: Float>(n: usize, mut f: impl FnMut(usize) -> T) -> T {
    let zero = T::narrow(0.0);
    let mut total = [zero; LANES];
    let mut i = 0;
    while i + LANES <= n {
        let mut part = [zero; LANES];
        let end = (n - n % LANES).min(i + 16 * LANES);
        while i < end {
            for (j, slot) in part.iter_mut().enumerate() {
                *slot = *slot + f(i.wrapping_add(j));
            }
            i += LANES;
        }
        for (slot, &more) in total.iter_mut().zip(&part) {
            *slot = *slot + more;
        }
    }
    for (j, slot) in total.iter_mut().enumerate().take(n - i) {
        *slot = *slot + f(i.wrapping_add(j));
    }
    tree(total, |a, b| a + b)
}

#[inline(always)]
pub(crate) fn larger<T: Float>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

multiversion! {
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn forward_row<S, T: Float>(to: *mut T, from: *const T, n: usize, log: bool) {
        let lowest = T::narrow(f64::NEG_INFINITY);
        // SAFETY: the caller gives n elements on both sides.
        unsafe {
            let x = |i: usize| from.add(i).read_unaligned();
            let mut tops = [lowest; LANES];
            let whole = n - n % LANES;
            for i in (0..whole).step_by(LANES) {
                for (j, top) in tops.iter_mut().enumerate() {
                    *top = larger(*top, x(i.wrapping_add(j)));
                }
            }
            for (j, top) in tops.iter_mut().enumerate().take(n - whole) {
                *top = larger(*top, x(whole.wrapping_add(j)));
            }
            let top = tree(tops, larger);
            if log {
                let sum = S::log(added(n, |i| S::exp(x(i) - top)));
                for i in 0..n {
                    to.add(i).write_unaligned(x(i) - top - sum);
                }
            } else {
                let sum = added(n, |i| {
                    let e = S::exp(x(i) - top);
                    to.add(i).write_unaligned(e);
                    e
                });
                for i in 0..n {
                    to.add(i).write_unaligned(to.add(i).read_unaligned() / sum);
                }
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// Both hold `n` lines of `abreast` elements, `step` apart.
    unsafe fn forward_lines<S, T: Float>(to: *mut T, from: *const T, n: usize, step: usize, abreast: usize, log: bool) {
        let mut tops = [T::narrow(f64::NEG_INFINITY); ABREAST];
        let mut sums = [T::narrow(0.0); ABREAST];
        // SAFETY: the caller gives n rows of `abreast` elements on both sides.
        unsafe {
            for i in 0..n {
                let row = from.add(i * step);
                for (j, top) in tops.iter_mut().enumerate().take(abreast) {
                    *top = larger(*top, row.add(j).read_unaligned());
                }
            }
            for i in 0..n {
                let (row, out) = (from.add(i * step), to.add(i * step));
                for j in 0..abreast {
                    let e = S::exp(row.add(j).read_unaligned() - tops[j]);
                    if !log {
                        out.add(j).write_unaligned(e);
                    }
                    sums[j] = sums[j] + e;
                }
            }
            if log {
                for sum in &mut sums {
                    *sum = S::log(*sum);
                }
            }
            for i in 0..n {
                let (row, out) = (from.add(i * step), to.add(i * step));
                for j in 0..abreast {
                    let value = if log {
                        row.add(j).read_unaligned() - tops[j] - sums[j]
                    } else {
                        out.add(j).read_unaligned() / sums[j]
                    };
                    out.add(j).write_unaligned(value);
                }
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// All hold `n` elements.
    unsafe fn backward_row<S, T: Float>(to: *mut T, grad: *const T, result: *const T, n: usize, log: bool) {
        // SAFETY: the caller gives n elements on all sides.
        unsafe {
            let (g, y) = (|i: usize| grad.add(i).read_unaligned(), |i: usize| result.add(i).read_unaligned());
            if log {
                let sum = added(n, g);
                for i in 0..n {
                    to.add(i).write_unaligned(g(i) - S::exp(y(i)) * sum);
                }
            } else {
                let sum = added(n, |i| g(i) * y(i));
                for i in 0..n {
                    to.add(i).write_unaligned((g(i) - sum) * y(i));
                }
            }
        }
    }
}

multiversion! {
    /// # Safety
    /// All hold `n` lines of elements, `step` apart.
    unsafe fn backward_lines<S, T: Float>(to: *mut T, grad: *const T, result: *const T, n: usize, step: usize, abreast: usize, log: bool) {
        let mut sums = [T::narrow(0.0); ABREAST];
        // SAFETY: the caller gives n rows of `abreast` elements on all sides.
        unsafe {
            for i in 0..n {
                let (grad, result) = (grad.add(i * step), result.add(i * step));
                for (j, sum) in sums.iter_mut().enumerate().take(abreast) {
                    let g = grad.add(j).read_unaligned();
                    *sum = *sum + if log { g } else { g * result.add(j).read_unaligned() };
                }
            }
            for i in 0..n {
                let (grad, result, to) = (grad.add(i * step), result.add(i * step), to.add(i * step));
                for j in 0..abreast {
                    let (g, y) = (grad.add(j).read_unaligned(), result.add(j).read_unaligned());
                    to.add(j).write_unaligned(if log { g - S::exp(y) * sums[j] } else { (g - sums[j]) * y });
                }
            }
        }
    }
}

/// Softmax, or with `log` its logarithm.
///
/// # Safety
/// Both sides hold the whole shape.
pub unsafe fn forward<T: Float>(lines: Lines, to: *mut T, from: *const T, log: bool) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    // SAFETY: guaranteed by the caller (see `# Safety`).
    lines.each(|first, abreast| unsafe {
        if lines.inner == 1 {
            forward_row::<T>(to.at(first), from.at(first), lines.n, log);
        } else {
            forward_lines::<T>(to.at(first), from.at(first), lines.n, lines.inner, abreast, log);
        }
    });
}

/// The operand's gradient from the result's gradient and the result.
///
/// # Safety
/// All sides hold the whole shape.
pub unsafe fn backward<T: Float>(lines: Lines, to: *mut T, grad: *const T, result: *const T, log: bool) {
    let (to, grad, result) = (Address(to), Address(grad.cast_mut()), Address(result.cast_mut()));
    // SAFETY: guaranteed by the caller (see `# Safety`).
    lines.each(|first, abreast| unsafe {
        let (to, grad, result) = (to.at(first), grad.at(first), result.at(first));
        if lines.inner == 1 {
            backward_row::<T>(to, grad, result, lines.n, log);
        } else {
            backward_lines::<T>(to, grad, result, lines.n, lines.inner, abreast, log);
        }
    });
}
