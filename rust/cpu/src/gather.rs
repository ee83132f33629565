//! Gathers and scatters in which every element has an index of its own along one dimension.

use rushlight_core::Layout;
use rushlight_core::plan::Plan;

use crate::index::Outside;
use crate::merge::{Merger, Places};
use crate::pointwise::GRAIN;

const INDEX_WIDTH: usize = size_of::<i64>();

/// An operand's memory and geometry.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub pointer: *mut u8,
    pub layout: &'a Layout,
}

impl Side<'_> {
    /// The address that many bytes behind the first element.
    fn at(&self, bytes: isize) -> *mut u8 {
        self.pointer.wrapping_offset(bytes)
    }
}

// SAFETY: addresses; every thread writes its own elements.
unsafe impl Sync for Side<'_> {}
// SAFETY: see above.
unsafe impl Send for Side<'_> {}

/// The first index, in the walk's order, that is not in `0..size`.
///
/// # Safety
/// The index holds 64-bit integers at every place of its layout.
pub unsafe fn outside(index: Side, size: isize) -> Option<Outside> {
    // What is stretched needs to be seen only once.
    let mut layout = index.layout.clone();
    for dim in 0..layout.rank() {
        if layout.strides[dim] == 0 && layout.sizes[dim] > 1 {
            layout.sizes[dim] = 1;
        }
    }
    let plan = Plan::new([&layout], [INDEX_WIDTH]);
    let step = plan.inner_strides()[0];
    let found = rushlight_par::parallel_reduce(
        plan.numel(),
        GRAIN,
        |range| {
            let mut found = None;
            plan.runs(range, |at, length| {
                let mut inside = true;
                // SAFETY: by the caller's word.
                let value = |i: usize| unsafe { index.at(at[0] + i as isize * step).cast::<i64>().read_unaligned() };
                for i in 0..length {
                    inside &= (value(i) as u64) < size as u64;
                }
                if !inside {
                    let bad = (0..length).map(value).find(|&value| value as u64 >= size as u64);
                    found = found.or(bad);
                }
            });
            found
        },
        Option::or,
    );
    found.flatten().map(|value| Outside { number: 0, value })
}

/// The layout of `whole` over the sizes of an index, standing still along `dim`.
fn still(whole: &Layout, sizes: &[isize], dim: usize) -> Layout {
    let mut layout = Layout { sizes: sizes.into(), ..whole.clone() };
    if let Some(stride) = layout.strides.get_mut(dim) {
        *stride = 0;
    }
    layout
}

/// `out[..i..] = operand[..index[..i..]..]`, the index along `dim`.
///
/// # Safety
/// The index was checked against the operand's size along `dim`, and its other sizes lie within the operand's.
pub unsafe fn gather(out: Side, operand: Side, index: Side, dim: usize, width: usize) {
    let base = still(operand.layout, &index.layout.sizes, dim);
    let step = operand.layout.strides.get(dim).map_or(0, |stride| stride * width as isize);
    let plan = Plan::new([out.layout, &base, index.layout], [width, width, INDEX_WIDTH]);
    let steps = plan.inner_strides();
    rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
        let (out, operand, index) = (out, operand, index);
        plan.runs(range, |at, n| {
            // SAFETY: by the caller's word.
            unsafe {
                let places = Places {
                    base: operand.pointer.offset(at[1]),
                    stride: steps[1],
                    step,
                    index: index.pointer.offset(at[2]),
                    index_stride: steps[2],
                    n,
                };
                pick(out.pointer.offset(at[0]), steps[0], &places, width);
            }
        });
    });
}

unsafe fn pick(to: *mut u8, to_step: isize, places: &Places, width: usize) {
    unsafe fn each<T: Copy>(to: *mut u8, to_step: isize, places: &Places) {
        for i in 0..places.n {
            // SAFETY: by the caller's word.
            unsafe {
                to.offset(i as isize * to_step).cast::<T>().write_unaligned(places.at(i).cast::<T>().read_unaligned())
            };
        }
    }
    // SAFETY: by the caller's word.
    unsafe {
        match width {
            1 => each::<u8>(to, to_step, places),
            2 => each::<u16>(to, to_step, places),
            4 => each::<u32>(to, to_step, places),
            8 => each::<u64>(to, to_step, places),
            _ => each::<u128>(to, to_step, places),
        }
    }
}

/// Merges `source[..i..]` into `operand[..index[..i..]..]`, in the order of `i` along `dim`.
///
/// Threads share the other dimensions, so that a place is always reached by one thread and in one order.
///
/// # Safety
/// As for `gather`; the source's sizes hold the index's, and elements are what `merger` merges.
pub unsafe fn scatter(operand: Side, source: Side, index: Side, dim: usize, merger: Merger, width: usize) {
    let sizes = &index.layout.sizes;
    let length = sizes.get(dim).copied().unwrap_or(1);
    // Without `dim`, which every task walks for itself.
    let rest = |layout: &Layout| {
        let kept: Vec<usize> = (0..sizes.len()).filter(|&d| d != dim).collect();
        Layout { sizes: sizes.clone(), ..layout.clone() }.permute(&kept)
    };
    let along = |layout: &Layout, width: usize| layout.strides.get(dim).map_or(0, |stride| stride * width as isize);
    let (step, from_step, index_step) =
        (along(operand.layout, width), along(source.layout, width), along(index.layout, INDEX_WIDTH));
    let plan =
        Plan::new([&rest(operand.layout), &rest(source.layout), &rest(index.layout)], [width, width, INDEX_WIDTH]);
    let steps = plan.inner_strides();
    let across = plan.inner() > 1 && step.abs() > steps[0].abs();
    let grain = (GRAIN / (length as usize).max(1)).max(1);
    rushlight_par::parallel_for(plan.numel(), grain, |range| {
        let (operand, source, index) = (operand, source, index);
        // SAFETY: by the caller's word.
        let merge = |at: [isize; 3], stride: [isize; 3], i: isize, n: usize| unsafe {
            let places = Places {
                base: operand.pointer.offset(at[0]),
                stride: stride[0],
                step,
                index: index.pointer.offset(at[2] + i * index_step),
                index_stride: stride[2],
                n,
            };
            (merger.indexed)(&places, source.pointer.offset(at[1] + i * from_step), stride[1]);
        };
        if across {
            for i in 0..length {
                plan.runs(range.clone(), |at, n| merge(at, steps, i, n));
            }
        } else {
            plan.runs(range, |at, n| {
                for j in 0..n as isize {
                    let at = [at[0] + j * steps[0], at[1] + j * steps[1], at[2] + j * steps[2]];
                    merge(at, [0, from_step, index_step], 0, length as usize);
                }
            });
        }
    });
}
