//! From Python objects to the engine's values and back.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use rushlight::signature::{Kind, Returns};
use rushlight::value::Floats;
use rushlight::{DType, Ints, Output, Row, Scalar, Tensor, Value};

use crate::dtype::{PyLayout, PyMemoryFormat, dtype_object, extract_device, extract_dtype};
use crate::generator::PyGenerator;
use crate::object;

/// A Python number, exact types first; NumPy's scalars and 0-d tensors through their protocols.
pub fn number(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if object.is_exact_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(object.extract()?)));
    }
    if object.is_exact_instance_of::<PyBool>() {
        return Ok(Some(Scalar::Bool(object.extract()?)));
    }
    if object.is_instance_of::<PyInt>() {
        return integer(object).map(Some);
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Some(Scalar::Float(object.extract()?)));
    }
    if object.is_instance_of::<PyComplex>() {
        return Ok(Some(Scalar::Complex(object.extract()?)));
    }
    foreign_number(object)
}

fn integer(object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    match object.extract::<i64>() {
        Ok(number) => Ok(Scalar::Int(number)),
        Err(_) => object.extract().map(Scalar::UInt),
    }
}

/// Numbers of other libraries: NumPy's scalars are known by their protocols, without NumPy being imported.
#[cold]
fn foreign_number(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    let class = object.get_type();
    let module: String = match class.getattr("__module__").and_then(|name| name.extract()) {
        Ok(module) => module,
        Err(_) => return Ok(None),
    };
    // An array without dimensions is no number: it keeps its dtype, and operators leave it to NumPy.
    if module != "numpy" || class.name()? == "ndarray" {
        return Ok(None);
    }
    let kind: String = match object.getattr("dtype").and_then(|dtype| dtype.getattr("kind")?.extract()) {
        Ok(kind) => kind,
        Err(_) => return Ok(None),
    };
    let plain = object.call_method0("item")?;
    Ok(match kind.as_str() {
        "b" => Some(Scalar::Bool(plain.extract()?)),
        "i" | "u" => Some(integer(&plain)?),
        "f" => Some(Scalar::Float(plain.extract()?)),
        "c" => Some(Scalar::Complex(plain.extract()?)),
        _ => None,
    })
}

/// A whole number of Python or NumPy; never a bool, nor an object that is one by `__index__` alone.
pub fn plain_int(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    Ok(match number(object)? {
        Some(Scalar::Int(number)) => Some(number),
        Some(Scalar::UInt(_)) => Some(wide(object)?),
        _ => None,
    })
}

/// An index-like object; never a bool or a float.
pub fn int(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.is_instance_of::<PyBool>() { Ok(None) } else { index(object) }
}

/// An index-like object, of which a bool is one.
fn index(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.is_instance_of::<PyInt>() {
        return wide(object).map(Some);
    }
    if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyString>() {
        return Ok(None);
    }
    // A truth is no number here, though Python would index with it.
    if object::as_tensor(object.as_borrowed()).is_some_and(|tensor| tensor.dtype() == DType::Bool) {
        return Ok(None);
    }
    // SAFETY: a living object.
    if unsafe { ffi::PyIndex_Check(object.as_ptr()) } != 0 {
        return match object.call_method0("__index__") {
            Ok(number) => wide(&number).map(Some),
            Err(_) => Ok(None),
        };
    }
    Ok(None)
}

/// The value of an int, in torch's words where it has more than 64 bits.
pub fn wide(number: &Bound<'_, PyAny>) -> PyResult<i64> {
    number.extract().map_err(|_| PyValueError::new_err("Overflow when unpacking long long"))
}

/// A tuple or list of ints.
pub fn ints(object: &Bound<'_, PyAny>) -> PyResult<Option<Ints>> {
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return each_int(tuple.iter());
    }
    if let Ok(list) = object.cast::<PyList>() {
        return each_int(list.iter());
    }
    Ok(None)
}

/// The ints of a list. As in torch only the first tells whether it is one: a bool behind it counts as zero or one.
pub fn each_int<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Option<Ints>> {
    items.enumerate().map(|(place, item)| if place == 0 { int(&item) } else { index(&item) }).collect()
}

fn collect<'py, T, C: FromIterator<T>>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    read: fn(&Bound<'py, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Option<C>> {
    items.map(|item| read(&item)).collect()
}

fn optional_tensor(object: &Bound<'_, PyAny>) -> PyResult<Option<Option<Tensor>>> {
    if object.is_none() {
        return Ok(Some(None));
    }
    Ok(object::as_tensor(object.as_borrowed()).map(|tensor| Some(tensor.clone())))
}

/// Reads an argument as a parameter of `kind` asks; nothing where it does not fit.
pub fn value<'a>(object: Borrowed<'a, '_, PyAny>, kind: Kind, optional: bool) -> PyResult<Option<Value<'a>>> {
    if let (Kind::Tensor | Kind::Operand, Some(tensor)) = (kind, object::as_tensor(object)) {
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
        Kind::Float => scalar(object)?.filter(|scalar| !scalar.is_complex()).map(|scalar| Value::Float(scalar.f64())),
        Kind::Bool => {
            if object.is_instance_of::<PyBool>() {
                Some(Value::Bool(object.extract()?))
            } else {
                None
            }
        }
        Kind::Truth => Some(Value::Bool(object.is_truthy()?)),
        Kind::Ints => ints(object)?.map(Value::Ints),
        Kind::IntOrInts => match int(object)? {
            Some(number) => Some(Value::Ints(Ints::from_slice(&[number]))),
            None => ints(object)?.map(Value::Ints),
        },
        Kind::Floats => match number(object)? {
            Some(number) => Some(Value::Floats(smallvec::smallvec![number.f64()])),
            None => floats(object)?.map(Value::Floats),
        },
        Kind::Tensors => {
            if let Ok(tuple) = object.cast::<PyTuple>() {
                collect(tuple.iter(), optional_tensor)?.map(Value::Tensors)
            } else if let Ok(list) = object.cast::<PyList>() {
                collect(list.iter(), optional_tensor)?.map(Value::Tensors)
            } else {
                None
            }
        }
        Kind::DType => extract_dtype(object).map(Value::DType),
        Kind::Device => extract_device(object)?.map(Value::Device),
        Kind::Layout => object.cast::<PyLayout>().ok().map(|layout| Value::Str(layout.get().0)),
        Kind::MemoryFormat => object.cast::<PyMemoryFormat>().ok().map(|format| Value::Str(format.get().0)),
        Kind::Str => match object.cast::<PyString>() {
            Ok(text) => {
                let text: &str = text.to_str()?;
                // SAFETY: the text lives in the object, which is borrowed for `'a`.
                Some(Value::Str(unsafe { std::mem::transmute::<&str, &'a str>(text) }))
            }
            Err(_) => None,
        },
        Kind::Generator => {
            object.cast::<PyGenerator>().ok().map(|generator| Value::Generator(generator.get().0.clone()))
        }
    })
}

fn floats(object: &Bound<'_, PyAny>) -> PyResult<Option<Floats>> {
    let read = |item: &Bound<'_, PyAny>| Ok(number(item)?.map(Scalar::f64));
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return collect(tuple.iter(), read);
    }
    if let Ok(list) = object.cast::<PyList>() {
        return collect(list.iter(), read);
    }
    Ok(None)
}

/// A number, or a tensor of no dimension that stands for one.
pub fn scalar(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Some(tensor) = object::as_tensor(object.as_borrowed()) {
        if tensor.rank() != 0 || tensor.is_watched() || tensor.is_mapped() {
            return Ok(None);
        }
        return rushlight::item(tensor).map(Some).map_err(crate::errors::raise);
    }
    number(object)
}

#[inline]
pub fn scalar_object<'py>(py: Python<'py>, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: attached. Each gives a new reference, or none where there is no memory: a list may have many of them.
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

/// Results become Python objects; named results a named tuple.
#[inline]
pub fn output(py: Python<'_>, row: &'static Row, output: Output) -> PyResult<*mut ffi::PyObject> {
    match output {
        Output::Tensor(tensor) => object::wrap(py, tensor),
        Output::Tuple(tensors) => named(py, row, tensors, false),
        Output::List(tensors) => tuple(py, tensors).map(|tuple| tuple.into_any().into_ptr()),
        Output::Bool(flag) => Ok(PyBool::new(py, flag).to_owned().into_any().into_ptr()),
        Output::Int(number) => Ok(number.into_pyobject(py)?.into_any().into_ptr()),
        Output::Float(number) => Ok(PyFloat::new(py, number).into_any().into_ptr()),
        Output::DType(dtype) => Ok(dtype_object(py, dtype)?.into_ptr()),
        Output::Nothing => Ok(py.None().into_ptr()),
    }
}

/// What a call gives that wrote to the tensors at `out=`.
pub fn written(py: Python<'_>, row: &'static Row, result: Output) -> PyResult<*mut ffi::PyObject> {
    match result {
        Output::Tuple(tensors) => named(py, row, tensors, true),
        other => output(py, row, other),
    }
}

pub fn tuple(py: Python<'_>, tensors: Vec<Tensor>) -> PyResult<Bound<'_, PyTuple>> {
    let objects = tensors.into_iter().map(|tensor| object::wrap_bound(py, tensor)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, objects)
}

fn named(py: Python<'_>, row: &'static Row, tensors: Vec<Tensor>, out: bool) -> PyResult<*mut ffi::PyObject> {
    let plain = tuple(py, tensors)?;
    match row.schema().returns {
        Returns::Named(fields) if fields.iter().all(|field| !field.is_empty()) => {
            let class = crate::results::class(py, row, fields, out)?;
            Ok(class.call1((plain,))?.into_ptr())
        }
        _ => Ok(plain.into_any().into_ptr()),
    }
}
