//! Gathers and scatters with an index for each element along one dimension.

use rushlight_core::Layout;
use rushlight_core::loop_nest::LoopNest;

use crate::index::OutOfBounds;
use crate::index::run::{INDEX_WIDTH, IndexRun, Strided};
use crate::index::scatter::ScatterKernels;
use crate::pointwise::GRAIN;

/// An operand's memory and geometry.
#[derive(Clone, Copy)]
pub struct IndexedOperand<'a> {
    pub pointer: *mut u8,
    pub layout: &'a Layout,
}

impl IndexedOperand<'_> {
    /// The address `bytes` bytes after the first element.
    pub(crate) fn at(&self, bytes: isize) -> *mut u8 {
        self.pointer.wrapping_offset(bytes)
    }
}

// SAFETY: addresses; every thread writes its own elements.
unsafe impl Sync for IndexedOperand<'_> {}
// SAFETY: see above.
unsafe impl Send for IndexedOperand<'_> {}

/// The first index, in the order of the loop nest, that is not in `0..size`.
///
/// # Safety
/// The index holds 64-bit integers at every position of its layout.
pub unsafe fn first_out_of_bounds(index: IndexedOperand, size: isize) -> Option<OutOfBounds> {
    // Repeated elements are checked only once.
    let mut layout = index.layout.clone();
    for dim in 0..layout.rank() {
        if layout.strides[dim] == 0 && layout.sizes[dim] > 1 {
            layout.sizes[dim] = 1;
        }
    }
    let nest = LoopNest::new([&layout], [INDEX_WIDTH]);
    let step = nest.inner_strides()[0];
    let found = rushlight_par::parallel_reduce(
        nest.numel(),
        GRAIN,
        |range| {
            let mut found = None;
            nest.runs(range, |at, length| {
                let run = IndexRun { pointer: index.at(at[0]), stride: step, n: length, size, step: 0 };
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    if !run.is_inside() {
                        found = found.or(run.first_out_of_bounds());
                    }
                }
            });
            found
        },
        Option::or,
    );
    found.flatten()
}

/// The layout of `whole` over the sizes of an index, with a stride of zero along `dim`.
fn still(whole: &Layout, sizes: &[isize], dim: usize) -> Layout {
    let mut layout = Layout { sizes: sizes.into(), ..whole.clone() };
    if let Some(stride) = layout.strides.get_mut(dim) {
        *stride = 0;
    }
    layout
}

/// `out[..i..] = operand[..index[..i..]..]`, the index along `dim`; or the first index that is out of range.
///
/// # Safety
/// The index's other sizes lie within the operand's.
pub unsafe fn gather(
    out: IndexedOperand,
    operand: IndexedOperand,
    index: IndexedOperand,
    dim: usize,
    width: usize,
) -> Result<(), OutOfBounds> {
    let base = still(operand.layout, &index.layout.sizes, dim);
    let step = operand.layout.strides.get(dim).map_or(0, |stride| stride.wrapping_mul(width as isize));
    let nest = LoopNest::new([out.layout, &base, index.layout], [width, width, INDEX_WIDTH]);
    let steps = nest.inner_strides();
    let size = operand.layout.sizes.get(dim).copied().unwrap_or(1);
    rushlight_par::try_parallel_for(nest.numel(), GRAIN, |range| {
        let mut done = Ok(());
        nest.runs(range, |at, n| {
            let run = IndexRun { pointer: index.at(at[2]), stride: steps[2], n, size, step };
            // SAFETY: guaranteed by the caller (see `# Safety`).
            let picked = unsafe { pick(&run, (operand.at(at[1]), steps[1]), (out.at(at[0]), steps[0]), width) };
            done = done.and(picked);
        });
        done
    })
}

/// Copies the elements that a run selects to the other side.
///
/// # Safety
/// Every index within range selects an element of `width` bytes, and there is room for as many.
unsafe fn pick(run: &IndexRun, from: Strided, to: Strided, width: usize) -> Result<(), OutOfBounds> {
    /// # Safety
    /// As above, of elements `T`.
    unsafe fn each<T: Copy>(run: &IndexRun, from: Strided, to: Strided) -> Result<(), OutOfBounds> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            run.pairs::<T>(from, to, |from, to| to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()))
        }
    }
    // SAFETY: guaranteed by the caller (see `# Safety`).
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
/// Threads divide the other dimensions, so that each position is written by one thread and in one order. A caller that
/// needs the operand unchanged if an index is out of range must check with `first_out_of_bounds` first.
///
/// # Safety
/// Same as for `gather`; the source's sizes hold the index's, and elements are of the dtype of `kernels`.
pub unsafe fn scatter(
    operand: IndexedOperand,
    source: IndexedOperand,
    index: IndexedOperand,
    dim: usize,
    kernels: ScatterKernels,
    width: usize,
) -> Result<(), OutOfBounds> {
    let sizes = &index.layout.sizes;
    let length = sizes.get(dim).copied().unwrap_or(1);
    // Without `dim`, along which every task iterates itself.
    let rest = |layout: &Layout| {
        let kept: Vec<usize> = (0..sizes.len()).filter(|&d| d != dim).collect();
        Layout { sizes: sizes.clone(), ..layout.clone() }.permute(&kept)
    };
    let along =
        |layout: &Layout, width: usize| layout.strides.get(dim).map_or(0, |stride| stride.wrapping_mul(width as isize));
    let (step, from_step, index_step) =
        (along(operand.layout, width), along(source.layout, width), along(index.layout, INDEX_WIDTH));
    let nest =
        LoopNest::new([&rest(operand.layout), &rest(source.layout), &rest(index.layout)], [width, width, INDEX_WIDTH]);
    let steps = nest.inner_strides();
    let across = nest.inner() > 1 && step.abs() > steps[0].abs();
    let grain = (GRAIN / (length as usize).max(1)).max(1);
    let size = operand.layout.sizes.get(dim).copied().unwrap_or(1);
    rushlight_par::try_parallel_for(nest.numel(), grain, |range| {
        let mut done = Ok(());
        let mut merge = |at: [isize; 3], stride: [isize; 3], i: isize, n: usize| {
            let run = IndexRun { pointer: index.at(at[2] + i * index_step), stride: stride[2], n, size, step };
            let (to, from) = (operand.at(at[0]), source.at(at[1] + i * from_step));
            // SAFETY: guaranteed by the caller (see `# Safety`).
            let merged = unsafe { (kernels.scattered)(&run, (to, stride[0]), (from, stride[1])) };
            done = done.and(merged);
        };
        if across {
            for i in 0..length {
                nest.runs(range.clone(), |at, n| merge(at, steps, i, n));
            }
        } else {
            nest.runs(range, |at, n| {
                for j in 0..n as isize {
                    let at = [at[0] + j * steps[0], at[1] + j * steps[1], at[2] + j * steps[2]];
                    merge(at, [0, from_step, index_step], 0, length as usize);
                }
            });
        }
        done
    })
}
