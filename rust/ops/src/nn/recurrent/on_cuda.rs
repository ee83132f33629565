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

/// The next hidden and cell state, from gates and cell state.
pub fn lstm_gates([gates, cx]: [&Tensor; 2], results: &[Tensor]) -> Result<()> {
    let dtype = common(&[gates, cx]);
    let (gates, cx) = (plain(gates, dtype)?, plain(cx, dtype)?);
    let places = [workplace(&results[0], dtype)?, workplace(&results[1], dtype)?];
    if cx.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&cx)?;
    let (to, from) = (held.addresses(places.each_ref())?, held.addresses([&gates, &cx])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::lstm(held.card, held.stream, dtype, to, from, rows_of(&cx))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The gradients of gates and cell state, from those of the next states, the operands and the next cell state.
pub fn lstm_gates_back(operands: [&Tensor; 5], results: &[Tensor]) -> Result<()> {
    let dtype = common(&operands);
    let [grad_hy, grad_cy, gates, cx, cy] = operands.map(|tensor| plain(tensor, dtype));
    let (grad_hy, grad_cy, gates, cx, cy) = (grad_hy?, grad_cy?, gates?, cx?, cy?);
    let places = [workplace(&results[0], dtype)?, workplace(&results[1], dtype)?];
    if cx.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&cx)?;
    let to = held.addresses(places.each_ref())?;
    let from = held.addresses([&grad_hy, &grad_cy, &gates, &cx, &cy])?;
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::lstm_back(held.card, held.stream, dtype, to, from, rows_of(&cx))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The next hidden state, from the gates of input and hidden state, and the hidden state.
pub fn gru_gates([input, hidden, hx]: [&Tensor; 3], result: &Tensor) -> Result<()> {
    let dtype = common(&[input, hidden, hx]);
    let (input, hidden, hx) = (plain(input, dtype)?, plain(hidden, dtype)?, plain(hx, dtype)?);
    let hy = workplace(result, dtype)?;
    if hx.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&hx)?;
    let (to, from) = (held.address(&hy)?, held.addresses([&input, &hidden, &hx])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the result is new.
    unsafe { recurrent::gru(held.card, held.stream, dtype, to, from, rows_of(&hx))? };
    settle(&hy, result)
}

/// The gradients of the gates of input and hidden state, and of the hidden state, from that of the next one and the operands.
pub fn gru_gates_back(operands: [&Tensor; 4], results: &[Tensor]) -> Result<()> {
    let dtype = common(&operands);
    let [grad, input, hidden, hx] = operands.map(|tensor| plain(tensor, dtype));
    let (grad, input, hidden, hx) = (grad?, input?, hidden?, hx?);
    let place = |at: usize| workplace(&results[at], dtype);
    let places = [place(0)?, place(1)?, place(2)?];
    if hx.numel() == 0 {
        return Ok(());
    }
    let mut held = Held::on(&hx)?;
    let (to, from) = (held.addresses(places.each_ref())?, held.addresses([&grad, &input, &hidden, &hx])?);
    // SAFETY: row-major operands of these sizes, held for the stream; the results are new.
    unsafe { recurrent::gru_back(held.card, held.stream, dtype, to, from, rows_of(&hx))? };
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// A step of a long short-term memory, which replaces the sums of the gates by the gates: from the gates and the cell state to the
/// next hidden and cell state.
pub fn lstm_step(gates: &Tensor, cx: &Tensor, results: [&Tensor; 2]) -> Result<()> {
    let dtype = gates.dtype();
    let cx = plain(cx, dtype)?;
    let mut held = Held::on(gates)?;
    let (to, from) = (held.addresses(results)?, held.addresses([gates, &cx])?);
    // SAFETY: row-major operands of these sizes, held for the stream.
    unsafe { recurrent::lstm_step(held.card, held.stream, dtype, to, from, rows_of(&cx)) }
}

/// What the gradient of such a step reads: the gates, the cell states before and after it, and the gradients of the hidden state and,
/// from outside, of the cell state after it; and what it writes: the gradient of the sums, and that of `cx` in place of that of `cy`.
pub struct LstmStep<'a> {
    pub gates: &'a Tensor,
    pub cx: &'a Tensor,
    pub cy: &'a Tensor,
    pub grad_hy: &'a Tensor,
    pub grad_cy: Option<&'a Tensor>,
    pub to_sums: &'a Tensor,
    pub to_cx: &'a Tensor,
}

/// The gradient of `lstm_step`, of row-major operands.
pub fn lstm_step_back(step: LstmStep) -> Result<()> {
    let mut held = Held::on(step.gates)?;
    let to = held.addresses([step.to_sums, step.to_cx])?;
    let [gates, cx, cy, grad_hy] = held.addresses([step.gates, step.cx, step.cy, step.grad_hy])?;
    let from = recurrent::LstmStep { gates, cx, cy, grad_hy, grad_cy: held.optional(step.grad_cy)? };
    let (dtype, rows) = (step.gates.dtype(), rows_of(step.cy));
    // SAFETY: row-major operands of these sizes, held for the stream.
    unsafe { recurrent::lstm_step_back(held.card, held.stream, dtype, to, from, rows) }
}
