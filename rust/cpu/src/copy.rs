//! Copies between any two geometries and dtypes, and sums into places that may repeat.

use rushlight_core::plan::Plan;
use rushlight_core::{DType, Layout, Scalar};

use crate::cast::converter;
use crate::merge::{Merge, Merger};
use crate::pointwise::{GRAIN, Lane, Tile, run};

/// A block of a transposition: so many rows and columns, of which both sides stay in the first-level cache.
const BLOCK: usize = 32;

/// Overwrites what `target` names in lane 0 with what `source`, of the same sizes, names in lane 1.
///
/// # Safety
/// The layouts stay within the lanes' memory.
pub unsafe fn copy(target: &Layout, source: &Layout, lanes: [Lane; 2]) {
    let [to, from] = lanes;
    let plan = Plan::new([target, source], [to.dtype.size(), from.dtype.size()]);
    let dtype = to.dtype;
    // SAFETY: by the caller's word.
    unsafe {
        if to.dtype == from.dtype
            && let Some(matrix) = Transposition::find(target, source)
        {
            matrix.run(to.pointer, from.pointer, dtype.size());
            return;
        }
        if plan.is_flat() && to.dtype != from.dtype && is_dense(&plan, lanes) {
            let convert = converter(from.dtype, to.dtype);
            let bases = plan.bases();
            rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
                let (to, from) = (to, from);
                let at = |lane: Lane, base: isize| lane.pointer.offset(base).add(range.start * lane.dtype.size());
                convert(at(to, bases[0]), at(from, bases[1]), range.len());
            });
            return;
        }
        run(&plan, lanes, [dtype, dtype], identity(dtype.size()), &[]);
    }
}

fn is_dense(plan: &Plan<2>, lanes: [Lane; 2]) -> bool {
    let steps = plan.inner_strides();
    plan.numel() == 1 || (0..2).all(|n| steps[n] == lanes[n].dtype.size() as isize)
}

/// Moves elements as they are; the walk converts them.
fn identity(width: usize) -> Tile {
    unsafe fn copy<const WIDTH: usize>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
        // SAFETY: the walk gives `n` elements on both sides.
        unsafe { std::ptr::copy(*inputs, out, n * WIDTH) }
    }
    match width {
        1 => copy::<1>,
        2 => copy::<2>,
        4 => copy::<4>,
        8 => copy::<8>,
        _ => copy::<16>,
    }
}

/// Two dimensions of which the target runs along one and the source along the other, inside any others.
struct Transposition {
    /// Rows: the dimension along which the source is contiguous.
    rows: usize,
    columns: usize,
    /// Elements from one row of the target to the next, and from one column of the source to the next.
    row_step: isize,
    column_step: isize,
    outer: Plan<2>,
}

impl Transposition {
    fn find(target: &Layout, source: &Layout) -> Option<Transposition> {
        let unit = |layout: &Layout| (0..layout.rank()).find(|&d| layout.sizes[d] > 1 && layout.strides[d] == 1);
        let (column, row) = (unit(target)?, unit(source)?);
        let (rows, columns) = (target.sizes[row] as usize, target.sizes[column] as usize);
        if row == column || rows < 8 || columns < 8 {
            return None;
        }
        let rest = |layout: &Layout| {
            let kept: Vec<usize> = (0..layout.rank()).filter(|&d| d != row && d != column).collect();
            layout.permute(&kept)
        };
        let outer = Plan::new([&rest(target), &rest(source)], [1, 1]);
        Some(Transposition { rows, columns, row_step: target.strides[row], column_step: source.strides[column], outer })
    }

    /// # Safety
    /// The geometry stays within both memories, whose elements have `width` bytes.
    unsafe fn run(&self, to: *mut u8, from: *const u8, width: usize) {
        // SAFETY: by the caller's word.
        unsafe {
            match width {
                1 => self.blocks(to.cast::<u8>(), from.cast::<u8>()),
                2 => self.blocks(to.cast::<u16>(), from.cast::<u16>()),
                4 => self.blocks(to.cast::<u32>(), from.cast::<u32>()),
                8 => self.blocks(to.cast::<u64>(), from.cast::<u64>()),
                _ => self.blocks(to.cast::<u128>(), from.cast::<u128>()),
            }
        }
    }

    unsafe fn blocks<T: Copy>(&self, to: *mut T, from: *const T) {
        let (to, from) = (Address(to), Address(from.cast_mut()));
        // A task is a band of BLOCK rows of one of the matrices.
        let bands = self.rows.div_ceil(BLOCK);
        let grain = (GRAIN / (BLOCK * self.columns).max(1)).max(1);
        rushlight_par::parallel_for(self.outer.numel() * bands, grain, |range| {
            let (to, from) = (&to, &from);
            for task in range {
                let (matrix, band) = (task / bands, task % bands);
                let rows = band * BLOCK..self.rows.min((band + 1) * BLOCK);
                self.outer.runs(matrix..matrix + 1, |offsets, _| {
                    // SAFETY: by the caller's word; each task writes rows of its own.
                    unsafe { self.band(to.0.offset(offsets[0]), from.0.offset(offsets[1]), rows.clone()) };
                });
            }
        });
    }

    /// Some rows of the target, block by block.
    unsafe fn band<T: Copy>(&self, to: *mut T, from: *const T, rows: std::ops::Range<usize>) {
        let mut column = 0;
        while column < self.columns {
            let width = BLOCK.min(self.columns - column);
            // SAFETY: by the caller's word.
            unsafe {
                if rows.len() == BLOCK && width == BLOCK {
                    let mut block = [std::mem::MaybeUninit::<T>::uninit(); BLOCK * BLOCK];
                    let block = block.as_mut_ptr().cast::<T>();
                    for c in 0..BLOCK {
                        let source = from.offset((column + c) as isize * self.column_step).add(rows.start);
                        for r in 0..BLOCK {
                            block.add(r * BLOCK + c).write(source.add(r).read_unaligned());
                        }
                    }
                    for r in 0..BLOCK {
                        let target = to.offset((rows.start + r) as isize * self.row_step).add(column);
                        std::ptr::copy_nonoverlapping(
                            block.add(r * BLOCK).cast::<u8>(),
                            target.cast::<u8>(),
                            BLOCK * size_of::<T>(),
                        );
                    }
                } else {
                    for r in rows.clone() {
                        for c in column..column + width {
                            let value = from.offset(c as isize * self.column_step).add(r).read_unaligned();
                            to.offset(r as isize * self.row_step).add(c).write_unaligned(value);
                        }
                    }
                }
            }
            column += width;
        }
    }
}

struct Address<T>(*mut T);
// SAFETY: threads write to places of their own.
unsafe impl<T> Sync for Address<T> {}

/// Adds the elements that `source` names to those that `target` names, one after the other: places may repeat.
///
/// # Safety
/// The layouts stay within the memories, which hold elements of `dtype`.
pub unsafe fn accumulate(target: &Layout, to: *mut u8, source: &Layout, from: *const u8, dtype: DType) {
    let width = dtype.size();
    let plan = Plan::new([target, source], [width, width]);
    let steps = plan.inner_strides();
    let merger = Merger::new(Merge::Add, dtype);
    plan.runs(0..plan.numel(), |offsets, length| {
        // SAFETY: by the caller's word.
        unsafe { (merger.run)(to.offset(offsets[0]), steps[0], from.offset(offsets[1]), steps[1], length) };
    });
}

/// Zeros above (or, to keep the `upper` triangle, below) a diagonal of all matrices of the last two dimensions.
///
/// # Safety
/// The layout has two dimensions at least and stays within the memory, whose elements have `width` bytes.
pub unsafe fn clear_triangle(to: *mut u8, layout: &Layout, width: usize, diagonal: isize, upper: bool) {
    let last = layout.rank() - 1;
    let (columns, step) = (layout.sizes[last], layout.strides[last] * width as isize);
    let rows = layout.permute(&(0..last).collect::<Vec<_>>());
    let height = layout.sizes[last - 1].max(1) as usize;
    let to = Address(to);
    let grain = (GRAIN / columns.max(1) as usize).max(1);
    rushlight_par::parallel_for(rows.numel(), grain, |range| {
        let to = &to;
        for row in range {
            let edge = (row % height) as isize;
            let (start, end) = if upper {
                (0, edge.saturating_add(diagonal).clamp(0, columns))
            } else {
                (edge.saturating_add(diagonal).saturating_add(1).clamp(0, columns), columns)
            };
            // SAFETY: by the caller's word; a zero of any dtype is zero bytes.
            unsafe {
                let first = to.0.offset(rows.locate(row) * width as isize + start * step);
                if step == width as isize {
                    std::ptr::write_bytes(first, 0, (end - start) as usize * width);
                } else {
                    for at in 0..end - start {
                        std::ptr::write_bytes(first.offset(at * step), 0, width);
                    }
                }
            }
        }
    });
}
