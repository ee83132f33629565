//! Signs and magnitudes.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, Error};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, DTypes, Derivative, Implementation, Operator, Out, Pointwise, Promote, Saves, Sparse, Tags, Variants,
    formula, operator,
};

use super::numbers::{Analytic, ComplexMath, Integer, Narrow, Real};
use super::{BINARY, UNARY, common, float, no_complex, question};
use crate::expr_ext::ExprExt;

#[operator]
pub static ABS: Operator = Operator {
    name: "abs",
    aliases: &["absolute"],
    doc: "The magnitude of each element, also of complex numbers.

    >>> torch.abs(torch.tensor([-1., 2.]))
    tensor([1., 2.])",
    // The magnitude of a complex number has another dtype anyway.
    out: Out::new(
        Accepts::CastIf(|args| args.tensor(INPUT).is_ok_and(|own| own.dtype().is_complex())),
        Out::COMPUTE_DTYPE.sentences,
    ),
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32).union(DTypes::FLOAT8),
    tags: Tags::RESTRICTED_IN_PLACE,
    sparse: Sparse::ZeroPreserving,
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::ComplexToReal,
        keeps_strides: DTypes::COMPLEX.union(DTypes::COMPLEX32),
        loops: loops! {
            for<S> [u8, i8, i16, i32, i64] (|x| x.magnitude());
            for<S> [f32, f64] (|x| x.abs());
            for<S> [c64 => f32] (|z| f64::from(z.re).hypot(f64::from(z.im)) as f32);
            for<S> [c128 => f64] (|z| z.re.hypot(z.im))
        },
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| d.grad() * d.input(INPUT).sgn())]),
    reference: "np.abs(self)",
    ..UNARY
};

#[operator]
pub static SIGN: Operator = Operator {
    name: "sign",
    doc: "-1, 0 or 1 for negative, zero or positive elements.

    >>> torch.sign(torch.tensor([-3., 0., 2.]))
    tensor([-1.,  0.,  1.])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    sparse: Sparse::ZeroPreserving,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x| x.sign());
        for<S> [f32, f64] (|x| x.sign());
        for<S> [Bool] (|x| x)
    }),
    check: Some(|args| {
        no_complex(args, || {
            Error::not_implemented(
                "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
            )
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().zeros_like())]),
    reference: "np.sign(self * 1)",
    ..UNARY
};

#[operator]
pub static SGN: Operator = Operator {
    name: "sgn",
    doc: "The sign; for a complex number the number of magnitude one with the same angle.

    >>> torch.sgn(torch.tensor([3 + 4j]))
    tensor([0.6000+0.8000j])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::COMMON.union(DTypes::COMPLEX32),
    sparse: Sparse::ZeroPreserving,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x| x.sign());
        for<S> [f32, f64] (|x| x.sign());
        for<S> [c64, c128] (|z| z.wide().signum().narrow());
        for<S> [Bool] (|x| x)
    }),
    kernel_name: "sign_cpu",
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        let complex = matches!(d.input(INPUT), Expr::Tensor(own) if own.dtype().is_complex());
        if !complex {
            return d.grad().zeros_like();
        }
        let (size, sign, grad) = (d.input(INPUT).abs(), d.result(), d.grad());
        let along = (grad.clone().conj() * sign.clone() + grad.clone() * sign.clone().conj()) * sign;
        size.clone().equals(0.0).choose(0.0, (grad * 2.0 - along) / (size * 2.0))
    })]),
    reference: "np.sign(self * 1)",
    ..UNARY
};

#[operator]
pub static SIGNBIT: Operator = Operator {
    name: "signbit",
    variants: Variants::BOTH.union(Variants::OUT),
    doc: "Whether the sign bit of each element is set, as it is for -0.

    >>> torch.signbit(torch.tensor([-0., 1.]))
    tensor([ True, False])",
    out: Out::new(Accepts::Same, &["{name} does not support non-boolean outputs."]),
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    sparse: Sparse::ZeroPreserving,
    implementation: question(loops! {
        for<S> [u8, i8, i16, i32, i64, u16, u32, u64 => Bool] (|x| Bool::from(x.is_negative()));
        for<S> [f32, f64 => Bool] (|x| Bool::from(x.is_sign_negative()));
        for<S> [Bool => Bool] (|x| Bool::from(x.get() & false))
    }),
    check: Some(|args| no_complex(args, || Error::not_implemented("signbit is not implemented for complex tensors."))),
    derivative: Derivative::NonDifferentiable("its results are bool"),
    reference: "np.signbit(self)",
    ..UNARY
};

#[operator]
pub static COPYSIGN: Operator = Operator {
    name: "copysign",
    node: "number=CopysignBackward1",
    signature: "(Tensor self, Tensor|Scalar other) -> Tensor",
    doc: "The magnitudes of `self` with the signs of `other`.

    >>> torch.copysign(torch.tensor([1., -2.]), torch.tensor([-0., 3.]))
    tensor([-1.,  2.])",
    dtypes: DTypes::COMPUTED.without(DTypes::COMPLEX),
    implementation: float(loops! { for<S> [f32, f64] (|x, y| x.copysign(y)) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
            d.grad() * d.input(INPUT).equals(0.0).choose(0.0, d.result() / d.input(INPUT))
        }),
        formula(OTHER, Saves::NOTHING, |d| d.grad().zeros_like()),
    ]),
    reference: "np.copysign(self, other)",
    ..BINARY
};

#[operator]
pub static HEAVISIDE: Operator = Operator {
    name: "heaviside",
    signature: "(Tensor self, Tensor values) -> Tensor",
    doc: "The step function: 0 below zero, `values` at zero, 1 above.

    >>> torch.heaviside(torch.tensor([-1., 0., 2.]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])",
    out: Out::new(Accepts::Same, &["heaviside is not yet implemented for tensors with different dtypes."]),
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| if x == 0 { y } else { (x > 0) as T });
        for<S> [f32, f64] (|x, y| if x == 0.0 { y } else { (x > 0.0) as u8 as T });
        for<S> [Bool] (|x, y| if x.get() { Bool(1) } else { y })
    }),
    check: Some(|args| {
        no_complex(args, || Error::runtime("heaviside is not yet implemented for complex tensors."))?;
        if args.tensor(INPUT)?.dtype() != args.tensor(VALUES)?.dtype() {
            return Err(Error::runtime("heaviside is not yet implemented for tensors with different dtypes."));
        }
        Ok(())
    }),
    derivative: Derivative::NotImplemented("aten::heaviside"),
    reference: "np.heaviside(self, values)",
    ..BINARY
};
