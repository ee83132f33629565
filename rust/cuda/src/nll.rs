//! The negative log-likelihood of target classes. The kernels are `nll.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// The targets of a call, in int64, and the weights of the classes in the dtype of the scores, or 0: their addresses, the number of
/// targets, of classes and of targets of a sample, and the target that counts nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NllTargets {
    pub targets: u64,
    pub weights: u64,
    pub count: u64,
    pub classes: u64,
    pub spots: u64,
    pub ignored: i64,
}

fn program(card: &Card, dtype: DType) -> Result<Program> {
    let names: &[_] = &[c"losses", c"gradients"];
    Program::find(card, Key::new("nll", [ElementType::Of(dtype).code()]), names, || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "nll.cuh"
using namespace rushlight;
extern "C" __global__ void losses(const {element}* scores, {compute}* losses, {compute}* weights, NllTargets<{element}> own,
                                  u64* outside) {{
    nll_losses<{element}, {compute}>(scores, losses, weights, own, outside);
}}
extern "C" __global__ void gradients({element}* out, const {compute}* grads, u32 each, const {compute}* total,
                                     NllTargets<{element}> own) {{
    nll_gradients<{element}, {compute}>(out, grads, each, total, own);
}}
"#
        )
    })
}

/// Enqueues the loss and the weight of each target, in the compute dtype. The eight bytes at `outside` become the first position whose
/// target is no class.
///
/// # Safety
/// The operands are row-major, of the sizes of the targets, and held for the stream, as `outside` is.
pub unsafe fn losses(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut scores: u64,
    [mut losses, mut weights]: [u64; 2],
    mut targets: NllTargets,
    mut outside: u64,
) -> Result<()> {
    let mut arguments = [
        argument(&mut scores),
        argument(&mut losses),
        argument(&mut weights),
        argument(&mut targets),
        argument(&mut outside),
    ];
    let grid = [blocks(card, targets.count), 1];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program(card, dtype)?.kernel(0), grid, stream, &mut arguments) }
}

/// Enqueues the gradients of all scores, from those of the losses: one for `each` target, or one for all, over the number at `total`
/// unless it is 0. Both are in the compute dtype.
///
/// # Safety
/// Same as for `losses`.
pub unsafe fn gradients(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut out: u64,
    (mut grads, each): (u64, bool),
    mut total: u64,
    mut targets: NllTargets,
) -> Result<()> {
    let mut each = u32::from(each);
    let grid = [blocks(card, targets.count * targets.classes), 1];
    let mut arguments =
        [argument(&mut out), argument(&mut grads), argument(&mut each), argument(&mut total), argument(&mut targets)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program(card, dtype)?.kernel(1), grid, stream, &mut arguments) }
}
