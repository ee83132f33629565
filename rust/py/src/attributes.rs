//! What Python reads from a tensor without a call: shape, dtype, gradient and the like.

use std::ffi::{CStr, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use rushlight::Tensor;

use crate::dtype::{PyDevice, dtype_object};
use crate::errors::raise;
use crate::object;

type Read = fn(Python<'_>, &Tensor) -> PyResult<*mut ffi::PyObject>;
type Write = fn(&Bound<'_, PyAny>, &Tensor) -> PyResult<()>;

/// An attribute: its name, its documentation, how it is read, and how it is written if it is.
struct Attribute {
    name: &'static CStr,
    doc: &'static CStr,
    read: Read,
    write: Option<Write>,
}

fn object<'py>(value: impl IntoPyObjectExt<'py>, py: Python<'py>) -> PyResult<*mut ffi::PyObject> {
    Ok(value.into_py_any(py)?.into_ptr())
}

use pyo3::IntoPyObjectExt;

static ATTRIBUTES: &[Attribute] = &[
    Attribute {
        name: c"grad_fn",
        doc: c"The node that made this tensor, or None.",
        read: |py, t| match t.grad_fn().map_err(raise)? {
            Some(node) => Ok(crate::autograd::node_object(py, node)?.into_ptr()),
            None => Ok(py.None().into_ptr()),
        },
        write: None,
    },
    Attribute {
        name: c"__array_interface__",
        doc: c"The elements' place in memory, for NumPy.",
        read: |py, t| Ok(crate::numpy::interface(py, t)?.into_ptr()),
        write: None,
    },
    Attribute {
        name: c"dtype",
        doc: c"The type of the elements.",
        read: |py, t| Ok(dtype_object(py, t.dtype())?.into_ptr()),
        write: None,
    },
    Attribute {
        name: c"device",
        doc: c"Where the elements are.",
        read: |py, t| object(PyDevice::from(t.device()), py),
        write: None,
    },
    Attribute {
        name: c"shape",
        doc: c"The sizes of the dimensions.",
        read: |py, t| Ok(crate::size::make(py, t.sizes())?.into_ptr()),
        write: None,
    },
    Attribute { name: c"ndim", doc: c"The number of dimensions.", read: |py, t| object(t.rank(), py), write: None },
    Attribute {
        name: c"is_leaf",
        doc: c"Whether no recorded operator made this tensor.",
        read: |py, t| object(t.is_leaf(), py),
        write: None,
    },
    Attribute {
        name: c"requires_grad",
        doc: c"Whether gradients are computed for this tensor.",
        read: |py, t| object(t.requires_grad(), py),
        write: Some(|value, t| t.set_requires_grad(value.extract()?).map_err(raise)),
    },
    Attribute {
        name: c"retains_grad",
        doc: c"Whether backward() keeps the gradient of this tensor, which is no leaf.",
        read: |py, t| object(t.retains_grad(), py),
        write: None,
    },
    Attribute {
        name: c"output_nr",
        doc: c"Which result of its node this tensor is.",
        read: |py, t| object(t.output_nr().map_err(raise)?, py),
        write: None,
    },
    Attribute {
        name: c"data",
        doc: c"The same elements without history, whose changes in place nobody counts.",
        read: |py, t| object::wrap(py, t.data()),
        write: Some(|value, t| crate::body::set_data(t, object::tensor(value)?)),
    },
    Attribute {
        name: c"_version",
        doc: c"How often the elements were changed in place.",
        read: |py, t| object(t.version().map_err(raise)?, py),
        write: None,
    },
    Attribute {
        name: c"_base",
        doc: c"The tensor that this one is a view of, or None.",
        read: |py, t| match t.base() {
            Some(base) => object::wrap(py, base.clone()),
            None => Ok(py.None().into_ptr()),
        },
        write: None,
    },
    Attribute {
        name: c"grad",
        doc: c"The gradient that backward() collected, or None.",
        read: |py, t| match t.grad() {
            Some(grad) => object::wrap(py, grad),
            None => Ok(py.None().into_ptr()),
        },
        write: Some(|value, t| {
            let grad = if value.is_none() { None } else { Some(object::tensor(value)?.clone()) };
            t.set_grad(grad).map_err(raise)
        }),
    },
];

extern "C" fn read(own: *mut ffi::PyObject, closure: *mut c_void) -> *mut ffi::PyObject {
    guarded(std::ptr::null_mut(), |py| {
        // SAFETY: CPython calls this on an instance, with the attribute that `getset` put there.
        let (tensor, attribute) = unsafe { (tensor_or_error(own)?, &*closure.cast::<Attribute>()) };
        (attribute.read)(py, tensor)
    })
}

extern "C" fn write(own: *mut ffi::PyObject, value: *mut ffi::PyObject, closure: *mut c_void) -> std::ffi::c_int {
    guarded(-1, |py| {
        // SAFETY: as in `read`; a null value means deletion.
        let (tensor, attribute, value) = unsafe {
            let value = if value.is_null() { py.None().into_bound(py) } else { Bound::from_borrowed_ptr(py, value) };
            (tensor_or_error(own)?, &*closure.cast::<Attribute>(), value)
        };
        match attribute.write {
            Some(write) => write(&value, tensor).map(|()| 0),
            None => Err(pyo3::exceptions::PyAttributeError::new_err(format!(
                "attribute '{}' of 'torch._C.TensorBase' objects is not writable",
                attribute.name.to_string_lossy()
            ))),
        }
    })
}

unsafe fn tensor_or_error<'a>(own: *mut ffi::PyObject) -> PyResult<&'a Tensor> {
    // SAFETY: by the caller's word the object is alive.
    unsafe { object::tensor_of(own) }.ok_or_else(|| pyo3::exceptions::PyRuntimeError::new_err("the tensor is gone"))
}

/// Runs a body at the border: an error or a panic becomes a Python exception.
fn guarded<T>(failed: T, body: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    // SAFETY: only CPython calls these functions, attached.
    let py = unsafe { Python::assume_attached() };
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(py))) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            error.restore(py);
            failed
        }
        Err(panic) => {
            pyo3::panic::PanicException::new_err(format!("{panic:?}")).restore(py);
            failed
        }
    }
}

/// The attributes as CPython's type constructor wants them; leaked, as the class lives for ever.
pub fn getset() -> *mut ffi::PyGetSetDef {
    let mut list: Vec<ffi::PyGetSetDef> = ATTRIBUTES
        .iter()
        .map(|attribute| ffi::PyGetSetDef {
            name: attribute.name.as_ptr(),
            get: Some(read),
            set: Some(write),
            doc: attribute.doc.as_ptr(),
            closure: std::ptr::from_ref(attribute).cast_mut().cast(),
        })
        .collect();
    // A class made by hand has no `__dict__` by itself.
    list.push(ffi::PyGetSetDef {
        name: c"__dict__".as_ptr(),
        get: Some(ffi::PyObject_GenericGetDict),
        set: Some(ffi::PyObject_GenericSetDict),
        doc: std::ptr::null(),
        closure: std::ptr::null_mut(),
    });
    // SAFETY: the end of the list is a zeroed entry.
    list.push(unsafe { std::mem::zeroed() });
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}
