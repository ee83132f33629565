//! Operators that take dimensions away.

pub mod sum;

use rushlight_autograd::Tensor;
use rushlight_core::layout::dim_mask;
use rushlight_core::plan::Plan;
use rushlight_core::{DType, Dims, Layout, Result};
use rushlight_cpu::reduce::{Ends, Fold};

use crate::value::Ints;

pub use sum::SUM;

/// Sums a broadcast result's gradient back to the operand's shape.
pub fn sum_to(grad: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    let extra = grad.rank() - sizes.len();
    let dims: Ints = (0..grad.rank())
        .filter(|&dim| dim < extra || (sizes[dim - extra] == 1 && grad.sizes()[dim] != 1))
        .map(|dim| dim as i64)
        .collect();
    let summed = if dims.is_empty() { grad.clone() } else { crate::op!(sum::SUM_DIM, grad, dims, true)? };
    if summed.sizes().as_slice() == sizes {
        return Ok(summed);
    }
    crate::view::RESHAPE.tensor([(&summed).into(), crate::view::reshape::sizes_value(sizes)])
}

/// The sizes after a reduction over `dims` (all where the list is empty).
pub fn reduced_sizes(sizes: &[isize], dims: &[i64], keepdim: bool) -> Result<Dims> {
    let mask = dim_mask(dims, sizes.len())?;
    let kept = sizes.iter().enumerate().filter_map(|(dim, &size)| match (mask & (1 << dim) != 0, keepdim) {
        (true, true) => Some(1),
        (true, false) => None,
        (false, _) => Some(size),
    });
    Ok(kept.collect())
}

/// Runs a fold over the rows that `dims` make, into `out`.
pub fn fold(input: &Tensor, dims: &[i64], out: &Tensor, compute: DType, fold: Fold) -> Result<()> {
    let layout = input.layout();
    let mask = dim_mask(dims, layout.rank())?;
    let chosen = |reduced: bool| -> Vec<usize> {
        (0..layout.rank()).filter(|&dim| (mask & (1 << dim) != 0) == reduced).collect()
    };
    let kept = layout.permute(&chosen(false));
    let row = Layout { offset: 0, ..layout.permute(&chosen(true)) };
    let results = Layout { sizes: kept.sizes.clone(), ..Layout::contiguous(&kept.sizes) };
    let outer = Plan::new([&results, &kept], [out.dtype().size(), input.dtype().size()]);
    let inner = Plan::new([&row], [input.dtype().size()]);
    let (source, target) = (input.storage().pin(), out.storage().pin());
    let ends = Ends {
        input: source.as_ptr(),
        input_dtype: input.dtype(),
        output: target.as_ptr(),
        output_dtype: out.dtype(),
        compute,
    };
    // SAFETY: layouts stay within their pinned storages; the result is fresh and row-major.
    unsafe { rushlight_cpu::reduce::rows(&outer, &inner, ends, fold) };
    Ok(())
}
