//! One step of a recurrent layer as torch composes it, an operator for each part. Layers take it for operands that the fused
//! forms do not take, whose results and errors are then torch's.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::can_cast;
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::value::Value;
use rushlight_dispatch::variants::wrong_shape;

use super::steps::{Kind, State, Weights};
use crate::convert::to_dtype;
use crate::linalg::matrix::matmul;
use crate::nn::linear::LINEAR;
use crate::pointwise::activation::RELU;
use crate::pointwise::arith::{ADD, MUL, SUB};
use crate::pointwise::hyperbolic::TANH;
use crate::pointwise::special::SIGMOID;
use crate::view::split::CHUNK;
use crate::view::transpose::across;

/// The state after a step whose products with the input's weights are `input`.
pub(super) fn step(kind: Kind, weights: &Weights, input: &Tensor, state: &State) -> Result<State> {
    let products = op!(LINEAR, &state.hidden, weights.hidden, weights.biases.map(|[_, hidden]| hidden))?;
    let hidden = match kind {
        Kind::Tanh => op!(TANH, &onto(&ADD, products, input)?)?,
        Kind::Relu => op!(RELU, &onto(&ADD, products, input)?)?,
        Kind::Gru => {
            let ([xr, xz, xn], [hr, hz, hn]) = (parts(input)?, parts(&products)?);
            let r = op!(SIGMOID, &onto(&ADD, hr, &xr)?)?;
            let z = op!(SIGMOID, &onto(&ADD, hz, &xz)?)?;
            let n = op!(TANH, &op!(ADD, &xn, &onto(&MUL, hn, &r)?)?)?;
            onto(&ADD, onto(&MUL, op!(SUB, &state.hidden, &n)?, &z)?, &n)?
        }
        Kind::Lstm => {
            let Some(cell) = &state.cell else { return Err(Error::runtime("an LSTM needs two states")) };
            let [i, f, g, o] = parts(&onto(&ADD, products, input)?)?;
            let entered = op!(MUL, &op!(SIGMOID, &i)?, &op!(TANH, &g)?)?;
            let cell = onto(&ADD, op!(MUL, &op!(SIGMOID, &f)?, cell)?, &entered)?;
            let hidden = op!(MUL, &op!(SIGMOID, &o)?, &op!(TANH, &cell)?)?;
            let hidden = match weights.projection {
                Some(projection) => matmul(&hidden, &across(projection)?)?,
                None => hidden,
            };
            return Ok(State { hidden, cell: Some(cell) });
        }
    };
    Ok(State { hidden, cell: None })
}

/// The gates in a tensor's second dimension.
fn parts<const N: usize>(gates: &Tensor) -> Result<[Tensor; N]> {
    let parts = CHUNK.call([gates.into(), (N as i64).into(), 1i64.into()])?.into_tensors();
    <[Tensor; N]>::try_from(parts).map_err(|parts| Error::runtime(format!("{N} gates, but got {}", parts.len())))
}

/// A result that torch writes over its first operand, which therefore decides the shape and the dtype.
fn onto(op: &'static Operator, first: Tensor, other: &Tensor) -> Result<Tensor> {
    let result = op.tensor([Value::from(&first), other.into()])?;
    if result.sizes() != first.sizes() {
        return Err(wrong_shape(first.sizes(), result.sizes()));
    }
    if result.dtype() == first.dtype() {
        return Ok(result);
    }
    let (from, to) = (result.dtype(), first.dtype());
    if !can_cast(from, to) {
        let (from, to) = (from.display_name(), to.display_name());
        return Err(Error::runtime(format!("result type {from} can't be cast to the desired output type {to}")));
    }
    to_dtype(&result, to)
}
