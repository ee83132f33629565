//! Singular values and eigenvalues.

use faer::Par;
use faer::diag::DiagMut;
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::svd::{self as thin, ComputeSvdVectors};
use faer::mat::{MatMut, MatRef};
use num_complex::Complex;
use rushlight_core::Result;
use rushlight_core::alloc::filled;

use super::{Field, Matrices, Part, PerMatrix, each, finite, has_nan, schur, with_scratch};

/// A matrix whose squares would overflow or underflow, scaled near one by a power of two, as in LAPACK.
struct Scaled<T: Field> {
    elements: Vec<T>,
    rows: usize,
    /// The factor for its singular values and eigenvalues.
    back: T::Real,
}

impl<T: Field> Scaled<T> {
    /// `None` if the matrix, which is finite, needs no scaling.
    fn of(a: MatRef<T>) -> Result<Option<Self>> {
        Self::by(a, |_| 0)
    }

    /// The same for a matrix of which only the lower triangle is read.
    fn of_triangle(a: MatRef<T>) -> Result<Option<Self>> {
        Self::by(a, |column| column)
    }

    fn by(a: MatRef<T>, first: impl Fn(usize) -> usize) -> Result<Option<Self>> {
        let (rows, cols) = a.shape();
        let first = &first;
        let largest = (0..cols).flat_map(|j| (first(j)..rows).map(move |i| (i, j))).fold(0f64, |largest, at| {
            let element = a[at];
            largest.max(element.re().abs().wide()).max(element.im().abs().wide())
        });
        // Exponents up to `widest` need no scaling; `limit` is that of the largest power of two whose inverse is
        // representable.
        let (widest, limit) = if T::Real::number(1e300).finite() { (458, 1022) } else { (40, 126) };
        let exponent = largest.log2().floor();
        if largest == 0.0 || exponent.abs() <= f64::from(widest) {
            return Ok(None);
        }
        let exponent = exponent.clamp(f64::from(-limit), f64::from(limit));
        let (down, back) = (T::Real::number((-exponent).exp2()), T::Real::number(exponent.exp2()));
        let mut elements = filled(T::default(), rows * cols)?;
        for j in 0..cols {
            for i in first(j)..rows {
                elements[j * rows + i] = a[(i, j)].times(down);
            }
        }
        Ok(Some(Scaled { elements, rows, back }))
    }

    fn matrix(&self) -> MatRef<'_, T> {
        MatRef::from_column_major_slice(&self.elements, self.rows, self.elements.len() / self.rows)
    }
}

/// `a = u diag(s) vh`; all NaN for a matrix with an infinite element. `info` is 0, -1 for a matrix with NaN, 1 if the
/// iteration does not converge.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses; `s` has a number for each singular value, `u` and `vh` are
/// thin or full.
pub unsafe fn svd<T: Field>(
    count: usize,
    a: Matrices<T>,
    s: PerMatrix<T::Real>,
    vectors: Option<(Matrices<T>, Matrices<T>)>,
    info: PerMatrix<i32>,
) -> Result<()> {
    let wanted = match vectors {
        None => ComputeSvdVectors::No,
        Some((u, vh)) if u.cols == a.rows && vh.rows == a.cols => ComputeSvdVectors::Full,
        Some(_) => ComputeSvdVectors::Thin,
    };
    let size = thin::svd_scratch::<T>(a.rows, a.cols, wanted, wanted, Par::Seq, Default::default());
    each(count, a.rows * a.cols * a.rows.min(a.cols) * 8, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, s, info) = unsafe { (a.read(index), s.get(index), info.get(index)) };
        if !finite(a) {
            let nan = T::Real::number(f64::NAN);
            info[0] = -i32::from(has_nan(a));
            s.fill(nan);
            if let Some((u, vh)) = vectors {
                // SAFETY: as above.
                for mut vectors in unsafe { [u.get(index), vh.get(index)] } {
                    vectors.fill(T::of(nan, nan));
                }
            }
            return Ok(());
        }
        let scaled = Scaled::of(a)?;
        let a = scaled.as_ref().map_or(a, Scaled::matrix);
        // faer stores singular values in the matrices' own type.
        let mut values = filled(T::default(), s.len())?;
        let (mut u, mut v) = match vectors {
            // SAFETY: as above.
            Some((u, vh)) => unsafe { (Some(u.get(index)), Some(vh.transposed().get(index))) },
            None => (None, None),
        };
        // faer writes only the non-zero elements of a tall matrix's full vectors.
        for vectors in [&mut u, &mut v].into_iter().flatten() {
            vectors.fill(T::default());
        }
        let done = with_scratch(size, |stack| {
            let to = DiagMut::from_slice_mut(&mut values);
            thin::svd(a, to, u, v.as_mut().map(MatMut::as_mut), Par::Seq, stack, Default::default())
        })?;
        if let Some(v) = v {
            conjugate(v);
        }
        for (to, from) in s.iter_mut().zip(values) {
            *to = scaled.as_ref().map_or(from.re(), |scaled| from.re() * scaled.back);
        }
        info[0] = i32::from(done.is_err());
        Ok(())
    })
}

fn conjugate<T: Field>(mut matrix: MatMut<T>) {
    if T::IS_REAL {
        return;
    }
    for j in 0..matrix.ncols() {
        for i in 0..matrix.nrows() {
            matrix[(i, j)] = matrix[(i, j)].conjugate();
        }
    }
}

/// The operands and results of [`eigh`].
pub struct Symmetric<T: Field> {
    /// Only the lower triangles are read.
    pub a: Matrices<T>,
    pub values: PerMatrix<T::Real>,
    pub vectors: Option<Matrices<T>>,
}

/// Eigenvalues of Hermitian matrices in ascending order. All NaN for a matrix that is not finite.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn eigh<T: Field>(count: usize, on: Symmetric<T>, info: PerMatrix<i32>) -> Result<()> {
    let Symmetric { a, values, vectors } = on;
    let n = a.rows;
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let size = evd::self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Default::default());
    each(count, n * n * n * 4, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, values, info) = unsafe { (a.read(index), values.get(index), info.get(index)) };
        // SAFETY: as above.
        let mut vectors = vectors.map(|vectors| unsafe { vectors.get(index) });
        let triangle_is_finite = (0..n).all(|j| (j..n).all(|i| a[(i, j)].size().finite()));
        if !triangle_is_finite {
            // As in LAPACK, whose iteration converges for two rows and never for more.
            info[0] = if n > 2 { n as i32 - if vectors.is_some() { 1 } else { 2 } } else { 0 };
            values.fill(T::Real::number(f64::NAN));
            if let Some(vectors) = &mut vectors {
                vectors.fill(T::real(T::Real::number(f64::NAN)));
            }
            return Ok(());
        }
        let scaled = Scaled::of_triangle(a)?;
        let a = scaled.as_ref().map_or(a, Scaled::matrix);
        let mut found = filled(T::default(), n)?;
        let done = with_scratch(size, |stack| {
            let to = DiagMut::from_slice_mut(&mut found);
            evd::self_adjoint_evd(a, to, vectors, Par::Seq, stack, Default::default())
        })?;
        for (to, from) in values.iter_mut().zip(found) {
            *to = scaled.as_ref().map_or(from.re(), |scaled| from.re() * scaled.back);
        }
        info[0] = i32::from(done.is_err());
        Ok(())
    })
}

/// A number type whose matrices have complex eigenvalues of type `Out`.
pub trait General: Field {
    type Out: Field<Real = Self::Real>;
    /// One matrix's eigenvalues and unit eigenvectors; whether they were found.
    fn decompose(a: MatRef<Self>, values: &mut [Self::Out], vectors: Option<MatMut<Self::Out>>) -> Result<bool>;
}

macro_rules! general {
    ($($real:ty)*) => {$(
        impl General for Complex<$real> {
            type Out = Self;
            fn decompose(a: MatRef<Self>, values: &mut [Self], vectors: Option<MatMut<Self>>) -> Result<bool> {
                decompose_complex(a, values, vectors)
            }
        }

        impl General for $real {
            type Out = Complex<$real>;
            fn decompose(a: MatRef<Self>, values: &mut [Self::Out], vectors: Option<MatMut<Self::Out>>) -> Result<bool> {
                decompose_real(a, values, vectors)
            }
        }
    )*};
}

general! { f32 f64 }

fn decompose_complex<R: Part>(
    a: MatRef<Complex<R>>,
    values: &mut [Complex<R>],
    mut vectors: Option<MatMut<Complex<R>>>,
) -> Result<bool>
where
    Complex<R>: Field<Real = R>,
{
    let n = a.nrows();
    if n <= schur::LARGEST {
        return decompose_by_schur(a, values, vectors);
    }
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let (none, par) = (ComputeEigenvectors::No, Par::Seq);
    let size = evd::evd_scratch::<Complex<R>>(n, none, wanted, par, Default::default());
    let done = with_scratch(size, |stack| {
        let to = DiagMut::from_slice_mut(values);
        evd::evd_cplx(a, to, None, vectors.as_mut().map(MatMut::as_mut), par, stack, Default::default())
    })?;
    if let Some(mut vectors) = vectors {
        normalise(vectors.as_mut());
        // Vectors of a defective matrix may overflow on the way.
        let is_finite = |z: Complex<R>| z.re.finite() && z.im.finite();
        if !(0..n).all(|j| (0..n).all(|i| is_finite(vectors[(i, j)]))) {
            return decompose_by_schur(a, values, Some(vectors));
        }
    }
    Ok(done.is_ok())
}

/// The same in double precision, by an algorithm for small matrices.
fn decompose_by_schur<R: Part>(
    a: MatRef<Complex<R>>,
    values: &mut [Complex<R>],
    vectors: Option<MatMut<Complex<R>>>,
) -> Result<bool>
where
    Complex<R>: Field<Real = R>,
{
    let n = a.nrows();
    let mut wide = schur::Square::zeros(n)?;
    let wide_of = |z: Complex<R>| Complex::new(z.re.wide(), z.im.wide());
    let narrow = |z: Complex<f64>| Complex::new(R::number(z.re), R::number(z.im));
    (0..n).for_each(|i| (0..n).for_each(|j| wide[(i, j)] = wide_of(a[(i, j)])));
    let Some((found, turned)) = schur::eigen(wide, vectors.is_some())? else { return Ok(false) };
    values.iter_mut().zip(found).for_each(|(value, found)| *value = narrow(found));
    if let (Some(mut vectors), Some(mut turned)) = (vectors, turned) {
        normalise(turned.columns());
        (0..n).for_each(|i| (0..n).for_each(|j| vectors[(i, j)] = narrow(turned[(i, j)])));
    }
    Ok(true)
}

fn decompose_real<R: Part + Field<Real = R>>(
    a: MatRef<R>,
    values: &mut [Complex<R>],
    vectors: Option<MatMut<Complex<R>>>,
) -> Result<bool>
where
    Complex<R>: Field<Real = R>,
{
    let n = a.nrows();
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let (none, par) = (ComputeEigenvectors::No, Par::Seq);
    let size = evd::evd_scratch::<R>(n, none, wanted, par, Default::default());
    let (mut re, mut im) = (filled(R::default(), n)?, filled(R::default(), n)?);
    let mut packed = filled(R::default(), if vectors.is_some() { n * n } else { 0 })?;
    let done = with_scratch(size, |stack| {
        let to = (DiagMut::from_slice_mut(&mut re), DiagMut::from_slice_mut(&mut im));
        let right = vectors.is_some().then(|| MatMut::from_column_major_slice_mut(&mut packed, n, n));
        evd::evd_real(a, to.0, to.1, None, right, par, stack, Default::default())
    })?;
    for (value, (re, im)) in values.iter_mut().zip(re.iter().zip(&im)) {
        *value = Complex::new(*re, *im);
    }
    if let Some(mut vectors) = vectors {
        unpack(&packed, &im, vectors.as_mut());
        normalise(vectors);
    }
    Ok(done.is_ok())
}

/// The vectors of a real matrix: a pair of conjugate eigenvalues has the two parts of its vector in adjacent columns.
fn unpack<R: Part>(packed: &[R], im: &[R], mut vectors: MatMut<Complex<R>>) {
    let n = im.len();
    let part = |i: usize, j: usize| packed[j * n + i];
    let mut j = 0;
    while j < n {
        let pair = im[j] != R::default() && j + 1 < n;
        for i in 0..n {
            if pair {
                let (re, im) = (part(i, j), part(i, j + 1));
                vectors[(i, j)] = Complex::new(re, im);
                vectors[(i, j + 1)] = Complex::new(re, -im);
            } else {
                vectors[(i, j)] = Complex::new(part(i, j), R::default());
            }
        }
        j += if pair { 2 } else { 1 };
    }
}

/// Scales every column to length one, with a real element as its largest, as in LAPACK.
fn normalise<T: Field>(mut matrix: MatMut<T>) {
    let size = |z: T| z.re().hypot(z.im());
    for j in 0..matrix.ncols() {
        let length = (0..matrix.nrows()).fold(T::Real::default(), |sum, i| sum.hypot(size(matrix[(i, j)])));
        if length == T::Real::default() {
            continue;
        }
        for i in 0..matrix.nrows() {
            let z = matrix[(i, j)];
            matrix[(i, j)] = T::of(z.re() / length, z.im() / length);
        }
        let mut largest = 0;
        for i in 1..matrix.nrows() {
            if size(matrix[(i, j)]) > size(matrix[(largest, j)]) {
                largest = i;
            }
        }
        let z = matrix[(largest, j)];
        if z.im() != T::Real::default() {
            let phase = T::of(z.re() / size(z), -z.im() / size(z));
            (0..matrix.nrows()).for_each(|i| matrix[(i, j)] *= phase);
            matrix[(largest, j)] = T::real(matrix[(largest, j)].re());
        }
    }
}

/// Eigenvalues of matrices, and their right eigenvectors. `info` is 0, -1 for a matrix that is not finite, 1 if the
/// iteration does not converge.
///
/// # Safety
/// The matrices lie in memory that nothing else accesses.
pub unsafe fn eig<T: General>(
    count: usize,
    a: Matrices<T>,
    values: PerMatrix<T::Out>,
    vectors: Option<Matrices<T::Out>>,
    info: PerMatrix<i32>,
) -> Result<()> {
    each(count, a.rows * a.rows * a.rows * 16, |index| {
        // SAFETY: guaranteed by the caller (see `# Safety`); each matrix is accessed by one thread.
        let (a, values, info) = unsafe { (a.read(index), values.get(index), info.get(index)) };
        // SAFETY: as above.
        let vectors = vectors.map(|vectors| unsafe { vectors.get(index) });
        if !finite(a) {
            info[0] = -1;
            return Ok(());
        }
        let scaled = Scaled::of(a)?;
        info[0] = i32::from(!T::decompose(scaled.as_ref().map_or(a, Scaled::matrix), values, vectors)?);
        if let Some(scaled) = scaled {
            for value in values {
                *value = value.times(scaled.back);
            }
        }
        Ok(())
    })
}
