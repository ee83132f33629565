//! Cumulative results along lines, and results of whole lines. The kernels are `cumulative.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::launch::{ElementType, Pointers, THREADS, argument, blocks, launch};
use crate::program::{Key, Program};
use crate::workspace::Workspace;

/// What is accumulated. The first dtype is that of the elements, the second that of the arithmetic.
#[derive(Clone, Copy)]
pub enum Accumulation {
    Sum {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    Product {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    LogSum {
        element: DType,
        compute: DType,
        sum: DType,
        result: DType,
    },
    /// The greatest or the least element, and the index of the first or the last of equal ones.
    Best {
        element: DType,
        compute: DType,
        up: bool,
        first: bool,
    },
    /// `x + factor * before`, with the factors as a second input.
    Recurrence {
        element: DType,
        compute: DType,
    },
}

impl Accumulation {
    /// The bytes of an accumulation.
    fn size(self) -> usize {
        match self {
            Accumulation::Sum { sum, .. } | Accumulation::Product { sum, .. } | Accumulation::LogSum { sum, .. } => {
                sum.size()
            }
            Accumulation::Best { .. } => 2 * size_of::<i64>(),
            Accumulation::Recurrence { compute, .. } => 2 * compute.size(),
        }
    }

    /// The type in the source, and what distinguishes the program from others.
    fn source(self) -> (String, &'static str, [u8; 4]) {
        let name = |dtype: DType| ElementType::Of(dtype).name();
        let code = |dtype: DType| ElementType::Of(dtype).code();
        let sums = |title: &'static str, dtypes: [DType; 4]| {
            let [element, compute, sum, result] = dtypes.map(name);
            (format!("{title}<{element}, {compute}, {sum}, {result}>"), title, dtypes.map(code))
        };
        match self {
            Accumulation::Sum { element, compute, sum, result } => {
                sums("CumulativeSum", [element, compute, sum, result])
            }
            Accumulation::Product { element, compute, sum, result } => {
                sums("CumulativeProduct", [element, compute, sum, result])
            }
            Accumulation::LogSum { element, compute, sum, result } => {
                sums("CumulativeLogSum", [element, compute, sum, result])
            }
            Accumulation::Best { element, compute, up, first } => {
                let codes = [code(element), code(compute), u8::from(up), u8::from(first)];
                (format!("Best<{}, {}, {up}, {first}>", name(element), name(compute)), "Best", codes)
            }
            Accumulation::Recurrence { element, compute } => {
                let codes = [code(element), code(compute), 0, 0];
                (format!("Recurrence<{}, {}>", name(element), name(compute)), "Recurrence", codes)
            }
        }
    }
}

/// The shape of operands: `outer` blocks of `n` times `inner` elements.
#[derive(Clone, Copy)]
pub struct Lines {
    pub outer: usize,
    pub n: usize,
    pub inner: usize,
}

/// The blocks that share the work if there are few lines, and the least number of tiles that are worth a block.
const ENOUGH_BLOCKS: usize = 1024;
const LEAST_TILES: usize = 4;

/// How a kernel goes through lines: `LineShape` of the skeleton.
#[derive(Clone, Copy)]
#[repr(C)]
struct LineShape {
    lines: u64,
    n: u64,
    inner: u64,
    piece: u64,
    pieces: u64,
    thread_bits: u32,
}

impl LineShape {
    /// Lines in one piece each if `whole`, or if there are enough of them.
    fn new(shape: Lines, item_bits: u32, whole: bool) -> LineShape {
        let Lines { outer, n, inner } = shape;
        let lines = outer * inner;
        // Neighbouring threads take neighbouring elements: those of a line, or of up to 32 lines that are adjacent.
        let beside = inner.next_power_of_two().min(32);
        let threads = n.div_ceil(1 << item_bits).next_power_of_two().min(THREADS as usize / beside);
        let (rows, columns) = (threads << item_bits, THREADS as usize / threads);
        let (tiles, groups) = (n.div_ceil(rows), lines.div_ceil(columns));
        let wanted = if whole || groups > ENOUGH_BLOCKS / LEAST_TILES { 1 } else { ENOUGH_BLOCKS / groups };
        let piece = tiles.div_ceil(wanted).max(LEAST_TILES) * rows;
        LineShape {
            lines: lines as u64,
            n: n as u64,
            inner: inner as u64,
            piece: piece as u64,
            pieces: n.div_ceil(piece) as u64,
            thread_bits: threads.trailing_zeros(),
        }
    }

    /// The number of blocks that have work.
    fn grid(&self, card: &Card) -> [u32; 2] {
        let columns = u64::from(THREADS) >> self.thread_bits;
        [blocks(card, self.lines.div_ceil(columns).saturating_mul(self.pieces).saturating_mul(u64::from(THREADS))), 1]
    }
}

const RESULTS: usize = 0;
const TOTALS: usize = 1;
const JOINED: usize = 2;

/// Accumulates lines that have elements. `operands` are two results, of which the first may be zero, and two inputs. With `each`
/// there is a result for every element, otherwise for every line.
///
/// # Safety
/// The operands are row-major, of this shape, and held for the stream.
pub unsafe fn accumulate(
    card: &Card,
    stream: StreamId,
    what: Accumulation,
    operands: [u64; 4],
    shape: Lines,
    each: bool,
) -> Result<()> {
    // A thread takes 64 bytes of accumulations, and at most 8 of them.
    let item_bits = (64 / what.size()).min(8).ilog2();
    let (text, title, codes) = what.source();
    let along = shape.inner == 1;
    // How many blocks of a multiprocessor share its registers.
    let resident = match (along, what.size()) {
        (true, _) => 4,
        (false, ..=16) => 3,
        (false, _) => 2,
    };
    let mut lines = LineShape::new(shape, item_bits, false);
    let alone = along && lines.thread_bits == THREADS.trailing_zeros();
    let key = Key::new(title, codes.into_iter().chain([each, along, alone].map(u8::from)));
    let program = Program::find(card, key, &[c"results", c"totals", c"joined"], || {
        format!(
            r#"#include "cumulative.cuh"
using namespace rushlight;
typedef {text} What;
typedef rushlight::Lines<What, {item_bits}, {each}, {along}, {alone}> Rows;
extern "C" __global__ void __launch_bounds__(THREADS, {resident}) results(LineOperands operands, LineShape shape, const What::A* before) {{
    Rows::run(operands, shape, before, nullptr);
}}
extern "C" __global__ void __launch_bounds__(THREADS, {resident}) totals(LineOperands operands, LineShape shape, What::A* totals) {{
    Rows::run(operands, shape, nullptr, totals);
}}
extern "C" __global__ void __launch_bounds__(THREADS) joined(LineOperands operands, LineShape shape) {{
    rushlight::Lines<Joined<What, {each}>, {item_bits}, {each}, true, false>::run(operands, shape, nullptr, nullptr);
}}
"#
        )
    })?;
    let mut pointers = Pointers(operands);
    let grid = lines.grid(card);
    let mut before = 0u64;
    if lines.pieces == 1 {
        let mut arguments = [argument(&mut pointers), argument(&mut lines), argument(&mut before)];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        return unsafe { launch(card, program.kernel(RESULTS), grid, stream, &mut arguments) };
    }
    let pieces = Lines { outer: shape.outer * shape.inner, n: lines.pieces as usize, inner: 1 };
    let totals = Workspace::new(card.index, stream, pieces.outer * pieces.n * what.size())?;
    before = totals.pointer().addr() as u64;
    let mut arguments = [argument(&mut pointers), argument(&mut lines), argument(&mut before)];
    // SAFETY: as above; there is room for a total of every piece.
    unsafe { launch(card, program.kernel(TOTALS), grid, stream, &mut arguments)? };
    let (mut totals, mut pieces) =
        (Pointers([operands[0], operands[1], before, 0]), LineShape::new(pieces, item_bits, true));
    let grid_of_pieces = pieces.grid(card);
    let mut joined = [argument(&mut totals), argument(&mut pieces)];
    // SAFETY: as above.
    unsafe { launch(card, program.kernel(JOINED), grid_of_pieces, stream, &mut joined)? };
    if !each {
        return Ok(());
    }
    // SAFETY: as above.
    unsafe { launch(card, program.kernel(RESULTS), grid, stream, &mut arguments) }
}
