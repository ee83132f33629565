//! Counts of numbers and of the elements of bins. The kernels are `counts.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, argument, blocks, launch};
use crate::program::{Key, Program};

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
    let program = Program::find(card, Key::new("count_numbers", []), &[c"run"], || {
        r#"#include "counts.cuh"
using namespace rushlight;
extern "C" __global__ void run(const i64* numbers, u64* counts, u64 count) { count_numbers(numbers, counts, count); }
"#
        .into()
    })?;
    let mut count = count as u64;
    let mut arguments = [argument(&mut numbers), argument(&mut counts), argument(&mut count)];
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
    let program = Program::find(card, Key::new("count_bins", [ElementType::Of(dtype).code()]), &[c"run"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "counts.cuh"
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
