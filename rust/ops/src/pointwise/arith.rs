//! Sums, differences, products.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error, Result, Scalar};
use rushlight_cpu::tiles;

use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Out, Pointwise, Promote, Row, Run, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Value};

pub static ADD: Row = Row {
    name: "add",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Adds `other`, scaled by `alpha`, to `self`.

    out = self + alpha * other

Both arguments broadcast; integers, floats and complex numbers promote to their common dtype.

    >>> torch.add(torch.tensor([1, 2, 3]), torch.tensor([[10], [20]]), alpha=2)
    tensor([[21, 22, 23],
            [41, 42, 43]])",
    sparse: Sparse::Add(1),
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y)));
            for<S> [f32, f64] (|x, y; alpha| x + alpha * y);
            for<S> [c64, c128] (|x, y; alpha| if alpha == T::new(1.0, 0.0) { x + y } else { x + alpha * y });
            for<S> [Bool] (|x, y; alpha| Bool::from(x.get() | (alpha.get() & y.get())))
        },
    }),
    check: Some(check_alpha),
    checks: DTypes::NONE,
    refuses: "add_stub",
    cuda: Some("self + alpha * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::NOTHING, |d| scaled(d.grad(), d.scalar(2))),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2", "t(0, 3), t(1, 3)"],
    errors: &[(
        "t(5, 2, 4), t(3, 1)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    )],
    reference: "np.add(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Row::BASE
};

/// The dtype of a tensor or number at `place`; numbers as Python has them.
fn kind(args: &Args, place: usize) -> Option<DType> {
    args.optional_tensor(place)
        .map(rushlight_autograd::Tensor::dtype)
        .or_else(|| args.optional_scalar(place).map(Scalar::dtype))
}

/// `alpha` must be a number of the operands' kind.
fn check_alpha(args: &Args) -> Result<()> {
    let alpha = match args.values.get(2) {
        Some(Value::Scalar(Scalar::Int(_))) | None => return Ok(()),
        Some(_) => args.scalar(2)?,
    };
    let Some(highest) = [0, 1].iter().filter_map(|&place| kind(args, place)).max_by_key(|dtype| dtype.category())
    else {
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
    let bools = [0, 1].iter().filter(|&&place| kind(args, place) == Some(DType::Bool)).count();
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

/// A gradient times the conjugate of a number, which is often one.
fn scaled(grad: Expr, factor: Scalar) -> Expr {
    if factor.is_one() { grad } else { grad * Expr::from(factor).conj() }
}

pub static SUB: Row = Row {
    name: "sub",
    node: "first=RsubBackward1",
    aliases: &["subtract"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Subtracts `other`, scaled by `alpha`, from `self`.

    out = self - alpha * other

Both arguments broadcast and promote to their common dtype; bool has no difference.

    >>> torch.sub(torch.tensor([5, 7]), 2)
    tensor([3, 5])",
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Add(-1),
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y; alpha| x.wrapping_sub(alpha.wrapping_mul(y)));
            for<S> [f32, f64] (|x, y; alpha| x - alpha * y);
            for<S> [c64, c128] (|x, y; alpha| if alpha == T::new(1.0, 0.0) { x - y } else { x - alpha * y })
        },
    }),
    check: Some(check_sub),
    checks: DTypes::BOOL,
    refuses: "add_stub",
    cuda: Some("self - alpha * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::NOTHING, |d| -scaled(d.grad(), d.scalar(2))),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2"],
    reference: "np.subtract(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Row::BASE
};

pub static RSUB: Row = Row {
    name: "rsub",
    signature: "(Tensor self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Subtracts `self`, scaled by `alpha`, from `other`.

    out = other - alpha * self

    >>> torch.rsub(torch.tensor([5, 7]), 2)
    tensor([-3, -5])",
    dtypes: DTypes::NUMBERS,
    traits: Traits::BROADCASTS,
    run: Run::Defer(|mut args| {
        args.row = &SUB;
        args.values.swap(0, 1);
        Ok(args)
    }),
    derivative: Derivative::Composed,
    errors: &[(
        "t(3, 1), t(5, 2, 4)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    )],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2"],
    reference: "np.subtract(other, np.multiply(self, alpha, dtype=np.result_type(self)))",
    ..Row::BASE
};

pub static MUL: Row = Row {
    name: "mul",
    aliases: &["multiply"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "Multiplies element by element.

    out = self * other

    >>> torch.mul(torch.tensor([1., 2.]), torch.tensor([[3.], [4.]]))
    tensor([[3., 6.],
            [4., 8.]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(crate::sparse::elementwise::mul),
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            signless;
            for<S> [i8, i16, i32, i64] (|x, y| x.wrapping_mul(y));
            for<S> [f32, f64, c64, c128] (|x, y| x * y);
            for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
        },
    }),
    refuses: "mul_cpu",
    cuda: Some("self * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() * d.input(1).conj()),
        formula(1, Saves::input(0), |d| d.grad() * d.input(0).conj()),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.multiply(self, other)",
    ..Row::BASE
};

pub static NEG: Row = Row {
    name: "neg",
    aliases: &["negative"],
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The negative of each element.

    >>> torch.neg(torch.tensor([1, -2]))
    tensor([-1,  2])",
    out: Out::FOUND,
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Linear,
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x| x.wrapping_neg());
            for<S> [f32, f64, c64, c128] (|x| -x)
        },
    }),
    check: Some(|args| {
        if args.optional_tensor(0).is_some_and(|own| own.dtype() == DType::Bool) {
            return Err(Error::runtime(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.",
            ));
        }
        Ok(())
    }),
    cuda: Some("-self"),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| -d.grad())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.negative(self)",
    ..Row::BASE
};

pub static POSITIVE: Row = Row {
    name: "positive",
    signature: "(Tensor self) -> Tensor",
    doc: "The tensor itself.

    >>> torch.positive(torch.tensor([1, -2]))
    tensor([ 1, -2])",
    dtypes: DTypes::NUMBERS,
    run: Run::Compose(|args| {
        let own = args.tensor(0)?;
        if own.dtype() == DType::Bool {
            return Err(Error::runtime("The `+` operator, on a bool tensor is not supported."));
        }
        Ok(crate::value::Output::Tensor(own.clone()))
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3)", "t()"],
    reference: "np.positive(self)",
    ..Row::BASE
};
