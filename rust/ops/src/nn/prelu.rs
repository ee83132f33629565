//! Rectifiers with a learnable or random slope below zero.

use rushlight_core::dtype::bf16_;
use rushlight_core::{DType, Error, Result, Scalar, dispatch};
use rushlight_cpu::loops;
use rushlight_cuda::random::Distribution;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, Tags, TensorSpec, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};
use rushlight_dispatch::{copy, handled, op};
use rushlight_rng::{Element, Float};

use super::zeros_like_input;
use crate::convert::copy::CONTIGUOUS;
use crate::convert::to_vec;
use crate::create::c_text;
use crate::create::draw::{self, generator};
use crate::create::on_cuda;
use crate::expr_ext::ExprExt;
use crate::pointwise::activation::LEAKY_RELU;
use crate::pointwise::compare::LE;
use crate::pointwise::{BINARY, common};

#[operator]
pub static PRELU_KERNEL: Operator = Operator {
    name: "_prelu_kernel",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor weight) -> Tensor",
    doc: "Each element, times the weight at its index where it is not positive.

    >>> torch._prelu_kernel(torch.tensor([-1., 2.]), torch.tensor([0.5]))
    tensor([-0.5000,  2.0000])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! { for<S> [f32, f64] (|x, w| if x > 0.0 { x } else { w * x }) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(WEIGHT)), |d| {
            match (d.input(INPUT).done(), d.input(WEIGHT).done()) {
                (Ok(own), Ok(weight)) => d.grad().call(&PRELU_BACKWARD, [own.into(), weight.into()]),
                (Err(error), _) | (_, Err(error)) => Expr::Failed(error),
            }
        }),
        formula(WEIGHT, Saves::input(INPUT), |d| (d.grad() * d.input(INPUT)).with(&MASKED, d.input(INPUT))),
    ]),
    reference: "np.where(self > 0, self, weight * self)",
    ..BINARY
};

#[operator]
pub static PRELU_BACKWARD: Operator = Operator {
    name: "_prelu_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor self, Tensor weight) -> Tensor",
    doc: "The gradient of `_prelu_kernel` in its first operand.

    >>> torch._prelu_backward(torch.ones(2), torch.tensor([-1., 2.]), torch.tensor([0.5]))
    tensor([0.5000, 1.0000])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! { for<S> [f32, f64] (|g, x, w| if x > 0.0 { g } else { g * w }) }),
    derivative: Derivative::Formulas(&[
        formula(GRAD, Saves::input(INPUT).union(Saves::input(WEIGHT)), |d| {
            match (d.input(INPUT).done(), d.input(WEIGHT).done()) {
                (Ok(own), Ok(weight)) => d.grad().call(&PRELU_BACKWARD, [own.into(), weight.into()]),
                (Err(error), _) | (_, Err(error)) => Expr::Failed(error),
            }
        }),
        formula(INPUT, Saves::NOTHING, |d| zeros_like_input(d, INPUT)),
        formula(WEIGHT, Saves::input(GRAD).union(Saves::input(INPUT)), |d| {
            (d.grad() * d.input(GRAD)).with(&MASKED, d.input(INPUT))
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), t(3)", "t(4), t(4), t()"],
    reference: "np.where(self > 0, grad, grad * weight)",
    ..Operator::BASE
};

#[operator]
pub static MASKED: Operator = Operator {
    name: "_where_not_positive",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "Each element where `other` is not positive, else zero.

    >>> torch._where_not_positive(torch.ones(2), torch.tensor([-1., 2.]))
    tensor([1., 0.])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! { for<S> [f32, f64] (|g, x| if x > 0.0 { 0.0 } else { g }) }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER), |d| d.grad().with(&MASKED, d.input(OTHER))),
        formula(OTHER, Saves::NOTHING, |d| zeros_like_input(d, OTHER)),
    ]),
    reference: "np.where(other > 0, 0, self)",
    ..BINARY
};

#[operator]
pub static PRELU: Operator = Operator {
    name: "prelu",
    aliases: &["nn.functional.prelu"],
    signature: "(Tensor input, Tensor weight) -> Tensor",
    doc: "Each element, times `weight` where it is negative: one weight for all, or one for each channel (the second dimension).

    >>> torch.prelu(torch.tensor([[-1., -2.]]), torch.tensor([0.5, 0.1]))
    tensor([[-0.5000, -0.2000]])",
    dtypes: DTypes::FLOATS,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, weight) = (args.tensor(INPUT)?, args.tensor(WEIGHT)?);
        if input.dtype() != weight.dtype() {
            return Err(Error::runtime(format!(
                "prelu: Type promoting not supported. Got {} and {}",
                input.dtype().display_name(),
                weight.dtype().display_name()
            )));
        }
        let check_kind = || {
            if weight.rank() > 1 {
                return Err(Error::runtime(format!(
                    "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}",
                    weight.rank()
                )));
            }
            if input.dtype().is_floating() { Ok(()) } else { Err(Error::unsupported("prelu_cpu", input.dtype())) }
        };
        if weight.numel() == 1 {
            check_kind()?;
            return op!(PRELU_KERNEL, input, &op!(crate::view::RESHAPE, weight, sizes_value(&[]))?).map(Output::Tensor);
        }
        if input.rank() == 0 {
            return Err(Error::runtime("Not allow zero-dim input tensor.").hint("Use x.reshape(1) to add a dimension."));
        }
        let channels = input.sizes().get(1).copied().unwrap_or(1);
        if channels != weight.numel() as isize {
            return Err(Error::runtime(format!(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel size = {channels}.",
                weight.numel()
            )).hint("weight must have one element, or one for each channel (the size of dimension 1).")
            .shapes([input.sizes().as_slice(), weight.sizes().as_slice()]));
        }
        check_kind()?;
        let mut sizes = vec![1; input.rank()];
        sizes[1.min(input.rank() - 1)] = channels;
        op!(PRELU_KERNEL, input, &op!(crate::view::RESHAPE, weight, sizes_value(&sizes))?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), t(3)", "t(2, 3, 4), t(1)", "t(4), t()", "t(), t(1)"],
    errors: &[
        (
            "t(2, 8, 3), t(9)",
            "RuntimeError",
            "Mismatch of parameter numbers and input channel size. Found parameter numbers = 9 and channel size = 8.",
        ),
        ("t(), t(2)", "RuntimeError", "Not allow zero-dim input tensor."),
        (
            "t(2, 8, 3), t(2, 4)",
            "RuntimeError",
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = 2",
        ),
    ],
    reference: "np.where(input > 0, input, input * (weight.reshape((1, -1) + (1,) * (input.ndim - 2)) if weight.size > 1 else weight.reshape(())))",
    ..Operator::BASE
};

#[operator]
pub static RRELU_SLOPES: Operator = Operator {
    name: "_rrelu_slopes",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float lower, float upper, *, Generator? generator=None) -> Tensor",
    doc: "One for each positive element, for each other a number from `lower` to `upper`, drawn in order.

    >>> torch._rrelu_slopes(torch.tensor([1., 2.]), 0.1, 0.3)
    tensor([1., 1.])",
    dtypes: DTypes::of(&[DType::BF16, DType::F32, DType::F64]),
    tags: Tags::RANDOM,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            Ok(vec![TensorSpec::new(args.tensor(INPUT)?.sizes(), args.tensor(INPUT)?.dtype(), args.tensor(INPUT)?)])
        },
        cpu: |args, results| {
            let (lower, upper) = (args.scalar(LOWER)?.f64(), args.scalar(UPPER)?.f64());
            let input = args.tensor(INPUT)?;
            dispatch!(input.dtype(), T in [bf16_, f32, f64] => {
                let values = to_vec::<f64>(input)?;
                let bound = |value| <T as Float>::Wide::from_f64(value).to_f64();
                let (lower, upper) = (bound(lower), bound(upper));
                draw::fill::<T>(&results[0], &generator(args, GENERATOR), |stream, out| {
                    for (slot, &x) in out.iter_mut().zip(&values) {
                        let slope = if x <= 0.0 { lower + stream.uniform64() * (upper - lower) } else { 1.0 };
                        *slot = T::from_f64(slope);
                    }
                })
            }, else => Err(not_implemented(args.op, input.dtype())))
        },
        cuda: OnCuda::Own(|args, results| {
            let (from, to) = (args.scalar(LOWER)?.f64(), args.scalar(UPPER)?.f64());
            on_cuda::fill(&results[0], &generator(args, GENERATOR), Distribution::Slope { from, to })?;
            let sloped = op!(LE, args.tensor(INPUT)?.detach(), Scalar::Int(0))?;
            copy::copy(&results[0], &Expr::from(&sloped).choose(Expr::from(&results[0]), 1.0).done()?)
        }),
    }),
    kernel_name: "rrelu_with_noise_out_cpu",
    derivative: Derivative::NonDifferentiable("its result is random"),
    samples: &["t(2, 3), 0.1, 0.3"],
    ..Operator::BASE
};

#[operator]
pub static RRELU: Operator = Operator {
    name: "rrelu",
    node: "RreluWithNoiseBackward0 in_place=RreluWithNoiseBackward1",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, Generator? generator=None, truth inplace=False) -> Tensor",
    doc: "Each element, times a slope where it is negative: in training one from `lower` to `upper` for each element, else their mean.

    >>> torch.rrelu(torch.tensor([-4., 2.]), 0.25, 0.25, training=True)
    tensor([-1.,  2.])",
    dtypes: DTypes::of(&[DType::BF16, DType::F32, DType::F64]),
    check: Some(check),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, lower, upper) = (args.tensor(INPUT)?, args.scalar(LOWER)?.f64(), args.scalar(UPPER)?.f64());
        if !args.bool(TRAINING)? {
            return op!(LEAKY_RELU, &op!(CONTIGUOUS, input)?, f64::midpoint(lower, upper)).map(Output::Tensor);
        }
        let generator = args.generator(GENERATOR).cloned().map_or(Value::None, Value::Generator);
        let slopes = op!(RRELU_SLOPES, &handled::detach(input)?, lower, upper, generator)?;
        op!(PRELU_KERNEL, &op!(CONTIGUOUS, input)?, &slopes).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 0.1, 0.9, True", "t(3), 0.2, 0.2, True"],
    errors: &[(
        "t(5, 5), 0.3, 0.1",
        "RuntimeError",
        "Lower bound should be less than or equal to the upper bound",
    )],
    reference: "",
    ..Operator::BASE
};

fn check(args: &Args) -> Result<()> {
    use RRELU::*;

    let (input, lower, upper) = (args.tensor(INPUT)?, args.real(LOWER, "double")?, args.real(UPPER, "double")?);
    if !lower.is_finite() || !upper.is_finite() {
        let (which, bound) = if lower.is_finite() { ("upper", upper) } else { ("lower", lower) };
        return Err(Error::runtime(format!("rrelu: {which} bound must be finite, got {}", c_text(bound))));
    }
    if lower > upper {
        return Err(Error::runtime("Lower bound should be less than or equal to the upper bound"));
    }
    if !args.bool(TRAINING)? && !input.dtype().is_floating() {
        return Err(Error::unsupported("leaky_relu_cpu", input.dtype()).shapes([input.sizes().as_slice()]));
    }
    Ok(())
}
