//! The skeleton of reductions: many elements become one, by a tree that does not depend on threads.
//!
//! An operator gives a [`Fold`]: how contiguous elements become an accumulator, how a few stacked rows become an
//! accumulator for each column, how accumulators join, and how they give the result (see [`folds!`](crate::folds)). The
//! skeleton chooses the order. If the reduced elements are adjacent in memory, each result folds its row; if those of
//! adjacent results are, a tile of columns is folded at once. Elements with other strides, or of another dtype, pass
//! through buffers in the first-level cache. Long rows and tall columns are split at fixed positions, and all partial
//! results are combined pairwise in order: the error of a sum grows with the logarithm of the count, and the bits are
//! the same for any number of threads.

pub mod cumulative;
mod extreme;
mod logsumexp;
pub(crate) mod moments;
mod partial;
pub mod softmax;

pub use extreme::{Extreme, Towards, extremum};
pub use logsumexp::log_sum_exp;
pub use moments::moments;
pub use partial::Join;

use std::ops::Range;

use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Result};

use crate::convert::cast::{converter, move_strided};
use crate::pointwise::GRAIN;
use partial::{Buffer, Bytes, Counter, join_tree};

/// The kernels of one reduction for one dtype. Accumulators are opaque bytes to the skeleton.
#[derive(Clone, Copy)]
pub struct Fold {
    /// The dtype to which elements are converted.
    pub takes: DType,
    /// The dtypes of the results of `done`; the second only if there are two results.
    pub gives: [DType; 2],
    pub results: usize,
    /// The size of an accumulator in bytes, at most `WIDEST`.
    pub width: usize,
    /// Whether accumulators store an element's index.
    pub indexed: bool,
    pub row: RowFold,
    pub columns: ColumnFold,
    /// The most rows that one call of `columns` takes: a multiple of `STACK`, at most `TALL`.
    pub stack: usize,
    pub join: Join,
    pub done: Done,
    /// The function for whole rows that are too short for `row`.
    pub short: Option<ShortRows>,
}

/// Computes `rows` accumulators from as many rows of `n` contiguous elements, `step` bytes apart.
///
/// # Safety
/// The rows lie at `data`, the accumulators' space at `accs`; both are of the fold's dtypes.
pub type ShortRows = unsafe fn(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, numbers: &[f64]);
/// Computes an accumulator from `n` contiguous elements, the first of which is the `first`-th of its reduction.
///
/// # Safety
/// `n` elements lie at `row`, and `acc` has room for an accumulator of the fold.
pub type RowFold = unsafe fn(acc: *mut u8, row: *const u8, n: usize, first: usize, numbers: &[f64]);
/// Computes `n` accumulators from `rows` rows of `n` contiguous elements, `step` bytes apart.
///
/// # Safety
/// The rows lie at `data`, and `accs` has room for `n` accumulators of the fold.
pub type ColumnFold =
    unsafe fn(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, first: usize, numbers: &[f64]);

/// Computes `n` results from accumulators of `count` elements each.
///
/// # Safety
/// `n` filled accumulators lie at `accs`, and each output has room for `n` results.
pub type Done = unsafe fn(outs: *const *mut u8, accs: *const u8, n: usize, count: usize, numbers: &[f64]);

/// The widest accumulator.
pub const WIDEST: usize = 32;
/// The most elements that one call of `Fold::row` takes.
const PIECE: usize = 1 << 14;
/// The number of elements of a long row, or of tall columns, in a piece of parallel work.
const SEGMENT: usize = 1 << 17;
/// With this many independent results a reduction is not split any further.
const MANY: usize = 32;
/// The most rows that one call of `Fold::columns` takes if joining accumulators is cheap: the fewer, the smaller the
/// error.
pub const STACK: usize = 16;
/// The most rows that it takes if joining is expensive.
pub const TALL: usize = 64;
/// The number of columns that are folded side by side: read in place, or through buffers.
const TILE: usize = 1024;
const GATHERED: usize = 128;
/// The number of elements of a row that pass through a buffer at once.
const BUFFER: usize = 2048;
/// Runs of adjacent elements that are folded in place, although a row has several of them.
const LONG_RUN: usize = 512;
/// Rows shorter than this are folded as columns.
const SHORT: usize = 32;
/// The most levels of a binary counter of partial results.
const LEVELS: usize = 48;

/// One reduction: its operands and its fold.
pub struct Reduction<'a> {
    /// Visits the results (in elements) and the first element of each one's reduction (in bytes).
    pub outer: &'a LoopNest<2>,
    /// Visits the elements of one reduction, from its first.
    pub inner: &'a LoopNest<1>,
    pub input: *const u8,
    pub dtype: DType,
    pub outputs: [(*mut u8, DType); 2],
    pub fold: Fold,
    pub numbers: &'a [f64],
}

// SAFETY: addresses; every thread writes its own results.
unsafe impl Sync for Reduction<'_> {}

impl Reduction<'_> {
    /// Computes every result.
    ///
    /// # Safety
    /// `outer` and `inner` stay within the memory of input and outputs, and the fold is made for these dtypes.
    pub unsafe fn run(&self) -> Result<()> {
        let (across, along) = (self.outer.inner_strides()[1], self.inner.inner_strides()[0]);
        let tall = across.abs() < along.abs() && self.outer.inner() >= 8;
        let short = self.inner.numel() < SHORT;
        let adjacent = self.inner.is_flat() && self.dtype == self.fold.takes && along == self.dtype.size() as isize;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match self.fold.short {
                _ if self.outer.numel() <= 1 => self.by_rows(),
                Some(fold) if short && adjacent && !tall => {
                    self.by_short_rows(fold);
                    Ok(())
                }
                _ if tall || short => self.by_columns(),
                _ => self.by_rows(),
            }
        }
    }

    /// Short rows of adjacent elements, many in one call.
    ///
    /// # Safety
    /// Same as for `run`, and the rows are adjacent elements of the fold's dtype.
    unsafe fn by_short_rows(&self, fold: ShortRows) {
        const BATCH: usize = 256;
        let length = self.inner.numel();
        let steps = self.outer.inner_strides();
        rushlight_par::parallel_for(self.outer.numel(), GRAIN / length.max(1), |range| {
            let mut accs = Bytes::<{ BATCH * WIDEST }>::new();
            let accs = accs.pointer();
            self.outer.runs(range, |offsets, n| {
                for start in (0..n).step_by(BATCH) {
                    let count = BATCH.min(n - start);
                    // SAFETY: guaranteed by the caller (see `# Safety`); a batch has room for its accumulators.
                    unsafe {
                        let rows = self.input.offset(self.inner.bases()[0] + offsets[1] + start as isize * steps[1]);
                        fold(accs, rows, steps[1], count, length, self.numbers);
                        self.emit(offsets[0] + start as isize * steps[0], steps[0], accs, count);
                    }
                }
            });
        });
    }

    /// # Safety
    /// Same as for `run`.
    unsafe fn by_rows(&self) -> Result<()> {
        let (results, length, width) = (self.outer.numel(), self.inner.numel(), self.fold.width);
        if results >= MANY || length <= SEGMENT {
            let grain = (GRAIN / length.max(1)).max(1);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            rushlight_par::parallel_for(results, grain, |range| unsafe { self.rows(range) });
            return Ok(());
        }
        let segments = length.div_ceil(SEGMENT);
        let partial = Buffer::try_new((results * width).checked_mul(segments))?;
        let mut starts: smallvec::SmallVec<[(isize, isize); MANY]> = smallvec::SmallVec::new();
        let steps = self.outer.inner_strides();
        self.outer.runs(0..results, |offsets, n| {
            starts.extend((0..n as isize).map(|i| (offsets[0] + i * steps[0], offsets[1] + i * steps[1])));
        });
        // SAFETY: guaranteed by the caller (see `# Safety`); each task has its own accumulator.
        unsafe {
            rushlight_par::parallel_tasks(results * segments, |task| {
                let from = task % segments * SEGMENT;
                let range = from..length.min(from + SEGMENT);
                self.fold_row(self.input.offset(starts[task / segments].1), range, partial.at(task * width));
            });
            for (row, start) in starts.iter().enumerate() {
                let base = partial.at(row * segments * width);
                join_tree(self.fold.join, base, segments, width, 1);
                self.emit(start.0, 1, base, 1);
            }
        }
        Ok(())
    }

    /// The results of `range`, row by row.
    ///
    /// # Safety
    /// Same as for `run`; the range lies within the results.
    unsafe fn rows(&self, range: Range<usize>) {
        const BATCH: usize = 64;
        let mut accs = Bytes::<{ BATCH * WIDEST }>::new();
        let accs = accs.pointer();
        let steps = self.outer.inner_strides();
        self.outer.runs(range, |offsets, n| {
            for start in (0..n).step_by(BATCH) {
                let count = BATCH.min(n - start);
                // SAFETY: guaranteed by the caller (see `# Safety`); a batch has room for its accumulators.
                unsafe {
                    for i in 0..count {
                        let row = self.input.offset(offsets[1] + (start + i) as isize * steps[1]);
                        self.fold_row(row, 0..self.inner.numel(), accs.add(i * self.fold.width));
                    }
                    self.emit(offsets[0] + start as isize * steps[0], steps[0], accs, count);
                }
            }
        });
    }

    /// Folds a range of one row into `acc`.
    ///
    /// # Safety
    /// The row lies within the input, and `acc` has room for an accumulator.
    unsafe fn fold_row(&self, row: *const u8, range: Range<usize>, acc: *mut u8) {
        let Fold { width, join, .. } = self.fold;
        // SAFETY: guaranteed by the caller (see `# Safety`); a counter over usize never needs more levels.
        unsafe {
            if range.len() <= PIECE {
                return self.fold_piece(row, range, acc);
            }
            let mut levels = Bytes::<{ LEVELS * WIDEST }>::new();
            let base = levels.pointer();
            let mut counter = Counter::new(base, width);
            for start in range.clone().step_by(PIECE) {
                self.fold_piece(row, start..range.end.min(start + PIECE), counter.place());
                counter.carry(join, 1);
            }
            counter.finish(join, 1);
            std::ptr::copy_nonoverlapping(base, acc, width);
        }
    }

    /// Folds at most `PIECE` elements: in place, or through a buffer.
    ///
    /// # Safety
    /// Same as for `fold_row`.
    unsafe fn fold_piece(&self, row: *const u8, range: Range<usize>, acc: *mut u8) {
        let Fold { takes, .. } = self.fold;
        let size = self.dtype.size();
        let step = self.inner.inner_strides()[0];
        let adjacent = self.inner.is_flat() && (step == size as isize || self.inner.numel() <= 1);
        // SAFETY: guaranteed by the caller (see `# Safety`); a buffer holds BUFFER elements of any dtype.
        unsafe {
            if adjacent && self.dtype == takes {
                (self.fold.row)(
                    acc,
                    row.offset(self.inner.bases()[0]).add(range.start * size),
                    range.len(),
                    range.start,
                    self.numbers,
                );
                return;
            }
            if range.is_empty() {
                (self.fold.row)(acc, row, 0, 0, self.numbers);
                return;
            }
            if self.dtype == takes && step == size as isize && self.inner.inner() >= LONG_RUN {
                return self.fold_runs(row, range, acc);
            }
            self.fold_buffered(row, range, acc, adjacent);
        }
    }

    /// Folds long runs in place, one after the other.
    ///
    /// # Safety
    /// Same as for `fold_row`; the elements of a run are adjacent, and of the fold's dtype.
    unsafe fn fold_runs(&self, row: *const u8, range: Range<usize>, acc: *mut u8) {
        let Fold { width, join, .. } = self.fold;
        let mut levels = Bytes::<{ LEVELS * WIDEST }>::new();
        let base = levels.pointer();
        let mut first = range.start;
        // SAFETY: guaranteed by the caller (see `# Safety`); a counter over usize never needs more levels.
        unsafe {
            let mut counter = Counter::new(base, width);
            self.inner.runs(range, |offsets, n| {
                (self.fold.row)(counter.place(), row.offset(offsets[0]), n, first, self.numbers);
                counter.carry(join, 1);
                first += n;
            });
            counter.finish(join, 1);
            std::ptr::copy_nonoverlapping(base, acc, width);
        }
    }

    /// # Safety
    /// Same as for `fold_row`.
    #[inline(never)]
    unsafe fn fold_buffered(&self, row: *const u8, range: Range<usize>, acc: *mut u8, adjacent: bool) {
        let Fold { takes, width, join, .. } = self.fold;
        let size = self.dtype.size();
        let step = self.inner.inner_strides()[0];
        // SAFETY: as in `fold_piece`.
        unsafe {
            let (mut gathered, mut cast) = (Bytes::<{ BUFFER * 16 }>::new(), Bytes::<{ BUFFER * 16 }>::new());
            let (gathered, cast) = (gathered.pointer(), cast.pointer());
            let mut levels = Bytes::<{ (PIECE / BUFFER + 2) * WIDEST }>::new();
            let base = levels.pointer();
            let mut counter = Counter::new(base, width);
            for start in range.clone().step_by(BUFFER) {
                let end = range.end.min(start + BUFFER);
                let mut source = gathered.cast_const();
                if adjacent {
                    source = row.offset(self.inner.bases()[0]).add(start * size);
                } else {
                    let mut filled = 0;
                    self.inner.runs(start..end, |offsets, n| {
                        move_strided(gathered.add(filled * size), size as isize, row.offset(offsets[0]), step, n, size);
                        filled += n;
                    });
                }
                if self.dtype != takes {
                    converter(self.dtype, takes).run(cast, source, end - start);
                    source = cast;
                }
                (self.fold.row)(counter.place(), source, end - start, start, self.numbers);
                counter.carry(join, 1);
            }
            counter.finish(join, 1);
            std::ptr::copy_nonoverlapping(base, acc, width);
        }
    }

    /// # Safety
    /// Same as for `run`.
    unsafe fn by_columns(&self) -> Result<()> {
        let (columns, rows, width) = (self.outer.numel(), self.inner.numel(), self.fold.width);
        let tile = if self.reads_columns() { TILE } else { GATHERED };
        let tiles = columns.div_ceil(tile);
        let segment = (SEGMENT / tile.min(columns)).next_multiple_of(self.fold.stack);
        if tiles >= MANY || rows <= segment {
            let grain = (GRAIN / rows.max(1)).clamp(1, GRAIN).next_multiple_of(tile);
            rushlight_par::parallel_for(columns, grain, |range| {
                for start in range.clone().step_by(tile) {
                    let part = start..range.end.min(start + tile);
                    let accs = Buffer::new(part.len() * width);
                    // SAFETY: guaranteed by the caller (see `# Safety`).
                    unsafe {
                        self.fold_columns(part.clone(), 0..rows, accs.at(0));
                        self.emit_range(part, accs.at(0));
                    }
                }
            });
            return Ok(());
        }
        let segments = rows.div_ceil(segment);
        let partial = Buffer::try_new((columns * width).checked_mul(segments))?;
        let part = |index: usize| index * tile..columns.min((index + 1) * tile);
        // SAFETY: guaranteed by the caller (see `# Safety`); each task has its own accumulators.
        unsafe {
            rushlight_par::parallel_tasks(tiles * segments, |task| {
                let (columns_of, from) = (part(task / segments), task % segments * segment);
                let place = columns_of.start * segments + task % segments * columns_of.len();
                self.fold_columns(columns_of, from..rows.min(from + segment), partial.at(place * width));
            });
            rushlight_par::parallel_tasks(tiles, |index| {
                let columns_of = part(index);
                let base = partial.at(columns_of.start * segments * width);
                join_tree(self.fold.join, base, segments, columns_of.len() * width, columns_of.len());
                self.emit_range(columns_of, base);
            });
        }
        Ok(())
    }

    /// Whether columns are read in place.
    fn reads_columns(&self) -> bool {
        self.dtype == self.fold.takes && self.outer.inner_strides()[1] == self.dtype.size() as isize
    }

    /// Folds some rows of the columns `part` into as many accumulators.
    ///
    /// # Safety
    /// Rows and columns lie within the input, and `accs` has room for an accumulator of each column.
    unsafe fn fold_columns(&self, part: Range<usize>, rows: Range<usize>, accs: *mut u8) {
        let width = self.fold.width;
        let mut filled = 0;
        self.outer.runs(part, |offsets, n| {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let (base, accs) = (self.input.offset(offsets[1]), accs.add(filled * width));
                match self.widening(n) {
                    Some(times) if rows.len() >= times * 4 => self.fold_narrow(base, n, times, rows.clone(), accs),
                    _ => self.fold_stacks(base, n, rows.clone(), accs),
                }
            }
            filled += n;
        });
    }

    /// How many of a narrow matrix's rows, which are contiguous, are combined into one wider row.
    fn widening(&self, n: usize) -> Option<usize> {
        let gapless = self.reads_columns()
            && self.inner.is_flat()
            && self.inner.inner_strides()[0] == (n * self.dtype.size()) as isize;
        (gapless && n <= 128 && !self.fold.indexed).then(|| 512 / n)
    }

    /// `times` rows taken as one; their accumulators are joined at the end.
    ///
    /// # Safety
    /// Same as for `fold_columns`; `times` rows are contiguous.
    unsafe fn fold_narrow(&self, base: *const u8, n: usize, times: usize, rows: Range<usize>, accs: *mut u8) {
        let Fold { width, join, columns, stack, .. } = self.fold;
        let step = self.inner.inner_strides()[0];
        let whole = rows.len() / times;
        let wide = n * times;
        let scratch = Buffer::new(wide * width * (levels(whole) + 1));
        // SAFETY: `whole * times` rows are contiguous; the rest is guaranteed by the caller (see `# Safety`).
        unsafe {
            let base = base.offset(self.inner.bases()[0] + rows.start as isize * step);
            let mut counter = Counter::new(scratch.start, wide * width);
            for start in (0..whole).step_by(stack) {
                let count = stack.min(whole - start);
                let data = base.offset((start * times) as isize * step);
                columns(counter.place(), data, step * times as isize, count, wide, 0, self.numbers);
                counter.carry(join, wide);
            }
            counter.finish(join, wide);
            let mut groups = times;
            while groups > 1 {
                let half = groups.div_ceil(2);
                join(scratch.at(0), scratch.at(half * n * width), (groups - half) * n);
                groups = half;
            }
            std::ptr::copy_nonoverlapping(scratch.at(0), accs, n * width);
            let rest = whole * times..rows.len();
            if !rest.is_empty() {
                let data = base.offset(rest.start as isize * step);
                columns(scratch.at(0), data, step, rest.len(), n, 0, self.numbers);
                join(accs, scratch.at(0), n);
            }
        }
    }

    /// Stacks of rows, joined in order.
    ///
    /// # Safety
    /// Same as for `fold_columns`.
    unsafe fn fold_stacks(&self, base: *const u8, n: usize, rows: Range<usize>, accs: *mut u8) {
        let Fold { width, join, columns, stack, .. } = self.fold;
        let mut buffer = Bytes::<{ 64 * WIDEST }>::new();
        let needed = (levels(rows.len()) + 2) * n * width;
        let heap;
        let base_of_levels = if needed <= 64 * WIDEST {
            buffer.pointer()
        } else {
            heap = Buffer::new(needed);
            heap.start
        };
        let step = self.inner.inner_strides()[0];
        let direct = self.reads_columns() || (n == 1 && self.dtype == self.fold.takes);
        // SAFETY: guaranteed by the caller (see `# Safety`); there is room for every level and one stack more.
        unsafe {
            let mut counter = Counter::new(base_of_levels, n * width);
            if rows.is_empty() {
                columns(counter.place(), base, 0, 0, n, 0, self.numbers);
                counter.carry(join, n);
            }
            for start in rows.clone().step_by(stack) {
                let end = rows.end.min(start + stack);
                let place = counter.place();
                let mut done = 0;
                self.inner.runs(start..end, |offsets, count| {
                    let target = if done == 0 { place } else { place.add(n * width) };
                    let data = base.offset(offsets[0]);
                    if direct {
                        columns(target, data, step, count, n, start + done, self.numbers);
                    } else {
                        self.gather_stack(target, data, step, count, n, start + done);
                    }
                    if done > 0 {
                        join(place, target, n);
                    }
                    done += count;
                });
                counter.carry(join, n);
            }
            counter.finish(join, n);
            std::ptr::copy_nonoverlapping(base_of_levels, accs, n * width);
        }
    }

    /// A stack of rows whose elements are not adjacent, or not of the fold's dtype.
    ///
    /// # Safety
    /// The rows lie at `data`, at most a stack of them, and `accs` has room for `n` accumulators.
    #[inline(never)]
    unsafe fn gather_stack(&self, accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, first: usize) {
        let Fold { takes, columns, .. } = self.fold;
        let (size, wide) = (self.dtype.size(), takes.size());
        let across = self.outer.inner_strides()[1];
        let mut stack = Bytes::<{ TALL * GATHERED * 8 }>::new();
        let mut line = Bytes::<{ GATHERED * 16 }>::new();
        let (stack, line) = (stack.pointer(), line.pointer());
        // SAFETY: guaranteed by the caller (see `# Safety`); tiles that are gathered have at most GATHERED columns.
        unsafe {
            for row in 0..rows {
                let (from, to) = (data.offset(row as isize * step), stack.add(row * n * wide));
                if self.dtype == takes {
                    move_strided(to, wide as isize, from, across, n, size);
                } else if across == size as isize {
                    converter(self.dtype, takes).run(to, from, n);
                } else {
                    move_strided(line, size as isize, from, across, n, size);
                    converter(self.dtype, takes).run(to, line, n);
                }
            }
            columns(accs, stack, (n * wide) as isize, rows, n, first, self.numbers);
        }
    }

    /// Writes the results of a range of columns.
    ///
    /// # Safety
    /// `accs` holds a filled accumulator of each column in `part`, which lies within the results.
    unsafe fn emit_range(&self, part: Range<usize>, accs: *const u8) {
        let step = self.outer.inner_strides()[0];
        let mut written = 0;
        self.outer.runs(part, |offsets, n| {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { self.emit(offsets[0], step, accs.add(written * self.fold.width), n) };
            written += n;
        });
    }

    /// Writes `n` results, `step` elements apart.
    ///
    /// # Safety
    /// `n` filled accumulators lie at `accs`, and the results' places within the outputs.
    unsafe fn emit(&self, at: isize, step: isize, accs: *const u8, n: usize) {
        let Fold { gives, results, done, width, .. } = self.fold;
        let count = self.inner.numel();
        let outputs = self.outputs;
        // SAFETY: guaranteed by the caller (see `# Safety`); buffers hold GATHERED results of any dtype.
        unsafe {
            if (step == 1 || n == 1) && (0..results).all(|i| outputs[i].1 == gives[i]) {
                let outs =
                    std::array::from_fn::<_, 2, _>(|i| outputs[i].0.wrapping_offset(at * outputs[i].1.size() as isize));
                return done(outs.as_ptr(), accs, n, count, self.numbers);
            }
            let mut buffers = [Bytes::<{ GATHERED * 16 }>::new(), Bytes::<{ GATHERED * 16 }>::new()];
            let mut cast = Bytes::<{ GATHERED * 16 }>::new();
            let outs: [*mut u8; 2] = buffers.each_mut().map(Bytes::pointer);
            for start in (0..n).step_by(GATHERED) {
                let some = GATHERED.min(n - start);
                done(outs.as_ptr(), accs.add(start * width), some, count, self.numbers);
                for i in 0..results {
                    let (pointer, dtype) = outputs[i];
                    let size = dtype.size();
                    converter(gives[i], dtype).run(cast.pointer(), outs[i], some);
                    let to = pointer.offset((at + start as isize * step) * size as isize);
                    move_strided(to, step * size as isize, cast.pointer(), size as isize, some, size);
                }
            }
        }
    }
}

/// The number of levels that a counter of stacks needs for `rows` rows.
fn levels(rows: usize) -> usize {
    (usize::BITS - rows.div_ceil(STACK).leading_zeros()) as usize + 1
}
