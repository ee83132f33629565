//! Reductions from the expressions of their folds. The skeleton is `reduce.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::{function_name, section, type_name};
use crate::launch::{DIMS, ElementType, Loops, Numbers, THREADS, WARP, argument, blocks, launch};
use crate::program::{Key, Program};
use crate::workspace::Workspace;

/// A fold for a dtype of elements: `take` and `done` may read numbers.
#[derive(Clone, Copy)]
pub struct Fold {
    pub name: &'static str,
    pub dtype: DType,
    pub accumulator: DType,
    pub take_numbers: usize,
    pub done_numbers: usize,
}

/// A reduction of rows to results.
pub struct Reduction<'a> {
    pub fold: Fold,
    /// The loops over the results and the beginnings of their rows, and those over the elements of a row.
    pub outer: &'a LoopNest<2>,
    pub inner: &'a LoopNest<1>,
    pub input: usize,
    pub dtype: DType,
    pub out: usize,
    pub result: DType,
    pub numbers: &'a [f64],
}

/// How the rows of a reduction are shared by threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    /// A thread for each row.
    Serial,
    /// A warp for each row.
    Warps,
    /// A block for each row, or for each piece of one.
    Rows,
    /// A lane for each pack of rows that lie side by side.
    Columns,
}

/// The longest row that one thread takes, and the longest that a warp takes.
const SHORT: usize = 32;
const MEDIUM: usize = 1024;
/// The fewest adjacent rows that lanes share.
const ADJACENT: usize = 8;
/// The fewest and the most elements of a piece, which are multiples of every pack, and how many pieces all rows together have at least.
const PIECE: usize = 2048;
const MOST_OF_A_PIECE: usize = 1 << 16;
const PIECES: usize = 2048;
const MOST_PIECES: usize = 65535;
/// As many of the least pieces are not divided.
const FEW_PIECES: usize = 4;
/// The bytes of a pack at most.
const PACK: usize = 16;

impl Reduction<'_> {
    /// Enqueues the reduction.
    ///
    /// # Safety
    /// The nests stay within the input, there is room for all results, and both are held for the stream.
    pub unsafe fn run(&self, card: &Card, stream: StreamId) -> Result<()> {
        if self.outer.rank() > DIMS || self.inner.rank() > DIMS {
            return Err(Error::runtime(format!("a reduction on CUDA has at most {DIMS} separate dimensions")));
        }
        let plan = self.plan();
        let types = [self.fold.dtype, self.dtype, self.result].map(|dtype| ElementType::Of(dtype).code());
        let key = Key::new(self.fold.name, types.into_iter().chain([plan as u8, u8::from(self.is_even())]));
        let kernels: &[_] = if plan == Plan::Serial { &[c"serial"] } else { &[c"rows", c"pieces"] };
        let program = Program::find(card, key, kernels, || self.source(plan))?;
        let bits: Vec<[u64; 2]> = self.numbers.iter().map(|number| [number.to_bits(), 0]).collect();
        let mut numbers = Numbers::new(&bits, std::iter::empty())?;
        let (mut outer, mut inner) = (Loops::of(self.outer), Loops::of(self.inner));
        let (rows, elements) = (self.outer.numel(), self.inner.numel());
        let (mut results, mut length) = (rows as u64, elements as u64);
        let (mut out, mut input) = (self.out.wrapping_add_signed(self.outer.bases()[0]) as u64, self.first() as u64);
        // How many rows or packs of rows there are, and how many of them a block takes at once.
        let (mut units, together) = match plan {
            Plan::Serial => (results, u64::from(THREADS)),
            Plan::Columns => (self.packs() as u64, 1 << self.lane_bits()),
            Plan::Warps => (results, u64::from(THREADS / WARP)),
            Plan::Rows => (results, 1),
        };
        let across = blocks(card, units.div_ceil(together).saturating_mul(u64::from(THREADS)));
        if plan == Plan::Serial {
            let mut arguments = [
                argument(&mut out),
                argument(&mut input),
                argument(&mut outer),
                argument(&mut inner),
                argument(&mut results),
                argument(&mut length),
                argument(&mut numbers),
            ];
            let grid = [across, 1];
            // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
            return unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments) };
        }
        let length_of_piece = self.piece(plan);
        let count = elements.div_ceil(length_of_piece);
        let mut piece = length_of_piece as u64;
        let mut packed = u32::from(if plan == Plan::Columns { self.has_packed_columns() } else { self.is_packed() });
        let mut lane_bits = self.lane_bits();
        let bytes = rows.saturating_mul(count * self.fold.accumulator.size());
        let partial = (count > 1).then(|| Workspace::new(card.index, stream, bytes)).transpose()?;
        let mut partials = partial.as_ref().map_or(std::ptr::null_mut(), Workspace::pointer);
        let mut arguments = [
            argument(&mut out),
            argument(&mut input),
            argument(&mut outer),
            argument(&mut inner),
            argument(&mut units),
            argument(&mut length),
            argument(&mut piece),
            argument(&mut packed),
            argument(&mut lane_bits),
            argument(&mut partials),
            argument(&mut numbers),
        ];
        let grid = [across, count as u32];
        // SAFETY: as above.
        unsafe { launch(card, program.kernel(0), grid, stream, &mut arguments)? };
        if count == 1 {
            return Ok(());
        }
        let mut count = count as u64;
        let mut arguments = [
            argument(&mut out),
            argument(&mut partials),
            argument(&mut outer),
            argument(&mut results),
            argument(&mut count),
            argument(&mut length),
            argument(&mut numbers),
        ];
        let grid = [blocks(card, results.saturating_mul(u64::from(THREADS))), 1];
        // SAFETY: as above.
        unsafe { launch(card, program.kernel(1), grid, stream, &mut arguments) }
    }

    /// The address of the first element.
    fn first(&self) -> usize {
        self.input.wrapping_add_signed(self.outer.bases()[1] + self.inner.bases()[0])
    }

    /// The plan, which depends on shapes and strides alone.
    fn plan(&self) -> Plan {
        let elements = self.inner.numel();
        if elements <= SHORT {
            Plan::Serial
        } else if self.outer.rank() > 0 && self.outer.size(0) >= ADJACENT && self.outer.strides(0)[1] == self.width() {
            Plan::Columns
        } else if elements <= MEDIUM {
            Plan::Warps
        } else {
            Plan::Rows
        }
    }

    /// The length of a piece: short enough that few rows keep a device busy, and long enough that pieces are few.
    fn piece(&self, plan: Plan) -> usize {
        let elements = self.inner.numel();
        let lanes = 1 << self.lane_bits();
        let (rows, least, most) = match plan {
            Plan::Serial | Plan::Warps => return elements,
            Plan::Columns => (self.packs().div_ceil(lanes), PIECE / 2 / lanes, 2 * MOST_OF_A_PIECE / lanes),
            Plan::Rows => (self.outer.numel(), PIECE, MOST_OF_A_PIECE),
        };
        // The second kernel takes longer than a few pieces.
        if elements <= FEW_PIECES * least {
            return elements;
        }
        let even = (rows.saturating_mul(elements) / PIECES).clamp(least, most);
        even.max(elements.div_ceil(MOST_PIECES)).next_multiple_of(PACK)
    }

    /// Whether the elements of a row lie at one distance from each other.
    fn is_even(&self) -> bool {
        self.inner.rank() <= 1
    }

    /// The elements of a pack (`PACK` in the skeleton), which is wide if there are registers for the accumulators.
    fn pack(&self) -> usize {
        let room = 64 / self.fold.accumulator.size();
        (PACK / self.dtype.size()).min(1 << room.ilog2())
    }

    /// The packs of rows that lie side by side: each innermost loop has its own.
    fn packs(&self) -> usize {
        let line = if self.outer.rank() > 0 { self.outer.size(0) } else { 1 };
        self.outer.numel() / line.max(1) * line.div_ceil(self.pack())
    }

    /// The logarithm of the number of threads that take packs of rows side by side.
    fn lane_bits(&self) -> u32 {
        self.packs().clamp(1, WARP as usize).next_power_of_two().trailing_zeros()
    }

    /// Whether packs of rows that lie side by side are aligned.
    fn has_packed_columns(&self) -> bool {
        let bytes = (self.pack() * self.dtype.size()) as isize;
        self.outer.size(0).is_multiple_of(self.pack())
            && (1..self.outer.rank()).all(|dim| self.outer.strides(dim)[1] % bytes == 0)
            && (0..self.inner.rank()).all(|dim| self.inner.strides(dim)[0] % bytes == 0)
            && self.first() as isize % bytes == 0
    }

    fn width(&self) -> isize {
        self.dtype.size() as isize
    }

    /// Whether every 16 bytes of a row are adjacent in memory and aligned.
    fn is_packed(&self) -> bool {
        let (pack, rank) = (PACK as isize, self.inner.rank());
        let aligned = |stride: isize| stride % pack == 0;
        rank > 0
            && self.inner.strides(0)[0] == self.width()
            && (rank == 1 || aligned(self.inner.size(0) as isize * self.width()))
            && (1..rank).all(|dim| aligned(self.inner.strides(dim)[0]))
            && (0..self.outer.rank()).all(|dim| aligned(self.outer.strides(dim)[1]))
            && aligned(self.first() as isize)
    }

    /// The source of the program.
    fn source(&self, plan: Plan) -> String {
        let Fold { name, dtype, accumulator, take_numbers, done_numbers } = self.fold;
        let text = section("folds", name);
        let function = |part: &str| format!("folds::{}", function_name(&format!("{name}.{part}"), dtype));
        let numbers = |count: usize| (0..count).map(|n| format!(", number<f64>(numbers, {n})")).collect::<String>();
        let (element, accumulator) = (type_name(dtype), type_name(accumulator));
        let types = format!("{}, {}, {}", type_name(self.result), type_name(self.dtype), self.is_even());
        let kernels = match plan {
            Plan::Serial => SERIAL.to_string(),
            Plan::Warps => ROWS.replace("RUN", "rows<WARP>").replace("LANES", ""),
            Plan::Rows => ROWS.replace("RUN", "rows<THREADS>").replace("LANES", ""),
            Plan::Columns => ROWS.replace("RUN", "columns").replace("LANES", "lane_bits, "),
        };
        format!(
            r#"#include "reduce.cuh"
#include "prelude.cuh"
namespace rushlight::folds {{
{text}
}}
using namespace rushlight;
struct Fold {{
    typedef {element} T;
    typedef {accumulator} A;
    static DEVICE A start() {{ return {start}(); }}
    static DEVICE A take(A a, T x, const Numbers& numbers) {{ return {take}(a, x{take_numbers}); }}
    static DEVICE A join(A a, A b) {{ return {join}(a, b); }}
    static DEVICE auto done(A a, u64 n, const Numbers& numbers) {{ return {done}(a, n{done_numbers}); }}
}};
typedef Reduction<Fold, {types}> Rows;
{kernels}
"#,
            start = function("start"),
            take = function("take"),
            join = function("join"),
            done = function("done"),
            take_numbers = numbers(take_numbers),
            done_numbers = numbers(done_numbers),
        )
    }
}

// Parameters whose addresses are taken are constants of the grid: every thread would copy others into memory of its own.
const SERIAL: &str = r#"extern "C" __global__ void serial(u8* out, const u8* input, const __grid_constant__ Loops<2> outer,
                                  const __grid_constant__ Loops<1> inner, u64 results, u64 length,
                                  const __grid_constant__ Numbers numbers) {
    Rows::serial(out, input, outer, inner, results, length, numbers);
}"#;
const ROWS: &str = r#"extern "C" __global__ void rows(u8* out, const u8* input, const __grid_constant__ Loops<2> outer,
                                const __grid_constant__ Loops<1> inner, u64 units, u64 length, u64 piece, u32 packed,
                                u32 lane_bits, Fold::A* partial, const __grid_constant__ Numbers numbers) {
    Rows::RUN(out, input, outer, inner, units, length, piece, packed, LANESpartial, numbers);
}
extern "C" __global__ void pieces(u8* out, const Fold::A* partial, const __grid_constant__ Loops<2> outer, u64 results, u64 count,
                                  u64 length, const __grid_constant__ Numbers numbers) {
    Rows::pieces(out, partial, outer, results, count, length, numbers);
}"#;
