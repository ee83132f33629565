//! Products with a vector, and with a few rows: bound by reading B once.
//!
//! `dots` is for a B whose columns are contiguous: sixteen running sums a column, added at the end.
//! `sums` is for a B whose rows are: whole rows are scaled and added to the result.
//! Long `k` is cut at fixed places, and the parts are added in order.

use super::element::{GemmElement, Sum};
use super::pack::Source;

/// Longest run of `k` that one job sums. Part of the result's bits.
pub const K_CHUNK: usize = 32768;

const LANES: usize = 16;

/// `y = x B` for `rows` rows of `x`, widened and contiguous.
pub struct Vector<T: GemmElement> {
    pub rows: usize,
    pub k: usize,
    pub n: usize,
    pub x: *const T::Sum,
    pub x_stride: usize,
    pub b: Source<T>,
    pub y: *mut T::Sum,
    pub y_stride: usize,
}

pub struct VectorKernels<T: GemmElement> {
    pub dots: unsafe fn(&Vector<T>),
    pub sums: unsafe fn(&Vector<T>),
}

impl<T: GemmElement> Vector<T> {
    /// # Safety
    /// The pointers cover the operands, and `y` the result.
    #[inline(always)]
    pub unsafe fn dots(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut j = 0;
            while j + 4 <= self.n {
                self.dots_of::<4>(j);
                j += 4;
            }
            while j < self.n {
                self.dots_of::<1>(j);
                j += 1;
            }
        }
    }

    /// The dot products of each row of `x` with `C` columns of B.
    ///
    /// # Safety
    /// As for `dots`.
    #[inline(always)]
    unsafe fn dots_of<const C: usize>(&self, j: usize) {
        let step = self.b.row_stride;
        // SAFETY: as for `dots`.
        unsafe {
            let mut columns = [self.b.ptr; C];
            for (c, column) in columns.iter_mut().enumerate() {
                *column = self.b.at(0, j + c).ptr;
            }
            for i in 0..self.rows {
                let x = self.x.add(i * self.x_stride);
                let mut acc = [[T::Sum::ZERO; LANES]; C];
                let whole = self.k - self.k % LANES;
                if step == 1 {
                    for p in (0..whole).step_by(LANES) {
                        for c in 0..C {
                            for l in 0..LANES {
                                let product = (*x.add(p + l)).times((*columns[c].add(p + l)).widen());
                                acc[c][l] = acc[c][l].plus(product);
                            }
                        }
                    }
                } else {
                    for p in (0..whole).step_by(LANES) {
                        for c in 0..C {
                            for l in 0..LANES {
                                let b = (*columns[c].offset((p + l) as isize * step)).widen();
                                acc[c][l] = acc[c][l].plus((*x.add(p + l)).times(b));
                            }
                        }
                    }
                }
                for c in 0..C {
                    for p in whole..self.k {
                        let b = (*columns[c].offset(p as isize * step)).widen();
                        acc[c][p - whole] = acc[c][p - whole].plus((*x.add(p)).times(b));
                    }
                    let mut width = LANES / 2;
                    while width > 0 {
                        for l in 0..width {
                            acc[c][l] = acc[c][l].plus(acc[c][l + width]);
                        }
                        width /= 2;
                    }
                    *self.y.add(i * self.y_stride + j + c) = acc[c][0];
                }
            }
        }
    }

    /// # Safety
    /// As for `dots`.
    #[inline(always)]
    pub unsafe fn sums(&self) {
        // SAFETY: as for `dots`.
        unsafe {
            for i in 0..self.rows {
                let (x, y) = (self.x.add(i * self.x_stride), self.y.add(i * self.y_stride));
                for j in 0..self.n {
                    *y.add(j) = T::Sum::ZERO;
                }
                let mut p = 0;
                while p + 4 <= self.k {
                    let (x0, x1, x2, x3) = (*x.add(p), *x.add(p + 1), *x.add(p + 2), *x.add(p + 3));
                    let (b0, b1, b2, b3) = (self.b.row(p), self.b.row(p + 1), self.b.row(p + 2), self.b.row(p + 3));
                    self.each(|j, at| {
                        let t = (*y.add(j)).plus(x0.times((*b0.offset(at)).widen()));
                        let t = t.plus(x1.times((*b1.offset(at)).widen()));
                        let t = t.plus(x2.times((*b2.offset(at)).widen()));
                        *y.add(j) = t.plus(x3.times((*b3.offset(at)).widen()));
                    });
                    p += 4;
                }
                while p < self.k {
                    let (x0, b0) = (*x.add(p), self.b.row(p));
                    self.each(|j, at| *y.add(j) = (*y.add(j)).plus(x0.times((*b0.offset(at)).widen())));
                    p += 1;
                }
            }
        }
    }

    /// Calls `f` with each column and its offset in B; adjacent columns in a loop that vectorises.
    #[inline(always)]
    fn each(&self, mut f: impl FnMut(usize, isize)) {
        if self.b.col_stride == 1 {
            for j in 0..self.n {
                f(j, j as isize);
            }
        } else {
            for j in 0..self.n {
                f(j, j as isize * self.b.col_stride);
            }
        }
    }
}
