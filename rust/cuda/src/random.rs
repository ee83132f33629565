//! Random numbers of torch's stream for CUDA devices. The kernels are `random.cuh`.
//!
//! A call takes a range of offsets from its generator, so that no later call repeats its numbers. The number of threads decides
//! which element gets which number: it is torch's, and depends on the device.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{DIMS, ElementType, Loops, Numbers, THREADS, argument, blocks, launch};
use crate::program::{Key, Program};

/// A distribution and its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Distribution {
    Uniform {
        from: f64,
        to: f64,
    },
    /// Uniform numbers from `from` to `to`, as torch draws them for slopes.
    Slope {
        from: f64,
        to: f64,
    },
    Normal {
        mean: f64,
        std: f64,
    },
    LogNormal {
        mean: f64,
        std: f64,
    },
    Exponential {
        rate: f64,
    },
    Cauchy {
        median: f64,
        sigma: f64,
    },
    Geometric {
        p: f64,
    },
    Bernoulli {
        p: f64,
    },
    /// Integers from `base`, fewer than `range` further, of 64 bits if the range is `wide`.
    Between {
        range: u64,
        base: i64,
        wide: bool,
    },
    /// All integers of 64 bits.
    Whole,
}

impl Distribution {
    /// The name in the source, and the type of the numbers that are drawn.
    fn source(self, dtype: DType) -> (&'static str, &'static str) {
        let real = if dtype == DType::F64 { "f64" } else { "f32" };
        match self {
            Distribution::Uniform { .. } => ("Uniform", real),
            Distribution::Slope { .. } => ("Slope", real),
            Distribution::Normal { .. } => ("Normal", real),
            Distribution::LogNormal { .. } => ("LogNormal", real),
            Distribution::Exponential { .. } => ("Exponential", real),
            Distribution::Cauchy { .. } => ("Cauchy", real),
            Distribution::Geometric { .. } => ("Geometric", real),
            Distribution::Bernoulli { .. } => ("Bernoulli", real),
            Distribution::Between { wide, .. } => ("Between", if wide { "u64" } else { "u32" }),
            Distribution::Whole => ("Whole", "u64"),
        }
    }

    fn numbers(self) -> [[u64; 2]; 3] {
        let reals = |numbers: [f64; 3]| numbers.map(|number| [number.to_bits(), 0]);
        match self {
            Distribution::Uniform { from, to } => reals([from, to, to - from]),
            Distribution::Slope { from, to } => reals([from, to - from, 0.0]),
            Distribution::Normal { mean, std } | Distribution::LogNormal { mean, std } => reals([mean, std, 0.0]),
            Distribution::Exponential { rate } => reals([rate, 0.0, 0.0]),
            Distribution::Cauchy { median, sigma } => reals([median, sigma, 0.0]),
            Distribution::Geometric { p } | Distribution::Bernoulli { p } => reals([p, 0.0, 0.0]),
            Distribution::Between { range, base, .. } => [[range, 0], [base as u64, 0], [0, 0]],
            Distribution::Whole => [[0; 2]; 3],
        }
    }
}

/// How many blocks torch's kernels have for `count` elements.
fn grid(card: &Card, count: u64) -> u64 {
    let each = (card.properties.threads_per_multiprocessor / THREADS as i32).max(1);
    let most = (card.properties.multiprocessors.max(1) * each) as u64;
    count.div_ceil(u64::from(THREADS)).clamp(1, most)
}

/// How far a call moves its generator, if a thread draws `each` numbers of a block of four words.
fn words(card: &Card, count: u64, each: u64) -> u64 {
    count.div_ceil(u64::from(THREADS) * grid(card, count) * each) * 4
}

/// The words that a distribution takes for `count` elements.
pub fn words_of(card: &Card, distribution: Distribution, dtype: DType, count: usize) -> u64 {
    let (_, drawn) = distribution.source(dtype);
    words(card, count as u64, if drawn.ends_with("64") { 2 } else { 4 })
}

/// The words that a mask of dropout takes.
pub fn words_of_dropout(card: &Card, count: usize) -> u64 {
    words(card, count as u64, 4)
}

/// The words that trials with a probability for each element take.
pub const WORDS_OF_TRIALS: u64 = 12;

/// Where a call's numbers begin. In a graph the state of each run stands at the address `run`, and the offset counts from there.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub seed: u64,
    pub offset: u64,
    pub run: u64,
}

/// Fills a tensor, whose elements the nest visits.
///
/// # Safety
/// The nest stays within the tensor, which is held for the stream.
pub unsafe fn draw(
    card: &Card,
    stream: StreamId,
    distribution: Distribution,
    dtype: DType,
    out: u64,
    nest: &LoopNest<1>,
    mut place: Place,
) -> Result<()> {
    let mut loops = checked(nest)?;
    let (name, drawn) = distribution.source(dtype);
    let key = Key::new(name, [ElementType::Of(dtype).code(), u8::from(drawn == "u64")]);
    let program = Program::find(card, key, &[c"fill"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "random.cuh"
using namespace rushlight;
extern "C" __global__ void fill(u8* out, u64 count, Loops<1> loops, random::Place place, Numbers numbers) {{
    random::draw<random::{name}<{element}, {drawn}>, {drawn}, {element}>(out, count, loops, place, numbers);
}}
"#
        )
    })?;
    let mut numbers = Numbers::new(&distribution.numbers(), std::iter::empty())?;
    let mut count = nest.numel() as u64;
    let mut first = out.wrapping_add_signed(nest.bases()[0] as i64);
    let blocks = grid(card, count) as u32;
    let mut arguments = [
        argument(&mut first),
        argument(&mut count),
        argument(&mut loops),
        argument(&mut place),
        argument(&mut numbers),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks, 1], stream, &mut arguments) }
}

/// Draws whether an event of each element's probability occurs. The operands of the nest are the result and the probabilities, in
/// double precision if the result is.
///
/// # Safety
/// The nest stays within the operands, which are held for the stream.
pub unsafe fn trials(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [out, chances]: [u64; 2],
    nest: &LoopNest<2>,
    mut place: Place,
) -> Result<()> {
    let mut loops = checked(nest)?;
    let chance = if dtype == DType::F64 { "f64" } else { "f32" };
    let program = Program::find(card, Key::new("trials", [ElementType::Of(dtype).code()]), &[c"fill"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "random.cuh"
using namespace rushlight;
extern "C" __global__ void fill(u8* out, const u8* chances, u64 count, Loops<2> loops, random::Place place) {{
    random::trials<{element}, {chance}>(out, chances, count, loops, place);
}}
"#
        )
    })?;
    let mut count = nest.numel() as u64;
    let bases = nest.bases();
    let mut first = out.wrapping_add_signed(bases[0] as i64);
    let mut other = chances.wrapping_add_signed(bases[1] as i64);
    let mut arguments =
        [argument(&mut first), argument(&mut other), argument(&mut count), argument(&mut loops), argument(&mut place)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Fills a dense tensor with the mask of dropout: zeros with probability `p`, elsewhere `1 / (1 - p)`.
///
/// # Safety
/// There are `count` elements at `out`, which is held for the stream.
pub unsafe fn dropout(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut out: u64,
    count: usize,
    p: f64,
    mut place: Place,
) -> Result<()> {
    let program = Program::find(card, Key::new("dropout", [ElementType::Of(dtype).code()]), &[c"fill"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "random.cuh"
using namespace rushlight;
extern "C" __global__ void fill(u8* out, u64 count, u64 width, u64 threads, random::Place place, f64 kept, f64 factor) {{
    random::dropout<{element}>(out, count, width, threads, place, kept, factor);
}}
"#
        )
    })?;
    let mut count = count as u64;
    // The adjacent elements of 16 bytes if they divide the tensor, otherwise half of them, and so on.
    let mut width = 16 / dtype.size() as u64;
    while !count.is_multiple_of(width) {
        width /= 2;
    }
    let mut threads = grid(card, count) * u64::from(THREADS);
    let mut kept = if dtype == DType::F64 { 1.0 - p } else { f64::from((1.0 - p) as f32) };
    let mut factor = 1.0 / (1.0 - p);
    let mut arguments = [
        argument(&mut out),
        argument(&mut count),
        argument(&mut width),
        argument(&mut threads),
        argument(&mut place),
        argument(&mut kept),
        argument(&mut factor),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// The words that `shuffle_equal` takes.
pub fn words_of_shuffle(count: usize) -> u64 {
    count as u64
}

/// Shuffles the places of equal keys; see the kernel. Keys have the type of the dtype, an integer.
///
/// # Safety
/// There are `count` keys and places, both dense and held for the stream.
pub unsafe fn shuffle_equal(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    [mut keys, mut places]: [u64; 2],
    count: usize,
    mut place: Place,
) -> Result<()> {
    let key = Key::new("shuffle_equal", [ElementType::Of(dtype).code()]);
    let program = Program::find(card, key, &[c"shuffle"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "random.cuh"
using namespace rushlight;
extern "C" __global__ void shuffle(const {element}* keys, i64* places, u64 count, random::Place place) {{
    random::shuffle_equal(keys, places, count, place);
}}
"#
        )
    })?;
    let mut count = count as u64;
    let mut arguments = [argument(&mut keys), argument(&mut places), argument(&mut count), argument(&mut place)];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

/// The threads of a block, and the most rows of threads, of torch's kernel for samples with replacement.
const SAMPLERS: u64 = 128;
const MOST_ROWS: u64 = 65535;

/// The words that `one_each` takes.
pub fn words_of_one_each(rows: usize) -> u64 {
    4 * (rows as u64).div_ceil(MOST_ROWS)
}

/// Fills a dense tensor with uniform numbers, of which each has a block of words.
///
/// # Safety
/// There are `rows * columns` elements at `out`, which is held for the stream.
pub unsafe fn one_each(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    mut out: u64,
    [rows, columns]: [usize; 2],
    mut place: Place,
) -> Result<()> {
    let program = Program::find(card, Key::new("one_each", [ElementType::Of(dtype).code()]), &[c"fill"], || {
        let element = type_name(dtype);
        format!(
            r#"#include "random.cuh"
using namespace rushlight;
extern "C" __global__ void fill(u8* out, u64 count, u64 columns, u64 width, u64 rows, random::Place place) {{
    random::one_each<{element}>(out, count, columns, width, rows, place);
}}
"#
        )
    })?;
    let (mut count, mut columns) = ((rows * columns) as u64, columns as u64);
    let (mut width, mut rows) = (columns.next_multiple_of(SAMPLERS), (rows as u64).min(MOST_ROWS));
    let mut arguments = [
        argument(&mut out),
        argument(&mut count),
        argument(&mut columns),
        argument(&mut width),
        argument(&mut rows),
        argument(&mut place),
    ];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(0), [blocks(card, count), 1], stream, &mut arguments) }
}

pub(crate) fn checked<const N: usize>(nest: &LoopNest<N>) -> Result<Loops<N>> {
    if nest.rank() > DIMS {
        return Err(Error::runtime(format!("random numbers on CUDA fill at most {DIMS} separate dimensions")));
    }
    Ok(Loops::of(nest))
}
