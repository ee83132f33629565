//! From Python objects to the engine's values and back.

use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};
use rushlight::{Scalar, Tensor};
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::signature::{Kind, Returns};
use rushlight_dispatch::value::{Floats, Ints, Output, Value};

use crate::dtype::{
    PyLayout, PyMemoryFormat, dtype_object, extract_device, extract_dtype, extract_quantized, to_quantized,
};
use crate::generator::PyGenerator;
use crate::object;
use crate::scalars::{collect, index, int, ints, number};

fn optional_tensor(object: &Bound<'_, PyAny>) -> PyResult<Option<Option<Tensor>>> {
    if object.is_none() {
        return Ok(Some(None));
    }
    Ok(object::as_tensor(object.as_borrowed()).map(|tensor| Some(tensor.clone())))
}

/// Reads an argument as a parameter of `kind`; `None` if it does not fit.
pub fn value<'a>(object: Borrowed<'a, '_, PyAny>, kind: Kind, optional: bool) -> PyResult<Option<Value<'a>>> {
    if let (Kind::Tensor | Kind::Operand | Kind::TensorOrFloat, Some(tensor)) = (kind, object::as_tensor(object)) {
        return Ok(Some(Value::Tensor(tensor)));
    }
    let object = &*object;
    if object.is_none() && (optional || kind != Kind::Truth) {
        return Ok(optional.then_some(Value::None));
    }
    Ok(match kind {
        Kind::Tensor => None,
        Kind::Operand => number(object)?.map(Value::Scalar),
        Kind::Scalar => scalar(object)?.map(Value::Scalar),
        Kind::Int => int(object)?.map(Value::Int),
        // Also an int of any number of bits.
        Kind::Float | Kind::TensorOrFloat if object.is_instance_of::<PyInt>() => Some(Value::Float(object.extract()?)),
        Kind::Float | Kind::TensorOrFloat => match scalar(object)? {
            Some(Scalar::Complex(_)) if object::as_tensor(object.as_borrowed()).is_none() => None,
            Some(Scalar::Complex(number)) if number.im != 0.0 => {
                return Err(PyRuntimeError::new_err("value cannot be converted to type double without overflow"));
            }
            number => number.map(|number| Value::Float(number.f64())),
        },
        Kind::Bool => {
            if object.is_instance_of::<PyBool>() {
                Some(Value::Bool(object.extract()?))
            } else {
                None
            }
        }
        Kind::Truth => Some(Value::Bool(object.is_truthy()?)),
        Kind::Ints => ints(object)?.map(Value::Ints),
        Kind::IntOrInts => {
            // Here torch also takes a bool tensor for a number.
            let single = if object.is_instance_of::<PyBool>() { None } else { index(object)? };
            match single {
                Some(single) => Some(Value::Ints(Ints::from_slice(&[single]))),
                None => ints(object)?.map(Value::Ints),
            }
        }
        Kind::Floats => floats(object)?.map(Value::Floats),
        Kind::Scalars | Kind::Object => None,
        Kind::Tensors => {
            if let Ok(tuple) = object.cast::<PyTuple>() {
                collect(tuple.iter(), optional_tensor)?.map(Value::Tensors)
            } else if let Ok(list) = object.cast::<PyList>() {
                collect(list.iter(), optional_tensor)?.map(Value::Tensors)
            } else {
                None
            }
        }
        Kind::DType if extract_quantized(object).is_some() => return Err(to_quantized()),
        Kind::DType => extract_dtype(object).map(Value::DType),
        Kind::Device => extract_device(object)?.map(Value::Device),
        Kind::Layout => object.cast::<PyLayout>().ok().map(|layout| Value::Str(layout.get().0)),
        Kind::MemoryFormat => object.cast::<PyMemoryFormat>().ok().map(|format| Value::Str(format.get().0)),
        Kind::Str => text(object)?.map(|text| {
            // SAFETY: the text lives in the object, which is borrowed for `'a`.
            Value::Str(unsafe { std::mem::transmute::<&str, &'a str>(text) })
        }),
        Kind::Generator => {
            object.cast::<PyGenerator>().ok().map(|generator| Value::Generator(generator.get().0.clone()))
        }
    })
}

/// The text of a string; as in torch, also of bytes.
fn text<'b>(object: &'b Bound<'_, PyAny>) -> PyResult<Option<&'b str>> {
    if let Ok(text) = object.cast::<PyString>() {
        return text.to_str().map(Some);
    }
    Ok(object.cast::<PyBytes>().ok().and_then(|bytes| std::str::from_utf8(bytes.as_bytes()).ok()))
}

fn floats(object: &Bound<'_, PyAny>) -> PyResult<Option<Floats>> {
    let read = |item: &Bound<'_, PyAny>| Ok(number(item)?.filter(|number| !number.is_complex()).map(Scalar::f64));
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return collect(tuple.iter(), read);
    }
    if let Ok(list) = object.cast::<PyList>() {
        return collect(list.iter(), read);
    }
    Ok(None)
}

/// A number, or a 0-d tensor used as one.
pub fn scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Some(tensor) = object::as_tensor(object.as_borrowed()) {
        if tensor.rank() != 0 || tensor.is_tracked() || tensor.is_batched() {
            return Ok(None);
        }
        return rushlight::item(tensor).map(Some).map_err(crate::errors::raise);
    }
    number(object)
}

#[inline]
pub fn scalar_object<'py>(py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the thread holds the GIL. Each call gives a new reference, or null if there is no memory.
    unsafe {
        let object = match scalar {
            Scalar::Bool(flag) => return Ok(PyBool::new(py, flag).to_owned().into_any()),
            Scalar::Int(number) => ffi::PyLong_FromLongLong(number),
            Scalar::UInt(number) => ffi::PyLong_FromUnsignedLongLong(number),
            Scalar::Float(number) => ffi::PyFloat_FromDouble(number),
            Scalar::Complex(number) => ffi::PyComplex_FromDoubles(number.re, number.im),
        };
        Bound::from_owned_ptr_or_err(py, object)
    }
}

/// Converts results to Python objects; named results become a named tuple.
#[inline]
pub fn output(py: Python<'_>, op: &'static Operator, output: Output) -> PyResult<*mut ffi::PyObject> {
    match output {
        Output::Tensor(tensor) => object::wrap(py, tensor),
        Output::Tuple(tensors) => named(py, op, tensors, false),
        Output::List(tensors) => tuple(py, tensors).map(|tuple| tuple.into_any().into_ptr()),
        Output::Bool(flag) => Ok(PyBool::new(py, flag).to_owned().into_any().into_ptr()),
        Output::Int(number) => Ok(number.into_pyobject(py)?.into_any().into_ptr()),
        Output::Float(number) => Ok(PyFloat::new(py, number).into_any().into_ptr()),
        Output::DType(dtype) => Ok(dtype_object(py, dtype)?.into_ptr()),
        Output::Nothing => Ok(py.None().into_ptr()),
    }
}

/// The result of a call that wrote to the tensors at `out=`.
pub fn written(py: Python<'_>, op: &'static Operator, result: Output) -> PyResult<*mut ffi::PyObject> {
    match result {
        Output::Tuple(tensors) => named(py, op, tensors, true),
        other => output(py, op, other),
    }
}

pub fn tuple(py: Python<'_>, tensors: Vec<Tensor>) -> PyResult<Bound<'_, PyTuple>> {
    let objects = tensors.into_iter().map(|tensor| object::wrap_bound(py, tensor)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, objects)
}

fn named(py: Python<'_>, op: &'static Operator, tensors: Vec<Tensor>, out: bool) -> PyResult<*mut ffi::PyObject> {
    let plain = tuple(py, tensors)?;
    match op.schema().returns {
        Returns::Named(fields) if fields.iter().all(|field| !field.is_empty()) => {
            let class = crate::return_types::class(py, op, fields, out)?;
            Ok(class.call1((plain,))?.into_ptr())
        }
        _ => Ok(plain.into_any().into_ptr()),
    }
}
