//! NumPy arrays in and out without a copy, and without NumPy being imported before somebody uses it.
//!
//! In: the array's buffer becomes a storage that keeps the array alive. Out: a NumPy array over `Memory`, an object that
//! keeps the tensor's bytes alive and in place.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use rushlight::copy::readable;
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_autograd::modes;
use rushlight_core::layout::Dims;

use crate::buffer::{Buffer, Memory};
use crate::files::block_over;

/// What is needed of NumPy, found once.
struct Numpy {
    array: Py<PyType>,
    scalar: Py<PyType>,
    /// NumPy's own objects for the dtypes that both have.
    dtypes: Vec<(Py<PyAny>, DType)>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

fn find(py: Python<'_>) -> PyResult<Numpy> {
    let module = py.import("numpy")?;
    let class = |name: &str| -> PyResult<Py<PyType>> { Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind()) };
    let shared = DType::ALL.into_iter().filter(|dtype| *dtype != DType::BF16);
    let dtypes = shared.map(|dtype| Ok((module.getattr("dtype")?.call1((dtype.name(),))?.unbind(), dtype)));
    Ok(Numpy { array: class("ndarray")?, scalar: class("generic")?, dtypes: dtypes.collect::<PyResult<_>>()? })
}

fn numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    NUMPY.get_or_try_init(py, || find(py))?;
    NUMPY.get(py).ok_or_else(|| PyRuntimeError::new_err("NumPy is not available"))
}

/// NumPy, if the program uses it already.
fn loaded(py: Python<'_>) -> PyResult<Option<&'static Numpy>> {
    if let Some(numpy) = NUMPY.get(py) {
        return Ok(Some(numpy));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    if modules.contains(intern!(py, "numpy"))? { numpy(py).map(Some) } else { Ok(None) }
}

pub fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    loaded(object.py())?.map_or(Ok(false), |numpy| object.is_instance(numpy.array.bind(object.py())))
}

/// Whether the first element of a list or tuple is an array.
pub fn is_array_inside(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    if loaded(data.py())?.is_none() || !data.is_instance_of::<pyo3::types::PyList>() || data.len()? == 0 {
        return Ok(false);
    }
    is_array(&data.get_item(0)?)
}

pub fn is_scalar(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    loaded(object.py())?.map_or(Ok(false), |numpy| object.is_instance(numpy.scalar.bind(object.py())))
}

/// The dtype of a NumPy scalar or array.
pub fn scalar_dtype(object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if is_scalar(object)? || is_array(object)? {
        return dtype_of(object).map(Some);
    }
    Ok(None)
}

/// A NumPy object's dtype as ours, or torch's error.
fn dtype_of(array: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = array.py();
    let own = array.getattr(intern!(py, "dtype"))?;
    let known = &numpy(py)?.dtypes;
    if let Some((_, dtype)) = known.iter().find(|(theirs, _)| own.is(theirs)) {
        return Ok(*dtype);
    }
    for (theirs, dtype) in known {
        if own.eq(theirs)? {
            return Ok(*dtype);
        }
    }
    let kind = own.getattr(intern!(py, "type"))?;
    if kind.getattr(intern!(py, "__name__"))?.extract::<String>()? == "bfloat16" {
        return Ok(DType::BF16);
    }
    if !own.getattr("isnative")?.extract::<bool>()? {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.",
        ));
    }
    let name = kind.cast::<PyType>()?.fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "can't convert np.ndarray of type {name}. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    )))
}

/// An array as a tensor over the same bytes. Negative strides stay, and what was read-only stays so.
pub fn import(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let dtype = dtype_of(array)?;
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
    let (sizes, mut strides) = (dims(view.shape), dims(view.strides));
    if sizes.iter().zip(&strides).any(|(size, stride)| *size > 1 && stride % width != 0) {
        return Err(PyValueError::new_err(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
        ));
    }
    strides.iter_mut().for_each(|stride| *stride /= width);
    let mut layout = Layout { sizes, strides, offset: 0 };
    let (low, high) = layout.span().unwrap_or((0, -1));
    layout.offset = -low;
    let bytes = (high + 1 - low) * width;
    // SAFETY: NumPy says that every element lies in the array's memory.
    let block = unsafe {
        let start = view.buf.cast::<u8>().offset(low * width);
        block_over(&plain, held, start, bytes as usize)?
    };
    Ok(Tensor::new(Storage::new(block), layout, dtype, Device::Cpu))
}

/// Refuses what NumPy cannot see, in torch's words.
pub fn exportable(tensor: &Tensor) -> PyResult<()> {
    if tensor.device() != Device::Cpu {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            tensor.device()
        )));
    }
    if tensor.is_mapped() {
        return Err(crate::errors::raise(rushlight::mapped::no_elements()));
    }
    if tensor.is_sparse() {
        return Err(PyTypeError::new_err("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first."));
    }
    if tensor.requires_grad() && modes::grad_enabled() {
        return Err(PyRuntimeError::new_err(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ));
    }
    if tensor.is_mirrored() {
        let (bit, way) = if tensor.dtype().is_complex() { ("conjugate", "conj") } else { ("negative", "neg") };
        return Err(PyRuntimeError::new_err(format!(
            "Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{way}().numpy() instead."
        )));
    }
    Ok(())
}

/// The tensor as an array over the same bytes. With `force` a copy is made where it must, and history is no obstacle.
pub fn export<'py>(py: Python<'py>, tensor: &Tensor, force: bool) -> PyResult<Bound<'py, PyAny>> {
    match tensor.device() {
        Device::Cpu if force => {}
        Device::Meta if force => {
            return Err(PyNotImplementedError::new_err("Cannot copy out of meta tensor; no data!"));
        }
        _ => exportable(tensor)?,
    }
    let tensor = &readable(tensor).map_err(crate::errors::raise)?;
    let numpy = numpy(py)?;
    let dtype = match numpy.dtypes.iter().find(|(_, dtype)| *dtype == tensor.dtype()) {
        Some((theirs, _)) => theirs.bind(py).clone(),
        None => py
            .import("ml_dtypes")
            .and_then(|module| module.getattr("bfloat16"))
            .map_err(|_| PyTypeError::new_err("Got unsupported ScalarType BFloat16"))?,
    };
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let memory = Bound::new(py, Memory::of(tensor.storage())?)?;
    let strides = PyTuple::new(py, layout.strides_in(width))?;
    let sizes = PyTuple::new(py, &layout.sizes)?;
    // An empty view may start behind its storage, which NumPy refuses.
    let offset = if layout.numel() == 0 { 0 } else { layout.offset * width };
    numpy.array.bind(py).call1((sizes, dtype, memory, offset, strides))
}

/// `Tensor.__array__`: with `copy=True` always a copy, with False never one, and else one where the dtype asks for it.
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
    exportable(tensor)?;
    // An address says nothing when it is done with: these bytes stay where they are as long as the storage lives.
    tensor.storage().expose().map_err(crate::errors::raise)?;
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    dict.set_item("typestr", typestr(tensor.dtype())?)?;
    dict.set_item("shape", PyTuple::new(py, &layout.sizes)?)?;
    dict.set_item("strides", PyTuple::new(py, layout.strides_in(width))?)?;
    dict.set_item("data", (crate::methods::address(tensor), tensor.storage().is_read_only()))?;
    Ok(dict.into_any())
}

fn typestr(dtype: DType) -> PyResult<String> {
    let kind = match dtype {
        DType::Bool => "|b",
        DType::U8 => "|u",
        DType::I8 => "|i",
        DType::BF16 => return Err(PyTypeError::new_err("Got unsupported ScalarType BFloat16")),
        _ if dtype.is_complex() => "<c",
        _ if dtype.is_floating() => "<f",
        _ if dtype.is_signed() => "<i",
        _ => "<u",
    };
    Ok(format!("{kind}{}", dtype.size()))
}
