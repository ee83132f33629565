//! Triangular and orthogonal factors, in LAPACK's formats, and triangular systems.

use faer::linalg::cholesky::llt::factor as llt;
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve;
use faer::mat::{MatMut, MatRef};
use faer::{Accum, Par};
use rushlight_core::Result;
use rushlight_core::alloc::filled;

use super::{Field, Matrices, Part, PerMatrix, each, with_scratch};

/// Columns that are factorised before the rest of the matrix is updated in one product.
const PANEL: usize = 32;

/// Replaces the lower triangles of Hermitian matrices by their Cholesky factors, and the elements above by zero. `info`
/// is the order of the first minor that is not positive, or 0.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn cholesky<T: Field>(count: usize, a: Matrices<T>, info: PerMatrix<i32>) -> Result<()> {
    let n = a.rows;
    let size = llt::cholesky_in_place_scratch::<T>(n, Par::Seq, Default::default());
    each(count, n * n * n / 3, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (mut a, info) = unsafe { (a.get(index), info.get(index)) };
        // As in LAPACK, imaginary parts on the diagonal do not count, and are zero where the factorisation ends early.
        let real_diagonal = |a: &mut MatMut<T>| (0..n).for_each(|k| a[(k, k)] = T::real(a[(k, k)].re()));
        real_diagonal(&mut a);
        let done = with_scratch(size, |stack| {
            llt::cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default())
        })?;
        info[0] = match done {
            Ok(_) => 0,
            Err(llt::LltError::NonPositivePivot { index }) => index as i32 + 1,
        };
        real_diagonal(&mut a);
        for j in 1..n {
            a.as_mut().col_mut(j).subrows_mut(0, j).fill(T::default());
        }
        Ok(())
    })
}

/// Replaces matrices by `L` (below the diagonal, which is one) and `U`. Step `i` exchanged row `i` with row `pivots[i]
/// - 1`. `info` is the position of the first zero on the diagonal of `U`, counted from one, or 0.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn lu<T: Field>(count: usize, a: Matrices<T>, pivots: PerMatrix<i32>, info: PerMatrix<i32>) -> Result<()> {
    each(count, a.rows * a.cols * a.rows.min(a.cols) / 2, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, pivots, info) = unsafe { (a.get(index), pivots.get(index), info.get(index)) };
        info[0] = lu_one(a, pivots);
        Ok(())
    })
}

fn lu_one<T: Field>(mut a: MatMut<T>, pivots: &mut [i32]) -> i32 {
    let (m, n) = a.shape();
    let mut info = 0;
    for first in (0..pivots.len()).step_by(PANEL) {
        let end = pivots.len().min(first + PANEL);
        for k in first..end {
            let mut pivot = k;
            for i in k + 1..m {
                if a[(i, k)].size() > a[(pivot, k)].size() {
                    pivot = i;
                }
            }
            pivots[k] = pivot as i32 + 1;
            if pivot != k {
                for j in 0..n {
                    let held = a[(k, j)];
                    a[(k, j)] = a[(pivot, j)];
                    a[(pivot, j)] = held;
                }
            }
            let head = a[(k, k)];
            if head.is_zero() {
                info = if info == 0 { k as i32 + 1 } else { info };
                continue;
            }
            for i in k + 1..m {
                a[(i, k)] /= head;
            }
            for j in k + 1..end {
                let factor = a[(k, j)];
                for i in k + 1..m {
                    let step = a[(i, k)] * factor;
                    a[(i, j)] -= step;
                }
            }
        }
        let (left, right) = a.as_mut().subrows_mut(first, m - first).split_at_col_mut(end);
        let (upper, lower) = left.as_ref().subcols(first, end - first).split_at_row(end - first);
        let (mut top, rest) = right.split_at_row_mut(end - first);
        triangular_solve::solve_unit_lower_triangular_in_place(upper, top.as_mut(), Par::Seq);
        matmul(rest, Accum::Add, lower, top.as_ref(), -T::real(T::Real::number(1.0)), Par::Seq);
    }
    info
}

/// Householder reflections that reduce matrices to their triangle `R`: their vectors are stored below the diagonal,
/// where a leading one is omitted, and their factors in `tau`.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn reflections<T: Field>(count: usize, a: Matrices<T>, tau: PerMatrix<T>) -> Result<()> {
    each(count, a.rows * a.cols * a.rows.min(a.cols) * 2, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, tau) = unsafe { (a.get(index), tau.get(index)) };
        reflect_columns(a, tau)
    })
}

fn reflect_columns<T: Field>(mut a: MatMut<T>, tau: &mut [T]) -> Result<()> {
    let (m, n) = a.shape();
    let (mut vector, mut row) = (filled(T::default(), m)?, filled(T::default(), n)?);
    for k in 0..tau.len() {
        let (beta, factor) = reflection(a.as_mut().col_mut(k).subrows_mut(k, m - k));
        tau[k] = factor;
        let vector = &mut vector[k..];
        vector[0] = T::real(T::Real::number(1.0));
        for i in 1..m - k {
            vector[i] = a[(k + i, k)];
        }
        let rest = a.as_mut().submatrix_mut(k, k + 1, m - k, n - k - 1);
        apply(rest, vector, factor.conjugate(), &mut row);
        a[(k, k)] = beta;
    }
    Ok(())
}

/// Replaces a column's tail by the vector whose reflection `1 - tau v v^H`, conjugated, leaves only its head `beta`.
fn reflection<T: Field>(mut column: faer::ColMut<T>) -> (T, T) {
    let zero = T::Real::default();
    let alpha = column[0];
    // Hypotenuses instead of squares avoid overflow.
    let tail = (1..column.nrows()).fold(zero, |sum, i| sum.hypot(column[i].re().hypot(column[i].im())));
    if tail == zero && alpha.im() == zero {
        return (alpha, T::default());
    }
    let norm = tail.hypot(alpha.re().hypot(alpha.im()));
    let beta = if alpha.re() < zero { norm } else { -norm };
    let tau = T::of((beta - alpha.re()) / beta, -alpha.im() / beta);
    let scale = alpha - T::real(beta);
    for i in 1..column.nrows() {
        // A complex quotient squares the divisor, so both sides are scaled near one before.
        let near = |z: T| T::of(z.re() / norm, z.im() / norm);
        column[i] = if T::IS_REAL { column[i] / scale } else { near(column[i]) / near(scale) };
    }
    (T::real(beta), tau)
}

/// Applies `(1 - tau v v^H)` from the left to a matrix; `row` is workspace.
fn apply<T: Field>(to: MatMut<T>, vector: &[T], tau: T, row: &mut [T]) {
    if tau.is_zero() || to.ncols() == 0 {
        return;
    }
    let cols = to.ncols();
    let vector = MatRef::from_column_major_slice(vector, vector.len(), 1);
    let mut row = MatMut::from_row_major_slice_mut(&mut row[..cols], 1, cols);
    let one = T::real(T::Real::number(1.0));
    matmul(row.as_mut(), Accum::Replace, vector.adjoint(), to.as_ref(), one, Par::Seq);
    matmul(to, Accum::Add, vector, row.as_ref(), -tau, Par::Seq);
}

/// Multiplies matrices by the product `Q` of reflections, or by its adjoint, from the left or from the right.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses, and the sizes fit.
pub unsafe fn reflect<T: Field>(
    count: usize,
    vectors: Matrices<T>,
    tau: PerMatrix<T>,
    to: Matrices<T>,
    left: bool,
    adjoint: bool,
) -> Result<()> {
    each(count, to.rows * to.cols * tau.each * 2, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (vectors, tau, to) = unsafe { (vectors.read(index), tau.get(index), to.get(index)) };
        reflect_one(vectors, tau, to, left, adjoint)
    })
}

fn reflect_one<T: Field>(vectors: MatRef<T>, tau: &[T], to: MatMut<T>, left: bool, adjoint: bool) -> Result<()> {
    // From the right it is the transposed problem with conjugate vectors.
    let mut to = if left { to } else { to.transpose_mut() };
    let m = to.nrows();
    let (mut vector, mut row) = (filled(T::default(), m)?, filled(T::default(), to.ncols())?);
    let forwards = left == adjoint;
    for step in 0..tau.len() {
        let k = if forwards { step } else { tau.len() - 1 - step };
        let vector = &mut vector[k..];
        vector[0] = T::real(T::Real::number(1.0));
        for i in 1..m - k {
            let element = vectors[(k + i, k)];
            vector[i] = if left { element } else { element.conjugate() };
        }
        let factor = if adjoint { tau[k].conjugate() } else { tau[k] };
        apply(to.as_mut().subrows_mut(k, m - k), vector, factor, &mut row);
    }
    Ok(())
}

/// The first columns of the product of reflections, as many as `to` has.
fn orthogonal<T: Field>(vectors: MatRef<T>, tau: &[T], mut to: MatMut<T>) -> Result<()> {
    to.fill(T::default());
    for i in 0..to.nrows().min(to.ncols()) {
        to[(i, i)] = T::real(T::Real::number(1.0));
    }
    reflect_one(vectors, tau, to, true, false)
}

/// `a = q r`; `q` has as many columns as `r` has rows. `a` is overwritten.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses, and the sizes fit.
pub unsafe fn qr<T: Field>(count: usize, a: Matrices<T>, q: Option<Matrices<T>>, r: Matrices<T>) -> Result<()> {
    let rank = a.rows.min(a.cols);
    each(count, a.rows * a.cols * rank * 4, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (mut a, mut r) = unsafe { (a.get(index), r.get(index)) };
        let mut tau = filled(T::default(), rank)?;
        reflect_columns(a.as_mut(), &mut tau)?;
        for j in 0..r.ncols() {
            for i in 0..r.nrows() {
                r[(i, j)] = if i <= j && i < rank { a[(i, j)] } else { T::default() };
            }
        }
        match q {
            // SAFETY: as above.
            Some(q) => orthogonal(a.as_ref(), &tau, unsafe { q.get(index) }),
            None => Ok(()),
        }
    })
}

/// Solves `a x = b` for triangular `a`; `b` becomes `x`.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses, and the sizes fit.
pub unsafe fn solve_triangular<T: Field>(
    count: usize,
    a: Matrices<T>,
    b: Matrices<T>,
    upper: bool,
    unit: bool,
) -> Result<()> {
    each(count, a.rows * a.rows * b.cols, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, b) = unsafe { (a.read(index), b.get(index)) };
        match (upper, unit) {
            (false, false) => triangular_solve::solve_lower_triangular_in_place(a, b, Par::Seq),
            (false, true) => triangular_solve::solve_unit_lower_triangular_in_place(a, b, Par::Seq),
            (true, false) => triangular_solve::solve_upper_triangular_in_place(a, b, Par::Seq),
            (true, true) => triangular_solve::solve_unit_upper_triangular_in_place(a, b, Par::Seq),
        }
        Ok(())
    })
}
