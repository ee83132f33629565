//! Connectionist temporal classification. The kernels are `ctc.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// The labels of a batch and three rows with a number for each sequence, in int64: where its labels begin, how many steps it has and
/// how many labels. Then the sizes of logarithms `(time, items, classes)` and of sums `(items, time, width)`, and the blank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CtcBatch {
    pub labels: u64,
    pub bounds: u64,
    pub time: u64,
    pub items: u64,
    pub classes: u64,
    pub width: u64,
    pub blank: i64,
}

const LOSSES: usize = 0;
const BETAS: usize = 1;
const UNLABELLED: usize = 2;
const LABELLED: usize = 3;

fn program(card: &Card, dtype: DType) -> Result<Program> {
    let names: &[_] = &[c"losses", c"betas", c"unlabelled", c"labelled"];
    Program::find(card, Key::new("ctc", [ElementType::Of(dtype).code()]), names, || {
        let element = type_name(dtype);
        format!(
            r#"#include "ctc.cuh"
using namespace rushlight;
extern "C" __global__ void losses(const {element}* logs, {element}* losses, {element}* alphas, CtcBatch batch, u64* outside) {{
    ctc_losses(logs, losses, alphas, batch, outside);
}}
extern "C" __global__ void betas(const {element}* logs, {element}* betas, CtcBatch batch) {{
    ctc_betas(logs, betas, batch);
}}
extern "C" __global__ void unlabelled(const {element}* logs, const {element}* losses, const {element}* grads, {element}* out,
                                      CtcBatch batch, u32 zero_infinity) {{
    ctc_unlabelled(logs, losses, grads, out, batch, zero_infinity);
}}
extern "C" __global__ void labelled(const {element}* logs, const {element}* alphas, const {element}* betas,
                                    const {element}* losses, const {element}* grads, {element}* out, CtcBatch batch,
                                    u32 zero_infinity) {{
    ctc_labelled(logs, alphas, betas, losses, grads, out, batch, zero_infinity);
}}
"#
        )
    })
}

/// A block for each sequence.
fn grid(card: &Card, batch: CtcBatch) -> [u32; 2] {
    [batch.items.clamp(1, card.properties.multiprocessors.max(1) as u64 * 32) as u32, 1]
}

/// Enqueues the loss of each sequence and the sums over its paths from the start, of floats of 32 or 64 bits. The eight bytes at
/// `outside` become the first position whose label is no class.
///
/// # Safety
/// The operands are row-major, of the sizes of the batch, and held for the stream, as `outside` is. Labels begin and end within their
/// list, no sequence has more steps than there are, and twice the labels of each are fewer than `width`.
pub unsafe fn losses(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut logs, mut losses, mut alphas]: [u64; 3],
    mut batch: CtcBatch,
    mut outside: u64,
) -> Result<()> {
    let mut arguments = [
        argument(&mut logs),
        argument(&mut losses),
        argument(&mut alphas),
        argument(&mut batch),
        argument(&mut outside),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program(card, dtype)?.kernel(LOSSES), grid(card, batch), stream, &mut arguments) }
}

/// What a gradient reads besides the logarithms, and `betas`, which has the size of `alphas`.
#[derive(Clone, Copy)]
pub struct Known {
    pub alphas: u64,
    pub betas: u64,
    pub losses: u64,
    pub grads: u64,
}

/// Enqueues the gradients of the logarithms; with `zero_infinity`, impossible labellings count as zero.
///
/// # Safety
/// Same as for `losses`.
pub unsafe fn gradients(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut logs, mut out]: [u64; 2],
    mut known: Known,
    mut batch: CtcBatch,
    zero_infinity: bool,
) -> Result<()> {
    let program = program(card, dtype)?;
    let mut zero_infinity = u32::from(zero_infinity);
    let mut arguments = [argument(&mut logs), argument(&mut known.betas), argument(&mut batch)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(BETAS), grid(card, batch), stream, &mut arguments)? };
    let mut arguments = [
        argument(&mut logs),
        argument(&mut known.losses),
        argument(&mut known.grads),
        argument(&mut out),
        argument(&mut batch),
        argument(&mut zero_infinity),
    ];
    let all = blocks(card, batch.time * batch.items * batch.classes);
    // SAFETY: see above.
    unsafe { launch(card, program.kernel(UNLABELLED), [all, 1], stream, &mut arguments)? };
    let mut arguments = [
        argument(&mut logs),
        argument(&mut known.alphas),
        argument(&mut known.betas),
        argument(&mut known.losses),
        argument(&mut known.grads),
        argument(&mut out),
        argument(&mut batch),
        argument(&mut zero_infinity),
    ];
    let places = blocks(card, batch.items * batch.time * batch.width);
    // SAFETY: see above.
    unsafe { launch(card, program.kernel(LABELLED), [places, 1], stream, &mut arguments) }
}
