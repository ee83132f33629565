//! Stable sorting along lines. The kernel is `order.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{Kind, argument, blocks, launch};
use crate::lines::Shape;
use crate::program::{Key, Program};

/// Writes the places of a line's elements in their order, as a row of `n` integers for each line. Two buffers are used in turn;
/// the result is the index of the one that has the places at the end. Lines have at least two elements.
///
/// # Safety
/// Keys are row-major and of this shape, each buffer has room for as many integers, and all are held for the stream.
pub unsafe fn sort(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut keys: u64,
    shape: Shape,
    buffers: [u64; 2],
    descending: bool,
) -> Result<usize> {
    let key: Key = ("sort", [Kind::Of(dtype).code(), 0, 0, 0, 0, 0, 0, 0]);
    let program = Program::find(card, key, &[c"sort"], || {
        format!(
            r#"#include "order.cuh"
using namespace rushlight;
extern "C" __global__ void sort(const u8* keys, u64 n, u64 inner, u32 descending, const i64* from, i64* to, u64 count, u64 width) {{
    merge_runs(SortKeys<{}, {}>{{keys, n, inner, descending != 0}}, from, to, count, width);
}}
"#,
            type_name(dtype),
            type_name(dtype.compute())
        )
    })?;
    let (mut n, mut inner, mut descending) = (shape.n as u64, shape.inner as u64, u32::from(descending));
    let mut count = (shape.outer * shape.n * shape.inner) as u64;
    let (mut from, mut target) = (0u64, 0);
    let mut width = 1u64;
    while width < n {
        let mut to = buffers[target];
        let mut arguments = [
            argument(&mut keys),
            argument(&mut n),
            argument(&mut inner),
            argument(&mut descending),
            argument(&mut from),
            argument(&mut to),
            argument(&mut count),
            argument(&mut width),
        ];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments)? };
        (from, target, width) = (to, 1 - target, width * 2);
    }
    Ok(1 - target)
}
