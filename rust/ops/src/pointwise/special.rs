//! Special functions.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_dispatch::operator::{
    Autocast, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Tags, Variants, formula, missing_formula,
    operator,
};
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Error, Scalar};
use rushlight_cpu::loops;
use rushlight_dispatch::create;
use rushlight_dispatch::value::Value;

use super::numbers::{Analytic, ComplexMath, Narrow, polygamma, zeta};
use super::{BINARY, UNARY, analytic, common, float};
use crate::expr_ext::ExprExt;

const REAL: DTypes = DTypes::COMPUTED.without(DTypes::COMPLEX);

#[operator]
pub static SIGMOID: Operator = Operator {
    name: "sigmoid",
    aliases: &["special.expit", "nn.functional.sigmoid"],
    doc: "The logistic function of each element.

    out = 1 / (1 + exp(-self))

    >>> torch.sigmoid(torch.tensor([0., 1.]))
    tensor([0.5000, 0.7311])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::sigmoid(x));
        for<S> [c64, c128] (|x| analytic::sigmoid(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad().with(&super::activation_backward::SIGMOID_BACKWARD, d.result())
    })]),
    reference: "np.true_divide(1, 1 + np.exp(np.negative(self, dtype=np.result_type(self, np.float32))))",
    ..UNARY
};

#[operator]
pub static LOGIT: Operator = Operator {
    name: "logit",
    tags: Tags::ROUNDED_PARAMETERS,
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    aliases: &["special.logit"],
    signature: "(Tensor self, float? eps=None) -> Tensor",
    doc: "The inverse of the logistic function; with `eps` elements are first limited to `eps .. 1 - eps`.

    out = log(self / (1 - self))

    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    implementation: float(loops! {
        for<S> [f32, f64] (|x;; eps| {
            let low = eps.unwrap_or(-1.0);
            let limited = if x < low { low } else if x > 1.0 - low { 1.0 - low } else { x };
            let z = if low >= 0.0 { limited } else { x };
            if z == 1.0 { T::INFINITY } else { S::log(z / (1.0 - z)) }
        })
    }),
    check: Some(|args| match args.optional_scalar(EPS) {
        Some(eps) => {
            let dtype = args.tensor(INPUT)?.dtype();
            create::check_fits(eps, if dtype.is_floating() { dtype } else { DType::F32 })
        }
        None => Ok(()),
    }),
    errors: &[("unit(2), 1e300", "RuntimeError", "value cannot be converted to type float without overflow")],
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let x = d.input(INPUT);
        let slope = d.grad() / (x.clone() * (1.0 - x.clone()));
        let eps = d.args.optional_scalar(EPS).map(Scalar::f64).filter(|&eps| eps >= 0.0);
        let low = eps.unwrap_or(0.0);
        let inside = x.clone().at_least(low).and(x.at_most(1.0 - low));
        inside.choose(slope, if eps.is_some() { 0.0 } else { f64::NAN })
    })]),
    samples: &["unit(2, 3), 0.1", "unit(), 0.2", "unit(2, 3) * 0.4 + 0.5"],
    reference: "np.log(self / (1 - self)) if eps is None else np.log(np.clip(self, eps, 1 - eps) / (1 - np.clip(self, eps, 1 - eps)))",
    ..UNARY
};

#[operator]
pub static ERF: Operator = Operator {
    name: "erf",
    aliases: &["special.erf"],
    doc: "The error function of each element.

    >>> torch.erf(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8427])",
    dtypes: REAL,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! { for<S> [f32, f64] (|x| S::erf(x)) }),
    kernel_name: "erf_vml_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        (-d.input(INPUT).square()).exp() * FRAC_2_SQRT_PI * d.grad()
    })]),
    reference: "np.vectorize(math.erf, otypes=[float])(self)",
    ..UNARY
};

#[operator]
pub static ERFC: Operator = Operator {
    name: "erfc",
    aliases: &["special.erfc"],
    doc: "One minus the error function, with a small relative error where the error function is near one.

    >>> torch.erfc(torch.tensor([0., 1.]))
    tensor([1.0000, 0.1573])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| S::erfc(x)) }),
    kernel_name: "erfc_vml_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        (-d.input(INPUT).square()).exp() * -FRAC_2_SQRT_PI * d.grad()
    })]),
    reference: "np.vectorize(math.erfc, otypes=[float])(self)",
    ..UNARY
};

#[operator]
pub static ERFINV: Operator = Operator {
    name: "erfinv",
    aliases: &["special.erfinv"],
    doc: "The inverse of the error function, between -1 and 1.

    >>> torch.erfinv(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.4769])",
    dtypes: REAL,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! { for<S> [f32, f64] (|x| S::erfinv(x)) }),
    kernel_name: "erfinv_vml_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.input(INPUT).call(&ERFINV, []).square().exp() * (0.5 * PI.sqrt()) * d.grad()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["unit(2, 3)", "unit()"],
    ..UNARY
};

#[operator]
pub static LGAMMA: Operator = Operator {
    name: "lgamma",
    aliases: &["special.gammaln"],
    doc: "The logarithm of the magnitude of the gamma function.

    >>> torch.lgamma(torch.tensor([1., 4.]))
    tensor([0.0000, 1.7918])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| S::lgamma(x)) }),
    kernel_name: "lgamma_vml_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&DIGAMMA, [])
    })]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.vectorize(lambda x: math.lgamma(x) if x else np.inf, otypes=[float])(self)",
    ..UNARY
};

#[operator]
pub static DIGAMMA: Operator = Operator {
    name: "digamma",
    aliases: &["special.digamma", "special.psi"],
    doc: "The derivative of the logarithm of the gamma function.

    >>> torch.digamma(torch.tensor([1., 0.5]))
    tensor([-0.5772, -1.9635])",
    dtypes: REAL,
    implementation: float(loops! { for<S> [f32, f64] (|x| S::digamma(x)) }),
    kernel_name: "digamma",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&POLYGAMMA_METHOD, [Value::Int(1)])
    })]),
    samples: &["pos(2, 3)", "pos()"],
    ..UNARY
};

#[operator]
pub static POLYGAMMA: Operator = Operator {
    name: "polygamma",
    aliases: &["special.polygamma"],
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(int n, Tensor self) -> Tensor",
    doc: "The `n`-th derivative of `digamma`.

    >>> torch.polygamma(1, torch.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])",
    dtypes: REAL,
    implementation: Implementation::Delegate(|mut args| {
        args.values.swap(0, 1);
        args.op = &POLYGAMMA_METHOD;
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[("-1, t(3)", "RuntimeError", "polygamma(n, x) does not support negative n.")],
    samples: &["1, pos(2, 3)", "2, pos(3)", "0, pos()"],
    ..Operator::BASE
};

#[operator]
pub static POLYGAMMA_METHOD: Operator = Operator {
    name: "polygamma.method",
    variants: Variants::METHOD.union(Variants::INPLACE),
    signature: "(Tensor self, int n) -> Tensor",
    doc: "The `n`-th derivative of `digamma`.

    >>> torch.tensor([1., 0.5]).polygamma(1)
    tensor([1.6449, 4.9348])",
    dtypes: REAL,
    implementation: float(loops! {
        for<S> [f32, f64] (|x; n| if n == 0.0 {
            S::digamma(x)
        } else if n == 1.0 && x > T::MAX {
            0.0
        } else if n == 1.0 && x < 0.5 {
            // Reflection at one half.
            let ratio = PI as T / S::sin(PI as T * x);
            ratio * ratio - zeta(2.0, f64::from(1.0 - x)) as T
        } else {
            polygamma(f64::from(n), f64::from(x)) as T
        })
    }),
    check: Some(|args| {
        let name = match args.int(N)? {
            0 => "digamma",
            1 => "trigamma",
            2.. => "polygamma",
            _ => return Err(Error::runtime("polygamma(n, x) does not support negative n.")),
        };
        match args.tensor(INPUT)?.dtype() {
            dtype if dtype.is_complex() => Err(Error::unsupported(name, dtype)),
            _ => Ok(()),
        }
    }),
    node: "PolygammaBackward0",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&POLYGAMMA_METHOD, [Value::Int(d.int(N).saturating_add(1))])
    })]),
    errors: &[("t(3), -1", "RuntimeError", "polygamma(n, x) does not support negative n.")],
    samples: &["pos(2, 3), 1", "pos(3), 2"],
    ..Operator::BASE
};

#[operator]
pub static ZETA: Operator = Operator {
    name: "zeta",
    node: "first=SpecialZetaBackward1 number=SpecialZetaBackward2",
    namespace: "special",
    check: Some(super::some_tensor),
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The Hurwitz zeta function.

    >>> torch.special.zeta(torch.tensor([2., 4.]), 1)
    tensor([1.6449, 1.0823])",
    dtypes: REAL.without(DTypes::HALVES),
    implementation: float(loops! { for<S> [f32, f64] (|x, q| zeta(f64::from(x), f64::from(q)) as T) }),
    kernel_name: "zeta_cpu",
    derivative: Derivative::Formulas(&[
        missing_formula(INPUT, "zeta"),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            let (s, q) = (d.input(INPUT), d.input(OTHER));
            d.grad() * -s.clone() * (s + 1.0).with(&ZETA, q)
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3).exp(), pos(2, 3)", "3., pos(2, 3)"],
    ..Operator::BASE
};

#[operator]
pub static XLOGY: Operator = Operator {
    name: "xlogy",
    node: "first=XlogyBackward1 number=XlogyBackward2",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    aliases: &["special.xlogy"],
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "`self * log(other)`; zero where `self` is zero, unless `other` is nan.

    >>> torch.xlogy(torch.tensor([0., 2.]), torch.tensor([0., 3.]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    check: Some(super::some_tensor),
    implementation: float(loops! {
        for<S> [f32, f64] (|x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * S::log(y) })
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            let flat = d.input(INPUT).equals(0.0).and(d.input(OTHER).at_most(0.0));
            flat.choose(0.0, d.grad().with(&XLOGY, d.input(OTHER)))
        }),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| d.grad() * d.input(INPUT) / d.input(OTHER)),
    ]),
    samples: &["t(2, 3), pos(2, 3)", "t(5, 1, 4), pos(3, 1)", "t(4), 2", "2, pos(4)"],
    reference: "np.where(np.equal(self, 0), 0, np.multiply(self, np.log(other)))",
    ..BINARY
};

#[operator]
pub static XLOG1PY: Operator = Operator {
    name: "xlog1py",
    node: "first=SpecialXlog1PyBackward1 number=SpecialXlog1PyBackward2",
    namespace: "special",
    check: Some(super::some_tensor),
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "`self * log(1 + other)`; zero where `self` is zero, unless `other` is nan.

    >>> torch.special.xlog1py(torch.tensor([0., 2.]), torch.tensor([-1., 2.]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    implementation: float(loops! {
        for<S> [f32, f64] (|x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * S::log1p(y) })
    }),
    kernel_name: "xlog1py_cpu",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            let flat = d.input(INPUT).equals(0.0).and(d.input(OTHER).at_most(-1.0));
            flat.choose(0.0, d.grad().with(&XLOG1PY, d.input(OTHER)))
        }),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            d.grad() * d.input(INPUT) / (d.input(OTHER) + 1.0)
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), pos(2, 3)", "t(4), 2"],
    reference: "np.multiply(self, np.log1p(other))",
    ..Operator::BASE
};

#[operator]
pub static SINC: Operator = Operator {
    name: "sinc",
    aliases: &["special.sinc"],
    doc: "`sin(pi x) / (pi x)`, one at zero.

    >>> torch.sinc(torch.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| if x == 0.0 { 1.0 } else { S::sin(x * PI as T) / (x * PI as T) });
        for<S> [c64, c128] (|x| if x == T::new(0.0, 0.0) { T::new(1.0, 0.0) } else {
            analytic::sin(x.wide() * PI).quotient(x.wide() * PI).narrow()
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let angle = d.input(INPUT) * PI;
        let square = d.input(INPUT) * d.input(INPUT) * PI;
        let slope = (angle.clone() * angle.clone().cos() - angle.sin()) / square.clone();
        square.equals(0.0).choose(0.0, d.grad() * slope.conj())
    })]),
    reference: "np.sinc(self)",
    ..UNARY
};

#[operator]
pub static HYPOT: Operator = Operator {
    name: "hypot",
    doc: "The hypotenuse of a right triangle with these legs.

    out = sqrt(self ** 2 + other ** 2)

    >>> torch.hypot(torch.tensor([3.]), torch.tensor([4.]))
    tensor([5.])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! {
        // In double precision the squares of float32 numbers neither overflow nor underflow.
        for<S> [f32] (|x, y| {
            let square = f64::from(x) * f64::from(x) + f64::from(y) * f64::from(y);
            if x.is_infinite() || y.is_infinite() { T::INFINITY } else { square.sqrt() as f32 }
        });
        for<S> [f64] (|x, y| x.hypot(y))
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| d.grad() * (d.input(INPUT) / d.result())),
        formula(OTHER, Saves::input(OTHER).union(Saves::RESULT), |d| d.grad() * (d.input(OTHER) / d.result())),
    ]),
    reference: "np.hypot(self, other)",
    ..BINARY
};
