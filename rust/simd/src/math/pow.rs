//! x to the power y = exp(y log |x|), with the sign and the special cases of C99 chosen at the end.
//!
//! exp turns an absolute error of its argument into a relative one of the result, and y log |x| may reach 745. So the
//! logarithm is computed to about 65 bits, as a sum of two floats. Single precision does all in `f64`, whose
//! 53 bits are far more than enough.

use super::Isa;
use super::exp::exp_sum;
use super::float::*;
use super::log::{log_normal, split};
use super::tables::*;

/// log(x) for positive finite x, as a sum of two with a relative error of 2^-65.
#[inline(always)]
fn log_double<S: Isa>(x: f64) -> (f64, f64) {
    let (k, m) = split(x);
    // s = (m - 1) / (m + 1) = s + s_lo.
    let (bottom, bottom_lo) = fast_two_sum(m, 1.0);
    let (bottom, bottom_lo) = if m < 1.0 { fast_two_sum(1.0, m) } else { (bottom, bottom_lo) };
    let top = m - 1.0;
    let s = top / bottom;
    let (back, back_lo) = two_prod::<S>(s, bottom);
    let s_lo = ((top - back) - back_lo - s * bottom_lo) / bottom;
    // z = s^2, then log m = 2 s + s z (2/3 + z p).
    let (z, z_lo) = two_prod::<S>(s, s);
    let z_lo = S::mul_add(2.0 * s, s_lo, z_lo);
    let tail = z * poly::<S>(z, &LOGDD);
    let (c, c_lo) = fast_two_sum(TWO_THIRDS_HI, tail);
    let c_lo = c_lo + TWO_THIRDS_LO;
    let (sz, sz_lo) = two_prod::<S>(s, z);
    let sz_lo = sz_lo + S::mul_add(s, z_lo, s_lo * z);
    let (q, q_lo) = two_prod::<S>(sz, c);
    let q_lo = q_lo + S::mul_add(sz, c_lo, sz_lo * c);
    let (sum, left) = fast_two_sum(2.0 * s, q);
    let left = left + (q_lo + 2.0 * s_lo);
    let (hi, lo) = two_sum(k * LN2_HI, sum);
    let lo = lo + S::mul_add(k, LN2_LO, left);
    fast_two_sum(hi, lo)
}

/// `magnitude` = |x|^y with what C99 says about signs, ones, zeros and non-integral powers.
macro_rules! signed {
    ($name:ident, $t:ident) => {
        #[inline(always)]
        fn $name(x: $t, y: $t, magnitude: $t) -> $t {
            // From here on every float is an integer, and from twice this on an even one.
            const BIG: $t = (1u64 << ($t::MANTISSA_DIGITS - 1)) as $t;
            let (a, b) = (x.abs(), y.abs());
            // Infinity counts as even.
            let integral = b >= BIG || (b + BIG) - BIG == b;
            let half = 0.5 * b;
            let even = b >= 2.0 * BIG || (half + BIG) - BIG == half;
            let r = if a == 1.0 && !y.is_nan() { 1.0 } else { magnitude };
            let r = if x.is_sign_negative() && integral && !even { -r } else { r };
            let r = if x < 0.0 && x > $t::NEG_INFINITY && !integral { $t::NAN } else { r };
            if x == 1.0 || y == 0.0 { 1.0 } else { r }
        }
    };
}

signed!(signed, f64);
signed!(signed_32, f32);

#[inline(always)]
pub fn pow<S: Isa>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    // Beyond 1e20 every power of a float other than 1 is 0 or infinite, and products stay finite.
    let b = limit(y, -1e20, 1e20);
    let ordinary = a > 0.0 && a < f64::INFINITY;
    let (hi, lo) = log_double::<S>(a);
    let outside = if a == 0.0 { f64::NEG_INFINITY } else { a };
    let (t, t_lo) = two_prod::<S>(b, hi);
    let t_lo = S::mul_add(b, lo, t_lo);
    let inside = t.abs() < 1e4 && ordinary;
    let t = if ordinary { t } else { b * outside };
    signed(x, y, exp_sum::<S, Double>(t, if inside { t_lo } else { 0.0 }))
}

#[inline(always)]
pub fn pow_32<S: Isa>(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let power = exp_sum::<S, Single>(y as f64 * log_normal::<S>(a as f64), 0.0) as f32;
    // 0, infinity and NaN have no logarithm here.
    let outside = if (a == 0.0) == (y < 0.0) { f32::INFINITY } else { 0.0 };
    let outside = if a.is_nan() || y.is_nan() { f32::NAN } else { outside };
    signed_32(x, y, if a > 0.0 && a < f32::INFINITY { power } else { outside })
}

#[inline(always)]
pub fn rsqrt<S: Isa>(x: f64) -> f64 {
    1.0 / x.sqrt()
}

#[inline(always)]
pub fn rsqrt_32<S: Isa>(x: f32) -> f32 {
    1.0 / x.sqrt()
}
