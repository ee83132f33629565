//! Mean and variance in one pass over memory: each block computes its own mean and its squared deviations from it while
//! it is in the cache, and blocks are combined by Chan's formula. Nothing cancels, however large the mean.

use rushlight_core::DType;
use rushlight_simd::{Isa, multiversion};

use super::Fold;
use super::softmax::added;
use crate::float::Float;
use crate::streaming;

/// Count, mean, and the sum of squared deviations.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Moments {
    pub count: f64,
    pub mean: f64,
    pub squares: f64,
}

pub(crate) const NONE: Moments = Moments { count: 0.0, mean: 0.0, squares: 0.0 };

#[inline(always)]
pub(crate) fn merge(a: Moments, b: Moments) -> Moments {
    if b.count == 0.0 {
        return a;
    }
    if a.count == 0.0 {
        return b;
    }
    let count = a.count + b.count;
    let gap = b.mean - a.mean;
    let share = b.count / count;
    let squares = a.squares + b.squares + gap * gap * a.count * share;
    // The difference of two infinite means would be NaN.
    let mean = if gap.is_finite() { a.mean + gap * share } else { a.mean * (1.0 - share) + b.mean * share };
    Moments { count, mean, squares }
}

const BLOCK: usize = 1024;
const LANES: usize = 32;

#[inline(always)]
fn tree<T: Float>(mut lanes: [T; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        for j in 0..half {
            lanes[j] = lanes[j] + lanes[j + half];
        }
        half /= 2;
    }
    lanes[0].wide()
}

/// The moments of `count` numbers from the sums of their distances from a centre near their mean, and of the squares of
/// these.
#[inline(always)]
fn about(centre: f64, count: f64, distances: f64, squares: f64) -> Moments {
    let rest = distances / count;
    Moments { count, mean: centre + rest, squares: squares - distances * rest }
}

/// Whether a sum of squares in single precision may lack squares that were too small for it, or has one that was too
/// large or is not a number.
#[inline(always)]
fn is_doubtful(squares: f64) -> bool {
    const LEAST: f64 = 1e-30;
    !(LEAST..=f64::from(f32::MAX)).contains(&squares)
}

/// The same in double precision: for numbers whose squares single precision cannot hold, and for infinite ones, of which
/// the mean is infinite and the variance NaN.
///
/// # Safety
/// `at(i)` is the address of an element for every `i` below `n`.
#[cold]
#[inline(never)]
unsafe fn exact<T: Float>(n: usize, at: impl Fn(usize) -> *const T) -> Moments {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let value = |i: usize| unsafe { at(i).read_unaligned() }.wide();
    let count = n as f64;
    let first = value(0);
    if (1..n).all(|i| value(i) == first) && first.is_finite() {
        return Moments { count, mean: first, squares: 0.0 };
    }
    let mean = (0..n).map(value).sum::<f64>() / count;
    if !mean.is_finite() {
        let overflow = (0..n).all(|i| value(i).is_finite());
        return Moments { count, mean, squares: if overflow { f64::INFINITY } else { f64::NAN } };
    }
    let (mut rests, mut squares) = (0.0, 0.0);
    for i in 0..n {
        let gap = value(i) - mean;
        rests += gap;
        squares += gap * gap;
    }
    about(mean, count, rests, squares)
}

/// Prefetches the lines of `LANES` elements at any address.
#[inline(always)]
fn fetch<T>(from: *const T) {
    for at in (0..LANES * size_of::<T>()).step_by(streaming::LINE) {
        streaming::prefetch_line(from.cast::<u8>().wrapping_add(at));
    }
}

multiversion! {
    /// # Safety
    /// `acc` is an accumulator of this fold, and `row` holds `n` elements.
    unsafe fn row<S, T: Float>(acc: *mut u8, row: *const u8, n: usize, _first: usize, _numbers: &[f64]) {
        let row = row.cast::<T>();
        let zero = T::narrow(0.0);
        let mut total = NONE;
        // SAFETY: the caller gives n elements and room for an accumulator.
        unsafe {
            for start in (0..n).step_by(BLOCK) {
                let m = BLOCK.min(n - start);
                let row = row.add(start);
                let whole = m - m % LANES;
                let start = row.read_unaligned();
                let mut sums = [zero; LANES];
                for i in (0..whole).step_by(LANES) {
                    for (j, sum) in sums.iter_mut().enumerate() {
                        *sum = *sum + (row.add(i).add(j).read_unaligned() - start);
                    }
                }
                for (j, sum) in sums.iter_mut().enumerate().take(m - whole) {
                    *sum = *sum + (row.add(whole).add(j).read_unaligned() - start);
                }
                let centre = start + T::narrow(tree(sums) / m as f64);
                let (mut rests, mut squares) = ([zero; LANES], [zero; LANES]);
                for i in (0..whole).step_by(LANES) {
                    // This pass reads from the cache; meanwhile the next block is prefetched.
                    fetch(row.wrapping_add(BLOCK + i));
                    for j in 0..LANES {
                        let gap = row.add(i).add(j).read_unaligned() - centre;
                        rests[j] = rests[j] + gap;
                        squares[j] = S::mul_add(gap, gap, squares[j]);
                    }
                }
                for j in 0..m - whole {
                    let gap = row.add(whole).add(j).read_unaligned() - centre;
                    rests[j] = rests[j] + gap;
                    squares[j] = S::mul_add(gap, gap, squares[j]);
                }
                let squares = tree(squares);
                let found = match is_doubtful(squares) {
                    true => exact(m, |i| row.add(i)),
                    false => about(centre.wide(), m as f64, tree(rests), squares),
                };
                total = merge(total, found);
            }
            acc.cast::<Moments>().write_unaligned(total);
        }
    }
}

multiversion! {
    /// # Safety
    /// `accs` are `n` accumulators of this fold, and `data` holds `rows` rows of `n` elements.
    unsafe fn columns<S, T: Float>(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, _first: usize, _numbers: &[f64]) {
        let accs = accs.cast::<Moments>();
        // SAFETY: the caller gives rows of n elements and room for n accumulators.
        unsafe {
            let (wide, some) = (n - n % WIDE, n - n % FEW);
            for start in (0..wide).step_by(WIDE) {
                stripe::<S, T, WIDE>(accs.add(start), data.cast::<T>().add(start), step, rows);
            }
            for start in (wide..some).step_by(FEW) {
                stripe::<S, T, FEW>(accs.add(start), data.cast::<T>().add(start), step, rows);
            }
            for start in some..n {
                stripe::<S, T, 1>(accs.add(start), data.cast::<T>().add(start), step, rows);
            }
        }
    }
}

/// The number of columns side by side whose sums stay in registers.
const WIDE: usize = 64;
/// The same for the remaining columns.
const FEW: usize = 8;
/// The number of their rows that stay in the cache for the second pass, even at a stride of a power of two.
const ROWS: usize = super::TALL;

/// The moments of `N` columns.
///
/// # Safety
/// `data` holds `rows` rows of `N` elements, `step` bytes apart, and there is room for as many accumulators.
#[inline(always)]
unsafe fn stripe<S: Isa, T: Float, const N: usize>(accs: *mut Moments, data: *const T, step: isize, rows: usize) {
    let zero = T::narrow(0.0);
    let mut total = [NONE; N];
    let line = |r: usize| data.wrapping_byte_offset(r as isize * step);
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        let (mut start, mut centre, mut rests, mut squares) = ([zero; N], [zero; N], [zero; N], [zero; N]);
        for (j, start) in start.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`), here and below.
            *start = unsafe { line(first).add(j).read_unaligned() };
        }
        for r in first + 1..first + count {
            for j in 0..N {
                // SAFETY: as above.
                centre[j] = centre[j] + (unsafe { line(r).add(j).read_unaligned() } - start[j]);
            }
        }
        let share = T::narrow(1.0 / count as f64);
        for j in 0..N {
            centre[j] = start[j] + centre[j] * share;
        }
        for r in first..first + count {
            // This pass reads from the cache; meanwhile the next rows are prefetched.
            for at in (0..N * size_of::<T>()).step_by(streaming::LINE) {
                streaming::prefetch_line(line(r + ROWS).cast::<u8>().wrapping_add(at));
            }
            for j in 0..N {
                // SAFETY: as above.
                let gap = unsafe { line(r).add(j).read_unaligned() } - centre[j];
                rests[j] = rests[j] + gap;
                squares[j] = S::mul_add(gap, gap, squares[j]);
            }
        }
        for j in 0..N {
            let found = match is_doubtful(squares[j].wide()) {
                // SAFETY: as above.
                true => unsafe { exact(count, |r| line(first + r).add(j)) },
                false => about(centre[j].wide(), count as f64, rests[j].wide(), squares[j].wide()),
            };
            total[j] = merge(total[j], found);
        }
    }
    for (j, moments) in total.into_iter().enumerate() {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { accs.add(j).write_unaligned(moments) };
    }
}

/// The moments of a run; if not centred, those about zero.
///
/// # Safety
/// The run holds `n` elements.
pub(crate) unsafe fn measured<T: Float>(from: *const T, n: usize, centred: bool) -> Moments {
    let mut found = NONE;
    // SAFETY: the caller gives n elements, and the accumulator is a local variable.
    unsafe {
        if centred {
            row::<T>((&raw mut found).cast(), from.cast(), n, 0, &[]);
        } else {
            found = Moments { count: n as f64, mean: 0.0, squares: squares(from, n).wide() };
        }
    }
    found
}

/// The moments of each column of a row-major matrix.
///
/// # Safety
/// The matrix holds `rows` rows, as wide as there are moments.
pub(crate) unsafe fn measured_columns<T: Float>(to: &mut [Moments], from: *const T, rows: usize) {
    let step = (to.len() * size_of::<T>()) as isize;
    // SAFETY: the caller gives the rows, and `to` holds the accumulators.
    unsafe { columns::<T>(to.as_mut_ptr().cast(), from.cast(), step, rows, to.len(), 0, &[]) };
}

multiversion! {
    /// # Safety
    /// The run holds `n` elements.
    unsafe fn squares<S, T: Float>(from: *const T, n: usize) -> T {
        // SAFETY: the caller gives n elements.
        added(n, |i| unsafe { *from.add(i) * *from.add(i) })
    }
}

/// # Safety
/// Both hold `n` accumulators of this fold.
unsafe fn join(accs: *mut u8, later: *const u8, n: usize) {
    let (accs, later) = (accs.cast::<Moments>(), later.cast::<Moments>());
    for j in 0..n {
        // SAFETY: n accumulators on both sides.
        unsafe { accs.add(j).write_unaligned(merge(accs.add(j).read_unaligned(), later.add(j).read_unaligned())) };
    }
}

/// Parameters: the correction, and whether the root is taken. Results: variance (or its root) and mean.
///
/// # Safety
/// `accs` are `n` accumulators of this fold, and every output has room for as many.
unsafe fn done<T: Float>(outs: *const *mut u8, accs: *const u8, n: usize, count: usize, numbers: &[f64]) {
    let (correction, root) = (numbers.first().copied().unwrap_or(1.0), numbers.get(1).is_some_and(|&flag| flag != 0.0));
    let freedom = (count as f64 - correction).max(0.0);
    for j in 0..n {
        // SAFETY: n accumulators, and room for n results in each output.
        unsafe {
            let moments = accs.cast::<Moments>().add(j).read_unaligned();
            let variance = if count == 0 { f64::NAN } else { moments.squares.max(0.0) / freedom };
            // `max` drops NaN, which an infinite element causes.
            let variance = if moments.squares.is_nan() { f64::NAN } else { variance };
            let spread = if root { variance.sqrt() } else { variance };
            (*outs).cast::<T>().add(j).write_unaligned(T::narrow(spread));
            if numbers.len() > 2 {
                let mean = if count == 0 { f64::NAN } else { moments.mean };
                (*outs.add(1)).cast::<T>().add(j).write_unaligned(T::narrow(mean));
            }
        }
    }
}

/// The variance, and with a third parameter also the mean.
pub fn moments(dtype: DType, with_mean: bool) -> Option<Fold> {
    fn fold<T: Float>(results: usize) -> Fold {
        Fold {
            takes: T::DTYPE,
            gives: [T::DTYPE; 2],
            results,
            width: size_of::<Moments>(),
            indexed: false,
            row: row::<T>,
            columns: columns::<T>,
            stack: super::TALL,
            join,
            done: done::<T>,
            short: None,
        }
    }
    let results = 1 + usize::from(with_mean);
    match dtype {
        DType::F32 => Some(fold::<f32>(results)),
        DType::F64 => Some(fold::<f64>(results)),
        _ => None,
    }
}
