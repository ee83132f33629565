//! The exponential function and functions derived from it.
//!
//! exp(x) = 2^k exp(r) with k the integer nearest x / ln 2 and r = x - k ln 2, so |r| <= 0.347 and a short polynomial
//! suffices. ln 2 is split in two (Cody and Waite): its upper part has so few bits that `k * LN2_HI` is exact.

use super::Isa;
use super::float::*;
use super::tables::*;
use std::f32::consts as c32;
use std::f64::consts as c64;

/// exp(hi + lo) / 2^k, and k.
#[inline(always)]
fn reduced<S: Isa, P: Digits>(hi: f64, lo: f64) -> (f64, f64) {
    let (k, r, c) = reduce::<S, P>(hi, lo);
    let tail = S::mul_add(r * r, poly::<S>(r, P::EXP), if P::FULL { S::mul_add(c, r, c) } else { 0.0 });
    (1.0 + (r + tail), k)
}

/// hi + lo = k ln 2 + r + c, for hi limited to where exp is neither 0 nor infinite.
#[inline(always)]
fn reduce<S: Isa, P: Digits>(hi: f64, lo: f64) -> (f64, f64, f64) {
    let x = limit(hi, -746.0, 711.0);
    let k = S::mul_add(x, c64::LOG2_E, ROUND64) - ROUND64;
    let r_hi = S::mul_add(-k, LN2_HI, x);
    if !P::FULL {
        return (k, S::mul_add(-k, LN2_LO, r_hi + lo), 0.0);
    }
    let r_lo = S::mul_add(-k, LN2_LO, lo);
    let r = r_hi + r_lo;
    (k, r, (r_hi - r) + r_lo)
}

/// exp(hi + lo), where |lo| is small compared with |hi|: for callers whose argument has more than 53 bits.
#[inline(always)]
pub fn exp_sum<S: Isa, P: Digits>(hi: f64, lo: f64) -> f64 {
    let (y, k) = reduced::<S, P>(hi, lo);
    scale(y, k)
}

#[inline(always)]
pub fn exp<S: Isa, P: Digits>(x: f64) -> f64 {
    let vanishes = x < -746.0;
    let y = exp_sum::<S, P>(if vanishes { 0.0 } else { x }, 0.0);
    if vanishes { 0.0 } else { y }
}

/// exp(x) / 2, finite wherever sinh and cosh are.
#[inline(always)]
fn half_exp<S: Isa, P: Digits>(x: f64) -> f64 {
    let (y, k) = reduced::<S, P>(x, 0.0);
    scale(y, k - 1.0)
}

/// exp(x) = 2^k (1 + r + rest) for an x between -104 and 89, beyond which exp is 0 or infinite: k + ROUND32, r and rest.
#[inline(always)]
fn reduced_32<S: Isa>(x: f32) -> (f32, f32, f32) {
    let shifted = S::mul_add(x, c32::LOG2_E, ROUND32);
    let k = shifted - ROUND32;
    let r_hi = S::mul_add(-k, LN2_HI_32, x);
    let r = S::mul_add(-k, LN2_LO_32, r_hi);
    let c = S::mul_add(-k, LN2_LO_32, r_hi - r);
    (shifted, r, S::mul_add(r * r, poly32::<S>(r, &EXP32), c))
}

/// Masked scores need only the result 0, and denormal products cost a processor a hundred times as much as others, so
/// these elements are computed as exp(0).
#[inline(always)]
pub fn exp_32<S: Isa>(x: f32) -> f32 {
    let vanishes = x < -104.0;
    let x = if x > 89.0 { 89.0 } else { x };
    let (shifted, r, rest) = reduced_32::<S>(if vanishes { 0.0 } else { x });
    let y = raise_32::<S>(r + rest, shifted);
    if vanishes { 0.0 } else { y }
}

#[inline(always)]
pub fn exp2<S: Isa>(x: f64) -> f64 {
    let x = limit(x, -1080.0, 1025.0);
    let k = (x + ROUND64) - ROUND64;
    let r = (x - k) * c64::LN_2;
    let y = 1.0 + S::mul_add(x - k, c64::LN_2, r * r * poly::<S>(r, &EXP64));
    scale(y, k)
}

#[inline(always)]
pub fn exp2_32<S: Isa>(x: f32) -> f32 {
    let x = limit_32(x, -151.0, 129.0);
    let shifted = x + ROUND32;
    let k = shifted - ROUND32;
    let r = (x - k) * c32::LN_2;
    raise_32::<S>(S::mul_add(x - k, c32::LN_2, r * r * poly32::<S>(r, &EXP32)), shifted)
}

/// 2^k (1 + r + tail) - 1, computed at half its size because 2^1024 overflows.
#[inline(always)]
pub fn expm1<S: Isa, P: Digits>(x: f64) -> f64 {
    let (k, r, c) = reduce::<S, P>(x, 0.0);
    let tail = S::mul_add(r * r, poly::<S>(r, P::EXP), if P::FULL { S::mul_add(c, r, c) } else { 0.0 });
    let k = limit(k, -1000.0, 1024.0);
    let half = pow2(k - 1.0);
    let (hi, lo) = two_sum(half - 0.5, half * r);
    let y = 2.0 * (hi + S::mul_add(half, tail, lo));
    // For large |x|, r belongs to a greater k than the limit.
    if x.abs() < 1e-17 {
        x
    } else if x > 710.0 {
        f64::INFINITY
    } else {
        y
    }
}

#[inline(always)]
pub fn expm1_32<S: Isa>(x: f32) -> f32 {
    expm1::<S, Single>(x as f64) as f32
}

/// exp(-|x|) never overflows, and sigmoid(-x) = exp(-x) sigmoid(x).
#[inline(always)]
pub fn sigmoid<S: Isa, P: Digits>(x: f64) -> f64 {
    let e = exp::<S, P>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

#[inline(always)]
pub fn sigmoid_32<S: Isa>(x: f32) -> f32 {
    let e = exp_32::<S>(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// An odd polynomial near 0, where 1 - 2 / (exp(2x) + 1) would cancel.
#[inline(always)]
pub fn tanh<S: Isa>(x: f64) -> f64 {
    let a = x.abs();
    let z = a * a;
    let near = S::mul_add(a * z, poly::<S>(z, &TANH64), a);
    let far = 1.0 - 2.0 / (exp::<S, Double>(2.0 * a) + 1.0);
    flip_sign(if a < 0.6 { near } else { far }, x)
}

/// 2^t for |t| <= 100, to 23 bits.
#[inline(always)]
pub fn exp2_rough_32<S: Isa>(t: f32) -> f32 {
    let shifted = t + ROUND32;
    let r = t - (shifted - ROUND32);
    raise_rough_32::<S>(r, shifted)
}

/// 2^(k + r) from `k + ROUND32`.
#[inline(always)]
fn raise_rough_32<S: Isa>(r: f32, shifted: f32) -> f32 {
    let power = f32::from_bits(1f32.to_bits().wrapping_add(shifted.to_bits() << 23));
    S::mul_add(power * r, poly32::<S>(r, &EXP2_32), power)
}

/// exp is only added to a larger number, 1, so it need not be exact.
#[inline(always)]
pub fn tanh_32<S: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let z = a * a;
    let near = S::mul_add(a * z, poly32::<S>(z, &TANH32), a);
    // From 10 on the result is 1.
    let far = limit_32(a, 0.0, 10.0);
    const TWICE: f32 = 2.0 * c32::LOG2_E;
    let shifted = S::mul_add(far, TWICE, ROUND32);
    let r = S::mul_add(far, TWICE, -(shifted - ROUND32));
    let far = 1.0 - 2.0 / (raise_rough_32::<S>(r, shifted) + 1.0);
    flip_sign_32(if a < 0.9 { near } else { far }, x)
}

#[inline(always)]
pub fn sinh<S: Isa, P: Digits>(x: f64) -> f64 {
    let z = x * x;
    let near = S::mul_add(x * z, poly::<S>(z, P::SINH), x);
    let h = half_exp::<S, P>(x.abs());
    let far = h - 0.25 / h;
    if x.abs() < 1.0 { near } else { flip_sign(far, x) }
}

#[inline(always)]
pub fn sinh_32<S: Isa>(x: f32) -> f32 {
    sinh::<S, Single>(x as f64) as f32
}

#[inline(always)]
pub fn cosh<S: Isa, P: Digits>(x: f64) -> f64 {
    let h = half_exp::<S, P>(x.abs());
    h + 0.25 / h
}

#[inline(always)]
pub fn cosh_32<S: Isa>(x: f32) -> f32 {
    cosh::<S, Single>(x as f64) as f32
}
