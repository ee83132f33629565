//! The incomplete gamma functions, by their series below the mean and by Legendre's continued fraction above; near the
//! mean of large parameters, where both are slow and lose digits, by Temme's expansion.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, DTypes, Derivative, Operator, Saves, formula, missing_formula, operator,
};
use rushlight_simd::{Base, Isa};

use super::{BINARY, common};
use crate::expr_ext::ExprExt;

/// The number of terms after which a sum is truncated.
const TERMS: usize = 100_000;

/// The density of the gamma distribution of scale one at `x`, times `x`.
fn weight(a: f64, x: f64) -> f64 {
    (a * x.ln() - x - Base::lgamma(a)).exp()
}

/// The parameter from which Temme's expansion is used, and the relative distance from the mean up to which it is.
const LARGE: f64 = 1e4;
const NEAR: f64 = 0.1;

/// Temme's uniform expansion (DLMF 8.12): P = N(eta sqrt(a)) - R, where eta^2 / 2 = m - ln(1 + m), x = a (1 + m), N is
/// the normal distribution and R = exp(-a eta^2 / 2) (c0 + c1 / a + ...) / sqrt(2 pi a). c0 and c1 are given in powers
/// of eta and suffice for parameters above ten thousand.
pub struct Uniform {
    /// (eta / m)^2.
    pub ratio: f64,
    pub eta: f64,
    /// c0 + c1 / a.
    pub rest: f64,
}

impl Uniform {
    pub const C0: [f64; 9] = [
        -1.0 / 3.0,
        1.0 / 12.0,
        -2.0 / 135.0,
        1.0 / 864.0,
        1.0 / 2835.0,
        -139.0 / 777_600.0,
        1.0 / 25_515.0,
        -571.0 / 261_273_600.0,
        -281.0 / 151_559_100.0,
    ];
    const C1: [f64; 4] = [-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0, -77.0 / 77_760.0];

    pub fn new(a: f64, m: f64) -> Uniform {
        // 2 (m - ln(1 + m)) / m^2, computed as a series if the difference would cancel.
        let ratio = (0..20).rev().fold(0.0, |sum, n| 2.0 / f64::from(n + 2) - m * sum);
        let eta = m * ratio.sqrt();
        Uniform { ratio, eta, rest: horner(&Self::C0, eta) + horner(&Self::C1, eta) / a }
    }

    /// P and Q.
    fn both(&self, a: f64) -> (f64, f64) {
        let z = self.eta * (a / 2.0).sqrt();
        let rest = self.rest * (-z * z).exp() / (std::f64::consts::TAU * a).sqrt();
        (0.5 * Base::erfc(-z) - rest, 0.5 * Base::erfc(z) + rest)
    }
}

/// A polynomial with these coefficients, the constant first.
pub fn horner(of: &[f64], x: f64) -> f64 {
    of.iter().rev().fold(0.0, |sum, c| sum * x + c)
}

/// The lower function P and the upper one Q = 1 - P.
fn both(a: f64, x: f64) -> (f64, f64) {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 || (a == 0.0 && x == 0.0) || (a.is_infinite() && x.is_infinite())
    {
        return (f64::NAN, f64::NAN);
    }
    if a == 0.0 || x.is_infinite() {
        return (1.0, 0.0);
    }
    if x == 0.0 || a.is_infinite() {
        return (0.0, 1.0);
    }
    if a > LARGE && (x / a - 1.0).abs() < NEAR {
        return Uniform::new(a, (x - a) / a).both(a);
    }
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..TERMS {
            term *= x / (a + n as f64);
            sum += term;
            if term <= sum * 1e-17 {
                break;
            }
        }
        let lower = (sum * weight(a, x)).min(1.0);
        return (lower, 1.0 - lower);
    }
    let mut b = x + 1.0 - a;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut h = d;
    for n in 1..TERMS {
        let n = n as f64;
        let p = -n * (n - a);
        b += 2.0;
        d = 1.0 / (p * d + b);
        c = b + p / c;
        let factor = c * d;
        h *= factor;
        if (factor - 1.0).abs() <= 1e-16 {
            break;
        }
    }
    let upper = (h * weight(a, x)).min(1.0);
    (1.0 - upper, upper)
}

fn gamma_lower(a: f64, x: f64) -> f64 {
    both(a, x).0
}

fn gamma_upper(a: f64, x: f64) -> f64 {
    both(a, x).1
}

fn density(d: &BackwardContext) -> Expr {
    use IGAMMA::*;

    let (a, x) = (d.input(INPUT), d.input(OTHER));
    let log = (a.clone() - 1.0) * x.clone().log() - x - a.call(&super::special::LGAMMA, []);
    d.grad() * log.exp()
}

#[operator]
pub static IGAMMA: Operator = Operator {
    name: "igamma",
    aliases: &["special.gammainc"],
    doc: "The regularised lower incomplete gamma function.

    out = integral of t ** (self - 1) * exp(-t) from 0 to other, divided by gamma(self)

    >>> torch.igamma(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.8647])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! { for<S> [f32, f64] (|a, x| gamma_lower(f64::from(a), f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[
        missing_formula(INPUT, "igamma: input"),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), density),
    ]),
    samples: &["pos(2, 3), pos(2, 3)", "pos(3) * 9, pos(3)", "pos(3), pos(2, 1) * 9"],
    reference: "",
    ..BINARY
};

#[operator]
pub static IGAMMAC: Operator = Operator {
    name: "igammac",
    aliases: &["special.gammaincc"],
    doc: "The regularised upper incomplete gamma function, one minus the lower one.

    >>> torch.igammac(torch.tensor([1.]), torch.tensor([2.]))
    tensor([0.1353])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! { for<S> [f32, f64] (|a, x| gamma_upper(f64::from(a), f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[
        missing_formula(INPUT, "igammac: input"),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| -density(d)),
    ]),
    samples: &["pos(2, 3), pos(2, 3)", "pos(3) * 9, pos(3)", "pos(3), pos(2, 1) * 9"],
    reference: "",
    ..BINARY
};
