//! Limiting elements to a range.

use rushlight_core::{Bool, Error};
use rushlight_cpu::loops;
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Operator, Out, Saves, Tags, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Value};

use super::{common, no_complex, with_numbers};
use crate::expr_ext::ExprExt;

/// Shared by the operators that compute.
const LIMIT: Operator = Operator {
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    kernel_name: "clamp_cpu",
    tags: Tags::ROUNDED_PARAMETERS,
    check: Some(real),
    ..Operator::BASE
};

fn real(args: &Args) -> rushlight_core::Result<()> {
    no_complex(args, complex)?;
    let complex_limit =
        args.values.iter().any(|value| matches!(value, Value::Scalar(rushlight_core::Scalar::Complex(_))));
    match complex_limit {
        true if args.op.name.starts_with('_') && args.tensor(Arg::FIRST)?.dtype().is_floating() => {
            Err(Error::runtime("value cannot be converted to type double without overflow")
                .hint("Limits must be real numbers."))
        }
        true => Err(complex()),
        false => Ok(()),
    }
}

pub fn complex() -> Error {
    Error::not_implemented("clamp is not supported for complex types")
}

/// Keeps the limits that are given and chooses the operator for them.
fn choose<'a>(mut args: Args<'a>, rows: [&'static Operator; 3]) -> rushlight_core::Result<Args<'a>> {
    use CLAMP::*;

    args.op = match (args.has(MIN), args.has(MAX)) {
        (true, true) => rows[0],
        (true, false) => {
            args.values.truncate(2);
            rows[1]
        }
        (false, true) => {
            args.values.remove(1);
            rows[2]
        }
        (false, false) => {
            return Err(Error::runtime("torch.clamp: At least one of 'min' or 'max' must not be None"));
        }
    };
    Ok(args)
}

#[operator]
pub static CLAMP: Operator = Operator {
    name: "clamp",
    aliases: &["clip"],
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
    doc: "Limits elements to `min .. max`, numbers or tensors that broadcast; one of the two may be omitted. NaN is unchanged.

    out = minimum(maximum(self, min), max)

    >>> torch.clamp(torch.tensor([-2., 0.5, 3.]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    tags: Tags::BROADCASTS,
    implementation: Implementation::Delegate(|mut args| {
        match (args.has_tensor(MIN) || args.has_tensor(MAX), args.has_number(MIN) || args.has_number(MAX)) {
            (true, true) => {
                as_numbers(&mut args)?;
                choose(args, [&BOTH, &ONLY_MIN, &ONLY_MAX])
            }
            (true, false) => {
                if args.tensor(INPUT)?.dtype().is_complex() {
                    return Err(complex());
                }
                choose(args, [&BOTH_TENSOR, &CLAMP_MIN_TENSOR, &CLAMP_MAX_TENSOR])
            }
            (false, _) => choose(args, [&BOTH, &ONLY_MIN, &ONLY_MAX]),
        }
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), -1, 1",
        "t(2, 3), min=0",
        "t(2, 3), max=1",
        "t(), 0, 1",
        "t(2, 3), t(3), t(2, 1)",
        "t(2, 3), max=t()",
    ],
    errors: &[
        ("t(2)", "RuntimeError", "torch.clamp: At least one of 'min' or 'max' must not be None"),
        (
            "t(2), t(2), 1",
            "TypeError",
            "clamp() received an invalid combination of arguments - got (Tensor, Tensor, int)",
        ),
        ("t(2) + 0.0, 1j", "RuntimeError", "value cannot be converted to type double without overflow"),
    ],
    reference: "np.clip(self, min, max)",
    ..Operator::BASE
};

/// With a number as an operand the limits are numbers too, or 0-d tensors.
fn as_numbers(args: &mut Args) -> rushlight_core::Result<()> {
    for arg in [CLAMP::MIN, CLAMP::MAX] {
        if let Some(limit) = args.optional_tensor(arg) {
            if limit.rank() != 0 || limit.is_tracked() || limit.is_batched() {
                return Err(args.invalid_combination());
            }
            args.set(arg, Value::Scalar(crate::convert::item(limit)?));
        }
    }
    Ok(())
}

#[operator]
pub static BOTH: Operator = Operator {
    name: "_clamp",
    node: "ClampBackward1",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Scalar min, Scalar max) -> Tensor",
    doc: "Limits elements to `min .. max`.",
    out: Out::COMPUTE_DTYPE,
    kernel_name: "clamp_scalar_cpu",
    implementation: with_numbers(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x; low, high| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        });
        for<S> [f32, f64] (|x; low, high| {
            let y = if x >= low || x.is_nan() { x } else { low };
            if y <= high || y.is_nan() { y } else { high }
        });
        for<S> [Bool] (|x; low, high| Bool::from((x.get() | low.get()) & high.get()))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let inside = d.input(INPUT).at_least(d.scalar(MIN)).and(d.input(INPUT).at_most(d.scalar(MAX)));
        inside.choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), -1, 1"],
    reference: "np.clip(self, min, max)",
    ..LIMIT
};

#[operator]
pub static CLAMP_MIN: Operator = LOWER;

/// `clamp` with one bound, whose node has another name.
#[operator]
pub static ONLY_MIN: Operator = Operator {
    name: "_clamp_min",
    variants: Variants::FUNCTION,
    node: "ClampBackward1",
    doc: "`clamp` without the other bound.

    >>> torch._clamp_min(torch.tensor([-2., 3.]), 0)
    tensor([0., 3.])",
    ..LOWER
};

#[operator]
const LOWER: Operator = Operator {
    name: "clamp_min",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Scalar min) -> Tensor",
    node: "ClampMinBackward0",
    doc: "Raises elements to `min`.

    >>> torch.clamp_min(torch.tensor([-2., 3.]), 0)
    tensor([0., 3.])",
    out: Out::COMPUTE_DTYPE,
    kernel_name: "clamp_min_scalar_cpu",
    implementation: with_numbers(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x; low| if x < low { low } else { x });
        for<S> [f32, f64] (|x; low| if x >= low || x.is_nan() { x } else { low });
        for<S> [Bool] (|x; low| Bool::from(x.get() | low.get()))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.input(INPUT).at_least(d.scalar(MIN)).choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), 0", "t(), 1"],
    reference: "np.maximum(self, min)",
    ..LIMIT
};

#[operator]
pub static CLAMP_MAX: Operator = UPPER;

/// `clamp` with one bound, whose node has another name.
#[operator]
pub static ONLY_MAX: Operator = Operator {
    name: "_clamp_max",
    variants: Variants::FUNCTION,
    node: "ClampBackward1",
    doc: "`clamp` without the other bound.

    >>> torch._clamp_max(torch.tensor([-2., 3.]), 0)
    tensor([-2.,  0.])",
    ..UPPER
};

#[operator]
const UPPER: Operator = Operator {
    name: "clamp_max",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Scalar max) -> Tensor",
    node: "ClampMaxBackward0",
    doc: "Lowers elements to `max`.

    >>> torch.clamp_max(torch.tensor([-2., 3.]), 0)
    tensor([-2.,  0.])",
    out: Out::COMPUTE_DTYPE,
    kernel_name: "clamp_max_scalar_cpu",
    implementation: with_numbers(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x; high| if x > high { high } else { x });
        for<S> [f32, f64] (|x; high| if x <= high || x.is_nan() { x } else { high });
        for<S> [Bool] (|x; high| Bool::from(x.get() & high.get()))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        d.input(INPUT).at_most(d.scalar(MAX)).choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), 0", "t(), 1"],
    reference: "np.minimum(self, max)",
    ..LIMIT
};

#[operator]
pub static BOTH_TENSOR: Operator = Operator {
    name: "_clamp.Tensor",
    node: "ClampBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor|Scalar min, Tensor|Scalar max) -> Tensor",
    doc: "Limits elements to those of `min` and `max`.",
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, low, high| {
            let x = if x < low { low } else { x };
            if x > high { high } else { x }
        });
        for<S> [f32, f64] (|x, low, high| {
            let y = if x >= low || x.is_nan() { x } else { low };
            if y <= high || y.is_nan() { y } else { high }
        });
        for<S> [Bool] (|x, low, high| Bool::from((x.get() | low.get()) & high.get()))
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, ALL, |d| {
            d.input(INPUT).at_least(d.input(MIN)).and(d.input(INPUT).at_most(d.input(MAX))).choose(d.grad(), 0.0)
        }),
        formula(MIN, ALL, |d| {
            d.input(MIN).above(d.input(INPUT)).and(d.input(MIN).below(d.input(MAX))).choose(d.grad(), 0.0)
        }),
        formula(MAX, ALL, |d| {
            d.input(INPUT).above(d.input(MAX)).or(d.input(MIN).above(d.input(MAX))).choose(d.grad(), 0.0)
        }),
    ]),
    samples: &["t(2, 3), t(3), t(2, 1)"],
    reference: "np.minimum(np.maximum(self, min), max)",
    ..LIMIT
};

const ALL: Saves = {
    use BOTH_TENSOR::*;
    Saves::input(INPUT).union(Saves::input(MIN)).union(Saves::input(MAX))
};

#[operator]
pub static CLAMP_MIN_TENSOR: Operator = Operator {
    name: "clamp_min.Tensor",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor min) -> Tensor",
    node: "ClampMinBackward1",
    doc: "Raises elements to those of `min`.

    >>> torch.clamp_min(torch.tensor([-2., 3.]), torch.tensor([0., 4.]))
    tensor([0., 4.])",
    kernel_name: "maximum_cpu",
    check: None,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, low| if x < low { low } else { x });
        for<S> [f32, f64] (|x, low| if x >= low || x.is_nan() { x } else { low });
        for<S> [Bool] (|x, low| Bool::from(x.get() | low.get()))
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(MIN)), |d| {
            d.input(INPUT).at_least(d.input(MIN)).choose(d.grad(), 0.0)
        }),
        formula(MIN, Saves::input(INPUT).union(Saves::input(MIN)), |d| {
            d.input(MIN).above(d.input(INPUT)).choose(d.grad(), 0.0)
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(3)", "t(2, 3), t()"],
    reference: "np.maximum(self, min)",
    ..LIMIT
};

#[operator]
pub static CLAMP_MAX_TENSOR: Operator = Operator {
    name: "clamp_max.Tensor",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor max) -> Tensor",
    node: "ClampMaxBackward1",
    doc: "Lowers elements to those of `max`.

    >>> torch.clamp_max(torch.tensor([-2., 3.]), torch.tensor([0., 4.]))
    tensor([-2.,  3.])",
    kernel_name: "minimum_cpu",
    check: None,
    implementation: common(loops! {
        for<S> [u8, i8, i16, i32, i64] (|x, high| if x > high { high } else { x });
        for<S> [f32, f64] (|x, high| if x <= high || x.is_nan() { x } else { high });
        for<S> [Bool] (|x, high| Bool::from(x.get() & high.get()))
    }),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(MAX)), |d| {
            d.input(INPUT).at_most(d.input(MAX)).choose(d.grad(), 0.0)
        }),
        formula(MAX, Saves::input(INPUT).union(Saves::input(MAX)), |d| {
            d.input(MAX).below(d.input(INPUT)).choose(d.grad(), 0.0)
        }),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(3)", "t(2, 3), t()"],
    reference: "np.minimum(self, max)",
    ..LIMIT
};
