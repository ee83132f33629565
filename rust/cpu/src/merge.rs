//! How a new element meets the one that stands at its place: it replaces it, or the two become one.

use rushlight_core::{Bool, DType, dispatch};
use rushlight_simd::multiversion;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    Set,
    Add,
    Multiply,
    Least,
    Greatest,
}

/// The loops that merge elements of one dtype in one way. Strides count bytes.
#[derive(Clone, Copy)]
pub struct Merger {
    /// `n` elements at constant strides: target, its stride, source, its stride.
    pub run: unsafe fn(*mut u8, isize, *const u8, isize, usize),
    /// `n` elements at places that an index names; see `Places`.
    pub indexed: unsafe fn(&Places, *const u8, isize),
}

/// Where indexed elements stand: the `i`-th at `base + i * stride + index[i] * step`.
pub struct Places {
    pub base: *mut u8,
    pub stride: isize,
    pub step: isize,
    pub index: *const u8,
    pub index_stride: isize,
    pub n: usize,
}

impl Places {
    /// # Safety
    /// `i` is below `n`, and the index holds as many integers of 64 bits.
    #[inline(always)]
    pub unsafe fn at(&self, i: usize) -> *mut u8 {
        // SAFETY: by the caller's word.
        unsafe {
            let index = self.index.offset(i as isize * self.index_stride).cast::<i64>().read_unaligned();
            self.base.offset(i as isize * self.stride + index as isize * self.step)
        }
    }
}

impl Merger {
    pub fn new(merge: Merge, dtype: DType) -> Merger {
        match merge {
            Merge::Set => match dtype.size() {
                1 => make::<u8, Set>(),
                2 => make::<u16, Set>(),
                4 => make::<u32, Set>(),
                8 => make::<u64, Set>(),
                _ => make::<u128, Set>(),
            },
            Merge::Add => dispatch!(dtype, T in all => make::<T, Add>()),
            Merge::Multiply => dispatch!(dtype, T in all => make::<T, Multiply>()),
            Merge::Least => dispatch!(dtype, T in all => make::<T, Least>()),
            Merge::Greatest => dispatch!(dtype, T in all => make::<T, Greatest>()),
        }
    }
}

fn make<T: Copy, M: Rule<T>>() -> Merger {
    Merger { run: run::<T, M>, indexed: indexed::<T, M> }
}

unsafe fn run<T: Copy, M: Rule<T>>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
    if [to_step, from_step] == [size_of::<T>() as isize; 2] {
        // SAFETY: by the caller's word.
        return unsafe { adjacent::<T, M>(to.cast(), from.cast(), n) };
    }
    for i in 0..n as isize {
        // SAFETY: the caller gives `n` elements at these strides; foreign memory may be unaligned.
        unsafe {
            let place = to.offset(i * to_step).cast::<T>();
            let value = from.offset(i * from_step).cast::<T>().read_unaligned();
            place.write_unaligned(M::merge(place, value));
        }
    }
}

multiversion! {
    unsafe fn adjacent<S, T: Copy, M: Rule<T>>(to: *mut T, from: *const T, n: usize) {
        for i in 0..n {
            // SAFETY: the caller gives `n` elements side by side.
            unsafe { to.add(i).write_unaligned(M::merge(to.add(i), from.add(i).read_unaligned())) };
        }
    }
}

unsafe fn indexed<T: Copy, M: Rule<T>>(places: &Places, from: *const u8, from_step: isize) {
    for i in 0..places.n {
        // SAFETY: the caller checked the index and gives `n` elements.
        unsafe {
            let place = places.at(i).cast::<T>();
            let value = from.offset(i as isize * from_step).cast::<T>().read_unaligned();
            place.write_unaligned(M::merge(place, value));
        }
    }
}

/// What becomes of the element at `place` when `value` comes.
trait Rule<T> {
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
                // SAFETY: the caller gives a place that holds an element.
                unsafe { place.read_unaligned() }.$method(value)
            }
        }
    )*};
}

rules! {
    Add sum;
    Multiply product;
    Least least;
    Greatest greatest;
}

/// Arithmetic as accumulation has it: integers wrap, bool knows "or" and "and", NaN wins over every number.
trait Number: Copy {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
    fn greatest(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self.wrapping_add(other) }
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
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
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
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn product(self, other: Self) -> Self { self * other }
            // Complex numbers have no order; rows refuse them before.
            fn least(self, _: Self) -> Self { self }
            fn greatest(self, _: Self) -> Self { self }
        }
    )*};
}

integers! { u8 i8 i16 i32 i64 u16 u32 u64 }
floats! { f32 f64 half::f16 half::bf16 }
complex! { num_complex::Complex<f32> num_complex::Complex<f64> }

impl Number for Bool {
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        Bool::from(self.get() | other.get())
    }
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
