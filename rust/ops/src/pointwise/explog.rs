//! Exponentials and logarithms.

use rushlight_dispatch::operator::{
    Autocast, DTypes, Derivative, Operator, Saves, Sparse, Variants, formula, operator,
};
use std::f64::consts::{LN_2, LN_10};

use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::loops;

use super::numbers::{Analytic, ComplexMath, Narrow};
use super::{BINARY, UNARY, analytic, float};
use crate::expr_ext::ExprExt;

#[operator]
pub static EXP: Operator = Operator {
    name: "exp",
    doc: "The exponential of each element.

    out = e ** self

Integers give the default float dtype. The error is at most 1 ulp.

    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::exp(x));
        for<S> [c64, c128] (|x| analytic::exp(x.wide()).narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| d.grad() * d.result().conj())]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    reference: "np.exp(self)",
    kernel_name: "exp_vml_cpu",
    ..UNARY
};

#[operator]
pub static EXP2: Operator = Operator {
    name: "exp2",
    aliases: &["special.exp2"],
    doc: "Two to the power of each element.

    out = 2 ** self

    >>> torch.exp2(torch.tensor([0., 1., 3.]))
    tensor([1., 2., 8.])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::exp2(x));
        for<S> [c64, c128] (|x| analytic::exp(x.wide() * LN_2).narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| d.grad() * d.result().conj() * LN_2)]),
    reference: "np.exp2(self)",
    ..UNARY
};

#[operator]
pub static EXPM1: Operator = Operator {
    name: "expm1",
    aliases: &["special.expm1"],
    doc: "The exponential minus one, accurate near zero.

    out = e ** self - 1

    >>> torch.expm1(torch.tensor([0., 1.]))
    tensor([0.0000, 1.7183])",
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::expm1(x));
        for<S> [c64, c128] (|x| analytic::expm1(x.wide()).narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| d.grad() * (d.result().conj() + 1.0))]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    reference: "np.expm1(self)",
    kernel_name: "expm1_vml_cpu",
    ..UNARY
};

#[operator]
pub static LOG: Operator = Operator {
    name: "log",
    doc: "The natural logarithm of each element.

    >>> torch.log(torch.tensor([1., 10.]))
    tensor([0.0000, 2.3026])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::log(x));
        for<S> [c64, c128] (|x| x.wide().logarithm().narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| d.grad() / d.input(INPUT).conj())]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: POSITIVE,
    reference: "np.log(self)",
    kernel_name: "log_vml_cpu",
    ..UNARY
};

const POSITIVE: &[&str] = &["pos(2, 3)", "pos(0)", "pos()", "pos(4, 3).t()"];

#[operator]
pub static LOG2: Operator = Operator {
    name: "log2",
    doc: "The logarithm to base 2 of each element.

    >>> torch.log2(torch.tensor([1., 8.]))
    tensor([0., 3.])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::log2(x));
        for<S> [c64, c128] (|x| (x.wide().logarithm() / LN_2).narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (d.input(INPUT).conj() * LN_2)
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: POSITIVE,
    reference: "np.log2(self)",
    kernel_name: "log2_vml_cpu",
    ..UNARY
};

#[operator]
pub static LOG10: Operator = Operator {
    name: "log10",
    doc: "The logarithm to base 10 of each element.

    >>> torch.log10(torch.tensor([1., 100.]))
    tensor([0., 2.])",
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::log10(x));
        for<S> [c64, c128] (|x| (x.wide().logarithm() / LN_10).narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (d.input(INPUT).conj() * LN_10)
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: POSITIVE,
    reference: "np.log10(self)",
    kernel_name: "log10_vml_cpu",
    ..UNARY
};

#[operator]
pub static LOG1P: Operator = Operator {
    name: "log1p",
    aliases: &["special.log1p"],
    doc: "The natural logarithm of one plus each element, accurate near zero.

    out = log(1 + self)

    >>> torch.log1p(torch.tensor([0., 1.]))
    tensor([0.0000, 0.6931])",
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::log1p(x));
        for<S> [c64, c128] (|x| x.wide().log1p().narrow())
    }),
    dtypes: DTypes::COMPUTED,
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (d.input(INPUT) + 1.0).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: POSITIVE,
    reference: "np.log1p(self)",
    kernel_name: "log1p_vml_cpu",
    ..UNARY
};

const PAIR: Saves = Saves::input(BINARY::INPUT).union(Saves::input(BINARY::OTHER));

#[operator]
pub static LOGADDEXP: Operator = Operator {
    name: "logaddexp",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The logarithm of the sum of exponentials, without overflow.

    out = log(exp(self) + exp(other))

    >>> torch.logaddexp(torch.tensor([100.]), torch.tensor([100.]))
    tensor([100.6931])",
    implementation: super::common(loops! {
        for<S> [f32, f64] (|x, y| if x.is_infinite() && x == y { x } else {
            let high = if x >= y { x } else { y };
            high + S::log1p(S::exp(-(x - y).abs()))
        });
        for<S> [c64, c128] (|x, y| x.wide().logaddexp(y.wide()).narrow())
    }),
    dtypes: DTypes::INEXACT,
    derivative: Derivative::Formulas(&[
        formula(INPUT, PAIR, |d| d.grad() / ((d.input(OTHER) - d.input(INPUT)).exp() + 1.0).conj()),
        formula(OTHER, PAIR, |d| d.grad() / ((d.input(INPUT) - d.input(OTHER)).exp() + 1.0).conj()),
    ]),
    reference: "np.log(np.exp(self) + np.exp(other))",
    ..BINARY
};

#[operator]
pub static LOGADDEXP2: Operator = Operator {
    name: "logaddexp2",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "The logarithm to base 2 of the sum of powers of 2, without overflow.

    out = log2(2 ** self + 2 ** other)

    >>> torch.logaddexp2(torch.tensor([100.]), torch.tensor([100.]))
    tensor([101.])",
    implementation: super::common(loops! {
        for<S> [f32, f64] (|x, y| if x.is_infinite() && x == y { x } else {
            let high = if x >= y { x } else { y };
            high + S::log1p(S::exp2(-(x - y).abs())) * (std::f64::consts::LOG2_E as T)
        });
        for<S> [c64, c128] (|x, y| ((x.wide() * LN_2).logaddexp(y.wide() * LN_2) / LN_2).narrow())
    }),
    dtypes: DTypes::INEXACT,
    derivative: Derivative::Formulas(&[
        formula(INPUT, PAIR, |d| d.grad() / ((d.input(OTHER) - d.input(INPUT)).call(&EXP2, []) + 1.0).conj()),
        formula(OTHER, PAIR, |d| d.grad() / ((d.input(INPUT) - d.input(OTHER)).call(&EXP2, []) + 1.0).conj()),
    ]),
    reference: "np.log2(np.exp2(self) + np.exp2(other))",
    ..BINARY
};
