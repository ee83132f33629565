//! Steps of recurrent networks after the products with their weights. The kernels are `recurrent.cuh`.

use std::ffi::{CStr, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{Kind, argument, blocks, launch};
use crate::program::{Kernel, Program};

/// The rows of a step, and the elements of a state.
#[derive(Clone, Copy)]
pub struct Rows {
    pub rows: usize,
    pub width: usize,
}

const NAMES: &[&CStr] = &[c"lstm", c"gru", c"gru_back", c"lstm_back", c"lstm_step", c"lstm_step_back"];
const LSTM: usize = 0;
const GRU: usize = 1;
const GRU_BACK: usize = 2;
const LSTM_BACK: usize = 3;
const LSTM_STEP: usize = 4;
const LSTM_STEP_BACK: usize = 5;

/// A kernel by its place among the names.
fn kernel(card: &Card, dtype: DType, place: usize) -> Result<Kernel> {
    let program = Program::find(card, ("recurrent", [Kind::Of(dtype).code(), 0, 0, 0, 0, 0, 0, 0]), NAMES, || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "recurrent.cuh"
using namespace rushlight;
extern "C" __global__ void lstm({element}* out, {element}* next, const {element}* gates, const {element}* state, u64 count, u64 n) {{
    lstm_gates<{element}, {compute}>(gates, state, out, next, count, n);
}}
extern "C" __global__ void gru({element}* next, const {element}* input, const {element}* hidden, const {element}* state, u64 count,
                               u64 n) {{
    gru_gates<{element}, {compute}>(input, hidden, state, next, count, n);
}}
extern "C" __global__ void gru_back({element}* to_input, {element}* to_hidden, {element}* to_state, const {element}* grad,
                                    const {element}* input, const {element}* hidden, const {element}* state, u64 count, u64 n) {{
    gru_gates_back<{element}, {compute}>(grad, input, hidden, state, to_input, to_hidden, to_state, count, n);
}}
extern "C" __global__ void lstm_back({element}* to_gates, {element}* to_state, const {element}* grad, const {element}* carried,
                                     const {element}* gates, const {element}* before, const {element}* next, u64 count, u64 n) {{
    lstm_gates_back<{element}, {compute}>(grad, carried, gates, before, next, to_gates, to_state, count, n);
}}
extern "C" __global__ void lstm_step({element}* out, {element}* cell, {element}* gates, const {element}* before, u64 count, u64 n) {{
    rushlight::lstm_step<{element}, {compute}>(gates, before, out, cell, count, n);
}}
extern "C" __global__ void lstm_step_back({element}* to_sums, {element}* to_cell, LstmStep<{element}> step, u64 count, u64 n) {{
    rushlight::lstm_step_back<{element}, {compute}>(step, to_sums, to_cell, count, n);
}}
"#
        )
    })?;
    Ok(program.kernel(place))
}

/// # Safety
/// Same as for `launch`; the last two arguments of the kernel are the number of elements and the width.
unsafe fn run(card: &Card, stream: StreamId, kernel: Kernel, rows: Rows, operands: &mut [*mut c_void]) -> Result<()> {
    let (mut count, mut width) = ((rows.rows * rows.width) as u64, rows.width as u64);
    let mut arguments = operands.to_vec();
    arguments.extend([argument(&mut count), argument(&mut width)]);
    // SAFETY: guaranteed by the caller.
    unsafe { launch(card, kernel, [blocks(card, count), 1], stream, &mut arguments) }
}

/// Enqueues the output and the next state of a long short-term memory, from the sums of its gates and its state.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn lstm(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut results: [u64; 2],
    mut operands: [u64; 2],
    rows: Rows,
) -> Result<()> {
    let ([out, next], [gates, state]) = (&mut results, &mut operands);
    let mut arguments = [argument(out), argument(next), argument(gates), argument(state)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM)?, rows, &mut arguments) }
}

/// Enqueues the next state of a gated recurrent unit, from the sums of its gates for input and state, and its state.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn gru(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut next: u64,
    mut operands: [u64; 3],
    rows: Rows,
) -> Result<()> {
    let [input, hidden, state] = &mut operands;
    let mut arguments = [argument(&mut next), argument(input), argument(hidden), argument(state)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, GRU)?, rows, &mut arguments) }
}

/// Enqueues the gradients of `gru`, of the gates for input and state and of the state, from that of the next state and the operands.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn gru_back(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut results: [u64; 3],
    mut operands: [u64; 4],
    rows: Rows,
) -> Result<()> {
    let mut arguments: Vec<_> = results.iter_mut().chain(&mut operands).map(argument).collect();
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, GRU_BACK)?, rows, &mut arguments) }
}

/// Enqueues the gradients of `lstm`, of the gates and of the state, from those of the output and of the next state, the operands and
/// the next state.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn lstm_back(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut results: [u64; 2],
    mut operands: [u64; 5],
    rows: Rows,
) -> Result<()> {
    let mut arguments: Vec<_> = results.iter_mut().chain(&mut operands).map(argument).collect();
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM_BACK)?, rows, &mut arguments) }
}

/// Enqueues a step of a long short-term memory, which replaces the sums of the gates by the gates: from the gates and the cell before
/// to the output and the cell.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn lstm_step(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut results: [u64; 2],
    mut operands: [u64; 2],
    rows: Rows,
) -> Result<()> {
    let mut arguments: Vec<_> = results.iter_mut().chain(&mut operands).map(argument).collect();
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM_STEP)?, rows, &mut arguments) }
}

/// What the gradient of such a step reads: gates, the cells before and after, the gradient of the output, and that of the cell from
/// outside, which may be zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LstmStep {
    pub gates: u64,
    pub before: u64,
    pub cell: u64,
    pub grad_output: u64,
    pub grad_cell: u64,
}

/// Enqueues the gradients of a step's sums, and of the cell before, in place of that of the cell after.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn lstm_step_back(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut results: [u64; 2],
    mut step: LstmStep,
    rows: Rows,
) -> Result<()> {
    let [to_sums, to_cell] = &mut results;
    let mut arguments = [argument(to_sums), argument(to_cell), argument(&mut step)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM_STEP_BACK)?, rows, &mut arguments) }
}
