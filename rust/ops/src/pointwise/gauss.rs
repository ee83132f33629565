//! Functions of the normal distribution, and entropy.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, Operator, Saves, Variants, formula, operator};
use std::f64::consts::{FRAC_2_PI, FRAC_2_SQRT_PI, PI, SQRT_2};

use rushlight_core::Error;
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::value::Output;
use rushlight_simd::Isa;

use super::special::ERFC;
use super::{UNARY, float};
use crate::expr_ext::ExprExt;

const REAL: DTypes = DTypes::COMPUTED.without(DTypes::COMPLEX);
const DOUBLE: DTypes = REAL.without(DTypes::HALVES);

#[operator]
const SPECIAL: Operator = Operator { namespace: "special", variants: Variants::FUNCTION.union(Variants::OUT), ..UNARY };

#[operator]
pub static NDTR: Operator = Operator {
    name: "ndtr",
    doc: "The standard normal distribution function of each element.

    out = erfc(-self / sqrt(2)) / 2

    >>> torch.special.ndtr(torch.tensor([0., 1.]))
    tensor([0.5000, 0.8413])",
    dtypes: REAL,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        let input = match input.dtype() {
            dtype if dtype.is_complex() => return Err(Error::unsupported("erf_vml_cpu", dtype)),
            dtype if dtype.is_floating() => input.clone(),
            _ => crate::convert::to_dtype(input, rushlight_core::dtype::default_dtype())?,
        };
        (Expr::from(input) * -(1.0 / SQRT_2)).call(&ERFC, []).with(&super::arith::MUL, 0.5).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    ..SPECIAL
};

#[operator]
pub static LOG_NDTR: Operator = Operator {
    name: "log_ndtr",
    doc: "The logarithm of `ndtr`, accurate also far below zero.

    >>> torch.special.log_ndtr(torch.tensor([0., -10.]))
    tensor([ -0.6931, -53.2313])",
    dtypes: DOUBLE,
    implementation: float(loops! { for<S> [f32, f64] (|x| log_ndtr::<S>(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (d.input(INPUT) * -(1.0 / SQRT_2)).call(&ERFCX, []) * FRAC_2_PI.sqrt()
    })]),
    ..SPECIAL
};

#[operator]
pub static NDTRI: Operator = Operator {
    name: "ndtri",
    doc: "The inverse of `ndtr`: the quantile function of the standard normal distribution.

    >>> torch.special.ndtri(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 1.2816])",
    dtypes: DOUBLE,
    implementation: float(loops! { for<S> [f32, f64] (|x| ndtri::<S>(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad() * ((d.result().square() * 0.5).exp() * (2.0 * PI).sqrt())
    })]),
    samples: &["pos(2, 3) / 2.5", "pos() / 2.5"],
    ..SPECIAL
};

#[operator]
pub static ERFCX: Operator = Operator {
    name: "erfcx",
    doc: "`exp(self ** 2) * erfc(self)`, which neither underflows nor overflows for positive numbers.

    >>> torch.special.erfcx(torch.tensor([0., 10.]))
    tensor([1.0000, 0.0561])",
    dtypes: DOUBLE,
    implementation: float(loops! { for<S> [f32, f64] (|x| erfcx::<S>(f64::from(x)) as T) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        d.grad() * (d.input(INPUT) * d.result() * 2.0 - Expr::from(FRAC_2_SQRT_PI))
    })]),
    ..SPECIAL
};

#[operator]
pub static ENTR: Operator = Operator {
    name: "entr",
    doc: "The entropy of each element: `-self * log(self)`, zero at zero, minus infinity below.

    >>> torch.special.entr(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.3466])",
    dtypes: REAL,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| if x.is_nan() {
            x
        } else if x > 0.0 {
            -x * S::log(x)
        } else if x == 0.0 {
            0.0
        } else {
            T::NEG_INFINITY
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * (-d.input(INPUT).log() - Expr::from(1.0))
    })]),
    samples: &["pos(2, 3)", "pos(3, 2).t()", "pos()"],
    reference: "-self * np.log(np.where(self == 0, 1, self))",
    ..SPECIAL
};

fn erfcx<S: Isa>(x: f64) -> f64 {
    if x < 10.0 {
        // The square in two parts, because its rounding error would be magnified by the exponential.
        let square = x * x;
        let rest = f64::mul_add(x, x, -square);
        let power = S::exp(square);
        return if power.is_infinite() { power } else { power * (1.0 + rest) * S::erfc(x) };
    }
    let (mut total, mut term) = (1.0, 1.0);
    for k in 1..30 {
        term *= -f64::from(2 * k - 1) / (2.0 * x * x);
        total += term;
        if term.abs() < 1e-18 {
            break;
        }
    }
    total / x * (FRAC_2_SQRT_PI / 2.0)
}

fn log_ndtr<S: Isa>(x: f64) -> f64 {
    let scaled = x * (1.0 / SQRT_2);
    if x < -1.0 { S::log(erfcx::<S>(-scaled) / 2.0) - x * x / 2.0 } else { S::log1p(-S::erfc(scaled) / 2.0) }
}

fn ndtri<S: Isa>(share: f64) -> f64 {
    if share.is_nan() || !(0.0..=1.0).contains(&share) {
        return f64::NAN;
    }
    if share == 0.0 {
        return f64::NEG_INFINITY;
    }
    if share > 0.2 && share < 0.8 {
        return SQRT_2 * S::erfinv(2.0 * share - 1.0);
    }
    if share > 0.5 {
        return if share == 1.0 { f64::INFINITY } else { -ndtri::<S>(1.0 - share) };
    }
    // Newton's method on the logarithm, which is nearly quadratic.
    let log = S::log(share);
    let mut x = -(-2.0 * log).sqrt();
    for _ in 0..20 {
        let slope = FRAC_2_PI.sqrt() / erfcx::<S>(-x * (1.0 / SQRT_2));
        let step = (log_ndtr::<S>(x) - log) / slope;
        x -= step;
        if step.abs() <= 1e-16 * x.abs() {
            break;
        }
    }
    x
}
