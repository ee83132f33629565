//! Sums, differences, products.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error, Result, Scalar};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Operator, Out, Pointwise, Promote, Saves, Sparse, Tags, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Value};

use crate::expr_ext::ExprExt;

#[operator]
pub static ADD: Operator = Operator {
    name: "add",
    tags: Tags::ROUNDED_PARAMETERS,
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Adds `other`, scaled by `alpha`, to `self`.

    out = self + alpha * other

Both arguments broadcast; integers, floats and complex numbers promote to their common dtype.

    >>> torch.add(torch.tensor([1, 2, 3]), torch.tensor([[10], [20]]), alpha=2)
    tensor([[21, 22, 23],
            [41, 42, 43]])",
    in_place_example: ">>> torch.tensor([1, 2, 3]).add_(torch.tensor([10, 20, 30]), alpha=2)
    tensor([21, 42, 63])",
    sparse: Sparse::Add(1),
    dtypes: DTypes::COMMON.union(DTypes::COMPLEX32),
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::Common,
        keeps_strides: DTypes::NONE,
        loops: loops! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y)));
            for<S> [f32, f64] (|x, y; alpha| x + alpha * y);
            for<S> [c64, c128] (|x, y; alpha| if alpha == T::new(1.0, 0.0) { x + y } else { x + alpha * y });
            for<S> [Bool] (|x, y; alpha| Bool::from(x.get() | (alpha.get() & y.get())))
        },
    }),
    check: Some(check_alpha),
    checked_dtypes: DTypes::NONE,
    kernel_name: "add_stub",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(OTHER, Saves::NOTHING, |d| scaled(d.grad(), d.scalar(ALPHA))),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2", "t(0, 3), t(1, 3)"],
    errors: &[(
        "t(5, 2, 4), t(3, 1)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    )],
    reference: "np.add(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Operator::BASE
};

/// The dtype of the tensor or number; Python's type for numbers.
fn kind(args: &Args, arg: Arg) -> Option<DType> {
    args.optional_tensor(arg)
        .map(rushlight_autograd::Tensor::dtype)
        .or_else(|| args.optional_scalar(arg).map(Scalar::dtype))
}

/// Checks that `alpha` is a number of the operands' category.
fn check_alpha(args: &Args) -> Result<()> {
    let alpha = match args.value(ADD::ALPHA) {
        Value::Scalar(Scalar::Int(_)) | Value::None => return Ok(()),
        _ => args.scalar(ADD::ALPHA)?,
    };
    let operands = [ADD::INPUT, ADD::OTHER];
    let Some(highest) = operands.iter().filter_map(|&arg| kind(args, arg)).max_by_key(|dtype| dtype.category()) else {
        return Ok(());
    };
    if alpha.is_bool() && highest != DType::Bool {
        return Err(Error::runtime("Boolean alpha only supported for Boolean results."));
    }
    if alpha.is_floating() && !highest.is_differentiable() {
        return Err(Error::runtime("For integral input tensors, argument alpha must not be a floating point number."));
    }
    if alpha.is_complex() && !highest.is_complex() {
        return Err(Error::runtime("For non-complex input tensors, argument alpha must not be a complex number."));
    }
    Ok(())
}

fn check_sub(args: &Args) -> Result<()> {
    let bools = [SUB::INPUT, SUB::OTHER].iter().filter(|&&arg| kind(args, arg) == Some(DType::Bool)).count();
    match bools {
        0 => check_alpha(args),
        1 => Err(Error::runtime(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
        )),
        _ => Err(Error::runtime(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.",
        )),
    }
}

/// As in torch, 8-bit floats are multiplied with each other but not with numbers.
fn check_mul(args: &Args) -> Result<()> {
    let number = |arg| args.optional_tensor(arg).is_none_or(|tensor| tensor.rank() == 0);
    let float8 = |arg| args.optional_tensor(arg).filter(|tensor| tensor.dtype().is_float8());
    match float8(MUL::INPUT).or_else(|| float8(MUL::OTHER)) {
        Some(tensor) if number(MUL::INPUT) || number(MUL::OTHER) => {
            Err(Error::unsupported("mul_cpu_reduced_float", tensor.dtype())
                .hint("Convert it first: x.to(torch.float32)."))
        }
        _ => Ok(()),
    }
}

/// A gradient times the conjugate of a number, which is often one.
fn scaled(grad: Expr, factor: Scalar) -> Expr {
    if factor.is_one() { grad } else { grad * Expr::from(factor).conj() }
}

#[operator]
pub static SUB: Operator = Operator {
    name: "sub",
    tags: Tags::ROUNDED_PARAMETERS,
    node: "first=RsubBackward1",
    aliases: &["subtract"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Subtracts `other`, scaled by `alpha`, from `self`.

    out = self - alpha * other

Both arguments broadcast and promote to their common dtype; bool is not supported.

    >>> torch.sub(torch.tensor([5, 7]), 2)
    tensor([3, 5])",
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32),
    sparse: Sparse::Add(-1),
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::Common,
        keeps_strides: DTypes::NONE,
        loops: loops! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y; alpha| x.wrapping_sub(alpha.wrapping_mul(y)));
            for<S> [f32, f64] (|x, y; alpha| x - alpha * y);
            for<S> [c64, c128] (|x, y; alpha| if alpha == T::new(1.0, 0.0) { x - y } else { x - alpha * y })
        },
    }),
    check: Some(check_sub),
    checked_dtypes: DTypes::BOOL,
    kernel_name: "add_stub",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(OTHER, Saves::NOTHING, |d| -scaled(d.grad(), d.scalar(ALPHA))),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2"],
    reference: "np.subtract(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Operator::BASE
};

#[operator]
pub static RSUB: Operator = Operator {
    name: "rsub",
    signature: "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Subtracts `self`, scaled by `alpha`, from `other`.

    out = other - alpha * self

    >>> torch.rsub(torch.tensor([5, 7]), 2)
    tensor([-3, -5])",
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32),
    tags: Tags::BROADCASTS,
    implementation: Implementation::Delegate(|mut args| {
        args.op = &SUB;
        args.values.swap(0, 1);
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[(
        "t(3, 1), t(5, 2, 4)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    )],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2"],
    reference: "np.subtract(other, np.multiply(self, alpha, dtype=np.result_type(self)))",
    ..Operator::BASE
};

#[operator]
pub static MUL: Operator = Operator {
    name: "mul",
    tags: Tags::UNROUNDED_NUMBERS,
    aliases: &["multiply"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "Multiplies element by element.

    out = self * other

    >>> torch.mul(torch.tensor([1., 2.]), torch.tensor([[3.], [4.]]))
    tensor([[3., 6.],
            [4., 8.]])",
    in_place_example: ">>> torch.tensor([1., 2.]).mul_(torch.tensor([3., 4.]))
    tensor([3., 8.])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::Common,
        keeps_strides: DTypes::NONE,
        loops: loops! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y| x.wrapping_mul(y));
            for<S> [f32, f64, c64, c128] (|x, y| x * y);
            for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
        },
    }),
    check: Some(check_mul),
    checked_dtypes: DTypes::FLOAT8,
    kernel_name: "mul_cpu",
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER), |d| d.grad() * d.input(OTHER).conj()),
        formula(OTHER, Saves::input(INPUT), |d| d.grad() * d.input(INPUT).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.multiply(self, other)",
    ..Operator::BASE
};

#[operator]
pub static NEG: Operator = Operator {
    name: "neg",
    aliases: &["negative"],
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The negative of each element.

    >>> torch.neg(torch.tensor([1, -2]))
    tensor([-1,  2])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32),
    sparse: Sparse::Linear,
    implementation: Implementation::Pointwise(Pointwise {
        promote: Promote::Common,
        keeps_strides: DTypes::NONE,
        loops: loops! {
            for<S> [u8, i8, i16, i32, i64] (|x| x.wrapping_neg());
            for<S> [f32, f64, c64, c128] (|x| -x)
        },
    }),
    check: Some(|args| {
        if args.optional_tensor(INPUT).is_some_and(|own| own.dtype() == DType::Bool) {
            return Err(Error::runtime(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            ));
        }
        Ok(())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| -d.grad())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.negative(self)",
    ..Operator::BASE
};

#[operator]
pub static POSITIVE: Operator = Operator {
    name: "positive",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor itself.

    >>> torch.positive(torch.tensor([1, -2]))
    tensor([ 1, -2])",
    dtypes: DTypes::NUMBERS.union(DTypes::COMPLEX32).union(DTypes::FLOAT8),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.dtype() == DType::Bool {
            return Err(Error::runtime("The `+` operator, on a bool tensor is not supported."));
        }
        Ok(Output::Tensor(input.clone()))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t()"],
    reference: "np.positive(self)",
    ..Operator::BASE
};
