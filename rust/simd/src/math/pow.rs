//! x to the power y = exp(y log |x|), with the sign and the special cases of C99 chosen at the end.
//!
//! exp turns an absolute error of its argument into a relative one of the result, and y log |x| may reach 745. So the
//! logarithm is computed to about 65 bits, as a sum of two floats. Single precision computes in `f64`, whose 53 bits
//! are more than enough.

use super::Isa;
use super::exp::exp_sum;
use super::float::*;
use super::log::{split, split_32};
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

/// `magnitude` = |x|^y with C99's rules for signs, ones and non-integral powers; `ordinary` if |x| is neither zero nor
/// infinite nor NaN.
macro_rules! signed {
    ($name:ident, $t:ident) => {
        #[inline(always)]
        fn $name(x: $t, y: $t, ordinary: bool, magnitude: $t) -> $t {
            // Every float above this is an integer, and every float above twice this is even.
            const BIG: $t = (1u64 << ($t::MANTISSA_DIGITS - 1)) as $t;
            let b = y.abs();
            // Infinity counts as even.
            let integral = b >= BIG || (b + BIG) - BIG == b;
            let half = 0.5 * b;
            let even = b >= 2.0 * BIG || (half + BIG) - BIG == half;
            let negative = x.is_sign_negative();
            let r = if negative && integral && !even { -magnitude } else { magnitude };
            let r = if negative && ordinary && !integral { $t::NAN } else { r };
            if x == 1.0 || y == 0.0 { 1.0 } else { r }
        }
    };
}

signed!(signed, f64);
signed!(signed_32, f32);

#[inline(always)]
pub fn pow<S: Isa>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    // Above 1e20 every power of a float other than 1 is 0 or infinite; the limit keeps products finite.
    let b = limit(y, -1e20, 1e20);
    let ordinary = a > 0.0 && a < f64::INFINITY;
    let (hi, lo) = log_double::<S>(a);
    let outside = if a == 0.0 { f64::NEG_INFINITY } else { a };
    let (t, t_lo) = two_prod::<S>(b, hi);
    let t_lo = S::mul_add(b, lo, t_lo);
    let inside = t.abs() < 1e4 && ordinary;
    let t = if ordinary { t } else { b * outside };
    signed(x, y, ordinary, exp_sum::<S, Double>(t, if inside { t_lo } else { 0.0 }))
}

/// 2^(y log2 |x|), where log2 |x| = k + f (...) is accurate to 33 bits.
#[inline(always)]
pub fn pow_32<S: Isa>(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let (k, m) = split_32(a);
    // Infinity and NaN are their own logarithm.
    let outside = if a == 0.0 { f32::NEG_INFINITY } else { a };
    let ordinary = is_ordinary_32(a);
    let k = if ordinary { k } else { outside } as f64;
    let f = (m - 1.0) as f64;
    let log = S::mul_add(f, poly::<S>(f, &LOG2_40), k);
    // An infinite power times the logarithm of 1 would be NaN.
    let t = limit(limit_32(y, -1e30, 1e30) as f64 * log, -160.0, 140.0);
    let shifted = t + ROUND64;
    let r = t - (shifted - ROUND64);
    let power = f64::from_bits((shifted.to_bits() << 52).wrapping_add(1f64.to_bits()));
    signed_32(x, y, ordinary, S::mul_add(power * r, poly::<S>(r, &EXP2_40), power) as f32)
}

#[inline(always)]
pub fn rsqrt<S: Isa>(x: f64) -> f64 {
    1.0 / x.sqrt()
}

#[inline(always)]
pub fn rsqrt_32<S: Isa>(x: f32) -> f32 {
    1.0 / x.sqrt()
}
