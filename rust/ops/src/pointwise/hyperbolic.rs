//! Hyperbolic functions and their inverses.

use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Autocast, DTypes, Derivative, Operator, Saves, Sparse, formula, operator};

use super::numbers::{Analytic, Narrow};
use super::{UNARY, analytic, float};
use crate::expr_ext::ExprExt;

#[operator]
pub static SINH: Operator = Operator {
    name: "sinh",
    doc: "The hyperbolic sine of each element.

    >>> torch.sinh(torch.tensor([0., 1.]))
    tensor([0.0000, 1.1752])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::sinh(x));
        for<S> [c64, c128] (|x| analytic::sinh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&COSH, []).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    reference: "np.sinh(self)",
    ..UNARY
};

#[operator]
pub static COSH: Operator = Operator {
    name: "cosh",
    doc: "The hyperbolic cosine of each element.

    >>> torch.cosh(torch.tensor([0., 1.]))
    tensor([1.0000, 1.5431])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::cosh(x));
        for<S> [c64, c128] (|x| analytic::cosh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * d.input(INPUT).call(&SINH, []).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    reference: "np.cosh(self)",
    ..UNARY
};

#[operator]
pub static TANH: Operator = Operator {
    name: "tanh",
    aliases: &["nn.functional.tanh"],
    doc: "The hyperbolic tangent of each element.

    >>> torch.tanh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.7616])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::tanh(x));
        for<S> [c64, c128] (|x| analytic::tanh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        d.grad().with(&super::activation_backward::TANH_BACKWARD, d.result())
    })]),
    reference: "np.tanh(self)",
    kernel_name: "tanh_vml_cpu",
    ..UNARY
};

#[operator]
pub static ASINH: Operator = Operator {
    name: "asinh",
    node: "in_place=AsinhBackward1",
    aliases: &["arcsinh"],
    doc: "The inverse hyperbolic sine of each element.

    >>> torch.asinh(torch.tensor([0., 1.]))
    tensor([0.0000, 0.8814])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::asinh(x));
        for<S> [c64, c128] (|x| analytic::asinh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() * (d.input(INPUT).square() + 1.0).rsqrt().conj()
    })]),
    reference: "np.arcsinh(self)",
    ..UNARY
};

#[operator]
pub static ACOSH: Operator = Operator {
    name: "acosh",
    node: "in_place=AcoshBackward1",
    aliases: &["arccosh"],
    doc: "The inverse hyperbolic cosine of each element; nan below 1.

    >>> torch.acosh(torch.tensor([1., 2.]))
    tensor([0.0000, 1.3170])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::acosh(x));
        for<S> [c64, c128] (|x| analytic::acosh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let complex = matches!(d.input(INPUT), Expr::Tensor(own) if own.dtype().is_complex());
        if complex {
            d.grad() * ((d.input(INPUT) + 1.0).rsqrt() * (d.input(INPUT) - 1.0).rsqrt()).conj()
        } else {
            d.grad() * (d.input(INPUT) * d.input(INPUT) - 1.0).rsqrt()
        }
    })]),
    samples: &["pos(2, 3).exp()", "pos().exp()"],
    reference: "np.arccosh(self)",
    ..UNARY
};

#[operator]
pub static ATANH: Operator = Operator {
    name: "atanh",
    node: "in_place=AtanhBackward1",
    aliases: &["arctanh"],
    doc: "The inverse hyperbolic tangent of each element; nan outside of -1 to 1.

    >>> torch.atanh(torch.tensor([0., 0.5]))
    tensor([0.0000, 0.5493])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ZeroPreserving,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| S::atanh(x));
        for<S> [c64, c128] (|x| analytic::atanh(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.grad() / (1.0 - d.input(INPUT).square()).conj()
    })]),
    samples: &["unit(2, 3)", "unit()"],
    reference: "np.arctanh(self)",
    ..UNARY
};
