//! Operands of cuDNN.

use rushlight_autograd::Tensor;
use rushlight_core::memory_format::{is_contiguous, strides};
use rushlight_core::{Dims, Layout, Result, Storage};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::copy;
use rushlight_dispatch::operator::TensorSpec;

/// Whether cuDNN's kernels can read from a byte of a storage: they take several elements at once, from multiples of 16.
pub fn is_aligned(storage: &Storage, first_byte: isize) -> bool {
    storage.address().wrapping_add_signed(first_byte).is_multiple_of(16)
}

/// Memory that cuDNN can use in place of a tensor's, in a memory format or row-major: its own if that suits. New memory has the
/// elements if they are read.
pub fn ready(tensor: &Tensor, format: Option<&str>, is_read: bool) -> Result<Tensor> {
    if is_contiguous(tensor.layout(), format)? && is_aligned(tensor.storage(), tensor.first_byte()) {
        return Ok(tensor.detach());
    }
    let sizes = Dims::clone(tensor.sizes());
    let layout = Layout { strides: strides(&sizes, format, None)?, sizes, offset: 0 };
    let dense = allocate(&TensorSpec { layout, dtype: tensor.dtype(), device: tensor.device() })?;
    if is_read {
        copy::copy(&dense, &tensor.detach())?;
    }
    Ok(dense)
}
