//! Softmax along lines. The kernels are `softmax.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::cumulative::Lines;
use crate::launch::{ElementType, THREADS, WARP, argument, blocks, launch};
use crate::program::{Key, Program};

/// What is computed, with or without the logarithm, and the dtypes: of the arithmetic, the result, the first operand (the input or
/// the gradient) and the second (the input again, or the result of the forward).
#[derive(Clone, Copy)]
pub struct Softmax {
    pub backward: bool,
    pub logarithm: bool,
    pub compute: DType,
    pub dtypes: [DType; 3],
}

/// The most elements of a line that a thread keeps.
const DEEP: usize = 16;
const LANES: usize = WARP as usize;
const BLOCK: usize = THREADS as usize;

/// Computes lines that have elements. The operands are the result, the first operand and the second.
///
/// # Safety
/// The operands are row-major, of this shape and these dtypes, and held for the stream.
pub unsafe fn softmax(card: &Card, stream: StreamId, what: Softmax, operands: [u64; 3], shape: Lines) -> Result<()> {
    let [mut out, mut x, mut y] = operands;
    let (mut lines, mut n, mut inner) = ((shape.outer * shape.inner) as u64, shape.n as u64, shape.inner as u64);
    let kept = |group: usize| shape.n.div_ceil(group).next_power_of_two();
    let (call, deep, threads) = match shape.inner {
        2.. => ("columns(lines, n, inner)".to_string(), 0, 1),
        _ if kept(LANES) <= DEEP => (format!("kept<WARP, {}>(lines, n)", kept(LANES)), kept(LANES), LANES),
        _ if kept(BLOCK) <= DEEP => (format!("kept<THREADS, {}>(lines, n)", kept(BLOCK)), kept(BLOCK), BLOCK),
        _ => ("lines(lines, n)".to_string(), 0, BLOCK),
    };
    let [to, first, second] = what.dtypes.map(ElementType::Of);
    let compute = ElementType::Of(what.compute);
    let title = if what.backward { "SoftmaxBackward" } else { "SoftmaxForward" };
    let variant = [u8::from(what.logarithm), deep as u8, threads.ilog2() as u8];
    let key = Key::new(title, [compute, to, first, second].map(ElementType::code).into_iter().chain(variant));
    let program = Program::find(card, key, &[c"softmax"], || {
        format!(
            r#"#include "softmax.cuh"
#include "prelude.cuh"
using namespace rushlight;
typedef Softmax<{title}<{compute}, {logarithm}>, {to}, {first}, {second}> Lines;
extern "C" __global__ void softmax(u8* out, const u8* x, const u8* y, u64 lines, u64 n, u64 inner) {{
    Lines{{out, x, y}}.{call};
}}
"#,
            compute = compute.name(),
            logarithm = what.logarithm,
            to = to.name(),
            first = first.name(),
            second = second.name(),
        )
    })?;
    let mut arguments = [
        argument(&mut out),
        argument(&mut x),
        argument(&mut y),
        argument(&mut lines),
        argument(&mut n),
        argument(&mut inner),
    ];
    let grid = [blocks(card, lines.saturating_mul(threads as u64)), 1];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments) }
}
