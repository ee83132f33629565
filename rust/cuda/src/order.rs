//! Stable sorting along lines. The kernels are `order.cuh`.

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use crate::card::Card;
use crate::cumulative::{self, Accumulation, Lines};
use crate::kernels::type_name;
use crate::launch::{ElementType, THREADS, argument, blocks, launch};
use crate::program::{Key, Program};
use crate::workspace::Workspace;

/// The elements that a block sorts in shared memory (`SORTED` in the skeleton), and the values of a byte.
const SORTED: usize = 2048;
const DIGITS: usize = 256;
/// Of the parts of the workspace.
const ALIGNMENT: usize = 256;
const WHOLE: usize = 0;
const COUNT: usize = 1;
const MOVE: usize = 2;
const TAKE: usize = 3;

/// An argument of the kernels for long lines: `Digits` of the skeleton.
#[repr(C)]
struct Digits {
    source: u64,
    keys: u64,
    from: u64,
    keys_to: u64,
    to: u64,
    places: u64,
    counts: u64,
    lines: u64,
    n: u64,
    tiles: u64,
    shift: u32,
    descending: u32,
}

/// The addresses of lines, which are rows: of their elements, of the places in their order, and of the elements in their order.
#[derive(Clone, Copy)]
pub struct Rows {
    pub source: u64,
    pub places: u64,
    pub values: Option<u64>,
}

/// Writes the places of each line's elements in their order, as integers of 64 bits, and the elements themselves if they are wanted.
///
/// # Safety
/// There are elements for this many lines of `n`, and room for as many results, all of which are held for the stream.
pub unsafe fn sort(
    card: &Card,
    stream: StreamId,
    dtype: DType,
    rows: Rows,
    [lines, n]: [usize; 2],
    descending: bool,
) -> Result<()> {
    let program = program(card, dtype, n)?;
    // SAFETY: guaranteed by the caller.
    unsafe {
        match n <= SORTED {
            true => sort_whole(card, stream, program, rows, [lines, n], descending)?,
            false => sort_by_bytes(card, stream, program, dtype, rows, [lines, n], descending)?,
        }
    }
    let Rows { mut source, mut places, values: Some(mut values) } = rows else { return Ok(()) };
    let (mut count, mut n) = ((lines * n) as u64, n as u64);
    let mut arguments =
        [argument(&mut source), argument(&mut places), argument(&mut values), argument(&mut count), argument(&mut n)];
    // SAFETY: as above; the places are those of elements.
    unsafe { launch(card, program.kernel(TAKE), [blocks(card, count), 1], stream, &mut arguments) }
}

/// Sorts lines in the shared memory of blocks.
///
/// # Safety
/// As for `sort`.
unsafe fn sort_whole(
    card: &Card,
    stream: StreamId,
    program: Program,
    Rows { mut source, mut places, .. }: Rows,
    [lines, n]: [usize; 2],
    descending: bool,
) -> Result<()> {
    let (mut count, mut length, mut descending) = (lines as u64, n as u64, u32::from(descending));
    let mut bits = n.next_power_of_two().trailing_zeros();
    let groups = lines.div_ceil(SORTED >> bits) as u64;
    let mut arguments = [
        argument(&mut source),
        argument(&mut places),
        argument(&mut count),
        argument(&mut length),
        argument(&mut bits),
        argument(&mut descending),
    ];
    let grid = [blocks(card, groups.saturating_mul(u64::from(THREADS))), 1];
    // SAFETY: guaranteed by the caller; the arguments have the types of the program.
    unsafe { launch(card, program.kernel(WHOLE), grid, stream, &mut arguments) }
}

/// Sorts lines by each byte of their elements.
///
/// # Safety
/// As for `sort`.
unsafe fn sort_by_bytes(
    card: &Card,
    stream: StreamId,
    program: Program,
    dtype: DType,
    rows: Rows,
    [lines, n]: [usize; 2],
    descending: bool,
) -> Result<()> {
    let (key, index) = (key_of(dtype), index_of(n));
    let (bytes, tile) = (dtype.size(), THREADS as usize * 64 / key.size().max(index.size()));
    let tiles = n.div_ceil(tile);
    // What one byte writes the next one reads: there are two buffers of integers and two of places, behind the counts.
    let parts = [DIGITS * tiles * index.size(), n * key.size(), n * key.size(), n * index.size(), n * index.size()];
    let mut starts = [0; 6];
    for (part, bytes) in parts.into_iter().enumerate().take(1 + 4 * usize::from(bytes > 1)) {
        starts[part + 1] = starts[part] + lines.saturating_mul(bytes).next_multiple_of(ALIGNMENT);
    }
    let workspace = Workspace::new(card.index, stream, starts.into_iter().max().unwrap_or(0))?;
    let start = |part: usize| (workspace.pointer().addr() + starts[part]) as u64;
    let buffers = |byte: usize| [start(1 + byte % 2), start(3 + byte % 2)];
    let grid = [blocks(card, ((lines * tiles) as u64).saturating_mul(u64::from(THREADS))), 1];
    for byte in 0..bytes {
        let (is_first, is_last) = (byte == 0, byte + 1 == bytes);
        let [keys, from] = if is_first { [0; 2] } else { buffers(byte - 1) };
        let [keys_to, to] = if is_last { [0; 2] } else { buffers(byte) };
        let mut digits = Digits {
            source: if is_first { rows.source } else { 0 },
            keys,
            from,
            keys_to,
            to,
            places: if is_last { rows.places } else { 0 },
            counts: start(0),
            lines: lines as u64,
            n: n as u64,
            tiles: tiles as u64,
            shift: 8 * byte as u32,
            descending: u32::from(descending),
        };
        let mut arguments = [argument(&mut digits)];
        let sum = Accumulation::Sum { element: index, compute: index, sum: index, result: index };
        let (row, own) = (Lines { outer: lines, n: DIGITS * tiles, inner: 1 }, start(0));
        // SAFETY: as above; every buffer has room for an integer of each element, and the counts for those of all tiles.
        unsafe {
            launch(card, program.kernel(COUNT), grid, stream, &mut arguments)?;
            cumulative::accumulate(card, stream, sum, [own, 0, own, 0], row, true)?;
            launch(card, program.kernel(MOVE), grid, stream, &mut arguments)?;
        }
    }
    Ok(())
}

/// The integers that elements of a dtype are sorted by.
fn key_of(dtype: DType) -> DType {
    if dtype.size() > 4 { DType::U64 } else { DType::U32 }
}

/// The integers for the places in a line.
fn index_of(n: usize) -> DType {
    if u32::try_from(n).is_ok() { DType::U32 } else { DType::I64 }
}

fn program(card: &Card, dtype: DType, n: usize) -> Result<Program> {
    let code = Key::new("sort", [ElementType::Of(dtype).code(), ElementType::Of(index_of(n)).code()]);
    Program::find(card, code, &[c"whole", c"count", c"move", c"take"], || {
        let [element, key, index] = [dtype, key_of(dtype), index_of(n)].map(type_name);
        let raw = ElementType::Raw(dtype.size() as u8).name();
        format!(
            r#"#include "order.cuh"
using namespace rushlight;
extern "C" __global__ void whole(const u8* source, i64* places, u64 lines, u64 n, u32 bits, u32 descending) {{
    sort_lines<{key}, {element}>(source, places, lines, n, bits, descending);
}}
extern "C" __global__ void count(Digits<{key}, {index}> digits) {{ digits.count_tiles<{element}>(); }}
extern "C" __global__ void __launch_bounds__(THREADS, 2) move(Digits<{key}, {index}> digits) {{ digits.move_tiles<{element}>(); }}
extern "C" __global__ void take(const u8* source, const i64* places, u8* to, u64 count, u64 n) {{
    rushlight::take<{raw}>(source, places, to, count, n);
}}
"#
        )
    })
}
