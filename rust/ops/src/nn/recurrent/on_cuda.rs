//! Recurrent networks on CUDA devices: a step is a product with the state's weights and one kernel for its elementwise part.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Layout, Result, Scalar};
use rushlight_cuda::recurrent::{self, Rows, Step};
use rushlight_dispatch::create;
use rushlight_dispatch::operands::{plain, settle, workplace};

use crate::held::Held;
use crate::linalg::{Matrix, product};

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

/// The steps, rows and elements of a state of a sequence, and whether it is read from its end.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub sizes: [isize; 3],
    pub backwards: bool,
}

/// Rows of a tensor as a matrix.
fn part(tensor: &Tensor, first: isize, rows: isize, columns: isize) -> Matrix<'_> {
    let mut layout = Layout::contiguous(&[rows, columns]);
    layout.offset = tensor.layout().offset + first * columns;
    Matrix::laid(tensor, layout)
}

impl Sequence {
    /// The position in the sequence of step number `turn`.
    fn place(&self, turn: isize) -> isize {
        if self.backwards { self.sizes[0] - 1 - turn } else { turn }
    }

    /// The rows of a tensor of all steps that belong to a position, or those of the tensor before all steps.
    fn at<'a>(&self, first: &'a Tensor, all: &'a Tensor, turn: isize) -> (&'a Tensor, isize) {
        if turn == 0 { (first, 0) } else { (all, self.place(turn - 1) * self.sizes[1]) }
    }

    /// The outputs, states and gates of all steps, in the compute dtype.
    pub fn forward(&self, [products, output, state, weight]: [&Tensor; 4], results: &[Tensor]) -> Result<()> {
        let dtype = results[0].dtype().compute();
        let [steps, rows, width] = self.sizes;
        let wide = |tensor: &Tensor| plain(tensor, dtype);
        let (products, output, state, weight) = (wide(products)?, wide(output)?, wide(state)?, wide(weight)?);
        let places = [workplace(&results[0], dtype)?, workplace(&results[1], dtype)?, workplace(&results[2], dtype)?];
        let [outputs, states, gates] = &places;
        let mut held = Held::on(outputs)?;
        let to = held.addresses([outputs, states, gates])?;
        let first = held.address(&state)?;
        for turn in 0..steps {
            let place = self.place(turn);
            let (before, row) = self.at(&output, outputs, turn);
            product(
                part(gates, place * rows, rows, 4 * width),
                Scalar::Int(1),
                part(before, row, rows, width),
                part(&weight, 0, 4 * width, width).transposed(),
                Some((Scalar::Int(1), part(&products, place * rows, rows, 4 * width))),
            )?;
            let bytes = |turn: isize| (self.place(turn) * rows * width) as u64 * dtype.size() as u64;
            let state = if turn == 0 { first } else { to[1] + bytes(turn - 1) };
            let at = [to[0] + bytes(turn), to[1] + bytes(turn)];
            let rows = Rows { rows: rows as usize, width: width as usize };
            // SAFETY: row-major tensors of the compute dtype and of these sizes, held for the stream.
            unsafe { recurrent::step(held.card, held.stream, dtype, [to[2] + 4 * bytes(turn), state], at, rows)? };
        }
        places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
    }

    /// The gradients of products, output, state and weight. `given` are the operands after the products and the results of the
    /// forward pass; `grads` those of outputs and states.
    pub fn backward(&self, given: [&Tensor; 6], grads: (&Tensor, Option<&Tensor>), results: &[Tensor]) -> Result<()> {
        let dtype = results[0].dtype().compute();
        let [steps, rows, width] = self.sizes;
        let wide = |tensor: &Tensor| plain(tensor, dtype);
        let [output, state, weight, outputs, states, gates] = given;
        let (output, state, weight) = (wide(output)?, wide(state)?, wide(weight)?);
        let (outputs, states, gates) = (wide(outputs)?, wide(states)?, wide(gates)?);
        let (grad, grad_states) = (wide(grads.0)?, grads.1.map(wide).transpose()?);
        let place = |at: usize| workplace(&results[at], dtype);
        let places = [place(0)?, place(1)?, place(2)?, place(3)?];
        let [to_products, carried, kept, to_weight] = &places;
        for zeros in [carried, kept, to_weight] {
            create::fill(zeros, Scalar::ZERO)?;
        }
        let mut held = Held::on(carried)?;
        let [first, all, activated, from] = held.addresses([&state, &states, &gates, &grad])?;
        let [to, back, keep] = held.addresses([to_products, carried, kept])?;
        let arriving = grad_states.as_ref().map(|tensor| held.address(tensor)).transpose()?;
        let bytes = |turn: isize| (self.place(turn) * rows * width) as u64 * dtype.size() as u64;
        for turn in (0..steps).rev() {
            let at = bytes(turn);
            let step = Step {
                gates: activated + 4 * at,
                before: if turn == 0 { first } else { all + bytes(turn - 1) },
                state: all + at,
                grad_output: from + at,
                carried: back,
                grad_state: arriving.map_or(0, |first| first + at),
            };
            let size = Rows { rows: rows as usize, width: width as usize };
            // SAFETY: row-major tensors of the compute dtype and of these sizes, held for the stream.
            unsafe { recurrent::back(held.card, held.stream, dtype, [to + 4 * at, keep], step, size)? };
            product(
                part(carried, 0, rows, width),
                Scalar::Int(1),
                part(to_products, self.place(turn) * rows, rows, 4 * width),
                part(&weight, 0, 4 * width, width),
                None,
            )?;
        }
        self.of_weight(&output, &outputs, to_products, to_weight)?;
        places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
    }

    /// Each output is paired with the gradients of the step that reads it: one product for all steps but the first, and one for the
    /// first.
    fn of_weight(&self, output: &Tensor, outputs: &Tensor, grads: &Tensor, to: &Tensor) -> Result<()> {
        let [steps, rows, width] = self.sizes;
        let whole = || part(to, 0, 4 * width, width);
        let pair = |grad: isize, steps: isize, other: Matrix| {
            let grads = part(grads, grad * rows, steps * rows, 4 * width).transposed();
            product(whole(), Scalar::Int(1), grads, other, Some((Scalar::Int(1), whole())))
        };
        let later: [isize; 2] = if self.backwards { [1, 0] } else { [0, 1] };
        if steps > 1 {
            pair(later[1], steps - 1, part(outputs, later[0] * rows, (steps - 1) * rows, width))?;
        }
        pair(self.place(0), 1, part(output, 0, rows, width))
    }
}
