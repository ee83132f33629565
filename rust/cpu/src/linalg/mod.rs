//! Products of matrices (`matmul`), factorisations of dense matrices, and problems solved with them.
//!
//! The factorisations are faer's, each on one thread; a batch is spread over threads matrix by matrix, so the bits do
//! not depend on their number. Element-by-element algorithms for LAPACK's formats (Householder vectors with their
//! factors, symmetric pivoting) are implemented here. Every function works in place on matrices in the caller's memory.

mod factor;
mod ldl;
pub mod matmul;
mod schur;
mod spectral;

use std::cell::Cell;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, Neg, Sub, SubAssign};

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::mat::{MatMut, MatRef};
use faer::traits::{ComplexField, RealField};
use faer::{Accum, Par};
use num_complex::Complex;
use rushlight_core::alloc::{check_available, filled, out_of_memory};
use rushlight_core::{Element, Result};

pub use factor::{cholesky, lu, qr, reflect, reflections, solve_triangular};
pub use ldl::{ldl, ldl_solve};
pub use spectral::{Symmetric, eig, eigh, svd};

/// The element type of factorisations.
pub trait Field:
    ComplexField<Real: Part>
    + Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + DivAssign
{
    fn of(re: Self::Real, im: Self::Real) -> Self;
    fn re(self) -> Self::Real;
    fn im(self) -> Self::Real;

    fn real(re: Self::Real) -> Self {
        Self::of(re, Self::Real::default())
    }

    fn conjugate(self) -> Self {
        Self::of(self.re(), -self.im())
    }

    fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// A cheap estimate of the magnitude for choosing pivots, as in LAPACK.
    fn size(self) -> Self::Real {
        self.re().abs() + self.im().abs()
    }

    fn times(self, factor: Self::Real) -> Self {
        Self::of(self.re() * factor, self.im() * factor)
    }
}

/// The real type behind a [`Field`].
pub trait Part: RealField + Element + Neg<Output = Self> {
    fn abs(self) -> Self;
    fn sqrt(self) -> Self;
    fn hypot(self, other: Self) -> Self;
    fn finite(self) -> bool;
    fn number(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! field {
    ($($real:ty)*) => {$(
        impl Part for $real {
            fn abs(self) -> Self {
                <$real>::abs(self)
            }
            fn sqrt(self) -> Self {
                <$real>::sqrt(self)
            }
            fn hypot(self, other: Self) -> Self {
                <$real>::hypot(self, other)
            }
            fn finite(self) -> bool {
                self.is_finite()
            }
            fn number(value: f64) -> Self {
                value as $real
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
        }

        impl Field for $real {
            fn of(re: $real, _im: $real) -> Self {
                re
            }
            fn re(self) -> $real {
                self
            }
            fn im(self) -> $real {
                0.0
            }
        }

        impl Field for Complex<$real> {
            fn of(re: $real, im: $real) -> Self {
                Complex::new(re, im)
            }
            fn re(self) -> $real {
                self.re
            }
            fn im(self) -> $real {
                self.im
            }
        }
    )*};
}

field! { f32 f64 }

/// A batch of matrices in memory, each `step` elements behind the one before.
#[derive(Clone, Copy)]
pub struct Matrices<T> {
    pub ptr: *mut T,
    pub rows: usize,
    pub cols: usize,
    pub row_stride: isize,
    pub col_stride: isize,
    pub step: isize,
}

// SAFETY: only an address; `each` passes every matrix to one thread.
unsafe impl<T> Send for Matrices<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Matrices<T> {}

impl<T: Field> Matrices<T> {
    /// # Safety
    /// The matrix lies within the caller's memory, and nothing else accesses it meanwhile.
    unsafe fn get<'a>(self, index: usize) -> MatMut<'a, T> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let first = self.ptr.offset(index as isize * self.step);
            MatMut::from_raw_parts_mut(first, self.rows, self.cols, self.row_stride, self.col_stride)
        }
    }

    /// # Safety
    /// The matrix lies within the caller's memory, and nothing writes to it meanwhile.
    unsafe fn read<'a>(self, index: usize) -> MatRef<'a, T> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let first = self.ptr.offset(index as isize * self.step);
            MatRef::from_raw_parts(first, self.rows, self.cols, self.row_stride, self.col_stride)
        }
    }

    pub fn transposed(self) -> Self {
        Matrices { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride, ..self }
    }
}

/// One number for each matrix of a batch, such as LAPACK's `info`, or a list of them.
pub struct PerMatrix<T> {
    pub ptr: *mut T,
    /// The number of entries for each matrix.
    pub each: usize,
}

impl<T> Clone for PerMatrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PerMatrix<T> {}
// SAFETY: as for `Matrices`.
unsafe impl<T> Send for PerMatrix<T> {}
// SAFETY: as for `Matrices`.
unsafe impl<T> Sync for PerMatrix<T> {}

impl<T> PerMatrix<T> {
    /// # Safety
    /// The numbers of this matrix lie within the caller's memory, and nothing else accesses them meanwhile.
    unsafe fn get<'a>(self, index: usize) -> &'a mut [T] {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(index * self.each), self.each) }
    }
}

/// Multiplications worth a task.
const TASK: usize = 1 << 14;

/// Calls `work` for each of `count` matrices, in parallel; `cost` is the approximate number of multiplications for one.
fn each(count: usize, cost: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    rushlight_par::try_parallel_for(count, TASK.div_ceil(cost.max(1)), |mut indices| {
        indices.try_for_each(|index| {
            if cost >= PRODUCTS {
                prepare()?;
            }
            work(index)
        })
    })
}

/// From this many multiplications on faer's products may need the scratch memory that they cache for each thread.
const PRODUCTS: usize = 1 << 10;
/// An upper bound of that scratch memory.
const KEPT: usize = 16 << 20;

/// Makes faer's products allocate the scratch memory that they cache for this thread, if there is enough memory;
/// otherwise they would abort later.
fn prepare() -> Result<()> {
    thread_local! {
        static READY: Cell<bool> = const { Cell::new(false) };
    }
    if READY.get() {
        return Ok(());
    }
    check_available(Some(KEPT))?;
    multiply::<f64>(1.0)?;
    multiply::<Complex<f64>>(Complex::new(1.0, 0.0))?;
    READY.set(true);
    Ok(())
}

/// A product large enough to allocate that memory.
fn multiply<T: Field + Default>(one: T) -> Result<()> {
    const SIDE: usize = 64;
    let (from, mut to) = (filled(T::default(), SIDE * SIDE)?, filled(T::default(), SIDE * SIDE)?);
    let from = MatRef::from_column_major_slice(&from, SIDE, SIDE);
    let to = MatMut::from_column_major_slice_mut(&mut to, SIDE, SIDE);
    matmul(to, Accum::Replace, from, from, one, Par::Seq);
    Ok(())
}

/// Calls `work` with the scratch memory that an algorithm requests.
fn with_scratch<R>(size: StackReq, work: impl FnOnce(&mut MemStack) -> R) -> Result<R> {
    let bytes = size.unaligned_bytes_required();
    check_available(Some(bytes))?;
    let mut memory = MemBuffer::try_new(size).map_err(|_| out_of_memory(bytes))?;
    Ok(work(MemStack::new(&mut memory)))
}

/// Whether all elements are finite.
fn finite<T: Field>(matrix: MatRef<T>) -> bool {
    (0..matrix.ncols())
        .all(|j| (0..matrix.nrows()).all(|i| Part::finite(matrix[(i, j)].re()) && Part::finite(matrix[(i, j)].im())))
}

/// Whether an element is NaN.
fn has_nan<T: Field>(matrix: MatRef<T>) -> bool {
    let is_nan = |part: T::Real| part.wide().is_nan();
    (0..matrix.ncols()).any(|j| (0..matrix.nrows()).any(|i| is_nan(matrix[(i, j)].re()) || is_nan(matrix[(i, j)].im())))
}

#[cfg(test)]
mod tests;
