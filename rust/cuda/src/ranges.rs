//! Evenly spaced numbers. The kernels are `ranges.cuh`.

use std::ffi::CStr;

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

/// How the elements of a range follow from their positions.
#[derive(Clone, Copy)]
pub enum Range {
    /// Integers, modulo 2^64.
    Integers { first: i64, step: i64 },
    /// Numbers from the first one on.
    Steps { first: f64, step: f64 },
    /// Numbers from one end to the other, computed in single precision.
    Single { first: f32, last: f32, step: f32 },
    /// The same in double precision.
    Double { first: f64, last: f64, step: f64 },
}

const NAMES: &[&CStr] = &[c"integers", c"steps", c"single_between", c"double_between"];

/// Enqueues the elements of a range.
///
/// # Safety
/// There is room for `count` elements at `to`, which is held for the stream.
pub unsafe fn fill(card: &Card, stream: StreamId, dtype: DType, mut to: u64, count: usize, range: Range) -> Result<()> {
    let key = Key::new("ranges", [ElementType::Of(dtype).code()]);
    let program = Program::find(card, key, NAMES, || {
        let element = type_name(dtype);
        format!(
            r#"#include "ranges.cuh"
using namespace rushlight;
extern "C" __global__ void integers({element}* to, u64 count, i64 first, i64 step) {{ count_up(to, count, first, step); }}
extern "C" __global__ void steps({element}* to, u64 count, f64 first, f64 step) {{ step_on(to, count, first, step); }}
extern "C" __global__ void single_between({element}* to, u64 count, f32 first, f32 last, f32 step) {{
    fill_between(to, count, first, last, step);
}}
extern "C" __global__ void double_between({element}* to, u64 count, f64 first, f64 last, f64 step) {{
    fill_between(to, count, first, last, step);
}}
"#
        )
    })?;
    let (mut count, mut range) = (count as u64, range);
    let (kernel, numbers) = match &mut range {
        Range::Integers { first, step } => (0, [argument(first), argument(step)].to_vec()),
        Range::Steps { first, step } => (1, [argument(first), argument(step)].to_vec()),
        Range::Single { first, last, step } => (2, [argument(first), argument(last), argument(step)].to_vec()),
        Range::Double { first, last, step } => (3, [argument(first), argument(last), argument(step)].to_vec()),
    };
    let mut arguments = [&[argument(&mut to), argument(&mut count)], &numbers[..]].concat();
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(kernel), [blocks(card, count), 1], stream, &mut arguments) }
}
