//! Logarithms and the inverse hyperbolic functions.
//!
//! x = 2^k m with sqrt(1/2) <= m < sqrt(2), and log m = 2 atanh(s) with s = f / (2 + f), f = m - 1: an odd series in a
//! small s. The sum is arranged as f - (f^2/2 - s (f^2/2 + R)), which keeps the leading term f exact (the arrangement
//! of FreeBSD's msun, by Ng).

use super::Isa;
use super::float::*;
use super::tables::*;
use std::f64::consts as c64;

const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const SQRT_HALF_32: u32 = 0x3f35_04f3;

/// x = 2^k m, for positive finite x, subnormal ones included.
#[inline(always)]
pub fn split(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let y = if tiny { x * 18014398509481984.0 } else { x };
    let shift = if tiny { 4503599627370496.0 + 1024.0 + 54.0 } else { 4503599627370496.0 + 1024.0 };
    let bits = y.to_bits().wrapping_sub(SQRT_HALF);
    // The exponent, made positive by 1024, becomes the low bits of a float in [2^52, 2^53).
    let k = (bits.wrapping_add(1024 << 52) >> 52) | 0x4330_0000_0000_0000;
    let m = (bits & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF);
    (f64::from_bits(k) - shift, f64::from_bits(m))
}

/// The values of every logarithm outside (0, inf).
#[inline(always)]
fn special(x: f64, y: f64) -> f64 {
    let y = if x < f64::INFINITY { y } else { x };
    let y = if x == 0.0 { f64::NEG_INFINITY } else { y };
    if x < 0.0 { f64::NAN } else { y }
}

/// One comparison of integers instead of three of floats; otherwise the compiler branches over the classes of floats.
#[inline(always)]
fn special_32(x: f32, y: f32) -> f32 {
    let outside = if x < 0.0 { f32::NAN } else { x };
    let outside = if x == 0.0 { f32::NEG_INFINITY } else { outside };
    if is_ordinary_32(x) { y } else { outside }
}

/// log(1 + f) = f - half_square + rest.
#[inline(always)]
fn parts<S: Isa, P: Digits>(f: f64) -> (f64, f64) {
    let s = f / (2.0 + f);
    let z = s * s;
    let half_square = 0.5 * f * f;
    (half_square, s * S::mul_add(z, poly::<S>(z, P::LOG), half_square))
}

/// k ln 2 + log(1 + f).
#[inline(always)]
fn log_of<S: Isa, P: Digits>(k: f64, f: f64) -> f64 {
    let (half_square, rest) = parts::<S, P>(f);
    S::mul_add(k, LN2_HI, f - (half_square - S::mul_add(k, LN2_LO, rest)))
}

#[inline(always)]
pub fn log<S: Isa, P: Digits>(x: f64) -> f64 {
    let (k, m) = split(x);
    special(x, log_of::<S, P>(k, m - 1.0))
}

/// log(1 + f) as a sum of two, the first with 32 bits so that its products with short constants are exact.
#[inline(always)]
fn log_sum<S: Isa, P: Digits>(f: f64) -> (f64, f64) {
    let (half_square, rest) = parts::<S, P>(f);
    let hi = f64::from_bits((f - half_square).to_bits() & 0xffff_ffff_0000_0000);
    (hi, (f - hi) - half_square + rest)
}

#[inline(always)]
pub fn log2<S: Isa, P: Digits>(x: f64) -> f64 {
    let (k, m) = split(x);
    let (hi, lo) = log_sum::<S, P>(m - 1.0);
    let low = S::mul_add(lo + hi, LOG2E_LO, lo * LOG2E_HI);
    let (sum, left) = two_sum(k, hi * LOG2E_HI);
    special(x, sum + (left + low))
}

#[inline(always)]
pub fn log10<S: Isa, P: Digits>(x: f64) -> f64 {
    let (k, m) = split(x);
    let (hi, lo) = log_sum::<S, P>(m - 1.0);
    let low = S::mul_add(k, LOG10_2_LO, S::mul_add(lo + hi, LOG10E_LO, lo * LOG10E_HI));
    let (sum, left) = two_sum(k * LOG10_2_HI, hi * LOG10E_HI);
    special(x, sum + (left + low))
}

/// log(1 + hi + lo) with hi >= -1 and |lo| small compared with it: 1 + hi is rounded, and the rounding error is added
/// to f.
#[inline(always)]
fn log1p_sum<S: Isa, P: Digits>(hi: f64, lo: f64) -> f64 {
    let (u, left) = two_sum(1.0, hi);
    let (k, m) = split(u);
    let down = pow2(-limit(k, -1000.0, 1000.0));
    let y = log_of::<S, P>(k, (m - 1.0) + (left + lo) * down);
    special(u, y)
}

#[inline(always)]
pub fn log1p<S: Isa, P: Digits>(x: f64) -> f64 {
    let y = log1p_sum::<S, P>(x, 0.0);
    if x.abs() < 1e-17 { x } else { y }
}

/// x = 2^k m, for positive finite x, subnormal ones included.
#[inline(always)]
pub fn split_32(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let y = if tiny { x * 33554432.0 } else { x };
    let bits = y.to_bits().wrapping_sub(SQRT_HALF_32);
    let k = (bits as i32 >> 23) as f32 - if tiny { 25.0 } else { 0.0 };
    (k, f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF_32)))
}

/// Single precision needs no division: the polynomial in f is short enough.
#[inline(always)]
pub fn log_32<S: Isa>(x: f32) -> f32 {
    let (k, m) = split_32(x);
    let f = m - 1.0;
    let z = f * f;
    let tail = S::mul_add(k, LN2_LO_32, z * f * poly32::<S>(f, &LOG32));
    let sum = S::mul_add(z, -0.5, tail) + f;
    special_32(x, S::mul_add(k, LN2_HI_32, sum))
}

#[inline(always)]
pub fn log2_32<S: Isa>(x: f32) -> f32 {
    let (k, m) = split(x as f64);
    special(x as f64, S::mul_add(log_of::<S, Single>(0.0, m - 1.0), c64::LOG2_E, k)) as f32
}

#[inline(always)]
pub fn log10_32<S: Isa>(x: f32) -> f32 {
    (log::<S, Single>(x as f64) * c64::LOG10_E) as f32
}

#[inline(always)]
pub fn log1p_32<S: Isa>(x: f32) -> f32 {
    log1p::<S, Single>(x as f64) as f32
}

/// log1p(a + a^2 / (1 + sqrt(1 + a^2))); beyond 1e17, where 1 is lost, log(a) + ln 2.
#[inline(always)]
pub fn asinh<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let large = a > 1e17;
    let b = if large { 1.0 } else { a };
    let b2 = b * b;
    let (hi, lo) = two_sum(b, b2 / (1.0 + (1.0 + b2).sqrt()));
    let y = log1p_sum::<S, P>(if large { a } else { hi }, if large { 0.0 } else { lo });
    let y = if large { y + c64::LN_2 } else { y };
    let y = if a < 1e-17 { a } else { y };
    flip_sign(y, x)
}

#[inline(always)]
pub fn asinh_32<S: Isa>(x: f32) -> f32 {
    asinh::<S, Single>(x as f64) as f32
}

/// log1p(t + sqrt(t^2 + 2t)) with t = x - 1; beyond 1e17, where 1 is lost, log(x) + ln 2.
#[inline(always)]
pub fn acosh<S: Isa, P: Digits>(x: f64) -> f64 {
    let large = x > 1e17;
    let t = if large { 1.0 } else { x - 1.0 };
    let (hi, lo) = two_sum((t * (t + 2.0)).sqrt(), t);
    let y = log1p_sum::<S, P>(if large { x } else { hi }, if large { 0.0 } else { lo });
    let y = if large { y + c64::LN_2 } else { y };
    if x < 1.0 { f64::NAN } else { y }
}

#[inline(always)]
pub fn acosh_32<S: Isa>(x: f32) -> f32 {
    acosh::<S, Single>(x as f64) as f32
}

/// log1p(2a + 2a^2 / (1 - a)) / 2.
#[inline(always)]
pub fn atanh<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let (hi, lo) = two_sum(2.0 * a, 2.0 * a * a / (1.0 - a));
    let y = 0.5 * log1p_sum::<S, P>(hi, lo);
    let y = if a < 1e-17 { a } else { y };
    let y = if a == 1.0 { f64::INFINITY } else { y };
    flip_sign(if a > 1.0 { f64::NAN } else { y }, x)
}

#[inline(always)]
pub fn atanh_32<S: Isa>(x: f32) -> f32 {
    atanh::<S, Single>(x as f64) as f32
}
