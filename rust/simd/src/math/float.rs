//! The building blocks of the functions: polynomials, powers of two, and sums of two floats ("double-double").
//!
//! Nothing here branches; an `if` selects between two finished values and becomes a blend.

use super::Isa;
use super::tables::*;

/// The required precision of a function in `f64`: full, or enough for rounding to `f32`. The second takes shorter
/// polynomials and omits the compensation of rounding errors.
pub trait Digits {
    const FULL: bool;
    const EXP: &'static [f64];
    const LOG: &'static [f64];
    const ASIN: &'static [f64];
    const ATAN: &'static [f64];
    const SINH: &'static [f64];
    const ERF: &'static [f64];
    const ERFC: &'static [f64];
}

/// 53 bits.
pub struct Double;

impl Digits for Double {
    const FULL: bool = true;
    const EXP: &'static [f64] = &EXP64;
    const LOG: &'static [f64] = &LOG64;
    const ASIN: &'static [f64] = &ASIN64;
    const ATAN: &'static [f64] = &ATAN64;
    const SINH: &'static [f64] = &SINH64;
    const ERF: &'static [f64] = &ERF64;
    const ERFC: &'static [f64] = &ERFC64;
}

/// About 35 bits: after rounding to `f32` the error is 0.501 ulp.
pub struct Single;

impl Digits for Single {
    const FULL: bool = false;
    const EXP: &'static [f64] = &EXP40;
    const LOG: &'static [f64] = &LOG40;
    const ASIN: &'static [f64] = &ASIN40;
    const ATAN: &'static [f64] = &ATAN40;
    const SINH: &'static [f64] = &SINH40;
    const ERF: &'static [f64] = &ERF40;
    const ERFC: &'static [f64] = &ERFC40;
}

/// Adding and subtracting it rounds an `f64` to an integer, which then stands in the low bits of the sum.
pub const ROUND64: f64 = 6755399441055744.0;
/// The same for `f32`.
pub const ROUND32: f32 = 12582912.0;

/// `c[0] + c[1] x + c[2] x^2 + ...`
///
/// Each step depends on the previous one for four cycles, and a processor looks only a few vectors ahead. So the even
/// and the odd powers of a long polynomial are summed in parallel.
macro_rules! polynomial {
    ($name:ident, $t:ident, $long:literal) => {
        #[inline(always)]
        pub fn $name<S: Isa>(x: $t, c: &[$t]) -> $t {
            let sum = |z: $t, first: usize, step: usize| {
                let last = first + (c.len() - 1 - first) / step * step;
                let mut sum = c[last];
                for i in (first..last).step_by(step).rev() {
                    sum = S::mul_add(sum, z, c[i]);
                }
                sum
            };
            if c.len() < $long {
                return sum(x, 0, 1);
            }
            let z = x * x;
            S::mul_add(sum(z, 1, 2), x, sum(z, 0, 2))
        }
    };
}

polynomial!(poly, f64, 5);
polynomial!(poly32, f32, 8);

/// 2^k for an integral k in -1022 ..= 1023.
#[inline(always)]
pub fn pow2(k: f64) -> f64 {
    f64::from_bits((k + (ROUND64 + 1023.0)).to_bits() << 52)
}

/// `y * 2^k` for a y near 1 and an integral k; the result may be infinite or subnormal and is rounded once.
#[inline(always)]
pub fn scale(y: f64, k: f64) -> f64 {
    let half = (k * 0.5 + ROUND64) - ROUND64;
    y * pow2(half) * pow2(k - half)
}

/// `(1 + tail) * 2^k` for a small tail and an integral k, from `k + ROUND32`, whose low bits are k. The result may be
/// infinite or subnormal. The sum is scaled by half of the power, which is exact, and the product by the rest.
#[inline(always)]
pub fn raise_32<S: Isa>(tail: f32, shifted: f32) -> f32 {
    let whole = shifted.to_bits() << 23;
    let half = (whole as i32 >> 1) as u32 & 0xff80_0000;
    let power = |bits: u32| f32::from_bits(1f32.to_bits().wrapping_add(bits));
    let near = S::mul_add(power(half), tail, power(half));
    near * power(whole.wrapping_sub(half))
}

/// `a + b` as rounded sum and remainder.
#[inline(always)]
pub fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_in = sum - a;
    (sum, (a - (sum - b_in)) + (b - b_in))
}

/// [`two_sum`] where |a| >= |b| or a = 0.
#[inline(always)]
pub fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, (a - sum) + b)
}

/// `a * b` as rounded product and remainder; for |a|, |b| < 1e150.
#[inline(always)]
pub fn two_prod<S: Isa>(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    if S::FMA {
        return (product, S::mul_add(a, b, -product));
    }
    // Dekker: halves of 26 bits have exact products.
    let (ah, bh) = (upper(a), upper(b));
    let (al, bl) = (a - ah, b - bh);
    (product, ((ah * bh - product) + ah * bl + al * bh) + al * bl)
}

/// The upper 26 bits of a float.
#[inline(always)]
pub fn upper(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0xffff_ffff_f800_0000)
}

/// `value` with the sign of `sign` multiplied in.
#[inline(always)]
pub fn flip_sign(value: f64, sign: f64) -> f64 {
    f64::from_bits(value.to_bits() ^ (sign.to_bits() & (1 << 63)))
}

/// `value` with the sign of `sign` multiplied in.
#[inline(always)]
pub fn flip_sign_32(value: f32, sign: f32) -> f32 {
    f32::from_bits(value.to_bits() ^ (sign.to_bits() & (1 << 31)))
}

/// x limited to `low ..= high`; NaN remains NaN.
#[inline(always)]
pub fn limit(x: f64, low: f64, high: f64) -> f64 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// x limited to `low ..= high`; NaN remains NaN.
#[inline(always)]
pub fn limit_32(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low { low } else { x }
}

/// Whether x is greater than 0 and less than infinity.
#[inline(always)]
pub fn is_ordinary_32(x: f32) -> bool {
    x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1
}
