//! What the matrix product is made of: elements and what they are summed in, how operands are packed, and the functions
//! that multiply them. The types name each other; what they do stands in files of their own, and `dtypes` ties both together.

use num_complex::Complex;
use rushlight_core::Result;

/// The type of sums of products: floats and complex numbers as themselves, wrapping integers.
pub trait Sum: Copy + PartialEq + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! sum {
    ($($t:ty: $zero:expr, $one:expr, $plus:expr, $times:expr;)*) => {$(
        impl Sum for $t {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { $plus(self, other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { $times(self, other) }
        }
    )*};
}

sum! {
    f32: 0.0, 1.0, |a, b| a + b, |a, b| a * b;
    f64: 0.0, 1.0, |a, b| a + b, |a, b| a * b;
    i32: 0, 1, i32::wrapping_add, i32::wrapping_mul;
    i64: 0, 1, i64::wrapping_add, i64::wrapping_mul;
    Complex<f32>: Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), |a, b| a + b, |a, b| a * b;
    Complex<f64>: Complex::new(0.0, 0.0), Complex::new(1.0, 0.0), |a, b| a + b, |a, b| a * b;
}

/// An element of a matrix that can be multiplied.
pub trait GemmElement: Copy + Send + Sync + 'static {
    /// The type in which products are summed, and of `alpha` and `beta`.
    type Sum: Sum;
    /// Whether C can hold the partial sums itself: `Self` is `Sum`.
    const SUMS_IN_PLACE: bool;

    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    /// Runs `job` with the format and kernels that are fastest on this machine.
    fn with_kernels<J: Job<Self>>(job: J) -> Result<()>;
}

/// Work on a product of `T` that is generic over the packed format.
pub trait Job<T: GemmElement> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()>;
}

/// A matrix to read: element `(i, j)` is at `ptr + i * row_stride + j * col_stride`.
pub struct Source<T> {
    pub ptr: *const T,
    pub row_stride: isize,
    pub col_stride: isize,
}

impl<T> Clone for Source<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Source<T> {}

impl<T> Source<T> {
    /// # Safety
    /// The matrix has row `i`.
    #[inline(always)]
    pub unsafe fn row(&self, i: usize) -> *const T {
        // SAFETY: the caller's promise.
        unsafe { self.ptr.offset(i as isize * self.row_stride) }
    }

    /// The part of the matrix from `(i, j)` on.
    #[inline(always)]
    pub fn at(&self, i: usize, j: usize) -> Self {
        Source { ptr: self.ptr.wrapping_offset(i as isize * self.row_stride + j as isize * self.col_stride), ..*self }
    }

    pub fn transposed(&self) -> Self {
        Source { ptr: self.ptr, row_stride: self.col_stride, col_stride: self.row_stride }
    }
}

/// How operands of type `T` are packed.
pub trait Format: 'static {
    type T: GemmElement;
    type Elem: Copy;
    type Acc: Copy;
    /// Values of `k` in a block.
    const K_BLOCK: usize;
    /// Sums in a column of C.
    const SUMS_PER_COLUMN: usize;
    /// Whether packed elements are the operand's own, so that A and B can be read in place.
    const IN_PLACE: bool;

    /// The number of steps for `k` values.
    fn steps(k: usize) -> usize;
    /// Packs `rows` of A, of at most `K_BLOCK` columns.
    ///
    /// # Safety
    /// `src` covers the block and `dst` the packed rows.
    unsafe fn pack_a<const AVX: bool>(src: &Source<Self::T>, rows: usize, k: usize, dst: *mut Self::Elem);
    /// Packs `k` rows of one panel of B, and pads it with zeros to two vectors of `width`.
    ///
    /// # Safety
    /// `src` covers the block and `dst` the packed panel.
    unsafe fn pack_b<const AVX: bool>(src: &Source<Self::T>, k: usize, cols: usize, width: usize, dst: *mut Self::Elem);
}

/// One call of the microkernel.
pub struct Tile<E, A> {
    pub k: usize,
    pub a_stride: isize,
    pub a: *const E,
    /// Rows of B at distance `b_stride`.
    pub b: *const E,
    pub b_stride: isize,
    /// Rows of C at distance `c_stride`; columns are adjacent.
    pub c: *mut A,
    pub c_stride: isize,
    /// Columns of C that exist; the packed B is padded to whole vectors.
    pub cols: usize,
    /// Whether to add to C instead of overwriting it.
    pub add: bool,
}

pub type TileFn<E, A> = unsafe fn(&Tile<E, A>);

/// One call of the convolution's microkernel: as `Tile`, with the steps of B if a table says.
pub struct Taps<E, A> {
    pub k: usize,
    pub a: *const E,
    pub a_stride: isize,
    /// Step `k` of B lies at `b + steps[k]`.
    pub b: *const E,
    pub steps: *const isize,
    /// Rows of C at distance `c_stride`, whole vectors each.
    pub c: *mut A,
    pub c_stride: isize,
    pub add: bool,
}

pub type TapsFn<E, A> = unsafe fn(&Taps<E, A>);

/// One call of the microkernel for a convolution's weight: as `Tile`, with a table of the positions of A's rows, each
/// made of `runs` runs of `run` steps; `jump` elements lie between two runs.
pub struct Runs<E, A> {
    pub runs: usize,
    pub run: usize,
    pub jump: usize,
    /// Row `r` of A begins at `a + rows[r]`.
    pub a: *const E,
    pub rows: *const isize,
    /// A packed panel.
    pub b: *const E,
    pub c: *mut A,
    pub c_stride: isize,
    pub add: bool,
}

pub type RunsFn<E, A> = unsafe fn(&Runs<E, A>);

/// Packs a panel of B.
type PackB<F> =
    unsafe fn(&Source<<F as Format>::T>, k: usize, cols: usize, width: usize, dst: *mut <F as Format>::Elem);

/// The functions of one format at one level.
pub struct Kernels<F: Format> {
    /// The number of sums in a vector; a packed row of B is two vectors.
    pub width: usize,
    /// `tiles[vectors - 1][rows - 1]`, for as many rows as the registers hold.
    pub tiles: [&'static [TileFn<F::Elem, F::Acc>]; 2],
    pub taps: [&'static [TapsFn<F::Elem, F::Acc>]; 2],
    pub runs: [&'static [RunsFn<F::Elem, F::Acc>]; 2],
    pub pack_a: unsafe fn(&Source<F::T>, rows: usize, k: usize, dst: *mut F::Elem),
    pub pack_b: PackB<F>,
    pub combine: unsafe fn(&Combine<F::T>),
    pub vector: VectorKernels<F::T>,
}

impl<F: Format> Kernels<F> {
    /// Rows of the largest tile.
    pub fn rows(&self) -> usize {
        self.tiles[0].len()
    }
}

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

/// Writes sums to C: `out = alpha * sums + beta * addend`, rounded once.
pub struct Combine<T: GemmElement> {
    pub rows: usize,
    pub cols: usize,
    pub alpha: T::Sum,
    /// Rows of sums and the distance between them; `None` means zeros.
    pub sums: Option<(*const T::Sum, usize)>,
    /// `beta`, and the matrix that it scales.
    pub addend: Option<(T::Sum, Source<T>)>,
    pub out: *mut T,
    pub out_strides: (isize, isize),
}

impl<T: GemmElement> Combine<T> {
    /// # Safety
    /// All pointers cover `rows` by `cols` elements at their strides.
    #[inline(always)]
    pub unsafe fn run(&self) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            for i in 0..self.rows {
                let out = self.out.offset(i as isize * self.out_strides.0);
                match (self.sums, &self.addend) {
                    (Some((sums, stride)), None) if self.alpha == T::Sum::ONE => {
                        let sums = sums.add(i * stride);
                        self.each(out, |j| *sums.add(j));
                    }
                    (Some((sums, stride)), None) => {
                        let sums = sums.add(i * stride);
                        self.each(out, |j| self.alpha.times(*sums.add(j)));
                    }
                    (Some((sums, stride)), Some((beta, d))) => {
                        let (sums, d, step) = (sums.add(i * stride), d.row(i), d.col_stride);
                        self.each(out, |j| {
                            let old = (*d.offset(j as isize * step)).widen();
                            self.alpha.times(*sums.add(j)).plus(beta.times(old))
                        });
                    }
                    (None, Some((beta, d))) => {
                        let (d, step) = (d.row(i), d.col_stride);
                        self.each(out, |j| beta.times((*d.offset(j as isize * step)).widen()));
                    }
                    (None, None) => self.each(out, |_| T::Sum::ZERO),
                }
            }
        }
    }

    /// # Safety
    /// Same as for `run`, for the row at `out`.
    #[inline(always)]
    unsafe fn each(&self, out: *mut T, value: impl Fn(usize) -> T::Sum) {
        // SAFETY: guaranteed by the caller (see `# Safety`). The two loops differ in that the first vectorises.
        unsafe {
            if self.out_strides.1 == 1 {
                for j in 0..self.cols {
                    *out.add(j) = T::narrow(value(j));
                }
            } else {
                for j in 0..self.cols {
                    *out.offset(j as isize * self.out_strides.1) = T::narrow(value(j));
                }
            }
        }
    }
}
