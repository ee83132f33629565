//! Copies between any two layouts and dtypes, as kernels and compositions make them; the rows are in `convert`.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Layout, Result};
use rushlight_cpu::pointwise::Lane;

use crate::row::{Row, Spec, Traits};

/// Overwrites `to` with `from`, which broadcasts and is cast; not recorded.
pub fn copy(to: &Tensor, from: &Tensor) -> Result<()> {
    copy_to_view(to, to.layout(), from)
}

/// Overwrites the elements that `target` names in the storage of `to`; not recorded.
pub fn copy_to_view(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if from.sizes() == &target.sizes {
        return copy_views(to, target, from, from.layout());
    }
    copy_views(to, target, from, &from.layout().broadcast_to(&target.sizes)?)
}

/// Overwrites what `target` names in one storage with what `source`, of the same sizes, names in another; not recorded.
pub fn copy_views(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if to.device() != Device::Cpu || target.numel() == 0 {
        return Ok(());
    }
    if !to.is_plain() || !from.is_plain() {
        if to.is_sparse() || from.is_sparse() {
            return Err(crate::sparse::no_memory());
        }
        if to.is_mapped() || from.is_mapped() {
            return copy_mapped(to, target, from, source);
        }
        return copy_mirrored(to, target, from, source);
    }
    crate::host::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        let lanes =
            [Lane { pointer: out.as_ptr(), dtype: to.dtype() }, Lane { pointer: input.as_ptr(), dtype: from.dtype() }];
        // SAFETY: layouts stay within their pinned storages.
        unsafe { rushlight_cpu::convert::copy::copy(target, source, lanes) };
        Ok(())
    })
}

/// `copy_views` where what is stored is not what is meant: by way of a tensor between the two.
#[cold]
fn copy_mirrored(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    let mut value = stored(from, source);
    if from.is_mirrored() {
        value = image(&value)?;
    }
    if to.is_mirrored() {
        value = image(&crate::convert::to_dtype(&value, to.dtype())?)?;
    }
    copy_views(&stored(to, target), target, &value, value.layout())
}

/// `copy_views` for every sample.
#[cold]
fn copy_mapped(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if from.axes().iter().any(|axis| to.axis(axis.level).is_none()) {
        return Err(crate::mapped::no_room());
    }
    let (mut target, mut source) = (target.clone(), source.clone());
    for axis in to.axes() {
        target.sizes.insert(0, axis.size);
        target.strides.insert(0, axis.stride);
        source.sizes.insert(0, axis.size);
        source.strides.insert(0, from.axis(axis.level).map_or(0, |own| own.stride));
    }
    copy_views(&stored(to, &target), &target, &stored(from, &source), &source)
}

/// What the memory of a tensor holds, whatever its elements stand for.
fn stored(tensor: &Tensor, layout: &Layout) -> Tensor {
    Tensor::new(tensor.storage().clone(), layout.clone(), tensor.dtype(), tensor.device())
}

/// The conjugates of complex numbers, the negatives of real ones.
fn image(stored: &Tensor) -> Result<Tensor> {
    if stored.dtype().is_complex() {
        crate::op!(crate::pointwise::complex::CONJ_AT_ONCE, stored)
    } else {
        crate::op!(crate::pointwise::arith::NEG, stored)
    }
}

/// Adds `from`, of the same dtype, to the elements that `target` names, which may name some more than once; not recorded.
pub fn accumulate(to: &Tensor, target: &Layout, from: &Tensor) -> Result<()> {
    if to.device() != Device::Cpu || target.numel() == 0 {
        return Ok(());
    }
    if to.is_mapped() || from.is_mapped() {
        return Err(crate::mapped::no_elements());
    }
    if to.is_mirrored() != from.is_mirrored() {
        return accumulate(&stored(to, to.layout()), target, &image(&stored(from, from.layout()))?);
    }
    crate::host::while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        // SAFETY: layouts stay within their pinned storages, and both dtypes are the same.
        unsafe {
            rushlight_cpu::convert::copy::accumulate(target, out.as_ptr(), from.layout(), input.as_ptr(), to.dtype())
        };
        Ok(())
    })
}

/// The same elements in memory of their own, in the same order of dimensions where that is dense; not recorded.
pub fn clone(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_mapped() {
        let (shown, axes) = crate::mapped::all_shown(tensor);
        return Ok(crate::mapped::all_hidden(&clone(&shown)?, &axes));
    }
    let strides = tensor.layout().preserved_strides();
    laid_out(tensor, Layout { sizes: tensor.sizes().clone(), strides, offset: 0 })
}

/// The copy that a row changes: row-major, or with gaps, where it says so.
pub fn to_change(row: &Row, tensor: &Tensor) -> Result<Tensor> {
    let layout = tensor.layout();
    if tensor.is_mapped() {
        clone(tensor)
    } else if row.traits.has(Traits::ROW_MAJOR) {
        laid_out(tensor, Layout::contiguous(tensor.sizes()))
    } else if row.traits.has(Traits::KEEPS_STRIDES)
        && !layout.overlaps()
        && layout.strides.iter().all(|&step| step >= 0)
    {
        laid_out(tensor, Layout { offset: 0, ..layout.clone() })
    } else {
        clone(tensor)
    }
}

/// The same elements in fresh memory of this layout; not recorded.
pub fn laid_out(tensor: &Tensor, layout: Layout) -> Result<Tensor> {
    let copied = crate::call::allocate(&Spec { layout, dtype: tensor.dtype(), device: tensor.device() })?;
    copy(&copied, tensor)?;
    Ok(copied)
}

/// The tensor itself, or a copy where its memory does not hold its elements (`Form::Mirrored`): for who reads the memory; not
/// recorded.
pub fn readable(tensor: &Tensor) -> Result<Tensor> {
    match tensor.is_plain() {
        true => Ok(tensor.clone()),
        false if tensor.is_mapped() => Err(crate::mapped::no_elements()),
        false => clone(tensor),
    }
}
