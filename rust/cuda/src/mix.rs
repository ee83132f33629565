//! Weighted sums of a few elements of each plane. The kernels are `mix.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// Items, channels, elements of a plane, points, and elements mixed for each point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MixSizes {
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
    mut sizes: MixSizes,
) -> Result<()> {
    let key = Key::new("mix", [ElementType::Of(dtype).code()]);
    let program = Program::find(card, key, &[c"at", c"spread", c"meet"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "mix.cuh"
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
