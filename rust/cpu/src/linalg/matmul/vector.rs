//! Products with a vector, and with a few rows: bound by reading B once.
//!
//! `dots` is for a B with contiguous columns: running sums in registers, added at the end. `sums` is for a B with
//! contiguous rows: whole rows are scaled and added to the result. Long `k` is split at fixed positions, and the parts
//! are added in order.

use super::element::{GemmElement, Sum, Vector};
use super::kernel::Lanes;

/// The longest run of `k` that one job of `dots` sums, and one of `sums`. The result's bits depend on it.
pub const DOTS_CHUNK: usize = 32768;
pub const SUMS_CHUNK: usize = 256;

/// Room for the sums of any register.
const LANES: usize = 16;

impl<T: GemmElement> Vector<T> {
    /// # Safety
    /// The pointers cover the operands, and `y` the result; the machine has the instructions of `L`.
    #[inline(always)]
    pub unsafe fn dots<L: Lanes<Elem = T::Sum, Acc = T::Sum>>(&self) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let mut j = 0;
            while j + 4 <= self.n {
                self.dots_of::<L, 4>(j);
                j += 4;
            }
            while j < self.n {
                self.dots_of::<L, 1>(j);
                j += 1;
            }
        }
    }

    /// The dot products of each row of `x` with `C` columns of B.
    ///
    /// # Safety
    /// Same as for `dots`.
    #[inline(always)]
    unsafe fn dots_of<L: Lanes<Elem = T::Sum, Acc = T::Sum>, const C: usize>(&self, j: usize) {
        let step = self.b.row_stride;
        let whole = self.k - self.k % (2 * L::WIDTH);
        // SAFETY: as for `dots`; a run of two registers ends before `whole`.
        unsafe {
            for i in 0..self.rows {
                let x = self.x.add(i * self.x_stride);
                // Two registers for each column, because each addition waits for the previous one.
                let mut acc = [[L::zero(); 2]; C];
                for p in (0..whole).step_by(2 * L::WIDTH) {
                    let xs = [L::load(x.add(p)), L::load(x.add(p + L::WIDTH))];
                    for c in 0..C {
                        let column = self.b.at(p, j + c).ptr;
                        for half in 0..2 {
                            let b = run::<T, L>(column.offset((half * L::WIDTH) as isize * step), step);
                            acc[c][half] = L::mul_add(xs[half], b, acc[c][half]);
                        }
                    }
                }
                for c in 0..C {
                    let mut parts = [T::Sum::ZERO; LANES];
                    L::store(acc[c][0], parts.as_mut_ptr(), L::WIDTH, false);
                    L::store(acc[c][1], parts.as_mut_ptr(), L::WIDTH, true);
                    for p in whole..self.k {
                        let part = &mut parts[(p - whole) % L::WIDTH];
                        *part = part.plus((*x.add(p)).times((*self.b.at(p, j + c).ptr).widen()));
                    }
                    *self.y.add(i * self.y_stride + j + c) = parts.into_iter().fold(T::Sum::ZERO, T::Sum::plus);
                }
            }
        }
    }

    /// # Safety
    /// Same as for `dots`.
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

    /// Calls `f` with each column and its offset in B, with a vectorising loop for adjacent columns.
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

/// A register of elements `step` apart, widened.
///
/// # Safety
/// All are readable, and the machine has the instructions of `L`.
#[inline(always)]
unsafe fn run<T: GemmElement, L: Lanes<Elem = T::Sum, Acc = T::Sum>>(src: *const T, step: isize) -> L::V {
    let mut run = [T::Sum::ZERO; LANES];
    // SAFETY: guaranteed by the caller (see `# Safety`). The first loop is known to be contiguous, and vectorises.
    unsafe {
        if step == 1 {
            if T::SUMS_IN_PLACE {
                return L::load(src.cast());
            }
            for l in 0..L::WIDTH {
                run[l] = (*src.add(l)).widen();
            }
        } else {
            for l in 0..L::WIDTH {
                run[l] = (*src.offset(l as isize * step)).widen();
            }
        }
        L::load(run.as_ptr())
    }
}
