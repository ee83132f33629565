//! Methods of `Tensor` that are not operators: its storage and geometry, its hooks, its class.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use rushlight::view::narrow;
use rushlight::{Device, Layout, Storage, Tensor};
use rushlight_autograd::{Form, TensorMeta};
use rushlight_core::layout::{checked_numel, to_dims};
use rushlight_dispatch::allocate::storage;
use rushlight_dispatch::unsupported::unsupported_by;
use rushlight_dispatch::{interpreter, op, subgraph};

use crate::errors::{kind_of, raise};
use crate::storage::PyStorage;
use crate::{errors, memory_access, methods, object, parse, scalars};

methods! {
    fn untyped_storage(own) "The storage of this tensor, shared with all of its views." {
        memory_access::with_memory(own.tensor)?;
        crate::storage::wrap(own.py(), own.tensor.storage().clone())
    }
    fn share_memory_(own) "Moves the elements to shared memory; views follow. Does nothing if they are there already." {
        memory_access::with_memory(own.tensor)?;
        crate::storage::share(own.tensor.storage())?;
        own.same()
    }
    fn set_(own, source, storage_offset, size, stride) "Sets the storage and geometry of this tensor: those of a tensor, or of a storage from an offset on." {
        memory_access::with_memory(own.tensor)?;
        if own.tensor.is_quantized() {
            return Err(raise(unsupported_by("set_", "QuantizedCPU")));
        }
        let other = source.as_ref().and_then(|source| object::tensor(source).ok());
        let is_whole = storage_offset.is_none() && size.is_none() && stride.is_none();
        let is_cut = matches!((&storage_offset, &size), (Some(offset), Some(size))
            if scalars::int(offset)?.is_some() && scalars::ints(size)?.is_some());
        let meta = match &source {
            None if is_whole => empty(own.tensor)?,
            Some(source) if (is_whole || is_cut) && object::is_tensor(source) => {
                let source = object::tensor(source)?;
                let meta = like(own.tensor, source)?;
                if is_whole { meta } else { within(own.tensor, source.storage(), storage_offset, size, stride)? }
            }
            Some(source) if (is_whole || is_cut) && source.is_instance_of::<PyStorage>() => {
                let source = source.cast::<PyStorage>()?;
                let meta = within(own.tensor, &source.get().storage, storage_offset, size, stride)?;
                crate::storage::adopt(source);
                meta
            }
            _ => {
                let kinds = [&source, &storage_offset, &size, &stride].into_iter().flatten().map(kind_of);
                let sentence = errors::invalid_combination("set_", kinds, std::iter::empty());
                return Err(PyTypeError::new_err(format!(
                    "{sentence}\n * ()\n * (torch.Storage source)\n * (torch.Storage source, int storage_offset, tuple of ints size, tuple of ints stride = None)\n * (Tensor source)\n * (Tensor source, int storage_offset, tuple of ints size, tuple of ints stride = None)"
                )));
            }
        };
        subgraph::set_memory(own.tensor, other, || interpreter::replace_meta(own.tensor, meta)).map_err(raise)?;
        own.same()
    }
    fn register_hook(own, hook = required) "Calls `hook(grad)` whenever the gradient is computed; its result replaces the gradient." {
        own.give(crate::autograd::register_hook(own.tensor, given("register_hook", "hook", hook)?)?)
    }
    fn register_post_accumulate_grad_hook(own, hook = required) "Calls `hook(tensor)` after a gradient was added to `.grad`." {
        own.give(crate::autograd::register_post_hook(own.tensor, given("register_post_accumulate_grad_hook", "hook", hook)?)?)
    }
    fn as_subclass(own, cls = required) "The same tensor, with its history, as an instance of a class that derives from Tensor." {
        let class = given("as_subclass", "cls", cls)?;
        // Sparse tensors have no views.
        let is_sparse = own.tensor.is_sparse() || own.tensor.compressed_parts().is_some();
        let same = if is_sparse { own.tensor.clone() } else { op!(narrow::ALIAS, own.tensor).map_err(raise)? };
        object::wrap_as(&class, same)
    }
}

/// A required argument.
pub fn given<'py>(name: &str, parameter: &str, argument: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    argument.ok_or_else(|| PyTypeError::new_err(parse::missing(name, &[parameter])))
}

/// The form of the result: a conjugate view stays one regardless of its new elements.
fn form_of(tensor: &Tensor) -> Form {
    match tensor.meta().form {
        Form::LazyConj => Form::LazyConj,
        _ => Form::Plain,
    }
}

/// Another tensor's elements, which have the same dtype.
fn like(tensor: &Tensor, source: &Tensor) -> PyResult<TensorMeta> {
    memory_access::with_memory(source)?;
    let (own, other) = (tensor.dtype(), source.dtype());
    if own != other {
        let message = format!("Could not set tensor of type {} to a tensor of type {}", other.c_name(), own.c_name());
        return Err(PyRuntimeError::new_err(message));
    }
    check_device(tensor, source.device())?;
    Ok(TensorMeta { form: form_of(tensor), ..source.meta().clone() })
}

/// A tensor stays on the kind of device that it is on.
fn check_device(tensor: &Tensor, device: Device) -> PyResult<()> {
    if tensor.device().kind() == device.kind() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "Attempted to set the storage of a tensor on device \"{}\" to a storage on different device \"{device}\".  This is no longer allowed; the devices must match.",
        tensor.device(),
    )))
}

/// No elements, of the same dtype and device.
fn empty(tensor: &Tensor) -> PyResult<TensorMeta> {
    let (dtype, device) = (tensor.dtype(), tensor.device());
    let storage = storage(device, 0).map_err(raise)?;
    Ok(TensorMeta::new(storage, Layout::contiguous(&[0]), dtype, device))
}

/// Geometry from a caller for a storage's bytes: all elements must lie inside.
fn within(
    tensor: &Tensor,
    storage: &Storage,
    offset: Option<Bound<'_, PyAny>>,
    size: Option<Bound<'_, PyAny>>,
    stride: Option<Bound<'_, PyAny>>,
) -> PyResult<TensorMeta> {
    check_device(tensor, storage.device())?;
    let dtype = tensor.dtype();
    let number = |value: &Bound<'_, PyAny>| match scalars::ints(value)? {
        Some(numbers) => Ok(to_dims(&numbers)),
        None => Err(PyTypeError::new_err("set_(): sizes and strides must be tuples of ints")),
    };
    let mut layout = match &size {
        Some(size) => Layout::contiguous(&number(size)?),
        None => Layout::contiguous(&[(storage.len() / dtype.size()) as isize]),
    };
    if let Some(stride) = &stride {
        let strides = number(stride)?;
        if strides.len() != layout.sizes.len() {
            return Err(PyRuntimeError::new_err(format!(
                "unequal size length ({}) and stride length ({})",
                layout.sizes.len(),
                strides.len()
            )));
        }
        // A negative stride that is never taken stands for that of a contiguous tensor, as in torch.
        let has_elements = layout.numel() != 0;
        for (dim, &stride) in strides.iter().enumerate().rev() {
            let is_taken = has_elements && layout.sizes[dim] > 1;
            layout.strides[dim] = match layout.sizes.get(dim + 1) {
                _ if stride >= 0 || is_taken => stride,
                None => 1,
                Some(&inner) => layout.strides[dim + 1].saturating_mul(inner.max(1)),
            };
        }
    }
    if let Some(offset) = &offset {
        layout.offset = offset.extract()?;
    }
    grow(storage, &layout, dtype.size())?;
    layout.check_within(storage.len(), dtype.size(), []).map_err(raise)?;
    Ok(TensorMeta { form: form_of(tensor), ..TensorMeta::new(storage.clone(), layout, dtype, storage.device()) })
}

/// Gives a storage the bytes that a geometry needs, as in torch.
fn grow(storage: &Storage, layout: &Layout, width: usize) -> PyResult<()> {
    let valid = layout.offset >= 0 && layout.sizes.len() == layout.strides.len();
    let bytes = match layout.checked_span() {
        Some(Some((low, high))) if valid && low >= 0 && checked_numel(&layout.sizes).is_ok() => {
            (high as usize).checked_add(1).and_then(|count| count.checked_mul(width))
        }
        _ => None,
    };
    // What is no geometry is refused afterwards.
    let Some(needed) = bytes.filter(|needed| *needed > storage.len()) else { return Ok(()) };
    if !storage.is_resizable() {
        return Err(PyRuntimeError::new_err("Trying to resize storage that is not resizable"));
    }
    // SAFETY: called from Python, with the GIL.
    unsafe { storage.resize(needed) }.map_err(raise)
}

/// An argument that was given, even as None, or that was omitted.
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

pub fn add(module: &Bound<'_, PyModule>, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let function = wrap_pyfunction!(_make_subclass, module)?;
    // SAFETY: the class is never freed.
    unsafe { Bound::from_borrowed_ptr(module.py(), class.cast()) }.setattr("_make_subclass", function)
}
