//! The skeleton of every pointwise kernel: iterate over the operands, copy them into tiles if necessary, run the
//! operator's loop.
//!
//! An operator gives a loop over contiguous elements of its compute dtype (an `InnerLoop`). Operands in that form are read
//! and written in place. All others (strided, broadcast, of another dtype) pass through tiles of a thousand elements
//! that stay in the first-level cache. Short runs share a tile, so that the loop gets many elements at once: a row that
//! is added to every row of a matrix is repeated in its tile once. Work is split every `GRAIN` elements, regardless of the
//! number of threads.

use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Scalar};
use smallvec::SmallVec;

use crate::convert::cast::{converter, move_block, move_strided};
use crate::streaming;
use crate::transpose::transpose_block;

/// The numbers that an operator takes besides its operands, such as `alpha` or the limits of `clamp`.
pub type Numbers = SmallVec<[Scalar; 4]>;

/// An operator's inner loop, as in NumPy's ufuncs: `n` results from `n` elements of each input, all contiguous.
///
/// # Safety
/// `n` elements of the loop's dtypes at `out` and at each of the inputs, as many as the operator has.
pub type InnerLoop = unsafe fn(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]);

/// The number of elements of a piece of parallel work.
pub const GRAIN: usize = 1 << 15;
/// The number of elements of a tile.
pub(crate) const TILE: usize = 1024;
const WIDEST: usize = 16;
/// Runs with fewer elements share tiles, even if operands must be copied for it that a loop over one run uses in place.
const SHORT: usize = 64;
/// Longer runs do not share tiles.
const SHARED: usize = TILE / 2;
/// Runs, and elements of a run, in a block of a transposed operand.
const SIDE: usize = 32;
const _: () = assert!(SIDE * SIDE == TILE);

/// An operand in memory: its first byte (offsets come from the `LoopNest`) and its dtype. Operand 0 is the result.
#[derive(Clone, Copy)]
pub struct RawOperand {
    pub pointer: *mut u8,
    pub dtype: DType,
}

// SAFETY: an address and a dtype; the loop nest gives every thread its own elements of the result.
unsafe impl Sync for RawOperand {}
// SAFETY: see above.
unsafe impl Send for RawOperand {}

#[repr(align(64))]
struct Buffer([std::mem::MaybeUninit<u8>; TILE * WIDEST]);

impl Buffer {
    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// A tile for each operand, and one for conversions. A piece of work has one set for all its runs: the pages of a stack
/// frame of this size are touched when a function begins, which takes longer than a short run.
struct Tiles<const N: usize> {
    operands: [Buffer; N],
    scratch: Buffer,
}

impl<const N: usize> Tiles<N> {
    #[inline(always)]
    fn new() -> Self {
        let empty = || Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]);
        Tiles { operands: std::array::from_fn(|_| empty()), scratch: empty() }
    }

    fn pointers(&mut self) -> ([*mut u8; N], *mut u8) {
        (self.operands.each_mut().map(Buffer::pointer), self.scratch.pointer())
    }
}

/// Runs `inner_loop` over every element of `nest`.
///
/// # Safety
/// The operands point to memory that the layouts of `nest` stay within, and `inner_loop` works on elements of `compute`.
pub unsafe fn run<const N: usize>(
    nest: &LoopNest<N>,
    operands: [RawOperand; N],
    compute: [DType; N],
    inner_loop: InnerLoop,
    numbers: &[Scalar],
) {
    let steps = nest.inner_strides();
    let whole = nest.inner() == nest.numel();
    let direct: [bool; N] = std::array::from_fn(|n| {
        operands[n].dtype == compute[n] && (steps[n] == operands[n].dtype.size() as isize || nest.numel() == 1)
    });
    let fresh = (1..N).all(|n| operands[n].pointer != operands[0].pointer);
    let streams = fresh && nest.numel() * operands[0].dtype.size() >= streaming::LEAST;
    if whole && direct.iter().all(|&d| d) {
        let bases = nest.bases();
        rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
            let at = |n: usize| {
                let operand = operands[n];
                // SAFETY: the offsets of `nest` lie within the operand.
                unsafe { operand.pointer.offset(bases[n] + (range.start * operand.dtype.size()) as isize) }
            };
            let all: [*const u8; N] = std::array::from_fn(|n| at(n).cast_const());
            // SAFETY: all operands hold the range contiguously, in the loop's dtypes; the result's pointer comes before
            // those of the inputs.
            unsafe {
                let step =
                    |out: *mut u8, all: &[*const u8; N], n: usize| inner_loop(out, all.as_ptr().add(1), n, numbers);
                if streams {
                    stream(step, at(0), all, operands.map(|operand| operand.dtype.size()), range.len());
                } else {
                    step(at(0), &all, range.len());
                }
            }
        });
        return;
    }
    let streams = streams && direct[0] && nest.inner() >= TILE;
    let dense = std::array::from_fn(|n| nest.is_dense(n, operands[n].dtype.size()));
    let loops = BufferedIteration { nest, operands, compute, direct, dense, streams, inner_loop, numbers };
    if let Some(dim) = loops.transposed_dim() {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { loops.run_blocks(dim) };
        return;
    }
    if loops.share_tiles() {
        let outer = nest.outer();
        rushlight_par::parallel_for(outer.numel(), GRAIN / nest.inner().max(1), |range| {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { loops.short_runs(&outer, range, &mut Tiles::new()) };
        });
        return;
    }
    rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
        let mut tiles = Tiles::new();
        // SAFETY: guaranteed by the caller (see `# Safety`).
        nest.runs(range, |offsets, length| unsafe { loops.run(offsets, length, &mut tiles) });
        if streams {
            streaming::finish();
        }
    });
}

/// Runs a loop over contiguous operands, the result first, and writes the result with streaming stores.
///
/// # Safety
/// All operands hold `length` elements of these widths, and `inner_loop` computes `n` elements of them.
#[inline]
pub(crate) unsafe fn stream<const N: usize>(
    inner_loop: impl Fn(*mut u8, &[*const u8; N], usize),
    out: *mut u8,
    mut inputs: [*const u8; N],
    widths: [usize; N],
    length: usize,
) {
    let mut buffer = Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]);
    let step = streamed_step(widths);
    let mut done = 0;
    while done < length {
        let n = step.min(length - done);
        inner_loop(buffer.pointer(), &inputs, n);
        // SAFETY: guaranteed by the caller (see `# Safety`); the buffer holds a step of any width.
        unsafe { streaming::store(out.add(done * widths[0]), buffer.pointer(), n * widths[0]) };
        for operand in 1..N {
            streaming::prefetch(inputs[operand], n * widths[operand]);
            inputs[operand] = inputs[operand].wrapping_add(n * widths[operand]);
        }
        done += n;
    }
    streaming::finish();
}

/// How many elements a streaming loop takes at once: few, so that prefetches are spread among the arithmetic.
fn streamed_step<const N: usize>(widths: [usize; N]) -> usize {
    streaming::STEP / widths.into_iter().max().unwrap_or(1)
}

/// The steps from row to row and from element to element of rows without gaps.
fn packed(columns: usize, width: usize) -> [isize; 2] {
    [(columns * width) as isize, width as isize]
}

struct BufferedIteration<'a, const N: usize> {
    nest: &'a LoopNest<N>,
    operands: [RawOperand; N],
    compute: [DType; N],
    /// The operands that are contiguous along a run, in the loop's dtype.
    direct: [bool; N],
    /// The operands whose elements follow each other from run to run too.
    dense: [bool; N],
    /// Whether the result is written with streaming stores.
    streams: bool,
    inner_loop: InnerLoop,
    numbers: &'a [Scalar],
}

impl<const N: usize> BufferedIteration<'_, N> {
    /// Whether runs are so short that several of them share a tile.
    fn share_tiles(&self) -> bool {
        let inner = self.nest.inner();
        let copied = |operand: usize| {
            self.direct[operand] && !self.dense[operand] && !(operand > 0 && self.nest.repeats_runs(operand))
        };
        inner < SHORT || inner <= SHARED && !(0..N).any(copied)
    }

    /// One long run: direct operands are used in place, the others tile by tile.
    ///
    /// # Safety
    /// The run lies within all operands.
    unsafe fn run(&self, offsets: [isize; N], length: usize, tiles: &mut Tiles<N>) {
        let (buffers, scratch) = tiles.pointers();
        let steps = self.nest.inner_strides();
        let piece = if self.streams { streamed_step(self.operands.map(|operand| operand.dtype.size())) } else { TILE };
        let mut done = 0;
        while done < length {
            let n = piece.min(length - done);
            // SAFETY: guaranteed by the caller (see `# Safety`); buffers hold TILE elements of the widest dtype.
            unsafe {
                let at = |operand: usize| {
                    self.operands[operand].pointer.offset(offsets[operand] + done as isize * steps[operand])
                };
                let mut inputs = [std::ptr::null::<u8>(); N];
                for operand in 1..N {
                    inputs[operand - 1] = if self.direct[operand] {
                        at(operand)
                    } else {
                        let buffer = buffers[operand];
                        if steps[operand] != 0 {
                            self.gather(operand, at(operand), steps[operand], n, buffer, scratch);
                        } else if done == 0 {
                            // Later pieces use the same tile.
                            self.gather(operand, at(operand), 0, TILE.min(length), buffer, scratch);
                        }
                        buffer
                    };
                }
                let in_place = self.direct[0] && !self.streams;
                let out = if in_place { at(0) } else { buffers[0] };
                (self.inner_loop)(out, inputs.as_ptr(), n, self.numbers);
                if self.streams {
                    streaming::store(at(0), out, n * self.operands[0].dtype.size());
                    for operand in (1..N).filter(|&operand| self.direct[operand]) {
                        streaming::prefetch(at(operand), n * self.operands[operand].dtype.size());
                    }
                } else if !in_place {
                    self.scatter(at(0), steps[0], n, out, scratch);
                }
            }
            done += n;
        }
    }

    /// Several short runs at once: dense operands are used in place, and the runs of the others fill a tile.
    ///
    /// # Safety
    /// `outer` is the nest without its runs, of which `runs` is a range; its layouts stay within the operands.
    unsafe fn short_runs(&self, outer: &LoopNest<N>, runs: std::ops::Range<usize>, tiles: &mut Tiles<N>) {
        let (buffers, scratch) = tiles.pointers();
        let inner = self.nest.inner();
        let most = TILE / inner.max(1);
        let mut start = runs.start;
        while start < runs.end {
            let part = start..runs.end.min(start + most);
            let n = part.len() * inner;
            // SAFETY: guaranteed by the caller (see `# Safety`); at most TILE elements enter a buffer.
            unsafe {
                let at = |operand: usize| {
                    let bytes = (start * inner * self.operands[operand].dtype.size()) as isize;
                    self.operands[operand].pointer.offset(self.nest.bases()[operand] + bytes)
                };
                let mut inputs = [std::ptr::null::<u8>(); N];
                for operand in 1..N {
                    let buffer = buffers[operand];
                    inputs[operand - 1] = buffer;
                    if self.dense[operand] && self.direct[operand] {
                        inputs[operand - 1] = at(operand);
                    } else if self.dense[operand] {
                        let width = self.operands[operand].dtype.size() as isize;
                        self.gather(operand, at(operand), width, n, buffer, scratch);
                    } else if start == runs.start || !self.nest.repeats_runs(operand) {
                        self.gather_runs(operand, outer, part.clone(), buffer, scratch);
                    }
                }
                let in_place = self.dense[0] && self.direct[0];
                let out = if in_place { at(0) } else { buffers[0] };
                (self.inner_loop)(out, inputs.as_ptr(), n, self.numbers);
                if self.dense[0] && !in_place {
                    self.scatter(at(0), self.operands[0].dtype.size() as isize, n, out, scratch);
                } else if !in_place {
                    self.scatter_runs(outer, part.clone(), out, scratch);
                }
            }
            start = part.end;
        }
    }

    /// Fills a tile with a range of runs of an operand.
    ///
    /// # Safety
    /// Same as for `short_runs`; the range has at most a tile of elements, for which `to` and `scratch` have room.
    unsafe fn gather_runs(
        &self,
        operand: usize,
        outer: &LoopNest<N>,
        runs: std::ops::Range<usize>,
        to: *mut u8,
        scratch: *mut u8,
    ) {
        let (own, wanted) = (self.operands[operand].dtype, self.compute[operand]);
        let (width, inner) = (own.size(), self.nest.inner());
        let steps = [outer.inner_strides()[operand], self.nest.inner_strides()[operand]];
        let (n, moved) = (runs.len() * inner, if own == wanted { to } else { scratch });
        let mut filled = 0;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            outer.runs(runs, |offsets, rows| {
                let from = self.operands[operand].pointer.offset(offsets[operand]);
                move_block(moved.add(filled * width), packed(inner, width), from, steps, [rows, inner], width);
                filled += rows * inner;
            });
            if own != wanted {
                converter(own, wanted).run(to, scratch, n);
            }
        }
    }

    /// Writes the results of a range of runs.
    ///
    /// # Safety
    /// Same as for `short_runs`; the results lie at `from`, and `scratch` has room for them.
    unsafe fn scatter_runs(
        &self,
        outer: &LoopNest<N>,
        runs: std::ops::Range<usize>,
        mut from: *const u8,
        scratch: *mut u8,
    ) {
        let (own, computed) = (self.operands[0].dtype, self.compute[0]);
        let (width, inner) = (own.size(), self.nest.inner());
        let steps = [outer.inner_strides()[0], self.nest.inner_strides()[0]];
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            if own != computed {
                converter(computed, own).run(scratch, from, runs.len() * inner);
                from = scratch;
            }
            let mut emptied = 0;
            outer.runs(runs, |offsets, rows| {
                let to = self.operands[0].pointer.offset(offsets[0]);
                move_block(to, steps, from.add(emptied * width), packed(inner, width), [rows, inner], width);
                emptied += rows * inner;
            });
        }
    }

    /// # Safety
    /// `n` elements of the operand's dtype lie at `from`, `step` bytes apart; `to` and `scratch` have room for a tile.
    unsafe fn gather(&self, operand: usize, from: *const u8, step: isize, n: usize, to: *mut u8, scratch: *mut u8) {
        let (own, wanted) = (self.operands[operand].dtype, self.compute[operand]);
        let width = own.size() as isize;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            if own == wanted {
                move_strided(to, width, from, step, n, own.size());
            } else if step == width {
                converter(own, wanted).run(to, from, n);
            } else {
                move_strided(scratch, width, from, step, n, own.size());
                converter(own, wanted).run(to, scratch, n);
            }
        }
    }

    /// # Safety
    /// `n` results lie at `from`; as many elements at `to`, `step` bytes apart; `scratch` has room for a tile.
    unsafe fn scatter(&self, to: *mut u8, step: isize, n: usize, from: *const u8, scratch: *mut u8) {
        let (own, computed) = (self.operands[0].dtype, self.compute[0]);
        let width = own.size() as isize;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            if own == computed {
                move_strided(to, step, from, width, n, own.size());
            } else if step == width {
                converter(computed, own).run(to, from, n);
            } else {
                converter(computed, own).run(scratch, from, n);
                move_strided(to, step, scratch, width, n, own.size());
            }
        }
    }
}

/// The iteration over operands of which some are transposed relative to the result, such as a matrix and its transpose.
///
/// Along the result's runs each element of such an operand is in another cache line, so it is read in square blocks
/// instead: a tile is a few pieces of adjacent runs, and the transposed operand is transposed in registers as it is
/// copied into the tile.
impl<const N: usize> BufferedIteration<'_, N> {
    /// The dimension along which an operand is contiguous that is not so along the runs, if blocks are worthwhile.
    fn transposed_dim(&self) -> Option<usize> {
        let steps = self.nest.inner_strides();
        let width = |operand: usize| self.operands[operand].dtype.size();
        let crossed = |operand: &usize| steps[*operand] != 0 && steps[*operand].unsigned_abs() > width(*operand);
        let dim = (1..N).filter(crossed).find_map(|operand| self.nest.across(operand, width(operand)))?;
        (self.nest.inner() >= 8 && self.nest.size(dim) >= 8).then_some(dim)
    }

    /// # Safety
    /// Same as for `run`.
    unsafe fn run_blocks(&self, dim: usize) {
        let (rows, columns) = (self.nest.size(dim), self.nest.inner());
        let outer = self.nest.around(dim);
        let (bands, pieces) = (rows.div_ceil(SIDE), columns.div_ceil(SIDE));
        let grain = (GRAIN / (SIDE * columns)).max(1);
        rushlight_par::parallel_for(outer.numel() * bands, grain, |range| {
            let mut tiles = Tiles::new();
            let (buffers, scratch) = tiles.pointers();
            for band in range {
                let row = band % bands * SIDE;
                outer.runs(band / bands..band / bands + 1, |offsets, _| {
                    for piece in 0..pieces {
                        let column = piece * SIDE;
                        let sizes = [SIDE.min(rows - row), SIDE.min(columns - column)];
                        let (down, along) = (self.nest.strides(dim), self.nest.inner_strides());
                        let at = |operand: usize| {
                            offsets[operand] + row as isize * down[operand] + column as isize * along[operand]
                        };
                        // SAFETY: guaranteed by the caller (see `# Safety`); a block is at most a tile.
                        unsafe {
                            self.run_block(std::array::from_fn(at), [down, along], sizes, buffers, scratch);
                        }
                    }
                });
            }
        });
    }

    /// One block of `sizes`: rows, and elements of a row.
    ///
    /// # Safety
    /// The block lies within all operands, and every buffer holds a tile.
    unsafe fn run_block(
        &self,
        offsets: [isize; N],
        [down, along]: [[isize; N]; 2],
        [rows, columns]: [usize; 2],
        buffers: [*mut u8; N],
        scratch: *mut u8,
    ) {
        let n = rows * columns;
        let mut inputs = [std::ptr::null::<u8>(); N];
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            for operand in 1..N {
                let (own, wanted) = (self.operands[operand].dtype, self.compute[operand]);
                let width = own.size();
                let to = if own == wanted { buffers[operand] } else { scratch };
                let from = self.operands[operand].pointer.offset(offsets[operand]);
                if down[operand] == width as isize {
                    // The elements of the next block are adjacent.
                    for column in columns as isize..2 * columns as isize {
                        for line in (0..rows * width).step_by(64) {
                            streaming::prefetch_line(from.wrapping_offset(column * along[operand]).wrapping_add(line));
                        }
                    }
                    transpose_block(to, (columns * width) as isize, from, along[operand], rows, columns, width);
                } else {
                    for row in 0..rows {
                        let (to, from) = (to.add(row * columns * width), from.offset(row as isize * down[operand]));
                        move_strided(to, width as isize, from, along[operand], columns, width);
                    }
                }
                if own != wanted {
                    converter(own, wanted).run(buffers[operand], scratch, n);
                }
                inputs[operand - 1] = buffers[operand];
            }
            (self.inner_loop)(buffers[0], inputs.as_ptr(), n, self.numbers);
            let (own, computed) = (self.operands[0].dtype, self.compute[0]);
            let mut from = buffers[0];
            if own != computed {
                converter(computed, own).run(scratch, buffers[0], n);
                from = scratch;
            }
            let width = own.size();
            for row in 0..rows {
                let to = self.operands[0].pointer.offset(offsets[0] + row as isize * down[0]);
                move_strided(to, along[0], from.add(row * columns * width), width as isize, columns, width);
            }
        }
    }
}
