//! Weighted sums of a few elements along a dimension. The kernels are `taps.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// The elements after a dimension, those along it, points, and elements summed for each point.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TapsSizes {
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
    mut sizes: TapsSizes,
) -> Result<()> {
    let key = Key::new("taps", [ElementType::Of(dtype).code()]);
    let program = Program::find(card, key, &[c"at", c"spread"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "taps.cuh"
using namespace rushlight;
extern "C" __global__ void at(const {element}* x, const i64* indices, const {compute}* weights, {element}* out, u64 count,
                              TapsSizes sizes) {{
    line_taps<{element}, {compute}>(x, indices, weights, out, count, sizes);
}}
extern "C" __global__ void spread(const {element}* values, const i64* indices, const {compute}* weights, const i64* order,
                                  {element}* out, u64 count, TapsSizes sizes) {{
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
