//! A matrix product (BLAS: gemm), and how it is split among threads.

use std::ops::Range;

use rushlight_core::Result;

use super::element::{Combine, GemmElement, Source};

/// Products of fewer multiplications run on one thread.
pub const PARALLEL: usize = 3 << 19;
/// Fewest multiplications worth a task of their own.
pub const TASK: usize = 1 << 18;
/// One product: `c = alpha * a b + beta * addend`.
pub struct Gemm<T: GemmElement> {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub alpha: T::Sum,
    pub a: Source<T>,
    pub b: Source<T>,
    /// `beta`, not zero, and the matrix that it scales.
    pub addend: Option<(T::Sum, Source<T>)>,
    pub c: *mut T,
    pub c_strides: (isize, isize),
}

// SAFETY: the pointers are to operands that the caller of `gemm` keeps alive, and tasks write disjoint tiles.
unsafe impl<T: GemmElement> Sync for Gemm<T> {}

impl<T: GemmElement> Gemm<T> {
    /// The transposed product, `c' = b' a'`.
    pub fn transposed(&self) -> Self {
        Gemm {
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

    pub fn c_at(&self, i: usize, j: usize) -> *mut T {
        self.c.wrapping_offset(i as isize * self.c_strides.0 + j as isize * self.c_strides.1)
    }

    /// The job that writes the tile at `(i, j)` to C.
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

/// The number of threads for a product of `work` multiplications: one inside a batch that is spread over threads.
pub fn threads_for(work: usize) -> usize {
    if work < PARALLEL || rushlight_par::in_parallel_region() { 1 } else { rushlight_par::num_threads() }
}

/// Runs `f` for each task; on this thread alone if `work` is too small for more.
pub fn tasks(count: usize, work: usize, f: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    if count > 1 && work >= PARALLEL {
        rushlight_par::try_parallel_for(count, 1, |mut task| task.try_for_each(&f))
    } else {
        (0..count).try_for_each(f)
    }
}

/// Part `i` of `0..len` split into `count` nearly equal parts.
pub fn part(len: usize, count: usize, i: usize) -> Range<usize> {
    len * i / count..len * (i + 1) / count
}

/// Run `i` of at most `size` in `0..len`.
pub fn part_at(len: usize, size: usize, i: usize) -> Range<usize> {
    len.min(i * size)..len.min((i + 1) * size)
}
