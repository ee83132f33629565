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
pub fn view(own: &Tensor, expr: &IndexExpr) -> Result<Tensor> {
    let tracked = own.is_tracked() && rushlight_autograd::modes::recording();
    if !tracked && !own.is_sparse() && !own.is_quantized() {
        return Ok(Tensor::view_of(own, expr.layout.clone()));
    }
    if expr.steps.is_empty() {
        return if own.is_sparse() { Ok(own.clone()) } else { op!(ALIAS, own) };
    }
    let mut view = own.clone();
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
pub fn get(own: &Tensor, tensors: Vec<Tensor>, dims: &[usize]) -> Result<Tensor> {
    let (indices, dims) = prepare(own, tensors, dims)?;
    op!(INDEX, own, indices, dims)
}

/// `x[...] = v` for a view.
pub fn assign(view: &Tensor, value: &Tensor) -> Result<()> {
    let value = stripped(value, view.rank())?;
    let value = if value.sizes() == view.sizes() { value } else { op!(EXPAND, value, sizes_value(view.sizes()))? };
    crate::convert::copy::copy_(view, &value)
}

/// `x[i, j] = v`.
pub fn put(own: &Tensor, tensors: Vec<Tensor>, dims: &[usize], value: &Tensor) -> Result<()> {
    let value = if value.rank() == 0 { &crate::convert::to_device(value, own.device())? } else { value };
    if let ([mask], [dim]) = (tensors.as_slice(), dims)
        && mask.dtype() == DType::Bool
        && value.numel() == 1
        && mask.device() == own.device()
    {
        // A single number is cast to the tensor's dtype, as with `masked_fill`.
        return fill(own, mask, *dim, &op!(crate::view::reshape::VIEW, value, sizes_value(&[]))?);
    }
    if value.numel() == 1 {
        refuse_bytes(own, &tensors, dims)?;
    }
    let (indices, dims) = prepare(own, tensors, dims)?;
    let common = geometry::common(&indices)?;
    let places: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
    geometry::check_not_empty_dims(own, &places, &common)?;
    let rank = own.rank() - dims.len() + common.len();
    let value = stripped(value, rank)?;
    if value.layout().broadcast_to(&rushlight_core::index::gathered(own.sizes(), &places, &common)).is_err() {
        return Err(geometry::value_shape_error(&value, own, &places, &common));
    }
    put::put_(own, indices, dims, &value, false)
}

/// Writes one value where a mask over some dimensions is true.
fn fill(own: &Tensor, mask: &Tensor, dim: usize, value: &Tensor) -> Result<()> {
    check_mask(own, mask, dim)?;
    let mut sizes: Ints = mask.sizes().iter().map(|&size| size as i64).collect();
    sizes.extend(std::iter::repeat_n(1, own.rank() - dim - mask.rank()));
    let mask = op!(crate::view::RESHAPE, mask, sizes)?;
    Args::new(&masked::MASKED_FILL_TENSOR, [own.into(), mask.into(), value.into()]).call_into(Target::InPlace).map(drop)
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
