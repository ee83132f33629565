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
fn gamma_sample_grad_uniform(a: f64, x: f64) -> f64 {
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

fn gamma_sample_grad_summed(a: f64, x: f64) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// F(x; a) of the gamma distribution, by its series.
    fn gamma_below(x: f64, a: f64) -> f64 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for n in 1..2000 {
            term *= x / (a + f64::from(n));
            sum += term;
        }
        sum * (a * x.ln() - x - Base::lgamma(a)).exp()
    }

    #[test]
    fn whole_parameters_continue_those_beside_them() {
        for a in [1.0, 2.0, 3.0, 7.0] {
            for beyond in [1.0, 1.5, 4.0, 20.0] {
                let near = |step: f64| gamma_sample_grad(a + step, a + beyond);
                let wanted = 0.5 * (near(1e-5) + near(-1e-5));
                assert!((near(0.0) - wanted).abs() < 1e-8, "{a}, {beyond}: {}, wanted {wanted}", near(0.0));
            }
        }
    }

    #[test]
    fn the_expansion_for_large_parameters_meets_the_sums() {
        for z in [-30.0, -3.0, -0.5, 0.0, 1e-3, 2.0, 30.0] {
            let (a, x) = (2e6, 2e6 + z * f64::sqrt(2e6));
            let (wanted, found) = (gamma_sample_grad_summed(a, x), gamma_sample_grad_uniform(a, x));
            assert!((found - wanted).abs() < 1e-9, "{z}: {found}, wanted {wanted}");
        }
    }

    #[test]
    fn slopes_follow_samples_of_equal_height() {
        for (a, x) in [(0.5, 0.2), (0.5, 2.0), (3.0, 1.0), (3.0, 3.5), (3.0, 9.0), (20.0, 15.0), (20.0, 30.0)] {
            let step = 1e-5 * a;
            let density = ((a - 1.0) * f64::ln(x) - x - Base::lgamma(a)).exp();
            let wanted = -(gamma_below(x, a + step) - gamma_below(x, a - step)) / (2.0 * step) / density;
            let found = gamma_sample_grad(a, x);
            assert!((found - wanted).abs() < 1e-5 * wanted.abs().max(1e-3), "{a} {x}: {found}, wanted {wanted}");
        }
    }

    #[test]
    fn slopes_of_beta_in_closed_form() {
        // F = x^a for b = 1, so x = u^(1/a) and dx/da = -x ln(x) / a.
        for (a, x) in [(0.5, 0.01), (0.5, 0.7), (2.0, 0.3), (2.0, 0.99), (30.0, 0.9)] {
            let wanted = -x * f64::ln(x) / a / (1.0 - x);
            let found = beta_sample_grad(x, a, 1.0);
            assert!((found - wanted).abs() < 1e-9 * wanted.abs().max(1e-3), "{a} {x}: {found}, wanted {wanted}");
        }
    }

    #[test]
    fn outside_there_is_no_slope() {
        assert!(gamma_sample_grad(-1.0, 1.0).is_nan() && beta_sample_grad(2.0, 1.0, 1.0).is_nan());
        assert_eq!((gamma_sample_grad(1.0, 0.0), beta_sample_grad(0.0, 1.0, 1.0)), (0.0, 0.0));
    }
}
