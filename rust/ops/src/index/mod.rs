//! Elements selected by indices and masks: read, written, accumulated.
//!
//! `view()`, `get()`, `assign()` and `put()` implement `x[...]` and `x[...] = v` after the brackets were parsed. Masks are
//! converted to indices in one place (`masks`), except that `masked_fill_()` writes one value at a single mask. Geometry
//! and bounds are computed in one place (`geometry`), and the kernels move whole blocks.

pub mod gather;
pub mod geometry;
pub mod get;
pub mod index_select;
pub mod last_writes;
pub mod masked;
pub mod masks;
pub mod nonzero;
mod nonzero_on_cuda;
pub mod on_cuda;
pub mod put;
pub mod reduce;
pub mod scatter;
pub mod take;

use rushlight_autograd::Tensor;
use rushlight_core::index::{IndexExpr, Step};
use rushlight_core::{DType, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::{Ints, Target, sizes_value};

use self::masks::{check_mask, prepare, refuse_bytes};
use crate::view::expand::EXPAND;
use crate::view::narrow::{ALIAS, selected, sliced};

pub use get::INDEX;
pub use put::INDEX_PUT_DIMS;

/// The view of an index expression, before tensors gather.
pub fn view(input: &Tensor, expr: &IndexExpr) -> Result<Tensor> {
    let tracked = input.is_tracked() && rushlight_autograd::modes::recording();
    if !tracked && !input.is_sparse() && !input.is_quantized() {
        return Ok(Tensor::view_of(input, expr.layout.clone()));
    }
    if expr.steps.is_empty() {
        return if input.is_sparse() { Ok(input.clone()) } else { op!(ALIAS, input) };
    }
    let mut view = input.clone();
    for &step in &expr.steps {
        view = match step {
            Step::Select { dim, index } => selected(&view, dim, index)?,
            Step::Slice { dim, start, length, step } => sliced(&view, dim, start, length, step)?,
            Step::Unsqueeze { dim } => op!(crate::view::squeeze::UNSQUEEZE, view, dim)?,
        };
    }
    Ok(view)
}

/// `x[i, j]`: the tensors index the dimensions from `dims` on.
pub fn get(input: &Tensor, tensors: Vec<Tensor>, dims: &[usize]) -> Result<Tensor> {
    let (indices, dims) = prepare(input, tensors, dims)?;
    op!(INDEX, input, indices, dims)
}

/// `x[...] = v` for a view.
pub fn assign(view: &Tensor, value: &Tensor) -> Result<()> {
    let value = stripped(value, view.rank())?;
    let value = if value.sizes() == view.sizes() { value } else { op!(EXPAND, value, sizes_value(view.sizes()))? };
    crate::convert::copy::copy_(view, &value)
}

/// `x[i, j] = v`.
pub fn put(input: &Tensor, tensors: Vec<Tensor>, dims: &[usize], value: &Tensor) -> Result<()> {
    let value = if value.rank() == 0 { &crate::convert::to_device(value, input.device())? } else { value };
    if let ([mask], [dim]) = (tensors.as_slice(), dims)
        && mask.dtype() == DType::Bool
        && value.numel() == 1
        && mask.device() == input.device()
    {
        // A single number is cast to the tensor's dtype, as with `masked_fill`.
        return fill(input, mask, *dim, &op!(crate::view::reshape::VIEW, value, sizes_value(&[]))?);
    }
    if value.numel() == 1 {
        refuse_bytes(input, &tensors, dims)?;
    }
    let (indices, dims) = prepare(input, tensors, dims)?;
    let common = geometry::common(&indices)?;
    let places: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
    geometry::check_not_empty_dims(input, &places, &common)?;
    let rank = input.rank() - dims.len() + common.len();
    let value = stripped(value, rank)?;
    if value.layout().broadcast_to(&rushlight_core::index::gathered(input.sizes(), &places, &common)).is_err() {
        return Err(geometry::value_shape_error(&value, input, &places, &common));
    }
    put::put_(input, indices, dims, &value, false)
}

/// Writes one value where a mask over some dimensions is true.
fn fill(input: &Tensor, mask: &Tensor, dim: usize, value: &Tensor) -> Result<()> {
    check_mask(input, mask, dim)?;
    let mut sizes: Ints = mask.sizes().iter().map(|&size| size as i64).collect();
    sizes.extend(std::iter::repeat_n(1, input.rank() - dim - mask.rank()));
    let mask = op!(crate::view::RESHAPE, mask, sizes)?;
    Args::new(&masked::MASKED_FILL_TENSOR, [input.into(), mask.into(), value.into()])
        .call_into(Target::InPlace)
        .map(drop)
}

/// Without leading dimensions of size one, as long as there are more than `rank`.
fn stripped(value: &Tensor, rank: usize) -> Result<Tensor> {
    let extra = value.sizes().iter().take(value.rank().saturating_sub(rank)).take_while(|&&size| size == 1).count();
    if extra == 0 {
        Ok(value.clone())
    } else {
        op!(crate::view::reshape::VIEW, value, sizes_value(&value.sizes()[extra..]))
    }
}
