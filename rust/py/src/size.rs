//! `torch.Size`: a tuple of sizes. The class is Python's; here its instances are made.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;

/// The class, and the constructor it has from `tuple`: calling the class itself costs twice as much.
struct Size {
    class: Py<PyAny>,
    construct: ffi::newfunc,
}

static SIZE: PyOnceLock<Size> = PyOnceLock::new();

#[cold]
fn find(py: Python<'_>) -> PyResult<Size> {
    let class = py.import("rushlight._size")?.getattr("Size")?;
    // SAFETY: every class has this slot, and it holds a constructor.
    let construct = unsafe {
        let slot = ffi::PyType_GetSlot(class.as_ptr().cast(), ffi::Py_tp_new);
        std::mem::transmute::<*mut std::ffi::c_void, ffi::newfunc>(slot)
    };
    Ok(Size { class: class.unbind(), construct })
}

/// Makes a `torch.Size`.
pub fn make<'py>(py: Python<'py>, sizes: &[isize]) -> PyResult<Bound<'py, PyAny>> {
    let size = SIZE.get_or_try_init(py, || find(py))?;
    let values = PyTuple::new(py, [PyTuple::new(py, sizes)?])?;
    // SAFETY: a class, its own constructor, and a tuple of arguments; the result is a new reference or an error.
    unsafe {
        let made = (size.construct)(size.class.as_ptr().cast(), values.as_ptr(), std::ptr::null_mut());
        Bound::from_owned_ptr_or_err(py, made)
    }
}
