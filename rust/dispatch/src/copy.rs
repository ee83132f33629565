//! Copies between any two layouts and dtypes, for kernels and compositions; the operators are in `convert`.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Layout, Result};

use crate::allocate::allocate;
use crate::operator::{Operator, Tags, TensorSpec};
use crate::primitives::primitives;
use crate::{handled, transfer};

/// Overwrites `to` with `from`, which broadcasts and is cast; not recorded.
pub fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    copy_to_view(to, to.layout(), from)
}

/// Overwrites the elements of the view `target` of the storage of `to`; not recorded.
pub fn copy_to_view(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if from.sizes() == &target.sizes {
        return copy_views(to, target, from, from.layout());
    }
    copy_views(to, target, from, &from.layout().broadcast_to(&target.sizes)?)
}

/// Overwrites the view `target` of one storage with the view `source`, of the same sizes, of another; not recorded.
pub fn copy_views(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if to.device() == Device::Meta || target.numel() == 0 {
        return Ok(());
    }
    if !to.is_plain() || !from.is_plain() {
        if to.is_sparse() || from.is_sparse() {
            return Err(crate::sparse::no_memory(if to.is_sparse() { to } else { from }));
        }
        if to.is_batched() || from.is_batched() {
            return copy_batched(to, target, from, source);
        }
        return copy_lazy_conj(to, target, from, source);
    }
    transfer::copy(to, target, from, source, true)
}

/// `copy` that may return before the elements have arrived, from or to page-locked memory of the host.
pub fn copy_later(to: &Tensor, from: &Tensor) -> Result<()> {
    let apart = to.device() != from.device() && to.device() != Device::Meta && to.numel() > 0;
    if !apart || !to.is_plain() || !from.is_plain() || from.sizes() != to.sizes() {
        return copy(to, from);
    }
    transfer::copy(to, to.layout(), from, from.layout(), false)
}

/// `copy_views` for lazily conjugated tensors: through a temporary tensor.
#[cold]
fn copy_lazy_conj(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    let mut value = stored(from, source);
    if from.is_lazy_conj() {
        value = image(&value)?;
    }
    if to.is_lazy_conj() {
        value = image(&(primitives()?.cast)(&value, to.dtype())?)?;
    }
    copy_views(&stored(to, target), target, &value, value.layout())
}

/// `copy_views` for every sample.
#[cold]
fn copy_batched(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if from.batch_dims().iter().any(|batch_dim| to.batch_dim(batch_dim.level).is_none()) {
        return Err(crate::vmap::in_place_error());
    }
    let (mut target, mut source) = (target.clone(), source.clone());
    for batch_dim in to.batch_dims() {
        target.sizes.insert(0, batch_dim.size);
        target.strides.insert(0, batch_dim.stride);
        source.sizes.insert(0, batch_dim.size);
        source.strides.insert(0, from.batch_dim(batch_dim.level).map_or(0, |own| own.stride));
    }
    copy_views(&stored(to, &target), &target, &stored(from, &source), &source)
}

/// The stored elements of a tensor, ignoring its form.
fn stored(tensor: &Tensor, layout: &Layout) -> Tensor {
    Tensor::new(tensor.storage().clone(), layout.clone(), tensor.dtype(), tensor.device())
}

/// The conjugates of complex numbers, the negatives of real ones.
fn image(stored: &Tensor) -> Result<Tensor> {
    let primitives = primitives()?;
    let op = if stored.dtype().is_complex() { primitives.conj } else { primitives.neg };
    op.tensor([stored.into()])
}

/// Adds `from`, of the same dtype, to the view `target`, in which elements may repeat; not recorded.
pub fn accumulate(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if to.device() == Device::Meta || target.numel() == 0 {
        return Ok(());
    }
    if to.is_batched() || from.is_batched() {
        return Err(crate::vmap::data_error());
    }
    if to.is_lazy_conj() != from.is_lazy_conj() {
        return accumulate(&stored(to, to.layout()), target, &image(&stored(from, from.layout()))?);
    }
    crate::interpreter::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        // SAFETY: layouts stay within their pinned storages, and both dtypes are the same.
        unsafe {
            rushlight_cpu::convert::copy::accumulate(target, out.as_ptr(), from.layout(), input.as_ptr(), to.dtype())
        };
        Ok(())
    })
}

/// The same elements in new memory, in the same order of dimensions if that is dense; not recorded.
pub fn clone(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_batched() {
        let (shown, batch_dims) = crate::vmap::all_physical(tensor);
        return Ok(crate::vmap::all_logical(&clone(&shown)?, &batch_dims));
    }
    if tensor.is_wrapper() {
        return handled::clone(tensor);
    }
    let strides = tensor.layout().preserved_strides();
    laid_out(tensor, Layout { sizes: tensor.sizes().clone(), strides, offset: 0 })
}

/// The copy that an operator changes: row-major, or with gaps if it requires that.
pub fn to_change(op: &Operator, tensor: &Tensor) -> Result<Tensor> {
    let layout = tensor.layout();
    if tensor.is_batched() {
        clone(tensor)
    } else if op.tags.has(Tags::ROW_MAJOR) {
        laid_out(tensor, Layout::contiguous(tensor.sizes()))
    } else if op.tags.has(Tags::KEEPS_STRIDES) && !layout.overlaps() && layout.strides.iter().all(|&step| step >= 0) {
        laid_out(tensor, Layout { offset: 0, ..layout.clone() })
    } else {
        clone(tensor)
    }
}

/// The same elements in new memory of this layout; not recorded.
pub fn laid_out(tensor: &Tensor, layout: Layout) -> Result<Tensor> {
    let copied = allocate(&TensorSpec { layout, dtype: tensor.dtype(), device: tensor.device() })?;
    copy(&copied, tensor)?;
    Ok(copied)
}

/// The tensor itself, or a copy if it is lazily conjugated (`Form::LazyConj`): for code that reads the memory; not
/// recorded.
pub fn readable(tensor: &Tensor) -> Result<Tensor> {
    match tensor.is_plain() {
        true => Ok(tensor.clone()),
        false if tensor.is_batched() => Err(crate::vmap::data_error()),
        false => clone(tensor),
    }
}

/// The tensor in memory of the host: itself, or a copy with the elements in row-major order; not recorded.
pub fn on_host(tensor: &Tensor) -> Result<Tensor> {
    if !matches!(tensor.device(), Device::Cuda(_)) {
        return Ok(tensor.clone());
    }
    let layout = Layout::contiguous(tensor.sizes());
    let copied = allocate(&TensorSpec { layout, dtype: tensor.dtype(), device: Device::Cpu })?;
    copy(&copied, tensor)?;
    Ok(copied)
}

/// Fills a new row-major tensor with what `write` writes to memory of the host.
pub fn from_host(tensor: &Tensor, write: impl FnOnce(&Tensor) -> Result<()>) -> Result<()> {
    match tensor.device() {
        Device::Cpu => write(tensor),
        Device::Meta | Device::Unsupported(_) => Ok(()),
        Device::Cuda(_) => {
            let spec =
                TensorSpec { layout: Layout::contiguous(tensor.sizes()), dtype: tensor.dtype(), device: Device::Cpu };
            let buffer = allocate(&spec)?;
            write(&buffer)?;
            copy(tensor, &buffer)
        }
    }
}
