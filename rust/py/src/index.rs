//! `x[...]`: reads the items between the brackets and passes them to the engine.

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::impl_::trampoline as shell;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyEllipsis, PyFloat, PyInt, PySlice, PyTuple};
use pyo3::{Borrowed, ffi};
use rushlight::{DType, Tensor};
use rushlight_core::Scalar;
use rushlight_core::index::{IndexExpr, Item};
use rushlight_dispatch::{create, interpreter};
use smallvec::SmallVec;

use crate::errors::{kind_of, raise};
use crate::overrides::{self, Public};
use crate::parse::{Call, Raw};
use crate::{numpy, numpy_types, object, scalars, sequences};

/// An index expression: its items, and the tensors among them with their positions.
#[derive(Default)]
struct Key {
    items: SmallVec<[Item; 4]>,
    tensors: SmallVec<[(usize, Tensor); 2]>,
    is_tuple: bool,
}

impl Key {
    /// # Safety
    /// `raw` is a living object.
    unsafe fn read(&mut self, py: Python<'_>, raw: Raw) -> PyResult<()> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        let object = unsafe { Borrowed::from_ptr(py, raw) };
        if let Ok(tuple) = object.cast::<PyTuple>() {
            self.is_tuple = true;
            for item in tuple.iter_borrowed() {
                self.push(&item)?;
            }
        } else if is_plain(&object) {
            self.push(&object)?;
        } else if spreads(&object)? {
            interpreter::warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as tensor index, x[torch.tensor(seq)], which will result either in an error or a different result",
            )
            .map_err(raise)?;
            for item in object.try_iter()? {
                self.push(&item?)?;
            }
        } else {
            self.push(&object)?;
        }
        Ok(())
    }

    fn push(&mut self, item: &Bound<'_, PyAny>) -> PyResult<()> {
        if item.is_exact_instance_of::<PyInt>() {
            self.items.push(Item::Int(scalars::wide(item)?));
        } else if item.is_exact_instance_of::<PySlice>() {
            self.items.push(slice(item)?);
        } else if item.is_none() {
            self.items.push(Item::NewAxis);
        } else if item.is_instance_of::<PyEllipsis>() {
            self.items.push(Item::Ellipsis);
        } else if item.is_exact_instance_of::<PyBool>() {
            self.items.push(Item::Bool(item.extract()?));
        } else if object::is_tensor(item) {
            self.tensor(object::tensor(item)?)?;
        } else if numpy_types::is_array(item)? {
            self.tensor(&numpy::import(item)?)?;
        } else if is_sequence(item) {
            self.tensor(&listed(item)?)?;
        } else if let Some(number) = scalars::int(item)? {
            self.items.push(Item::Int(number));
        } else {
            return Err(PyIndexError::new_err(format!(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})",
                kind_of(item)
            )));
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &Tensor) -> PyResult<()> {
        let (rank, dtype) = (tensor.rank(), tensor.dtype());
        let mask = matches!(dtype, DType::Bool | DType::U8);
        let item = if rank == 0 && tensor.is_batched() && !mask {
            // The number differs between samples.
            self.tensors.push((self.items.len(), tensor.clone()));
            Item::Tensor { rank, mask }
        } else if rank == 0 && mask {
            Item::Bool(rushlight::item(tensor).map_err(raise)?.truth())
        } else if rank == 0 && dtype.is_integral() {
            Item::Int(rushlight::item(tensor).map_err(raise)?.i64())
        } else {
            self.tensors.push((self.items.len(), tensor.clone()));
            Item::Tensor { rank, mask }
        };
        self.items.push(item);
        Ok(())
    }

    /// The view that the items other than tensors make, and the gather from it.
    fn apply(&self, own: &Tensor) -> PyResult<(Tensor, Gather)> {
        let mut expr = IndexExpr::of(own.layout());
        expr.read(&self.items, !self.is_tuple).map_err(raise)?;
        let whole = expr.steps.is_empty() && !expr.gathers.is_empty();
        let view = if whole { own.clone() } else { rushlight::index::view(own, &expr).map_err(raise)? };
        let mut gather = Gather::default();
        for place in &expr.gathers {
            gather.dims.push(place.dim);
            gather.tensors.push(match self.items[place.item] {
                Item::Bool(true) => create::from_slice(&[0i64]).map_err(raise)?,
                Item::Bool(false) => create::from_slice::<i64>(&[]).map_err(raise)?,
                _ => match self.tensors.iter().find(|(item, _)| *item == place.item) {
                    Some((_, tensor)) => tensor.clone(),
                    None => return Err(PyIndexError::new_err("an index got lost")),
                },
            });
        }
        Ok((view, gather))
    }
}

/// Tensors of indices, and the first dimension that each of them indexes.
#[derive(Default)]
struct Gather {
    tensors: Vec<Tensor>,
    dims: Vec<usize>,
}

fn slice(object: &Bound<'_, PyAny>) -> PyResult<Item> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    // SAFETY: a slice, and memory for its parts.
    if unsafe { ffi::PySlice_Unpack(object.as_ptr(), &raw mut start, &raw mut stop, &raw mut step) } < 0 {
        return Err(PyErr::fetch(object.py()));
    }
    Ok(Item::Slice { start, stop, step })
}

fn is_sequence(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object.
    unsafe { ffi::PySequence_Check(object.as_ptr()) != 0 }
}

/// The most frequent items, which are tested first because they are not sequences.
#[inline]
fn is_plain(object: &Bound<'_, PyAny>) -> bool {
    object.is_exact_instance_of::<PyInt>() || object.is_exact_instance_of::<PySlice>() || object::is_tensor(object)
}

/// Whether a sequence that is not a tuple is read as one: NumPy's old rule.
fn spreads(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    if !is_sequence(object) || numpy_types::is_array(object)? {
        return Ok(false);
    }
    let Ok(length) = object.len() else { return Ok(false) };
    if length >= 32 {
        return Ok(false);
    }
    for at in 0..length {
        let item = object.get_item(at)?;
        let spread = object::is_tensor(&item)
            || is_sequence(&item)
            || item.is_instance_of::<PySlice>()
            || item.is_none()
            || item.is_instance_of::<PyEllipsis>();
        if spread {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A nested list as a tensor of indices: bools stay bools, everything else becomes integers.
fn listed(list: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let dtype = match sequences::infer_dtype(list)? {
        _ if list.len()? == 0 => DType::I64,
        dtype @ (DType::Bool | DType::U8) => dtype,
        _ => DType::I64,
    };
    sequences::read(list, Some(dtype))
}

/// # Safety
/// Both are living objects, the first a tensor.
unsafe fn get(py: Python<'_>, own: Raw, expr: Raw) -> PyResult<Raw> {
    // SAFETY: CPython keeps both alive during the call.
    let answer = || unsafe { overrides::answer(&Public::Method("__getitem__"), &Call::new(py, &[own, expr])) };
    if overrides::ever_overridden()
        && let Some(answer) = answer()?
    {
        return Ok(answer);
    }
    // SAFETY: as above.
    match unsafe { read(py, own, expr) } {
        Ok(result) => Ok(result),
        Err(error) => answer()?.ok_or(error),
    }
}

/// # Safety
/// Same as for `get`.
unsafe fn read(py: Python<'_>, own: Raw, expr: Raw) -> PyResult<Raw> {
    let mut key = Key::default();
    // SAFETY: CPython keeps both alive during the call.
    let own = unsafe {
        key.read(py, expr)?;
        tensor(own)?
    };
    let (view, Gather { tensors, dims }) = key.apply(own)?;
    if tensors.is_empty() {
        return object::wrap(py, view);
    }
    object::wrap(py, rushlight::index::get(&view, tensors, &dims).map_err(raise)?)
}

/// # Safety
/// All are living objects, the first a tensor.
unsafe fn set(py: Python<'_>, own: Raw, expr: Raw, value: Raw) -> PyResult<std::ffi::c_int> {
    if value.is_null() {
        return Err(PyTypeError::new_err("Tensor does not support deleting items"));
    }
    let answered = || -> PyResult<bool> {
        // SAFETY: CPython keeps all three alive during the call; an override's result is dropped.
        unsafe {
            let answer = overrides::answer(&Public::Method("__setitem__"), &Call::new(py, &[own, expr, value]))?;
            Ok(answer.map(|answer| ffi::Py_DecRef(answer)).is_some())
        }
    };
    if overrides::ever_overridden() && answered()? {
        return Ok(0);
    }
    // SAFETY: as above.
    match unsafe { write(py, own, expr, value) } {
        Ok(()) => Ok(0),
        Err(error) => answered()?.then_some(0).ok_or(error),
    }
}

/// # Safety
/// Same as for `set`.
unsafe fn write(py: Python<'_>, own: Raw, expr: Raw, value: Raw) -> PyResult<()> {
    let mut key = Key::default();
    // SAFETY: CPython keeps all three alive during the call.
    let (own, value) = unsafe {
        key.read(py, expr)?;
        (tensor(own)?, Borrowed::from_ptr(py, value))
    };
    if own.is_sparse() {
        return Err(PyTypeError::new_err("Cannot assign to a sparse tensor"));
    }
    // A single bool of Python is no mask: everything is assigned, or nothing.
    // SAFETY: CPython keeps it alive during the call.
    if let Ok(flag) = unsafe { Borrowed::from_ptr(py, expr) }.cast::<PyBool>() {
        if !flag.is_true() {
            return assigned(own, &value).map(drop);
        }
        key.items = SmallVec::from_iter([Item::NewAxis]);
    }
    let (view, Gather { tensors, dims }) = key.apply(own)?;
    let value = assigned(own, &value)?;
    let done = if tensors.is_empty() {
        rushlight::index::assign(&view, &value)
    } else {
        rushlight::index::put(&view, tensors, &dims, &value)
    };
    done.map_err(raise)
}

/// # Safety
/// `own` lives as long as the result is used.
unsafe fn tensor<'a>(own: Raw) -> PyResult<&'a Tensor> {
    // SAFETY: the caller guarantees that the object is alive.
    unsafe { object::tensor_of(own) }.ok_or_else(|| PyTypeError::new_err("the tensor is gone"))
}

/// The right-hand side of an assignment: a tensor, or a number in the tensor's dtype.
fn assigned(own: &Tensor, value: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if object::is_tensor(value) {
        return object::tensor(value).cloned();
    }
    match exact(value)? {
        Some(number) => {
            // Numbers for a quantised tensor are quantised when they are copied.
            let dtype = if own.is_quantized() { DType::F32 } else { own.dtype() };
            create::check_number(number, dtype).map_err(raise)?;
            create::scalar_of(number, dtype, own.device()).map_err(raise)
        }
        None => Err(PyTypeError::new_err(format!(
            "can't assign a {} to a torch.{}Tensor",
            kind_of(value),
            own.dtype().display_name()
        ))),
    }
}

/// Python's own numbers, and NumPy's integers; NumPy's floats that are not Python floats are not accepted.
fn exact(value: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if value.is_exact_instance_of::<PyInt>() {
        return scalars::wide(value).map(|number| Some(Scalar::Int(number)));
    }
    let is_own = |value: &Bound<'_, PyAny>| value.is_instance_of::<PyFloat>() || value.is_instance_of::<PyComplex>();
    if value.is_exact_instance_of::<PyBool>() || is_own(value) {
        return scalars::number(value);
    }
    Ok(scalars::plain_int(value)?.map(Scalar::Int))
}

struct Get;
impl shell::MethodDef<shell::binaryfunc::Func> for Get {
    const METH: shell::binaryfunc::Func = get;
}

/// The slot for assignment has the same type as that for setting an attribute.
struct Set;
impl shell::MethodDef<shell::setattrofunc::Func> for Set {
    const METH: shell::setattrofunc::Func = set;
}

/// The slots in the form of CPython's type constructor.
pub fn slots() -> [ffi::PyType_Slot; 2] {
    [
        object::slot(ffi::Py_mp_subscript, shell::binaryfunc::<Get> as *mut std::ffi::c_void),
        object::slot(ffi::Py_mp_ass_subscript, shell::setattrofunc::<Set> as *mut std::ffi::c_void),
    ]
}
