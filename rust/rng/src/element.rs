//! Element types for the distributions: how numbers become elements, with the conversions of C++.

use crate::distributions::box_muller;
use crate::stream::{Stream, unit32, unit64};
use half::{bf16, f16, slice::HalfFloatSliceExt};
use std::ops::{Add, Div, Mul, Sub};

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// A dtype that can be filled with random values.
pub trait Element: Sealed + Copy + Default + PartialEq + Send + Sync + 'static {
    /// The type's name in torch's messages.
    const C_NAME: &'static str;
    /// The least and the greatest value of the type.
    const BOUNDS: (f64, f64);
    /// For floating types, the bits of the significand.
    const DIGITS: Option<u32>;

    /// Integers wrap around, the half types go through f32.
    fn from_i64(value: i64) -> Self;
    /// Integers lose the fraction; a number that does not fit the processor's register becomes its smallest value, and
    /// the rest wraps around. The half types go through f32.
    fn from_f64(value: f64) -> Self;
    fn to_f64(self) -> f64;
}

/// A dtype that `random_()` without bounds can fill: all but uint16, uint32 and uint64, as in torch.
pub trait FullRange: Element {
    /// A value from 0 to the greatest; for floating types to the greatest integer up to which all are exact.
    fn draw(stream: &mut Stream) -> Self;
}

/// A dtype that `random_(-2**63, None)` can fill with the full range of 64 bits.
pub trait FullRange64: Element {}

/// A floating dtype.
pub trait Float: Element {
    /// The type in which its arithmetic is done: f32 for the half types.
    type Wide: Wide;
    fn from_wide(value: Self::Wide) -> Self;
    fn to_wide(self) -> Self::Wide;
    /// Converts a slice of values; both have the same length.
    fn store(out: &mut [Self], values: &[Self::Wide]);
}

/// f32 and f64, the types in which arithmetic is done.
pub trait Wide:
    Float<Wide = Self> + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Fills `out` with uniform numbers of [0, 1), each times `scale` plus `from`, rounded once.
    fn uniform(stream: &mut Stream, out: &mut [Self], scale: Self, from: Self);
    /// Turns each complete block of 16 uniform numbers into 16 normal ones.
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self);
}

macro_rules! integers {
    ($($type:ident $register:ident $name:literal)*) => {$(
        impl Sealed for $type {}
        impl Element for $type {
            const C_NAME: &'static str = $name;
            const BOUNDS: (f64, f64) = ($type::MIN as f64, $type::MAX as f64);
            const DIGITS: Option<u32> = None;
            #[inline]
            fn from_i64(value: i64) -> Self { value as $type }
            #[inline]
            fn from_f64(value: f64) -> Self {
                let (least, greatest) = ($register::MIN as f64, $register::MAX as f64 + 1.0);
                if value > least - 1.0 && value < greatest { value as $register as $type } else { $register::MIN as $type }
            }
            #[inline]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}

integers! {
    u8 i32 "unsigned char" i8 i32 "signed char" i16 i32 "short int" i32 i32 "int" i64 i64 "long"
    u16 i32 "short unsigned int" u32 i64 "unsigned int" u64 i64 "long unsigned int"
}

impl Sealed for bool {}
impl Element for bool {
    const C_NAME: &'static str = "bool";
    const BOUNDS: (f64, f64) = (0.0, 1.0);
    const DIGITS: Option<u32> = None;
    #[inline]
    fn from_i64(value: i64) -> Self {
        value != 0
    }
    #[inline]
    fn from_f64(value: f64) -> Self {
        value != 0.0
    }
    #[inline]
    fn to_f64(self) -> f64 {
        self.into()
    }
}

macro_rules! floats {
    ($($type:ident $name:literal $wide:ident $greatest:expr, $digits:literal, $narrow:expr, $store:expr;)*) => {$(
        impl Sealed for $type {}
        impl Element for $type {
            const C_NAME: &'static str = $name;
            const BOUNDS: (f64, f64) = (-$greatest, $greatest);
            const DIGITS: Option<u32> = Some($digits);
            #[inline]
            fn from_i64(value: i64) -> Self { $narrow(value as $wide) }
            #[inline]
            fn from_f64(value: f64) -> Self { $narrow(value as $wide) }
            #[inline]
            fn to_f64(self) -> f64 { self.into() }
        }
        impl Float for $type {
            type Wide = $wide;
            #[inline]
            fn from_wide(value: $wide) -> Self { $narrow(value) }
            #[inline]
            fn to_wide(self) -> $wide { self.into() }
            #[inline]
            fn store(out: &mut [Self], values: &[$wide]) { $store(out, values) }
        }
    )*};
}

floats! {
    f32 "float" f32 f32::MAX as f64, 24, |x| x, <[f32]>::copy_from_slice;
    f64 "double" f64 f64::MAX, 53, |x| x, <[f64]>::copy_from_slice;
    f16 "c10::Half" f32 65504.0, 11, f16::from_f32, <[f16]>::convert_from_f32_slice;
    bf16 "c10::BFloat16" f32 bf16::MAX.to_f64_const(), 8, bf16::from_f32, <[bf16]>::convert_from_f32_slice;
}

impl Wide for f32 {
    fn uniform(stream: &mut Stream, out: &mut [Self], scale: Self, from: Self) {
        stream.engine.fill(out, |word| unit32(word).mul_add(scale, from));
    }
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self) {
        box_muller::blocks_f32(data, mean, std);
    }
}

impl Wide for f64 {
    fn uniform(stream: &mut Stream, out: &mut [Self], scale: Self, from: Self) {
        stream.engine.fill64(out, |word| unit64(word).mul_add(scale, from));
    }
    fn normal_blocks(data: &mut [Self], mean: Self, std: Self) {
        box_muller::blocks_f64(data, mean, std);
    }
}

macro_rules! full_range {
    ($($type:ident $draw:ident $count:expr;)*) => {$(
        impl FullRange for $type {
            #[inline]
            fn draw(stream: &mut Stream) -> Self {
                Self::from_i64((u64::from(stream.$draw()) % $count) as i64)
            }
        }
    )*};
}

full_range! {
    bool random 2;
    u8 random 1 << 8;
    i8 random 1 << 7;
    i16 random 1 << 15;
    i32 random 1 << 31;
    i64 random64 1 << 63;
    f16 random (1 << 11) + 1;
    bf16 random (1 << 8) + 1;
    f32 random (1 << 24) + 1;
    f64 random64 (1 << 53) + 1;
}

impl FullRange64 for i64 {}
impl FullRange64 for f64 {}
impl FullRange64 for f32 {}
impl FullRange64 for bf16 {}
