//! Weighted sums of a few elements of each plane, and blocks of images. The kernels are `sampling.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{Kind, argument, blocks, launch};
use crate::pool::Axis;
use crate::program::{Key, Program};

/// Items, channels, elements of a plane, points, and elements mixed for each point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sizes {
    pub items: u64,
    pub channels: u64,
    pub area: u64,
    pub places: u64,
    pub taps: u64,
}

/// The form of the sum, with the addresses of its operands.
#[derive(Clone, Copy)]
pub enum Mix {
    /// The mixture at each point, from the planes, the indices and the weights.
    At { planes: u64, indices: u64, weights: u64 },
    /// The planes, from values at the points; `order` has the taps of each item sorted by their indices.
    Spread { values: u64, indices: u64, weights: u64, order: u64 },
    /// The weights, from values at the points and the planes.
    Meet { values: u64, planes: u64, indices: u64 },
}

/// Enqueues the sums. Indices and the order are integers of 64 bits.
///
/// # Safety
/// The operands and the result are row-major, of these sizes, and held for the stream; the order has each tap of an item once.
pub unsafe fn mix(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    what: Mix,
    mut out: u64,
    mut sizes: Sizes,
) -> Result<()> {
    let key = Key::new("mix", [Kind::Of(dtype).code()]);
    let program = Program::find(card, key, &[c"at", c"spread", c"meet"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "sampling.cuh"
using namespace rushlight;
extern "C" __global__ void at(const {element}* x, const i64* indices, const {element}* weights, {element}* out, u64 count,
                              MixSizes sizes) {{
    mix<{element}, {compute}>(x, indices, weights, out, count, sizes);
}}
extern "C" __global__ void spread(const {element}* values, const i64* indices, const {element}* weights, const i64* order,
                                  {element}* out, u64 count, MixSizes sizes) {{
    mix_spread<{element}, {compute}>(values, indices, weights, order, out, count, sizes);
}}
extern "C" __global__ void meet(const {element}* values, const {element}* x, const i64* indices, {element}* out, u64 count,
                                MixSizes sizes) {{
    mix_meet<{element}, {compute}>(values, x, indices, out, count, sizes);
}}
"#
        )
    })?;
    let (place, mut operands, each) = match what {
        Mix::At { planes, indices, weights } => (0, vec![planes, indices, weights], sizes.channels * sizes.places),
        Mix::Spread { values, indices, weights, order } => {
            (1, vec![values, indices, weights, order], sizes.channels * sizes.area)
        }
        Mix::Meet { values, planes, indices } => (2, vec![values, planes, indices], sizes.places * sizes.taps),
    };
    let mut count = sizes.items * each;
    let mut arguments: Vec<_> = operands.iter_mut().map(argument).collect();
    arguments.extend([argument(&mut out), argument(&mut count), argument(&mut sizes)]);
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(place), [blocks(card, count), 1], stream, &mut arguments) }
}

/// The elements after a dimension, those along it, points, and elements summed for each point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LineSizes {
    pub inner: u64,
    pub area: u64,
    pub places: u64,
    pub taps: u64,
}

/// Enqueues `count` sums along a dimension of elements, by indices and weights; or with an order of the taps by their indices the
/// elements of which they are sums. Indices and the order are integers of 64 bits, weights are in the compute dtype.
///
/// # Safety
/// The operands and the result are row-major, of these sizes, and held for the stream; the order has each tap once.
pub unsafe fn taps(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut elements, mut indices, mut weights]: [u64; 3],
    order: Option<u64>,
    mut out: u64,
    count: usize,
    mut sizes: LineSizes,
) -> Result<()> {
    let key = Key::new("taps", [Kind::Of(dtype).code()]);
    let program = Program::find(card, key, &[c"at", c"spread"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "sampling.cuh"
using namespace rushlight;
extern "C" __global__ void at(const {element}* x, const i64* indices, const {compute}* weights, {element}* out, u64 count,
                              LineSizes sizes) {{
    line_taps<{element}, {compute}>(x, indices, weights, out, count, sizes);
}}
extern "C" __global__ void spread(const {element}* values, const i64* indices, const {compute}* weights, const i64* order,
                                  {element}* out, u64 count, LineSizes sizes) {{
    line_taps_spread<{element}, {compute}>(values, indices, weights, order, out, count, sizes);
}}
"#
        )
    })?;
    let kernel = program.kernel(usize::from(order.is_some()));
    let (mut count, mut order) = (count as u64, order);
    let mut arguments = vec![argument(&mut elements), argument(&mut indices), argument(&mut weights)];
    arguments.extend(order.as_mut().map(argument));
    arguments.extend([argument(&mut out), argument(&mut count), argument(&mut sizes)]);
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, kernel, [blocks(card, count), 1], stream, &mut arguments) }
}

/// Windows over rows and columns of images.
#[repr(C)]
#[derive(Clone, Copy)]
struct Blocks {
    high: Axis,
    wide: Axis,
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
    let element = Kind::Raw(width as u8);
    let program = Program::find(card, Key::new("unfold", [element.code()]), &[c"run"], || {
        format!(
            r#"#include "sampling.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {0}* images, {0}* columns, u64 count, Blocks blocks) {{
    unfold(images, columns, count, blocks);
}}
"#,
            element.name()
        )
    })?;
    let mut sizes = Blocks { high: Axis::of(&axes[0]), wide: Axis::of(&axes[1]) };
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
    let program = Program::find(card, Key::new("fold", [Kind::Of(dtype).code()]), &[c"run"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "sampling.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {element}* columns, {element}* images, u64 count, Blocks blocks) {{
    fold<{element}, {compute}>(columns, images, count, blocks);
}}
"#
        )
    })?;
    let mut sizes = Blocks { high: Axis::of(&axes[0]), wide: Axis::of(&axes[1]) };
    let mut count = axes.iter().fold(count as u64, |all, dim| all * dim.input as u64);
    let mut arguments = [argument(&mut columns), argument(&mut images), argument(&mut count), argument(&mut sizes)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
