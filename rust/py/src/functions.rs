//! Functions of `torch` that are not operators: tensors from Python data, and settings of the process.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyMemoryView};
use rushlight::quantized::convert::display_name;
use rushlight::{DType, Device, Layout, Tensor};
use rushlight_core::dtype as settings;
use rushlight_core::memory_format::has_channels_last;
use rushlight_dispatch::promote::PromotionState;
use rushlight_dispatch::{autocast, backcompat, copy, create, deterministic, interpreter, op, warn_once};

use crate::dtype::{
    PyDType, PyDevice, default_device, dtype_object, extract_dtype, extract_quantized, set_default_device,
    wanted_device, wanted_dtype,
};
use crate::errors::{kind_of, raise};
use crate::storage::PyStorage;
use crate::{buffer, dlpack, exit, numpy, numpy_types, object, overrides, sequences};

/// The tensor on the given device and in the given dtype; itself if nothing changes.
fn placed(tensor: Tensor, dtype: Option<DType>, device: Option<PyDevice>) -> PyResult<Tensor> {
    let tensor = match dtype {
        Some(dtype) => rushlight::convert::to_dtype(&tensor, dtype).map_err(raise)?,
        None => tensor,
    };
    match device {
        Some(device) if device.is_numbered() && device.placed() == tensor.device() => {
            op!(rushlight::convert::CLONE, &tensor)
        }
        Some(device) => rushlight::convert::to_device(&tensor, device.reachable()?),
        None => Ok(tensor),
    }
    .map_err(raise)
}

/// An argument that must be given; PyO3's sentence for a missing one is not torch's.
struct Required<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Required<'py> {
    type Error = std::convert::Infallible;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(Required(Some(object.to_owned())))
    }
}

impl<'py> Required<'py> {
    fn given(self, function: &str, name: &str) -> PyResult<Bound<'py, PyAny>> {
        exit::keep_frames();
        let missing =
            || PyTypeError::new_err(format!("{function}() missing 1 required positional arguments: \"{name}\""));
        self.0.ok_or_else(missing)
    }
}

/// A new tensor from Python numbers, nested sequences of them, arrays or tensors; it never shares memory.
///
/// >>> torch.tensor([[1., 2.], [3., 4.]])
/// tensor([[1., 2.],
///         [3., 4.]])
#[pyfunction]
#[pyo3(signature = (data=Required(None), *, dtype=None, device=None, requires_grad=None, pin_memory=false), text_signature = "(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)")]
fn tensor<'py>(
    py: Python<'py>,
    data: Required<'py>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    requires_grad: Option<&Bound<'py, PyAny>>,
    pin_memory: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let data = &data.given("tensor", "data")?;
    let requires_grad = wants_gradient(requires_grad)?;
    let flag = |flag: bool| flag.then(|| PyBool::new(py, true).to_owned().into_any());
    let keywords = [
        ("dtype", dtype.cloned()),
        ("device", device.cloned()),
        ("requires_grad", flag(requires_grad)),
        ("pin_memory", flag(pin_memory)),
    ];
    if let Some(answer) = overrides::mode_answer("tensor", data, keywords)? {
        return Ok(answer);
    }
    let (dtype, device) = (wanted_dtype("tensor", dtype)?, wanted_device("tensor", device)?.or_else(default_device));
    let device = device.map_or(Ok(Device::Cpu), PyDevice::reachable)?;
    let page_locked = create::wants_page_locked(pin_memory, device).map_err(raise)?;
    let made = copied(data, dtype, "torch.tensor")?;
    let made = match page_locked {
        true => create::moved_to_page_locked(&made),
        false => rushlight::convert::to_device(&made, device),
    };
    finished(py, made.map_err(raise)?, requires_grad)
}

/// The argument `requires_grad` of `tensor`.
fn wants_gradient(argument: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(argument) = argument else { return Ok(false) };
    argument.extract().map_err(|_| {
        PyTypeError::new_err(format!("tensor(): argument 'requires_grad' must be bool, not {}", kind_of(argument)))
    })
}

/// Numbers, nested sequences, arrays or tensors as a new tensor; `function` is the called function's name.
pub fn copied(data: &Bound<'_, PyAny>, dtype: Option<DType>, function: &str) -> PyResult<Tensor> {
    let shared = if object::is_tensor(data) {
        interpreter::warn(&format!(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), rather than {function}(sourceTensor)."
        ))
        .map_err(raise)?;
        object::tensor(data)?.detach()
    } else if numpy_types::is_array(data)? {
        numpy::import(data)?
    } else if exports(data)? {
        dlpack::import(data, None, None)?
    } else if let Some(tensor) = over_storage(data, dtype)? {
        tensor
    } else if let Some(tensor) = over_device_array(data)? {
        tensor
    } else {
        return sequences::read(data, dtype);
    };
    match dtype {
        Some(dtype) if dtype != shared.dtype() => rushlight::convert::to_dtype(&shared, dtype),
        _ if shared.is_sparse() => rushlight::convert::CLONE.tensor([(&shared).into()]),
        _ => copy::clone(&shared),
    }
    .map_err(raise)
}

/// Whether data is a DLPack capsule, or an object that exports one; NumPy's numbers count as plain numbers.
fn exports(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(dlpack::is_capsule(data) || (data.hasattr(intern!(data.py(), "__dlpack__"))? && !numpy_types::is_scalar(data)?))
}

/// The bytes of a storage as elements of the dtype. As in torch, without a dtype those of an untyped storage are int64, and a typed
/// storage must be of the default dtype.
fn over_storage(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<Option<Tensor>> {
    let py = data.py();
    let (storage, dtype) = match data.cast::<PyStorage>() {
        Ok(untyped) => (untyped.get().storage.clone(), dtype.unwrap_or(DType::I64)),
        Err(_) => {
            let Some(untyped) = data.getattr_opt(intern!(py, "_untyped_storage"))? else { return Ok(None) };
            let Ok(untyped) = untyped.cast::<PyStorage>() else { return Ok(None) };
            let dtype = dtype.unwrap_or_else(settings::default_dtype);
            if extract_dtype(&data.getattr(intern!(py, "dtype"))?) != Some(dtype) {
                let name: String = data.call_method0(intern!(py, "pickle_storage_type"))?.extract()?;
                return Err(PyRuntimeError::new_err(format!(
                    "Expected a Storage of type {} or an UntypedStorage, but got {}",
                    dtype.display_name(),
                    name.trim_end_matches("Storage")
                )));
            }
            (untyped.get().storage.clone(), dtype)
        }
    };
    let (count, device) = (storage.len() / dtype.size(), storage.device());
    Ok(Some(Tensor::new(storage, Layout::contiguous(&[count as isize]), dtype, device)))
}

fn finished(py: Python<'_>, tensor: Tensor, requires_grad: bool) -> PyResult<Bound<'_, PyAny>> {
    create::ask_gradient(&tensor, requires_grad).map_err(raise)?;
    object::wrap_bound(py, tensor)
}

/// Data as a tensor, over the same memory if it has some; the second value tells whether it has.
fn aliased(data: &Bound<'_, PyAny>, dtype: Option<DType>) -> PyResult<(Tensor, bool)> {
    if object::is_tensor(data) {
        return Ok((object::tensor(data)?.clone(), true));
    }
    if numpy_types::is_array(data)? {
        return Ok((numpy::import(data)?, true));
    }
    if exports(data)? {
        return Ok((dlpack::import(data, None, None)?, true));
    }
    if let Some(tensor) = over_storage(data, dtype)? {
        return Ok((tensor, true));
    }
    if let Some(tensor) = over_device_array(data)? {
        return Ok((tensor, true));
    }
    Ok((sequences::read(data, dtype)?, false))
}

/// The elements of an object with Numba's array interface, over its memory on a device.
fn over_device_array(data: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    let py = data.py();
    let Some(interface) = data.getattr_opt(intern!(py, "__cuda_array_interface__"))? else { return Ok(None) };
    let reader = py.import(intern!(py, "rushlight.cuda._array_interface"))?;
    let made = reader.call_method1(intern!(py, "tensor_over"), (data, interface))?;
    Ok(Some(object::tensor(&made)?.clone()))
}

/// The data as a tensor, over the same memory and with the same history if dtype and device allow it.
///
/// Args:
///     data: a tensor, a NumPy array, an object with ``__dlpack__`` or ``__cuda_array_interface__``, a number or
///         nested sequences.
///     dtype: by default the data's own, and the default dtype for Python's floats.
///     device: by default the default device.
///
/// Raises:
///     ValueError: nested sequences have different lengths.
///     TypeError: the data cannot be converted to a tensor.
///
/// >>> import numpy
/// >>> array = numpy.zeros(2)
/// >>> tensor = torch.as_tensor(array)
/// >>> array[0] = 5
/// >>> tensor, torch.as_tensor([1, 2]).dtype
/// (tensor([5., 0.], dtype=torch.float64), torch.int64)
#[pyfunction]
#[pyo3(signature = (data=Required(None), dtype=None, device=None), text_signature = "(data, dtype=None, device=None)")]
fn as_tensor<'py>(
    py: Python<'py>,
    data: Required<'py>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let data = &data.given("as_tensor", "data")?;
    let keywords = [("dtype", dtype.cloned()), ("device", device.cloned())];
    if let Some(answer) = overrides::mode_answer("as_tensor", data, keywords)? {
        return Ok(answer);
    }
    let (dtype, device) =
        (wanted_dtype("as_tensor", dtype)?, wanted_device("as_tensor", device)?.or_else(default_device));
    object::wrap_bound(py, placed(aliased(data, dtype)?.0, dtype, device)?)
}

/// The data as a tensor: over the same memory if possible, never with ``copy=True``, and always with ``copy=False``.
///
/// Args:
///     obj: a tensor, a NumPy array, an object with ``__dlpack__`` or with a buffer, a number or nested sequences.
///     dtype: by default the data's own; for a buffer the default dtype.
///     device: by default the data's own, or the default device.
///     copy: whether the memory is shared.
///     requires_grad: whether the result accumulates gradients; by default a tensor keeps its history, and with False it has none.
///
/// Raises:
///     ValueError: ``copy=False``, and the data cannot be shared as it is.
///     TypeError: the data cannot be converted to a tensor.
///
/// >>> x = torch.tensor([1.0, 2.0])
/// >>> shared, copied = torch.asarray(x), torch.asarray(x, copy=True)
/// >>> x[0] = 5
/// >>> shared, copied
/// (tensor([5., 2.]), tensor([1., 2.]))
#[pyfunction]
#[pyo3(signature = (obj=Required(None), *, dtype=None, device=None, copy=None, requires_grad=None), text_signature = "(obj, *, dtype=None, device=None, copy=None, requires_grad=None)")]
fn asarray<'py>(
    py: Python<'py>,
    obj: Required<'py>,
    dtype: Option<&Bound<'py, PyAny>>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
    requires_grad: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let obj = &obj.given("asarray", "obj")?;
    let flag = |flag: bool| PyBool::new(py, flag).to_owned().into_any();
    let keywords = [
        ("dtype", dtype.cloned()),
        ("device", device.cloned()),
        ("copy", copy.map(flag)),
        ("requires_grad", requires_grad.map(flag)),
    ];
    if let Some(answer) = overrides::mode_answer("asarray", obj, keywords)? {
        return Ok(answer);
    }
    let (dtype, device) = (wanted_dtype("asarray", dtype)?, wanted_device("asarray", device)?.or_else(default_device));
    let buffers =
        obj.is_instance_of::<PyByteArray>() || obj.is_instance_of::<PyBytes>() || obj.is_instance_of::<PyMemoryView>();
    let (made, shared) = if buffers {
        (buffer::import(obj, dtype.unwrap_or_else(settings::default_dtype), -1, 0)?, true)
    } else {
        aliased(obj, dtype)?
    };
    let refuse = |why: String| Err(PyValueError::new_err(why));
    if copy == Some(false) {
        match (dtype, device) {
            _ if numpy_types::is_scalar(obj)? => {
                return Err(PyRuntimeError::new_err(
                    "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray.",
                ));
            }
            _ if !shared => return refuse("can't alias arbitrary sequence into a tensor.".into()),
            (Some(dtype), _) if dtype != made.dtype() => {
                let (from, to) = (made.dtype().display_name(), dtype.display_name());
                return refuse(format!("can't alias tensor with dtype '{from}' into dtype '{to}'."));
            }
            (_, Some(device)) if device != made.device().into() => {
                return refuse(format!("can't alias tensor from device '{}' to '{device}'.", made.device()));
            }
            _ => {}
        }
    }
    let before = made.clone();
    let placed = placed(made, dtype, device)?;
    let own = object::is_tensor(obj);
    let made = if copy == Some(true) && shared && placed.ptr_eq(&before) {
        op!(rushlight::convert::CLONE, &placed).map_err(raise)?
    } else {
        placed
    };
    if own && made.requires_grad() {
        match requires_grad {
            Some(false) => return object::wrap_bound(py, made.detach()),
            Some(true) => {}
            None => warn_once!(
                "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of False. Pass requires_grad=False explicitly to get the old behavior and silence this warning."
            )
            .map_err(raise)?,
        }
        return object::wrap_bound(py, made);
    }
    finished(py, made, requires_grad == Some(true))
}

/// A one-dimensional tensor over the memory of an object with a buffer, such as `bytearray` or `array.array`.
///
/// Args:
///     buffer: the object; it stays alive as long as the tensor. If it is read-only, writing to the tensor is undefined.
///     dtype: the dtype of its bytes.
///     count: the number of elements; -1 means all that fit after ``offset``.
///     offset: the first byte to use.
///     requires_grad: whether the result accumulates gradients.
///
/// Raises:
///     ValueError: the buffer is too small, or not a whole number of elements.
///
/// >>> buffer = bytearray(b"\x01\x02\x03\x04")
/// >>> tensor = torch.frombuffer(buffer, dtype=torch.uint8, offset=1)
/// >>> buffer[3] = 9
/// >>> tensor
/// tensor([2, 3, 9], dtype=torch.uint8)
#[pyfunction]
#[pyo3(signature = (buffer, *, dtype, count=-1, offset=0, requires_grad=false))]
fn frombuffer<'py>(
    py: Python<'py>,
    buffer: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
    count: isize,
    offset: isize,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let dtype =
        wanted_dtype("frombuffer", Some(dtype))?.ok_or_else(|| PyTypeError::new_err("frombuffer() needs a dtype"))?;
    finished(py, crate::buffer::import(buffer, dtype, count, offset)?, requires_grad)
}

/// Another library's tensor, or a DLPack capsule, as a tensor over the same memory.
///
/// Args:
///     ext_tensor: an object with ``__dlpack__``, or a capsule, which can be used once.
///     device: the device of the result; by default that of the data.
///     copy: True gives the result memory of its own, and False never does; by default the owner of the data copies
///         if it cannot share.
///
/// Raises:
///     RuntimeError: the capsule was used before.
///     BufferError: the data is on another device, or its dtype is not supported.
///     ValueError: ``copy=False``, and the data is on another device.
///
/// >>> import numpy
/// >>> array = numpy.arange(3)
/// >>> tensor = torch.from_dlpack(array)
/// >>> array[0] = 7
/// >>> tensor
/// tensor([7, 1, 2])
#[pyfunction]
#[pyo3(signature = (ext_tensor, *, device=None, copy=None))]
fn from_dlpack<'py>(
    py: Python<'py>,
    ext_tensor: &Bound<'py, PyAny>,
    device: Option<&Bound<'py, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(
        py,
        dlpack::import(ext_tensor, wanted_device("from_dlpack", device)?.map(|device| device.placed()), copy)?,
    )
}

/// A NumPy array as a tensor over the same memory, with its sizes, strides (also negative ones) and dtype.
///
/// Raises:
///     TypeError: the object is not an array, or is an array of strings or objects.
///     ValueError: the array has the other byte order.
///
/// >>> import numpy
/// >>> array = numpy.ones((2, 3), dtype="float32")
/// >>> tensor = torch.from_numpy(array)
/// >>> tensor[0, 0] = 4
/// >>> array[0]
/// array([4., 1., 1.], dtype=float32)
#[pyfunction]
fn from_numpy<'py>(py: Python<'py>, ndarray: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if !numpy_types::is_array(ndarray)? {
        return Err(PyTypeError::new_err(format!("expected np.ndarray (got {})", kind_of(ndarray))));
    }
    object::wrap_bound(py, numpy::import(ndarray)?)
}

/// The dtype of new floating-point tensors if none is given: float32 at first.
///
/// >>> torch.get_default_dtype()
/// torch.float32
#[pyfunction]
fn get_default_dtype(py: Python<'_>) -> PyResult<Py<PyDType>> {
    dtype_object(py, settings::default_dtype())
}

/// Sets the default dtype of new floating-point tensors, for all threads; that of complex ones is twice as wide.
///
/// Args:
///     d: float16, bfloat16, float32 or float64.
///
/// Raises:
///     TypeError: the argument is not a dtype, or is an integer dtype.
///
/// >>> torch.set_default_dtype(torch.float64)
/// >>> torch.tensor(0.5).dtype, torch.tensor(0.5j).dtype
/// (torch.float64, torch.complex128)
/// >>> torch.set_default_dtype(torch.float32)
#[pyfunction]
fn set_default_dtype(d: &Bound<'_, PyAny>) -> PyResult<()> {
    let dtype = d.cast::<PyDType>().map_err(|_| {
        PyTypeError::new_err("invalid dtype object: only floating-point types are supported as the default type")
    })?;
    if dtype.get().quantized {
        return Err(PyTypeError::new_err("only floating-point types are supported as the default type"));
    }
    settings::set_default_dtype(dtype.get().dtype).map_err(raise)
}

fn place(device_type: &str) -> PyResult<autocast::Processor> {
    match device_type {
        "cpu" => Ok(autocast::Processor::Host),
        "cuda" => Ok(autocast::Processor::Cuda),
        other => Err(PyValueError::new_err(format!("{other} has no mixed precision"))),
    }
}

/// The dtype of products under mixed precision on this thread for a device type, or None if it is off.
#[pyfunction]
fn _autocast(py: Python<'_>, device_type: &str) -> PyResult<Option<Py<PyDType>>> {
    autocast::lower(place(device_type)?).map(|dtype| dtype_object(py, dtype)).transpose()
}

/// Sets the dtype of products under mixed precision on this thread for a device type, or None to turn it off; returns the
/// previous one.
#[pyfunction]
#[pyo3(signature = (device_type, dtype))]
fn _set_autocast(
    py: Python<'_>,
    device_type: &str,
    dtype: Option<&Bound<'_, PyDType>>,
) -> PyResult<Option<Py<PyDType>>> {
    let before = autocast::set(place(device_type)?, dtype.map(|dtype| dtype.get().dtype));
    before.map(|dtype| dtype_object(py, dtype)).transpose()
}

/// The number of threads that one operator may use: the number of cores, unless ``OMP_NUM_THREADS`` or
/// `set_num_threads` sets another. Results are the same bits for any number.
///
/// >>> torch.get_num_threads() >= 1
/// True
#[pyfunction]
fn get_num_threads() -> usize {
    rushlight_par::num_threads()
}

/// Sets the number of threads that one operator may use.
///
/// Raises:
///     RuntimeError: the number is not positive.
///     ValueError: the number is 2**31 or more.
///
/// >>> before = torch.get_num_threads()
/// >>> torch.set_num_threads(2)
/// >>> torch.get_num_threads()
/// 2
/// >>> torch.set_num_threads(before)
#[pyfunction]
#[pyo3(signature = (count, /))]
fn set_num_threads(count: &Bound<'_, PyAny>) -> PyResult<()> {
    let Some(count) = crate::scalars::int(count)?.filter(|_| count.is_instance_of::<PyInt>()) else {
        let kind = kind_of(count);
        return Err(PyRuntimeError::new_err(format!("set_num_threads expects an int, but got {kind}")));
    };
    match usize::try_from(count) {
        Ok(count) if count > i32::MAX as usize => Err(PyValueError::new_err("Overflow when unpacking long")),
        Ok(count) if count > 0 => {
            rushlight_par::set_num_threads(count);
            Ok(())
        }
        _ => Err(PyRuntimeError::new_err("set_num_threads expects a positive integer")),
    }
}

/// Makes this thread's arithmetic, and that of the operators it calls, flush denormal numbers to zero, because they are
/// slow, or keep them (the default). Returns False if the processor has no such mode.
///
/// Raises:
///     RuntimeError: the argument is not a bool.
///
/// >>> torch.set_flush_denormal(True)
/// True
/// >>> torch.tensor([1e-310], dtype=torch.float64) * 1
/// tensor([0.], dtype=torch.float64)
/// >>> torch.set_flush_denormal(False)
/// True
#[pyfunction]
#[pyo3(signature = (mode, /))]
fn set_flush_denormal(mode: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Ok(mode) = mode.cast::<PyBool>() else {
        let got = mode.get_type();
        return Err(PyRuntimeError::new_err(format!("flush_denormal expects a bool, but got {}", got.name()?)));
    };
    Ok(rushlight_par::set_flush_denormal(mode.is_true()))
}

/// Sets whether warnings that appear once in a process appear each time instead.
///
/// >>> torch.set_warn_always(True)
/// >>> torch.is_warn_always_enabled()
/// True
/// >>> torch.set_warn_always(False)
#[pyfunction]
#[pyo3(signature = (b, /))]
fn set_warn_always(b: &Bound<'_, PyAny>) -> PyResult<()> {
    let Ok(always) = b.cast::<PyBool>() else {
        let got = b.get_type();
        return Err(PyRuntimeError::new_err(format!("setWarnOnlyOnce expects a bool, but got {}", got.name()?)));
    };
    interpreter::set_warn_always(always.is_true());
    Ok(())
}

/// Whether `torch.set_warn_always` is on.
///
/// >>> torch.is_warn_always_enabled()
/// False
#[pyfunction]
fn is_warn_always_enabled() -> bool {
    interpreter::warns_always()
}

/// Whether an object is a tensor.
///
/// >>> torch.is_tensor(torch.zeros(1)), torch.is_tensor([0.0])
/// (True, False)
#[pyfunction]
fn is_tensor(obj: &Bound<'_, PyAny>) -> bool {
    object::is_tensor(obj)
}

/// torch's error for the promotion of a quantised dtype.
fn unpromoted(names: &[&str]) -> PyErr {
    PyRuntimeError::new_err(format!(
        "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, offending types: {}",
        names.join(" ")
    ))
}

/// torch's name of a dtype in errors.
fn dtype_name(dtype: &Bound<'_, PyAny>) -> &'static str {
    match (extract_quantized(dtype), extract_dtype(dtype)) {
        (Some(dtype), _) => display_name(dtype),
        (None, Some(dtype)) => dtype.display_name(),
        (None, None) => "Undefined",
    }
}

/// A required dtype; `place` is its position, counted from one.
fn dtype_at(function: &str, name: &str, place: usize, object: &Bound<'_, PyAny>) -> PyResult<DType> {
    extract_dtype(object).ok_or_else(|| {
        let kind = kind_of(object);
        PyTypeError::new_err(format!(
            "{function}(): argument '{name}' (position {place}) must be torch.dtype, not {kind}"
        ))
    })
}

#[pyfunction]
fn _can_cast(from: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(settings::can_cast(dtype_at("can_cast", "from_", 1, from)?, dtype_at("can_cast", "to", 2, to)?))
}

#[pyfunction]
fn _promote_types(py: Python<'_>, first: &Bound<'_, PyAny>, second: &Bound<'_, PyAny>) -> PyResult<Py<PyDType>> {
    if extract_quantized(first).is_some() || extract_quantized(second).is_some() {
        return match first.cast::<PyDType>() {
            Ok(own) if first.is(second) => Ok(own.clone().unbind()),
            _ => Err(unpromoted(&[first, second].map(dtype_name))),
        };
    }
    let first = dtype_at("promote_types", "type1", 1, first)?;
    let second = dtype_at("promote_types", "type2", 2, second)?;
    dtype_object(py, settings::promote(first, second).map_err(raise)?)
}

#[pyfunction]
fn _result_type(py: Python<'_>, first: &Bound<'_, PyAny>, second: &Bound<'_, PyAny>) -> PyResult<Py<PyDType>> {
    let mut state = PromotionState::default();
    for operand in [first, second] {
        if let Some(tensor) = object::as_tensor(operand.as_borrowed()) {
            if tensor.is_quantized() {
                let name = |operand: &Bound<'_, PyAny>| match object::as_tensor(operand.as_borrowed()) {
                    Some(tensor) if tensor.is_quantized() => display_name(tensor.dtype()),
                    Some(tensor) => tensor.dtype().display_name(),
                    None => rushlight_core::dtype::default_dtype().display_name(),
                };
                return Err(unpromoted(&[first, second].map(name)));
            }
            state.tensor(tensor.dtype(), tensor.rank()).map_err(raise)?;
        } else {
            let wrong = || {
                let kinds = [first, second].into_iter().map(kind_of);
                PyTypeError::new_err(crate::errors::invalid_combination("result_type", kinds, std::iter::empty()))
            };
            state.number(crate::scalars::number(operand)?.ok_or_else(wrong)?).map_err(raise)?;
        }
    }
    dtype_object(py, state.result().map_err(raise)?)
}

/// Turns the warnings of `torch.utils.backcompat` on or off.
#[pyfunction]
fn _set_backcompat_warnings(broadcast: bool, keepdim: bool, ambiguous: bool, strict: u8) {
    backcompat::set(broadcast, keepdim, ambiguous, strict);
}

/// Switches torch's deterministic mode.
#[pyfunction]
fn _set_deterministic(enabled: bool, warn_only: bool, fill: bool) {
    deterministic::set(enabled, warn_only, fill);
}

/// Whether the strides of images or volumes say channels last, with gaps or without.
#[pyfunction]
fn _has_channels_last(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(has_channels_last(object::tensor(tensor)?.layout()))
}

/// The number of cores that this process may use.
#[pyfunction]
fn _usable_cores() -> usize {
    rushlight_par::cores().get()
}

/// The device on which this thread creates tensors; None if it was not set.
#[pyfunction]
fn _default_device() -> Option<PyDevice> {
    default_device()
}

#[pyfunction]
#[pyo3(signature = (device, /))]
fn _set_default_device(device: Option<&Bound<'_, PyDevice>>) {
    set_default_device(device.map(|device| *device.get()));
}

/// Adds functions to a module.
macro_rules! add_functions {
    ($module:ident: $($function:path),* $(,)?) => { $($module.add_function(wrap_pyfunction!($function, $module)?)?;)* };
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_functions! { module:
        tensor,
        as_tensor,
        asarray,
        frombuffer,
        from_dlpack,
        from_numpy,
        _autocast,
        _set_autocast,
        get_default_dtype,
        set_default_dtype,
        get_num_threads,
        set_num_threads,
        set_flush_denormal,
        set_warn_always,
        is_warn_always_enabled,
        is_tensor,
        _can_cast,
        _promote_types,
        _result_type,
        _set_backcompat_warnings,
        _set_deterministic,
        _has_channels_last,
        _usable_cores,
        _default_device,
        _set_default_device,
        crate::return_types::_return_types,
    }
    module.add("_LinAlgError", crate::errors::linalg_error(module.py())?)?;
    module.add_function(wrap_pyfunction!(crate::print::_set_print_options, module)?)
}
