//! Distances between the rows of matrices, and their gradients. Many distances of one row are computed at once, from the
//! other matrix transposed, so that short rows use whole registers too.

use rushlight_core::Result;
use rushlight_core::alloc::filled;
use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::float::Float;

/// Differences worth a task of their own.
const TASK: usize = 1 << 14;

/// How the differences of two rows become their distance.
#[derive(Clone, Copy)]
pub enum Norm {
    /// How many are not zero; NaN if one is.
    Count,
    Sum,
    Euclid,
    Greatest,
}

impl Norm {
    /// The norm of order `p`, if it has a kernel.
    pub fn of(p: f64) -> Option<Norm> {
        let all = [(0.0, Norm::Count), (1.0, Norm::Sum), (2.0, Norm::Euclid), (f64::INFINITY, Norm::Greatest)];
        all.into_iter().find(|&(order, _)| order == p).map(|(_, norm)| norm)
    }
}

/// Matrices of `rows` and of `others` rows, which are `width` long.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub batch: usize,
    pub rows: usize,
    pub others: usize,
    pub width: usize,
}

impl Sizes {
    /// Calls `work(row, matrix)` for each row of the batch, in parallel.
    fn each(self, work: impl Fn(usize, usize) + Sync) {
        let grain = TASK.div_ceil((self.others * self.width).max(1));
        rushlight_par::parallel_for(self.batch * self.rows, grain, |range| {
            range.for_each(|row| work(row, row / self.rows));
        });
    }
}

/// The distance of each row from each other row of its matrix; `columns` holds the others transposed.
///
/// # Safety
/// All operands are row-major and of these sizes.
pub unsafe fn between<T: Float>(norm: Norm, sizes: Sizes, rows: *const T, columns: *const T, out: *mut T) {
    let (rows, columns, out) = (Address(rows.cast_mut()), Address(columns.cast_mut()), Address(out));
    let Sizes { others, width, .. } = sizes;
    sizes.each(|row, matrix| {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let columns = columns.at(matrix * width * others);
            distances(norm, rows.at(row * width), width, columns, others, 0, out.at(row * others));
        }
    });
}

/// The distance of each row from each row after it, in a batch of matrices.
///
/// # Safety
/// `rows` holds `count` rows of `width` for each matrix, `columns` the same transposed, and `out` has room for each pair.
pub unsafe fn within<T: Float>(
    norm: Norm,
    [batch, count, width]: [usize; 3],
    rows: *const T,
    columns: *const T,
    out: *mut T,
) {
    let (rows, columns, out) = (Address(rows.cast_mut()), Address(columns.cast_mut()), Address(out));
    Sizes { batch, rows: count, others: count, width }.each(|row, matrix| {
        let at = row % count;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let to = out.at(matrix * pairs(count) + pair([at, at + 1], count));
            let columns = columns.at(matrix * width * count);
            distances(norm, rows.at(row * width), width, columns, count, at + 1, to);
        }
    });
}

fn pairs(count: usize) -> usize {
    count * count.saturating_sub(1) / 2
}

/// The position of a pair of rows, the lesser first, among all pairs of `count` rows.
fn pair([lesser, greater]: [usize; 2], count: usize) -> usize {
    lesser * (2 * count - lesser - 1) / 2 + greater - lesser - 1
}

/// The matrices of values that belong to pairs of rows; zeros on their diagonals.
///
/// # Safety
/// `values` holds one for each pair of `count` rows of each matrix.
pub unsafe fn square<T: Float>(values: *const T, batch: usize, count: usize) -> Result<Vec<T>> {
    let mut all = filled(T::narrow(0.0), batch * count * count)?;
    for (matrix, whole) in all.chunks_exact_mut((count * count).max(1)).enumerate() {
        for row in 0..count {
            for other in row + 1..count {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                let value = unsafe { *values.add(matrix * pairs(count) + pair([row, other], count)) };
                whole[row * count + other] = value;
                whole[other * count + row] = value;
            }
        }
    }
    Ok(all)
}

/// The gradients of the rows: for each the sum over the others of its weight times the slope of the norm. The weights are
/// the gradients of the distances, for Euclid's norm divided by the distances.
///
/// # Safety
/// All operands are row-major and of these sizes; `columns` holds the others transposed.
pub unsafe fn gradient<T: Float>(
    norm: Norm,
    sizes: Sizes,
    [weights, rows, columns, distances]: [*const T; 4],
    out: *mut T,
) {
    let [weights, rows, columns, distances] =
        [weights, rows, columns, distances].map(|operand| Address(operand.cast_mut()));
    let out = Address(out);
    let Sizes { others, width, .. } = sizes;
    sizes.each(|row, matrix| {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let columns = columns.at(matrix * width * others);
            let own = [weights.at(row * others).cast_const(), distances.at(row * others)];
            slopes(norm, own, rows.at(row * width), width, columns, others, out.at(row * width));
        }
    });
}

multiversion! {
    /// The distances of one row from those of `count` that begin with `first`.
    ///
    /// # Safety
    /// The row has `width` elements, `columns` as many rows of `count`, and `out` has room.
    unsafe fn distances<S, T: Float>(
        norm: Norm,
        row: *const T,
        width: usize,
        columns: *const T,
        count: usize,
        first: usize,
        out: *mut T,
    ) {
        let zero = T::narrow(0.0);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match norm {
                Norm::Count => {
                    let one = T::narrow(1.0);
                    fold(row, width, columns, count, first, out, |sum, x| sum + if x == zero { zero } else if x.abs() > zero { one } else { x }, |x| x)
                }
                Norm::Sum => fold(row, width, columns, count, first, out, |sum, x| sum + x.abs(), |x| x),
                Norm::Euclid => fold(row, width, columns, count, first, out, |sum, x| sum + x * x, T::root),
                Norm::Greatest => fold(row, width, columns, count, first, out, greater, |x| x),
            }
        }
    }
}

/// The greatest magnitude so far; NaN stays.
#[inline(always)]
#[allow(clippy::eq_op)]
fn greater<T: Float>(greatest: T, x: T) -> T {
    let x = x.abs();
    if (x > greatest) | (x != x) { x } else { greatest }
}

/// # Safety
/// Same as for `distances`.
#[inline(always)]
unsafe fn fold<T: Float>(
    row: *const T,
    width: usize,
    columns: *const T,
    count: usize,
    first: usize,
    out: *mut T,
    add: impl Fn(T, T) -> T + Copy,
    finish: impl Fn(T) -> T + Copy,
) {
    let mut at = first;
    while at < count {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        at += unsafe {
            let (columns, out) = (columns.add(at), out.add(at - first));
            match count - at {
                64.. => fold_some::<T, 64>(row, width, columns, count, out, add, finish),
                16.. => fold_some::<T, 16>(row, width, columns, count, out, add, finish),
                4.. => fold_some::<T, 4>(row, width, columns, count, out, add, finish),
                _ => fold_some::<T, 1>(row, width, columns, count, out, add, finish),
            }
        };
    }
}

/// The distances from the rows at the next columns; returns their number.
///
/// # Safety
/// Same as for `distances`.
#[inline(always)]
unsafe fn fold_some<T: Float, const COLUMNS: usize>(
    row: *const T,
    width: usize,
    columns: *const T,
    count: usize,
    out: *mut T,
    add: impl Fn(T, T) -> T,
    finish: impl Fn(T) -> T,
) -> usize {
    let mut sums = [T::narrow(0.0); COLUMNS];
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        for k in 0..width {
            let (own, others) = (*row.add(k), columns.add(k * count));
            (0..COLUMNS).for_each(|j| sums[j] = add(sums[j], own - *others.add(j)));
        }
        (0..COLUMNS).for_each(|j| out.add(j).write(finish(sums[j])));
    }
    COLUMNS
}

multiversion! {
    /// The gradient of one row from the weights and distances of `count` others.
    ///
    /// # Safety
    /// The row has `width` elements, `columns` as many rows of `count`, and `out` has room for a row.
    unsafe fn slopes<S, T: Float>(
        norm: Norm,
        own: [*const T; 2],
        row: *const T,
        width: usize,
        columns: *const T,
        count: usize,
        out: *mut T,
    ) {
        let zero = T::narrow(0.0);
        // The last case is zero or NaN.
        let signed = |weight: T, x: T| if x > zero { weight } else if x < zero { zero - weight } else { x + zero };
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match norm {
                Norm::Count => (0..width).for_each(|k| out.add(k).write(zero)),
                Norm::Sum => sum_slopes(own, row, width, columns, count, out, |weight, x, _| signed(weight, x)),
                Norm::Euclid => sum_slopes(own, row, width, columns, count, out, |weight, x, _| weight * x),
                Norm::Greatest => sum_slopes(own, row, width, columns, count, out, |weight, x, farthest| {
                    // A distance that is NaN has no farthest elements.
                    match x.abs() == farthest {
                        true => signed(weight, x),
                        false if farthest.wide().is_nan() => farthest,
                        false => zero,
                    }
                }),
            }
        }
    }
}

/// # Safety
/// Same as for `slopes`.
#[inline(always)]
unsafe fn sum_slopes<T: Float>(
    [weights, distances]: [*const T; 2],
    row: *const T,
    width: usize,
    columns: *const T,
    count: usize,
    out: *mut T,
    slope: impl Fn(T, T, T) -> T,
) {
    const LANES: usize = 32;
    let zero = T::narrow(0.0);
    let whole = count - count % LANES;
    for k in 0..width {
        let mut sums = [zero; LANES];
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let (own, others) = (*row.add(k), columns.add(k * count));
            let at = |j: usize| slope(*weights.add(j), own - *others.add(j), *distances.add(j));
            for first in (0..whole).step_by(LANES) {
                (0..LANES).for_each(|j| sums[j] = sums[j] + at(first + j));
            }
            (whole..count).for_each(|j| sums[j - whole] = sums[j - whole] + at(j));
            out.add(k).write(sums.into_iter().fold(zero, |sum, part| sum + part));
        }
    }
}
