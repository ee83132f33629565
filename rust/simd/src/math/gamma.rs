//! log |Gamma| and its derivative. They are rare, so they are computed one element at a time.

use super::Isa;
use std::f64::consts::PI;

pub fn lgamma<S: Isa>(x: f64) -> f64 {
    libm::lgamma(x)
}

pub fn lgamma_32<S: Isa>(x: f32) -> f32 {
    libm::lgamma(x as f64) as f32
}

/// Bernoulli numbers B(2n) / 2n of the asymptotic series of digamma.
const SERIES: [f64; 8] =
    [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0, 1.0 / 12.0, -3617.0 / 8160.0];

/// Upwards to 10 by the recurrence, then the asymptotic series; negative x by reflection. As in torch, digamma(0) is
/// infinite with the sign of -x, and negative integers give NaN.
pub fn digamma<S: Isa>(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY.copysign(-x);
    }
    if x < 0.0 {
        let fraction = x - x.trunc();
        if fraction == 0.0 || x == f64::NEG_INFINITY {
            return f64::NAN;
        }
        return digamma::<S>(1.0 - x) - PI / (PI * fraction).tan();
    }
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift -= 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = SERIES.iter().rev().fold(0.0, |sum, c| (sum + c) * z);
    shift + if x.is_finite() { x.ln() - 0.5 / x - series } else { x }
}

pub fn digamma_32<S: Isa>(x: f32) -> f32 {
    digamma::<S>(x as f64) as f32
}
