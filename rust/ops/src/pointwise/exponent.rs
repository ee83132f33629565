//! Conversion of angles, powers of two, adjacent floating-point numbers, and a sum of gamma functions.

#![allow(clippy::useless_conversion, reason = "expressions are pasted into loops of several types")]

use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Out, Saves, Sparse, Tags,
    Variants, formula, operator,
};
use std::f64::consts::PI;

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{bf16_, default_dtype, f16_};
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::loops;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::value::{Ints, Operand, Output, Value};
use rushlight_dispatch::{op, promote};

use super::special::LGAMMA;
use super::{BINARY, UNARY, common, float, keeping_strides, no_complex};
use crate::convert::to_dtype;
use crate::create::range::ARANGE_START;
use crate::expr_ext::ExprExt;
use crate::reduce::sum::SUM_DIM;
use crate::view::squeeze::UNSQUEEZE;

const REAL: DTypes = DTypes::COMPUTED.without(DTypes::COMPLEX);

macro_rules! angles {
    ($($op:ident $name:literal $factor:expr, $doc:literal;)*) => {$(
        #[operator]
        pub static $op: Operator = Operator {
            name: $name,
            doc: $doc,
            dtypes: REAL,
            sparse: Sparse::ZeroPreserving,
            check: Some(|args| {
                no_complex(args, || Error::runtime(concat!($name, " is not supported for complex tensors.")))
            }),
            implementation: keeping_strides(DTypes::ALL, float(loops! { for<S> [f32, f64] (|x| x * ($factor) as T) })),
            derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad() * ($factor))]),
            reference: concat!("np.", $name, "(self)"),
            ..UNARY
        };
    )*};
}

angles! {
    DEG2RAD "deg2rad" PI / 180.0, "Converts degrees to radians.

    >>> torch.deg2rad(torch.tensor([0., 180.]))
    tensor([0.0000, 3.1416])";
    RAD2DEG "rad2deg" 180.0 / PI, "Converts radians to degrees.

    >>> torch.rad2deg(torch.tensor([0., 1.]))
    tensor([ 0.0000, 57.2958])";
}

/// The dtype of a result that is a float for integers.
fn float_of(dtype: DType) -> DType {
    if dtype.is_differentiable() { dtype } else { default_dtype() }
}

#[operator]
pub static LDEXP: Operator = Operator {
    name: "ldexp",
    node: "LdexpBackward0",
    variants: Variants::ALL.union(Variants::INPLACE_FUNCTION),
    doc: "`self * 2 ** other`.

    >>> torch.ldexp(torch.tensor([1.]), torch.tensor([1, 2]))
    tensor([2., 4.])",
    in_place_example: ">>> torch.tensor([1., 1.]).ldexp_(torch.tensor([1, 2]))
    tensor([2., 4.])",
    dtypes: DTypes::COMPUTED,
    out: Out::new(Accepts::Cast, &["ldexp can't be cast to the desired output type {Out}"]).known(|args| {
        let tensors = [args.tensor(INPUT).ok()?, args.tensor(OTHER).ok()?];
        let common = promote::common(&tensors.map(Operand::Tensor).into_iter().collect(), &[]);
        Some(common.map_or_else(|_| default_dtype(), float_of))
    }),
    tags: Tags::BROADCASTS,
    batch_rule: BatchRule::Broadcast,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        let two_to = |power: &Tensor| Expr::from(2.0).call(&super::power::POW_TENSOR, [power.into()]);
        if other.dtype().is_differentiable() {
            return Ok(Output::Tensor((Expr::from(input) * two_to(other)).done()?));
        }
        // Multiplying by an integral power changes no digits. In double precision, and in two steps, no intermediate
        // value overflows unless the product does.
        let dtype = if input.dtype().is_differentiable() { input.dtype() } else { default_dtype() };
        let wide = if dtype.is_complex() { DType::C128 } else { DType::F64 };
        let limited = |power: &Tensor| -> Result<Tensor> { op!(super::clamp::CLAMP, power, -1000.0, 1000.0) };
        let power = to_dtype(other, DType::F64)?;
        let first = limited(&power)?;
        let second = limited(&(Expr::from(&power) - Expr::from(&first)).done()?)?;
        let product = Expr::from(&to_dtype(input, wide)?) * two_to(&first) * two_to(&second);
        to_dtype(&product.done()?, dtype).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(OTHER), |d| d.grad().with_tensor(&LDEXP, d.input(OTHER).conj())),
        formula(OTHER, Saves::RESULT, |d| d.grad() * d.result().conj() * std::f64::consts::LN_2),
    ]),
    samples: &["t(2, 3), unit(2, 3)", "t(5, 1, 4), unit(3, 1)", "t(2, 3), i(4, 2, 3)"],
    reference: "self * 2.0 ** other",
    ..BINARY
};

#[operator]
pub static NEXTAFTER: Operator = Operator {
    name: "nextafter",
    doc: "The next floating-point number after each element in the direction of `other`.

    >>> torch.nextafter(torch.tensor([0.]), torch.tensor([1.])) > 0
    tensor([True])",
    dtypes: DTypes::FLOATS,
    implementation: common(loops! {
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
        formula(INPUT, Saves::input(INPUT).union(Saves::input(OTHER)), |d| {
            d.input(INPUT).equals(d.input(OTHER)).choose(0.0, d.grad())
        }),
        formula(OTHER, Saves::NOTHING, |d| d.grad() * 0.0),
    ]),
    reference: "np.nextafter(self, other)",
    ..BINARY
};

/// The bits of the half-precision number after `x` in the direction of `y`, which differs from it.
#[inline]
fn next_half(bits: u16, x: f32, y: f32) -> u16 {
    match x == 0.0 {
        true => u16::from(y < 0.0) << 15 | 1,
        // The bits of a number increase with its magnitude.
        false if (x < y) == (x > 0.0) => bits + 1,
        false => bits - 1,
    }
}

#[operator]
pub static MVLGAMMA: Operator = Operator {
    name: "mvlgamma",
    node: "MvlgammaBackward0",
    aliases: &["special.multigammaln"],
    signature: "(Tensor self, int p) -> Tensor",
    variants: Variants::ALL,
    out: Out::new(Accepts::Cast, &["mvlgamma: result type {Own} can't be cast to the desired output type {Result}"])
        .known(|args| Some(float_of(args.tensor(INPUT).ok()?.dtype()))),
    doc: "The logarithm of the gamma function of dimension `p`.

    out = p * (p - 1) / 4 * log(pi) + sum(lgamma(self - i / 2) for i in range(p))

    >>> torch.mvlgamma(torch.tensor([2.]), 2)
    tensor([0.4516])",
    dtypes: REAL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, p) = (args.tensor(INPUT)?, args.int(P)?);
        if input.dtype() == DType::Bool {
            return Err(Error::runtime("The input tensor may not be a boolean tensor."));
        }
        if p < 1 {
            return Err(Error::runtime("p has to be greater than or equal to 1"));
        }
        let input = match input.dtype() {
            dtype if dtype.is_complex() => return Err(Error::unsupported("arange_cpu", dtype)),
            dtype if dtype.is_floating() => input.clone(),
            _ => crate::convert::to_dtype(input, rushlight_core::dtype::default_dtype())?,
        };
        // All terms at once; if they exceed the memory, the allocation returns an error.
        let (dtype, device, p) = (input.dtype(), input.device(), p as f64);
        let range = [Scalar::ZERO, Scalar::Float(p * -0.5), Scalar::Float(-0.5)].map(Value::Scalar);
        let options = [Value::DType(dtype), Value::None, Value::Device(device), Value::None, Value::None];
        let values = range.into_iter().chain(options).collect();
        let steps = Args { op: &ARANGE_START, values }.call()?.into_tensor()?;
        let terms = (Expr::from(&input).call(&UNSQUEEZE, [Value::Int(-1)]) + steps).call(&LGAMMA, []);
        let sum = terms.call(&SUM_DIM, [Ints::from_slice(&[-1]).into()]);
        (sum + p * (p - 1.0) / 4.0 * PI.ln()).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["pos(2, 3) + 3, 1", "pos(3) + 3, 3"],
    errors: &[
        ("t(2), 0", "RuntimeError", "p has to be greater than or equal to 1"),
        ("b(2), 1", "RuntimeError", "The input tensor may not be a boolean tensor."),
    ],
    ..UNARY
};
