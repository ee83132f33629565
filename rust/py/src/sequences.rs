//! Python's nested sequences of numbers and tensors: `torch.tensor` in one direction, `tolist` in the other.
//!
//! A sequence is read in three passes: its sizes along the first elements, the dtype over all elements, then the
//! values. Lists and tuples are read in place, any other sequence by its own methods. All of it may be user code: the
//! sizes found in one pass are checked in the next, and recursion is bounded.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};
use rushlight::{DType, Device, Layout, Scalar, Tensor};
use rushlight_core::dtype::{default_dtype, promote};
use rushlight_core::{Dims, Element, dispatch};
use rushlight_dispatch::copy::{on_host, readable};
use rushlight_dispatch::{create, warn_once};

use crate::errors::{kind_of, raise};
use crate::{convert, numpy_types, object};

const MAX_NESTING: usize = 128;

/// The items of a sequence, with its initial length.
struct Items<'py> {
    sequence: Bound<'py, PyAny>,
    length: usize,
    kind: Kind,
}

enum Kind {
    List,
    Tuple,
    Other,
}

impl<'py> Items<'py> {
    fn of(object: &Bound<'py, PyAny>) -> PyResult<Items<'py>> {
        let (length, kind) = if let Ok(list) = object.cast::<PyList>() {
            (list.len(), Kind::List)
        } else if let Ok(tuple) = object.cast::<PyTuple>() {
            (tuple.len(), Kind::Tuple)
        } else if is_sequence(object) {
            (object.len()?, Kind::Other)
        } else {
            return Err(PyTypeError::new_err("not a sequence"));
        };
        Ok(Items { sequence: object.clone(), length, kind })
    }

    /// The item at `place`; the list may have shrunk since it was measured, because user code runs in between.
    #[inline]
    fn get(&self, place: usize) -> PyResult<Bound<'py, PyAny>> {
        let (py, sequence) = (self.sequence.py(), self.sequence.as_ptr());
        let place = place as ffi::Py_ssize_t;
        // SAFETY: the sequence is of the type in `kind`, and all three functions check the index; the first two return
        // a borrowed item.
        unsafe {
            match self.kind {
                Kind::List => Bound::from_borrowed_ptr_or_err(py, ffi::PyList_GetItem(sequence, place)),
                Kind::Tuple => Bound::from_borrowed_ptr_or_err(py, ffi::PyTuple_GetItem(sequence, place)),
                Kind::Other => Bound::from_owned_ptr_or_err(py, ffi::PySequence_GetItem(sequence, place)),
            }
        }
    }
}

/// Whether it has items; `len` may still fail. A 0-d tensor is a number.
fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object; the check reads its type.
    !object.is_instance_of::<PyFloat>()
        && !object.is_instance_of::<PyInt>()
        && unsafe { ffi::PySequence_Check(object.as_ptr()) } != 0
        && object::as_tensor(object.as_borrowed()).is_none_or(|tensor| tensor.rank() > 0)
}

#[cold]
fn too_deep(level: &Bound<'_, PyAny>) -> PyErr {
    PyValueError::new_err(format!("too many dimensions '{}'", kind_of(level)))
}

/// The sizes, along the first element of each level.
fn sizes(data: &Bound<'_, PyAny>) -> PyResult<Dims> {
    let mut sizes = Dims::new();
    let mut level = data.clone();
    while is_sequence(&level) {
        let items = Items::of(&level)?;
        sizes.push(items.length as isize);
        if sizes.len() > MAX_NESTING {
            return Err(too_deep(&level));
        }
        if items.length == 0 {
            break;
        }
        let first = items.get(0).map_err(|_| {
            PyValueError::new_err(format!("could not determine the shape of object type '{}'", kind_of(&level)))
        })?;
        // A string's first item is again a string.
        if first.is_instance_of::<PyString>() && first.is_truthy()? {
            return Err(too_deep(&first));
        }
        level = first;
    }
    Ok(sizes)
}

/// The dtype that `torch.tensor` gives to data.
pub fn infer_dtype(data: &Bound<'_, PyAny>) -> PyResult<DType> {
    infer(data, 0)
}

/// The dtype of the items at nesting level `depth`.
fn infer(data: &Bound<'_, PyAny>, depth: usize) -> PyResult<DType> {
    if data.is_instance_of::<PyBool>() {
        return Ok(DType::Bool);
    }
    if data.is_exact_instance_of::<PyFloat>() {
        return Ok(default_dtype());
    }
    if data.is_instance_of::<PyInt>() {
        return Ok(DType::I64);
    }
    if data.is_exact_instance_of::<PyComplex>() {
        return Ok(default_dtype().to_complex());
    }
    if let Some(dtype) = numpy_types::scalar_dtype(data)? {
        return Ok(dtype);
    }
    if data.is_instance_of::<PyFloat>() {
        return Ok(default_dtype());
    }
    if data.is_instance_of::<PyComplex>() {
        return Ok(default_dtype().to_complex());
    }
    if object::is_tensor(data) {
        return Ok(object::tensor(data)?.dtype());
    }
    if data.is_instance_of::<PyString>() || data.is_instance_of::<PyBytes>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", kind_of(data))));
    }
    if !is_sequence(data) {
        return Err(PyRuntimeError::new_err(format!("Could not infer dtype of {}", kind_of(data))));
    }
    if depth == MAX_NESTING {
        return Err(too_deep(data));
    }
    let items = Items::of(data)?;
    let mut found = None;
    for place in 0..items.length {
        let item = items.get(place)?;
        if item.is(data) {
            return Err(PyTypeError::new_err("new(): self-referential lists are incompatible"));
        }
        let own = infer(&item, depth + 1)?;
        let all = match found {
            None => own,
            Some(known) if known == own => known,
            Some(known) => promote(known, own).map_err(raise)?,
        };
        if all == DType::C128 {
            return Ok(all);
        }
        found = Some(all);
    }
    Ok(found.unwrap_or_else(default_dtype))
}

/// A number for an element of `dtype`, or an error if it does not fit.
fn number(value: &Bound<'_, PyAny>, dtype: DType) -> PyResult<Scalar> {
    if let Some(tensor) = object::as_tensor(value.as_borrowed()) {
        if tensor.numel() != 1 {
            return Err(PyValueError::new_err("only one element tensors can be converted to Python scalars"));
        }
        return fitting(rushlight::item(tensor).map_err(raise)?, dtype);
    }
    if dtype == DType::Bool {
        return Ok(Scalar::Bool(value.is_truthy()?));
    }
    if dtype.is_complex() {
        return Ok(Scalar::Complex(value.extract()?));
    }
    if dtype.is_floating() {
        return Ok(Scalar::Float(value.extract()?));
    }
    if value.is_instance_of::<PyFloat>() {
        return fitting(Scalar::Float(value.extract()?), dtype);
    }
    if dtype == DType::U64 {
        return Ok(Scalar::UInt(value.extract()?));
    }
    let py = value.py();
    // SAFETY: a living object; the result is a new reference or an error.
    let index = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyNumber_Index(value.as_ptr()))? };
    let wide: i64 = index.extract().map_err(|_| PyValueError::new_err("Overflow when unpacking long long"))?;
    fitting(Scalar::Int(wide), dtype)
}

/// Returns an error for numbers that an integer dtype cannot hold.
fn fitting(number: Scalar, dtype: DType) -> PyResult<Scalar> {
    if !dtype.is_integral() || number.fits(dtype) {
        return Ok(number);
    }
    Err(PyRuntimeError::new_err(format!("value cannot be converted to type {} without overflow", dtype.name())))
}

/// Writes the elements of one level and those below it.
fn fill<T: Element>(data: &Bound<'_, PyAny>, sizes: &[isize], dim: usize, at: &mut *mut T) -> PyResult<()> {
    if dim == sizes.len() {
        return store(data, at);
    }
    let items = Items::of(data)?;
    let wanted = sizes[dim] as usize;
    if items.length != wanted {
        return Err(PyValueError::new_err(format!(
            "expected sequence of length {wanted} at dim {dim} (got {})",
            items.length
        )));
    }
    for place in 0..wanted {
        let item = items.get(place)?;
        if dim + 1 == sizes.len() { store(&item, at)? } else { fill(&item, sizes, dim + 1, at)? }
    }
    Ok(())
}

#[inline]
fn store<T: Element>(value: &Bound<'_, PyAny>, at: &mut *mut T) -> PyResult<()> {
    let number = match simple(value, T::DTYPE) {
        Some(number) => number,
        None => number(value, T::DTYPE)?,
    };
    // SAFETY: `fill` checks the number of elements against the sizes for which the memory was allocated.
    unsafe {
        at.write(T::from_scalar(number));
        *at = at.add(1);
    }
    Ok(())
}

/// The number of an exact float or int that the dtype always holds: the most frequent case.
#[inline]
fn simple(value: &Bound<'_, PyAny>, dtype: DType) -> Option<Scalar> {
    if value.is_exact_instance_of::<PyFloat>() && dtype.is_floating() {
        // SAFETY: an exact float, whose reading cannot fail.
        return Some(Scalar::Float(unsafe { ffi::PyFloat_AsDouble(value.as_ptr()) }));
    }
    if value.is_exact_instance_of::<PyInt>() && (dtype.is_floating() || dtype == DType::I64) {
        let mut overflow = 0;
        // SAFETY: an exact int, whose reading reports overflow and does not fail otherwise.
        let whole = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &raw mut overflow) };
        return (overflow == 0).then_some(Scalar::Int(whole));
    }
    None
}

/// A new tensor from Python numbers or nested sequences of them.
pub fn read(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Tensor> {
    if data.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!("new(): invalid data type '{}'", kind_of(data))));
    }
    let sizes = sizes(data)?;
    if numpy_types::is_array_inside(data)? {
        warn_once!(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to a single numpy.ndarray with numpy.array() before converting to a tensor.",
        )
        .map_err(raise)?;
    }
    let dtype = match dtype {
        Some(dtype) => dtype,
        None => infer_dtype(data)?,
    };
    let tensor = create::empty(&sizes, dtype, Device::Cpu).map_err(raise)?;
    if tensor.numel() == 0 {
        return Ok(tensor);
    }
    let pin = tensor.storage().pin().map_err(raise)?;
    dispatch!(dtype, T in all => fill::<T>(data, &sizes, 0, &mut pin.as_ptr().cast::<T>()))?;
    drop(pin);
    Ok(tensor)
}

/// The elements as nested lists; a number for a 0-d tensor.
pub fn list<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    if tensor.is_quantized() {
        return Err(PyRuntimeError::new_err("load_scalar: invalid type"));
    }
    let tensor = on_host(tensor).and_then(|tensor| readable(&tensor)).map_err(raise)?;
    let pin = tensor.storage().pin().map_err(raise)?;
    dispatch!(tensor.dtype(), T in all => lists::<T>(py, tensor.layout(), 0, tensor.layout().offset, pin.as_ptr().cast()))
}

fn lists<'py, T: Element>(
    py: Python<'py>,
    layout: &Layout,
    dim: usize,
    offset: isize,
    start: *const T,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the layout lies within the pinned storage; foreign memory may be unaligned.
    let element =
        |offset: isize| convert::scalar_object(py, unsafe { start.offset(offset).read_unaligned() }.to_scalar());
    if dim == layout.rank() {
        return element(offset);
    }
    // The lists are nested as deep as the tensor has dimensions, which may exceed the stack.
    let _depth = Depth::enter(py)?;
    let innermost = dim + 1 == layout.rank();
    let (length, step) = (layout.sizes[dim], layout.strides[dim]);
    // SAFETY: the list is new and has `length` slots, each of which takes ownership of one reference.
    unsafe {
        let list = Bound::from_owned_ptr_or_err(py, ffi::PyList_New(length))?;
        for place in 0..length {
            // With a size of zero strides are arbitrary, and none is followed.
            let offset = offset.wrapping_add(place.wrapping_mul(step));
            let item = if innermost { element(offset)? } else { lists(py, layout, dim + 1, offset, start)? };
            ffi::PyList_SetItem(list.as_ptr(), place, item.into_ptr());
        }
        Ok(list)
    }
}

/// One level of recursion, which Python counts; too many are a RecursionError.
struct Depth<'py>(Python<'py>);

impl<'py> Depth<'py> {
    fn enter(py: Python<'py>) -> PyResult<Depth<'py>> {
        // SAFETY: the thread holds the GIL; dropping the value leaves the level.
        match unsafe { ffi::Py_EnterRecursiveCall(c" while making lists of a tensor".as_ptr()) } {
            0 => Ok(Depth(py)),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

impl Drop for Depth<'_> {
    fn drop(&mut self) {
        let _attached = self.0;
        // SAFETY: entered by `enter`, and the thread still holds the GIL.
        unsafe { ffi::Py_LeaveRecursiveCall() }
    }
}
