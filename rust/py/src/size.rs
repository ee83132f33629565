//! `torch.Size`: a tuple of sizes. The class is Python's; here its instances are made.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

#[cold]
fn find(py: Python<'_>) -> PyResult<Py<PyAny>> {
    py.import("rushlight._size")?.getattr("Size").map(Bound::unbind)
}

/// Makes a `torch.Size`: the memory of one, filled as a tuple is, since calling the class costs several times as much.
pub fn make<'py>(py: Python<'py>, sizes: &[isize]) -> PyResult<Bound<'py, PyAny>> {
    let class = CLASS.get_or_try_init(py, || find(py))?;
    // SAFETY: the class derives from `tuple` and adds no fields, so an instance with room for the sizes is one that is
    // to be filled; each place takes over a new reference.
    unsafe {
        let size = ffi::PyType_GenericAlloc(class.as_ptr().cast(), sizes.len() as ffi::Py_ssize_t);
        let size = Bound::from_owned_ptr_or_err(py, size)?;
        for (place, &length) in sizes.iter().enumerate() {
            let length = ffi::PyLong_FromSsize_t(length);
            if length.is_null() || ffi::PyTuple_SetItem(size.as_ptr(), place as ffi::Py_ssize_t, length) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(size)
    }
}
