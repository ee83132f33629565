//! Python's built-in protocols for tensors: `len`, `iter`, `in`, `bool`, `int`, `float`, `repr`, `memoryview`.

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use rushlight::{Device, Scalar, Tensor};
use rushlight_cuda::interruptible::wait_for_stream;
use rushlight_cuda::stream::Stream;
use rushlight_dispatch::{vmap, warn_once};

use crate::attach::{idle, look};
use crate::errors::{kind_of, raise};
use crate::overrides::{self, Public};
use crate::parse::{Call, Raw};
use crate::{buffer, convert, object, print};

/// The tensor of a slot's first argument.
///
/// # Safety
/// `raw` lives as long as the result is used.
unsafe fn own<'a>(raw: Raw) -> PyResult<&'a Tensor> {
    // SAFETY: CPython calls slots on living instances.
    unsafe { object::tensor_of(raw) }.ok_or_else(|| PyRuntimeError::new_err("the tensor is gone"))
}

fn item(tensor: &Tensor) -> PyResult<Scalar> {
    rushlight::item(tensor).map_err(raise)
}

fn length(tensor: &Tensor) -> PyResult<isize> {
    tensor.sizes().first().copied().ok_or_else(|| PyTypeError::new_err("len() of a 0-d tensor"))
}

/// Views along the first dimension.
fn iterate(py: Python<'_>, tensor: &Tensor) -> PyResult<Raw> {
    if tensor.rank() == 0 {
        return Err(PyTypeError::new_err("iteration over a 0-d tensor"));
    }
    let views = rushlight::view::split::UNBIND.call([tensor.into()]).map_err(raise)?.into_tensors();
    let tuple = convert::tuple(py, views)?;
    // SAFETY: a living tuple; the result is a new reference or null with an exception.
    let iterator = unsafe { ffi::PyObject_GetIter(tuple.as_ptr()) };
    if iterator.is_null() { Err(PyErr::fetch(py)) } else { Ok(iterator) }
}

fn truth(tensor: &Tensor) -> PyResult<bool> {
    match tensor.numel() {
        1 if tensor.is_batched() => Err(raise(vmap::control_flow_error())),
        1 => Ok(item(tensor)?.truth()),
        0 => Err(PyRuntimeError::new_err("Boolean value of Tensor with no values is ambiguous")),
        _ => Err(PyRuntimeError::new_err(
            "Boolean value of Tensor with more than one value is ambiguous\n  \
             `and`, `or` and `not` need one truth value: use x & y, x | y, ~x element by element, or x.any(), x.all().",
        )),
    }
}

/// The only element, for `int()`, `float()` and `complex()`.
pub fn python_number(tensor: &Tensor) -> PyResult<Scalar> {
    if tensor.numel() != 1 {
        return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
    }
    if tensor.requires_grad() && rushlight_autograd::modes::grad_enabled() {
        warn_once!(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\nConsider using tensor.detach() first.",
        )
        .map_err(raise)?;
    }
    item(tensor)
}

/// The result of `__torch_function__` for one of Python's protocols, if there is an override.
///
/// # Safety
/// `raw` is a living object.
unsafe fn answer<'py>(py: Python<'py>, name: &str, raw: Raw) -> PyResult<Option<Bound<'py, PyAny>>> {
    if !overrides::ever_overridden() {
        return Ok(None);
    }
    // SAFETY: guaranteed by the caller (see `# Safety`); the result is a new reference.
    unsafe {
        let answer = overrides::answer(&Public::Method(name), &Call::new(py, &[raw]))?;
        Ok(answer.map(|answer| Bound::from_owned_ptr(py, answer)))
    }
}

/// `len(tensor)`.
///
/// # Safety
/// `raw` is a living object.
unsafe fn measured(py: Python<'_>, raw: Raw) -> PyResult<isize> {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        match answer(py, "__len__", raw)? {
            Some(answer) => answer.extract(),
            None => length(own(raw)?),
        }
    }
}

/// The number that `int()` and so on return for a single element; `display_name` is the name of its C++ type.
///
/// # Safety
/// `raw` is a living object.
unsafe fn number(
    py: Python<'_>,
    name: &str,
    display_name: &str,
    raw: Raw,
    made: unsafe extern "C" fn(Raw) -> Raw,
) -> PyResult<Raw> {
    // SAFETY: the caller guarantees that `raw` is a living instance; the conversion gives a new reference or an
    // exception.
    unsafe {
        if let Some(answer) = answer(py, name, raw)? {
            return Ok(answer.into_ptr());
        }
        let number = match python_number(own(raw)?)? {
            // A complex number without an imaginary part is converted to a real one.
            Scalar::Complex(number) if number.im == 0.0 => Scalar::Float(number.re),
            Scalar::Complex(_) => {
                let message = format!("value cannot be converted to type {display_name} without overflow");
                return Err(PyRuntimeError::new_err(message));
            }
            number => number,
        };
        let number = convert::scalar_object(py, number)?;
        Ok(Bound::from_owned_ptr_or_err(py, made(number.as_ptr()))?.into_ptr())
    }
}

fn index(py: Python<'_>, tensor: &Tensor) -> PyResult<Raw> {
    let integral = tensor.dtype().is_integral() || tensor.dtype() == rushlight_core::DType::Bool;
    if !integral || tensor.numel() != 1 {
        return Err(PyTypeError::new_err("only integer tensors of a single element can be converted to an index"));
    }
    let number = match item(tensor)? {
        Scalar::Bool(flag) => Scalar::Int(i64::from(flag)),
        other => other,
    };
    Ok(convert::scalar_object(py, number)?.into_ptr())
}

/// The text of an instance; a subclass shows its own name. Raises what a CUDA device has failed with.
fn text(own: &Bound<'_, PyAny>) -> PyResult<String> {
    let tensor = object::tensor(own)?;
    if let Device::Cuda(index) = tensor.device()
        && tensor.numel() != 0
    {
        idle(own.py(), || wait_for_stream(Stream::current(index), look)).map_err(raise)?;
    }
    if own.get_type().as_type_ptr() == object::class() {
        return print::text("tensor", tensor).map_err(raise);
    }
    print::text(&own.get_type().name()?.to_string(), tensor).map_err(raise)
}

/// A slot's number and its C function.
macro_rules! slot {
    ($number:ident, $shell:ident, unsafe |$($argument:pat_param),*| $body:expr) => {
        slot!($number, $shell, |$($argument),*| {
            // SAFETY: CPython calls slots with the GIL, on living instances, with the arguments of the slot's type.
            unsafe { $body }
        })
    };
    ($number:ident, $shell:ident, $function:expr) => {{
        struct Def;
        impl shell::MethodDef<shell::$shell::Func> for Def {
            const METH: shell::$shell::Func = $function;
        }
        ffi::PyType_Slot { slot: ffi::$number, pfunc: shell::$shell::<Def> as *mut std::ffi::c_void }
    }};
}

/// The slots in the form of CPython's type constructor.
pub fn slots() -> Vec<ffi::PyType_Slot> {
    vec![
        slot!(Py_mp_length, lenfunc, unsafe |py, raw| measured(py, raw)),
        slot!(Py_sq_length, lenfunc, unsafe |py, raw| measured(py, raw)),
        slot!(Py_tp_iter, getiterfunc, unsafe |py, raw| {
            if overrides::ever_overridden()
                && let Some(views) = overrides::answer(&Public::Method("unbind"), &Call::new(py, &[raw]))?
            {
                return Ok(Bound::from_owned_ptr(py, views).try_iter()?.into_ptr());
            }
            iterate(py, own(raw)?)
        }),
        slot!(Py_nb_bool, inquiry, unsafe |py, raw| {
            match answer(py, "__bool__", raw)? {
                Some(answer) => match answer.cast::<PyBool>() {
                    Ok(answer) => Ok(i32::from(answer.is_true())),
                    Err(_) => {
                        let kind = kind_of(&answer);
                        Err(PyTypeError::new_err(format!("__bool__ should return bool, returned {kind}")))
                    }
                },
                None => truth(own(raw)?).map(i32::from),
            }
        }),
        slot!(Py_nb_int, unaryfunc, unsafe |py, raw| number(py, "__int__", "int64_t", raw, ffi::PyNumber_Long)),
        slot!(Py_nb_float, unaryfunc, unsafe |py, raw| number(py, "__float__", "double", raw, ffi::PyNumber_Float)),
        slot!(Py_nb_index, unaryfunc, unsafe |py, raw| {
            match answer(py, "__index__", raw)? {
                Some(answer) => Ok(answer.into_ptr()),
                None => index(py, own(raw)?),
            }
        }),
        slot!(Py_tp_repr, reprfunc, unsafe |py, raw| {
            if let Some(answer) = answer(py, "__repr__", raw)? {
                return Ok(answer.into_ptr());
            }
            let text = text(&Bound::from_borrowed_ptr(py, raw))?;
            Ok(text.into_pyobject(py)?.into_ptr())
        }),
        slot!(Py_bf_getbuffer, getbufferproc, unsafe |py, raw, view, flags| {
            if overrides::ever_overridden() && overrides::is_overridden(py, raw) {
                // NumPy tries `__array__` next, and so the override of the class.
                (*view).obj = std::ptr::null_mut();
                return Err(PyBufferError::new_err("the tensor's class overrides the buffer protocol"));
            }
            match buffer::export(&Bound::from_borrowed_ptr(py, raw), view, flags) {
                Ok(()) => Ok(0),
                Err(error) => {
                    (*view).obj = std::ptr::null_mut();
                    Err(error)
                }
            }
        }),
        slot!(Py_bf_releasebuffer, releasebufferproc, unsafe |_, _, view| {
            buffer::release(view);
            Ok(())
        }),
    ]
}
