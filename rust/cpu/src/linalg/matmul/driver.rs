//! One product of matrices: the choice of algorithm, and the algorithm for tiny ones.
//!
//! Products of few multiplications are three loops. Products with few rows are bound by memory and are in `vector.rs`.
//! All others are split into tiles by `tiles.rs`. Products with few columns, or a column-major C, are computed as their
//! transposes.

use rushlight_par::Address;

use rushlight_core::Result;

use super::element::{Format, GemmElement, Job, Kernels, Source, Sum, Vector};
use super::gemm::{Gemm, part, part_at, tasks, threads_for};
use super::scratch::Scratch;
use super::tiles::WithTiles;
use super::vector;

/// Products with a vector are bound by memory. Each of their multiplications counts for this many when the number of
/// threads is chosen.
const VECTOR_WEIGHT: usize = 8;
/// Products of at most this many multiplications skip packing.
const TINY: usize = 128;

impl<T: GemmElement> Gemm<T> {
    /// # Safety
    /// All pointers cover their matrices, and nothing else uses `c`.
    pub unsafe fn run(&self) -> Result<()> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            if self.m == 0 || self.n == 0 {
                return Ok(());
            }
            if self.work() <= TINY {
                self.tiny();
                return Ok(());
            }
            let few = |rows: usize, b: &Source<T>| rows == 1 || (rows <= 4 && b.row_stride == 1 && b.col_stride != 1);
            let (wide, tall) = (few(self.m, &self.b), few(self.n, &self.a.transposed()));
            let column_major = self.c_strides.0 == 1 && self.c_strides.1 != 1;
            if wide && (self.m <= self.n || !tall) {
                T::with_kernels(WithVector(self))
            } else if tall {
                T::with_kernels(WithVector(&self.transposed()))
            } else if column_major {
                T::with_kernels(WithTiles(&self.transposed()))
            } else {
                T::with_kernels(WithTiles(self))
            }
        }
    }

    /// Three nested loops.
    ///
    /// # Safety
    /// Same as for `run`.
    unsafe fn tiny(&self) {
        // SAFETY: as for `run`.
        unsafe {
            for i in 0..self.m {
                for j in 0..self.n {
                    let (mut a, mut b) = (self.a.row(i), self.b.at(0, j).ptr);
                    let mut sum = T::Sum::ZERO;
                    for _ in 0..self.k {
                        sum = sum.plus((*a).widen().times((*b).widen()));
                        a = a.wrapping_offset(self.a.col_stride);
                        b = b.wrapping_offset(self.b.row_stride);
                    }
                    sum = self.alpha.times(sum);
                    if let Some((beta, d)) = &self.addend {
                        sum = sum.plus(beta.times((*d.at(i, j).ptr).widen()));
                    }
                    *self.c_at(i, j) = T::narrow(sum);
                }
            }
        }
    }
}

struct WithVector<'a, T: GemmElement>(&'a Gemm<T>);

impl<T: GemmElement> Job<T> for WithVector<'_, T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()> {
        let p = self.0;
        let Source { row_stride, col_stride, .. } = p.b;
        let dots = p.m > 1 || row_stride.unsigned_abs() <= col_stride.unsigned_abs();
        let kernel = if dots { kernels.vector.dots } else { kernels.vector.sums };
        let k_chunk = if dots { vector::DOTS_CHUNK } else { vector::SUMS_CHUNK };
        let chunks = p.k.div_ceil(k_chunk).max(1);
        let work = p.work().saturating_mul(VECTOR_WEIGHT);
        // Few wide pieces: narrow ones would read B in short runs.
        let pieces = match threads_for(work) {
            1 => 1,
            threads => (2 * threads).div_ceil(chunks).min(p.n.div_ceil(64)),
        };
        // A contiguous row of the sums' own type needs no copy.
        let ready = T::SUMS_IN_PLACE && p.m == 1 && p.a.col_stride == 1;
        let (x_len, y_len) = (if ready { 0 } else { p.m * p.k }, p.m * p.n);
        let scratch = Scratch::<T::Sum>::take(x_len + chunks * y_len)?;
        let x = Address(if ready { p.a.ptr.cast_mut().cast() } else { scratch.ptr() });
        let y = Address(scratch.ptr().wrapping_add(x_len));
        // SAFETY: `run`'s contract covers the operands; the scratch holds x and one y for each chunk.
        unsafe {
            for i in 0..if ready { 0 } else { p.m } {
                for q in 0..p.k {
                    *x.at(i * p.k + q) = (*p.a.at(i, q).ptr).widen();
                }
            }
            tasks(chunks * pieces, work, |task| {
                let (chunk, piece) = (task / pieces, task % pieces);
                let (ks, js) = (part_at(p.k, k_chunk, chunk), part(p.n, pieces, piece));
                kernel(&Vector {
                    rows: p.m,
                    k: ks.len(),
                    n: js.len(),
                    x: x.at(ks.start),
                    x_stride: p.k,
                    b: p.b.at(ks.start, js.start),
                    y: y.at(chunk * y_len + js.start),
                    y_stride: p.n,
                });
                Ok(())
            })?;
            for chunk in 1..chunks {
                for i in 0..y_len {
                    *y.at(i) = (*y.at(i)).plus(*y.at(chunk * y_len + i));
                }
            }
            (kernels.combine)(&p.combine(0, 0, p.m, p.n, Some((y.at(0), p.n))));
        }
        Ok(())
    }
}
