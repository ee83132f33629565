//! Rows of a table by index, and the sum of gradients for each row.

use std::ops::Range;

use rushlight_core::alloc::filled;
use rushlight_core::dtype::{bf16_, c64, c128, f16_};
use rushlight_core::{DType, Error, Result, dispatch};
use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::linalg::matmul::{GemmElement, Sum};
use crate::streaming::{LINE, prefetch_line};

/// Bytes worth a task of their own.
const TASK: usize = 1 << 15;
/// How many rows ahead are prefetched.
const AHEAD: usize = 8;

/// Copies rows of `width` bytes, `step` bytes apart in the table.
///
/// # Safety
/// Every index is a row of the table, and `output` has room for one row each.
pub unsafe fn take(table: *const u8, step: isize, width: usize, indices: &[i64], output: *mut u8) {
    let (table, output) = (Address(table.cast_mut()), Address(output));
    rushlight_par::parallel_for(indices.len(), TASK.div_ceil(width.max(1)), |range| {
        for i in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let row = table.at(0).wrapping_offset(indices[i] as isize * step);
                std::ptr::copy_nonoverlapping(row, output.at(i * width), width);
            }
        }
    });
}

/// For each row of a table of `rows`: the sum of its gradients, in their order; divided by their number if `averages`.
/// The row `skipped` stays zero.
///
/// # Safety
/// `grads` holds `width` elements for each index, `output` for each row; indices are rows.
pub unsafe fn sum_rows(
    dtype: DType,
    grads: *const u8,
    indices: &[i64],
    output: *mut u8,
    rows: usize,
    width: usize,
    skipped: i64,
    averages: bool,
) -> Result<()> {
    if width == 0 {
        return Ok(()); // with rows of no elements there is nothing to do
    }
    let order = by_row(indices, rows)?;
    dispatch!(dtype, T in [f32, f64, f16_, bf16_, c64, c128, i64, i32, i16, i8, u8] => {
        let (grads, output) = (Address(grads.cast_mut().cast::<T>()), Address(output.cast::<T>()));
        let grain = TASK.div_ceil((width * size_of::<T>()).max(1));
        rushlight_par::parallel_for(rows, grain, |range| {
            let mut rest = &order[order.partition_point(|&at| indices[at] < range.start as i64)..];
            for row in range {
                let (own, later) = rest.split_at(rest.iter().take_while(|&&at| indices[at] == row as i64).count());
                rest = later;
                let own = if row as i64 == skipped { &[][..] } else { own };
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe { sum_row::<T>(grads.at(0), own, output.at(row * width), width, averages) }
            }
        });
    }, else => return Err(Error::unsupported("embedding_backward", dtype)));
    Ok(())
}

/// Bags of rows: how many rows each bag has, the indices of all rows, and their positions among the weights, unless these
/// are all positions in order.
pub struct Bags<'a> {
    pub sizes: &'a [i64],
    pub rows: &'a [i64],
    pub places: Option<&'a [usize]>,
}

/// The sum of each bag's rows, `step` bytes apart in the table, in their order; multiplied with their weights, if given.
/// Sums of half types are rounded once.
///
/// # Safety
/// Indices are rows of `width` elements, each position has a weight, and `output` has room for a row for each bag, which
/// together have as many rows as there are.
pub unsafe fn sum_bags(
    dtype: DType,
    table: *const u8,
    step: isize,
    width: usize,
    bags: &Bags,
    weights: Option<*const u8>,
    output: *mut u8,
) -> Result<()> {
    let mut starts = filled(0usize, bags.sizes.len() + 1)?;
    for (bag, &size) in bags.sizes.iter().enumerate() {
        starts[bag + 1] = starts[bag] + size as usize;
    }
    dispatch!(dtype, T in [f32, f64, f16_, bf16_] => {
        let (table, output) = (Address(table.cast_mut()), Address(output.cast::<T>()));
        let weights = weights.map(|weights| Address(weights.cast_mut().cast::<T>()));
        let average = bags.rows.len() / bags.sizes.len().max(1);
        let grain = TASK.div_ceil((width * size_of::<T>() * average.max(1)).max(1));
        rushlight_par::parallel_for(bags.sizes.len(), grain, |range| {
            let weights = weights.as_ref().map(|weights| weights.at(0).cast_const());
            for bag in range {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    let to = output.at(bag * width);
                    sum_bag::<T>(table.at(0), step, width, bags, starts[bag]..starts[bag + 1], weights, to);
                }
            }
        });
    }, else => return Err(Error::unsupported("embedding_bag", dtype)));
    Ok(())
}

multiversion! {
    /// One bag, a few columns at a time, whose sums stay in registers.
    ///
    /// # Safety
    /// Same as for `sum_bags`; `own` are the rows of the bag.
    unsafe fn sum_bag<S, T: GemmElement>(
        table: *const u8,
        step: isize,
        width: usize,
        bags: &Bags<'_>,
        own: Range<usize>,
        weights: Option<*const T>,
        to: *mut T,
    ) {
        let mut first = 0;
        while first < width {
            let from = table.wrapping_add(first * size_of::<T>());
            // SAFETY: guaranteed by the caller (see `# Safety`); the columns lie within the width.
            first += unsafe {
                let to = to.add(first);
                match width - first {
                    64.. => sum_columns::<T, 64>(from, step, bags, own.clone(), weights, to),
                    16.. => sum_columns::<T, 16>(from, step, bags, own.clone(), weights, to),
                    4.. => sum_columns::<T, 4>(from, step, bags, own.clone(), weights, to),
                    _ => sum_columns::<T, 1>(from, step, bags, own.clone(), weights, to),
                }
            };
        }
    }
}

/// The sums of some columns; returns their number.
///
/// # Safety
/// Same as for `sum_bag`; `from` is the first of the columns in the table.
#[inline(always)]
unsafe fn sum_columns<T: GemmElement, const COLUMNS: usize>(
    from: *const u8,
    step: isize,
    bags: &Bags<'_>,
    own: Range<usize>,
    weights: Option<*const T>,
    to: *mut T,
) -> usize {
    let row = |at: usize| from.wrapping_offset(bags.rows[at] as isize * step).cast::<T>();
    let mut sums = [<T as GemmElement>::Sum::ZERO; COLUMNS];
    for at in own {
        if let Some(&next) = bags.rows.get(at + AHEAD) {
            let next = from.wrapping_offset(next as isize * step);
            (0..COLUMNS * size_of::<T>()).step_by(LINE).for_each(|line| prefetch_line(next.wrapping_add(line)));
        }
        let row = row(at);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match weights {
                None => (0..COLUMNS).for_each(|j| sums[j] = sums[j].plus(row.add(j).read_unaligned().widen())),
                Some(weights) => {
                    let weight = (*weights.add(bags.places.map_or(at, |places| places[at]))).widen();
                    (0..COLUMNS)
                        .for_each(|j| sums[j] = sums[j].plus(row.add(j).read_unaligned().widen().times(weight)));
                }
            }
        }
    }
    for (j, &sum) in sums.iter().enumerate() {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { to.add(j).write(T::narrow(sum)) };
    }
    COLUMNS
}

/// The indices of all gradients, grouped by row in their order. Counting sort, without a table that is longer than the
/// gradients.
fn by_row(indices: &[i64], rows: usize) -> Result<Vec<usize>> {
    let mut order = filled(0usize, indices.len())?;
    if rows > indices.len() {
        order.iter_mut().enumerate().for_each(|(at, place)| *place = at);
        order.sort_unstable_by_key(|&at| (indices[at], at));
        return Ok(order);
    }
    let mut next = filled(0usize, rows + 1)?;
    for &index in indices {
        next[index as usize + 1] += 1;
    }
    for row in 0..rows {
        next[row + 1] += next[row];
    }
    for (at, &index) in indices.iter().enumerate() {
        order[next[index as usize]] = at;
        next[index as usize] += 1;
    }
    Ok(order)
}

multiversion! {
    /// One row of the table, a few columns at a time, whose sums stay in registers.
    ///
    /// # Safety
    /// Same as for `sum_rows`.
    unsafe fn sum_row<S, T: Summed>(grads: *const T, own: &[usize], to: *mut T, width: usize, averages: bool) {
        let mut first = 0;
        while first < width {
            // SAFETY: guaranteed by the caller (see `# Safety`); the columns lie within the width.
            first += unsafe {
                let (grads, to) = (grads.add(first), to.add(first));
                match width - first {
                    32.. => sum_columns_of_grads::<T, 32>(grads, own, to, width, averages),
                    8.. => sum_columns_of_grads::<T, 8>(grads, own, to, width, averages),
                    _ => sum_columns_of_grads::<T, 1>(grads, own, to, width, averages),
                }
            };
        }
    }
}

/// The sums of some columns; returns their number.
///
/// # Safety
/// Same as for `sum_row`; `grads` and `to` begin at the first of the columns.
#[inline(always)]
unsafe fn sum_columns_of_grads<T: Summed, const COLUMNS: usize>(
    grads: *const T,
    own: &[usize],
    to: *mut T,
    width: usize,
    averages: bool,
) -> usize {
    let mut sums = [<T as GemmElement>::Sum::ZERO; COLUMNS];
    for &at in own {
        for (j, sum) in sums.iter_mut().enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            *sum = sum.plus(unsafe { *grads.add(at * width + j) }.widen());
        }
    }
    for (j, &sum) in sums.iter().enumerate() {
        let value = T::narrow(sum);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { to.add(j).write(if averages && own.len() > 1 { value.over(own.len()) } else { value }) };
    }
    COLUMNS
}

/// What the gradients of an embedding are summed and averaged in.
trait Summed: GemmElement + Average {}
impl<T: GemmElement + Average> Summed for T {}

/// Division by a count.
trait Average {
    fn over(self, n: usize) -> Self;
}
macro_rules! average {
    ($($type:ty: |$x:ident, $n:ident| $value:expr;)*) => {$(
        impl Average for $type {
            fn over(self, $n: usize) -> $type { let $x = self; $value }
        }
    )*};
}
average! {
    f32: |x, n| x / n as f32;
    f64: |x, n| x / n as f64;
    f16_: |x, n| f16_::from_f32(x.to_f32() / n as f32);
    bf16_: |x, n| bf16_::from_f32(x.to_f32() / n as f32);
    c64: |x, n| x / n as f32;
    c128: |x, n| x / n as f64;
    i64: |x, n| x / n as i64;
    i32: |x, n| x / n as i32;
    i16: |x, n| x / n as i16;
    i8: |x, n| x / n as i8;
    u8: |x, n| x / n as u8;
}
