//! Rounding.

use rushlight_core::Error;
use rushlight_cpu::loops;
use rushlight_dispatch::operator::{
    DTypes, Derivative, Implementation, Operator, Out, Saves, Sparse, Variants, formula, operator,
};
use rushlight_dispatch::value::Value;

use super::numbers::Real;
use super::{UNARY, common, no_complex};

const FLAT: Derivative = Derivative::Formulas(&[formula(UNARY::INPUT, Saves::NOTHING, |d| d.grad().zeros_like())]);

#[operator]
pub static FLOOR: Operator = Operator {
    name: "floor",
    doc: "The greatest integer that is not above each element.

    >>> torch.floor(torch.tensor([1.5, -1.5]))
    tensor([ 1., -2.])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    sparse: Sparse::ZeroPreserving,
    implementation: common(
        loops! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.floor()) },
    ),
    check: Some(|args| no_complex(args, || Error::not_implemented("floor is not supported for complex inputs"))),
    kernel_name: "floor_vml_cpu",
    derivative: FLAT,
    reference: "np.floor(self)",
    ..UNARY
};

#[operator]
pub static CEIL: Operator = Operator {
    name: "ceil",
    doc: "The smallest integer that is not below each element.

    >>> torch.ceil(torch.tensor([1.5, -1.5]))
    tensor([ 2., -1.])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    sparse: Sparse::ZeroPreserving,
    implementation: common(
        loops! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.ceil()) },
    ),
    check: Some(|args| no_complex(args, || Error::not_implemented("ceil is not supported for complex inputs"))),
    kernel_name: "ceil_vml_cpu",
    derivative: FLAT,
    reference: "np.ceil(self)",
    ..UNARY
};

#[operator]
pub static TRUNC: Operator = Operator {
    name: "trunc",
    aliases: &["fix"],
    doc: "Each element rounded towards zero.

    >>> torch.trunc(torch.tensor([1.5, -1.5]))
    tensor([ 1., -1.])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    sparse: Sparse::ZeroPreserving,
    implementation: common(
        loops! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.trunc()) },
    ),
    check: Some(|args| no_complex(args, || Error::not_implemented("trunc is not supported for complex inputs"))),
    kernel_name: "trunc_vml_cpu",
    derivative: FLAT,
    reference: "np.trunc(self)",
    ..UNARY
};

#[operator]
pub static FRAC: Operator = Operator {
    name: "frac",
    doc: "The fractional part of each element, with its sign.

    >>> torch.frac(torch.tensor([1.5, -1.5]))
    tensor([ 0.5000, -0.5000])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::FLOATS,
    sparse: Sparse::ZeroPreserving,
    implementation: common(loops! { for<S> [f32, f64] (|x| x - x.trunc()) }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad())]),
    reference: "np.subtract(self, np.trunc(self))",
    ..UNARY
};

#[operator]
pub static ROUND: Operator = Operator {
    name: "round",
    doc: "Each element rounded to the nearest integer, halves to the even one; with `decimals` to that many digits after the decimal
point, or before it if negative.

    >>> torch.round(torch.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::REAL.union(DTypes::WIDE),
    sparse: Sparse::ZeroPreserving,
    implementation: common(loops! { for<S> [u8, i8, i16, i32, i64, u16, u32, u64] (|x| x); for<S> [f32, f64] (|x| x.even()) }),
    kernel_name: "round_vml_cpu",
    derivative: FLAT,
    reference: "np.round(self)",
    ..UNARY
};

const TO_DECIMALS: Operator = Operator {
    dtypes: DTypes::FLOATS,
    implementation: Implementation::Delegate(|mut args| {
        let decimals = args.int(ROUND_DECIMALS::DECIMALS)?;
        if decimals == 0 {
            let dtype = args.tensor(ROUND_DECIMALS::INPUT)?.dtype();
            if !dtype.is_floating() {
                return Err(Error::unsupported("round_vml_cpu", dtype));
            }
            args.values.truncate(1);
            args.op = &ROUND;
            return Ok(args);
        }
        args.op = if decimals > 0 { &ROUND_AFTER } else { &ROUND_BEFORE };
        args.set(ROUND_AFTER::TEN, Value::Float(10f64.powi(decimals.unsigned_abs().min(400) as i32)));
        Ok(args)
    }),
    derivative: Derivative::CompositeImplicit,
    errors: &[("i(5, 3), decimals=1", "NotImplementedError", "\"round_cpu\" not implemented for 'Long'")],
    samples: &["t(2, 3), decimals=2", "t(2, 3), decimals=0", "t(3), decimals=-1"],
    reference: "np.round(self, decimals)",
    ..Operator::BASE
};

#[operator]
pub static ROUND_DECIMALS: Operator = Operator {
    name: "round.decimals",
    variants: Variants::ALL,
    signature: "(Tensor self, *, int decimals) -> Tensor",
    doc: "Each element rounded to `decimals` digits after the decimal point.

    >>> torch.round(torch.tensor([0.1234567]), decimals=3)
    tensor([0.1230])",
    ..TO_DECIMALS
};

/// Unlike `round`, it refuses integers.
#[operator]
pub static SPECIAL_ROUND: Operator = Operator {
    name: "round",
    namespace: "special",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor self, *, int decimals=0) -> Tensor",
    doc: "Each element rounded to `decimals` digits after the decimal point, or before it if negative.

    >>> torch.special.round(torch.tensor([0.5, 1.5, 2.7]))
    tensor([0., 2., 3.])",
    ..TO_DECIMALS
};

/// Rounding of floats to a power of ten: multiplied before and divided afterwards, or the reverse.
#[operator]
const SCALED: Operator = Operator {
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float ten) -> Tensor",
    dtypes: DTypes::FLOATS,
    kernel_name: "round_cpu",
    derivative: FLAT,
    node: "RoundBackward1",
    samples: &["t(2, 3), 10."],
    ..Operator::BASE
};

#[operator]
pub static ROUND_AFTER: Operator = Operator {
    name: "_round_after",
    doc: "Each element rounded to a multiple of `1 / ten`.",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! { for<S> [f32, f64] (|x; ten| (x * ten).even() / ten) }),
    reference: "np.round(self * ten) / ten",
    ..SCALED
};

#[operator]
pub static ROUND_BEFORE: Operator = Operator {
    name: "_round_before",
    doc: "Each element rounded to a multiple of `ten`.",
    out: Out::COMPUTE_DTYPE,
    implementation: common(loops! { for<S> [f32, f64] (|x; ten| (x / ten).even() * ten) }),
    reference: "np.round(self / ten) * ten",
    ..SCALED
};
