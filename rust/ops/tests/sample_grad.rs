//! The derivatives of samples against differences, closed forms and each other.

use rushlight::create::sample_grad::{
    beta_sample_grad, gamma_sample_grad, gamma_sample_grad_summed, gamma_sample_grad_uniform,
};
use rushlight_simd::{Base, Isa};

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
