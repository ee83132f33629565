//! One product of matrices: which way it is computed, and the ways of small ones.
//!
//! A few multiplications are three loops. Products with few rows wait for memory and are `vector.rs`'s. All others are cut into
//! tiles by `tiles.rs`. Products with few columns, or a column-major C, are computed as their transposes.

use super::element::{Combine, GemmElement, Job, Sum};
use super::kernel::Kernels;
use super::pack::{Format, Source};
use super::scratch::Scratch;
use super::tiles::WithTiles;
use super::vector::{self, Vector};
use rushlight_par::Address;
use std::ops::Range;

use rushlight_core::Result;

/// Products of fewer multiplications run on one thread.
pub const PARALLEL: usize = 3 << 19;
/// The same for products with a vector, which wait for memory: each multiplication counts for several.
const VECTOR_WEIGHT: usize = 8;
/// Fewest multiplications worth a task of their own.
pub const TASK: usize = 1 << 18;
/// Products of at most this many multiplications skip packing.
const TINY: usize = 128;

/// One product: `c = alpha * a b + beta * addend`.
pub struct One<T: GemmElement> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: T::Sum,
    pub a: Source<T>,
    pub b: Source<T>,
    /// `beta`, not zero, and what it scales.
    pub addend: Option<(T::Sum, Source<T>)>,
    pub c: *mut T,
    pub c_strides: (isize, isize),
}

// SAFETY: the pointers are to operands that the caller of `gemm` keeps alive, and tasks write disjoint tiles.
unsafe impl<T: GemmElement> Sync for One<T> {}

impl<T: GemmElement> One<T> {
    /// The transposed product, `c' = b' a'`.
    fn transposed(&self) -> Self {
        One {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            addend: self.addend.map(|(beta, d)| (beta, d.transposed())),
            c_strides: (self.c_strides.1, self.c_strides.0),
            ..*self
        }
    }

    pub fn work(&self) -> usize {
        self.m.saturating_mul(self.n).saturating_mul(self.k)
    }

    /// # Safety
    /// All pointers cover their matrices, and nothing else uses `c`.
    pub unsafe fn run(&self) -> Result<()> {
        // SAFETY: the caller's promise.
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

    /// The textbook's three loops.
    ///
    /// # Safety
    /// As for `run`.
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

    pub fn c_at(&self, i: usize, j: usize) -> *mut T {
        self.c.wrapping_offset(i as isize * self.c_strides.0 + j as isize * self.c_strides.1)
    }

    /// What writes the tile at `(i, j)` to C.
    pub fn combine(
        &self,
        i: usize,
        j: usize,
        rows: usize,
        cols: usize,
        sums: Option<(*const T::Sum, usize)>,
    ) -> Combine<T> {
        Combine {
            rows,
            cols,
            alpha: self.alpha,
            sums,
            addend: self.addend.map(|(beta, d)| (beta, d.at(i, j))),
            out: self.c_at(i, j),
            out_strides: self.c_strides,
        }
    }
}

/// How many threads a product of so many multiplications may use: inside a batch that is spread over threads, one.
pub fn threads_for(work: usize) -> usize {
    if work < PARALLEL || rushlight_par::in_parallel_region() { 1 } else { rushlight_par::num_threads() }
}

/// Runs `f` for each task; on this thread alone unless `work` repays more.
pub fn tasks(count: usize, work: usize, f: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    if count > 1 && work >= PARALLEL {
        rushlight_par::try_parallel_for(count, 1, |mut task| task.try_for_each(&f))
    } else {
        (0..count).try_for_each(f)
    }
}

/// Part `i` of `0..len` cut into `count` nearly equal parts.
pub fn part(len: usize, count: usize, i: usize) -> Range<usize> {
    len * i / count..len * (i + 1) / count
}

/// A product with few rows.
struct WithVector<'a, T: GemmElement>(&'a One<T>);

impl<T: GemmElement> Job<T> for WithVector<'_, T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()> {
        let p = self.0;
        let Source { row_stride, col_stride, .. } = p.b;
        let dots = p.m > 1 || row_stride.unsigned_abs() <= col_stride.unsigned_abs();
        let kernel = if dots { kernels.vector.dots } else { kernels.vector.sums };
        let k_chunk = if dots { vector::DOTS_CHUNK } else { vector::SUMS_CHUNK };
        let chunks = p.k.div_ceil(k_chunk).max(1);
        let work = p.work().saturating_mul(VECTOR_WEIGHT);
        // Few and wide pieces: narrow ones would read B in short runs.
        let pieces = match threads_for(work) {
            1 => 1,
            threads => (2 * threads).div_ceil(chunks).min(p.n.div_ceil(64)),
        };
        // A row of sums' own type that stands side by side needs no copy.
        let ready = T::SUMS_IN_PLACE && p.m == 1 && p.a.col_stride == 1;
        let (x_len, y_len) = (if ready { 0 } else { p.m * p.k }, p.m * p.n);
        let scratch = Scratch::<T::Sum>::take(x_len + chunks * y_len)?;
        let x = Address(if ready { p.a.ptr.cast_mut().cast() } else { scratch.ptr() });
        let y = Address(scratch.ptr().wrapping_add(x_len));
        // SAFETY: `run` was promised valid operands; the scratch holds x and one y for each chunk.
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

/// Run `i` of at most `size` in `0..len`.
pub fn part_at(len: usize, size: usize, i: usize) -> Range<usize> {
    i * size..len.min((i + 1) * size)
}
