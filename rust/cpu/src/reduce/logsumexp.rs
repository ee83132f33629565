//! The logarithm of a sum of exponentials in one pass: each block is summed relative to its own largest element, and
//! blocks are combined relative to the larger of two.

use rushlight_core::DType;
use rushlight_simd::{Base, Isa, multiversion};

use super::Fold;
use super::softmax::{LANES, tree};
use crate::float::Float;

/// `sum` is in units of `exp(top)`; a sum of zero means that all elements were minus infinity.
#[derive(Clone, Copy)]
#[repr(C)]
struct Sum {
    top: f64,
    sum: f64,
}

#[inline(always)]
fn merge(a: Sum, b: Sum) -> Sum {
    // NaN first: it lasts beside an infinite sum, too.
    if b.sum == 0.0 || a.sum.is_nan() || a.sum == f64::INFINITY && !b.sum.is_nan() {
        return a;
    }
    if a.sum == 0.0 || b.sum.is_nan() || b.sum == f64::INFINITY {
        return b;
    }
    let (high, low) = if b.top > a.top { (b, a) } else { (a, b) };
    Sum { top: high.top, sum: high.sum + low.sum * Base::exp(low.top - high.top) }
}

const BLOCK: usize = 1024;

#[inline(always)]
fn larger<T: Float>(a: T, b: T) -> T {
    if b > a { b } else { a }
}

/// The reference for exponents: the largest element, or zero if that is infinite.
#[inline(always)]
fn anchor<T: Float>(top: T) -> T {
    if top.wide().is_finite() { top } else { T::narrow(0.0) }
}

multiversion! {
    /// # Safety
    /// `acc` is an accumulator of this fold, and `row` holds `n` elements.
    unsafe fn row<S, T: Float>(acc: *mut u8, row: *const u8, n: usize, _first: usize, _numbers: &[f64]) {
        let row = row.cast::<T>();
        let mut total = Sum { top: 0.0, sum: 0.0 };
        // SAFETY: the caller gives n elements and room for an accumulator.
        unsafe {
            for start in (0..n).step_by(BLOCK) {
                let m = BLOCK.min(n - start);
                let whole = m - m % LANES;
                let x = |i: usize| row.add(start).add(i).read_unaligned();
                let mut tops = [T::narrow(f64::NEG_INFINITY); LANES];
                for i in (0..whole).step_by(LANES) {
                    for (j, top) in tops.iter_mut().enumerate() {
                        *top = larger(*top, x(i.wrapping_add(j)));
                    }
                }
                for (j, top) in tops.iter_mut().enumerate().take(m - whole) {
                    *top = larger(*top, x(whole.wrapping_add(j)));
                }
                let top = anchor(tree(tops, larger));
                let mut sums = [T::narrow(0.0); LANES];
                for i in (0..whole).step_by(LANES) {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + S::exp(x(i.wrapping_add(j)) - top);
                    }
                }
                for (j, sum) in sums.iter_mut().enumerate().take(m - whole) {
                    *sum = *sum + S::exp(x(whole.wrapping_add(j)) - top);
                }
                total = merge(total, Sum { top: top.wide(), sum: tree(sums, |a, b| a + b).wide() });
            }
            acc.cast::<Sum>().write_unaligned(total);
        }
    }
}

multiversion! {
    /// # Safety
    /// `accs` are `n` accumulators of this fold, and `data` holds `rows` rows of `n` elements.
    unsafe fn columns<S, T: Float>(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, _first: usize, _numbers: &[f64]) {
        let accs = accs.cast::<Sum>();
        // SAFETY: the caller gives rows of n elements and room for n accumulators.
        unsafe {
            for start in (0..n).step_by(64) {
                let m = 64.min(n - start);
                let line = |r: usize| data.offset(r as isize * step).cast::<T>().add(start);
                let mut tops = [T::narrow(f64::NEG_INFINITY); 64];
                let mut sums = [T::narrow(0.0); 64];
                for r in 0..rows {
                    let line = line(r);
                    for (j, top) in tops.iter_mut().enumerate().take(m) {
                        *top = larger(*top, line.add(j).read_unaligned());
                    }
                }
                for top in &mut tops {
                    *top = anchor(*top);
                }
                for r in 0..rows {
                    let line = line(r);
                    for j in 0..m {
                        sums[j] = sums[j] + S::exp(line.add(j).read_unaligned() - tops[j]);
                    }
                }
                for j in 0..m {
                    accs.add(start + j).write_unaligned(Sum { top: tops[j].wide(), sum: sums[j].wide() });
                }
            }
        }
    }
}

/// # Safety
/// Both hold `n` accumulators of this fold.
unsafe fn join(accs: *mut u8, later: *const u8, n: usize) {
    let (accs, later) = (accs.cast::<Sum>(), later.cast::<Sum>());
    for j in 0..n {
        // SAFETY: n accumulators on both sides.
        unsafe { accs.add(j).write_unaligned(merge(accs.add(j).read_unaligned(), later.add(j).read_unaligned())) };
    }
}

/// # Safety
/// `accs` are `n` accumulators of this fold, and every output has room for as many.
unsafe fn done<T: Float>(outs: *const *mut u8, accs: *const u8, n: usize, _: usize, _: &[f64]) {
    for j in 0..n {
        // SAFETY: n accumulators, and room for n results.
        unsafe {
            let Sum { top, sum } = accs.cast::<Sum>().add(j).read_unaligned();
            (*outs).cast::<T>().add(j).write_unaligned(T::narrow(top + Base::log(sum)));
        }
    }
}

/// `log(sum(exp(x)))`
pub fn log_sum_exp(dtype: DType) -> Option<Fold> {
    fn fold<T: Float>() -> Fold {
        Fold {
            takes: T::DTYPE,
            gives: [T::DTYPE; 2],
            results: 1,
            width: size_of::<Sum>(),
            indexed: false,
            row: row::<T>,
            columns: columns::<T>,
            stack: super::STACK,
            join,
            done: done::<T>,
            short: None,
        }
    }
    match dtype {
        DType::F32 => Some(fold::<f32>()),
        DType::F64 => Some(fold::<f64>()),
        _ => None,
    }
}
