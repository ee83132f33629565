//! Physical tensors of batched ones, and back.

use rushlight_autograd::{BatchDim, Tensor};
use rushlight_core::{Layout, Result};

use crate::allocate::allocate;
use crate::handled;
use crate::operator::TensorSpec;

/// One sample of a tensor, which is the tensor itself if it is not batched; without history.
pub fn one_sample(tensor: &Tensor, level: i64, size: isize, place: isize) -> Tensor {
    if tensor.batch_dim(level).is_none() {
        return tensor.clone();
    }
    let physical = physical(tensor, level, size);
    let layout = physical.layout().select(0, place);
    Tensor::with_meta(physical.meta_with(layout))
}

/// The memory of a tensor with the batch dimension first; without history or version counter.
pub fn physical(tensor: &Tensor, level: i64, size: isize) -> Tensor {
    Tensor::with_meta(tensor.meta().remove_batch_dim(0, level, size))
}

/// The inverse of `physical`, for a new result.
pub fn logical(tensor: &Tensor, level: i64) -> Tensor {
    Tensor::with_meta(tensor.meta().add_batch_dim(0, level))
}

/// Uninitialised elements in a sample's geometry, with room for every sample of `like`.
pub fn empty(layout: &Layout, like: &Tensor) -> Result<Tensor> {
    let spec = TensorSpec { layout: layout.clone(), dtype: like.dtype(), device: like.device() };
    if !like.is_batched() {
        return allocate(&spec);
    }
    let mut stride = layout.span().map_or(0, |(_, high)| high + 1);
    let mut batch_dims = like.batch_dims().to_vec();
    for batch_dim in batch_dims.iter_mut().rev() {
        batch_dim.stride = stride;
        stride *= batch_dim.size;
    }
    let whole = allocate(&TensorSpec { layout: Layout::contiguous(&[stride]), ..spec })?;
    Ok(Tensor::with_meta(whole.meta_with(layout.clone()).with_batch_dims(batch_dims)))
}

/// The tensor with every batch dimension shown, the outermost first, and those dimensions.
pub fn all_physical(tensor: &Tensor) -> (Tensor, Vec<BatchDim>) {
    let batch_dims = tensor.batch_dims().to_vec();
    (physical_at(tensor, batch_dims.iter().map(|batch_dim| (batch_dim.level, batch_dim.size))), batch_dims)
}

/// The tensor with the batch dimensions of some levels shown, which are given with their sizes, the outermost first.
pub fn physical_at(tensor: &Tensor, levels: impl DoubleEndedIterator<Item = (i64, isize)>) -> Tensor {
    Tensor::with_meta(
        levels.rev().fold(tensor.meta().clone(), |meta, (level, size)| meta.remove_batch_dim(0, level, size)),
    )
}

/// The inverse of `physical_at`.
pub fn logical_at(tensor: &Tensor, levels: impl Iterator<Item = i64>) -> Tensor {
    Tensor::with_meta(levels.fold(tensor.meta().clone(), |meta, level| meta.add_batch_dim(0, level)))
}

/// All samples without history, for checks that must hold for every one.
pub fn samples(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_wrapper() { handled::detach(tensor) } else { Ok(all_physical(tensor).0) }
}

/// The inverse of `all_physical`.
pub fn all_logical(tensor: &Tensor, batch_dims: &[BatchDim]) -> Tensor {
    logical_at(tensor, batch_dims.iter().map(|batch_dim| batch_dim.level))
}
