//! Gathers and scatters of whole blocks: `x[i, j]` and its variants.
//!
//! An operand's dimensions are in three groups: those before the indexed ones, the indexed ones, and those after.
//! Indices are checked and converted to byte offsets once, and then each offset moves a block of the dimensions after.
//! When blocks are written, positions may repeat; threads divide the work by the dimensions before and after or by ranges
//! of offsets, so that each position is written in the order of the indices.

pub mod gather;
mod out_of_bounds;
mod run;
pub mod scatter;

use std::ops::Range;

use rushlight_core::alloc::{filled, list};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{Error, Layout};
use rushlight_par::Address;

pub use out_of_bounds::OutOfBounds;

use crate::convert::cast::move_strided;
use crate::index::scatter::{ScatterKernels, ScatterOffsets};
use crate::pointwise::GRAIN;
use crate::streaming;

/// One index: contiguous integers, the size of the dimension that they index, and its stride in bytes.
#[derive(Clone, Copy)]
pub struct Index {
    pub values: *const i64,
    pub size: isize,
    pub step: isize,
}

// SAFETY: addresses that are only read.
unsafe impl Sync for Index {}
// SAFETY: see above.
unsafe impl Send for Index {}

/// The byte offsets of `n` tuples of indices, or which of them is out of range; negative indices count from the end.
/// Each index is read once, because another thread may be writing to it.
///
/// # Safety
/// Each index holds `n` integers.
pub unsafe fn offsets(indices: &[Index], n: usize) -> Result<Result<Vec<isize>, OutOfBounds>, Error> {
    let mut found: Vec<isize> = list(n)?;
    let base = Address(found.as_mut_ptr());
    let outside = rushlight_par::parallel_reduce(
        n,
        GRAIN,
        |range| {
            let mut outside = None;
            for i in range {
                let mut offset = 0;
                for (number, index) in indices.iter().enumerate() {
                    // SAFETY: guaranteed by the caller (see `# Safety`).
                    let value = unsafe { index.values.add(i).read_unaligned() };
                    let wrapped = if value < 0 { value as isize + index.size } else { value as isize };
                    if wrapped < 0 || wrapped >= index.size {
                        outside = outside.or(Some(OutOfBounds { number, value }));
                    }
                    offset += wrapped.wrapping_mul(index.step);
                }
                // SAFETY: the vector has room for `n`, and each piece writes its own part.
                unsafe { base.at(i).write(offset) };
            }
            outside
        },
        Option::or,
    );
    match outside.flatten() {
        Some(outside) => Ok(Err(outside)),
        None => {
            // SAFETY: all `n` were written.
            unsafe { found.set_len(n) };
            Ok(Ok(found))
        }
    }
}

/// The operand's geometry around the indexed dimensions; `before` includes the operand's offset.
pub struct Frame {
    pub before: Layout,
    pub after: Layout,
}

/// How many blocks ahead memory is prefetched, and how many bytes of each.
const AHEAD: usize = 4;
const PREFETCHED: usize = 1 << 10;

/// Fills a row-major result with the blocks at `offsets`.
///
/// # Safety
/// The frame with every offset stays within the operand, and the result has room for all blocks of `width` bytes an
/// element.
pub unsafe fn get(out: *mut u8, operand: *const u8, frame: &Frame, offsets: &[isize], width: usize) {
    let block = frame.after.numel();
    let nest = LoopNest::new([&Layout::contiguous(&frame.after.sizes), &frame.after], [width, width]);
    let steps = nest.inner_strides();
    let whole = nest.is_flat() && (block == 1 || steps == [width as isize; 2]);
    let (out, operand) = (Address(out), Address(operand.cast_mut()));
    let grain = (GRAIN / block.max(1)).max(1);
    let n = offsets.len();
    rushlight_par::parallel_for(frame.before.numel() * n, grain, |range| {
        let mut at = range.start;
        while at < range.end {
            let first = at % n;
            let count = (range.end - at).min(n - first);
            let part = &offsets[first..first + count];
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let base = operand.offset(frame.before.locate(at / n) * width as isize);
                let mut to = out.at(at * block * width);
                if block == 1 {
                    pick(to, base, part, width);
                } else {
                    for (i, &offset) in part.iter().enumerate() {
                        let from = base.offset(offset);
                        if let Some(&later) = part.get(i + AHEAD) {
                            for line in (0..(block * width).min(PREFETCHED)).step_by(64) {
                                streaming::prefetch_line(base.wrapping_offset(later).wrapping_add(line));
                            }
                        }
                        if whole {
                            std::ptr::copy_nonoverlapping(from, to, block * width);
                        } else {
                            nest.runs(0..block, |at, length| {
                                move_strided(to.offset(at[0]), steps[0], from.offset(at[1]), steps[1], length, width);
                            });
                        }
                        to = to.add(block * width);
                    }
                }
            }
            at += count;
        }
    });
}

/// Copies single elements at byte offsets.
///
/// # Safety
/// There is an element of `width` bytes at every offset, and there is room for as many.
unsafe fn pick(to: *mut u8, base: *const u8, offsets: &[isize], width: usize) {
    /// # Safety
    /// As above, of elements `T`.
    unsafe fn each<T: Copy>(to: *mut u8, base: *const u8, offsets: &[isize]) {
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { to.cast::<T>().add(i).write_unaligned(base.offset(offset).cast::<T>().read_unaligned()) };
        }
    }
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        match width {
            1 => each::<u8>(to, base, offsets),
            2 => each::<u16>(to, base, offsets),
            4 => each::<u32>(to, base, offsets),
            8 => each::<u64>(to, base, offsets),
            _ => each::<u128>(to, base, offsets),
        }
    }
}

/// The source of a write: the geometry before and after, as in the operand, and the stride in bytes from one block to
/// the next.
pub struct Source {
    pub pointer: *const u8,
    pub frame: Frame,
    pub step: isize,
}

/// Merges the source's blocks into the blocks at `offsets`, in the order of the offsets.
///
/// # Safety
/// The frames with every offset stay within their memories, whose elements have `width` bytes and are of the dtype of
/// `kernels`.
pub unsafe fn put(
    operand: *mut u8,
    frame: &Frame,
    offsets: &[isize],
    source: &Source,
    kernels: ScatterKernels,
    width: usize,
) {
    let block = frame.after.numel();
    let nest = LoopNest::new([&frame.after, &source.frame.after], [width, width]);
    let steps = nest.inner_strides();
    // Threads divide long blocks into pieces, and the others by their offsets. Pieces of short blocks would be neighbours in
    // memory, which each thread fetches for its next block while the other one writes to them. Either way the writes to a
    // position keep their order.
    let threads = rushlight_par::num_threads();
    let is_long = block >= LONG_BLOCK * threads;
    let piece = if is_long { block.div_ceil(threads).next_multiple_of(64) } else { block.max(1) };
    let is_shared = !is_long && block > 1 && offsets.len().saturating_mul(block) > GRAIN;
    let shares = Shares::new(offsets, if is_shared { threads } else { 1 });
    let pieces = block.div_ceil(piece).max(1) * shares.count;
    let tasks = frame.before.numel() * pieces;
    let grain = (GRAIN / (offsets.len() * block / pieces).max(1)).max(1);
    let (operand, from) = (Address(operand), Address(source.pointer.cast_mut()));
    let (source_before, source_step) = (&source.frame.before, source.step);
    rushlight_par::parallel_for(tasks, grain, |range| {
        for task in range {
            let (before, part) = (task / pieces, task % pieces / shares.count);
            let own = shares.range(task % shares.count);
            let elements = part * piece..block.min((part + 1) * piece);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let to = operand.offset(frame.before.locate(before) * width as isize);
                let mut from = from.offset(source_before.locate(before) * width as isize).cast_const();
                if block == 1 {
                    (kernels.indexed)(&ScatterOffsets { base: to, stride: 0, offsets }, from, source_step);
                    continue;
                }
                let ahead = |base: *const u8| {
                    for line in (0..(elements.len() * width).min(PREFETCHED)).step_by(64) {
                        streaming::prefetch_line(base.wrapping_add(line));
                    }
                };
                for (i, &offset) in offsets.iter().enumerate() {
                    if let Some(&later) = offsets.get(i + AHEAD)
                        && own.contains(&later)
                    {
                        ahead(to.wrapping_offset(later));
                        ahead(from.wrapping_offset(source_step * AHEAD as isize));
                    }
                    if own.contains(&offset) {
                        nest.runs(elements.clone(), |at, length| {
                            (kernels.run)(to.offset(offset + at[0]), steps[0], from.offset(at[1]), steps[1], length);
                        });
                    }
                    from = from.wrapping_offset(source_step);
                }
            }
        }
    });
}

/// Blocks with so many elements for each thread are divided into pieces.
const LONG_BLOCK: usize = 1 << 12;

/// The ranges of offsets that threads work on: `count` of the same width, beginning at the least offset.
struct Shares {
    count: usize,
    least: isize,
    width: isize,
}

impl Shares {
    fn new(offsets: &[isize], count: usize) -> Shares {
        if count == 1 {
            return Shares { count, least: 0, width: 0 };
        }
        let (least, most) = (offsets.iter().min().copied(), offsets.iter().max().copied());
        let (least, most) = (least.unwrap_or(0), most.unwrap_or(0));
        Shares { count, least, width: (most - least) / count as isize + 1 }
    }

    /// All offsets, if there is one share.
    fn range(&self, share: usize) -> Range<isize> {
        if self.count == 1 {
            return isize::MIN..isize::MAX;
        }
        let first = self.least + share as isize * self.width;
        first..first + self.width
    }
}

/// The indices of the bytes that are not zero. Each byte is read once, into a bitmap of our own, because another thread
/// may be writing to them.
///
/// # Safety
/// `bytes` holds `n`.
pub unsafe fn positions(bytes: *const u8, n: usize) -> Result<Vec<i64>, Error> {
    let pieces = n.div_ceil(GRAIN);
    let mut map = filled(0u64, n.div_ceil(WORD))?;
    let mut starts = filled(0usize, pieces + 1)?;
    let (bytes, words, counts) = (Address(bytes.cast_mut()), Address(map.as_mut_ptr()), Address(starts.as_mut_ptr()));
    rushlight_par::parallel_for(n, GRAIN, |range| {
        let mut count = 0;
        for first in (range.start..range.end).step_by(WORD) {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            let bit = |i: usize| u64::from(unsafe { bytes.at(first + i).read() } != 0) << i;
            let word = (0..WORD.min(range.end - first)).map(bit).sum::<u64>();
            count += word.count_ones() as usize;
            // SAFETY: pieces begin at whole words, and each writes its own words.
            unsafe { words.at(first / WORD).write(word) };
        }
        // SAFETY: each piece writes its own count.
        unsafe { counts.at(range.start / GRAIN + 1).write(count) };
    });
    for at in 0..pieces {
        starts[at + 1] += starts[at];
    }
    let total = starts[pieces];
    let mut found: Vec<i64> = list(total)?;
    let out = Address(found.as_mut_ptr());
    rushlight_par::parallel_for(pieces, 1, |range| {
        for at in range {
            let mut next = starts[at];
            let first = at * (GRAIN / WORD);
            for (number, &word) in map.iter().enumerate().skip(first).take(GRAIN / WORD) {
                let mut rest = word;
                while rest != 0 {
                    let place = number * WORD + rest.trailing_zeros() as usize;
                    // SAFETY: the count left room for exactly these.
                    unsafe { out.at(next).write(place as i64) };
                    next += 1;
                    rest &= rest - 1;
                }
            }
        }
    });
    // SAFETY: all were written.
    unsafe { found.set_len(total) };
    Ok(found)
}

/// The number of bytes that one word of the bitmap covers.
const WORD: usize = u64::BITS as usize;

/// Splits row-major indices into coordinates: `out` gets a row of `n` for each dimension.
///
/// # Safety
/// `places` holds `n` numbers below the product of `sizes`, and `out` has room for all rows.
pub unsafe fn coordinates(places: *const i64, n: usize, sizes: &[isize], out: *mut i64) {
    let (places, out) = (Address(places.cast_mut()), Address(out));
    rushlight_par::parallel_for(n, GRAIN, |range| {
        for i in range {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let mut rest = places.at(i).read();
                for (dim, &size) in sizes.iter().enumerate().rev() {
                    let size = size.max(1) as i64;
                    out.at(dim * n + i).write(rest % size);
                    rest /= size;
                }
            }
        }
    });
}
