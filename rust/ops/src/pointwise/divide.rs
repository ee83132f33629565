//! Quotients and remainders, with each rounding mode.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::can_broadcast;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Device, Error, Result, Scalar, dispatch};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Tags, Variants,
    formula, operator,
};

use super::numbers::{Analytic, ComplexMath, Integer, Narrow, Real};
use super::{BINARY, UNARY, common, float};
use crate::expr_ext::ExprExt;

#[operator]
pub static DIV: Operator = Operator {
    name: "div",
    tags: Tags::UNROUNDED_NUMBERS,
    aliases: &["divide", "true_divide"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "Divides element by element; integers give the default float dtype.

    out = self / other

    >>> torch.div(torch.tensor([7, 1]), 2)
    tensor([3.5000, 0.5000])",
    in_place_example: ">>> torch.tensor([7., 1.]).div_(2)
    tensor([3.5000, 0.5000])",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ExplicitAutograd,
    implementation: float(loops! {
        for<S> [f32, f64] (|x, y| x / y);
        for<S> [c64, c128] (|x, y| x.wide().quotient(y.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER), |d| d.grad() / d.input(OTHER).conj()),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            -d.grad() * ((d.input(INPUT) / d.input(OTHER)) / d.input(OTHER)).conj()
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.true_divide(self, other)",
    ..Operator::BASE
};

fn has_zero(tensor: &Tensor) -> Result<bool> {
    if tensor.device() != Device::Cpu || tensor.numel() == 0 {
        return Ok(false);
    }
    let nest = LoopNest::new([tensor.layout()], [tensor.dtype().size()]);
    let (pin, step) = (tensor.storage().pin()?, nest.inner_strides()[0]);
    let mut found = false;
    dispatch!(tensor.dtype(), T in all => nest.runs(0..nest.numel(), |[offset], length| {
        for i in 0..length as isize {
            // SAFETY: `nest` stays within the pinned storage; foreign memory may be unaligned.
            let element = unsafe { pin.as_ptr().offset(offset + i * step).cast::<T>().read_unaligned() };
            found |= element == T::default();
        }
    }));
    Ok(found)
}

/// Division of integers by zero is an error.
fn check_divisor(args: &Args) -> Result<()> {
    use DIV_TRUNC::*;

    let whole = |arg| match args.optional_tensor(arg) {
        Some(tensor) => !tensor.dtype().is_differentiable(),
        None => matches!(args.optional_scalar(arg), Some(Scalar::Int(_) | Scalar::UInt(_) | Scalar::Bool(_))),
    };
    if !whole(INPUT) || !whole(OTHER) {
        return Ok(());
    }
    // Errors of shapes come first.
    if let (Some(own), Some(divisor)) = (args.optional_tensor(INPUT), args.optional_tensor(OTHER))
        && !can_broadcast(own.sizes(), divisor.sizes())
    {
        return Ok(());
    }
    let zero = match args.optional_tensor(OTHER) {
        Some(divisor) => has_zero(divisor)?,
        // A number wraps around to the dtype of the tensor that it divides.
        None => match (args.scalar(OTHER)?, args.optional_tensor(INPUT)) {
            (Scalar::Int(_) | Scalar::UInt(_), Some(own)) if own.dtype() != DType::Bool => {
                let bits = own.dtype().size() * 8;
                let low = match args.scalar(OTHER)? {
                    Scalar::Int(value) => value as u64,
                    Scalar::UInt(value) => value,
                    _ => 1,
                };
                low << (64 - bits) == 0
            }
            (number, _) => number.is_zero(),
        },
    };
    let bools = |arg| match args.optional_tensor(arg) {
        Some(tensor) => tensor.dtype() == DType::Bool,
        None => args.optional_scalar(arg).is_some_and(Scalar::is_bool),
    };
    if zero && !(bools(INPUT) && bools(OTHER)) {
        return Err(Error::runtime("ZeroDivisionError").hint("An integer was divided by zero."));
    }
    Ok(())
}

#[operator]
pub static DIV_MODE: Operator = Operator {
    name: "div.Tensor_mode",
    aliases: &["divide"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor",
    doc: "Divides and rounds: not with `None`, towards zero with `'trunc'`, downwards with `'floor'`.

    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode='floor')
    tensor([ 3, -4])",
    dtypes: DTypes::REAL,
    implementation: Implementation::Delegate(|mut args| {
        args.op = match args.optional_str(ROUNDING_MODE) {
            None if !args.has(ROUNDING_MODE) => &DIV,
            Some("trunc") => &DIV_TRUNC,
            Some("floor") => &DIV_FLOOR,
            other => {
                return Err(Error::runtime(format!(
                    "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{}'",
                    other.unwrap_or("")
                )));
            }
        };
        args.values.truncate(2);
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), pos(2, 3), rounding_mode=None",
        "pos(5, 1, 4), pos(3, 1), rounding_mode='trunc'",
        "t(4), 2, rounding_mode='floor'",
    ],
    errors: &[(
        "t(2), 2, rounding_mode='up'",
        "RuntimeError",
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found 'up'",
    )],
    reference: "{None: np.divide, 'floor': np.floor_divide}[rounding_mode](self, other) if rounding_mode != 'trunc' else None",
    ..Operator::BASE
};

/// A rounded quotient is constant wherever it has a derivative.
const FLAT: Derivative = Derivative::Formulas(&[
    formula(DIV_TRUNC::INPUT, Saves::NOTHING, |d| d.grad().zeros_like()),
    formula(DIV_TRUNC::OTHER, Saves::NOTHING, |d| d.grad().zeros_like()),
]);

#[operator]
pub static DIV_TRUNC: Operator = Operator {
    name: "_div_trunc",
    tags: Tags::UNROUNDED_NUMBERS,
    variants: Variants::FUNCTION,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The quotient, rounded towards zero.",
    dtypes: DTypes::REAL,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.trunc_div(y));
        for<S> [f32, f64] (|x, y| (x / y).trunc())
    }),
    check: Some(check_divisor),
    checked_dtypes: DTypes::EXACT,
    kernel_name: "div_trunc_cpu",
    derivative: FLAT,
    node: "DivBackward2",
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.trunc(np.true_divide(self, other))",
    ..Operator::BASE
};

#[operator]
pub static DIV_FLOOR: Operator = Operator {
    name: "_div_floor",
    tags: Tags::UNROUNDED_NUMBERS,
    variants: Variants::FUNCTION,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The quotient, rounded downwards.",
    dtypes: DTypes::REAL,
    implementation: FLOOR,
    check: Some(check_divisor),
    checked_dtypes: DTypes::EXACT,
    kernel_name: "div_floor_cpu",
    derivative: FLAT,
    node: "DivBackward2",
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.floor_divide(self, other)",
    ..Operator::BASE
};

const FLOOR: Implementation = common(loops! {
    for<S> [u8, i8, i16, i32, i64] (|x, y| x.floor_div(y));
    for<S> [f32, f64] (|x, y| x.floor_div(y))
});

#[operator]
pub static FLOOR_DIVIDE: Operator = Operator {
    name: "floor_divide",
    tags: Tags::UNROUNDED_NUMBERS,
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The quotient, rounded downwards.

    out = floor(self / other)

    >>> torch.floor_divide(torch.tensor([7, -7]), 2)
    tensor([ 3, -4])",
    dtypes: DTypes::REAL,
    sparse: Sparse::ExplicitAutograd,
    implementation: FLOOR,
    check: Some(check_divisor),
    checked_dtypes: DTypes::EXACT,
    kernel_name: "div_floor_cpu",
    derivative: Derivative::NotImplemented("aten::floor_divide"),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.floor_divide(self, other)",
    ..Operator::BASE
};

fn minus_quotient(d: &BackwardContext, op: &'static Operator) -> Expr {
    use REMAINDER::*;

    -d.grad() * d.input(INPUT).with(op, d.input(OTHER))
}

#[operator]
pub static REMAINDER: Operator = Operator {
    name: "remainder",
    node: "RemainderBackward1 number=RemainderBackward0",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "The remainder with the sign of the divisor, as Python's `%`.

    out = self - other * floor(self / other)

    >>> torch.remainder(torch.tensor([-3., 3.]), 2)
    tensor([1., 1.])",
    dtypes: DTypes::REAL,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.modulo(y));
        for<S> [f32, f64] (|x, y| x.modulo(y))
    }),
    check: Some(|args| {
        super::some_tensor(args)?;
        check_divisor(args)
    }),
    checked_dtypes: DTypes::EXACT,
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| minus_quotient(d, &DIV_FLOOR)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2", "3, pos(2)"],
    reference: "np.remainder(self, other)",
    ..Operator::BASE
};

#[operator]
pub static FMOD: Operator = Operator {
    name: "fmod",
    node: "FmodBackward1 number=FmodBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor|Scalar other) -> Tensor",
    doc: "The remainder with the sign of the dividend, as C's `fmod`.

    out = self - other * trunc(self / other)

    >>> torch.fmod(torch.tensor([-3., 3.]), 2)
    tensor([-1.,  1.])",
    dtypes: DTypes::REAL,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.rest(y));
        for<S> [f32, f64] (|x, y| x % y)
    }),
    check: Some(check_divisor),
    checked_dtypes: DTypes::EXACT,
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, |d| d.grad()),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)), |d| minus_quotient(d, &DIV_TRUNC)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.fmod(self, other)",
    ..Operator::BASE
};

#[operator]
pub static RECIPROCAL: Operator = Operator {
    name: "reciprocal",
    doc: "One divided by each element.

    >>> torch.reciprocal(torch.tensor([2., 4.]))
    tensor([0.5000, 0.2500])",
    dtypes: DTypes::COMPUTED,
    implementation: float(loops! {
        for<S> [f32, f64] (|x| 1.0 / x);
        for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide()).narrow())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| {
        -d.grad() * (d.result() * d.result()).conj()
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.true_divide(1, self)",
    ..UNARY
};

#[operator]
pub static GCD: Operator = Operator {
    name: "gcd",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "The greatest common divisor.

    >>> torch.gcd(torch.tensor([12, 5]), torch.tensor([18, 10]))
    tensor([6, 5])",
    dtypes: DTypes::INTS,
    implementation: common(loops! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.gcd(y)) }),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.gcd(self, other)",
    ..BINARY
};

#[operator]
pub static LCM: Operator = Operator {
    name: "lcm",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "The least common multiple.

    >>> torch.lcm(torch.tensor([4, 5]), torch.tensor([6, 10]))
    tensor([12, 10])",
    dtypes: DTypes::INTS,
    implementation: common(loops! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.lcm(y)) }),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.lcm(self, other)",
    ..BINARY
};
