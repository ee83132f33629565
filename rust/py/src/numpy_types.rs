//! NumPy's types and dtypes, and which objects are NumPy's. NumPy is not imported before it is used.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use rushlight::DType;

/// The parts of NumPy that are used, looked up once.
pub struct Numpy {
    pub array: Py<PyType>,
    pub scalar: Py<PyType>,
    /// NumPy's own objects for the dtypes that both have.
    pub dtypes: Vec<(Py<PyAny>, DType)>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

fn find(py: Python<'_>) -> PyResult<Numpy> {
    let module = py.import("numpy")?;
    let class = |name: &str| -> PyResult<Py<PyType>> { Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind()) };
    let shared = DType::ALL.into_iter().filter(|dtype| *dtype != DType::BF16 && !dtype.is_storage_only());
    let dtypes = shared.map(|dtype| Ok((module.getattr("dtype")?.call1((dtype.name(),))?.unbind(), dtype)));
    Ok(Numpy { array: class("ndarray")?, scalar: class("generic")?, dtypes: dtypes.collect::<PyResult<_>>()? })
}

pub fn numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    NUMPY.get_or_try_init(py, || find(py))?;
    NUMPY.get(py).ok_or_else(|| PyRuntimeError::new_err("NumPy is not available"))
}

/// NumPy, if the program has already imported it.
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

/// A NumPy object's dtype converted to ours, or torch's error.
pub fn dtype_of(array: &Bound<'_, PyAny>) -> PyResult<DType> {
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
