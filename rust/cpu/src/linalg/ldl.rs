//! Symmetric matrices as `L D L^T` with Bunch and Kaufman's pivoting: `D` has blocks of one or two rows.
//!
//! The format is LAPACK's. A positive pivot means that step `k` exchanged row `k` with row `pivot - 1`; two equal
//! negative ones mean a block of two, whose second row was exchanged with row `-pivot - 1`.

use faer::mat::{MatMut, MatRef};
use rushlight_core::Result;

use super::{Field, Matrices, Part, PerMatrix, each};

/// Factorises from the lower triangles and sets the elements above to zero. `info` is the position of the first zero
/// block, counted from one, or 0. Hermitian matrices become `L D L^H`.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn ldl<T: Field>(
    count: usize,
    a: Matrices<T>,
    pivots: PerMatrix<i32>,
    info: PerMatrix<i32>,
    hermitian: bool,
) -> Result<()> {
    let n = a.rows;
    each(count, n * n * n / 3, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (mut a, pivots, info) = unsafe { (a.get(index), pivots.get(index), info.get(index)) };
        info[0] = Factor { a: a.as_mut(), hermitian }.run(pivots);
        for j in 1..n {
            a.as_mut().col_mut(j).subrows_mut(0, j).fill(T::default());
        }
        Ok(())
    })
}

/// The element at the mirrored position across the diagonal.
fn transposed_element<T: Field>(element: T, hermitian: bool) -> T {
    if hermitian { element.conjugate() } else { element }
}

struct Factor<'a, T: Field> {
    a: MatMut<'a, T>,
    hermitian: bool,
}

impl<T: Field> Factor<'_, T> {
    fn run(&mut self, pivots: &mut [i32]) -> i32 {
        let n = pivots.len();
        let mut info = 0;
        let mut k = 0;
        while k < n {
            let (pivot, block) = match self.choose(k, n) {
                Some(choice) => choice,
                None => {
                    info = if info == 0 { k as i32 + 1 } else { info };
                    pivots[k] = k as i32 + 1;
                    k += 1;
                    continue;
                }
            };
            let last = k + block - 1;
            if pivot != last {
                self.exchange(k, last, pivot, n);
            }
            if block == 1 {
                self.eliminate_one(k, n);
                pivots[k] = pivot as i32 + 1;
            } else {
                self.eliminate_two(k, n);
                pivots[k..k + 2].fill(-(pivot as i32 + 1));
            }
            k += block;
        }
        info
    }

    /// The element of largest magnitude among positions, with its position.
    fn largest(&self, places: impl Iterator<Item = (usize, usize)>) -> Option<((usize, usize), T::Real)> {
        places.map(|place| (place, self.a[place].size())).reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    /// The row to exchange, and how many rows the block has; `None` if the column is zero.
    fn choose(&self, k: usize, n: usize) -> Option<(usize, usize)> {
        let alpha = T::Real::number((1.0 + 17f64.sqrt()) / 8.0);
        let zero = T::Real::default();
        let own = self.a[(k, k)].size();
        let Some(((row, _), column_max)) = self.largest((k + 1..n).map(|i| (i, k))) else {
            return (own != zero).then_some((k, 1));
        };
        if own == zero && column_max == zero {
            return None;
        }
        if own >= alpha * column_max {
            return Some((k, 1));
        }
        let across = (k..row).map(|j| (row, j)).chain((row + 1..n).map(|i| (i, row)));
        let row_max = self.largest(across).map_or(zero, |(_, size)| size);
        if own >= alpha * column_max * (column_max / row_max) {
            Some((k, 1))
        } else if self.a[(row, row)].size() >= alpha * row_max {
            Some((row, 1))
        } else {
            Some((row, 2))
        }
    }

    fn swap(&mut self, one: (usize, usize), other: (usize, usize)) {
        let held = self.a[one];
        self.a[one] = self.a[other];
        self.a[other] = held;
    }

    /// Exchanges rows and columns `last` and `pivot` of the remainder, in the lower triangle.
    fn exchange(&mut self, k: usize, last: usize, pivot: usize, n: usize) {
        for i in pivot + 1..n {
            self.swap((i, last), (i, pivot));
        }
        for j in last + 1..pivot {
            self.swap((j, last), (pivot, j));
            for place in [(j, last), (pivot, j)] {
                self.a[place] = transposed_element(self.a[place], self.hermitian);
            }
        }
        self.a[(pivot, last)] = transposed_element(self.a[(pivot, last)], self.hermitian);
        self.swap((last, last), (pivot, pivot));
        if last > k {
            self.swap((last, k), (pivot, k));
        }
    }

    /// Makes the block's diagonal real if the matrix is Hermitian.
    fn settle(&mut self, k: usize) {
        if self.hermitian {
            self.a[(k, k)] = T::real(self.a[(k, k)].re());
        }
    }

    fn eliminate_one(&mut self, k: usize, n: usize) {
        self.settle(k);
        let head = self.a[(k, k)];
        for j in k + 1..n {
            let factor = transposed_element(self.a[(j, k)] / head, self.hermitian);
            for i in j..n {
                let step = self.a[(i, k)] * factor;
                self.a[(i, j)] -= step;
            }
        }
        for i in k + 1..n {
            self.a[(i, k)] /= head;
        }
    }

    fn eliminate_two(&mut self, k: usize, n: usize) {
        self.settle(k);
        self.settle(k + 1);
        let block = Block::of(self.a.as_ref(), k, self.hermitian);
        for j in k + 2..n {
            // A row times the inverse block, which is the transposed problem.
            let (x, y) = (self.a[(j, k)], self.a[(j, k + 1)]);
            let (u, v) = Block { below: block.above, above: block.below, ..block }.solve(x, y);
            let (p, q) = (transposed_element(u, self.hermitian), transposed_element(v, self.hermitian));
            for i in j..n {
                let step = self.a[(i, k)] * p + self.a[(i, k + 1)] * q;
                self.a[(i, j)] -= step;
            }
            self.a[(j, k)] = u;
            self.a[(j, k + 1)] = v;
        }
    }
}

/// A block of two rows of `D`, divided by `scale`.
struct Block<T: Field> {
    first: T,
    above: T,
    below: T,
    second: T,
    scale: T::Real,
}

impl<T: Field> Block<T> {
    fn of(a: MatRef<T>, k: usize, hermitian: bool) -> Self {
        let scale = a[(k + 1, k)].size();
        let inverse = T::Real::number(1.0) / scale;
        let below = a[(k + 1, k)].times(inverse);
        Block {
            first: a[(k, k)].times(inverse),
            above: transposed_element(below, hermitian),
            below,
            second: a[(k + 1, k + 1)].times(inverse),
            scale,
        }
    }

    fn solve(&self, x: T, y: T) -> (T, T) {
        let determinant = (self.first * self.second - self.above * self.below).times(self.scale);
        ((self.second * x - self.above * y) / determinant, (self.first * y - self.below * x) / determinant)
    }
}

/// Solves `a x = b` given the result of [`ldl`] for `a`; `b` becomes `x`.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses, the sizes fit, and every pivot is a valid row.
pub unsafe fn ldl_solve<T: Field>(
    count: usize,
    a: Matrices<T>,
    pivots: PerMatrix<i32>,
    b: Matrices<T>,
    hermitian: bool,
) -> Result<()> {
    each(count, a.rows * a.rows * b.cols, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, pivots, b) = unsafe { (a.read(index), pivots.get(index), b.get(index)) };
        solve_one(a, pivots, b, hermitian);
        Ok(())
    })
}

fn solve_one<T: Field>(a: MatRef<T>, pivots: &[i32], mut b: MatMut<T>, hermitian: bool) {
    let n = pivots.len();
    let row_of = |k: usize| (pivots[k].unsigned_abs() as usize).saturating_sub(1).min(n - 1);
    let pairs = |k: usize| pivots[k] < 0;
    for j in 0..b.ncols() {
        let mut x = b.as_mut().col_mut(j);
        let mut k = 0;
        while k < n {
            let block = if pairs(k) && k + 1 < n { 2 } else { 1 };
            let last = k + block - 1;
            let (held, row) = (x[last], row_of(k));
            x[last] = x[row];
            x[row] = held;
            for c in k..k + block {
                for i in k + block..n {
                    let step = a[(i, c)] * x[c];
                    x[i] -= step;
                }
            }
            if block == 1 {
                x[k] /= a[(k, k)];
            } else {
                (x[k], x[k + 1]) = Block::of(a, k, hermitian).solve(x[k], x[k + 1]);
            }
            k += block;
        }
        while k > 0 {
            let block = if k > 1 && pairs(k - 1) && pairs(k - 2) { 2 } else { 1 };
            let last = k - 1;
            for c in k - block..k {
                for i in k..n {
                    let step = transposed_element(a[(i, c)], hermitian) * x[i];
                    x[c] -= step;
                }
            }
            let (held, row) = (x[last], row_of(last));
            x[last] = x[row];
            x[row] = held;
            k -= block;
        }
    }
}
