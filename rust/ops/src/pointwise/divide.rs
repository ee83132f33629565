//! Quotients and remainders, with each way of rounding.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast_quietly;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::plan::Plan;
use rushlight_core::{DType, Device, Error, Result, Scalar, dispatch};
use rushlight_cpu::tiles;

use super::numbers::{Analytic, ComplexMath, Integer, Narrow, Real};
use super::{BINARY, UNARY, common, float};
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run, Variants};
use crate::sparse::Sparse;
use crate::value::Args;

const OPERANDS: &str = "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor";

pub static DIV: Row = Row {
    name: "div",
    aliases: &["divide", "true_divide"],
    variants: Variants::ALL,
    signature: OPERANDS,
    doc: "Divides element by element; integers give the default float dtype.

    out = self / other

    >>> torch.div(torch.tensor([7, 1]), 2)
    tensor([3.5000, 0.5000])",
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(crate::sparse::elementwise::div),
    run: float(tiles! {
        for<S> [f32, f64] (|x, y| x / y);
        for<S> [c64, c128] (|x, y| x.wide().quotient(y.wide()).narrow())
    }),
    cuda: Some("self / other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() / d.input(1).conj()),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| {
            -d.grad() * ((d.input(0) / d.input(1)) / d.input(1)).conj()
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.true_divide(self, other)",
    ..Row::BASE
};

fn has_zero(tensor: &Tensor) -> Result<bool> {
    if tensor.device() != Device::Cpu || tensor.numel() == 0 {
        return Ok(false);
    }
    let plan = Plan::new([tensor.layout()], [tensor.dtype().size()]);
    let (pin, step) = (tensor.storage().pin()?, plan.inner_strides()[0]);
    let mut found = false;
    dispatch!(tensor.dtype(), T in all => plan.runs(0..plan.numel(), |[offset], length| {
        for i in 0..length as isize {
            // SAFETY: the plan stays within the pinned storage; foreign memory may be unaligned.
            let element = unsafe { pin.as_ptr().offset(offset + i * step).cast::<T>().read_unaligned() };
            found |= element == T::default();
        }
    }));
    Ok(found)
}

/// Whole numbers have no quotient by zero.
fn check_divisor(args: &Args) -> Result<()> {
    let whole = |place: usize| match args.optional_tensor(place) {
        Some(tensor) => !tensor.dtype().is_differentiable(),
        None => matches!(args.optional_scalar(place), Some(Scalar::Int(_) | Scalar::UInt(_) | Scalar::Bool(_))),
    };
    if !whole(0) || !whole(1) {
        return Ok(());
    }
    // Shapes that do not meet are told of first.
    if let (Some(own), Some(divisor)) = (args.optional_tensor(0), args.optional_tensor(1))
        && !broadcast_quietly(own.sizes(), divisor.sizes())
    {
        return Ok(());
    }
    let zero = match args.optional_tensor(1) {
        Some(divisor) => has_zero(divisor)?,
        None => args.scalar(1)?.is_zero(),
    };
    let bools = |place: usize| match args.optional_tensor(place) {
        Some(tensor) => tensor.dtype() == DType::Bool,
        None => args.optional_scalar(place).is_some_and(Scalar::is_bool),
    };
    if zero && !(bools(0) && bools(1)) {
        return Err(Error::runtime("ZeroDivisionError").hint("A whole number was divided by zero."));
    }
    Ok(())
}

pub static DIV_MODE: Row = Row {
    name: "div.Tensor_mode",
    aliases: &["divide"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor",
    doc: "Divides and rounds: `None` not at all, `'trunc'` towards zero, `'floor'` downwards.

    >>> torch.div(torch.tensor([7, -7]), 2, rounding_mode='floor')
    tensor([ 3, -4])",
    dtypes: DTypes::REAL,
    run: Run::Defer(|mut args| {
        args.row = match args.optional_str(2) {
            None if !args.has(2) => &DIV,
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
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// A rounded quotient is flat wherever it has a derivative.
const FLAT: Derivative = Derivative::Formulas(&[
    formula(0, Saves::NOTHING, |d| d.grad().zeros_like()),
    formula(1, Saves::NOTHING, |d| d.grad().zeros_like()),
]);

pub static DIV_TRUNC: Row = Row {
    name: "_div_trunc",
    variants: Variants::FUNCTION,
    signature: OPERANDS,
    doc: "The quotient, rounded towards zero.",
    dtypes: DTypes::REAL,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.trunc_div(y));
        for<S> [f32, f64] (|x, y| (x / y).trunc())
    }),
    check: Some(check_divisor),
    checks: DTypes::EXACT,
    refuses: "div_trunc_cpu",
    derivative: FLAT,
    node: "DivBackward2",
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.trunc(np.true_divide(self, other))",
    ..Row::BASE
};

pub static DIV_FLOOR: Row = Row {
    name: "_div_floor",
    variants: Variants::FUNCTION,
    signature: OPERANDS,
    doc: "The quotient, rounded downwards.",
    dtypes: DTypes::REAL,
    run: FLOOR,
    check: Some(check_divisor),
    checks: DTypes::EXACT,
    refuses: "div_floor_cpu",
    derivative: FLAT,
    node: "DivBackward2",
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.floor_divide(self, other)",
    ..Row::BASE
};

const FLOOR: Run = common(tiles! {
    for<S> [u8, i8, i16, i32, i64] (|x, y| x.floor_div(y));
    for<S> [f32, f64] (|x, y| x.floor_div(y))
});

pub static FLOOR_DIVIDE: Row = Row {
    name: "floor_divide",
    variants: Variants::ALL,
    signature: OPERANDS,
    doc: "The quotient, rounded downwards.

    out = floor(self / other)

    >>> torch.floor_divide(torch.tensor([7, -7]), 2)
    tensor([ 3, -4])",
    dtypes: DTypes::REAL,
    run: FLOOR,
    check: Some(check_divisor),
    checks: DTypes::EXACT,
    refuses: "div_floor_cpu",
    cuda: None,
    derivative: Derivative::Missing("aten::floor_divide"),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.floor_divide(self, other)",
    ..Row::BASE
};

fn minus_quotient(d: &Derive, row: &'static Row) -> Expr {
    -d.grad() * d.input(0).with(row, d.input(1))
}

pub static REMAINDER: Row = Row {
    name: "remainder",
    node: "RemainderBackward1 number=RemainderBackward0",
    variants: Variants::ALL,
    signature: OPERANDS,
    doc: "The remainder with the sign of the divisor, as Python's `%`.

    out = self - other * floor(self / other)

    >>> torch.remainder(torch.tensor([-3., 3.]), 2)
    tensor([1., 1.])",
    dtypes: DTypes::REAL,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.modulo(y));
        for<S> [f32, f64] (|x, y| x.modulo(y))
    }),
    check: Some(|args| {
        super::some_tensor(args)?;
        check_divisor(args)
    }),
    checks: DTypes::EXACT,
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| minus_quotient(d, &DIV_FLOOR)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2", "3, pos(2)"],
    reference: "np.remainder(self, other)",
    ..Row::BASE
};

pub static FMOD: Row = Row {
    name: "fmod",
    node: "FmodBackward1 number=FmodBackward0",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor|Scalar other) -> Tensor",
    doc: "The remainder with the sign of the dividend, as C's `fmod`.

    out = self - other * trunc(self / other)

    >>> torch.fmod(torch.tensor([-3., 3.]), 2)
    tensor([-1.,  1.])",
    dtypes: DTypes::REAL,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, y| x.rest(y));
        for<S> [f32, f64] (|x, y| x % y)
    }),
    check: Some(check_divisor),
    checks: DTypes::EXACT,
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| minus_quotient(d, &DIV_TRUNC)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(4), pos(4)", "t(2, 3), 2"],
    reference: "np.fmod(self, other)",
    ..Row::BASE
};

pub static RECIPROCAL: Row = Row {
    name: "reciprocal",
    doc: "One divided by each element.

    >>> torch.reciprocal(torch.tensor([2., 4.]))
    tensor([0.5000, 0.2500])",
    dtypes: DTypes::ALL,
    run: float(tiles! {
        for<S> [f32, f64] (|x| 1.0 / x);
        for<S> [c64, c128] (|x| c128::new(1.0, 0.0).quotient(x.wide()).narrow())
    }),
    cuda: Some("1 / self"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| -d.grad() * d.result().square().conj())]),
    samples: &["pos(2, 3)", "pos()"],
    reference: "np.true_divide(1, self)",
    ..UNARY
};

pub static GCD: Row = Row {
    name: "gcd",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "The greatest common divisor.

    >>> torch.gcd(torch.tensor([12, 5]), torch.tensor([18, 10]))
    tensor([6, 5])",
    dtypes: DTypes::INTS,
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.gcd(y)) }),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.gcd(self, other)",
    ..BINARY
};

pub static LCM: Row = Row {
    name: "lcm",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "The least common multiple.

    >>> torch.lcm(torch.tensor([4, 5]), torch.tensor([6, 10]))
    tensor([12, 10])",
    dtypes: DTypes::INTS,
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.lcm(y)) }),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.lcm(self, other)",
    ..BINARY
};
