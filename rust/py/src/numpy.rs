//! NumPy arrays to and from tensors without a copy. NumPy is not imported before it is used.
//!
//! From NumPy: the array's buffer becomes a storage that keeps the array alive. To NumPy: a NumPy array over `Memory`,
//! an object that keeps the tensor's bytes alive and in place.

use pyo3::exceptions::{PyNotImplementedError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_core::Dims;
use rushlight_dispatch::copy::{on_host, readable};

use crate::buffer::Memory;
use crate::foreign_buffer::{Buffer, block_over};
use crate::{memory_access, numpy_types};

/// An array as a tensor over the same bytes. Negative strides and read-only memory are preserved.
pub fn import(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let dtype = numpy_types::dtype_of(array)?;
    let plain = match dtype {
        DType::BF16 => array.call_method1("view", ("uint16",))?,
        _ => array.clone(),
    };
    let held = Buffer::get(&plain, ffi::PyBUF_STRIDES)?;
    let view = held.view();
    let rank = view.ndim as usize;
    let width = dtype.size() as isize;
    let dims = |pointer: *const isize| -> Dims {
        // SAFETY: a buffer with strides has `ndim` sizes and as many strides.
        if rank == 0 { Dims::new() } else { unsafe { std::slice::from_raw_parts(pointer, rank) }.into() }
    };
    // A buffer has other strides than the array itself where a size is 0 or 1.
    let (sizes, mut strides) = (dims(view.shape), Dims::from_vec(plain.getattr("strides")?.extract()?));
    if strides.iter().any(|stride| stride % width != 0) {
        return Err(PyValueError::new_err(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
        ));
    }
    strides.iter_mut().for_each(|stride| *stride /= width);
    let mut layout = Layout { sizes, strides, offset: 0 };
    let (low, high) = layout.span().unwrap_or((0, -1));
    layout.offset = -low;
    let bytes = (high + 1 - low) * width;
    // SAFETY: NumPy guarantees that every element lies in the array's memory.
    let block = unsafe {
        let start = view.buf.cast::<u8>().offset(low * width);
        block_over(&plain, held, start, bytes as usize)?
    };
    Ok(Tensor::new(Storage::new(block), layout, dtype, Device::Cpu))
}

/// The tensor as an array over the same bytes. With `force` a copy is made if necessary, and history is ignored.
pub fn export<'py>(py: Python<'py>, tensor: &Tensor, force: bool) -> PyResult<Bound<'py, PyAny>> {
    match tensor.device() {
        Device::Cpu | Device::Cuda(_) if force => {}
        Device::Meta if force => {
            return Err(PyNotImplementedError::new_err("Cannot copy out of meta tensor; no data!"));
        }
        _ => memory_access::exportable(tensor)?,
    }
    let tensor = &on_host(tensor).and_then(|tensor| readable(&tensor)).map_err(crate::errors::raise)?;
    let numpy = numpy_types::numpy(py)?;
    let dtype = match numpy.dtypes.iter().find(|(_, dtype)| *dtype == tensor.dtype()) {
        Some((theirs, _)) => theirs.bind(py).clone(),
        None if tensor.dtype().is_storage_only() => return Err(unsupported(tensor.dtype())),
        None => py
            .import("ml_dtypes")
            .and_then(|module| module.getattr("bfloat16"))
            .map_err(|_| unsupported(tensor.dtype()))?,
    };
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let memory = Bound::new(py, Memory::of(tensor.storage())?)?;
    let strides = PyTuple::new(py, layout.strides_in(width))?;
    let sizes = PyTuple::new(py, &layout.sizes)?;
    // The offset of an empty view may lie behind its storage, which NumPy rejects.
    let offset = if layout.numel() == 0 { 0 } else { layout.offset * width };
    numpy.array.bind(py).call1((sizes, dtype, memory, offset, strides))
}

/// `Tensor.__array__`: with `copy=True` always a copy, with False never, and otherwise if the dtype requires it.
pub fn array<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    dtype: Option<Bound<'py, PyAny>>,
    copy: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = export(py, tensor, false)?;
    let copy = copy.filter(|copy| !copy.is_none()).map(|copy| copy.is_truthy()).transpose()?;
    let Some(dtype) = dtype.filter(|dtype| !dtype.is_none()) else {
        return if copy == Some(true) { array.call_method0("copy") } else { Ok(array) };
    };
    let keywords = PyDict::new(py);
    keywords.set_item("copy", copy == Some(true))?;
    let cast = array.call_method("astype", (dtype,), Some(&keywords))?;
    if copy == Some(false) && !cast.is(&array) {
        return Err(PyValueError::new_err("Unable to avoid copy while creating an array as requested."));
    }
    Ok(cast)
}

/// The array interface, version 3.
pub fn interface<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    memory_access::exportable(tensor)?;
    // The caller may use the address at any time, so these bytes stay in place as long as the storage lives.
    tensor.storage().expose().map_err(crate::errors::raise)?;
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    dict.set_item("typestr", typestr(tensor.dtype())?)?;
    dict.set_item("shape", PyTuple::new(py, &layout.sizes)?)?;
    dict.set_item("strides", PyTuple::new(py, layout.strides_in(width))?)?;
    dict.set_item("data", (memory_access::address(tensor), tensor.storage().is_read_only()))?;
    Ok(dict.into_any())
}

/// The error for a dtype that NumPy does not have.
fn unsupported(dtype: DType) -> PyErr {
    PyTypeError::new_err(format!("Got unsupported ScalarType {}", dtype.display_name()))
}

fn typestr(dtype: DType) -> PyResult<String> {
    let kind = match dtype {
        DType::Bool => "|b",
        DType::U8 => "|u",
        DType::I8 => "|i",
        _ if dtype == DType::BF16 || dtype.is_storage_only() => return Err(unsupported(dtype)),
        _ if dtype.is_complex() => "<c",
        _ if dtype.is_floating() => "<f",
        _ if dtype.is_signed() => "<i",
        _ => "<u",
    };
    Ok(format!("{kind}{}", dtype.size()))
}
