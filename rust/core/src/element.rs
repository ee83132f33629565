//! The Rust types behind the dtypes, and conversion between any two of them.

use half::{bf16, f16};
use num_complex::Complex;

use crate::dtype::{Bool, DType};
use crate::scalar::Scalar;

/// The type of a tensor's elements.
pub trait Element: Copy + Send + Sync + PartialEq + Default + std::fmt::Debug + 'static {
    const DTYPE: DType;
    fn from_scalar(scalar: Scalar) -> Self;
    fn to_scalar(self) -> Scalar;
}

macro_rules! element {
    ($($type:ty => $dtype:ident, $from:expr, $to:expr;)*) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;
            #[inline]
            fn from_scalar(scalar: Scalar) -> Self {
                let from: fn(Scalar) -> $type = $from;
                from(scalar)
            }
            #[inline]
            fn to_scalar(self) -> Scalar {
                let to: fn($type) -> Scalar = $to;
                to(self)
            }
        }
    )*};
}

macro_rules! integer {
    ($($type:ty => $dtype:ident;)*) => { element! {$(
        $type => $dtype,
        |s| match s {
            Scalar::Float(x) => x.cast(),
            Scalar::Complex(x) => x.re.cast(),
            Scalar::UInt(x) => x as $type,
            other => other.i64() as $type,
        },
        |x| i64::try_from(x).map_or(Scalar::UInt(x as u64), Scalar::Int);
    )*} };
}

integer! { u8 => U8; i8 => I8; i16 => I16; i32 => I32; i64 => I64; u16 => U16; u32 => U32; u64 => U64; }
element! {
    f16 => F16, |s| f16::from_f64(s.f64()), |x| Scalar::Float(x.to_f64());
    bf16 => BF16, |s| bf16::from_f32(s.f64() as f32), |x| Scalar::Float(x.to_f64());
    f32 => F32, |s| s.f64() as f32, |x| Scalar::Float(f64::from(x));
    f64 => F64, Scalar::f64, Scalar::Float;
    Complex<f16> => C32,
        |s| { let z = s.complex(); Complex::new(f16::from_f32(z.re as f32), f16::from_f32(z.im as f32)) },
        |z| Scalar::Complex(Complex::new(z.re.to_f64(), z.im.to_f64()));
    Complex<f32> => C64,
        |s| { let z = s.complex(); Complex::new(z.re as f32, z.im as f32) },
        |z| Scalar::Complex(Complex::new(f64::from(z.re), f64::from(z.im)));
    Complex<f64> => C128, Scalar::complex, Scalar::Complex;
    Bool => Bool, |s| s.truth().into(), |x| Scalar::Bool(x.get());
}

/// Conversion with torch's rules: integers wrap; floats outside an integer's range give the processor's sentinel (the
/// smallest int32 or int64, truncated to the width); complex numbers lose their imaginary part; every value other than
/// zero is true.
pub trait Cast<T> {
    fn cast(self) -> T;
}

macro_rules! cast_as {
    ($($from:ty => $($to:ty)*;)*) => {$($(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*)*};
}

macro_rules! cast_integers {
    ($($from:ty)*) => {$(
        cast_as! { $from => u8 i8 i16 i32 i64 u16 u32 u64 f32 f64; }
        impl Cast<Bool> for $from {
            #[inline(always)]
            fn cast(self) -> Bool {
                (self != 0).into()
            }
        }
        impl Cast<f16> for $from {
            #[inline(always)]
            fn cast(self) -> f16 {
                f16::from_f32(self as f32)
            }
        }
        impl Cast<bf16> for $from {
            #[inline(always)]
            fn cast(self) -> bf16 {
                bf16::from_f32(self as f32)
            }
        }
    )*};
}

cast_integers! { u8 i8 i16 i32 i64 u16 u32 u64 }
cast_as! { f32 => f32 f64; f64 => f32 f64; }

macro_rules! cast_floats_to_integers {
    ($($from:ty)*) => {$(
        impl Cast<i32> for $from {
            #[inline(always)]
            fn cast(self) -> i32 {
                let inside = if (-2147483648.0..2147483648.0).contains(&self) { self } else { -2147483648.0 };
                // SAFETY: the value lies in the range, bounds included; NaN fails that comparison.
                unsafe { inside.to_int_unchecked() }
            }
        }
        impl Cast<i64> for $from {
            #[inline(always)]
            fn cast(self) -> i64 {
                let inside = if (-9223372036854775808.0..9223372036854775808.0).contains(&self) { self } else { -9223372036854775808.0 };
                // SAFETY: as above.
                unsafe { inside.to_int_unchecked() }
            }
        }
        impl Cast<u64> for $from {
            #[inline(always)]
            fn cast(self) -> u64 {
                if self >= 9223372036854775808.0 { self as u64 } else { Cast::<i64>::cast(self) as u64 }
            }
        }
        impl Cast<u32> for $from {
            #[inline(always)]
            fn cast(self) -> u32 {
                Cast::<i64>::cast(self) as u32
            }
        }
        cast_floats_to_integers!(@small $from => u8 i8 i16 u16);
        impl Cast<Bool> for $from {
            #[inline(always)]
            fn cast(self) -> Bool {
                (self != 0.0).into()
            }
        }
    )*};
    (@small $from:ty => $($to:ty)*) => {$(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                Cast::<i32>::cast(self) as $to
            }
        }
    )*};
}

cast_floats_to_integers! { f32 f64 }

impl Cast<f16> for f32 {
    #[inline(always)]
    fn cast(self) -> f16 {
        f16::from_f32(self)
    }
}
impl Cast<bf16> for f32 {
    #[inline(always)]
    fn cast(self) -> bf16 {
        bf16::from_f32(self)
    }
}
impl Cast<f16> for f64 {
    #[inline(always)]
    fn cast(self) -> f16 {
        f16::from_f32(self as f32)
    }
}
impl Cast<bf16> for f64 {
    #[inline(always)]
    fn cast(self) -> bf16 {
        bf16::from_f32(self as f32)
    }
}

macro_rules! cast_through {
    ($($from:ty, $middle:expr => $($to:ty)*;)*) => {$($(
        impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let middle = $middle;
                middle(self).cast()
            }
        }
    )*)*};
}

cast_through! {
    f16, |x: f16| x.to_f32() => u8 i8 i16 i32 i64 u16 u32 u64 bf16 f32 f64 Bool;
    bf16, |x: bf16| x.to_f32() => u8 i8 i16 i32 i64 u16 u32 u64 f16 f32 f64 Bool;
    Bool, |x: Bool| (x.0 != 0) as u8 => u8 i8 i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64;
    Complex<f32>, |z: Complex<f32>| z.re => u8 i8 i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64;
    Complex<f64>, |z: Complex<f64>| z.re => u8 i8 i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64;
}

macro_rules! cast_to_complex {
    ($($from:ty)*) => {$(
        impl Cast<Complex<f32>> for $from {
            #[inline(always)]
            fn cast(self) -> Complex<f32> {
                Complex::new(self.cast(), 0.0)
            }
        }
        impl Cast<Complex<f64>> for $from {
            #[inline(always)]
            fn cast(self) -> Complex<f64> {
                Complex::new(self.cast(), 0.0)
            }
        }
    )*};
}

cast_to_complex! { u8 i8 i16 i32 i64 u16 u32 u64 f16 bf16 f32 f64 Bool }

macro_rules! cast_same {
    ($($type:ty)*) => {$(
        impl Cast<$type> for $type {
            #[inline(always)]
            fn cast(self) -> $type {
                self
            }
        }
    )*};
}

cast_same! { f16 bf16 Complex<f32> Complex<f64> }

impl Cast<Bool> for Bool {
    #[inline(always)]
    fn cast(self) -> Bool {
        self.get().into()
    }
}
impl Cast<Complex<f64>> for Complex<f32> {
    #[inline(always)]
    fn cast(self) -> Complex<f64> {
        Complex::new(f64::from(self.re), f64::from(self.im))
    }
}
impl Cast<Complex<f32>> for Complex<f64> {
    #[inline(always)]
    fn cast(self) -> Complex<f32> {
        Complex::new(self.re as f32, self.im as f32)
    }
}
impl Cast<Bool> for Complex<f32> {
    #[inline(always)]
    fn cast(self) -> Bool {
        (self.re != 0.0 || self.im != 0.0).into()
    }
}
impl Cast<Bool> for Complex<f64> {
    #[inline(always)]
    fn cast(self) -> Bool {
        (self.re != 0.0 || self.im != 0.0).into()
    }
}

impl Cast<Complex<f16>> for f32 {
    #[inline(always)]
    fn cast(self) -> Complex<f16> {
        Complex::new(f16::from_f32(self), f16::ZERO)
    }
}
impl Cast<f32> for Complex<f16> {
    #[inline(always)]
    fn cast(self) -> f32 {
        self.re.to_f32()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_out_of_range_give_the_processors_sentinel() {
        assert_eq!(Cast::<i32>::cast(3e10f32), i32::MIN);
        assert_eq!(Cast::<u8>::cast(300.0f64), 44);
        assert_eq!(Cast::<u8>::cast(-1.0f32), 255);
        assert_eq!(Cast::<i64>::cast(f64::NAN), i64::MIN);
    }
}
