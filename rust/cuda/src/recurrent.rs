//! Steps of recurrent networks after the products with their weights. The kernels are `recurrent.cuh`.

use std::ffi::{CStr, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Kernel, Key, Program};

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
    let program = Program::find(card, Key::new("recurrent", [ElementType::Of(dtype).code()]), NAMES, || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "recurrent.cuh"
using namespace rushlight;
extern "C" __global__ void lstm({element}* hy, {element}* cy, const {element}* gates, const {element}* cx, u64 count, u64 n) {{
    lstm_gates<{element}, {compute}>(gates, cx, hy, cy, count, n);
}}
extern "C" __global__ void gru({element}* hy, const {element}* input, const {element}* hidden, const {element}* hx, u64 count,
                               u64 n) {{
    gru_gates<{element}, {compute}>(input, hidden, hx, hy, count, n);
}}
extern "C" __global__ void gru_back({element}* to_input, {element}* to_hidden, {element}* to_hx, const {element}* grad,
                                    const {element}* input, const {element}* hidden, const {element}* hx, u64 count, u64 n) {{
    gru_gates_back<{element}, {compute}>(grad, input, hidden, hx, to_input, to_hidden, to_hx, count, n);
}}
extern "C" __global__ void lstm_back({element}* to_gates, {element}* to_cx, const {element}* grad_hy, const {element}* grad_cy,
                                     const {element}* gates, const {element}* cx, const {element}* cy, u64 count, u64 n) {{
    lstm_gates_back<{element}, {compute}>(grad_hy, grad_cy, gates, cx, cy, to_gates, to_cx, count, n);
}}
extern "C" __global__ void lstm_step({element}* hy, {element}* cy, {element}* gates, const {element}* cx, u64 count, u64 n) {{
    rushlight::lstm_step<{element}, {compute}>(gates, cx, hy, cy, count, n);
}}
extern "C" __global__ void lstm_step_back({element}* to_sums, {element}* to_cx, LstmStep<{element}> step, u64 count, u64 n) {{
    rushlight::lstm_step_back<{element}, {compute}>(step, to_sums, to_cx, count, n);
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

/// Enqueues the next hidden and cell state of a long short-term memory, from the sums of its gates and its cell state.
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
    let ([hy, cy], [gates, cx]) = (&mut results, &mut operands);
    let mut arguments = [argument(hy), argument(cy), argument(gates), argument(cx)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM)?, rows, &mut arguments) }
}

/// Enqueues the next hidden state of a gated recurrent unit, from the sums of its gates for input and hidden state, and that state.
///
/// # Safety
/// The operands are row-major, of these sizes, and held for the stream.
pub unsafe fn gru(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut hy: u64,
    mut operands: [u64; 3],
    rows: Rows,
) -> Result<()> {
    let [input, hidden, hx] = &mut operands;
    let mut arguments = [argument(&mut hy), argument(input), argument(hidden), argument(hx)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, GRU)?, rows, &mut arguments) }
}

/// Enqueues the gradients of `gru`, of the gates for input and hidden state and of that state, from that of the next one and the operands.
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

/// Enqueues the gradients of `lstm`, of the gates and of the cell state, from those of the next states, the operands and the next cell
/// state.
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

/// Enqueues a step of a long short-term memory, which replaces the sums of the gates by the gates: from the gates and the cell state
/// to the next hidden and cell state.
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

/// What the gradient of such a step reads: gates, the cell states before and after it, the gradient of the hidden state, and that of
/// `cy` from outside, which may be zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LstmStep {
    pub gates: u64,
    pub cx: u64,
    pub cy: u64,
    pub grad_hy: u64,
    pub grad_cy: u64,
}

/// Enqueues the gradients of a step's sums, and of `cx`, in place of that of `cy`.
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
    let [to_sums, to_cx] = &mut results;
    let mut arguments = [argument(to_sums), argument(to_cx), argument(&mut step)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, LSTM_STEP_BACK)?, rows, &mut arguments) }
}
