//! Access to a tensor's memory from outside: the address, and the errors for tensors that do not give it.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rushlight::{Device, Tensor};
use rushlight_autograd::{Form, modes};
use rushlight_dispatch::{sparse, vmap};

use crate::errors::raise;

/// Returns an error for a sparse tensor, whose elements are in two others, and for a batched one.
pub fn with_memory(tensor: &Tensor) -> PyResult<()> {
    match tensor.meta().form {
        Form::Sparse(_) | Form::Compressed(_) => Err(raise(sparse::no_memory(tensor))),
        Form::Batched(_) => Err(raise(vmap::storage_error())),
        Form::Plain | Form::LazyConj | Form::Quantized(_) | Form::Wrapper => Ok(()),
    }
}

/// The address of the element whose indices are all zero; zero if there are no elements.
pub fn address(tensor: &Tensor) -> usize {
    if tensor.numel() == 0 || tensor.device() == Device::Meta {
        return 0;
    }
    tensor.storage().address().wrapping_add_signed(tensor.first_byte())
}

/// torch's error for tensors that NumPy cannot represent.
pub fn exportable(tensor: &Tensor) -> PyResult<()> {
    if tensor.device() != Device::Cpu {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            tensor.device()
        )));
    }
    if tensor.is_batched() {
        return Err(raise(vmap::data_error()));
    }
    if tensor.is_sparse() {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} layout tensor to numpy. Use Tensor.to_dense() first.",
            tensor.layout_name()
        )));
    }
    if tensor.is_quantized() {
        return Err(PyTypeError::new_err(format!(
            "Got unsupported ScalarType {}",
            rushlight::quantized::convert::display_name(tensor.dtype())
        )));
    }
    if tensor.requires_grad() && modes::grad_enabled() {
        return Err(PyRuntimeError::new_err(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ));
    }
    if tensor.is_lazy_conj() {
        let (bit, way) = if tensor.dtype().is_complex() { ("conjugate", "conj") } else { ("negative", "neg") };
        return Err(PyRuntimeError::new_err(format!(
            "Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{way}().numpy() instead."
        )));
    }
    Ok(())
}
