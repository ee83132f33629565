//! The positions of true elements. The kernels are `nonzero.cuh`.

use std::ffi::CStr;

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use crate::card::Card;
use crate::launch::{THREADS, argument, blocks, launch};
use crate::program::{Kernel, Key, Program};

/// The elements of a block (`CHUNK` in the kernel).
pub const CHUNK: usize = 16 * THREADS as usize;

const NAMES: &[&CStr] = &[c"count", c"write", c"along"];
const COUNT: usize = 0;
const WRITE: usize = 1;
const ALONG: usize = 2;

/// A kernel by its index among the names.
fn kernel(card: &Card, index: usize) -> Result<Kernel> {
    let program = Program::find(card, Key::new("nonzero", []), NAMES, || {
        r#"#include "nonzero.cuh"
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
