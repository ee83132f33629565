//! The skeleton of every pointwise kernel: walk the operands, bring them into tiles, run the row's loop.
//!
//! A row gives a loop over contiguous elements of its compute dtype (a `Tile`). Operands that already stand that way are
//! read and written in place. All others (strided, broadcast, of another dtype) pass through tiles of a thousand
//! elements that stay in the first-level cache. Work is cut every `GRAIN` elements, whatever the number of threads.

mod square;

use rushlight_core::DType;
use rushlight_core::Scalar;
use rushlight_core::plan::Plan;
use smallvec::SmallVec;

use crate::convert::cast::{converter, move_strided};
use crate::streaming;

/// The numbers that a row takes beside its operands, such as `alpha` or a clamp's limits.
pub type Numbers = SmallVec<[Scalar; 4]>;

/// A row's loop: `n` results from `n` elements of each input, all contiguous.
///
/// # Safety
/// `n` elements of the loop's dtypes at `out` and at each of the inputs, as many as the row has.
pub type Tile = unsafe fn(out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[Scalar]);

/// How many elements a piece of parallel work has.
pub const GRAIN: usize = 1 << 15;
/// How many elements a tile has.
const TILE: usize = 1024;
const WIDEST: usize = 16;

/// An operand in memory: its first byte (offsets come from the plan) and its dtype. Lane 0 is the result.
#[derive(Clone, Copy)]
pub struct Lane {
    pub pointer: *mut u8,
    pub dtype: DType,
}

// SAFETY: lanes are addresses; the walk gives every thread its own elements of the result.
unsafe impl Sync for Lane {}
// SAFETY: see above.
unsafe impl Send for Lane {}

#[repr(align(64))]
struct Buffer([std::mem::MaybeUninit<u8>; TILE * WIDEST]);

impl Buffer {
    fn pointer(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Runs `tile` over everything that `plan` walks.
///
/// # Safety
/// The lanes point to memory that the plan's layouts stay within, and `tile` works on elements of `compute`.
pub unsafe fn run<const N: usize>(
    plan: &Plan<N>,
    lanes: [Lane; N],
    compute: [DType; N],
    tile: Tile,
    numbers: &[Scalar],
) {
    let steps = plan.inner_strides();
    let whole = plan.inner() == plan.numel();
    let direct: [bool; N] = std::array::from_fn(|n| {
        lanes[n].dtype == compute[n] && (steps[n] == lanes[n].dtype.size() as isize || plan.numel() == 1)
    });
    let fresh = (1..N).all(|n| lanes[n].pointer != lanes[0].pointer);
    let streams = fresh && plan.numel() * lanes[0].dtype.size() >= streaming::LEAST;
    if whole && direct.iter().all(|&d| d) {
        let bases = plan.bases();
        rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
            let at = |n: usize| {
                let lane = lanes[n];
                // SAFETY: the plan's offsets lie within the lane.
                unsafe { lane.pointer.offset(bases[n] + (range.start * lane.dtype.size()) as isize) }
            };
            let all: [*const u8; N] = std::array::from_fn(|n| at(n).cast_const());
            // SAFETY: all lanes hold the range contiguously, in the dtypes that the tile works on; the result's pointer stands
            // before those of the inputs.
            unsafe {
                let step = |out: *mut u8, all: &[*const u8; N], n: usize| tile(out, all.as_ptr().add(1), n, numbers);
                if streams {
                    stream(step, at(0), all, lanes.map(|lane| lane.dtype.size()), range.len());
                } else {
                    step(at(0), &all, range.len());
                }
            }
        });
        return;
    }
    let streams = streams && direct[0] && plan.inner() >= TILE;
    let walk = Walk { plan, lanes, compute, direct, streams, tile, numbers };
    if let Some(dim) = walk.crossing() {
        // SAFETY: by the caller's word.
        unsafe { walk.squares(dim) };
        return;
    }
    rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
        if plan.inner() >= 64 {
            // SAFETY: by the caller's word.
            plan.runs(range, |offsets, length| unsafe { walk.run(offsets, length) });
            if streams {
                streaming::finish();
            }
        } else {
            // SAFETY: by the caller's word.
            unsafe { walk.short_runs(range) };
        }
    });
}

/// Runs a loop over contiguous operands, the result first, and takes the result past the caches.
///
/// # Safety
/// All lanes hold `length` elements of these widths, and `tile` computes `n` elements of them.
#[inline]
pub(crate) unsafe fn stream<const N: usize>(
    tile: impl Fn(*mut u8, &[*const u8; N], usize),
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
        tile(buffer.pointer(), &inputs, n);
        // SAFETY: by the caller's word; the buffer holds a step of any width.
        unsafe { streaming::store(out.add(done * widths[0]), buffer.pointer(), n * widths[0]) };
        for lane in 1..N {
            streaming::fetch(inputs[lane], n * widths[lane]);
            inputs[lane] = inputs[lane].wrapping_add(n * widths[lane]);
        }
        done += n;
    }
    streaming::finish();
}

/// How many elements a streaming walk takes at once: few, so that fetches are spread among the arithmetic.
fn streamed_step<const N: usize>(widths: [usize; N]) -> usize {
    streaming::STEP / widths.into_iter().max().unwrap_or(1)
}

struct Walk<'a, const N: usize> {
    plan: &'a Plan<N>,
    lanes: [Lane; N],
    compute: [DType; N],
    direct: [bool; N],
    /// The result goes past the caches.
    streams: bool,
    tile: Tile,
    numbers: &'a [Scalar],
}

impl<const N: usize> Walk<'_, N> {
    /// One long run: direct lanes are used in place, the others tile by tile.
    ///
    /// # Safety
    /// The run lies within all lanes.
    unsafe fn run(&self, offsets: [isize; N], length: usize) {
        let mut buffers: [Buffer; N] = [const { Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]) }; N];
        let mut scratch = Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]);
        let steps = self.plan.inner_strides();
        let piece = if self.streams { streamed_step(self.lanes.map(|lane| lane.dtype.size())) } else { TILE };
        let mut done = 0;
        while done < length {
            let n = piece.min(length - done);
            // SAFETY: by the caller's word; buffers hold TILE elements of the widest dtype.
            unsafe {
                let at = |lane: usize| self.lanes[lane].pointer.offset(offsets[lane] + done as isize * steps[lane]);
                let mut inputs = [std::ptr::null::<u8>(); N];
                for lane in 1..N {
                    inputs[lane - 1] = if self.direct[lane] {
                        at(lane)
                    } else {
                        let buffer = buffers[lane].pointer();
                        if done == 0 || steps[lane] != 0 {
                            self.gather(lane, at(lane), steps[lane], n, buffer, scratch.pointer());
                        }
                        buffer
                    };
                }
                let in_place = self.direct[0] && !self.streams;
                let out = if in_place { at(0) } else { buffers[0].pointer() };
                (self.tile)(out, inputs.as_ptr(), n, self.numbers);
                if self.streams {
                    streaming::store(at(0), out, n * self.lanes[0].dtype.size());
                    for lane in (1..N).filter(|&lane| self.direct[lane]) {
                        streaming::fetch(at(lane), n * self.lanes[lane].dtype.size());
                    }
                } else if !in_place {
                    self.scatter(at(0), steps[0], n, out, scratch.pointer());
                }
            }
            done += n;
        }
    }

    /// Many short runs: tiles are filled from several of them, so that the loop still sees long stretches.
    ///
    /// # Safety
    /// The range lies within the plan, whose layouts stay within the lanes.
    unsafe fn short_runs(&self, range: std::ops::Range<usize>) {
        let mut buffers: [Buffer; N] = [const { Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]) }; N];
        let mut scratch = Buffer([std::mem::MaybeUninit::uninit(); TILE * WIDEST]);
        let steps = self.plan.inner_strides();
        let mut start = range.start;
        while start < range.end {
            let n = TILE.min(range.end - start);
            // SAFETY: by the caller's word; at most TILE elements enter a buffer.
            unsafe {
                let mut filled = 0;
                self.plan.runs(start..start + n, |offsets, length| {
                    for lane in 1..N {
                        let width = self.lanes[lane].dtype.size();
                        let from = self.lanes[lane].pointer.offset(offsets[lane]);
                        move_strided(
                            buffers[lane].pointer().add(filled * width),
                            width as isize,
                            from,
                            steps[lane],
                            length,
                            width,
                        );
                    }
                    filled += length;
                });
                let mut inputs = [std::ptr::null::<u8>(); N];
                for lane in 1..N {
                    if self.lanes[lane].dtype != self.compute[lane] {
                        std::ptr::copy_nonoverlapping(
                            buffers[lane].pointer(),
                            scratch.pointer(),
                            n * self.lanes[lane].dtype.size(),
                        );
                        converter(self.lanes[lane].dtype, self.compute[lane])(
                            buffers[lane].pointer(),
                            scratch.pointer(),
                            n,
                        );
                    }
                    inputs[lane - 1] = buffers[lane].pointer();
                }
                (self.tile)(buffers[0].pointer(), inputs.as_ptr(), n, self.numbers);
                let mut result = buffers[0].pointer();
                if self.lanes[0].dtype != self.compute[0] {
                    converter(self.compute[0], self.lanes[0].dtype)(scratch.pointer(), result, n);
                    result = scratch.pointer();
                }
                let width = self.lanes[0].dtype.size();
                let mut emptied = 0;
                self.plan.runs(start..start + n, |offsets, length| {
                    let to = self.lanes[0].pointer.offset(offsets[0]);
                    move_strided(to, steps[0], result.add(emptied * width), width as isize, length, width);
                    emptied += length;
                });
            }
            start += n;
        }
    }

    /// # Safety
    /// `n` elements of the lane's dtype lie at `from`, `step` bytes apart; `to` and `scratch` have room for a tile.
    unsafe fn gather(&self, lane: usize, from: *const u8, step: isize, n: usize, to: *mut u8, scratch: *mut u8) {
        let (own, wanted) = (self.lanes[lane].dtype, self.compute[lane]);
        let width = own.size() as isize;
        // SAFETY: by the caller's word; a stride of zero fills the whole tile, since later pieces reuse it.
        unsafe {
            let n = if step == 0 { TILE } else { n };
            if own == wanted {
                move_strided(to, width, from, step, n, own.size());
            } else if step == width {
                converter(own, wanted)(to, from, n);
            } else {
                move_strided(scratch, width, from, step, n, own.size());
                converter(own, wanted)(to, scratch, n);
            }
        }
    }

    /// # Safety
    /// `n` results lie at `from`; as many places at `to`, `step` bytes apart; `scratch` has room for a tile.
    unsafe fn scatter(&self, to: *mut u8, step: isize, n: usize, from: *const u8, scratch: *mut u8) {
        let (own, computed) = (self.lanes[0].dtype, self.compute[0]);
        let width = own.size() as isize;
        // SAFETY: by the caller's word.
        unsafe {
            if own == computed {
                move_strided(to, step, from, width, n, own.size());
            } else if step == width {
                converter(computed, own)(to, from, n);
            } else {
                converter(computed, own)(scratch, from, n);
                move_strided(to, step, scratch, width, n, own.size());
            }
        }
    }
}
