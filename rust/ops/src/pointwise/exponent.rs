//! Units of angles, powers of two, neighbouring floating-point numbers, and a sum of gamma functions.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use std::f64::consts::PI;

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, default_dtype, f16_};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::tiles;

use super::special::LGAMMA;
use super::{BINARY, UNARY, common, float, no_complex};
use crate::convert::to_dtype;
use crate::create::range::ARANGE_START;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::op;
use crate::reduce::sum::SUM_DIM;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::squeeze::UNSQUEEZE;

const REAL: DTypes = DTypes::ALL.without(DTypes::COMPLEX);

macro_rules! angles {
    ($($row:ident $name:literal $factor:expr, $doc:literal;)*) => {$(
        pub static $row: Row = Row {
            name: $name,
            doc: $doc,
            dtypes: REAL,
            check: Some(|args| {
                no_complex(args, || Error::runtime(concat!($name, " is not supported for complex tensors.")))
            }),
            run: float(tiles! { for<S> [f32, f64] (|x| x * ($factor) as T) }),
            derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad() * ($factor))]),
            reference: concat!("np.", $name, "(self)"),
            ..UNARY
        };
    )*};
}

angles! {
    DEG2RAD "deg2rad" PI / 180.0, "Degrees as radians.

    >>> torch.deg2rad(torch.tensor([0., 180.]))
    tensor([0.0000, 3.1416])";
    RAD2DEG "rad2deg" 180.0 / PI, "Radians as degrees.

    >>> torch.rad2deg(torch.tensor([0., 1.]))
    tensor([ 0.0000, 57.2958])";
}

pub static LDEXP: Row = Row {
    name: "ldexp",
    node: "LdexpBackward0",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "`self * 2 ** other`.

    >>> torch.ldexp(torch.tensor([1.]), torch.tensor([1, 2]))
    tensor([2., 4.])",
    dtypes: DTypes::ALL,
    traits: Traits::BROADCASTS,
    run: Run::Compose(|args| {
        let (own, other) = (args.tensor(0)?, args.tensor(1)?);
        let two_to = |power: &Tensor| Expr::from(2.0).call(&super::power::POW_TENSOR, [power.into()]);
        if other.dtype().is_differentiable() {
            return Ok(Output::Tensor((Expr::from(own) * two_to(other)).done()?));
        }
        // Whole powers change no digits. In double precision, and in two steps, none is out of range whose product is not.
        let dtype = if own.dtype().is_differentiable() { own.dtype() } else { default_dtype() };
        let wide = if dtype.is_complex() { DType::C128 } else { DType::F64 };
        let limited = |power: &Tensor| -> Result<Tensor> { op!(super::clamp::CLAMP, power, -1000.0, 1000.0) };
        let power = to_dtype(other, DType::F64)?;
        let first = limited(&power)?;
        let second = limited(&(Expr::from(&power) - Expr::from(&first)).done()?)?;
        let product = Expr::from(&to_dtype(own, wide)?) * two_to(&first) * two_to(&second);
        to_dtype(&product.done()?, dtype).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), unit(2, 3)", "t(5, 1, 4), unit(3, 1)", "t(2, 3), i(4, 2, 3)"],
    reference: "self * 2.0 ** other",
    ..BINARY
};

pub static NEXTAFTER: Row = Row {
    name: "nextafter",
    doc: "The next floating-point number after each element on the way to `other`.

    >>> torch.nextafter(torch.tensor([0.]), torch.tensor([1.])) > 0
    tensor([True])",
    dtypes: DTypes::FLOATS,
    run: common(tiles! {
        for<S> [f16_, bf16_] (|x, y| if x.is_nan() || y.is_nan() {
            T::NAN
        } else if x == y {
            y
        } else {
            T::from_bits(next_half(x.to_bits(), x.to_f32(), y.to_f32()))
        });
        for<S> [f32, f64] (|x, y| if x.is_nan() || y.is_nan() {
            x + y
        } else if x == y {
            y
        } else if x < y {
            x.next_up()
        } else {
            x.next_down()
        })
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| d.input(0).equals(d.input(1)).choose(0.0, d.grad())),
        formula(1, Saves::NOTHING, |d| d.grad() * 0.0),
    ]),
    reference: "np.nextafter(self, other)",
    ..BINARY
};

/// The bits of the half-precision number after `x` on the way to `y`, which differs.
#[inline]
fn next_half(bits: u16, x: f32, y: f32) -> u16 {
    match x == 0.0 {
        true => u16::from(y < 0.0) << 15 | 1,
        // The bits of a number grow with its magnitude.
        false if (x < y) == (x > 0.0) => bits + 1,
        false => bits - 1,
    }
}

pub static MVLGAMMA: Row = Row {
    name: "mvlgamma",
    node: "MvlgammaBackward0",
    aliases: &["special.multigammaln"],
    signature: "(Tensor self, int p) -> Tensor",
    variants: Variants::ALL,
    doc: "The logarithm of the gamma function of dimension `p`.

    out = p * (p - 1) / 4 * log(pi) + sum(lgamma(self - i / 2) for i in range(p))

    >>> torch.mvlgamma(torch.tensor([2.]), 2)
    tensor([0.4516])",
    dtypes: REAL,
    run: Run::Compose(|args| {
        let (own, p) = (args.tensor(0)?, args.int(1)?);
        if p < 1 {
            return Err(Error::runtime("p has to be greater than or equal to 1"));
        }
        let own = match own.dtype() {
            dtype if dtype.is_complex() => return Err(Error::unsupported("arange_cpu", dtype)),
            dtype if dtype.is_floating() => own.clone(),
            _ => crate::convert::to_dtype(own, rushlight_core::dtype::default_dtype())?,
        };
        // All terms at once: of more than memory holds the allocation says so.
        let (dtype, device, p) = (own.dtype(), own.device(), p as f64);
        let range = [Scalar::ZERO, Scalar::Float(p * -0.5), Scalar::Float(-0.5)].map(Value::Scalar);
        let options = [Value::DType(dtype), Value::None, Value::Device(device), Value::None, Value::None];
        let values = range.into_iter().chain(options).collect();
        let steps = crate::call::call(Args { row: &ARANGE_START, values })?.into_tensor()?;
        let terms = (Expr::from(&own).call(&UNSQUEEZE, [Value::Int(-1)]) + steps).call(&LGAMMA, []);
        let sum = terms.call(&SUM_DIM, [Ints::from_slice(&[-1]).into()]);
        (sum + p * (p - 1.0) / 4.0 * PI.ln()).done().map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["pos(2, 3) + 3, 1", "pos(3) + 3, 3"],
    errors: &[("t(2), 0", "RuntimeError", "p has to be greater than or equal to 1")],
    ..UNARY
};
