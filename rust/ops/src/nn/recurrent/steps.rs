//! What layers of each kind share: weights, states, and the order of steps over sequences of one length and over packed ones.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::value::Value;

use crate::join::cat::{CAT, STACK};
use crate::view::narrow::NARROW;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tanh,
    Relu,
    Lstm,
    Gru,
}

impl Kind {
    /// torch's names of the kinds.
    const NAMES: [(&str, Kind); 4] =
        [("RNN_TANH", Kind::Tanh), ("RNN_RELU", Kind::Relu), ("LSTM", Kind::Lstm), ("GRU", Kind::Gru)];

    pub fn name(self) -> &'static str {
        Kind::NAMES.into_iter().find(|&(_, kind)| kind == self).map_or("", |(name, _)| name)
    }

    pub fn named(name: &str) -> Result<Kind> {
        let known = Kind::NAMES.into_iter().find(|&(known, _)| known == name);
        known.map(|(_, kind)| kind).ok_or_else(|| Error::runtime(format!("Unrecognized RNN mode: {name}")))
    }

    /// The number of gates.
    pub fn gates(self) -> isize {
        match self {
            Kind::Tanh | Kind::Relu => 1,
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    /// The number of states: the hidden one, and the cell of an LSTM.
    pub fn states(self) -> usize {
        if self == Kind::Lstm { 2 } else { 1 }
    }
}

/// The weights of a layer in one direction.
pub(super) struct Weights<'a> {
    /// torch's `w_ih` and `w_hh`.
    pub input: &'a Tensor,
    pub hidden: &'a Tensor,
    pub biases: Option<[&'a Tensor; 2]>,
    /// The projection of an LSTM's hidden states.
    pub projection: Option<&'a Tensor>,
}

impl<'a> Weights<'a> {
    /// The number of parameters of a layer in one direction.
    pub fn count(has_biases: bool, projected: bool) -> usize {
        let without_projection = if has_biases { 4 } else { 2 };
        without_projection + usize::from(projected)
    }

    /// The weights of all layers and directions in a list of as many parameters as they have.
    pub fn list(params: &[&'a Tensor], has_biases: bool, projected: bool) -> Vec<Weights<'a>> {
        let stride = Weights::count(has_biases, projected);
        let of = |layer: &[&'a Tensor]| Weights {
            input: layer[0],
            hidden: layer[1],
            biases: has_biases.then(|| [layer[2], layer[3]]),
            projection: projected.then(|| layer[stride - 1]),
        };
        params.chunks_exact(stride).map(of).collect()
    }

    /// The parameters, in the order of the list.
    pub fn each(&self) -> impl Iterator<Item = &'a Tensor> {
        [self.input, self.hidden].into_iter().chain(self.biases.into_iter().flatten()).chain(self.projection)
    }
}

/// The hidden state, which is also a step's output, and the cell state of an LSTM.
#[derive(Clone)]
pub(super) struct State {
    pub hidden: Tensor,
    pub cell: Option<Tensor>,
}

impl State {
    fn each(&self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<State> {
        Ok(State { hidden: change(&self.hidden)?, cell: self.cell.as_ref().map(change).transpose()? })
    }

    /// The states of the sequences `start..end`.
    fn rows(&self, start: i64, end: i64) -> Result<State> {
        if start == 0 && self.hidden.sizes().first() == Some(&(end as isize)) {
            return Ok(self.clone());
        }
        self.each(|tensor| op!(NARROW, tensor, 0i64, start, end.wrapping_sub(start)))
    }

    fn below(self, other: State) -> Result<State> {
        let joined = |a: Tensor, b: Tensor| joined(vec![a, b], 0);
        let cell = match (self.cell, other.cell) {
            (Some(a), Some(b)) => Some(joined(a, b)?),
            _ => None,
        };
        Ok(State { hidden: joined(self.hidden, other.hidden)?, cell })
    }
}

/// Tensors one after the other along a dimension; a single one itself.
pub(super) fn joined(list: Vec<Tensor>, dim: i64) -> Result<Tensor> {
    match <[Tensor; 1]>::try_from(list) {
        Ok([only]) => Ok(only),
        Err(list) => CAT.tensor([Value::from(list), dim.into()]),
    }
}

/// One step of a layer: from the products of the input with its weights, and the state.
pub(super) type Step<'a> = dyn Fn(&Tensor, &State) -> Result<State> + 'a;
/// The rows of the products that belong to a step.
pub(super) type Rows<'a> = dyn Fn(usize) -> Result<Tensor> + 'a;

/// Sequences of one length: outputs `(T, N, H)` and the last state.
pub(super) fn run_steps(step: &Step, steps: Vec<Tensor>, first: State, backwards: bool) -> Result<(Tensor, State)> {
    let mut state = first;
    let mut outputs = Vec::with_capacity(steps.len());
    let take = |input: &Tensor, state: &mut State, outputs: &mut Vec<Tensor>| -> Result<()> {
        *state = step(input, state)?;
        outputs.push(state.hidden.clone());
        Ok(())
    };
    if backwards {
        steps.iter().rev().try_for_each(|input| take(input, &mut state, &mut outputs))?;
        outputs.reverse();
    } else {
        steps.iter().try_for_each(|input| take(input, &mut state, &mut outputs))?;
    }
    if outputs.is_empty() {
        return Err(Error::runtime("Expected sequence length to be larger than 0 in RNN"));
    }
    Ok((STACK.tensor([Value::from(outputs), 0i64.into()])?, state))
}

/// Packed sequences, the longest first: step `t` contains only the sequences that are longer than `t`, `batch_sizes[t]` of them.
pub(super) fn run_packed(
    step: &Step,
    rows: &Rows,
    batch_sizes: &[i64],
    first: State,
    backwards: bool,
) -> Result<(Tensor, State)> {
    let mut outputs = Vec::with_capacity(batch_sizes.len());
    let joined = |outputs: Vec<Tensor>| CAT.tensor([Value::from(outputs), 0i64.into()]);
    let (Some(&longest), Some(&shortest)) = (batch_sizes.first(), batch_sizes.last()) else {
        return Err(Error::runtime("batch_sizes must not be empty"));
    };
    if backwards {
        // Sequences begin one after the other, the longest first.
        let (mut state, mut running) = (first.rows(0, shortest)?, shortest);
        for (at, &wanted) in batch_sizes.iter().enumerate().rev() {
            if wanted > running {
                state = state.below(first.rows(running, wanted)?)?;
            }
            running = wanted;
            state = step(&rows(at)?, &state)?;
            outputs.push(state.hidden.clone());
        }
        outputs.reverse();
        return Ok((joined(outputs)?, state));
    }
    // Sequences end one after the other, the longest last.
    let mut ended = Vec::new();
    let (mut state, mut running) = (first, longest);
    for (at, &wanted) in batch_sizes.iter().enumerate() {
        let input = rows(at)?;
        if wanted < running {
            ended.push(state.rows(wanted, running)?);
            state = state.rows(0, wanted)?;
        }
        running = wanted;
        state = step(&input, &state)?;
        outputs.push(state.hidden.clone());
    }
    while let Some(shorter) = ended.pop() {
        state = state.below(shorter)?;
    }
    Ok((joined(outputs)?, state))
}
