//! Convolutions that cuDNN (`cudnn`) does not compute, and their gradients, without a copy of the windows. The kernels are
//! `convolution.cuh`.

use rushlight_core::convolution::{Computed, Geometry};
use rushlight_core::device_memory::StreamId;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::type_name;
use crate::launch::{ElementType, Loops, argument, blocks, launch};
use crate::program::{Key, Program};

/// A tensor of five dimensions: its first byte, and the distances in bytes along them.
#[derive(Clone, Copy)]
pub struct Operand {
    pub first_byte: u64,
    pub strides: [i64; 5],
}

/// Where an operand lies, for one group of channels.
#[repr(C)]
#[derive(Clone, Copy)]
struct ConvolutionOperand {
    first_byte: u64,
    group: i64,
    steps: [i64; 3],
    sizes: [i64; 3],
}

/// A dimension of space.
#[repr(C)]
#[derive(Clone, Copy)]
struct ConvolutionAxis {
    padding: i64,
    stride: i64,
    dilation: i64,
    phases: i64,
}

/// The parameter of the kernels, where it is called `Convolution`.
#[repr(C)]
struct Parameters {
    /// The factor, the windows and the result.
    operands: [ConvolutionOperand; 3],
    axes: [ConvolutionAxis; 3],
    rows: Loops<8>,
    columns: Loops<8>,
    inner: Loops<8>,
    row_count: u64,
    column_count: u64,
    inner_count: u64,
    groups: u64,
    phases: u64,
    pieces: u64,
    length: u64,
    bias: u64,
    bias_step: i64,
    of_input: u32,
    factor_along: u32,
    windows_along: u32,
}

/// The positions of the three tensors among operands.
const INPUT: usize = 0;
const WEIGHT: usize = 1;
const OUTPUT: usize = 2;

/// The side of the square that a block computes, and the depth of the deepest slice (`HalfSquare` in the kernels).
const SQUARE: u64 = 64;
const DEPTH: u64 = 32;

// No card has measured the next four numbers: they follow from counts.

/// Groups with fewer rows are not computed in squares: the rows would fill a sixteenth of a square at most.
const FEW_ROWS: u64 = 5;
/// With fewer blocks the inner dimension is cut into pieces: large cards have about 130 multiprocessors, which run two blocks each.
const ENOUGH_BLOCKS: u64 = 256;
/// A piece is not shorter, so that there are a hundred products and more for each sum that is written and read again.
const LEAST_PIECE: u64 = 256;
/// The most blocks with a result each; they take further results in turn.
const MOST_BLOCKS: u64 = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Squares,
    Threads,
    Blocks,
}

/// A part of the number of a row, a column, or a place along the inner dimension: how many values it has, and how far each of
/// them moves in input, weight and output: in bytes, and along the dimensions of space.
#[derive(Clone, Copy)]
struct Digit {
    count: u64,
    moves: [[i64; 4]; 3],
}

impl Digit {
    /// Moves so many elements along a dimension of two operands.
    fn new(count: usize, operands: &[Operand; 3], moved: [(usize, usize, i64); 2]) -> Digit {
        let mut moves = [[0; 4]; 3];
        for (operand, dim, by) in moved {
            moves[operand][0] = operands[operand].strides[dim].wrapping_mul(by);
            if let Some(of_space) = dim.checked_sub(2) {
                moves[operand][1 + of_space] = by;
            }
        }
        Digit { count: count as u64, moves }
    }
}

/// A convolution as a product of a factor with windows.
pub struct Convolution {
    dtype: DType,
    form: Form,
    /// Whether numbers exceed 32 bits.
    wide: bool,
    parameters: Parameters,
}

impl Convolution {
    /// Computes one tensor from the other two of input, weight and output; `bias` has an element for each channel of the result, at
    /// a distance in bytes.
    pub fn new(
        computed: Computed,
        dtype: DType,
        geometry: &Geometry,
        operands: [Operand; 3],
        bias: Option<(u64, i64)>,
    ) -> Convolution {
        let axes = geometry.space.each_ref().map(|dim| ConvolutionAxis::of(dim, computed));
        let digit = |count: usize, moved| Digit::new(count, &operands, moved);
        let features = digit(geometry.features, [(WEIGHT, 0, 1), (OUTPUT, 1, 1)]);
        let channels = digit(geometry.channels, [(WEIGHT, 1, 1), (INPUT, 1, 1)]);
        let batch = digit(geometry.batch, [(INPUT, 0, 1), (OUTPUT, 0, 1)]);
        // For the input as many pixels and taps as the phase with the most of them has.
        let pixels = |dim: usize| {
            let (window, stride) = (&geometry.space[dim], axes[dim].stride);
            let count =
                if computed == Computed::Input { window.input.div_ceil(stride as usize) } else { window.output };
            digit(count, [(INPUT, 2 + dim, stride), (OUTPUT, 2 + dim, 1)])
        };
        let taps = |dim: usize| {
            let kernel = geometry.space[dim].kernel;
            if computed != Computed::Input {
                return digit(kernel, [(WEIGHT, 2 + dim, 1), (INPUT, 2 + dim, axes[dim].dilation)]);
            }
            let [taps, elements] = axes[dim].of_phase();
            digit(kernel.div_ceil(taps as usize), [(WEIGHT, 2 + dim, taps), (OUTPUT, 2 + dim, -elements)])
        };
        let whole = |first: Digit, space: &dyn Fn(usize) -> Digit| [first, space(0), space(1), space(2)];
        let (roles, row, columns, inner) = match computed {
            Computed::Output => ([WEIGHT, INPUT, OUTPUT], features, whole(batch, &pixels), whole(channels, &taps)),
            Computed::Input => ([WEIGHT, OUTPUT, INPUT], channels, whole(batch, &pixels), whole(features, &taps)),
            Computed::Weight => ([OUTPUT, INPUT, WEIGHT], features, whole(channels, &taps), whole(batch, &pixels)),
        };
        let [factor, windows, result] = roles;
        // Windows are read in the order in which they lie in memory.
        let (columns, inner) = (ordered(columns, windows), ordered(inner, windows));
        let sizes = [geometry.input(), geometry.kernel(), geometry.output()];
        // The dimension of an operand that groups divide, and the length of a part.
        let groups = [(1, geometry.channels), (0, geometry.features), (1, geometry.features)];
        let place = |role: usize| ConvolutionOperand {
            first_byte: operands[role].first_byte,
            group: groups[role].1 as i64 * operands[role].strides[groups[role].0],
            steps: [2, 3, 4].map(|dim| operands[role].strides[dim]),
            sizes: sizes[role].map(|size| size as i64),
        };
        let width = dtype.size() as i64;
        let row_count = row.count;
        let phases = axes.iter().fold(1, |all: u64, axis| all.saturating_mul(axis.phases as u64));
        let mut parameters = Parameters {
            operands: roles.map(place),
            axes,
            factor_along: u32::from(runs(&inner, factor, width) > runs(&[row], factor, width)),
            windows_along: u32::from(runs(&inner, windows, width) > runs(&columns, windows, width)),
            rows: loops(&[row], [factor, result]),
            columns: loops(&columns, [windows, result]),
            inner: loops(&inner, [factor, windows]),
            row_count,
            column_count: count(&columns),
            inner_count: count(&inner),
            groups: geometry.groups as u64,
            phases,
            pieces: 1,
            length: u64::MAX,
            bias: bias.map_or(0, |(first_byte, _)| first_byte),
            bias_step: bias.map_or(0, |(_, step)| step),
            of_input: u32::from(computed == Computed::Input),
        };
        let form = match computed {
            _ if row_count >= FEW_ROWS => Form::Squares,
            Computed::Weight => Form::Blocks,
            _ => Form::Threads,
        };
        if form == Form::Squares {
            parameters.cut();
        }
        let wide = parameters.exceeds_32_bits(&geometry.space);
        Convolution { dtype, form, wide, parameters }
    }

    /// The number of sums of pieces, in the dtype that they are summed in, for which there must be memory.
    pub fn workspace(&self) -> usize {
        match self.parameters.pieces {
            1 => 0,
            pieces => (pieces * self.parameters.phases * self.parameters.results()) as usize,
        }
    }

    /// Enqueues the kernels.
    ///
    /// # Safety
    /// The operands have the sizes of the geometry, the memory at `workspace` has room for the sums, and all of it is held for the
    /// stream.
    pub unsafe fn run(&mut self, card: &Card, stream: StreamId, mut workspace: u64) -> Result<()> {
        let program = self.program(card)?;
        let parameters = &self.parameters;
        let [results, phases] = [parameters.results(), parameters.phases];
        let squares = parameters.squares().saturating_mul(parameters.pieces);
        let by_threads = u64::from(blocks(card, results)).saturating_mul(phases);
        let grid = |blocks: u64| {
            let blocks = u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32);
            blocks
                .map(|blocks| [blocks, 1])
                .ok_or_else(|| Error::runtime("the convolution is too large for one launch"))
        };
        let pieces = parameters.pieces;
        let first = grid(match self.form {
            Form::Squares => squares,
            Form::Threads => by_threads,
            Form::Blocks => results.min(MOST_BLOCKS),
        })?;
        let last = grid(by_threads)?;
        let kernel = program.kernel(usize::from(self.form == Form::Blocks));
        let mut arguments = [argument(&mut self.parameters), argument(&mut workspace)];
        // SAFETY: guaranteed by the caller; the arguments have the types of the program.
        unsafe {
            match self.form {
                Form::Squares => launch(card, kernel, first, stream, &mut arguments)?,
                Form::Threads | Form::Blocks => launch(card, kernel, first, stream, &mut arguments[..1])?,
            }
            match pieces {
                1 => Ok(()),
                _ => launch(card, program.kernel(1), last, stream, &mut arguments),
            }
        }
    }

    fn program(&self, card: &Card) -> Result<Program> {
        let (element, compute) = (type_name(self.dtype), type_name(self.dtype.compute()));
        let place = if self.wide { "u64" } else { "u32" };
        // Cards have instructions for matrices of halves since compute capability 8.0.
        let halves = matches!(self.dtype, DType::F16 | DType::BF16) && card.properties.major >= 8;
        let key =
            |name, halves| Key::new(name, [ElementType::Of(self.dtype).code(), u8::from(self.wide), u8::from(halves)]);
        if self.form == Form::Squares {
            return Program::find(card, key("convolution", halves), &[c"squares", c"join"], || {
                format!(
                    r#"#include "convolution.cuh"
using namespace rushlight;
typedef square_of<{element}, {compute}, {halves}>::type Tile;
extern "C" __global__ void __launch_bounds__(THREADS, SQUARE_BLOCKS<{compute}>) squares(const __grid_constant__ Convolution call, {compute}* parts) {{
    convolve_squares<Tile, {element}, {place}>(call, parts);
}}
extern "C" __global__ void __launch_bounds__(THREADS) join(const __grid_constant__ Convolution call, const {compute}* parts) {{
    join_pieces<{element}, {compute}, {place}>(call, parts);
}}
"#
                )
            });
        }
        Program::find(card, key("narrow_convolution", false), &[c"threads", c"blocks"], || {
            format!(
                r#"#include "convolution.cuh"
using namespace rushlight;
extern "C" __global__ void __launch_bounds__(THREADS, 2) threads(const __grid_constant__ Convolution call) {{
    convolve_by_threads<{element}, {compute}, {place}>(call);
}}
extern "C" __global__ void __launch_bounds__(THREADS, 2) blocks(const __grid_constant__ Convolution call) {{
    convolve_by_blocks<{element}, {compute}, {place}>(call);
}}
"#
            )
        })
    }
}

impl Parameters {
    /// The results of a phase.
    fn results(&self) -> u64 {
        self.groups * self.row_count * self.column_count
    }

    fn squares(&self) -> u64 {
        let squares = self.row_count.div_ceil(SQUARE) * self.column_count.div_ceil(SQUARE);
        squares.saturating_mul(self.groups).saturating_mul(self.phases)
    }

    /// Cuts the inner dimension into pieces, if otherwise there were few blocks with long sums. The cuts depend on sizes alone, so
    /// that results are the same bits on every device. All pieces together have at most as many sums as enough blocks.
    fn cut(&mut self) {
        let most = (ENOUGH_BLOCKS / self.squares().max(1)).min(self.inner_count / LEAST_PIECE).max(1);
        self.length = self.inner_count.div_ceil(most).next_multiple_of(DEPTH);
        self.pieces = self.inner_count.div_ceil(self.length);
    }

    /// Whether a number of a row, column, place or result needs more than 31 bits, or a place in space more than 29.
    fn exceeds_32_bits(&self, space: &[WindowDim; 3]) -> bool {
        let reach = |dim: &WindowDim| {
            let moved = dim.output as u128 * dim.stride as u128 + dim.kernel as u128 * dim.dilation as u128;
            moved + dim.input as u128 + dim.padding as u128
        };
        let counts = [self.results(), self.inner_count.saturating_add(DEPTH), self.column_count, self.row_count];
        counts.iter().any(|&count| count >= i32::MAX as u64 - SQUARE) || space.iter().any(|dim| reach(dim) >= 1 << 29)
    }
}

impl ConvolutionAxis {
    fn of(dim: &WindowDim, computed: Computed) -> ConvolutionAxis {
        // What one window or tap does not use may be any number.
        let stride = if dim.output == 1 { dim.stride.min(1 << 30) } else { dim.stride } as i64;
        let dilation = if dim.kernel == 1 { 1 } else { dim.dilation as i64 };
        let apart = if computed == Computed::Input { stride } else { 1 };
        ConvolutionAxis { padding: dim.padding as i64, stride, dilation, phases: apart.min(dim.input as i64) }
    }

    /// The distance between the taps of a phase, and that of the elements which they read.
    fn of_phase(&self) -> [i64; 2] {
        let (mut divisor, mut rest) = (self.stride, self.dilation);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        [self.stride / divisor, self.dilation / divisor]
    }
}

/// Digits with more than one value, the one that moves least in an operand first.
fn ordered(digits: [Digit; 4], operand: usize) -> Vec<Digit> {
    let mut digits: Vec<Digit> = digits.into_iter().rev().filter(|digit| digit.count != 1).collect();
    digits.sort_by_key(|digit| digit.moves[operand][0].unsigned_abs());
    digits
}

fn count(digits: &[Digit]) -> u64 {
    digits.iter().map(|digit| digit.count).product()
}

/// The loops over digits, with the moves in two operands.
fn loops(digits: &[Digit], operands: [usize; 2]) -> Loops<8> {
    let strides = |digit: &Digit| std::array::from_fn(|n| digit.moves[operands[n / 4]][n % 4]);
    Loops::over(digits.iter().map(|digit| (digit.count, strides(digit))))
}

/// How well threads that follow each other along digits read memory: how many of sixteen, which is the depth of most slices, read
/// adjacent elements, times 16 and divided by the distance between these.
fn runs(digits: &[Digit], operand: usize, width: i64) -> u64 {
    digits.first().map_or(0, |digit| {
        let apart = (digit.moves[operand][0] / width).unsigned_abs().max(1);
        16 * digit.count.min(16) / apart
    })
}
