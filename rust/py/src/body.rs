//! What a tensor is made of, as Python may take it apart and put it together: its storage, its geometry, its class.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use rushlight::view::narrow;
use rushlight::{Device, Layout, Storage, Tensor, op};
use rushlight_autograd::{Form, Meta};
use rushlight_core::layout::to_dims;

use crate::errors::{kind_of, raise};
use crate::methods;
use crate::storage::PyStorage;
use crate::{convert, object, parse};

methods! {
    fn untyped_storage(own) "The bytes that this tensor shows, shared with all of its views." {
        with_memory(own.tensor)?;
        Ok(Bound::new(own.py(), PyStorage(own.tensor.storage().clone()))?.into_any())
    }
    fn share_memory_(own) "Moves the elements to memory that processes share; views follow. Does nothing if they are there." {
        with_memory(own.tensor)?;
        crate::storage::share(own.tensor.storage())?;
        own.same()
    }
    fn set_(own, source, storage_offset, size, stride) "Makes this tensor show other bytes: a tensor's, or a storage's from an offset on." {
        with_memory(own.tensor)?;
        let other = source.as_ref().and_then(|source| object::tensor(source).ok());
        let is_whole = storage_offset.is_none() && size.is_none() && stride.is_none();
        let is_cut = matches!((&storage_offset, &size), (Some(offset), Some(size))
            if convert::int(offset)?.is_some() && convert::ints(size)?.is_some());
        let meta = match &source {
            None if is_whole => empty(own.tensor)?,
            Some(source) if (is_whole || is_cut) && object::is_tensor(source) => {
                let source = object::tensor(source)?;
                let meta = like(own.tensor, source)?;
                if is_whole { meta } else { within(own.tensor, source.storage(), storage_offset, size, stride)? }
            }
            Some(source) if (is_whole || is_cut) && source.is_instance_of::<PyStorage>() => {
                let storage = source.cast::<PyStorage>()?;
                within(own.tensor, &storage.get().0, storage_offset, size, stride)?
            }
            _ => {
                let kinds = [&source, &storage_offset, &size, &stride].into_iter().flatten().map(kind_of);
                let sentence = parse::invalid_combination("set_", kinds, std::iter::empty());
                return Err(PyTypeError::new_err(format!(
                    "{sentence}\n * ()\n * (torch.Storage source)\n * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints stride = None)\n * (Tensor source)\n * (Tensor source, int storage_offset, tuple of ints size, tuple of ints stride = None)"
                )));
            }
        };
        rushlight::set_memory(own.tensor, other, || rushlight::host::replace_meta(own.tensor, meta)).map_err(raise)?;
        own.same()
    }
    fn register_hook(own, hook = required) "Calls `hook(grad)` whenever the gradient is computed; what it returns takes the gradient's place." {
        own.give(crate::autograd::register_hook(own.tensor, given("register_hook", hook)?)?)
    }
    fn register_post_accumulate_grad_hook(own, hook = required) "Calls `hook(tensor)` after a gradient was added to `.grad`." {
        own.give(crate::autograd::register_post_hook(own.tensor, given("register_post_accumulate_grad_hook", hook)?)?)
    }
    fn as_subclass(own, cls = required) "The same tensor, recorded, as an instance of a class that derives from Tensor." {
        let class = given("as_subclass", cls)?;
        object::wrap_as(&class, op!(narrow::ALIAS, own.tensor).map_err(raise)?)
    }
}

/// An argument that has no default.
pub fn given<'py>(name: &str, argument: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    argument.ok_or_else(|| PyTypeError::new_err(format!("{name}() missing 1 required positional argument")))
}

/// Refuses a sparse tensor, whose elements stand in two others, and a mapped one, which is many.
pub fn with_memory(tensor: &Tensor) -> PyResult<()> {
    match tensor.meta().form {
        Form::Sparse(_) => Err(raise(rushlight::sparse::no_memory())),
        Form::Mapped(_) => Err(raise(rushlight::mapped::no_memory())),
        Form::Plain | Form::Mirrored => Ok(()),
    }
}

/// A tensor that shows conjugates goes on to show them, whatever it looks at.
fn form_of(tensor: &Tensor) -> Form {
    if tensor.is_mirrored() { Form::Mirrored } else { Form::Plain }
}

/// Another tensor's elements, which are of the same dtype.
fn like(tensor: &Tensor, source: &Tensor) -> PyResult<Meta> {
    with_memory(source)?;
    let (own, other) = (tensor.dtype(), source.dtype());
    if own != other {
        let message = format!("Could not set tensor of type {} to a tensor of type {}", other.c_name(), own.c_name());
        return Err(PyRuntimeError::new_err(message));
    }
    if kind(tensor.device()) != kind(source.device()) {
        return Err(PyRuntimeError::new_err(format!(
            "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{}\".  This is no longer allowed; the devices must match.",
            tensor.device(),
            source.device()
        )));
    }
    Ok(Meta { form: form_of(tensor), ..source.meta().clone() })
}

/// No elements, of the same dtype and device.
fn empty(tensor: &Tensor) -> PyResult<Meta> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    let storage = rushlight::call::storage(device, 0).map_err(raise)?;
    Ok(Meta::new(storage, Layout::contiguous(&[0]), dtype, device))
}

/// Geometry that a caller gives for a storage's bytes: all of it must lie inside.
fn within(
    tensor: &Tensor,
    storage: &Storage,
    offset: Option<Bound<'_, PyAny>>,
    size: Option<Bound<'_, PyAny>>,
    stride: Option<Bound<'_, PyAny>>,
) -> PyResult<Meta> {
    let dtype = tensor.dtype();
    let number = |value: &Bound<'_, PyAny>| match convert::ints(value)? {
        Some(numbers) => Ok(to_dims(&numbers)),
        None => Err(PyTypeError::new_err("set_(): sizes and strides must be tuples of ints")),
    };
    let mut layout = match &size {
        Some(size) => Layout::contiguous(&number(size)?),
        None => Layout::contiguous(&[(storage.len() / dtype.size()) as isize]),
    };
    if let Some(stride) = &stride {
        layout.strides = number(stride)?;
    }
    if let Some(offset) = &offset {
        layout.offset = offset.extract()?;
    }
    let fits = layout.sizes.len() == layout.strides.len()
        && layout.sizes.iter().all(|&size| size >= 0)
        && rushlight_core::layout::checked_numel(&layout.sizes).is_ok()
        && layout.checked_span().is_some_and(|span| {
            span.is_none_or(|(low, high)| {
                low >= 0
                    && (high as usize)
                        .saturating_add(1)
                        .checked_mul(dtype.size())
                        .is_some_and(|needed| needed <= storage.len())
            })
        });
    if !fits {
        return Err(PyRuntimeError::new_err(format!(
            "setStorage: sizes {:?}, strides {:?}, storage offset {}, and itemsize {} are out of bounds for storage of size {}",
            layout.sizes,
            layout.strides,
            layout.offset,
            dtype.size(),
            storage.len()
        )));
    }
    Ok(Meta { form: form_of(tensor), ..Meta::new(storage.clone(), layout, dtype, storage.device()) })
}

/// An argument that was given, be it None, or that was left out.
struct Given<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Given<'py> {
    type Error = PyErr;

    fn extract(argument: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Given(Some(argument.to_owned())))
    }
}

/// `Tensor._make_subclass(cls, data, require_grad=False)`: the elements of `data` as a leaf of class `cls`.
#[pyfunction]
#[pyo3(signature = (cls, data, require_grad=Given(None)), text_signature = "(cls, data, require_grad=False)")]
fn _make_subclass<'py>(
    cls: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
    require_grad: Given<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let require_grad = match &require_grad.0 {
        None => false,
        Some(flag) => match flag.cast::<PyBool>() {
            Ok(asked) => asked.is_true(),
            Err(_) => {
                return Err(PyTypeError::new_err(format!(
                    "_make_subclass(): argument 'require_grad' (position 3) must be bool, not {}",
                    kind_of(flag)
                )));
            }
        },
    };
    let leaf = object::tensor(data)?.detach();
    if require_grad {
        if !leaf.dtype().is_floating() && !leaf.dtype().is_complex() {
            return Err(PyRuntimeError::new_err(
                "Only Tensors of floating point and complex dtype can require gradients",
            ));
        }
        leaf.set_requires_grad(true).map_err(raise)?;
    }
    object::wrap_as(cls, leaf)
}

/// Another tensor's elements in this one's place, for `tensor.data = other`.
pub fn set_data(tensor: &Tensor, other: &Tensor) -> PyResult<()> {
    if kind(tensor.device()) != kind(other.device()) {
        return Err(PyRuntimeError::new_err(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type.",
        ));
    }
    rushlight::host::replace_meta(tensor, other.meta().clone());
    Ok(())
}

fn kind(device: Device) -> &'static str {
    device.kind()
}

pub fn add(module: &Bound<'_, PyModule>, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let function = wrap_pyfunction!(_make_subclass, module)?;
    // SAFETY: the class lives for ever.
    unsafe { Bound::from_borrowed_ptr(module.py(), class.cast()) }.setattr("_make_subclass", function)
}
