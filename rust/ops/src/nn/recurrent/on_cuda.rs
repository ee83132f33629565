//! The elementwise parts of the steps of recurrent networks on CUDA devices, one kernel each.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result};
use rushlight_cuda::recurrent::{self, Rows};
use rushlight_dispatch::operands::{plain, settle, workplace};

use crate::held::Held;

fn rows_of(state: &Tensor) -> Rows {
    Rows { rows: state.sizes()[0] as usize, width: state.sizes()[1] as usize }
}

/// The dtype of all operands, or the compute dtype of the first if they differ.
fn common(operands: &[&Tensor]) -> DType {
    let dtype = operands[0].dtype();
    if operands.iter().all(|tensor| tensor.dtype() == dtype) { dtype } else { dtype.compute() }
}

/// The output and the next state, from gates and state.
pub fn lstm_gates([gates, state]: [&Tensor; 2], results: &[Tensor]) -> Result<()> {
    let dtype = common(&[gates, state]);
    let (gates, state) = (plain(gates, dtype)?, plain(state, dtype)?);
    let places = [workplace(&results[0], dtype)?, workplace(&results[1], dtype)?];
    if state.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&state)?;
    let (to, from) = (held.addresses(places.each_ref())?, held.addresses([&gates, &state])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::lstm(held.card, held.stream, dtype, to, from, rows_of(&state))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The gradients of gates and state, from those of output and next state, the operands and the next state.
pub fn lstm_gates_back(operands: [&Tensor; 5], results: &[Tensor]) -> Result<()> {
    let dtype = common(&operands);
    let [grad, carried, gates, state, next] = operands.map(|tensor| plain(tensor, dtype));
    let (grad, carried, gates, state, next) = (grad?, carried?, gates?, state?, next?);
    let places = [workplace(&results[0], dtype)?, workplace(&results[1], dtype)?];
    if state.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&state)?;
    let to = held.addresses(places.each_ref())?;
    let from = held.addresses([&grad, &carried, &gates, &state, &next])?;
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::lstm_back(held.card, held.stream, dtype, to, from, rows_of(&state))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The next state, from the gates of input and state, and the state.
pub fn gru_gates([input, hidden, state]: [&Tensor; 3], result: &Tensor) -> Result<()> {
    let dtype = common(&[input, hidden, state]);
    let (input, hidden, state) = (plain(input, dtype)?, plain(hidden, dtype)?, plain(state, dtype)?);
    let next = workplace(result, dtype)?;
    if state.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&state)?;
    let (to, from) = (held.address(&next)?, held.addresses([&input, &hidden, &state])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the result is new.
    unsafe { recurrent::gru(held.card, held.stream, dtype, to, from, rows_of(&state))? };
    settle(&next, result)
}

/// The gradients of the gates of input and state, and of the state, from that of the next state and the operands.
pub fn gru_gates_back(operands: [&Tensor; 4], results: &[Tensor]) -> Result<()> {
    let dtype = common(&operands);
    let [grad, input, hidden, state] = operands.map(|tensor| plain(tensor, dtype));
    let (grad, input, hidden, state) = (grad?, input?, hidden?, state?);
    let place = |at: usize| workplace(&results[at], dtype);
    let places = [place(0)?, place(1)?, place(2)?];
    if state.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&state)?;
    let (to, from) = (held.addresses(places.each_ref())?, held.addresses([&grad, &input, &hidden, &state])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::gru_back(held.card, held.stream, dtype, to, from, rows_of(&state))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// A step of a long short-term memory, which replaces the sums of the gates by the gates: from the gates and the cell before to the
/// output and the cell.
pub fn lstm_step(gates: &Tensor, before: &Tensor, results: [&Tensor; 2]) -> Result<()> {
    let dtype = gates.dtype();
    let before = plain(before, dtype)?;
    let mut held = Held::on(gates)?;
    let (to, from) = (held.addresses(results)?, held.addresses([gates, &before])?);
    // SAFETY: row-major operands of these sizes, held for the stream.
    unsafe { recurrent::lstm_step(held.card, held.stream, dtype, to, from, rows_of(&before)) }
}

/// What the gradient of such a step reads: the gates, the cells before and after, and the gradients of the output and, from outside,
/// of the cell; and what it writes: the gradient of the sums, and that of the cell before in place of that of the cell after.
pub struct LstmStep<'a> {
    pub gates: &'a Tensor,
    pub before: &'a Tensor,
    pub cell: &'a Tensor,
    pub grad_output: &'a Tensor,
    pub grad_cell: Option<&'a Tensor>,
    pub to_sums: &'a Tensor,
    pub to_cell: &'a Tensor,
}

/// The gradient of `lstm_step`, of row-major operands.
pub fn lstm_step_back(step: LstmStep) -> Result<()> {
    let mut held = Held::on(step.gates)?;
    let to = held.addresses([step.to_sums, step.to_cell])?;
    let [gates, before, cell, grad_output] = held.addresses([step.gates, step.before, step.cell, step.grad_output])?;
    let from = recurrent::LstmStep { gates, before, cell, grad_output, grad_cell: held.optional(step.grad_cell)? };
    let (dtype, rows) = (step.gates.dtype(), rows_of(step.cell));
    // SAFETY: row-major operands of these sizes, held for the stream.
    unsafe { recurrent::lstm_step_back(held.card, held.stream, dtype, to, from, rows) }
}
