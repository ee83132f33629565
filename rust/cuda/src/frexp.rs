//! Numbers as mantissas and exponents. The kernel is `frexp.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// Enqueues mantissas and exponents of `count` floats; exponents are integers of 32 bits.
///
/// # Safety
/// The operands have as many elements without gaps, and are held for the stream.
pub unsafe fn frexp(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut numbers, mut mantissas, mut exponents]: [u64; 3],
    count: usize,
) -> Result<()> {
    let program = Program::find(card, Key::new("frexp", [ElementType::Of(dtype).code()]), &[c"run"], || {
        let (element, compute) = (type_name(dtype), type_name(dtype.compute()));
        format!(
            r#"#include "frexp.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {element}* numbers, {element}* mantissas, i32* exponents, u64 count) {{
    frexp<{element}, {compute}>(numbers, mantissas, exponents, count);
}}
"#
        )
    })?;
    let mut count = count as u64;
    let mut arguments =
        [argument(&mut numbers), argument(&mut mantissas), argument(&mut exponents), argument(&mut count)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
