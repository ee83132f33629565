//! The five 8-bit floats: conversion from and to float32, with torch's rounding. They have no arithmetic of their own.
//!
//! The crate `float8` has two of the formats, and `microfloat` follows another rule for numbers that are too large, so
//! the conversions are written here.

use crate::dtype::DType;
use crate::element::{Cast, Element};
use crate::scalar::Scalar;

/// How a format with a sign reads its byte.
struct Format {
    /// Bits of the fraction. The exponent has the rest of seven bits.
    fraction: u32,
    bias: u32,
    /// The greatest finite number, without a sign.
    greatest: u8,
    /// What larger numbers become, without a sign.
    overflow: u8,
    nan: u8,
    /// Whether zero and NaN have a sign.
    signed: bool,
}

const E5M2: Format = Format { fraction: 2, bias: 15, greatest: 0x7b, overflow: 0x7c, nan: 0x7f, signed: true };
const E4M3FN: Format = Format { fraction: 3, bias: 7, greatest: 0x7e, overflow: 0x7e, nan: 0x7f, signed: true };
const E5M2FNUZ: Format = Format { fraction: 2, bias: 16, greatest: 0x7f, overflow: 0x80, nan: 0x80, signed: false };
const E4M3FNUZ: Format = Format { fraction: 3, bias: 8, greatest: 0x7f, overflow: 0x80, nan: 0x80, signed: false };

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7f80_0000;

impl Format {
    /// The bits of the float32 that a byte stands for.
    const fn decode(&self, code: u8) -> u32 {
        let sign = ((code & 0x80) as u32) << 24;
        let magnitude = (code & 0x7f) as u32;
        if !self.signed && code == self.nan {
            return INFINITY | 1;
        }
        if self.signed && magnitude > self.greatest as u32 {
            let fraction = magnitude & ((1 << self.fraction) - 1);
            let infinite = self.overflow != self.greatest && magnitude == self.overflow as u32;
            let quiet = if infinite { 0 } else { 1 << 22 };
            return sign | INFINITY | quiet | (fraction << (23 - self.fraction));
        }
        let (exponent, fraction) = (magnitude >> self.fraction, magnitude & ((1 << self.fraction) - 1));
        if exponent > 0 {
            return sign | (((exponent + 127 - self.bias) << 23) | (fraction << (23 - self.fraction)));
        }
        if fraction == 0 {
            return sign;
        }
        // Float32 has these numbers with an exponent: the leading bit of the fraction becomes the hidden one.
        let leading = 31 - fraction.leading_zeros();
        let exponent = 127 + 1 + leading - self.bias - self.fraction;
        sign | (exponent << 23) | ((fraction << (23 - leading)) & ((1 << 23) - 1))
    }

    /// The nearest number; of two equally near ones the one with an even fraction. Without a branch.
    #[inline(always)]
    const fn encode(&self, x: f32) -> u8 {
        let bits = x.to_bits();
        let magnitude = bits & !SIGN;
        let dropped = 23 - self.fraction;
        let rounded = magnitude.wrapping_add(((1 << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1));
        let normal = (rounded >> dropped).wrapping_sub((127 - self.bias) << self.fraction);
        // Adding a number whose last bit has the value of the format's last bit rounds to that bit.
        let unit = (127 + 1 + 23 - self.bias - self.fraction) << 23;
        let small = (f32::from_bits(magnitude) + f32::from_bits(unit)).to_bits().wrapping_sub(unit);
        let found = if magnitude < (127 + 1 - self.bias) << 23 { small } else { normal };
        let found = if found > self.greatest as u32 { self.overflow as u32 } else { found };
        let found = if magnitude > INFINITY { self.nan as u32 } else { found };
        let signed = self.signed || (found != 0 && found != self.nan as u32);
        (found | if signed { bits >> 31 << 7 } else { 0 }) as u8
    }
}

/// A power of two: the exponent of a float32, without a sign, a fraction and a zero.
#[inline(always)]
const fn encode_e8m0(x: f32) -> u8 {
    let magnitude = x.to_bits() & !SIGN;
    let half = 1 << 22;
    // Halves are rounded up, except to the smallest normal float32.
    let rounded = ((magnitude + half) >> 23) - (magnitude == half) as u32;
    if rounded > 0xff { 0xff } else { rounded as u8 }
}

const fn decode_e8m0(code: u8) -> u32 {
    match code {
        0 => 1 << 22,
        0xff => INFINITY | 1,
        _ => (code as u32) << 23,
    }
}

/// An 8-bit float. `KIND` is its place among the formats.
#[derive(Clone, Copy, Default)]
#[repr(transparent)]
pub struct Float8<const KIND: usize>(pub u8);

#[allow(non_camel_case_types)]
pub type f8e5m2 = Float8<0>;
#[allow(non_camel_case_types)]
pub type f8e4m3fn = Float8<1>;
#[allow(non_camel_case_types)]
pub type f8e5m2fnuz = Float8<2>;
#[allow(non_camel_case_types)]
pub type f8e4m3fnuz = Float8<3>;
#[allow(non_camel_case_types)]
pub type f8e8m0fnu = Float8<4>;

const fn decode(kind: usize, code: u8) -> u32 {
    match kind {
        0 => E5M2.decode(code),
        1 => E4M3FN.decode(code),
        2 => E5M2FNUZ.decode(code),
        3 => E4M3FNUZ.decode(code),
        _ => decode_e8m0(code),
    }
}

/// The float32 of every byte, as bits: that of NaN keeps its fraction.
static DECODED: [[u32; 256]; 5] = {
    let mut tables = [[0; 256]; 5];
    let mut n = 0;
    while n < 5 * 256 {
        tables[n / 256][n % 256] = decode(n / 256, (n % 256) as u8);
        n += 1;
    }
    tables
};

impl<const KIND: usize> Float8<KIND> {
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(DECODED[KIND][usize::from(self.0)])
    }

    #[inline(always)]
    pub const fn from_f32(x: f32) -> Self {
        Float8(match KIND {
            0 => E5M2.encode(x),
            1 => E4M3FN.encode(x),
            2 => E5M2FNUZ.encode(x),
            3 => E4M3FNUZ.encode(x),
            _ => encode_e8m0(x),
        })
    }
}

impl<const KIND: usize> PartialEq for Float8<KIND> {
    fn eq(&self, other: &Self) -> bool {
        self.to_f32() == other.to_f32()
    }
}

impl<const KIND: usize> std::fmt::Debug for Float8<KIND> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_f32().fmt(f)
    }
}

impl<const KIND: usize> Element for Float8<KIND> {
    const DTYPE: DType = DType::FLOAT8[KIND];
    #[inline]
    fn from_scalar(scalar: Scalar) -> Self {
        Self::from_f32(scalar.f64() as f32)
    }
    #[inline]
    fn to_scalar(self) -> Scalar {
        Scalar::Float(f64::from(self.to_f32()))
    }
}

impl<const KIND: usize> Cast<f32> for Float8<KIND> {
    #[inline(always)]
    fn cast(self) -> f32 {
        self.to_f32()
    }
}

impl<const KIND: usize> Cast<Float8<KIND>> for f32 {
    #[inline(always)]
    fn cast(self) -> Float8<KIND> {
        Float8::from_f32(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_back<const KIND: usize>() {
        for code in 0..=u8::MAX {
            let x = Float8::<KIND>(code).to_f32();
            let again = Float8::<KIND>::from_f32(x);
            if x.is_nan() {
                assert!(again.to_f32().is_nan(), "{KIND} {code:#x}");
            } else if x.is_finite() {
                assert_eq!(again.0, code, "{KIND}");
            }
        }
    }

    #[test]
    fn every_number_comes_back() {
        comes_back::<0>();
        comes_back::<1>();
        comes_back::<2>();
        comes_back::<3>();
        comes_back::<4>();
    }

    #[test]
    fn numbers_that_are_too_large_follow_the_format() {
        let codes = |x: f32| {
            [
                f8e5m2::from_f32(x).0,
                f8e4m3fn::from_f32(x).0,
                f8e5m2fnuz::from_f32(x).0,
                f8e4m3fnuz::from_f32(x).0,
                f8e8m0fnu::from_f32(x).0,
            ]
        };
        assert_eq!(codes(f32::INFINITY), [0x7c, 0x7e, 0x80, 0x80, 0xff]);
        assert_eq!(codes(-61440.0), [0xfc, 0xfe, 0x80, 0x80, 0x8f]);
        assert_eq!(codes(-61439.0), [0xfb, 0xfe, 0xff, 0x80, 0x8f]);
        assert_eq!(codes(-0.0), [0x80, 0x80, 0, 0, 0]);
    }
}
