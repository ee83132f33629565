//! Masks among indices, which are replaced by the coordinates of their true elements.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};
use rushlight_dispatch::interpreter;
use rushlight_dispatch::value::Ints;

use super::nonzero;
use crate::convert::to_device;

/// Returns an error for a uint8 mask as the only index: writing one value is done by `masked_fill`, which does not
/// accept such a mask.
pub fn refuse_bytes(input: &Tensor, indices: &[Tensor], dims: &[usize]) -> Result<()> {
    match indices {
        [mask] if mask.dtype() == DType::U8 => {
            check_mask(input, mask, dims.first().copied().unwrap_or(0))?;
            Err(Error::runtime("masked_fill_ only supports boolean masks, but got mask with dtype unsigned char")
                .hint("Convert the mask: m.bool()."))
        }
        _ => Ok(()),
    }
}

/// Indices as integers on the tensor's device, one for each indexed dimension: a mask is replaced by the coordinates of
/// its true elements.
pub fn prepare(input: &Tensor, tensors: Vec<Tensor>, dims: &[usize]) -> Result<(Vec<Tensor>, Ints)> {
    let mut indices = Vec::with_capacity(tensors.len());
    let mut places = Ints::new();
    for (tensor, &dim) in tensors.into_iter().zip(dims) {
        match tensor.dtype() {
            DType::I64 | DType::I32 => {
                indices.push(moved(&tensor, input)?);
                places.push(dim as i64);
            }
            DType::Bool | DType::U8 => {
                if tensor.dtype() == DType::U8 {
                    interpreter::warn(
                        "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
                    )?;
                }
                check_mask(input, &tensor, dim)?;
                if tensor.is_batched() {
                    return Err(Error::runtime(
                        "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with a boolean mask.",
                    )
                    .hint("Use torch.where(mask, x, y) to keep the shape."));
                }
                for (axis, index) in nonzero::coordinates(&tensor)?.into_iter().enumerate() {
                    indices.push(moved(&index, input)?);
                    places.push((dim + axis) as i64);
                }
            }
            _ => return Err(Error::index("tensors used as indices must be long, int, byte or bool tensors")),
        }
    }
    Ok((indices, places))
}

/// An index on the device of the tensor. Only one on the CPU is moved there.
fn moved(index: &Tensor, input: &Tensor) -> Result<Tensor> {
    let (own, device) = (index.device(), input.device());
    if own != device && matches!(own, Device::Cuda(_)) {
        return Err(Error::runtime(format!(
            "indices should be either on cpu or on the same device as the indexed tensor ({device})"
        ))
        .hint(format!("The index is on {own}. Move it: index.to(x.device).")));
    }
    to_device(index, device)
}

pub fn check_mask(input: &Tensor, mask: &Tensor, dim: usize) -> Result<()> {
    for axis in 0..mask.rank() {
        if input.sizes().get(dim + axis) != Some(&mask.sizes()[axis]) {
            return Err(Error::index(format!(
                "The shape of the mask {} at index {axis} does not match the shape of the indexed tensor {} at index {}",
                Shape(mask.sizes()),
                Shape(input.sizes()),
                dim + axis
            ))
            .shapes([mask.sizes().as_slice(), input.sizes().as_slice()]));
        }
    }
    Ok(())
}
