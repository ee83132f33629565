//! Functions of `torch` that are no operators: tensors from Python's data, and the process's settings.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use rushlight::{DType, Device, Tensor};
use rushlight_core::dtype as settings;

use crate::dtype::{PyDType, dtype_object, extract_device, extract_dtype};
use crate::errors::raise;
use crate::{nested, numpy, object};

/// A `dtype=` argument.
fn wanted_dtype(name: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    let Some(object) = object.filter(|object| !object.is_none()) else { return Ok(None) };
    extract_dtype(object).map(Some).ok_or_else(|| {
        let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        PyTypeError::new_err(format!("{name}(): argument 'dtype' must be torch.dtype, not {kind}"))
    })
}

fn wanted_device(name: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Device>> {
    let Some(object) = object.filter(|object| !object.is_none()) else { return Ok(None) };
    extract_device(object)?.map(Some).ok_or_else(|| {
        let kind = object.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        PyTypeError::new_err(format!("{name}(): argument 'device' must be torch.device, not {kind}"))
    })
}

/// The tensor where and as it is wanted; itself where nothing changes.
pub fn placed(tensor: Tensor, dtype: Option<DType>, device: Option<Device>) -> PyResult<Tensor> {
    let tensor = match dtype {
        Some(dtype) => rushlight::convert::to_dtype(&tensor, dtype).map_err(raise)?,
        None => tensor,
    };
    match device {
        Some(device) if device != tensor.device() => rushlight::convert::to_device(&tensor, device).map_err(raise),
        _ => Ok(tensor),
    }
}

/// A new tensor of Python numbers, nested sequences of them, arrays or tensors; it never shares memory.
///
/// >>> torch.tensor([[1., 2.], [3., 4.]])
/// tensor([[1., 2.],
///         [3., 4.]])
#[pyfunction]
#[pyo3(signature = (data, *, dtype=None, device=None, requires_grad=false, pin_memory=false))]
fn tensor<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    requires_grad: bool,
    pin_memory: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = pin_memory;
    let (dtype, device) = (wanted_dtype("tensor", dtype)?, wanted_device("tensor", device)?);
    let made = if object::is_tensor(data.as_ptr()) {
        crate::autograd::warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
        )
        .map_err(raise)?;
        copied(&object::tensor(data)?.detach(), dtype)?
    } else if numpy::is_array(data)? {
        copied(&numpy::import(data)?, dtype)?
    } else {
        nested::read(data, dtype)?
    };
    finished(py, placed(made, None, device)?, requires_grad)
}

/// A copy in a dtype.
fn copied(tensor: &Tensor, dtype: Option<DType>) -> PyResult<Tensor> {
    match dtype {
        Some(dtype) if dtype != tensor.dtype() => rushlight::convert::to_dtype(tensor, dtype),
        _ => rushlight::copy::clone(tensor),
    }
    .map_err(raise)
}

fn finished(py: Python<'_>, tensor: Tensor, requires_grad: bool) -> PyResult<Bound<'_, PyAny>> {
    if requires_grad {
        tensor.set_requires_grad(true).map_err(raise)?;
    }
    object::wrap_bound(py, tensor)
}

/// The data as a tensor, without a copy where dtype and device allow it.
#[pyfunction]
#[pyo3(signature = (data, dtype=None, device=None))]
fn as_tensor<'py>(
    py: Python<'py>,
    data: &Bound<'py, PyAny>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, device) = (wanted_dtype("as_tensor", dtype)?, wanted_device("as_tensor", device)?);
    let made = if object::is_tensor(data.as_ptr()) {
        object::tensor(data)?.clone()
    } else if numpy::is_array(data)? {
        numpy::import(data)?
    } else {
        nested::read(data, dtype)?
    };
    object::wrap_bound(py, placed(made, dtype, device)?)
}

/// A NumPy array as a tensor over the same memory.
#[pyfunction]
fn from_numpy<'py>(py: Python<'py>, ndarray: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !numpy::is_array(ndarray)? {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", ndarray.get_type().name()?)));
    }
    object::wrap_bound(py, numpy::import(ndarray)?)
}

#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyDType>> {
    dtype_object(py, settings::default_dtype())
}

#[pyfunction]
fn set_default_dtype(d: &Bound<'_, PyAny>) -> PyResult<()> {
    let dtype = d.cast::<PyDType>().map_err(|_| PyTypeError::new_err("invalid dtype object"))?;
    settings::set_default_dtype(dtype.get().0).map_err(raise)
}

/// The number of threads that one operator may use.
#[pyfunction]
fn get_num_threads() -> usize {
    rushlight_par::num_threads()
}

#[pyfunction]
fn set_num_threads(count: i64) -> PyResult<()> {
    match usize::try_from(count) {
        Ok(count) if count > 0 => {
            rushlight_par::set_num_threads(count);
            Ok(())
        }
        _ => Err(PyRuntimeError::new_err("set_num_threads expects a positive integer")),
    }
}

/// Whether an object is a tensor.
#[pyfunction]
fn is_tensor(obj: &Bound<'_, PyAny>) -> bool {
    object::is_tensor(obj.as_ptr())
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(tensor, module)?)?;
    module.add_function(wrap_pyfunction!(as_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(from_numpy, module)?)?;
    module.add_function(wrap_pyfunction!(get_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(set_default_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(get_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_num_threads, module)?)?;
    module.add_function(wrap_pyfunction!(is_tensor, module)?)?;
    module.add_function(wrap_pyfunction!(crate::print::_set_print_options, module)?)
}
