//! The walk over operands of which some lie across the others, such as a matrix and its transpose.
//!
//! Along the result's runs such an operand steps from line to line of memory, so it is read in squares instead: a tile is
//! a few pieces of neighbouring runs, and what lies across is turned in registers on its way into it.

use super::*;
use crate::turn::turn;

/// Runs and elements of a run in a square.
const SIDE: usize = 32;
const _: () = assert!(SIDE * SIDE == TILE);

impl<const N: usize> Walk<'_, N> {
    /// The dimension along which an operand stands side by side that does not so along the runs, if squares pay.
    pub(super) fn crossing(&self) -> Option<usize> {
        let steps = self.plan.inner_strides();
        let width = |lane: usize| self.lanes[lane].dtype.size();
        let crossed = |lane: &usize| steps[*lane] != 0 && steps[*lane].unsigned_abs() > width(*lane);
        let dim = (1..N).filter(crossed).find_map(|lane| self.plan.across(lane, width(lane)))?;
        (self.plan.inner() >= 8 && self.plan.size(dim) >= 8).then_some(dim)
    }

    /// # Safety
    /// As for `run`.
    pub(super) unsafe fn squares(&self, dim: usize) {
        let (rows, columns) = (self.plan.size(dim), self.plan.inner());
        let outer = self.plan.around(dim);
        let (bands, pieces) = (rows.div_ceil(SIDE), columns.div_ceil(SIDE));
        let grain = (GRAIN / (SIDE * columns)).max(1);
        rushlight_par::parallel_for(outer.numel() * bands, grain, |range| {
            let mut buffers: [Buffer; N] = [const { Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]) }; N];
            let mut scratch = Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]);
            let buffers = buffers.each_mut().map(Buffer::pointer);
            for band in range {
                let row = band % bands * SIDE;
                outer.runs(band / bands..band / bands + 1, |offsets, _| {
                    for piece in 0..pieces {
                        let column = piece * SIDE;
                        let sizes = [SIDE.min(rows - row), SIDE.min(columns - column)];
                        let (down, along) = (self.plan.strides(dim), self.plan.inner_strides());
                        let at =
                            |lane: usize| offsets[lane] + row as isize * down[lane] + column as isize * along[lane];
                        // SAFETY: by the caller's word; a square is at most a tile.
                        unsafe {
                            self.square(std::array::from_fn(at), [down, along], sizes, buffers, scratch.pointer());
                        }
                    }
                });
            }
        });
    }

    /// One square of `sizes`: rows, and elements of a row.
    ///
    /// # Safety
    /// The square lies within all lanes, and every buffer holds a tile.
    unsafe fn square(
        &self,
        offsets: [isize; N],
        [down, along]: [[isize; N]; 2],
        [rows, columns]: [usize; 2],
        buffers: [*mut u8; N],
        scratch: *mut u8,
    ) {
        let n = rows * columns;
        let mut inputs = [std::ptr::null::<u8>(); N];
        // SAFETY: by the caller's word.
        unsafe {
            for lane in 1..N {
                let (own, wanted) = (self.lanes[lane].dtype, self.compute[lane]);
                let width = own.size();
                let to = if own == wanted { buffers[lane] } else { scratch };
                let from = self.lanes[lane].pointer.offset(offsets[lane]);
                if down[lane] == width as isize {
                    // What the next square turns stands beside.
                    for column in columns as isize..2 * columns as isize {
                        for line in (0..rows * width).step_by(64) {
                            streaming::ask(from.wrapping_offset(column * along[lane]).wrapping_add(line));
                        }
                    }
                    turn(to, (columns * width) as isize, from, along[lane], rows, columns, width);
                } else {
                    for row in 0..rows {
                        let (to, from) = (to.add(row * columns * width), from.offset(row as isize * down[lane]));
                        move_strided(to, width as isize, from, along[lane], columns, width);
                    }
                }
                if own != wanted {
                    converter(own, wanted)(buffers[lane], scratch, n);
                }
                inputs[lane - 1] = buffers[lane];
            }
            (self.tile)(buffers[0], inputs.as_ptr(), n, self.numbers);
            let (own, computed) = (self.lanes[0].dtype, self.compute[0]);
            let mut from = buffers[0];
            if own != computed {
                converter(computed, own)(scratch, buffers[0], n);
                from = scratch;
            }
            let width = own.size();
            for row in 0..rows {
                let to = self.lanes[0].pointer.offset(offsets[0] + row as isize * down[0]);
                move_strided(to, along[0], from.add(row * columns * width), width as isize, columns, width);
            }
        }
    }
}
