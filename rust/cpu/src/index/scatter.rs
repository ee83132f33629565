//! How a new element is merged with the existing one: it replaces it, or the two are combined.

use half::{bf16, f16};
use num_complex::Complex;
use rushlight_core::float8::Float8;
use rushlight_core::{Bool, DType, dispatch};
use rushlight_simd::multiversion;

use crate::index::OutOfBounds;
use crate::index::run::{IndexRun, Strided};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScatterOp {
    Set,
    Add,
    Multiply,
    Min,
    Max,
}

/// The loops that merge elements of one dtype in one way. Strides count bytes.
#[derive(Clone, Copy)]
pub struct ScatterKernels {
    /// `n` elements at constant strides: target, its stride, source, its stride.
    pub run: unsafe fn(*mut u8, isize, *const u8, isize, usize),
    /// Elements at `places`; see [`ScatterOffsets`].
    pub indexed: unsafe fn(&ScatterOffsets, *const u8, isize),
    /// Elements that a run selects, from the source.
    pub scattered: unsafe fn(&IndexRun, Strided, Strided) -> Result<(), OutOfBounds>,
}

/// The positions of indexed elements: the `i`-th is at `base + i * stride + offsets[i]` bytes. The offsets are not
/// shared, so they cannot change after they were checked.
pub struct ScatterOffsets<'a> {
    pub base: *mut u8,
    pub stride: isize,
    pub offsets: &'a [isize],
}

impl ScatterOffsets<'_> {
    /// Iterates over the positions.
    #[inline(always)]
    pub fn each(&self) -> impl Iterator<Item = *mut u8> {
        let at = |(i, &offset)| self.base.wrapping_offset(i as isize * self.stride + offset);
        self.offsets.iter().enumerate().map(at)
    }
}

impl ScatterKernels {
    pub fn new(merge: ScatterOp, dtype: DType) -> ScatterKernels {
        let set = match dtype.size() {
            1 => make::<u8, Set>,
            2 => make::<u16, Set>,
            4 => make::<u32, Set>,
            8 => make::<u64, Set>,
            _ => make::<u128, Set>,
        };
        // Operators refuse all but the sum for dtypes that are only stored.
        match merge {
            ScatterOp::Set => set(),
            ScatterOp::Add => dispatch!(dtype, T in all => make::<T, Add>()),
            ScatterOp::Multiply => dispatch!(dtype, T in computed => make::<T, Multiply>(), else => set()),
            ScatterOp::Min => dispatch!(dtype, T in computed => make::<T, Min>(), else => set()),
            ScatterOp::Max => dispatch!(dtype, T in computed => make::<T, Max>(), else => set()),
        }
    }
}

fn make<T: Copy, M: Rule<T>>() -> ScatterKernels {
    ScatterKernels { run: run::<T, M>, indexed: indexed::<T, M>, scattered: scattered::<T, M> }
}

/// # Safety
/// Both sides hold `n` elements at these strides.
unsafe fn run<T: Copy, M: Rule<T>>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
    if [to_step, from_step] == [size_of::<T>() as isize; 2] {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        return unsafe { adjacent::<T, M>(to.cast(), from.cast(), n) };
    }
    for i in 0..n as isize {
        // SAFETY: guaranteed by the caller (see `# Safety`); foreign memory may be unaligned.
        unsafe {
            let place = to.offset(i * to_step).cast::<T>();
            let value = from.offset(i * from_step).cast::<T>().read_unaligned();
            place.write_unaligned(M::merge(place, value));
        }
    }
}

multiversion! {
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn adjacent<S, T: Copy, M: Rule<T>>(to: *mut T, from: *const T, n: usize) {
        for i in 0..n {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { to.add(i).write_unaligned(M::merge(to.add(i), from.add(i).read_unaligned())) };
        }
    }
}

/// # Safety
/// Every position holds an element, and there are as many at `from`.
unsafe fn indexed<T: Copy, M: Rule<T>>(places: &ScatterOffsets, from: *const u8, from_step: isize) {
    for (i, place) in places.each().enumerate() {
        // SAFETY: the caller has checked the positions and gives as many elements.
        unsafe {
            let place = place.cast::<T>();
            let value = from.offset(i as isize * from_step).cast::<T>().read_unaligned();
            place.write_unaligned(M::merge(place, value));
        }
    }
}

/// # Safety
/// Every index within range selects an element, and there are as many at `from`.
unsafe fn scattered<T: Copy, M: Rule<T>>(run: &IndexRun, to: Strided, from: Strided) -> Result<(), OutOfBounds> {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        run.pairs::<T>(to, from, |place, from| {
            let place = place.cast::<T>();
            place.write_unaligned(M::merge(place, from.cast::<T>().read_unaligned()));
        })
    }
}

/// The new element at `place` for an incoming `value`.
trait Rule<T> {
    /// # Safety
    /// `place` points to an element.
    unsafe fn merge(place: *mut T, value: T) -> T;
}

struct Set;
impl<T> Rule<T> for Set {
    #[inline(always)]
    unsafe fn merge(_: *mut T, value: T) -> T {
        value
    }
}

macro_rules! rules {
    ($($rule:ident $method:ident;)*) => {$(
        struct $rule;
        impl<T: Number> Rule<T> for $rule {
            #[inline(always)]
            unsafe fn merge(place: *mut T, value: T) -> T {
                // SAFETY: the caller guarantees that `place` points to an element.
                unsafe { place.read_unaligned() }.$method(value)
            }
        }
    )*};
}

struct Add;
impl<T: Sum> Rule<T> for Add {
    #[inline(always)]
    unsafe fn merge(place: *mut T, value: T) -> T {
        // SAFETY: the caller guarantees that `place` points to an element.
        unsafe { place.read_unaligned() }.sum(value)
    }
}

rules! {
    Multiply product;
    Min least;
    Max greatest;
}

/// Elements that can be added.
trait Sum: Copy {
    fn sum(self, other: Self) -> Self;
}

/// The arithmetic of accumulation: integers wrap, bool has "or" and "and", NaN wins over every number.
trait Number: Sum {
    fn product(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Sum for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
        }
        impl Number for $type {
            #[inline(always)]
            fn product(self, other: Self) -> Self { self.wrapping_mul(other) }
            #[inline(always)]
            fn least(self, other: Self) -> Self { self.min(other) }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self { self.max(other) }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Sum for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
        }
        impl Number for $type {
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn least(self, other: Self) -> Self { if self < other || self.is_nan() { self } else { other } }
            #[inline(always)]
            fn greatest(self, other: Self) -> Self { if self > other || self.is_nan() { self } else { other } }
        }
    )*};
}

macro_rules! complex {
    ($($type:ty)*) => {$(
        impl Sum for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
        }
        impl Number for $type {
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            // Complex numbers have no order; the operators reject them before.
            fn least(self, _: Self) -> Self { self }
            fn greatest(self, _: Self) -> Self { self }
        }
    )*};
}

integers! { u8 i8 i16 i32 i64 u16 u32 u64 }
floats! { f32 f64 f16 bf16 }
complex! { Complex<f32> Complex<f64> }

impl Sum for Complex<f16> {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Complex::new(self.re + other.re, self.im + other.im)
    }
}

impl<const KIND: usize> Sum for Float8<KIND> {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Float8::from_f32(self.to_f32() + other.to_f32())
    }
}

impl Sum for Bool {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Bool::from(self.get() | other.get())
    }
}

impl Number for Bool {
    #[inline(always)]
    fn product(self, other: Self) -> Self {
        Bool::from(self.get() & other.get())
    }
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        self.product(other)
    }
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        self.sum(other)
    }
}
