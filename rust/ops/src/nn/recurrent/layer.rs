//! One layer in one direction, prepared for its steps.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;

use super::gates::{GRU_GATES, LSTM_GATES};
use super::steps::{Kind, State, Weights};
use crate::linalg::addmm::ADDMM;
use crate::linalg::matrix::MM;
use crate::nn::linear::LINEAR;
use crate::pointwise::activation::RELU;
use crate::pointwise::arith::ADD;
use crate::pointwise::hyperbolic::TANH;
use crate::view::transpose::TRANSPOSE;

/// A layer whose products with the input are computed, and whose weights are in the layout of the steps.
pub(super) struct Layer {
    pub kind: Kind,
    /// The hidden state's weight, transposed.
    pub hidden: Tensor,
    /// The hidden state's bias, if it cannot be added to the input's.
    pub hidden_bias: Option<Tensor>,
    pub projection: Option<Tensor>,
}

fn turned(tensor: &Tensor) -> Result<Tensor> {
    op!(TRANSPOSE, tensor, 0i64, 1i64)
}

impl Layer {
    /// The layer, and for all rows of the input the start values of its steps.
    pub fn new(kind: Kind, input: &Tensor, weights: &Weights) -> Result<(Layer, Tensor)> {
        // A gated unit multiplies the hidden state's part, bias included, by its reset gate.
        let keeps_hidden_bias = kind == Kind::Gru;
        let bias = match weights.biases {
            None => None,
            Some([input, _]) if keeps_hidden_bias => Some(input.clone()),
            Some([input, hidden]) => Some(op!(ADD, input, hidden)?),
        };
        let products = op!(LINEAR, input, weights.input, bias.as_ref())?;
        let hidden_bias = weights.biases.filter(|_| keeps_hidden_bias).map(|[_, hidden]| hidden);
        let layer = Layer {
            projection: weights.projection.map(turned).transpose()?,
            ..Layer::of_hidden(kind, weights.hidden, hidden_bias)?
        };
        Ok((layer, products))
    }

    /// The layer without a projection, of the weight and the bias of its hidden state.
    pub fn of_hidden(kind: Kind, weight: &Tensor, bias: Option<&Tensor>) -> Result<Layer> {
        Ok(Layer { kind, hidden: turned(weight)?, hidden_bias: bias.cloned(), projection: None })
    }

    /// The state after a step, from the products of the input and the state before.
    pub fn step(&self, input: &Tensor, state: &State) -> Result<State> {
        self.next(input, &self.sums(input, state)?, state)
    }

    /// The sums of the gates before they are activated; of a gated unit the hidden state's part, to which the input's is not added.
    pub fn sums(&self, input: &Tensor, state: &State) -> Result<Tensor> {
        match (self.kind, &self.hidden_bias) {
            (Kind::Gru, Some(bias)) => op!(ADDMM, bias, &state.hidden, &self.hidden),
            (Kind::Gru, None) => op!(MM, &state.hidden, &self.hidden),
            _ => op!(ADDMM, input, &state.hidden, &self.hidden),
        }
    }

    /// The state after a step with these sums.
    pub fn next(&self, input: &Tensor, sums: &Tensor, state: &State) -> Result<State> {
        let hidden = match self.kind {
            Kind::Tanh => op!(TANH, sums)?,
            Kind::Relu => op!(RELU, sums)?,
            Kind::Gru => op!(GRU_GATES, input, sums, &state.hidden)?,
            Kind::Lstm => {
                let both = LSTM_GATES.call([sums.into(), state.cell.as_ref().into()])?.into_tensors();
                let [hidden, cell] =
                    <[Tensor; 2]>::try_from(both).map_err(|_| Error::runtime("a step without results"))?;
                let hidden = match &self.projection {
                    Some(projection) => op!(MM, &hidden, projection)?,
                    None => hidden,
                };
                return Ok(State { hidden, cell: Some(cell) });
            }
        };
        Ok(State { hidden, cell: None })
    }
}
