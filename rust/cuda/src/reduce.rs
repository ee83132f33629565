//! Reductions from the expressions of their folds. The skeleton is `reduce.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::kernels::{function_name, section, type_name};
use crate::launch::{DIMS, Kind, Loops, Numbers, THREADS, argument, blocks, launch};
use crate::memory;
use crate::program::{Key, Program};

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

/// The longest row that one thread takes, and the elements of a piece of a longer one.
const SHORT: usize = 32;
const PIECE: usize = 8192;
const MOST_PIECES: usize = 65535;
const SERIAL: usize = 0;
const ROWS: usize = 1;
const PIECES: usize = 2;

impl Reduction<'_> {
    /// Enqueues the reduction.
    ///
    /// # Safety
    /// The nests stay within the input, there is room for all results, and both are held for the stream.
    pub unsafe fn run(&self, card: &Card, stream: StreamId) -> Result<()> {
        if self.outer.rank() > DIMS || self.inner.rank() > DIMS {
            return Err(Error::runtime(format!("a reduction on CUDA has at most {DIMS} separate dimensions")));
        }
        let mut codes = [0; 8];
        for (code, dtype) in codes.iter_mut().zip([self.fold.dtype, self.dtype, self.result]) {
            *code = Kind::Of(dtype).code();
        }
        let key: Key = (self.fold.name, codes);
        let program = Program::find(card, key, &[c"serial", c"rows", c"pieces"], || self.source())?;
        let bits: Vec<[u64; 2]> = self.numbers.iter().map(|number| [number.to_bits(), 0]).collect();
        let mut numbers = Numbers::new(&bits, std::iter::empty())?;
        let (mut outer, mut inner) = (Loops::of(self.outer), Loops::of(self.inner));
        let (mut results, mut length) = (self.outer.numel() as u64, self.inner.numel() as u64);
        let [to, from] = self.outer.bases();
        let start = self.input.wrapping_add_signed(from + self.inner.bases()[0]);
        let (mut out, mut input) = (self.out.wrapping_add_signed(to) as u64, start as u64);
        if self.inner.numel() <= SHORT {
            let mut arguments = [
                argument(&mut out),
                argument(&mut input),
                argument(&mut outer),
                argument(&mut inner),
                argument(&mut results),
                argument(&mut length),
                argument(&mut numbers),
            ];
            let grid = [blocks(card, results), 1];
            // SAFETY: guaranteed by the caller; the arguments have the types of the program that `source` writes.
            return unsafe { launch(card, program.kernel(SERIAL), grid, stream, &mut arguments) };
        }
        let count = self.inner.numel().div_ceil(PIECE).min(MOST_PIECES);
        let mut piece = self.inner.numel().div_ceil(count) as u64;
        // Freed when the function returns: later work of the stream comes after the kernels.
        let partial = match count {
            1 => None,
            _ => {
                let bytes = self.outer.numel().checked_mul(count * self.fold.accumulator.size());
                Some(memory::allocate(card.index, bytes.unwrap_or(usize::MAX))?)
            }
        };
        let pin = partial.as_ref().map(|partial| partial.pin_on(stream)).transpose()?;
        let mut workspace = pin.as_ref().map_or(0, |pin| pin.address() as u64);
        let mut arguments = [
            argument(&mut out),
            argument(&mut input),
            argument(&mut outer),
            argument(&mut inner),
            argument(&mut results),
            argument(&mut length),
            argument(&mut piece),
            argument(&mut workspace),
            argument(&mut numbers),
        ];
        let grid = [blocks(card, results.saturating_mul(u64::from(THREADS))), count as u32];
        // SAFETY: as above.
        unsafe { launch(card, program.kernel(ROWS), grid, stream, &mut arguments)? };
        if count == 1 {
            return Ok(());
        }
        let mut count = count as u64;
        let mut arguments = [
            argument(&mut out),
            argument(&mut workspace),
            argument(&mut outer),
            argument(&mut results),
            argument(&mut count),
            argument(&mut length),
            argument(&mut numbers),
        ];
        // SAFETY: as above.
        unsafe { launch(card, program.kernel(PIECES), [grid[0], 1], stream, &mut arguments) }
    }

    /// The source of the program.
    fn source(&self) -> String {
        let Fold { name, dtype, accumulator, take_numbers, done_numbers } = self.fold;
        let text = section("folds", name);
        let function = |part: &str| format!("folds::{}", function_name(&format!("{name}.{part}"), dtype));
        let numbers = |count: usize| (0..count).map(|n| format!(", number<f64>(numbers, {n})")).collect::<String>();
        let (element, accumulator) = (type_name(dtype), type_name(accumulator));
        let types = format!("{}, {}", type_name(self.result), type_name(self.dtype));
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
extern "C" __global__ void serial(u8* out, const u8* input, Loops<2> outer, Loops<1> inner, u64 results, u64 length,
                                  Numbers numbers) {{
    Rows::serial(out, input, outer, inner, results, length, numbers);
}}
extern "C" __global__ void rows(u8* out, const u8* input, Loops<2> outer, Loops<1> inner, u64 results, u64 length, u64 piece,
                                Fold::A* partial, Numbers numbers) {{
    Rows::rows(out, input, outer, inner, results, length, piece, partial, numbers);
}}
extern "C" __global__ void pieces(u8* out, const Fold::A* partial, Loops<2> outer, u64 results, u64 count, u64 length,
                                  Numbers numbers) {{
    Rows::pieces(out, partial, outer, results, count, length, numbers);
}}
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
