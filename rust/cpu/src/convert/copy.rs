//! Copies between any two geometries and dtypes, and sums into positions that may repeat.

use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{DType, Layout, Scalar};
use rushlight_par::Address;

use crate::convert::cast::converter;
use crate::index::scatter::{ScatterKernels, ScatterOp};
use crate::pointwise::{GRAIN, InnerLoop, RawOperand, TILE, run, stream};
use crate::streaming;
use crate::transpose::transpose_block;

/// Runs of at least this many bytes are copied one by one; shorter ones are collected in tiles.
const RUN: usize = 64;

/// Copies the elements of `source` in operand 1 to `target`, of the same sizes, in operand 0.
///
/// # Safety
/// The layouts stay within the operands' memory.
pub unsafe fn copy(target: &Layout, source: &Layout, operands: [RawOperand; 2]) {
    let [to, from] = operands;
    let nest = LoopNest::new([target, source], [to.dtype.size(), from.dtype.size()]);
    let dtype = to.dtype;
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        if to.dtype == from.dtype
            && let Some(matrix) = Transposition::find(target, source, dtype.size())
        {
            matrix.run(to.pointer, from.pointer);
            return;
        }
        if nest.is_flat() && is_dense(&nest, operands) {
            let convert = converter(from.dtype, to.dtype);
            let (bases, widths) = (nest.bases(), operands.map(|operand| operand.dtype.size()));
            let streams = nest.numel() * widths[0] >= streaming::LEAST;
            rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
                let (to, from) = (to, from);
                let at = |operand: RawOperand, base: isize| {
                    operand.pointer.offset(base).add(range.start * operand.dtype.size())
                };
                let (to, from) = (at(to, bases[0]), at(from, bases[1]));
                if !streams {
                    convert.run(to, from, range.len());
                } else if widths[0] == widths[1] && operands[0].dtype == operands[1].dtype {
                    streaming::copy(to, from, range.len() * widths[0]);
                } else {
                    stream(|to, from, n| convert.run(to, from[1], n), to, [to, from], widths, range.len());
                }
            });
            return;
        }
        let long = nest.inner() >= TILE && nest.numel() * dtype.size() >= streaming::LEAST;
        if to.dtype == from.dtype && is_dense(&nest, operands) && nest.inner() * dtype.size() >= RUN && !long {
            rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
                let (to, from) = (to, from);
                nest.runs(range, |[at, source], n| {
                    std::ptr::copy(from.pointer.offset(source), to.pointer.offset(at), n * dtype.size());
                });
            });
            return;
        }
        run(&nest, operands, [dtype, dtype], identity(dtype.size()), &[]);
    }
}

fn is_dense(nest: &LoopNest<2>, operands: [RawOperand; 2]) -> bool {
    let steps = nest.inner_strides();
    nest.numel() == 1 || (0..2).all(|n| steps[n] == operands[n].dtype.size() as isize)
}

/// Moves elements unchanged; the loop converts them.
fn identity(width: usize) -> InnerLoop {
    /// # Safety
    /// Same as for every `InnerLoop`, of elements of `WIDTH` bytes.
    unsafe fn copy<const WIDTH: usize>(out: *mut u8, inputs: *const *const u8, n: usize, _: &[Scalar]) {
        // SAFETY: the loop gives `n` elements on both sides.
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

/// A transposed copy: the target is contiguous along one dimension and the source along another, inside any others.
struct Transposition {
    /// The target's rows: the dimension along which the source is contiguous.
    rows: usize,
    columns: usize,
    /// Bytes from one row of the target to the next, and from one column of the source to the next.
    row_step: isize,
    column_step: isize,
    width: usize,
    outer: LoopNest<2>,
}

/// Bytes of a block that is transposed within the first-level cache.
const BLOCK: usize = 16 << 10;

/// A buffer for a block before it is written to memory row by row. Rows of a matrix often map to the same cache set and
/// would evict each other element by element.
#[repr(align(64))]
struct Block(std::mem::MaybeUninit<[u8; BLOCK]>);

impl Transposition {
    fn find(target: &Layout, source: &Layout, width: usize) -> Option<Transposition> {
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
        Some(Transposition {
            rows,
            columns,
            row_step: target.strides[row] * width as isize,
            column_step: source.strides[column] * width as isize,
            width,
            outer: LoopNest::new([&rest(target), &rest(source)], [width, width]),
        })
    }

    /// # Safety
    /// The geometry stays within both memories, which do not overlap.
    unsafe fn run(&self, to: *mut u8, from: *const u8) {
        // The largest block whose side is a power of two.
        let side = 1 << ((BLOCK / self.width).ilog2() / 2);
        let streams = self.outer.numel() * self.rows * self.columns * self.width >= streaming::LEAST;
        let (to, from) = (Address(to), Address(from.cast_mut()));
        // A task has some columns of a matrix, and all rows, so that it reads contiguously.
        let bands = self.columns.div_ceil(side);
        let grain = (GRAIN / (side * self.rows)).max(1);
        rushlight_par::parallel_for(self.outer.numel() * bands, grain, |range| {
            let (to, from) = (&to, &from);
            let mut block = Block(std::mem::MaybeUninit::uninit());
            for task in range {
                let (matrix, first) = (task / bands, task % bands * side);
                let columns = side.min(self.columns - first);
                self.outer.runs(matrix..matrix + 1, |offsets, _| {
                    for row in (0..self.rows).step_by(side) {
                        let rows = side.min(self.rows - row);
                        // SAFETY: guaranteed by the caller (see `# Safety`); each task writes its own columns.
                        unsafe {
                            let to = to.offset(offsets[0] + row as isize * self.row_step).add(first * self.width);
                            let from =
                                from.offset(offsets[1] + first as isize * self.column_step).add(row * self.width);
                            self.block(to, from, [rows, columns], streams, &mut block);
                        }
                    }
                });
            }
            if streams {
                streaming::finish();
            }
        });
    }

    /// One block; the block below is prefetched meanwhile.
    ///
    /// # Safety
    /// The block lies within both operands, and has at most a side's rows and columns.
    unsafe fn block(
        &self,
        to: *mut u8,
        from: *const u8,
        [rows, columns]: [usize; 2],
        streams: bool,
        block: &mut Block,
    ) {
        let block = block.0.as_mut_ptr().cast::<u8>();
        let step = columns * self.width;
        for column in 0..columns as isize {
            let below = from.wrapping_offset(column * self.column_step).wrapping_add(rows * self.width);
            for line in (0..rows * self.width).step_by(64) {
                streaming::prefetch_line(below.wrapping_add(line));
            }
        }
        // SAFETY: guaranteed by the caller (see `# Safety`); a block has room for a side squared.
        unsafe {
            transpose_block(block, step as isize, from, self.column_step, rows, columns, self.width);
            for row in 0..rows {
                let (to, from) = (to.offset(row as isize * self.row_step), block.add(row * step));
                if streams {
                    streaming::store(to, from, step);
                } else {
                    std::ptr::copy_nonoverlapping(from, to, step);
                }
            }
        }
    }
}

/// Adds the elements of `source` to those of `target`, one after the other: positions may repeat.
///
/// # Safety
/// The layouts stay within the memories, which hold elements of `dtype`.
pub unsafe fn accumulate(target: &Layout, to: *mut u8, source: &Layout, from: *const u8, dtype: DType) {
    let width = dtype.size();
    let nest = LoopNest::new([target, source], [width, width]);
    let steps = nest.inner_strides();
    let kernels = ScatterKernels::new(ScatterOp::Add, dtype);
    nest.runs(0..nest.numel(), |offsets, length| {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { (kernels.run)(to.offset(offsets[0]), steps[0], from.offset(offsets[1]), steps[1], length) };
    });
}

/// Writes zeros above (or, if `upper`, below) a diagonal of all matrices of the last two dimensions.
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
            // SAFETY: guaranteed by the caller (see `# Safety`); a zero of any dtype is zero bytes.
            unsafe {
                let first = to.offset(rows.locate(row) * width as isize + start * step);
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
