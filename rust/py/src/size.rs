//! `torch.Size`: a tuple of sizes. The class is defined in Python; its instances are made here.

use std::ffi::c_void;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

struct Class {
    object: Py<PyAny>,
    /// Whether a tuple has more than its items: since CPython 3.14 it stores its hash in a field that only tuple's own
    /// constructor initialises.
    has_hash: bool,
}

static CLASS: PyOnceLock<Class> = PyOnceLock::new();

#[cold]
fn find(py: Python<'_>) -> PyResult<Class> {
    let object = py.import("rushlight._size")?.getattr("Size")?.unbind();
    Ok(Class { object, has_hash: py.version_info() >= (3, 14) })
}

/// Makes a `torch.Size`; calling the class would cost several times as much.
pub fn make<'py>(py: Python<'py>, sizes: &[isize]) -> PyResult<Bound<'py, PyAny>> {
    let class = CLASS.get_or_try_init(py, || find(py))?;
    if class.has_hash { constructed(py, class, sizes) } else { filled(py, class, sizes) }
}

/// Made by tuple's own constructor.
fn constructed<'py>(py: Python<'py>, class: &Class, sizes: &[isize]) -> PyResult<Bound<'py, PyAny>> {
    let arguments = PyTuple::new(py, [PyTuple::new(py, sizes)?])?;
    // SAFETY: tuple's constructor gets a class that derives from it and a tuple of one iterable.
    unsafe {
        let new = ffi::PyType_GetSlot(&raw mut ffi::PyTuple_Type, ffi::Py_tp_new);
        let new = std::mem::transmute::<*mut c_void, ffi::newfunc>(new);
        Bound::from_owned_ptr_or_err(py, new(class.object.as_ptr().cast(), arguments.as_ptr(), std::ptr::null_mut()))
    }
}

/// Allocated and filled like a tuple.
fn filled<'py>(py: Python<'py>, class: &Class, sizes: &[isize]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the class derives from `tuple` and adds no fields, so an instance with room for the sizes may be filled;
    // each slot takes ownership of a new reference.
    unsafe {
        let size = ffi::PyType_GenericAlloc(class.object.as_ptr().cast(), sizes.len() as ffi::Py_ssize_t);
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
