//! Attributes that Python reads from a tensor: shape, dtype, gradient and so on.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::{IntoPyObjectExt, ffi, prelude::*};
use rushlight::view::{complex, transpose};
use rushlight::{Device, Tensor};
use rushlight_dispatch::{interpreter, op};

use crate::dtype::{PyDType, device_object, dtype_object, dtype_of, layout_object};
use crate::errors::{kind_of, raise};
use crate::object;
use crate::overrides::{self, Public};
use crate::parse::Call;

type Read = for<'py> fn(Python<'py>, &Tensor) -> PyResult<Bound<'py, PyAny>>;
type Write = fn(&Bound<'_, PyAny>, &Tensor) -> PyResult<()>;

/// An attribute: its name, its documentation, its getter, and its setter if it has one.
struct Attribute {
    name: &'static CStr,
    doc: &'static CStr,
    read: Read,
    write: Option<Write>,
}

const fn attribute(name: &'static CStr, doc: &'static CStr, read: Read) -> Attribute {
    Attribute { name, doc, read, write: None }
}

impl Attribute {
    fn display_name(&self) -> &'static str {
        self.name.to_str().unwrap_or_default()
    }

    const fn writable(self, write: Write) -> Attribute {
        Attribute { write: Some(write), ..self }
    }
}

fn give<'py>(py: Python<'py>, value: impl IntoPyObjectExt<'py>) -> PyResult<Bound<'py, PyAny>> {
    value.into_bound_py_any(py)
}

/// The tensor that an operator returns.
fn made(py: Python<'_>, tensor: rushlight::Result<Tensor>) -> PyResult<Bound<'_, PyAny>> {
    object::wrap_bound(py, tensor.map_err(raise)?)
}

fn optional(py: Python<'_>, tensor: Option<Tensor>) -> PyResult<Bound<'_, PyAny>> {
    tensor.map_or_else(|| Ok(py.None().into_bound(py)), |tensor| object::wrap_bound(py, tensor))
}

static ATTRIBUTES: &[Attribute] = &[
    attribute(c"dtype", c"The type of the elements.", |py, t| Ok(dtype_of(py, t)?.into_bound(py).into_any())),
    attribute(c"device", c"Where the elements are.", |py, t| device_object(py, t.device())),
    attribute(c"layout", c"How the elements are stored.", |py, t| give(py, layout_object(py, t.python_layout())?)),
    attribute(c"shape", c"The sizes of the dimensions.", |py, t| crate::size::make(py, t.sizes())),
    attribute(c"ndim", c"The number of dimensions.", |py, t| give(py, t.rank())),
    attribute(c"itemsize", c"The bytes of one element.", |py, t| give(py, t.dtype().size())),
    attribute(c"nbytes", c"The bytes of all elements.", |py, t| {
        if t.parts().is_some() {
            return Err(PyRuntimeError::new_err(
                "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by element_size()",
            ));
        }
        give(py, t.numel() * t.dtype().size())
    }),
    attribute(c"is_cpu", c"Whether the elements are in host memory.", |py, t| give(py, t.device() == Device::Cpu)),
    attribute(c"is_cuda", c"Whether the elements are on a CUDA device.", |py, t| {
        give(py, matches!(t.device(), Device::Cuda(_)))
    }),
    attribute(c"is_meta", c"Whether the tensor has sizes only, and no elements.", |py, t| {
        give(py, t.device() == Device::Meta)
    }),
    attribute(
        c"is_sparse",
        c"Whether the layout is torch.sparse_coo: the indices and values of some elements.",
        |py, t| give(py, t.parts().is_some()),
    ),
    attribute(c"is_sparse_csr", c"Whether the layout is torch.sparse_csr.", |py, t| {
        give(py, t.python_layout() == "sparse_csr")
    }),
    attribute(c"is_quantized", c"Whether the elements are stored as integers with a scale.", |py, t| {
        give(py, t.is_quantized())
    }),
    attribute(c"is_nested", c"Whether it is a nested tensor (`torch.nested`).", |py, _| give(py, false)),
    attribute(c"is_mkldnn", c"Always false.", |py, _| give(py, false)),
    attribute(c"is_mps", c"Always false.", |py, _| give(py, false)),
    attribute(c"is_xpu", c"Always false.", |py, _| give(py, false)),
    attribute(c"T", c"The tensor with its dimensions reversed.", |py, t| made(py, transpose::reversed(t))),
    attribute(c"mT", c"The tensor with its last two dimensions exchanged.", |py, t| {
        made(py, transpose::matrix_transposed(t, "tensor.mT"))
    }),
    attribute(c"H", c"The matrix transposed and conjugated.", |py, t| made(py, transpose::hermitian(t))),
    attribute(c"mH", c"The matrices transposed and conjugated.", |py, t| made(py, op!(transpose::ADJOINT, t))),
    attribute(c"real", c"The real parts, as a view.", |py, t| made(py, op!(complex::REAL, t)))
        .writable(|value, t| assign(&op!(complex::REAL, t).map_err(raise)?, value)),
    attribute(c"imag", c"The imaginary parts, as a view.", |py, t| made(py, op!(complex::IMAG, t)))
        .writable(|value, t| assign(&op!(complex::IMAG, t).map_err(raise)?, value)),
    attribute(c"data", c"The same elements without history; autograd does not track their changes.", |py, t| {
        object::wrap_bound(py, t.data())
    })
    .writable(|value, t| {
        let other = assigned(value, "Variable data has to be a tensor, but got")?;
        if t.requires_grad() && !other.dtype().is_differentiable() {
            return Err(PyRuntimeError::new_err(
                "data set to a tensor that requires gradients must be floating point or complex dtype",
            ));
        }
        t.check_data(other).map_err(raise)?;
        interpreter::replace_meta(t, other.meta().clone());
        Ok(())
    }),
    attribute(c"grad", c"The gradient that backward() accumulated, or None.", read_grad).writable(|value, t| {
        let grad = if value.is_none() {
            None
        } else {
            Some(assigned(value, "assigned grad expected to be a Tensor or None but got grad of type")?.clone())
        };
        t.set_grad(grad).map_err(raise)
    }),
    attribute(c"grad_dtype", c"The dtype of a leaf's gradient, or None for any.", |py, t| {
        match t.grad_dtype().map_err(raise)? {
            Some(dtype) => Ok(dtype_object(py, dtype)?.into_bound(py).into_any()),
            None => Ok(py.None().into_bound(py)),
        }
    })
    .writable(|value, t| {
        let dtype = match value.cast::<PyDType>() {
            Ok(dtype) if !dtype.get().quantized => Some(dtype.get().dtype),
            _ if value.is_none() => None,
            _ => {
                return Err(PyRuntimeError::new_err(format!(
                    "grad_dtype must be a torch.dtype or None, but got {}",
                    kind_of(value)
                )));
            }
        };
        t.set_grad_dtype(dtype).map_err(raise)
    }),
    attribute(c"_grad", c"The gradient that backward() accumulated, or None.", |py, t| optional(py, t.grad())),
    attribute(c"grad_fn", c"The node that made this tensor, or None.", |py, t| match t.grad_fn().map_err(raise)? {
        Some(node) => crate::autograd::node_object(py, node),
        None => Ok(py.None().into_bound(py)),
    }),
    attribute(c"requires_grad", c"Whether gradients are computed for this tensor.", |py, t| {
        give(py, t.requires_grad())
    })
    .writable(|value, t| {
        let wanted = value.extract().map_err(|_| PyRuntimeError::new_err("requires_grad must be a bool"))?;
        // Unlike `requires_grad_`, which accepts the value that already holds.
        if wanted && !t.is_leaf() {
            return Err(PyRuntimeError::new_err("you can only change requires_grad flags of leaf variables."));
        }
        if wanted && !t.dtype().is_differentiable() {
            return Err(PyRuntimeError::new_err(
                "only Tensors of floating point and complex dtype can require gradients",
            ));
        }
        t.set_requires_grad(wanted).map_err(raise)
    }),
    attribute(c"is_leaf", c"Whether no recorded operator made this tensor.", |py, t| give(py, t.is_leaf())),
    attribute(c"retains_grad", c"Whether backward() keeps this tensor's gradient.", |py, t| give(py, t.retains_grad())),
    attribute(c"output_nr", c"The index of this tensor among its node's results.", |py, t| {
        give(py, t.output_nr().map_err(raise)?)
    }),
    attribute(c"_version", c"How often the elements were changed in place.", |py, t| {
        give(py, t.version().map_err(raise)?)
    }),
    attribute(c"_base", c"The tensor of which this one is a view, or None.", |py, t| optional(py, t.base().cloned())),
    attribute(
        c"_backward_hooks",
        c"The hooks on this tensor's gradient, by number, or None.",
        crate::autograd::hooks_of,
    )
    .writable(crate::autograd::set_hooks),
    attribute(c"__array_interface__", c"The elements' address and layout, for NumPy.", crate::numpy::interface),
];

/// The tensor that is assigned to an attribute; the error for other objects begins with `sentence`.
fn assigned<'a>(value: &'a Bound<'_, PyAny>, sentence: &str) -> PyResult<&'a Tensor> {
    match object::tensor(value) {
        Ok(tensor) => Ok(tensor),
        Err(_) => Err(PyTypeError::new_err(format!("{sentence} {}", kind_of(value)))),
    }
}

/// The gradient. Reading that of a non-leaf without `retain_grad` gives torch's warning.
fn read_grad<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let grad = tensor.grad();
    if grad.is_none() && !tensor.is_leaf() && !tensor.retains_grad() {
        interpreter::warn("The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information.").map_err(raise)?;
    }
    optional(py, grad)
}

/// Overwrites a tensor with another tensor or a number.
fn assign(target: &Tensor, value: &Bound<'_, PyAny>) -> PyResult<()> {
    if object::is_tensor(value) {
        return rushlight::convert::copy::copy_(target, object::tensor(value)?).map_err(raise);
    }
    rushlight::convert::copy::copy_(target, &crate::sequences::read(value, Some(target.dtype()))?).map_err(raise)
}

extern "C" fn read(own: *mut ffi::PyObject, closure: *mut c_void) -> *mut ffi::PyObject {
    guarded(std::ptr::null_mut(), |py| {
        if overrides::ever_overridden() {
            // SAFETY: as below.
            unsafe {
                let public = Public::Attribute((*closure.cast::<Attribute>()).display_name(), "__get__");
                if let Some(answer) = overrides::answer(&public, &Call::new(py, &[own]))? {
                    return Ok(answer);
                }
            }
        }
        // SAFETY: CPython calls this on an instance, with the attribute that `getset` stored there.
        let (tensor, attribute) = unsafe { (tensor_or_error(own)?, &*closure.cast::<Attribute>()) };
        (attribute.read)(py, tensor).map(Bound::into_ptr)
    })
}

extern "C" fn write(own: *mut ffi::PyObject, value: *mut ffi::PyObject, closure: *mut c_void) -> std::ffi::c_int {
    guarded(-1, |py| {
        if overrides::ever_overridden() && !value.is_null() {
            // SAFETY: as below.
            unsafe {
                let public = Public::Attribute((*closure.cast::<Attribute>()).display_name(), "__set__");
                if let Some(answer) = overrides::answer(&public, &Call::new(py, &[own, value]))? {
                    ffi::Py_DecRef(answer);
                    return Ok(0);
                }
            }
        }
        if value.is_null() {
            // SAFETY: as in `read`.
            let attribute = unsafe { &*closure.cast::<Attribute>() };
            if attribute.name == c"data" {
                return Err(PyRuntimeError::new_err("Deleting tensor data is not allowed. Delete tensor instead!"));
            }
            if attribute.name == c"_backward_hooks" {
                return Err(PyRuntimeError::new_err("Deletion of _backwards_hooks not allowed!"));
            }
            if matches!(attribute.name.to_bytes(), b"real" | b"imag") {
                return Err(PyRuntimeError::new_err(format!(
                    "cannot delete the attribute '{}'",
                    attribute.display_name()
                )));
            }
        }
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

/// # Safety
/// `own` lives as long as the result is used.
unsafe fn tensor_or_error<'a>(own: *mut ffi::PyObject) -> PyResult<&'a Tensor> {
    // SAFETY: the caller guarantees that the object is alive.
    unsafe { object::tensor_of(own) }.ok_or_else(|| PyRuntimeError::new_err("the tensor is gone"))
}

/// Runs a body called by CPython: an error or a panic becomes a Python exception.
fn guarded<T>(failed: T, body: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
    // SAFETY: only CPython calls these functions, with the GIL.
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

/// The attributes in the form of CPython's type constructor; leaked, because the class is never freed.
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
    list.push(ffi::PyGetSetDef {
        name: c"__dict__".as_ptr(),
        get: Some(ffi::PyObject_GenericGetDict),
        set: Some(ffi::PyObject_GenericSetDict),
        doc: c"Attributes that programs have set on the tensor.".as_ptr(),
        closure: std::ptr::null_mut(),
    });
    // SAFETY: the end of the list is a zeroed entry.
    list.push(unsafe { std::mem::zeroed() });
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}
