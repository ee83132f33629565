//! The inverse trigonometric functions.
//!
//! asin and acos: an odd polynomial up to 1/2, and above 1/2 asin x = pi/2 - 2 asin(sqrt((1 - x)/2)). atan and atan2:
//! the angle is j pi/4 plus atan of a quotient below sqrt(2) - 1, whose numerator and denominator are chosen
//! beforehand, so that one division suffices.

use super::Isa;
use super::float::*;
use super::tables::*;

/// asin(s + c) - s for z = s^2 <= 1/4.
#[inline(always)]
fn asin_tail<S: Isa, P: Digits>(s: f64, c: f64, z: f64) -> f64 {
    S::mul_add(s * z, poly::<S>(z, P::ASIN), c)
}

/// sqrt(z) and its rounding error.
#[inline(always)]
fn sqrt_sum<S: Isa, P: Digits>(z: f64) -> (f64, f64) {
    let s = z.sqrt();
    if !P::FULL {
        return (s, 0.0);
    }
    let (square, rest) = two_prod::<S>(s, s);
    let c = ((z - square) - rest) / (2.0 * s);
    (s, if z == 0.0 { 0.0 } else { c })
}

#[inline(always)]
pub fn asin<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let near = a < 0.5;
    let half = 0.5 * (1.0 - a);
    let (root, missing) = sqrt_sum::<S, P>(half);
    let s = if near { a } else { root };
    let tail = asin_tail::<S, P>(s, if near { 0.0 } else { missing }, if near { a * a } else { half });
    let (sum, left) = fast_two_sum(PIO2_HI, -2.0 * root);
    let far = sum + (left + S::mul_add(-2.0, tail, PIO2_LO));
    flip_sign(if near { s + tail } else { far }, x)
}

#[inline(always)]
pub fn asin_32<S: Isa>(x: f32) -> f32 {
    asin::<S, Single>(x as f64) as f32
}

#[inline(always)]
pub fn acos<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let near = a < 0.5;
    let half = 0.5 * (1.0 - a);
    let (root, missing) = sqrt_sum::<S, P>(half);
    let s = if near { x } else { root };
    let tail = asin_tail::<S, P>(s, if near { 0.0 } else { missing }, if near { x * x } else { half });
    // pi/2 - s, 2 s or pi - 2 s.
    let double = if near { s } else { 2.0 * s };
    let double_tail = if near { tail } else { 2.0 * tail };
    let plain = double + double_tail;
    let (base, base_lo) = if near { (PIO2_HI, PIO2_LO) } else { (2.0 * PIO2_HI, 2.0 * PIO2_LO) };
    let (sum, left) = fast_two_sum(base, -double);
    let from_base = sum + (left + (base_lo - double_tail));
    if near || x < 0.0 { from_base } else { plain }
}

#[inline(always)]
pub fn acos_32<S: Isa>(x: f32) -> f32 {
    acos::<S, Single>(x as f64) as f32
}

/// atan(small / large) for 0 <= small <= large, as j and p of j pi/4 + p.
#[inline(always)]
fn octant<S: Isa, P: Digits>(small: f64, large: f64) -> (f64, f64) {
    let upper = small > 0.41421356237309503 * large;
    let top = if upper { small - large } else { small };
    let bottom = if upper { small + large } else { large };
    let t = top / bottom;
    let z = t * t;
    (if upper { 1.0 } else { 0.0 }, S::mul_add(t * z, poly::<S>(z, P::ATAN), t))
}

/// j pi/4 + p; the upper part of pi/4 has three bits less, so that its multiples are exact.
#[inline(always)]
fn angle<S: Isa, P: Digits>(j: f64, p: f64) -> f64 {
    let (hi, lo) = two_sum(j * PIO4_HI, p);
    hi + S::mul_add(j, PIO4_LO, lo)
}

#[inline(always)]
pub fn atan<S: Isa, P: Digits>(x: f64) -> f64 {
    let a = x.abs();
    let steep = a > 1.0;
    // 1 / inf is 0 and needs no case of its own.
    let (j, p) = octant::<S, P>(if steep { 1.0 } else { a }, if steep { a } else { 1.0 });
    let y = angle::<S, P>(if steep { 2.0 - j } else { j }, if steep { -p } else { p });
    flip_sign(y, x)
}

#[inline(always)]
pub fn atan_32<S: Isa>(x: f32) -> f32 {
    atan::<S, Single>(x as f64) as f32
}

#[inline(always)]
pub fn atan2<S: Isa, P: Digits>(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    let steep = a > b;
    let (small, large) = (if steep { b } else { a }, if steep { a } else { b });
    // Avoids overflow of the sum and subnormal operands; only the quotient matters.
    let by = if large > 1e300 { 1e-100 } else { 1.0 };
    let by = if large < 1e-200 { 1e100 } else { by };
    let (small, large) = (small * by, large * by);
    let both = small == f64::INFINITY;
    let small = if both { 1.0 } else { small };
    let large = if both || large == 0.0 { 1.0 } else { large };
    let (j, p) = octant::<S, P>(small, large);
    let (j, p) = (if steep { 2.0 - j } else { j }, if steep { -p } else { p });
    let left = x.is_sign_negative();
    let angle = angle::<S, P>(if left { 4.0 - j } else { j }, if left { -p } else { p });
    let angle = flip_sign(angle, y);
    if x.is_nan() || y.is_nan() { x + y } else { angle }
}

#[inline(always)]
pub fn atan2_32<S: Isa>(y: f32, x: f32) -> f32 {
    atan2::<S, Single>(y as f64, x as f64) as f32
}
