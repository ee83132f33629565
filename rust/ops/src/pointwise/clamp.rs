//! Limiting elements to a range.

use rushlight_core::{Bool, Error};
use rushlight_cpu::tiles;

use super::{common, no_complex, with_numbers};
use crate::derive::{Derivative, Saves, formula};
use crate::row::{DTypes, Out, Row, Run, Traits, Variants};
use crate::value::{Args, Value};

/// What the rows that do the work have in common.
const LIMIT: Row =
    Row { dtypes: DTypes::COMMON.without(DTypes::COMPLEX), refuses: "clamp_cpu", check: Some(real), ..Row::BASE };

fn real(args: &Args) -> rushlight_core::Result<()> {
    no_complex(args, complex)?;
    match [1, 2].iter().any(|&place| args.optional_scalar(place).is_some_and(rushlight_core::Scalar::is_complex)) {
        true if args.row.name.starts_with('_') && args.tensor(0)?.dtype().is_floating() => {
            Err(Error::runtime("value cannot be converted to type double without overflow")
                .hint("Limits are real numbers."))
        }
        true => Err(complex()),
        false => Ok(()),
    }
}

pub fn complex() -> Error {
    Error::not_implemented("clamp is not supported for complex types")
}

/// Leaves the limits that are given and says which they are.
fn choose<'a>(mut args: Args<'a>, rows: [&'static Row; 3]) -> rushlight_core::Result<Args<'a>> {
    args.row = match (args.has(1), args.has(2)) {
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

pub static CLAMP: Row = Row {
    name: "clamp",
    aliases: &["clip"],
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Tensor|Scalar? min=None, Tensor|Scalar? max=None) -> Tensor",
    doc: "Limits elements to `min .. max`, numbers or tensors; one of the two may be left away. nan stays.

    out = minimum(maximum(self, min), max)

    >>> torch.clamp(torch.tensor([-2., 0.5, 3.]), -1, 1)
    tensor([-1.0000,  0.5000,  1.0000])",
    dtypes: DTypes::COMMON.without(DTypes::COMPLEX),
    traits: Traits::BROADCASTS,
    run: Run::Defer(|mut args| {
        match (args.has_tensor(1) || args.has_tensor(2), args.has_number(1) || args.has_number(2)) {
            (true, true) => {
                as_numbers(&mut args)?;
                choose(args, [&BOTH, &ONLY_MIN, &ONLY_MAX])
            }
            (true, false) => {
                if args.tensor(0)?.dtype().is_complex() {
                    return Err(complex());
                }
                choose(args, [&BOTH_TENSOR, &CLAMP_MIN_TENSOR, &CLAMP_MAX_TENSOR])
            }
            (false, _) => choose(args, [&BOTH, &ONLY_MIN, &ONLY_MAX]),
        }
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// A limit beside a number is a number too, or a tensor that stands for one.
fn as_numbers(args: &mut Args) -> rushlight_core::Result<()> {
    for place in [1, 2] {
        if let Some(limit) = args.optional_tensor(place) {
            if limit.rank() != 0 || limit.is_watched() || limit.is_mapped() {
                return Err(args.invalid_combination());
            }
            args.values[place] = Value::Scalar(crate::convert::item(limit)?);
        }
    }
    Ok(())
}

pub static BOTH: Row = Row {
    name: "_clamp",
    node: "ClampBackward1",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Scalar min, Scalar max) -> Tensor",
    doc: "Limits elements to `min .. max`.",
    out: Out::FOUND,
    refuses: "clamp_scalar_cpu",
    run: with_numbers(tiles! {
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
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let inside = d.input(0).at_least(d.scalar(1)).and(d.input(0).at_most(d.scalar(2)));
        inside.choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), -1, 1"],
    reference: "np.clip(self, min, max)",
    ..LIMIT
};

pub static CLAMP_MIN: Row = MIN;

/// `clamp` with one bound, whose node has another name.
pub static ONLY_MIN: Row = Row {
    name: "_clamp_min",
    variants: Variants::FUNCTION,
    node: "ClampBackward1",
    doc: "`clamp` without the other bound.

    >>> torch._clamp_min(torch.tensor([-2., 3.]), 0)
    tensor([0., 3.])",
    ..MIN
};

const MIN: Row = Row {
    name: "clamp_min",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Scalar min) -> Tensor",
    node: "ClampMinBackward0",
    doc: "Raises elements to `min`.

    >>> torch.clamp_min(torch.tensor([-2., 3.]), 0)
    tensor([0., 3.])",
    out: Out::FOUND,
    refuses: "clamp_min_scalar_cpu",
    run: with_numbers(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x; low| if x < low { low } else { x });
        for<S> [f32, f64] (|x; low| if x >= low || x.is_nan() { x } else { low });
        for<S> [Bool] (|x; low| Bool::from(x.get() | low.get()))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.input(0).at_least(d.scalar(1)).choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), 0", "t(), 1"],
    reference: "np.maximum(self, min)",
    ..LIMIT
};

pub static CLAMP_MAX: Row = MAX;

/// `clamp` with one bound, whose node has another name.
pub static ONLY_MAX: Row = Row {
    name: "_clamp_max",
    variants: Variants::FUNCTION,
    node: "ClampBackward1",
    doc: "`clamp` without the other bound.

    >>> torch._clamp_max(torch.tensor([-2., 3.]), 0)
    tensor([-2.,  0.])",
    ..MAX
};

const MAX: Row = Row {
    name: "clamp_max",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    signature: "(Tensor self, Scalar max) -> Tensor",
    node: "ClampMaxBackward0",
    doc: "Lowers elements to `max`.

    >>> torch.clamp_max(torch.tensor([-2., 3.]), 0)
    tensor([-2.,  0.])",
    out: Out::FOUND,
    refuses: "clamp_max_scalar_cpu",
    run: with_numbers(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x; high| if x > high { high } else { x });
        for<S> [f32, f64] (|x; high| if x <= high || x.is_nan() { x } else { high });
        for<S> [Bool] (|x; high| Bool::from(x.get() & high.get()))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        d.input(0).at_most(d.scalar(1)).choose(d.grad(), 0.0)
    })]),
    samples: &["t(2, 3), 0", "t(), 1"],
    reference: "np.minimum(self, max)",
    ..LIMIT
};

pub static BOTH_TENSOR: Row = Row {
    name: "_clamp.Tensor",
    node: "ClampBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor|Scalar min, Tensor|Scalar max) -> Tensor",
    doc: "Limits elements to those of `min` and `max`.",
    run: common(tiles! {
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
        formula(0, ALL, |d| d.input(0).at_least(d.input(1)).and(d.input(0).at_most(d.input(2))).choose(d.grad(), 0.0)),
        formula(1, ALL, |d| d.input(1).above(d.input(0)).and(d.input(1).below(d.input(2))).choose(d.grad(), 0.0)),
        formula(2, ALL, |d| d.input(0).above(d.input(2)).or(d.input(1).above(d.input(2))).choose(d.grad(), 0.0)),
    ]),
    samples: &["t(2, 3), t(3), t(2, 1)"],
    reference: "np.minimum(np.maximum(self, min), max)",
    ..LIMIT
};

const ALL: Saves = Saves::input(0).union(Saves::input(1)).union(Saves::input(2));
const TWO: Saves = Saves::input(0).union(Saves::input(1));

pub static CLAMP_MIN_TENSOR: Row = Row {
    name: "clamp_min.Tensor",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor min) -> Tensor",
    node: "ClampMinBackward1",
    doc: "Raises elements to those of `min`.

    >>> torch.clamp_min(torch.tensor([-2., 3.]), torch.tensor([0., 4.]))
    tensor([0., 4.])",
    refuses: "maximum_cpu",
    check: None,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, low| if x < low { low } else { x });
        for<S> [f32, f64] (|x, low| if x >= low || x.is_nan() { x } else { low });
        for<S> [Bool] (|x, low| Bool::from(x.get() | low.get()))
    }),
    derivative: Derivative::Formulas(&[
        formula(0, TWO, |d| d.input(0).at_least(d.input(1)).choose(d.grad(), 0.0)),
        formula(1, TWO, |d| d.input(1).above(d.input(0)).choose(d.grad(), 0.0)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(3)", "t(2, 3), t()"],
    reference: "np.maximum(self, min)",
    ..LIMIT
};

pub static CLAMP_MAX_TENSOR: Row = Row {
    name: "clamp_max.Tensor",
    variants: Variants::ALL,
    signature: "(Tensor self, Tensor max) -> Tensor",
    node: "ClampMaxBackward1",
    doc: "Lowers elements to those of `max`.

    >>> torch.clamp_max(torch.tensor([-2., 3.]), torch.tensor([0., 4.]))
    tensor([-2.,  3.])",
    refuses: "minimum_cpu",
    check: None,
    run: common(tiles! {
        for<S> [u8, i8, i16, i32, i64] (|x, high| if x > high { high } else { x });
        for<S> [f32, f64] (|x, high| if x <= high || x.is_nan() { x } else { high });
        for<S> [Bool] (|x, high| Bool::from(x.get() & high.get()))
    }),
    derivative: Derivative::Formulas(&[
        formula(0, TWO, |d| d.input(0).at_most(d.input(1)).choose(d.grad(), 0.0)),
        formula(1, TWO, |d| d.input(1).below(d.input(0)).choose(d.grad(), 0.0)),
    ]),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(3)", "t(2, 3), t()"],
    reference: "np.minimum(self, max)",
    ..LIMIT
};
