//! The error function, its complement and its inverse.
//!
//! erf is an odd polynomial up to 1; beyond, it is 1 - erfc. erfc x = exp(-x^2) p(t) / (1 + 2x) with t = (x-4)/(x+4),
//! where p is so flat that one polynomial serves all x >= 0 (the mapping of Shepherd and Laframboise). x^2 is stored as
//! two floats, because exp would magnify its rounding error. The inverse uses polynomials in -log(1 - x^2) (the idea of
//! Giles), on three intervals.

use super::Isa;
use super::exp::{exp_sum, exp2_rough_32};
use super::float::*;
use super::log::log;
use super::tables::*;

/// erf(x) - x for |x| <= 1.
#[inline(always)]
fn erf_tail<S: Isa, P: Digits>(x: f64) -> f64 {
    let z = x * x;
    x * S::mul_add(z, poly::<S>(z, P::ERF), ERF_SLOPE)
}

/// erfc(x) for x >= 0.
#[inline(always)]
fn erfc_right<S: Isa, P: Digits>(x: f64) -> f64 {
    let x = limit(x, 0.0, 28.0);
    let (square, rest) = two_prod::<S>(x, x);
    let p = poly::<S>((x - 4.0) / (x + 4.0), P::ERFC);
    exp_sum::<S, P>(-square, -rest) * (p / (1.0 + 2.0 * x))
}

#[inline(always)]
pub fn erf<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let near = x + erf_tail::<S, P>(x);
    let far = flip_sign(1.0 - erfc_right::<S, P>(a), x);
    if a < 1.0 { near } else { far }
}

#[inline(always)]
pub fn erf_32<S: Isa>(x: f32) -> f32 {
    let a = x.abs();
    let z = x * x;
    let near = S::mul_add(x, S::mul_add(z, poly32::<S>(z, &ERF32), ERF_SLOPE as f32), x);
    let far = 1.0 - exp2_rough_32::<S>(-poly32::<S>(limit_32(a, 0.0, 4.0), &ERFC32));
    if a < 1.0 { near } else { flip_sign_32(far, x) }
}

#[inline(always)]
pub fn erfc<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let (sum, left) = fast_two_sum(1.0, -x);
    let near = sum + (left - erf_tail::<S, P>(x));
    let right = erfc_right::<S, P>(a);
    let far = if x < 0.0 { 2.0 - right } else { right };
    if a < 0.8 { near } else { far }
}

#[inline(always)]
pub fn erfc_32<S: Isa>(x: f32) -> f32 {
    erfc::<S, Single>(x as f64) as f32
}

#[inline(always)]
pub fn ndtr<S: Isa>(x: f64) -> f64 {
    0.5 * (1.0 + erf::<S, Double>(x * std::f64::consts::FRAC_1_SQRT_2))
}

/// One polynomial serves all arguments, because nothing cancels at 0. Beyond its interval the smaller half is 0.
#[inline(always)]
pub fn ndtr_32<S: Isa>(x: f32) -> f32 {
    const END: f32 = 5.7;
    let a = x.abs();
    let near = if a > END { END } else { a };
    let below = exp2_rough_32::<S>(-poly32::<S>(near, &NDTR32));
    let below = if a > END { 0.0 } else { below };
    if x < 0.0 { below } else { 1.0 - below }
}

#[inline(always)]
pub fn erfinv<S: Isa>(x: f64) -> f64 {
    let w = -log::<S, Double>((1.0 - x) * (1.0 + x));
    let v = w.sqrt();
    let near = poly::<S>(w, &ERFINV_NEAR);
    let mid = poly::<S>(v - 3.25, &ERFINV_MID);
    let far = poly::<S>(v - 5.0, &ERFINV_FAR);
    let ratio = if w < 16.0 { mid } else { far };
    let y = x * if w < 6.25 { near } else { ratio };
    if x.abs() == 1.0 { x * f64::INFINITY } else { y }
}

/// Two intervals suffice: the largest f32 below 1 has w = 15.9.
#[inline(always)]
pub fn erfinv_32<S: Isa>(x: f32) -> f32 {
    let x = x as f64;
    let w = -log::<S, Single>((1.0 - x) * (1.0 + x));
    let near = poly::<S>(w, &ERFINV_NEAR40);
    let far = poly::<S>(w.sqrt() - 3.3, &ERFINV_FAR40);
    let y = x * if w < 6.25 { near } else { far };
    (if x.abs() == 1.0 { x * f64::INFINITY } else { y }) as f32
}
