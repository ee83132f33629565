//! The beginnings of runs of equal elements. The kernel is `unique.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// Enqueues for each element whether it differs from the one before it, as bytes.
///
/// # Safety
/// There are `count` elements of the dtype and as many bytes, both held for the stream.
pub unsafe fn mark_runs(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut values, mut to]: [u64; 2],
    count: usize,
) -> Result<()> {
    let program = Program::find(card, Key::new("mark_runs", [ElementType::Of(dtype).code()]), &[c"run"], || {
        // A bool in memory may be any byte.
        let element = if dtype == DType::Bool { "u8" } else { type_name(dtype) };
        let compute = type_name(dtype.compute());
        format!(
            r#"#include "unique.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {element}* values, u8* to, u64 count) {{ mark_runs<{element}, {compute}>(values, to, count); }}
"#
        )
    })?;
    let mut count = count as u64;
    let mut arguments = [argument(&mut values), argument(&mut to), argument(&mut count)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
