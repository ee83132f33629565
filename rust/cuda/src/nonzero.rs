//! The positions of true elements, runs of equal elements, and counts. The kernels are `compact.cuh`.

use std::ffi::CStr;

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{Kind, THREADS, argument, blocks, launch};
use crate::program::{Kernel, Key, Program};

/// The elements of a block (`CHUNK` in the kernel).
pub const CHUNK: usize = 16 * THREADS as usize;

const NAMES: &[&CStr] = &[c"count", c"write", c"along", c"numbers"];
const COUNT: usize = 0;
const WRITE: usize = 1;
const ALONG: usize = 2;
const NUMBERS: usize = 3;

/// A kernel by its index among the names.
fn kernel(card: &Card, index: usize) -> Result<Kernel> {
    let program = Program::find(card, Key::new("compact", []), NAMES, || {
        r#"#include "compact.cuh"
using namespace rushlight;
extern "C" __global__ void count(const u8* mask, i64* counts, u64 count, u64 chunks) {
    count_true(mask, counts, count, chunks);
}
extern "C" __global__ void write(const u8* mask, const i64* ends, i64* to, u64 count, u64 chunks) {
    write_true(mask, ends, to, count, chunks);
}
extern "C" __global__ void along(const i64* places, i64* to, u64 count, u64 inner, u64 size) {
    coordinates(places, to, count, inner, size);
}
extern "C" __global__ void numbers(const i64* numbers, u64* counts, u64 count) { count_numbers(numbers, counts, count); }
"#
        .into()
    })?;
    Ok(program.kernel(index))
}

/// The blocks for chunks of this many elements.
fn chunks(card: &Card, count: usize) -> (u64, u32) {
    let chunks = count.div_ceil(CHUNK) as u64;
    (chunks, blocks(card, chunks.saturating_mul(u64::from(THREADS))))
}

/// Enqueues the number of true elements of each chunk, as integers of 64 bits.
///
/// # Safety
/// The mask has `count` bytes, there is room for a number for each chunk, and both are held for the stream.
pub unsafe fn count(card: &Card, stream: StreamId, [mut mask, mut counts]: [u64; 2], count: usize) -> Result<()> {
    let ((mut chunks, grid), mut count) = (chunks(card, count), count as u64);
    let mut arguments = [argument(&mut mask), argument(&mut counts), argument(&mut count), argument(&mut chunks)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, kernel(card, COUNT)?, [grid, 1], stream, &mut arguments) }
}

/// Enqueues the positions of true elements, from the numbers of those up to the end of each chunk.
///
/// # Safety
/// Same as for `count`, and there is room for all positions.
pub unsafe fn write(card: &Card, stream: StreamId, [mut mask, mut ends, mut to]: [u64; 3], count: usize) -> Result<()> {
    let ((mut chunks, grid), mut count) = (chunks(card, count), count as u64);
    let mut arguments =
        [argument(&mut mask), argument(&mut ends), argument(&mut to), argument(&mut count), argument(&mut chunks)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, kernel(card, WRITE)?, [grid, 1], stream, &mut arguments) }
}

/// Enqueues the coordinates of `count` places along a dimension of `size`, with `inner` elements for each of its indices.
///
/// # Safety
/// Both operands have as many integers of 64 bits, and are held for the stream.
pub unsafe fn along(
    card: &Card,
    stream: StreamId,
    [mut places, mut to]: [u64; 2],
    count: usize,
    [inner, size]: [usize; 2],
) -> Result<()> {
    let (mut count, mut inner, mut size) = (count as u64, inner as u64, size as u64);
    let mut arguments =
        [argument(&mut places), argument(&mut to), argument(&mut count), argument(&mut inner), argument(&mut size)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, kernel(card, ALONG)?, [blocks(card, count), 1], stream, &mut arguments) }
}

/// Adds to each number's count.
///
/// # Safety
/// There are `count` integers of 64 bits, a count of 64 bits for each of their values, and both are held for the stream.
pub unsafe fn count_numbers(
    card: &Card,
    stream: StreamId,
    [mut numbers, mut counts]: [u64; 2],
    count: usize,
) -> Result<()> {
    let mut count = count as u64;
    let mut arguments = [argument(&mut numbers), argument(&mut counts), argument(&mut count)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, kernel(card, NUMBERS)?, [blocks(card, count), 1], stream, &mut arguments) }
}

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
    let program = Program::find(card, Key::new("mark_runs", [Kind::Of(dtype).code()]), &[c"run"], || {
        // A bool in memory may be any byte.
        let element = if dtype == DType::Bool { "u8" } else { type_name(dtype) };
        let compute = type_name(dtype.compute());
        format!(
            r#"#include "compact.cuh"
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

/// The range of a histogram, and the width and the number of its bins as numbers of the elements' dtype.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bins {
    pub low: f64,
    pub high: f64,
    pub width: f64,
    pub number: f64,
    pub count: u64,
}

/// Adds to the count of each element's bin.
///
/// # Safety
/// There are `count` floats of the dtype, a count of 64 bits for each bin, and both are held for the stream.
pub unsafe fn count_bins(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut values, mut counts]: [u64; 2],
    count: usize,
    mut bins: Bins,
) -> Result<()> {
    let program = Program::find(card, Key::new("count_bins", [Kind::Of(dtype).code()]), &[c"run"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "compact.cuh"
using namespace rushlight;
extern "C" __global__ void run(const {element}* values, u64* counts, u64 count, Bins bins) {{ count_bins(values, counts, count, bins); }}
"#
        )
    })?;
    let mut count = count as u64;
    let mut arguments = [argument(&mut values), argument(&mut counts), argument(&mut count), argument(&mut bins)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}
