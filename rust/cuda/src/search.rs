//! Positions of values in sorted lines, and what follows from lines that are sorted. The kernels are `search.cuh`.

use std::ffi::{CStr, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::cumulative::Lines;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Kernel, Key, Program};

const NAMES: &[&CStr] = &[c"positions", c"members", c"middle", c"mode"];
const POSITIONS: usize = 0;
const MEMBERS: usize = 1;
const MIDDLE: usize = 2;
const MODE: usize = 3;

/// A kernel by its index among the names.
fn kernel(card: &Card, dtype: DType, index: usize) -> Result<Kernel> {
    let program = Program::find(card, Key::new("search", [ElementType::Of(dtype).code()]), NAMES, || {
        // A bool in memory may be any byte.
        let element = if dtype == DType::Bool { "u8" } else { type_name(dtype) };
        let compute = type_name(dtype.compute());
        format!(
            r#"#include "search.cuh"
using namespace rushlight;
extern "C" __global__ void positions(const {element}* sorted, const {element}* values, i64* to, u64 count, u64 length, u64 per_line,
                                     u32 right) {{
    search<{element}, {compute}>(sorted, values, to, count, length, per_line, right);
}}
extern "C" __global__ void members(const {element}* sorted, const {element}* values, u8* to, u64 count, u64 length, u32 invert) {{
    find_members<{element}, {compute}>(sorted, values, to, count, length, invert);
}}
extern "C" __global__ void middle(const {element}* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner, u32 skips) {{
    find_middle<{element}, {compute}>(elements, places, to, lines, n, inner, skips);
}}
extern "C" __global__ void mode(const {element}* elements, const i64* places, i64* to, u64 lines, u64 n, u64 inner) {{
    find_mode<{element}, {compute}>(elements, places, to, lines, n, inner);
}}
"#
        )
    })?;
    Ok(program.kernel(index))
}

/// # Safety
/// Same as for `launch`.
unsafe fn run(card: &Card, stream: StreamId, kernel: Kernel, work: u64, arguments: &mut [*mut c_void]) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe { launch(card, kernel, [blocks(card, work), 1], stream, arguments) }
}

/// The number of values, the length of a line, and how many values belong to each line.
#[derive(Clone, Copy)]
pub struct Search {
    pub count: usize,
    pub length: usize,
    pub per_line: usize,
    /// After equal elements.
    pub right: bool,
}

/// Enqueues the positions of values in sorted lines, as integers of 64 bits.
///
/// # Safety
/// The operands, lines and values of the dtype, and the result are row-major, of these sizes, and held for the stream.
pub unsafe fn positions(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut sorted, mut values, mut to]: [u64; 3],
    search: Search,
) -> Result<()> {
    let (mut count, mut length) = (search.count as u64, search.length as u64);
    let (mut per_line, mut right) = (search.per_line.max(1) as u64, u32::from(search.right));
    let mut arguments = [
        argument(&mut sorted),
        argument(&mut values),
        argument(&mut to),
        argument(&mut count),
        argument(&mut length),
        argument(&mut per_line),
        argument(&mut right),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, POSITIONS)?, count, &mut arguments) }
}

/// Enqueues whether each of `count` values is among `length` sorted ones, or with `invert` is not, as bytes.
///
/// # Safety
/// The operands and the result are row-major, of these sizes, and held for the stream.
pub unsafe fn members(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut sorted, mut values, mut to]: [u64; 3],
    [count, length]: [usize; 2],
    invert: bool,
) -> Result<()> {
    let (mut count, mut length, mut invert) = (count as u64, length as u64, u32::from(invert));
    let mut arguments = [
        argument(&mut sorted),
        argument(&mut values),
        argument(&mut to),
        argument(&mut count),
        argument(&mut length),
        argument(&mut invert),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, MEMBERS)?, count, &mut arguments) }
}

/// Which element of a sorted line is wanted.
#[derive(Clone, Copy)]
pub enum Pick {
    /// The lower one in the middle; NaN if there is one and NaN is not skipped.
    Middle { skips: bool },
    /// The last of the most frequent ones, the smallest of several.
    Mode,
}

/// Enqueues the place of an element of each line, from elements and the places that sort their lines: a row of `n` integers of 64
/// bits for each. Lines are not empty.
///
/// # Safety
/// The operands and the result are row-major, of this shape, and held for the stream.
pub unsafe fn pick(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut elements, mut places, mut to]: [u64; 3],
    shape: Lines,
    pick: Pick,
) -> Result<()> {
    let (mut lines, mut n, mut inner) = ((shape.outer * shape.inner) as u64, shape.n as u64, shape.inner as u64);
    let (index, mut skips) = match pick {
        Pick::Middle { skips } => (MIDDLE, u32::from(skips)),
        Pick::Mode => (MODE, 0),
    };
    let mut arguments = vec![
        argument(&mut elements),
        argument(&mut places),
        argument(&mut to),
        argument(&mut lines),
        argument(&mut n),
        argument(&mut inner),
    ];
    if index == MIDDLE {
        arguments.push(argument(&mut skips));
    }
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { run(card, stream, kernel(card, dtype, index)?, lines, &mut arguments) }
}
