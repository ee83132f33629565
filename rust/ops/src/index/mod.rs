//! Elements chosen by indices and masks: read, written, accumulated.
//!
//! `view`, `get`, `assign` and `put` are `x[...]` and `x[...] = v` once the brackets are read. Masks become indices in one
//! place (`prepare`), geometry and bounds are worked out in one place (`geometry`), and the kernels move whole blocks.

pub mod along;
pub mod gather;
pub mod geometry;
pub mod get;
mod mapped;
pub mod masked;
pub mod nonzero;
pub mod put;
pub mod scatter;
pub mod take;

use rushlight_core::index::{Brackets, Step};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Layout, Result};

use crate::convert::to_device;
use crate::value::Ints;
use crate::view::expand::EXPAND;
use crate::view::narrow::{ALIAS, selected, sliced};
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

pub use get::INDEX;
pub use put::PUT;

/// The view that an index expression makes before tensors gather.
pub fn view(own: &Tensor, brackets: &Brackets) -> Result<Tensor> {
    let watched = own.is_watched() && rushlight_autograd::modes::recording();
    if !watched && !own.is_sparse() {
        return Ok(Tensor::view_of(own, brackets.layout.clone()));
    }
    if brackets.steps.is_empty() {
        return if own.is_sparse() { Ok(own.clone()) } else { op!(ALIAS, own) };
    }
    let mut view = own.clone();
    for &step in &brackets.steps {
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
    if let ([mask], [dim]) = (tensors.as_slice(), dims)
        && mask.dtype() == DType::Bool
        && value.numel() == 1
        && mask.device() == own.device()
    {
        // One number takes the tensor's dtype, as `masked_fill` gives it.
        return fill(own, mask, *dim, &op!(crate::view::reshape::VIEW, value, sizes_value(&[]))?);
    }
    if value.numel() == 1 {
        refuse_bytes(&tensors)?;
    }
    let (indices, dims) = prepare(own, tensors, dims)?;
    let common = geometry::common(&indices)?;
    let places: Vec<usize> = dims.iter().map(|&dim| dim as usize).collect();
    geometry::check_room(own, &places, &common)?;
    let rank = own.rank() - dims.len() + common.len();
    let value = stripped(value, rank)?;
    if value.layout().broadcast_to(&rushlight_core::index::gathered(own.sizes(), &places, &common)).is_err() {
        return Err(geometry::unfit(&value, own, &places, &common));
    }
    put::put_(own, indices, dims, &value, false)
}

/// Refuses a mask of bytes as the only index: one value at its places is a matter for `masked_fill`, which takes none.
fn refuse_bytes(indices: &[Tensor]) -> Result<()> {
    match indices {
        [mask] if mask.dtype() == DType::U8 => {
            Err(Error::runtime("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
                .hint("Convert the mask: m.bool()."))
        }
        _ => Ok(()),
    }
}

/// One value wherever a mask over some dimensions is true.
fn fill(own: &Tensor, mask: &Tensor, dim: usize, value: &Tensor) -> Result<()> {
    check_mask(own, mask, dim)?;
    let mut sizes: Ints = mask.sizes().iter().map(|&size| size as i64).collect();
    sizes.extend(std::iter::repeat_n(1, own.rank() - dim - mask.rank()));
    let mask = op!(crate::view::RESHAPE, mask, sizes)?;
    crate::call::call_into(
        crate::Args::new(&masked::MASKED_FILL_TENSOR, [own.into(), mask.into(), value.into()]),
        crate::call::Target::InPlace,
    )
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

/// Indices as integers on the tensor's device, one for each indexed dimension: a mask becomes the coordinates of its true
/// elements.
pub fn prepare(own: &Tensor, tensors: Vec<Tensor>, dims: &[usize]) -> Result<(Vec<Tensor>, Ints)> {
    let mut indices = Vec::with_capacity(tensors.len());
    let mut places = Ints::new();
    for (tensor, &dim) in tensors.into_iter().zip(dims) {
        match tensor.dtype() {
            DType::I64 | DType::I32 => {
                indices.push(to_device(&tensor, own.device())?);
                places.push(dim as i64);
            }
            DType::Bool | DType::U8 => {
                if tensor.dtype() == DType::U8 {
                    crate::host::warn(
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                    )?;
                }
                check_mask(own, &tensor, dim)?;
                if tensor.is_mapped() {
                    return Err(Error::runtime(
                        "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a boolean mask.",
                    )
                    .hint("torch.where(mask, x, y) keeps the shape."));
                }
                for (axis, index) in nonzero::coordinates(&tensor)?.into_iter().enumerate() {
                    indices.push(to_device(&index, own.device())?);
                    places.push((dim + axis) as i64);
                }
            }
            _ => return Err(Error::index("tensors used as indices must be long, int, byte or bool tensors")),
        }
    }
    Ok((indices, places))
}

fn check_mask(own: &Tensor, mask: &Tensor, dim: usize) -> Result<()> {
    for axis in 0..mask.rank() {
        if own.sizes().get(dim + axis) != Some(&mask.sizes()[axis]) {
            return Err(Error::index(format!(
                "The shape of the mask {} at index {axis} does not match the shape of the indexed tensor {} at index {}",
                Shape(mask.sizes()),
                Shape(own.sizes()),
                dim + axis
            ))
            .shapes([mask.sizes().as_slice(), own.sizes().as_slice()]));
        }
    }
    Ok(())
}

/// The first element's address in a pinned storage; layouts stay within it, and an empty one may start at its end.
fn first(pin: &rushlight_core::storage::Pin, layout: &Layout, dtype: DType) -> *mut u8 {
    pin.as_ptr().wrapping_offset(layout.offset * dtype.size() as isize)
}
