//! Tensors out of nothing.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Device, Element, Layout, Result, Scalar, dispatch};

use crate::row::Spec;

/// Uninitialised elements, row-major.
pub fn empty(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    crate::call::allocate(&Spec { layout: Layout::contiguous(sizes), dtype, device })
}

/// One value everywhere.
pub fn full(sizes: &[isize], value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(sizes, dtype, device)?;
    fill(&tensor, value)?;
    Ok(tensor)
}

pub fn zeros(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    full(sizes, Scalar::ZERO, dtype, device)
}

/// Overwrites every element with `value`; not recorded.
pub fn fill(tensor: &Tensor, value: Scalar) -> Result<()> {
    crate::copy::copy(tensor, &scalar_of(value, tensor.dtype(), tensor.device())?)
}

/// A 0-d tensor of a dtype.
pub fn scalar_of(value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(&[], dtype, device)?;
    if device == Device::Cpu {
        let pin = tensor.storage().pin();
        dispatch!(dtype, T in all => {
            // SAFETY: the storage is fresh and holds one element.
            unsafe { pin.as_ptr().cast::<T>().write(T::from_scalar(value)) }
        });
    }
    Ok(tensor)
}

/// A 0-d tensor of a number's own dtype.
pub fn scalar_tensor(value: Scalar) -> Result<Tensor> {
    let dtype = match value {
        Scalar::Float(_) => default_dtype(),
        Scalar::Complex(_) => default_dtype().to_complex(),
        other => other.dtype(),
    };
    scalar_of(value, dtype, Device::Cpu)
}

/// A one-dimensional tensor with these elements.
pub fn from_slice<T: Element>(elements: &[T]) -> Result<Tensor> {
    let tensor = empty(&[elements.len() as isize], T::DTYPE, Device::Cpu)?;
    let pin = tensor.storage().pin();
    // SAFETY: the storage is fresh and as long as the slice.
    unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), pin.as_ptr().cast(), elements.len()) };
    drop(pin);
    Ok(tensor)
}
