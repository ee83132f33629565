//! Converts the engine's error to the Python exception of torch's class, with all its lines.

use std::ffi::CStr;
use std::sync::Arc;

use pyo3::exceptions::{
    PyAssertionError, PyIndexError, PyMemoryError, PyModuleNotFoundError, PyNotImplementedError, PyOverflowError,
    PyRuntimeError, PyTypeError, PyValueError,
};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use rushlight_core::{Class, Error};

use crate::hash_order::in_hash_order;

static LINALG: PyOnceLock<Py<PyType>> = PyOnceLock::new();
const LINALG_DOC: &CStr = c"A factorisation or a solution that does not exist: of a singular matrix, of one with NaN.

>>> try:
...     torch.linalg.inv(torch.zeros(2, 2))
... except torch.linalg.LinAlgError:
...     print('singular')
singular
";

pub fn raise(mut error: Error) -> PyErr {
    if let Some(foreign) = error.take_foreign() {
        return match foreign.downcast_ref::<PyErr>() {
            Some(exception) => Python::attach(|py| exception.clone_ref(py)),
            None => PyRuntimeError::new_err("an exception was lost on its way through the engine"),
        };
    }
    let message = if error.shows_shapes() { with_names(error.to_string()) } else { error.to_string() };
    match error.class() {
        Class::Runtime | Class::Unreachable => PyRuntimeError::new_err(message),
        Class::Index => PyIndexError::new_err(message),
        Class::Type => PyTypeError::new_err(message),
        Class::Value => PyValueError::new_err(message),
        Class::NotImplemented => PyNotImplementedError::new_err(message),
        Class::Memory => PyMemoryError::new_err(message),
        Class::Overflow => PyOverflowError::new_err(message),
        Class::Accelerator => Python::attach(|py| of_module(py, "rushlight._errors", "AcceleratorError", message)),
        Class::DeviceMemory => Python::attach(|py| of_module(py, "rushlight._errors", "OutOfMemoryError", message)),
        Class::DistBackend => {
            Python::attach(|py| of_module(py, "rushlight.distributed._host_group", "DistBackendError", message))
        }
        Class::Assertion => PyAssertionError::new_err(message),
        Class::ModuleNotFound => PyModuleNotFoundError::new_err(message),
        Class::LinAlg => Python::attach(|py| match linalg_error(py) {
            Ok(class) => PyErr::from_type(class.clone(), message),
            Err(error) => error,
        }),
    }
}

/// The message with the operands' names, as far as the line of the call has them.
fn with_names(message: String) -> String {
    Python::attach(|py| {
        let names = py.import("rushlight._error_names").and_then(|module| module.getattr("with_names"));
        names.and_then(|names| names.call1((&message,))?.extract()).unwrap_or(message)
    })
}

/// An exception of a module, which is loaded when the first one is raised.
fn of_module(py: Python<'_>, module: &str, name: &str, message: String) -> PyErr {
    let class = py.import(module).and_then(|module| module.getattr(name));
    match class.and_then(|class| class.call1((message,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// `torch.linalg.LinAlgError`, a RuntimeError.
pub fn linalg_error(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    let class = LINALG.get_or_try_init(py, || {
        PyErr::new_type(
            py,
            c"rushlight._C._LinAlgError",
            Some(LINALG_DOC),
            Some(&py.get_type::<PyRuntimeError>()),
            None,
        )
    })?;
    Ok(class.bind(py))
}

/// Wraps a Python exception to pass it through the engine.
pub fn carry(exception: PyErr) -> Error {
    Error::foreign(Arc::new(exception))
}

/// The name of an object's type in torch's messages: `numpy.ndarray`, but a class written in Python without its module.
pub fn kind_of(object: &Bound<'_, PyAny>) -> String {
    let class = object.get_type();
    // SAFETY: a living type.
    let python = unsafe { ffi::PyType_GetFlags(class.as_type_ptr()) } & ffi::Py_TPFLAGS_HEAPTYPE != 0;
    let name = if python { class.name() } else { class.fully_qualified_name() };
    let name = name.map_or_else(|_| "object".into(), |name| name.to_string());
    match name.as_str() {
        "dtype" | "device" | "layout" | "memory_format" | "Size" => format!("torch.{name}"),
        "Generator" => format!("torch._C.{name}"),
        _ => name,
    }
}

/// torch's sentence about arguments that fit no overload; the overloads follow.
pub fn invalid_combination(
    name: &str,
    positional: impl Iterator<Item = String>,
    named: impl Iterator<Item = String>,
) -> String {
    let got = listed(positional, named);
    format!("{name}() received an invalid combination of arguments - got ({got}), but expected one of:")
}

/// The kinds of arguments as torch lists them, with a comma at the end of keywords alone.
pub fn listed(positional: impl Iterator<Item = String>, named: impl Iterator<Item = String>) -> String {
    let positional: Vec<String> = positional.collect();
    let named = in_hash_order(named.collect());
    let end = if positional.is_empty() && !named.is_empty() { ", " } else { "" };
    [positional, named].concat().join(", ") + end
}
