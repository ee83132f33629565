//! The derivative of a sample in its distribution's parameter: -(dF/da) / f for a distribution function F of density f.
//!
//! A sample x of parameter a is the value at which F(x; a) has some fixed height. Changing a changes x by that
//! quotient, which `rsample` needs. Both functions here sum the series (or the continued fraction) of F together with
//! its derivative in a, so that no differences are taken; factors that F shares with f cancel, and no intermediate
//! value overflows or underflows.

use rushlight_simd::{Base, Isa};

use crate::pointwise::incomplete::{Uniform, horner};

fn digamma(x: f64) -> f64 {
    Base::digamma(x)
}

/// The number of terms after which a sum is truncated; only parameters above 1e5 need as many.
const TERMS: usize = 100_000;

/// Above this the sums near the mean, of about 8 sqrt(a) terms, are replaced by the uniform expansion.
const LARGE: f64 = 1e6;
/// The relative distance from the mean up to which that holds: beyond it the sums end after some hundred terms.
const NEAR: f64 = 0.1;

/// By Temme's uniform expansion of F (`Uniform`), differentiated in a.
pub fn gamma_sample_grad_uniform(a: f64, x: f64) -> f64 {
    let m = (x - a) / a;
    let log = m.ln_1p();
    let Uniform { ratio, eta, rest } = Uniform::new(a, m);
    // ln(1 + m) / eta, which is one at the mean.
    let slope = if m == 0.0 { 1.0 } else { log / eta };
    let steps: Vec<f64> = Uniform::C0.iter().enumerate().skip(1).map(|(n, c)| n as f64 * c).collect();
    // d eta / da = -m / (a eta).
    let falling = -horner(&steps, eta) / ratio.sqrt() / a;
    // x times the density is sqrt(a) exp(-a eta^2 / 2) / (sqrt(2 pi) stirling).
    let stirling = 1.0 + 1.0 / (12.0 * a);
    (1.0 + m) * stirling * (slope + rest * (log - 0.5 / a) + falling)
}

/// For the gamma distribution of scale one: the derivative in `a` of the sample `x`.
pub fn gamma_sample_grad(a: f64, x: f64) -> f64 {
    if !(a > 0.0 && x > 0.0 && a.is_finite() && x.is_finite()) {
        return if x == 0.0 && a > 0.0 { 0.0 } else { f64::NAN };
    }
    if a > LARGE && (x / a - 1.0).abs() < NEAR {
        return gamma_sample_grad_uniform(a, x);
    }
    gamma_sample_grad_summed(a, x)
}

/// By sums, whose length grows with the square root of a near the mean.
pub fn gamma_sample_grad_summed(a: f64, x: f64) -> f64 {
    let log = x.ln() - digamma(a);
    if x < a + 1.0 {
        // F = f x S with S = sum of x^n / (a (a + 1) ... (a + n)), so dF/da / f = x (S log + S').
        let (mut term, mut rate) = (1.0 / a, -1.0 / a);
        let (mut sum, mut slope) = (term, term * rate);
        for n in 1..TERMS {
            let next = a + n as f64;
            term *= x / next;
            rate -= 1.0 / next;
            sum += term;
            slope += term * rate;
            if term * rate.abs() <= slope.abs() * 1e-16 {
                break;
            }
        }
        return -x * (sum * log + slope);
    }
    // 1 - F = f x C with Legendre's continued fraction 1 / C = x + 1 - a - 1 (1 - a) / (x + 3 - a - ...), whose value
    // and derivative are computed together by Lentz's recurrences: c, d and the product so far, each with its
    // derivative in a.
    let mut b = x + 1.0 - a;
    let (mut c, mut dc) = (1e300, 0.0);
    let (mut d, mut dd) = (1.0 / b, 1.0 / (b * b));
    let (mut h, mut dh) = (d, dd);
    for n in 1..TERMS {
        let n = n as f64;
        let (p, dp) = (-n * (n - a), n);
        b += 2.0;
        let bottom = p * d + b;
        let dbottom = dp * d + p * dd - 1.0;
        d = 1.0 / bottom;
        dd = -dbottom * d * d;
        let new = b + p / c;
        dc = -1.0 + dp / c - p * dc / (c * c);
        c = new;
        let (factor, change) = (c * d, dc * d + c * dd);
        let added = h * change;
        dh = dh * factor + added;
        h *= factor;
        // For a whole parameter the fraction ends, and its derivative does not.
        if (factor - 1.0).abs() <= 1e-16 && added.abs() <= 1e-15 * (dh.abs() + h.abs()) {
            break;
        }
    }
    x * (h * log + dh)
}

/// For the beta distribution of `a` and `b`: the derivative in `a` of the sample `x`, divided by 1 - x (which the
/// backward of a Dirichlet distribution needs, and which stays finite).
pub fn beta_sample_grad(x: f64, a: f64, b: f64) -> f64 {
    if !(a > 0.0 && b > 0.0 && (a + b).is_finite() && (0.0..=1.0).contains(&x)) {
        return f64::NAN;
    }
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let total = digamma(a + b);
    // F = f x (1 - x) / a * S(x; a, b), S = sum of (a + b)(a + b + 1)... / ((a + 1)(a + 2)...) x^n; and F(x; a, b) is
    // 1 - F(1 - x; b, a), the better series beyond the mean.
    let near = x <= (a + 1.0) / (a + b + 2.0);
    let (z, first) = if near { (x, a) } else { (1.0 - x, b) };
    let (mut term, mut rate) = (1.0, 0.0);
    let (mut sum, mut slope) = (1.0, 0.0);
    for n in 0..TERMS {
        let (up, down) = (a + b + n as f64, first + 1.0 + n as f64);
        term *= up / down * z;
        // The parameter a occurs in both factors of the near series, but only in the upper ones of the far one.
        rate += if near { 1.0 / up - 1.0 / down } else { 1.0 / up };
        sum += term;
        slope += term * rate;
        if term * rate.abs().max(1.0) <= sum * 1e-17 || !term.is_finite() {
            break;
        }
    }
    let log = if near { x.ln() - digamma(a) + total - 1.0 / a } else { (-z).ln_1p() - digamma(a) + total };
    let moved = x / first * (sum * log + slope);
    if near { -moved } else { moved }
}
