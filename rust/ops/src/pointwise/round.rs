//! Rounding.

use rushlight_core::Error;
use rushlight_cpu::tiles;

use super::numbers::Real;
use super::{UNARY, common, no_complex};
use crate::derive::{Derivative, Saves, formula};
use crate::row::{DTypes, Out, Row, Run, Variants};

const FLAT: Derivative = Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().zeros_like())]);

pub static FLOOR: Row = Row {
    name: "floor",
    doc: "The greatest integer that is not above each element.

    >>> torch.floor(torch.tensor([1.5, -1.5]))
    tensor([ 1., -2.])",
    out: Out::FOUND,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.floor()) }),
    check: Some(|args| no_complex(args, || Error::not_implemented("floor is not supported for complex inputs"))),
    refuses: "floor_vml_cpu",
    cuda: Some("floor(self)"),
    derivative: FLAT,
    reference: "np.floor(self)",
    ..UNARY
};

pub static CEIL: Row = Row {
    name: "ceil",
    doc: "The smallest integer that is not below each element.

    >>> torch.ceil(torch.tensor([1.5, -1.5]))
    tensor([ 2., -1.])",
    out: Out::FOUND,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.ceil()) }),
    check: Some(|args| no_complex(args, || Error::not_implemented("ceil is not supported for complex inputs"))),
    refuses: "ceil_vml_cpu",
    cuda: Some("ceil(self)"),
    derivative: FLAT,
    reference: "np.ceil(self)",
    ..UNARY
};

pub static TRUNC: Row = Row {
    name: "trunc",
    aliases: &["fix"],
    doc: "Each element rounded towards zero.

    >>> torch.trunc(torch.tensor([1.5, -1.5]))
    tensor([ 1., -1.])",
    out: Out::FOUND,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.trunc()) }),
    check: Some(|args| no_complex(args, || Error::not_implemented("trunc is not supported for complex inputs"))),
    refuses: "trunc_vml_cpu",
    cuda: Some("trunc(self)"),
    derivative: FLAT,
    reference: "np.trunc(self)",
    ..UNARY
};

pub static FRAC: Row = Row {
    name: "frac",
    doc: "What is behind the point of each element, with its sign.

    >>> torch.frac(torch.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])",
    out: Out::FOUND,
    dtypes: DTypes::FLOATS,
    run: common(tiles! { for<S> [f32, f64] (|x| x - x.trunc()) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    reference: "np.subtract(self, np.trunc(self))",
    ..UNARY
};

pub static ROUND: Row = Row {
    name: "round",
    aliases: &["special.round"],
    doc: "Each element rounded to the nearest integer, halves to the even one; with `decimals` to so many digits behind the
point, or before it if negative.

    >>> torch.round(torch.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.])",
    out: Out::FOUND,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.even()) }),
    refuses: "round_vml_cpu",
    derivative: FLAT,
    reference: "np.round(self)",
    ..UNARY
};

pub static ROUND_DECIMALS: Row = Row {
    name: "round.decimals",
    aliases: &["special.round"],
    variants: Variants::ALL,
    signature: "(Tensor self, *, int decimals) -> Tensor",
    doc: "Each element rounded to `decimals` digits behind the point.

    >>> torch.round(torch.tensor([0.1234567]), decimals=3)
    tensor([0.1230])",
    dtypes: DTypes::FLOATS,
    run: Run::Defer(|mut args| {
        let decimals = args.int(1)?;
        if decimals == 0 {
            let dtype = args.tensor(0)?.dtype();
            if !dtype.is_floating() {
                return Err(Error::unsupported("round_vml_cpu", dtype));
            }
            args.values.truncate(1);
            args.row = &ROUND;
            return Ok(args);
        }
        args.row = if decimals > 0 { &ROUND_AFTER } else { &ROUND_BEFORE };
        args.values[1] = crate::value::Value::Float(10f64.powi(decimals.unsigned_abs().min(400) as i32));
        Ok(args)
    }),
    derivative: Derivative::Composed,
    errors: &[("i(5, 3), decimals=1", "NotImplementedError", "\"round_cpu\" not implemented for 'Long'")],
    samples: &["t(2, 3), decimals=2", "t(2, 3), decimals=0", "t(3), decimals=-1"],
    reference: "np.round(self, decimals)",
    ..Row::BASE
};

/// Rounding of floats by a power of ten, multiplied before and divided afterwards, or the other way round.
const SCALED: Row = Row {
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float ten) -> Tensor",
    dtypes: DTypes::FLOATS,
    refuses: "round_cpu",
    derivative: FLAT,
    node: "RoundBackward1",
    samples: &["t(2, 3), 10."],
    ..Row::BASE
};

pub static ROUND_AFTER: Row = Row {
    name: "_round_after",
    doc: "Each element rounded to a multiple of `1 / ten`.",
    out: Out::FOUND,
    run: common(tiles! { for<S> [f32, f64] (|x; ten| (x * ten).even() / ten) }),
    reference: "np.round(self * ten) / ten",
    ..SCALED
};

pub static ROUND_BEFORE: Row = Row {
    name: "_round_before",
    doc: "Each element rounded to a multiple of `ten`.",
    out: Out::FOUND,
    run: common(tiles! { for<S> [f32, f64] (|x; ten| (x / ten).even() * ten) }),
    reference: "np.round(self / ten) * ten",
    ..SCALED
};
