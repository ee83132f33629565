//! Runs the layers of a network one after the other, and chooses for each whether an operator for whole sequences runs it, or steps do.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::value::{Ints, Value, sizes_value};

use super::layer::Layer;
use super::lstm_sequence::LSTM_SEQUENCE;
use super::recurrent_sequence::RECURRENT_SEQUENCE;
use super::steps::{Kind, State, Weights, joined, run_packed, run_steps};
use super::{composed, size};
use crate::join::cat::STACK;
use crate::nn::dropout::DROPOUT;
use crate::nn::linear::LINEAR;
use crate::view::RESHAPE;
use crate::view::narrow::{NARROW, sliced};
use crate::view::split::{SPLIT_WITH_SIZES, UNBIND};

/// The arguments shared by all layers.
pub(super) struct Network<'a> {
    pub kind: Kind,
    pub weights: Vec<Weights<'a>>,
    pub layers: usize,
    pub directions: usize,
    pub dropout: f64,
    /// Whether cuDNN gets each layer in a call of its own, as dropout between them needs.
    pub layer_by_layer: bool,
    /// The number of sequences in each step, if they are packed, as it was given.
    pub given_batch_sizes: Option<&'a Tensor>,
    /// The same as numbers, if they fit the input.
    pub batch_sizes: Option<Ints>,
}

impl Network<'_> {
    /// One layer in one direction. Operands that the fast form does not take have the results and the errors of the steps
    /// that torch composes.
    fn run_layer(&self, input: &Tensor, weights: &Weights, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        if self.is_regular(input, weights, first) {
            match self.run_fast(input, weights, first, backwards) {
                Err(error) if error.concerns_operands() => {}
                finished => return finished,
            }
        }
        let products = op!(LINEAR, input, weights.input, weights.biases.map(|[input, _]| input))?;
        let step = |input: &Tensor, state: &State| composed::step(self.kind, weights, input, state);
        let Some(given) = self.given_batch_sizes else {
            return run_steps(&step, UNBIND.call([(&products).into()])?.into_tensors(), first.clone(), backwards);
        };
        let batch_sizes = read_batch_sizes(given)?;
        let rows = |at: usize| {
            let (start, end) = if backwards {
                let after = batch_sizes[at + 1..].iter().fold(0i64, |sum, &n| sum.wrapping_add(n));
                (products.sizes().first().map_or(0, |&rows| rows as i64).wrapping_sub(after), batch_sizes[at])
            } else {
                (batch_sizes[..at].iter().fold(0i64, |sum, &n| sum.wrapping_add(n)), batch_sizes[at])
            };
            let start = if backwards { start.wrapping_sub(end) } else { start };
            op!(NARROW, &products, 0i64, start, end)
        };
        run_packed(&step, &rows, &batch_sizes, first.clone(), backwards)
    }

    /// Whether the operands have one dtype and the dimensions of a layer.
    fn is_regular(&self, input: &Tensor, weights: &Weights, first: &State) -> bool {
        let has = |tensor: &Tensor, rank: usize| {
            tensor.dtype() == input.dtype() && tensor.rank() == rank && !tensor.is_sparse()
        };
        let rank = if self.given_batch_sizes.is_some() { 2 } else { 3 };
        has(input, rank)
            && self.batch_sizes.is_some() == self.given_batch_sizes.is_some()
            && [weights.input, weights.hidden].iter().chain(&weights.projection).all(|weight| has(weight, 2))
            && weights.biases.is_none_or(|biases| biases.iter().all(|bias| has(bias, 1)))
            && has(&first.hidden, 2)
            && first.cell.as_ref().is_none_or(|cell| has(cell, 2))
            && input.sizes()[0] > 0
    }

    /// Whether the operator for whole sequences runs: on GPUs, where it adds the gradients of the weights at once. LSTMs over sequences
    /// of one length have one of their own.
    fn is_recurrent_sequence(&self, weights: &Weights, products: &Tensor, first: &State) -> bool {
        matches!(products.device(), Device::Cuda(_))
            && weights.projection.is_none()
            && (self.kind != Kind::Lstm || self.batch_sizes.is_some())
            && ![products, weights.hidden, &first.hidden]
                .iter()
                .any(|tensor| tensor.is_wrapper() || !tensor.batch_dims().is_empty())
            && first.hidden.numel() > 0
    }

    fn run_recurrent_sequence(
        &self,
        ready: &Layer,
        weights: &Weights,
        products: &Tensor,
        first: &State,
        backwards: bool,
    ) -> Result<(Tensor, State)> {
        let (count, width) = (first.hidden.sizes()[0], first.hidden.sizes()[1]);
        let flat = op!(RESHAPE, products, sizes_value(&[-1, self.kind.gates() * width]))?;
        let batch_sizes = match &self.batch_sizes {
            Some(batch_sizes) => batch_sizes.clone(),
            None => Ints::from_elem(count as i64, products.sizes()[0] as usize),
        };
        let results = RECURRENT_SEQUENCE.call([
            (&flat).into(),
            (&first.hidden).into(),
            first.cell.as_ref().into(),
            weights.hidden.into(),
            ready.hidden_bias.as_ref().into(),
            batch_sizes.clone().into(),
            self.kind.name().into(),
            backwards.into(),
        ])?;
        let [outputs, cells, _] = <[Tensor; 3]>::try_from(results.into_tensors())
            .map_err(|_| Error::runtime("a sequence without results"))?;
        let hidden = last(&outputs, &batch_sizes, backwards)?;
        let cell = first.cell.as_ref().map(|_| last(&cells, &batch_sizes, backwards)).transpose()?;
        let outputs = match self.batch_sizes {
            Some(_) => outputs,
            None => op!(RESHAPE, &outputs, sizes_value(&[-1, count, width]))?,
        };
        Ok((outputs, State { hidden, cell }))
    }

    fn run_fast(&self, input: &Tensor, weights: &Weights, first: &State, backwards: bool) -> Result<(Tensor, State)> {
        let (ready, products) = Layer::new(self.kind, input, weights)?;
        let step = |input: &Tensor, state: &State| ready.step(input, state);
        if self.is_recurrent_sequence(weights, &products, first) {
            return self.run_recurrent_sequence(&ready, weights, &products, first, backwards);
        }
        match &self.batch_sizes {
            None => match run_fused(weights, &products, first, backwards)? {
                Some(found) => Ok(found),
                None => run_steps(&step, UNBIND.call([(&products).into()])?.into_tensors(), first.clone(), backwards),
            },
            Some(batch_sizes) => {
                let parts = SPLIT_WITH_SIZES.call([(&products).into(), batch_sizes.clone().into()])?.into_tensors();
                let rows = |at: usize| {
                    parts.get(at).cloned().ok_or_else(|| Error::runtime("fewer steps than numbers of sequences"))
                };
                run_packed(&step, &rows, batch_sizes, first.clone(), backwards)
            }
        }
    }

    /// The last layer's outputs, and the last states of all layers and directions, stacked: hidden states, and cells if there are some.
    pub(super) fn results(&self, input: &Tensor, first: &[State]) -> Result<Vec<Tensor>> {
        let (output, last) = self.run(input, first)?;
        let (hidden, cells): (Vec<_>, Vec<_>) = last.into_iter().map(|state| (state.hidden, state.cell)).unzip();
        let mut results = vec![output, STACK.tensor([Value::from(hidden), 0i64.into()])?];
        if self.kind == Kind::Lstm {
            let cells: Vec<Tensor> = cells.into_iter().flatten().collect();
            results.push(STACK.tensor([Value::from(cells), 0i64.into()])?);
        }
        Ok(results)
    }

    /// The last layer's outputs, and the last states of all layers and directions.
    fn run(&self, input: &Tensor, first: &[State]) -> Result<(Tensor, Vec<State>)> {
        if first.len() < self.layers * self.directions {
            return Err(Error::runtime(format!(
                "Expected hidden states of {} layers and directions, got {}",
                self.layers * self.directions,
                first.len()
            )));
        }
        let mut input = input.clone();
        let mut last = Vec::with_capacity(first.len());
        for layer in 0..self.layers {
            let mut outputs = Vec::with_capacity(self.directions);
            for direction in 0..self.directions {
                let at = layer * self.directions + direction;
                let (output, state) = self.run_layer(&input, &self.weights[at], &first[at], direction == 1)?;
                outputs.push(output);
                last.push(state);
            }
            input = joined(outputs, -1)?;
            if self.dropout != 0.0 && layer + 1 < self.layers {
                input = op!(DROPOUT, &input, self.dropout, true)?;
            }
        }
        Ok((input, last))
    }
}

/// All steps at once, if a fused kernel supports them; operands that do not match are left to the steps, which
/// raise the error.
fn run_fused(weights: &Weights, products: &Tensor, first: &State, backwards: bool) -> Result<Option<(Tensor, State)>> {
    let State { hidden, cell: Some(cell) } = first else { return Ok(None) };
    let fits = weights.projection.is_none()
        && products.rank() == 3
        && hidden.sizes() == cell.sizes()
        && [hidden, cell, weights.hidden].iter().all(|tensor| tensor.dtype() == products.dtype() && tensor.rank() == 2)
        && hidden.sizes()[0] == products.sizes()[1]
        && weights.hidden.sizes()[..] == [products.sizes()[2], hidden.sizes()[1]]
        && products.sizes()[2] == 4 * hidden.sizes()[1];
    if !fits {
        return Ok(None);
    }
    let values = [products.into(), hidden.into(), cell.into(), weights.hidden.into(), backwards.into()];
    let results = LSTM_SEQUENCE.call(values)?.into_tensors();
    let [outputs, cells, _] =
        <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a sequence without results"))?;
    let last = if backwards { 0 } else { products.sizes()[0] - 1 };
    let at = |all: &Tensor| op!(RESHAPE, &sliced(all, 0, last, 1, 1)?, sizes_value(&all.sizes()[1..]));
    let state = State { hidden: at(&outputs)?, cell: Some(at(&cells)?) };
    Ok(Some((outputs, state)))
}

/// The rows of the last steps of all sequences, of which `batch_sizes[t]` have step `t`.
fn last(all: &Tensor, batch_sizes: &[i64], backwards: bool) -> Result<Tensor> {
    let rows = |start: i64, count: i64| op!(NARROW, all, 0i64, start, count);
    if backwards {
        return rows(0, batch_sizes.first().copied().unwrap_or(0));
    }
    // The sequences that end with a step are its last ones, and the longest sequences are the first.
    let (mut parts, mut end) = (Vec::new(), batch_sizes.iter().sum::<i64>());
    let mut longer = 0;
    for &count in batch_sizes.iter().rev() {
        if count > longer {
            parts.push(rows(end - count + longer, count - longer)?);
        }
        longer = count;
        end -= count;
    }
    joined(parts, 0)
}

/// The first states, split: one of each layer and direction.
pub(super) fn split_states(states: &[&Tensor]) -> Result<Vec<State>> {
    let mut lists = Vec::new();
    for state in states {
        lists.push(UNBIND.call([(*state).into()])?.into_tensors());
    }
    let cells = if lists.len() > 1 { lists.pop() } else { None };
    let mut cells = cells.into_iter().flatten();
    let hidden = lists.into_iter().flatten();
    Ok(hidden.map(|hidden| State { hidden, cell: cells.next() }).collect())
}

/// The given numbers of sequences, which need not fit the input: the steps raise the errors.
fn read_batch_sizes(given: &Tensor) -> Result<Vec<i64>> {
    let steps = size(given, 0)?;
    if given.dtype() != DType::I64 {
        let name = given.dtype().display_name();
        return Err(Error::runtime(format!("expected scalar type Long but found {name}")));
    }
    let mut batch_sizes = crate::convert::to_vec::<i64>(given)?;
    batch_sizes.truncate(steps as usize);
    Ok(batch_sizes)
}
