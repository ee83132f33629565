//! Gathers and scatters in which every element has an index of its own along one dimension.

use rushlight_core::Layout;
use rushlight_core::plan::Plan;

use crate::index::Outside;
use crate::index::merge::Merger;
use crate::index::run::{INDEX_WIDTH, Run, Strided};
use crate::pointwise::GRAIN;

/// An operand's memory and geometry.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    pub pointer: *mut u8,
    pub layout: &'a Layout,
}

impl Side<'_> {
    /// The address that many bytes behind the first element.
    pub(crate) fn at(&self, bytes: isize) -> *mut u8 {
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
                let run = Run { pointer: index.at(at[0]), stride: step, n: length, size, step: 0 };
                // SAFETY: by the caller's word.
                unsafe {
                    if !run.is_inside() {
                        found = found.or(run.first_outside());
                    }
                }
            });
            found
        },
        Option::or,
    );
    found.flatten()
}

/// The layout of `whole` over the sizes of an index, standing still along `dim`.
fn still(whole: &Layout, sizes: &[isize], dim: usize) -> Layout {
    let mut layout = Layout { sizes: sizes.into(), ..whole.clone() };
    if let Some(stride) = layout.strides.get_mut(dim) {
        *stride = 0;
    }
    layout
}

/// `out[..i..] = operand[..index[..i..]..]`, the index along `dim`; or the first index that lies outside.
///
/// # Safety
/// The index's other sizes lie within the operand's.
pub unsafe fn gather(out: Side, operand: Side, index: Side, dim: usize, width: usize) -> Result<(), Outside> {
    let base = still(operand.layout, &index.layout.sizes, dim);
    let step = operand.layout.strides.get(dim).map_or(0, |stride| stride.wrapping_mul(width as isize));
    let plan = Plan::new([out.layout, &base, index.layout], [width, width, INDEX_WIDTH]);
    let steps = plan.inner_strides();
    let size = operand.layout.sizes.get(dim).copied().unwrap_or(1);
    rushlight_par::try_parallel_for(plan.numel(), GRAIN, |range| {
        let mut done = Ok(());
        plan.runs(range, |at, n| {
            let run = Run { pointer: index.at(at[2]), stride: steps[2], n, size, step };
            // SAFETY: by the caller's word.
            let picked = unsafe { pick(&run, (operand.at(at[1]), steps[1]), (out.at(at[0]), steps[0]), width) };
            done = done.and(picked);
        });
        done
    })
}

/// Copies the elements that a run names to the other side.
///
/// # Safety
/// Every index inside names an element of `width` bytes, and there is room for as many.
unsafe fn pick(run: &Run, from: Strided, to: Strided, width: usize) -> Result<(), Outside> {
    /// # Safety
    /// As above, of elements `T`.
    unsafe fn each<T: Copy>(run: &Run, from: Strided, to: Strided) -> Result<(), Outside> {
        // SAFETY: by the caller's word.
        unsafe {
            run.pairs::<T>(from, to, |from, to| to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()))
        }
    }
    // SAFETY: by the caller's word.
    unsafe {
        match width {
            1 => each::<u8>(run, from, to),
            2 => each::<u16>(run, from, to),
            4 => each::<u32>(run, from, to),
            8 => each::<u64>(run, from, to),
            _ => each::<u128>(run, from, to),
        }
    }
}

/// Merges `source[..i..]` into `operand[..index[..i..]..]`, in the order of `i` along `dim`.
///
/// Threads share the other dimensions, so that a place is always reached by one thread and in one order. Whoever wants the
/// operand untouched when an index lies `outside` asks before.
///
/// # Safety
/// As for `gather`; the source's sizes hold the index's, and elements are what `merger` merges.
pub unsafe fn scatter(
    operand: Side,
    source: Side,
    index: Side,
    dim: usize,
    merger: Merger,
    width: usize,
) -> Result<(), Outside> {
    let sizes = &index.layout.sizes;
    let length = sizes.get(dim).copied().unwrap_or(1);
    // Without `dim`, which every task walks for itself.
    let rest = |layout: &Layout| {
        let kept: Vec<usize> = (0..sizes.len()).filter(|&d| d != dim).collect();
        Layout { sizes: sizes.clone(), ..layout.clone() }.permute(&kept)
    };
    let along =
        |layout: &Layout, width: usize| layout.strides.get(dim).map_or(0, |stride| stride.wrapping_mul(width as isize));
    let (step, from_step, index_step) =
        (along(operand.layout, width), along(source.layout, width), along(index.layout, INDEX_WIDTH));
    let plan =
        Plan::new([&rest(operand.layout), &rest(source.layout), &rest(index.layout)], [width, width, INDEX_WIDTH]);
    let steps = plan.inner_strides();
    let across = plan.inner() > 1 && step.abs() > steps[0].abs();
    let grain = (GRAIN / (length as usize).max(1)).max(1);
    let size = operand.layout.sizes.get(dim).copied().unwrap_or(1);
    rushlight_par::try_parallel_for(plan.numel(), grain, |range| {
        let mut done = Ok(());
        let mut merge = |at: [isize; 3], stride: [isize; 3], i: isize, n: usize| {
            let run = Run { pointer: index.at(at[2] + i * index_step), stride: stride[2], n, size, step };
            let (to, from) = (operand.at(at[0]), source.at(at[1] + i * from_step));
            // SAFETY: by the caller's word.
            let merged = unsafe { (merger.scattered)(&run, (to, stride[0]), (from, stride[1])) };
            done = done.and(merged);
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
        done
    })
}
