//! Blocks of images as columns, and back. The kernels are `fold.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::pool::PoolAxis;
use crate::program::{Key, Program};

/// Windows over rows and columns of images.
#[repr(C)]
#[derive(Clone, Copy)]
struct Blocks {
    high: PoolAxis,
    wide: PoolAxis,
}

/// Enqueues the blocks of `count` images as columns of elements of `width` bytes.
///
/// # Safety
/// The operands, images and columns, are row-major, of these sizes, and held for the stream.
pub unsafe fn unfold(
    card: &Card,
    stream: StreamId,
    width: usize,
    [mut images, mut columns]: [u64; 2],
    count: usize,
    axes: &[WindowDim; 2],
) -> Result<()> {
    let element = ElementType::Raw(width as u8);
    let program = Program::find(card, Key::new("unfold", [element.code()]), &[c"run"], || {
        format!(
            r#"#include "fold.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {0}* images, {0}* columns, u64 count, Blocks blocks) {{
    unfold(images, columns, count, blocks);
}}
"#,
            element.name()
        )
    })?;
    let mut sizes = Blocks { high: PoolAxis::of(&axes[0]), wide: PoolAxis::of(&axes[1]) };
    let mut count = axes.iter().fold(count as u64, |all, dim| all * (dim.output * dim.kernel) as u64);
    let mut arguments = [argument(&mut images), argument(&mut columns), argument(&mut count), argument(&mut sizes)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Enqueues the sums of columns into `count` images.
///
/// # Safety
/// The operands, columns and images, are row-major, of these sizes, and held for the stream.
pub unsafe fn fold(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut columns, mut images]: [u64; 2],
    count: usize,
    axes: &[WindowDim; 2],
) -> Result<()> {
    let program = Program::find(card, Key::new("fold", [ElementType::Of(dtype).code()]), &[c"run"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "fold.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {element}* columns, {element}* images, u64 count, Blocks blocks) {{
    fold<{element}, {compute}>(columns, images, count, blocks);
}}
"#
        )
    })?;
    let mut sizes = Blocks { high: PoolAxis::of(&axes[0]), wide: PoolAxis::of(&axes[1]) };
    let mut count = axes.iter().fold(count as u64, |all, dim| all * dim.input as u64);
    let mut arguments = [argument(&mut columns), argument(&mut images), argument(&mut count), argument(&mut sizes)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
