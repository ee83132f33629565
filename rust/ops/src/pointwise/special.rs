//! Special functions.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use std::f64::consts::{FRAC_2_SQRT_PI, PI};

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Error, Scalar};
use rushlight_cpu::tiles;

use super::numbers::{Analytic, ComplexMath, Narrow, polygamma, zeta};
use super::{BINARY, UNARY, analytic, common, float};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::Value;

const REAL: DTypes = DTypes::ALL.without(DTypes::COMPLEX);

pub static SIGMOID: Row = Row {
    name: "sigmoid",
    aliases: &["special.expit", "nn.functional.sigmoid"],
    doc: "The logistic function of each element.

    out = 1 / (1 + exp(-self))

    >>> torch.sigmoid(torch.tensor([0., 1.]))
    tensor([0.5000, 0.7311])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| S::sigmoid(x));
        for<S> [c64, c128] (|x| analytic::sigmoid(x.wide()).narrow())
    }),
    cuda: Some("1 / (1 + exp(-self))"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| {
        d.grad().with(&super::activation_backward::SIGMOID_BACKWARD, d.result())
    })]),
    reference: "np.true_divide(1, 1 + np.exp(np.negative(self, dtype=np.result_type(self, np.float32))))",
    ..UNARY
};

pub static LOGIT: Row = Row {
    name: "logit",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    aliases: &["special.logit"],
    signature: "(Tensor self, float? eps=None) -> Tensor",
    doc: "The inverse of the logistic function; with `eps` elements are first limited to `eps .. 1 - eps`.

    out = log(self / (1 - self))

    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    run: float(tiles! {
        for<S> [f32, f64] (|x;; eps| {
            let z = match eps {
                Some(low) if low >= 0.0 => if x < low { low } else if x > 1.0 - low { 1.0 - low } else { x },
                _ => x,
            };
            if z == 1.0 { T::INFINITY } else { S::log(z / (1.0 - z)) }
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let x = d.input(0);
        let slope = d.grad() / (x.clone() * (1.0 - x.clone()));
        let eps = d.args.optional_scalar(1).map(Scalar::f64).filter(|&eps| eps >= 0.0);
        let low = eps.unwrap_or(0.0);
        let inside = x.clone().at_least(low).and(x.at_most(1.0 - low));
        inside.choose(slope, if eps.is_some() { 0.0 } else { f64::NAN })
    })]),
    samples: &["unit(2, 3), 0.1", "unit(), 0.2", "unit(2, 3) * 0.4 + 0.5"],
    reference: "np.log(self / (1 - self)) if eps is None else np.log(np.clip(self, eps, 1 - eps) / (1 - np.clip(self, eps, 1 - eps)))",
    ..UNARY
};

pub static ERF: Row = Row {
    name: "erf",
    aliases: &["special.erf"],
    doc: "The error function of each element.

    >>> torch.erf(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8427])",
    dtypes: REAL,
    run: float(tiles! { for<S> [f32, f64] (|x| S::erf(x)) }),
    refuses: "erf_vml_cpu",
    cuda: Some("erf(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        (-d.input(0).square()).exp() * FRAC_2_SQRT_PI * d.grad()
    })]),
    reference: "np.vectorize(math.erf, otypes=[float])(self)",
    ..UNARY
};

pub static ERFC: Row = Row {
    name: "erfc",
    aliases: &["special.erfc"],
    doc: "One minus the error function, with small relative error where that is near one.

    >>> torch.erfc(torch.tensor([0., 1.]))
    tensor([1.0000, 0.1573])",
    dtypes: REAL,
    run: float(tiles! { for<S> [f32, f64] (|x| S::erfc(x)) }),
    refuses: "erfc_vml_cpu",
    cuda: Some("erfc(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        (-d.input(0).square()).exp() * -FRAC_2_SQRT_PI * d.grad()
    })]),
    reference: "np.vectorize(math.erfc, otypes=[float])(self)",
    ..UNARY
};

pub static ERFINV: Row = Row {
    name: "erfinv",
    aliases: &["special.erfinv"],
    doc: "The inverse of the error function, between -1 and 1.

    >>> torch.erfinv(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.4769])",
    dtypes: REAL,
    run: float(tiles! { for<S> [f32, f64] (|x| S::erfinv(x)) }),
    refuses: "erfinv_vml_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.input(0).call(&ERFINV, []).square().exp() * (0.5 * PI.sqrt()) * d.grad()
    })]),
    samples: &["unit(2, 3)", "unit()"],
    ..UNARY
};

pub static LGAMMA: Row = Row {
    name: "lgamma",
    aliases: &["special.gammaln"],
    doc: "The logarithm of the magnitude of the gamma function.

    >>> torch.lgamma(torch.tensor([1., 4.]))
    tensor([0.0000, 1.7918])",
    dtypes: REAL,
    run: float(tiles! { for<S> [f32, f64] (|x| S::lgamma(x)) }),
    refuses: "lgamma_vml_cpu",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| d.grad() * d.input(0).call(&DIGAMMA, []))]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.vectorize(lambda x: math.lgamma(x) if x else np.inf, otypes=[float])(self)",
    ..UNARY
};

pub static DIGAMMA: Row = Row {
    name: "digamma",
    aliases: &["special.digamma", "special.psi"],
    doc: "The derivative of the logarithm of the gamma function.

    >>> torch.digamma(torch.tensor([1., 0.5]))
    tensor([-0.5772, -1.9635])",
    dtypes: REAL,
    run: float(tiles! { for<S> [f32, f64] (|x| S::digamma(x)) }),
    refuses: "digamma",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad() * d.input(0).call(&POLYGAMMA_METHOD, [Value::Int(1)])
    })]),
    samples: &["pos(2, 3)", "pos()"],
    ..UNARY
};

pub static POLYGAMMA: Row = Row {
    name: "polygamma",
    aliases: &["special.polygamma"],
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(int n, Tensor self) -> Tensor",
    doc: "The `n`-th derivative of `digamma`.

    >>> torch.polygamma(1, torch.tensor([1., 0.5]))
    tensor([1.6449, 4.9348])",
    dtypes: REAL,
    run: Run::Defer(|mut args| {
        args.values.swap(0, 1);
        args.row = &POLYGAMMA_METHOD;
        Ok(args)
    }),
    derivative: Derivative::Composed,
    errors: &[("-1, t(3)", "RuntimeError", "polygamma(n, x) does not support negative n.")],
    samples: &["1, pos(2, 3)", "2, pos(3)", "0, pos()"],
    ..Row::BASE
};

pub static POLYGAMMA_METHOD: Row = Row {
    name: "polygamma.method",
    variants: Variants::METHOD.union(Variants::INPLACE),
    signature: "(Tensor self, int n) -> Tensor",
    doc: "The `n`-th derivative of `digamma`.

    >>> torch.tensor([1., 0.5]).polygamma(1)
    tensor([1.6449, 4.9348])",
    dtypes: REAL,
    run: float(tiles! {
        for<S> [f32, f64] (|x; n| if n == 0.0 {
            S::digamma(x)
        } else if n == 1.0 && x > T::MAX {
            0.0
        } else if n == 1.0 && x < 0.5 {
            // Reflected at one half.
            let ratio = PI as T / S::sin(PI as T * x);
            ratio * ratio - zeta(2.0, f64::from(1.0 - x)) as T
        } else {
            polygamma(f64::from(n), f64::from(x)) as T
        })
    }),
    check: Some(|args| {
        let name = match args.int(1)? {
            0 => "digamma",
            1 => "trigamma",
            2.. => "polygamma",
            _ => return Err(Error::runtime("polygamma(n, x) does not support negative n.")),
        };
        match args.tensor(0)?.dtype() {
            dtype if dtype.is_complex() => Err(Error::unsupported(name, dtype)),
            _ => Ok(()),
        }
    }),
    node: "PolygammaBackward0",
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.grad() * d.input(0).call(&POLYGAMMA_METHOD, [Value::Int(d.int(1).saturating_add(1))])
    })]),
    errors: &[("t(3), -1", "RuntimeError", "polygamma(n, x) does not support negative n.")],
    samples: &["pos(2, 3), 1", "pos(3), 2"],
    ..Row::BASE
};

pub static ZETA: Row = Row {
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
    run: float(tiles! { for<S> [f32, f64] (|x, q| zeta(f64::from(x), f64::from(q)) as T) }),
    refuses: "zeta_cpu",
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |_| Expr::failed(Derivative::missing("zeta"))),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| {
            let (s, q) = (d.input(0), d.input(1));
            d.grad() * -s.clone() * (s + 1.0).with(&ZETA, q)
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["pos(2, 3).exp(), pos(2, 3)", "3., pos(2, 3)"],
    ..Row::BASE
};

const OPERANDS: &str = "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor";

pub static XLOGY: Row = Row {
    name: "xlogy",
    node: "first=XlogyBackward1 number=XlogyBackward2",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    aliases: &["special.xlogy"],
    signature: OPERANDS,
    doc: "`self * log(other)`; zero where `self` is zero, unless `other` is nan.

    >>> torch.xlogy(torch.tensor([0., 2.]), torch.tensor([0., 3.]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    check: Some(super::some_tensor),
    run: float(tiles! {
        for<S> [f32, f64] (|x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * S::log(y) })
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| {
            let flat = d.input(0).equals(0.0).and(d.input(1).at_most(0.0));
            flat.choose(0.0, d.grad().with(&XLOGY, d.input(1)))
        }),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| d.grad() * d.input(0) / d.input(1)),
    ]),
    samples: &["t(2, 3), pos(2, 3)", "t(5, 1, 4), pos(3, 1)", "t(4), 2", "2, pos(4)"],
    reference: "np.where(np.equal(self, 0), 0, np.multiply(self, np.log(other)))",
    ..BINARY
};

pub static XLOG1PY: Row = Row {
    name: "xlog1py",
    node: "first=SpecialXlog1PyBackward1 number=SpecialXlog1PyBackward2",
    namespace: "special",
    check: Some(super::some_tensor),
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: OPERANDS,
    doc: "`self * log(1 + other)`; zero where `self` is zero, unless `other` is nan.

    >>> torch.special.xlog1py(torch.tensor([0., 2.]), torch.tensor([-1., 2.]))
    tensor([0.0000, 2.1972])",
    dtypes: REAL,
    run: float(tiles! {
        for<S> [f32, f64] (|x, y| if y.is_nan() { y } else if x == 0.0 { 0.0 } else { x * S::log1p(y) })
    }),
    refuses: "xlog1py_cpu",
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| {
            let flat = d.input(0).equals(0.0).and(d.input(1).at_most(-1.0));
            flat.choose(0.0, d.grad().with(&XLOG1PY, d.input(1)))
        }),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| d.grad() * d.input(0) / (d.input(1) + 1.0)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), pos(2, 3)", "t(4), 2"],
    reference: "np.multiply(self, np.log1p(other))",
    ..Row::BASE
};

pub static SINC: Row = Row {
    name: "sinc",
    aliases: &["special.sinc"],
    doc: "`sin(pi x) / (pi x)`, one at zero.

    >>> torch.sinc(torch.tensor([0., 0.5]))
    tensor([1.0000, 0.6366])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| if x == 0.0 { 1.0 } else { S::sin(x * PI as T) / (x * PI as T) });
        for<S> [c64, c128] (|x| if x == T::new(0.0, 0.0) { T::new(1.0, 0.0) } else {
            analytic::sin(x.wide() * PI).quotient(x.wide() * PI).narrow()
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let angle = d.input(0) * PI;
        let square = d.input(0) * d.input(0) * PI;
        let slope = (angle.clone() * angle.clone().cos() - angle.sin()) / square.clone();
        square.equals(0.0).choose(0.0, d.grad() * slope.conj())
    })]),
    reference: "np.sinc(self)",
    ..UNARY
};

pub static HYPOT: Row = Row {
    name: "hypot",
    doc: "The length of the hypotenuse.

    out = sqrt(self ** 2 + other ** 2)

    >>> torch.hypot(torch.tensor([3.]), torch.tensor([4.]))
    tensor([5.])",
    dtypes: DTypes::FLOATS,
    run: common(|dtype| match dtype {
        // In double precision the squares of floats neither overflow nor vanish.
        DType::F32 => tiles! { for<S> [f32] (|x, y| {
            let square = f64::from(x) * f64::from(x) + f64::from(y) * f64::from(y);
            if x.is_infinite() || y.is_infinite() { T::INFINITY } else { square.sqrt() as f32 }
        }) }(dtype),
        _ => tiles! { for<S> [f64] (|x, y| x.hypot(y)) }(dtype),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::RESULT), |d| d.grad() * (d.input(0) / d.result())),
        formula(1, Saves::input(1).union(Saves::RESULT), |d| d.grad() * (d.input(1) / d.result())),
    ]),
    reference: "np.hypot(self, other)",
    ..BINARY
};
