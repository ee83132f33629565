//! The skeleton of reductions: rows of elements become one value each, by a tree that does not depend on threads.
//!
//! A row's own loop (`Fold`) turns contiguous elements into one partial result; `join` puts two partial results together.
//! Rows longer than `PIECE` are cut at multiples of it and the pieces meet pairwise in order.

use rushlight_core::DType;
use rushlight_core::plan::Plan;

use crate::cast::{converter, move_strided};

/// Reduces `n` contiguous elements to one.
pub type Fold = unsafe fn(out: *mut u8, row: *const u8, n: usize);

/// How many elements one call of a fold sees at most.
pub const PIECE: usize = 4096;
const WIDEST: usize = 16;

/// A reduction's operand and result in memory.
#[derive(Clone, Copy)]
pub struct Ends {
    pub input: *const u8,
    pub input_dtype: DType,
    pub output: *mut u8,
    pub output_dtype: DType,
    /// The dtype in which rows are folded.
    pub compute: DType,
}

// SAFETY: addresses; every thread writes its own results.
unsafe impl Sync for Ends {}
// SAFETY: see above.
unsafe impl Send for Ends {}

/// Reduces each row: `outer` walks results and the rows' first elements, `inner` walks one row.
///
/// # Safety
/// The plans stay within the memory of `ends`, and the folds work on elements of `ends.compute`.
pub unsafe fn rows(outer: &Plan<2>, inner: &Plan<1>, ends: Ends, fold: Fold) {
    let length = inner.numel();
    let grain = (crate::pointwise::GRAIN / length.max(1)).max(1);
    rushlight_par::parallel_for(outer.numel(), grain, |range| {
        let steps = outer.inner_strides();
        outer.runs(range, |offsets, n| {
            for i in 0..n as isize {
                // SAFETY: by the caller's word.
                unsafe {
                    let ends = ends;
                    let out = ends.output.offset(offsets[0] + i * steps[0]);
                    let row = ends.input.offset(offsets[1] + i * steps[1]);
                    let mut value = [0u64; 2];
                    let parallel = outer.numel() == 1;
                    fold_row(inner, row, &ends, fold, value.as_mut_ptr().cast(), parallel);
                    converter(ends.compute, ends.output_dtype)(out, value.as_ptr().cast(), 1);
                }
            }
        });
    });
}

/// One row: pieces first (on several threads if it is the only row), then their tree.
unsafe fn fold_row(inner: &Plan<1>, row: *const u8, ends: &Ends, fold: Fold, out: *mut u8, parallel: bool) {
    let length = inner.numel();
    let width = ends.compute.size();
    let pieces = length.div_ceil(PIECE).max(1);
    let mut partial = vec![0u64; (pieces * width).div_ceil(8)];
    let base = SendPtr(partial.as_mut_ptr().cast::<u8>());
    let source = SendPtr(row.cast_mut());
    let piece = |index: usize| {
        let (base, source) = (&base, &source);
        let start = index * PIECE;
        let n = PIECE.min(length - start);
        // SAFETY: by the caller's word; each piece has a slot of its own.
        unsafe { fold_piece(inner, start, n, source.0, ends, fold, base.0.add(index * width)) };
    };
    if parallel && pieces > 8 {
        rushlight_par::parallel_for(pieces, 8, |range| range.for_each(piece));
    } else {
        (0..pieces).for_each(piece);
    }
    // SAFETY: `partial` holds `pieces` values.
    unsafe {
        let mut level = pieces;
        while level > 1 {
            let next = level.div_ceil(2);
            for i in 0..next {
                let n = 2.min(level - 2 * i);
                fold(base.0.add(i * width), base.0.add(2 * i * width), n);
            }
            level = next;
        }
        std::ptr::copy_nonoverlapping(base.0, out, width);
    }
}

struct SendPtr(*mut u8);
// SAFETY: threads write to places of their own.
unsafe impl Sync for SendPtr {}

unsafe fn fold_piece(inner: &Plan<1>, start: usize, n: usize, row: *const u8, ends: &Ends, fold: Fold, out: *mut u8) {
    #[repr(align(64))]
    struct Buffer([std::mem::MaybeUninit<u8>; PIECE * WIDEST]);
    let width = ends.input_dtype.size();
    let step = inner.inner_strides()[0];
    // SAFETY: by the caller's word; a piece fits a buffer.
    unsafe {
        if inner.is_flat() && step == width as isize && ends.input_dtype == ends.compute {
            fold(out, row.offset(inner.bases()[0]).add(start * width), n);
            return;
        }
        let mut gathered = Buffer([std::mem::MaybeUninit::uninit(); PIECE * WIDEST]);
        let mut converted = Buffer([std::mem::MaybeUninit::uninit(); PIECE * WIDEST]);
        let (gathered, converted): (*mut u8, *mut u8) = (gathered.0.as_mut_ptr().cast(), converted.0.as_mut_ptr().cast());
        let mut filled = 0;
        inner.runs(start..start + n, |offsets, length| {
            move_strided(gathered.add(filled * width), width as isize, row.offset(offsets[0]), step, length, width);
            filled += length;
        });
        if ends.input_dtype == ends.compute {
            fold(out, gathered, n);
        } else {
            converter(ends.input_dtype, ends.compute)(converted, gathered, n);
            fold(out, converted, n);
        }
    }
}
