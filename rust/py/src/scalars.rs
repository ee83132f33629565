//! Numbers of Python and NumPy, converted to scalars and integers.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use rushlight::{DType, Scalar};
use rushlight_dispatch::value::Ints;

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

/// Numbers of other libraries: NumPy's scalars are recognised by their protocols, without importing NumPy.
#[cold]
fn foreign_number(object: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    let class = object.get_type();
    let module: String = match class.getattr("__module__").and_then(|name| name.extract()) {
        Ok(module) => module,
        Err(_) => return Ok(None),
    };
    // An array without dimensions is not a number: it keeps its dtype, and operators leave it to NumPy.
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

/// An integer of Python or NumPy; not a bool, nor an object that only has `__index__`.
pub fn plain_int(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    Ok(match number(object)? {
        Some(Scalar::Int(number)) => Some(number),
        Some(Scalar::UInt(_)) => Some(wide(object)?),
        _ => None,
    })
}

/// An index-like object; never a bool, a bool tensor or a float.
pub fn int(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let is_truth = object::as_tensor(object.as_borrowed()).is_some_and(|tensor| tensor.dtype() == DType::Bool);
    if is_truth || object.is_instance_of::<PyBool>() { Ok(None) } else { index(object) }
}

/// An index-like object, including bools and bool tensors.
pub fn index(object: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    if object.is_instance_of::<PyInt>() {
        return wide(object).map(Some);
    }
    if object.is_instance_of::<PyFloat>() || object.is_instance_of::<PyString>() {
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

/// The value of an int; torch's error if it has more than 64 bits.
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

/// The ints of a list. As in torch only the first item decides whether it is one: a bool after it counts as zero or
/// one.
pub fn each_int<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) -> PyResult<Option<Ints>> {
    items.enumerate().map(|(place, item)| if place == 0 { int(&item) } else { index(&item) }).collect()
}

pub fn collect<'py, T, C: FromIterator<T>>(
    items: impl Iterator<Item = Bound<'py, PyAny>>,
    read: fn(&Bound<'py, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Option<C>> {
    items.map(|item| read(&item)).collect()
}
