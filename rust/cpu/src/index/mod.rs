//! Gathers and scatters of whole blocks: `x[i, j]` and its kin.
//!
//! An operand's dimensions fall into three groups: those before the indexed ones, the indexed ones, and those after. Indices
//! become byte offsets once, checked, and then every offset moves a block of what comes after. When blocks are written,
//! places may repeat; threads share the work by what stands before and after, never by the offsets, so that the order in
//! which one place is written is always the order of the indices.

pub mod gather;
pub mod merge;
mod run;

use rushlight_core::alloc::{filled, list};
use rushlight_core::plan::Plan;
use rushlight_core::{Error, Layout};
use rushlight_par::Address;

use crate::convert::cast::move_strided;
use crate::index::merge::{Merger, Places};
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

/// An index that lies outside: which of the indices, and its value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outside {
    pub number: usize,
    pub value: i64,
}

/// The byte offsets that `n` tuples of indices name, or which of them lies outside; negative indices count from the end.
/// Each index is read once: another thread may be writing to it.
///
/// # Safety
/// Each index holds `n` integers.
pub unsafe fn offsets(indices: &[Index], n: usize) -> Result<Result<Vec<isize>, Outside>, Error> {
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
                    // SAFETY: by the caller's word.
                    let value = unsafe { index.values.add(i).read_unaligned() };
                    let wrapped = if value < 0 { value as isize + index.size } else { value as isize };
                    if wrapped < 0 || wrapped >= index.size {
                        outside = outside.or(Some(Outside { number, value }));
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

/// The operand's geometry around the indexed dimensions; `before` carries the operand's offset.
pub struct Frame {
    pub before: Layout,
    pub after: Layout,
}

/// How many blocks ahead memory is asked for, and how many bytes of one.
const AHEAD: usize = 4;
const PREFETCHED: usize = 1 << 10;

/// Fills a row-major result with the blocks that `offsets` name.
///
/// # Safety
/// The frame with every offset stays within the operand, and the result has room for all blocks of `width` bytes an element.
pub unsafe fn get(out: *mut u8, operand: *const u8, frame: &Frame, offsets: &[isize], width: usize) {
    let block = frame.after.numel();
    let plan = Plan::new([&Layout::contiguous(&frame.after.sizes), &frame.after], [width, width]);
    let steps = plan.inner_strides();
    let whole = plan.is_flat() && (block == 1 || steps == [width as isize; 2]);
    let (out, operand) = (Address(out), Address(operand.cast_mut()));
    let grain = (GRAIN / block.max(1)).max(1);
    let n = offsets.len();
    rushlight_par::parallel_for(frame.before.numel() * n, grain, |range| {
        let mut at = range.start;
        while at < range.end {
            let first = at % n;
            let count = (range.end - at).min(n - first);
            let part = &offsets[first..first + count];
            // SAFETY: by the caller's word.
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
                                streaming::ask(base.wrapping_offset(later).wrapping_add(line));
                            }
                        }
                        if whole {
                            std::ptr::copy_nonoverlapping(from, to, block * width);
                        } else {
                            plan.runs(0..block, |at, length| {
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

/// Single elements at byte offsets.
///
/// # Safety
/// An element of `width` bytes stands at every offset, and there is room for as many.
unsafe fn pick(to: *mut u8, base: *const u8, offsets: &[isize], width: usize) {
    /// # Safety
    /// As above, of elements `T`.
    unsafe fn each<T: Copy>(to: *mut u8, base: *const u8, offsets: &[isize]) {
        for (i, &offset) in offsets.iter().enumerate() {
            // SAFETY: by the caller's word.
            unsafe { to.cast::<T>().add(i).write_unaligned(base.offset(offset).cast::<T>().read_unaligned()) };
        }
    }
    // SAFETY: by the caller's word.
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

/// What is written: the geometry before and after, as in the operand, and the stride in bytes from one block to the next.
pub struct Source {
    pub pointer: *const u8,
    pub frame: Frame,
    pub step: isize,
}

/// Merges the source's blocks into the blocks that `offsets` name, in the order of the offsets.
///
/// # Safety
/// The frames with every offset stay within their memories, whose elements have `width` bytes and are what `merger` merges.
pub unsafe fn put(operand: *mut u8, frame: &Frame, offsets: &[isize], source: &Source, merger: Merger, width: usize) {
    let block = frame.after.numel();
    let plan = Plan::new([&frame.after, &source.frame.after], [width, width]);
    let steps = plan.inner_strides();
    // Pieces of a block for threads to share, a few cache lines wide: the order at one place does not depend on them.
    let piece = block.div_ceil(rushlight_par::num_threads()).next_multiple_of(64).max(1);
    let pieces = block.div_ceil(piece).max(1);
    let tasks = frame.before.numel() * pieces;
    let grain = (GRAIN / (offsets.len() * piece.min(block)).max(1)).max(1);
    let (operand, from) = (Address(operand), Address(source.pointer.cast_mut()));
    let (source_before, source_step) = (&source.frame.before, source.step);
    rushlight_par::parallel_for(tasks, grain, |range| {
        for task in range {
            let (before, part) = (task / pieces, task % pieces);
            let elements = part * piece..block.min((part + 1) * piece);
            // SAFETY: by the caller's word.
            unsafe {
                let to = operand.offset(frame.before.locate(before) * width as isize);
                let mut from = from.offset(source_before.locate(before) * width as isize).cast_const();
                if block == 1 {
                    (merger.indexed)(&Places { base: to, stride: 0, offsets }, from, source_step);
                    continue;
                }
                for &offset in offsets {
                    plan.runs(elements.clone(), |at, length| {
                        (merger.run)(to.offset(offset + at[0]), steps[0], from.offset(at[1]), steps[1], length);
                    });
                    from = from.wrapping_offset(source_step);
                }
            }
        }
    });
}

/// The numbers of the bytes that are not zero. Each byte is read once, into a bit of a map of our own: another thread may be
/// writing to them.
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
            // SAFETY: by the caller's word.
            let bit = |i: usize| u64::from(unsafe { bytes.at(first + i).read() } != 0) << i;
            let word = (0..WORD.min(range.end - first)).map(bit).sum::<u64>();
            count += word.count_ones() as usize;
            // SAFETY: pieces begin at whole words, and each has words of its own.
            unsafe { words.at(first / WORD).write(word) };
        }
        // SAFETY: each piece has a place of its own.
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

/// Bytes whose answers fit into one word of the map.
const WORD: usize = u64::BITS as usize;

/// Row-major numbers taken apart into coordinates: `out` gets a row of `n` for each dimension.
///
/// # Safety
/// `places` holds `n` numbers below the product of `sizes`, and `out` has room for all rows.
pub unsafe fn coordinates(places: *const i64, n: usize, sizes: &[isize], out: *mut i64) {
    let (places, out) = (Address(places.cast_mut()), Address(out));
    rushlight_par::parallel_for(n, GRAIN, |range| {
        for i in range {
            // SAFETY: by the caller's word.
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
