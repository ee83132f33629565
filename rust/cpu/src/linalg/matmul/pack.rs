//! Packed operands: the order in which the innermost loop reads A and B.
//!
//! A packed A keeps its rows (`k` varies fastest); a packed B is divided into panels two vectors wide, each a sequence
//! of rows. A format defines the elements of both:
//!
//! - [`Real`]: one element each, widened to the type of the sums.
//! - [`Interleaved`]: complex numbers as twice as many real columns and steps. A row of A is used as it is in memory,
//!   `re im re im`; each row of B becomes the two rows `(re, im)` and `(-im, re)`, so that the real product of both is
//!   the complex product, laid out as C is.
//! - `Pairs`: two bfloat16 of adjacent `k` in one element.

use super::element::{Format, GemmElement, Source, Sum};
use super::kernel::{a_stride, k_steps};
use num_complex::Complex;
use std::marker::PhantomData;

/// Copies a block so that its columns become adjacent: `dst[i][j] = src[i][j]`, widened.
///
/// # Safety
/// `src` covers `rows` by `cols` and `dst` rows at distance `dst_stride`; `AVX` is true only with AVX.
#[inline(always)]
unsafe fn copy_block<T: GemmElement, const AVX: bool>(
    src: &Source<T>,
    rows: usize,
    cols: usize,
    dst: *mut T::Sum,
    dst_stride: usize,
) {
    // SAFETY: guaranteed by the caller (see `# Safety`) covers every access.
    unsafe {
        if src.col_stride == 1 {
            for i in 0..rows {
                copy_row(src.row(i), dst.add(i * dst_stride), cols);
            }
        } else if src.row_stride == 1 {
            let load = |i: usize, j: usize| (*src.ptr.offset(i as isize + j as isize * src.col_stride)).widen();
            transpose_block::<T::Sum, AVX>(load, rows, cols, dst, dst_stride);
        } else {
            for i in 0..rows {
                let (from, to) = (src.row(i), dst.add(i * dst_stride));
                for j in 0..cols {
                    *to.add(j) = (*from.offset(j as isize * src.col_stride)).widen();
                }
            }
        }
    }
}

/// Copies and widens adjacent elements, in runs that pass through registers, so that the compiler need not prove that
/// `src` and `dst` do not overlap.
///
/// # Safety
/// Both cover `len` elements.
#[inline(always)]
unsafe fn copy_row<T: GemmElement>(src: *const T, dst: *mut T::Sum, len: usize) {
    const RUN: usize = 16;
    let whole = len - len % RUN;
    // SAFETY: guaranteed by the caller (see `# Safety`); a run ends before `whole`.
    unsafe {
        for j in (0..whole).step_by(RUN) {
            let from = src.add(j).cast::<[T; RUN]>().read();
            let mut run = [T::Sum::ZERO; RUN];
            for l in 0..RUN {
                run[l] = from[l].widen();
            }
            dst.add(j).cast::<[T::Sum; RUN]>().write(run);
        }
        for j in whole..len {
            *dst.add(j) = (*src.add(j)).widen();
        }
    }
}

/// `dst[i][j] = load(i, j)` for matrices in which adjacent `i` are adjacent in memory.
///
/// # Safety
/// `dst` covers `rows` by `cols` at `dst_stride`; `AVX` is true only with AVX.
#[inline(always)]
unsafe fn transpose_block<E: Copy, const AVX: bool>(
    load: impl Fn(usize, usize) -> E,
    rows: usize,
    cols: usize,
    dst: *mut E,
    dst_stride: usize,
) {
    let side = match (AVX && cfg!(target_arch = "x86_64"), size_of::<E>()) {
        (true, 4) => 8,
        (true, 8) => 4,
        _ => 1,
    };
    let (whole_rows, whole_cols) = (rows - rows % side, cols - cols % side);
    // SAFETY: guaranteed by the caller (see `# Safety`); the casts are between plain words of one size.
    unsafe {
        for j in (0..whole_cols).step_by(side) {
            for i in (0..whole_rows).step_by(side) {
                let to = dst.add(i * dst_stride + j);
                #[cfg(target_arch = "x86_64")]
                if side == 8 {
                    let mut tile = [[0u32; 8]; 8];
                    for (c, row) in tile.iter_mut().enumerate() {
                        for (r, word) in row.iter_mut().enumerate() {
                            *word = std::mem::transmute_copy(&load(i + r, j + c));
                        }
                    }
                    super::x86::transpose8x8(&tile, to.cast(), dst_stride);
                    continue;
                } else if side == 4 {
                    let mut tile = [[0u64; 4]; 4];
                    for (c, row) in tile.iter_mut().enumerate() {
                        for (r, word) in row.iter_mut().enumerate() {
                            *word = std::mem::transmute_copy(&load(i + r, j + c));
                        }
                    }
                    super::x86::transpose4x4(&tile, to.cast(), dst_stride);
                    continue;
                }
                *to = load(i, j);
            }
        }
        for j in 0..cols {
            let done = if j < whole_cols { whole_rows } else { 0 };
            for i in done..rows {
                *dst.add(i * dst_stride + j) = load(i, j);
            }
        }
    }
}

/// Writes zeros to columns `from..to` of `rows` rows.
///
/// # Safety
/// `dst` covers them.
#[inline(always)]
unsafe fn pad<E: Copy>(dst: *mut E, zero: E, rows: usize, from: usize, to: usize) {
    for i in 0..rows {
        for j in from..to {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { *dst.add(i * to + j) = zero };
        }
    }
}

/// Real numbers and integers.
pub struct Real<T>(PhantomData<T>);

impl<T: GemmElement> Format for Real<T> {
    type T = T;
    type Elem = T::Sum;
    type Acc = T::Sum;
    const K_BLOCK: usize = k_steps::<T::Sum>();
    const SUMS_PER_COLUMN: usize = 1;
    const IN_PLACE: bool = T::SUMS_IN_PLACE;

    fn steps(k: usize) -> usize {
        k
    }
    #[inline(always)]
    unsafe fn pack_a<const AVX: bool>(src: &Source<T>, rows: usize, k: usize, dst: *mut T::Sum) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { copy_block::<T, AVX>(src, rows, k, dst, a_stride::<T::Sum>()) }
    }
    #[inline(always)]
    unsafe fn pack_b<const AVX: bool>(src: &Source<T>, k: usize, cols: usize, width: usize, dst: *mut T::Sum) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            copy_block::<T, AVX>(src, k, cols, dst, 2 * width);
            pad(dst, T::Sum::ZERO, k, cols, 2 * width);
        }
    }
}

/// Complex numbers over reals `R`.
pub struct Interleaved<R>(PhantomData<R>);

impl<R: Sum + std::ops::Neg<Output = R>> Format for Interleaved<R>
where
    Complex<R>: GemmElement,
{
    type T = Complex<R>;
    type Elem = R;
    type Acc = R;
    const K_BLOCK: usize = k_steps::<R>() / 2;
    const SUMS_PER_COLUMN: usize = 2;
    const IN_PLACE: bool = false;

    fn steps(k: usize) -> usize {
        2 * k
    }
    #[inline(always)]
    unsafe fn pack_a<const AVX: bool>(src: &Source<Complex<R>>, rows: usize, k: usize, dst: *mut R) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            for i in 0..rows {
                let (from, to) = (src.row(i), dst.add(i * a_stride::<R>()));
                for p in 0..k {
                    let z = *from.offset(p as isize * src.col_stride);
                    *to.add(2 * p) = z.re;
                    *to.add(2 * p + 1) = z.im;
                }
            }
        }
    }
    #[inline(always)]
    unsafe fn pack_b<const AVX: bool>(src: &Source<Complex<R>>, k: usize, cols: usize, width: usize, dst: *mut R) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            for p in 0..k {
                let (from, to) = (src.row(p), dst.add(4 * width * p));
                for j in 0..cols {
                    let z = *from.offset(j as isize * src.col_stride);
                    *to.add(2 * j) = z.re;
                    *to.add(2 * j + 1) = z.im;
                    *to.add(2 * width + 2 * j) = -z.im;
                    *to.add(2 * width + 2 * j + 1) = z.re;
                }
            }
            pad(dst, R::ZERO, 2 * k, 2 * cols, 2 * width);
        }
    }
}

/// bfloat16, two values of `k` in an element, the first in the low half.
#[cfg(target_arch = "x86_64")]
pub struct Pairs;

#[cfg(target_arch = "x86_64")]
impl Format for Pairs {
    type T = half::bf16;
    type Elem = u32;
    type Acc = f32;
    const K_BLOCK: usize = 2 * k_steps::<u32>();
    const SUMS_PER_COLUMN: usize = 1;
    const IN_PLACE: bool = false;

    fn steps(k: usize) -> usize {
        k.div_ceil(2)
    }
    #[inline(always)]
    unsafe fn pack_a<const AVX: bool>(src: &Source<half::bf16>, rows: usize, k: usize, dst: *mut u32) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { pack_pairs(src, rows, k, dst, a_stride::<u32>()) }
    }
    #[inline(always)]
    unsafe fn pack_b<const AVX: bool>(src: &Source<half::bf16>, k: usize, cols: usize, width: usize, dst: *mut u32) {
        // SAFETY: guaranteed by the caller (see `# Safety`); `pair` reads the second of a pair only where it exists.
        unsafe {
            let columns = src.transposed();
            if src.row_stride == 1 {
                let whole = |p: usize, j: usize| columns.row(j).add(2 * p).cast::<u32>().read_unaligned();
                transpose_block::<u32, AVX>(whole, k / 2, cols, dst, 2 * width);
            } else if src.col_stride == 1 {
                for p in 0..k / 2 {
                    let (low, high, to) = (src.row(2 * p), src.row(2 * p + 1), dst.add(2 * width * p));
                    for j in 0..cols {
                        *to.add(j) = pair(*low.add(j), *high.add(j));
                    }
                }
            } else {
                for p in 0..k / 2 {
                    for j in 0..cols {
                        *dst.add(2 * width * p + j) = pair(*src.at(2 * p, j).ptr, *src.at(2 * p + 1, j).ptr);
                    }
                }
            }
            if k % 2 == 1 {
                for j in 0..cols {
                    *dst.add(2 * width * (k / 2) + j) = pair(*src.at(k - 1, j).ptr, half::bf16::ZERO);
                }
            }
            pad(dst, 0, Self::steps(k), cols, 2 * width);
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn pair(low: half::bf16, high: half::bf16) -> u32 {
    low.to_bits() as u32 | (high.to_bits() as u32) << 16
}

/// Rows of pairs: `k` values of each row become `k / 2` elements, an odd last one with a zero.
///
/// # Safety
/// `src` covers `rows` by `k` and `dst` the pairs at distance `dst_stride`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn pack_pairs(src: &Source<half::bf16>, rows: usize, k: usize, dst: *mut u32, dst_stride: usize) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        for i in 0..rows {
            let to = dst.add(i * dst_stride);
            if src.col_stride == 1 {
                std::ptr::copy_nonoverlapping(src.row(i).cast::<u8>(), to.cast::<u8>(), k / 2 * 4);
            } else {
                for p in 0..k / 2 {
                    *to.add(p) = pair(*src.at(i, 2 * p).ptr, *src.at(i, 2 * p + 1).ptr);
                }
            }
            if k % 2 == 1 {
                *to.add(k / 2) = pair(*src.at(i, k - 1).ptr, half::bf16::ZERO);
            }
        }
    }
}
