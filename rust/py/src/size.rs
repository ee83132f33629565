//! `torch.Size`: a tuple of sizes. The class is Python's; here its instances are made.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Makes a `torch.Size`.
pub fn make(py: Python<'_>, sizes: &[isize]) -> PyResult<*mut ffi::PyObject> {
    let class = CLASS.get_or_try_init(py, || py.import("rushlight._size")?.getattr("Size").map(Bound::unbind))?;
    let plain = PyTuple::new(py, sizes)?;
    Ok(class.bind(py).call1((plain,))?.into_ptr())
}
