//! `Tensor.to` and its short forms: conversion to other dtypes, devices and memory formats.

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyType};
use rushlight::{DType, Device, Tensor};
use rushlight_core::Layout;
use rushlight_core::memory_format::channels_last_format;
use rushlight_dispatch::create;
use rushlight_dispatch::operator::TensorSpec;
use rushlight_dispatch::value::Value;

use crate::dtype::{PyDevice, extract_dtype, extract_quantized, read_device, refused_dtype, to_quantized};
use crate::errors::{kind_of, raise};
use crate::methods::{Own, named_format};
use crate::sparse::backend;
use crate::{errors, methods, object, parse};

/// The arguments of a conversion.
#[derive(Default)]
struct ToOptions {
    dtype: Option<DType>,
    device: Option<PyDevice>,
    copy: bool,
    non_blocking: bool,
    format: Option<&'static str>,
}

impl ToOptions {
    fn dtype(dtype: DType) -> ToOptions {
        ToOptions { dtype: Some(dtype), ..ToOptions::default() }
    }
}

/// The converted tensor: the same object if nothing changes.
fn convert<'py>(own: &Own<'_, 'py>, wanted: &ToOptions) -> PyResult<Bound<'py, PyAny>> {
    let tensor = own.tensor;
    if tensor.is_quantized() && wanted.dtype.is_some() {
        return Err(PyRuntimeError::new_err("Creation of quantized tensor requires quantized dtype like torch.quint8"));
    }
    let alike = wanted.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && wanted.device.is_none_or(|device| !device.is_numbered() && device.placed() == tensor.device())
        && match wanted.format {
            None | Some("preserve_format") => true,
            // The format that the strides say counts, with gaps or without.
            Some(format) => match channels_last_format(tensor.layout()) {
                Some(last) => last == format,
                None => !format.starts_with("channels_last"),
            },
        };
    if alike && !wanted.copy {
        return own.same();
    }
    if let Some(dtype) = wanted.dtype {
        rushlight::convert::note_dropped(tensor.dtype(), dtype).map_err(raise)?;
    }
    let device = wanted.device.map(PyDevice::reachable).transpose()?;
    if let Some(device) = device.filter(|_| wanted.non_blocking)
        && let Some(sent) = sent(tensor, wanted, device).map_err(raise)?
    {
        return object::wrap_bound(own.py(), sent);
    }
    let format = wanted.format.map_or(Value::None, Value::Str);
    let arguments = [tensor.into(), wanted.dtype.into(), device.map_or(Value::None, Value::Device), format];
    object::wrap_bound(own.py(), rushlight::convert::TO_DTYPE.tensor(arguments).map_err(raise)?)
}

/// The tensor on another device, where its elements may arrive later; `None` if the copy has to wait. The host gets page-locked
/// memory, which waits when it is read.
fn sent(tensor: &Tensor, wanted: &ToOptions, device: Device) -> rushlight::Result<Option<Tensor>> {
    let crosses = matches!((tensor.device(), device), (Device::Cpu, Device::Cuda(_)) | (Device::Cuda(_), Device::Cpu));
    if !crosses || !tensor.is_plain() {
        return Ok(None);
    }
    let strides = rushlight_core::memory_format::strides(tensor.sizes(), wanted.format, Some(tensor.layout()))?;
    let layout = Layout { sizes: tensor.sizes().clone(), strides, offset: 0 };
    let dtype = wanted.dtype.unwrap_or(tensor.dtype());
    let made = match device {
        Device::Cpu => create::page_locked(layout, dtype)?,
        _ => rushlight_dispatch::allocate::allocate(&TensorSpec { layout, dtype, device })?,
    };
    rushlight::convert::copy::copy_later_(&made, tensor)?;
    Ok(Some(made))
}

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn given<'a, 'py>(argument: &'a Option<Bound<'py, PyAny>>) -> Argument<'a, 'py> {
    argument.as_ref().filter(|argument| !argument.is_none())
}

fn truth(argument: Argument) -> PyResult<bool> {
    argument.map_or(Ok(false), |flag| flag.is_truthy())
}

fn device_of(object: &Bound<'_, PyAny>) -> PyResult<PyDevice> {
    read_device(object)?.ok_or_else(|| unfit([&Some(object.clone())]))
}

/// The error for arguments that no form of `to` takes.
fn unfit<'py, const N: usize>(arguments: [&Option<Bound<'py, PyAny>>; N]) -> PyErr {
    fitting_none(arguments.into_iter().flatten().map(kind_of), std::iter::empty())
}

/// The same for arguments given by their names, perhaps after one that was not.
fn unfit_by_name<'py>(first: Argument<'_, 'py>, named: &[(&str, &Option<Bound<'py, PyAny>>)]) -> PyErr {
    let named = named.iter().filter_map(|(name, object)| Some(format!("{name}={}", kind_of(object.as_ref()?))));
    fitting_none(first.into_iter().map(kind_of), named)
}

fn fitting_none(positional: impl Iterator<Item = String>, named: impl Iterator<Item = String>) -> PyErr {
    let sentence = errors::invalid_combination("to", positional, named);
    PyTypeError::new_err(format!(
        "{sentence}\n * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n * (Tensor tensor, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)"
    ))
}

fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    if extract_quantized(object).is_some() {
        return Err(to_quantized());
    }
    extract_dtype(object).ok_or_else(|| {
        refused_dtype(object).unwrap_or_else(|| PyTypeError::new_err("to(): argument 'dtype' must be torch.dtype"))
    })
}

/// A conversion to the dtype of a quantised tensor, which changes nothing or is an error.
fn same_quantized(own: &Tensor, like: &Tensor) -> PyResult<Option<DType>> {
    if own.is_quantized() && own.dtype() == like.dtype() { Ok(None) } else { Err(to_quantized()) }
}

/// torch's name of a tensor's type, such as `torch.FloatTensor`.
fn type_name(tensor: &Tensor) -> String {
    if tensor.is_quantized() {
        return format!("torch.quantized.{}Tensor", rushlight::quantized::convert::display_name(tensor.dtype()));
    }
    let home = match (tensor.device(), tensor.is_sparse()) {
        (Device::Cuda(_), true) => "torch.cuda.sparse",
        (Device::Cuda(_), false) => "torch.cuda",
        (Device::Meta, false) => "torch.meta",
        (_, true) => "torch.sparse",
        _ => "torch",
    };
    format!("{home}.{}Tensor", tensor.dtype().display_name())
}

/// The dtype and the device of a class like `torch.FloatTensor`, or of its name.
fn legacy_type(text: &str) -> Option<(DType, Device)> {
    let (home, display_name) = text.rsplit_once('.')?;
    let device = match home {
        "torch" | "torch.sparse" => Device::Cpu,
        "torch.cuda" | "torch.cuda.sparse" => Device::Cuda(rushlight_cuda::card::current()),
        _ => return None,
    };
    let dtype = match display_name.strip_suffix("Tensor")? {
        "" => rushlight_core::dtype::default_dtype(),
        name => DType::ALL.into_iter().find(|dtype| dtype.display_name() == name)?,
    };
    Some((dtype, device))
}

/// The dtype of a number that takes the place of a tensor. An integer is the number of a device, unless `non_blocking` follows.
fn number_dtype(first: &Bound<'_, PyAny>, second: Argument) -> Option<DType> {
    if first.is_instance_of::<PyBool>() {
        Some(DType::Bool)
    } else if first.is_instance_of::<PyFloat>() {
        Some(DType::F64)
    } else if first.is_instance_of::<PyComplex>() {
        Some(DType::C128)
    } else {
        let is_flag = second.is_some_and(|second| second.is_instance_of::<PyBool>());
        (is_flag && first.is_instance_of::<PyInt>()).then_some(DType::I64)
    }
}

methods! {
    // `to(dtype, ..)`, `to(device, dtype, ..)` and `to(other, ..)` in one: the first argument decides what follows. By its name,
    // `device` is a device only.
    fn to(own, tensor, dtype, non_blocking = False, copy = False, memory_format, device) "The tensor in another dtype or on another device; itself if nothing changes." {
        let format = given(&memory_format).map(named_format).transpose()?;
        let first = given(&tensor);
        if [&device, &tensor, &dtype].into_iter().any(|asked| given(asked).is_some_and(|asked| extract_quantized(asked).is_some())) {
            return Err(to_quantized());
        }
        let named = given(&device).map(read_device).transpose()?.flatten();
        if device.is_some() && (tensor.is_some() || given(&device).is_some() && named.is_none()) {
            let rest = [("device", &device), ("dtype", &dtype), ("non_blocking", &non_blocking), ("copy", &copy)];
            return Err(unfit_by_name(tensor.as_ref(), &rest));
        }
        // After a dtype or a tensor, the argument `dtype` is `non_blocking`, and so on.
        let is_like = first.is_some_and(object::is_tensor);
        // As in torch, a number stands for a tensor of its type on the CPU.
        let number = first.and_then(|first| number_dtype(first, given(&dtype)));
        let moved = is_like || number.is_some() || first.is_some_and(|first| extract_dtype(first).is_some());
        let flags = match moved {
            true if copy.is_none() || dtype.is_none() || non_blocking.is_none() => [&dtype, &non_blocking, &copy],
            false => [&None, &non_blocking, &copy],
            true => return Err(unfit([&tensor, &dtype, &non_blocking, &copy])),
        };
        let fits = flags.iter().all(|flag| flag.as_ref().is_none_or(|flag| flag.is_instance_of::<PyBool>()));
        let refused = if moved { None } else { [first, given(&dtype)].into_iter().flatten().find_map(refused_dtype) };
        if let Some(error) = refused {
            return Err(error);
        }
        if !fits || !moved && given(&dtype).is_some_and(|dtype| extract_dtype(dtype).is_none()) {
            if tensor.is_none() && dtype.is_some() {
                let rest = [("dtype", &dtype), ("non_blocking", &non_blocking), ("copy", &copy)];
                return Err(unfit_by_name(None, &rest));
            }
            return Err(unfit([&tensor, &dtype, &non_blocking, &copy]));
        }
        let like = first.filter(|_| is_like).map(object::tensor).transpose()?;
        let wanted = ToOptions {
            non_blocking: truth(if moved && dtype.is_some() { given(&dtype) } else { given(&non_blocking) })?,
            dtype: match (like, moved) {
                (Some(like), _) if like.is_quantized() => same_quantized(own.tensor, like)?,
                (Some(like), _) => Some(like.dtype()),
                (None, true) => number.or_else(|| first.and_then(extract_dtype)),
                (None, false) => given(&dtype).and_then(extract_dtype),
            },
            device: match (like, moved) {
                (Some(like), _) => Some(like.device().into()),
                (None, true) => number.map(|_| Device::Cpu.into()),
                (None, false) => first.map(device_of).transpose()?.or(named),
            },
            // The last flag that was given: `copy` comes after `non_blocking`.
            copy: truth(if moved && copy.is_none() && dtype.is_some() { given(&non_blocking) } else { given(&copy) })?,
            format,
        };
        convert(own, &wanted)
    }
    fn cpu(own, memory_format) "The tensor in host memory." {
        let format = given(&memory_format).map(named_format).transpose()?;
        convert(own, &ToOptions { device: Some(Device::Cpu.into()), format, ..ToOptions::default() })
    }
    fn cuda(own, device, non_blocking = False, memory_format) "The tensor on a CUDA device." {
        let unfit = |argument: &str, kind: &str, given| {
            PyTypeError::new_err(format!("cuda(): argument {argument} must be {kind}, not {}", kind_of(given)))
        };
        if let Some(flag) = &non_blocking && !flag.is_instance_of::<PyBool>() {
            return Err(unfit("'non_blocking'", "bool", flag));
        }
        let non_blocking = truth(given(&non_blocking))?;
        let format = given(&memory_format).map(named_format).transpose()?;
        let device = match given(&device) {
            None => Device::Cuda(rushlight_cuda::card::current()).into(),
            Some(device) => read_device(device)?.ok_or_else(|| unfit("'device' (position 1)", "torch.device", device))?,
        };
        if !matches!(device.device, Device::Cuda(_)) {
            return Err(PyRuntimeError::new_err("Invalid device, must be cuda device"));
        }
        convert(own, &ToOptions { device: Some(device), non_blocking, format, ..ToOptions::default() })
    }
    fn type_as(own, other = required) "The tensor in another tensor's dtype and on its device." {
        let other = other.ok_or_else(|| PyTypeError::new_err(parse::missing("type_as", &["other"])))?;
        let like = object::tensor(&other)?;
        let dtype = if like.is_quantized() { same_quantized(own.tensor, like)? } else { Some(like.dtype()) };
        convert(own, &ToOptions { dtype, device: Some(like.device().into()), ..ToOptions::default() })
    }
    fn r#type(own, dtype, non_blocking = False) "The name of the tensor's type, or the tensor in another type." {
        let _ = non_blocking;
        let Some(dtype) = given(&dtype) else {
            if own.tensor.compressed_parts().is_some() {
                return Err(PyRuntimeError::new_err(format!("Unimplemented backend {}", backend(own.tensor))));
            }
            return own.give(type_name(own.tensor));
        };
        // Unlike elsewhere, Python's types of numbers are no dtypes here.
        let class = dtype.cast::<PyType>().ok();
        if class.is_none() && let Some(dtype) = extract_dtype(dtype) {
            return convert(own, &ToOptions::dtype(dtype));
        }
        let text = match (dtype.getattr("_type_name"), class) {
            (Ok(name), _) => name.extract::<String>()?,
            (_, Some(class)) if class.as_ptr() == object::class().cast() => "torch.Tensor".to_owned(),
            (_, Some(class)) => class.name()?.extract::<String>()?,
            _ => dtype.extract::<String>().map_err(|_| PyTypeError::new_err("dtype must be a type, str, or dtype object"))?,
        };
        let known = legacy_type(&text).ok_or_else(|| PyValueError::new_err(format!("invalid type: '{text}'")))?;
        convert(own, &ToOptions { dtype: Some(known.0), device: Some(known.1.into()), ..ToOptions::default() })
    }
    fn new_tensor(own, data = required, dtype, device, requires_grad = False, pin_memory = False) "A new tensor from Python data, with this tensor's dtype and device." {
        let data = data.ok_or_else(|| PyTypeError::new_err(parse::missing("new_tensor", &["data"])))?;
        if own.tensor.compressed_parts().is_some() {
            return Err(PyRuntimeError::new_err(format!(
                "Cannot map DispatchKey {} to a unique layout.",
                backend(own.tensor)
            )));
        }
        let dtype = given(&dtype).map(dtype_of).transpose()?.unwrap_or(own.tensor.dtype());
        let device = given(&device).map_or(Ok(own.tensor.device()), |device| device_of(device)?.reachable())?;
        let page_locked = create::wants_page_locked(truth(given(&pin_memory))?, device).map_err(raise)?;
        let made = crate::functions::copied(&data, Some(dtype), "tensor.new_tensor")?;
        let made = match page_locked {
            true => create::moved_to_page_locked(&made),
            false => rushlight::convert::to_device(&made, device),
        }
        .map_err(raise)?;
        create::ask_gradient(&made, truth(given(&requires_grad))?).map_err(raise)?;
        own.wrap(made)
    }
    fn float(own, memory_format) "The tensor in float32." { to_dtype(own, DType::F32, memory_format) }
    fn double(own, memory_format) "The tensor in float64." { to_dtype(own, DType::F64, memory_format) }
    fn half(own, memory_format) "The tensor in float16." { to_dtype(own, DType::F16, memory_format) }
    fn bfloat16(own, memory_format) "The tensor in bfloat16." { to_dtype(own, DType::BF16, memory_format) }
    fn chalf(own, memory_format) "The tensor in complex32." { to_dtype(own, DType::C32, memory_format) }
    fn cfloat(own, memory_format) "The tensor in complex64." { to_dtype(own, DType::C64, memory_format) }
    fn cdouble(own, memory_format) "The tensor in complex128." { to_dtype(own, DType::C128, memory_format) }
    fn byte(own, memory_format) "The tensor in uint8." { to_dtype(own, DType::U8, memory_format) }
    fn char(own, memory_format) "The tensor in int8." { to_dtype(own, DType::I8, memory_format) }
    fn short(own, memory_format) "The tensor in int16." { to_dtype(own, DType::I16, memory_format) }
    fn int(own, memory_format) "The tensor in int32." { to_dtype(own, DType::I32, memory_format) }
    fn long(own, memory_format) "The tensor in int64." { to_dtype(own, DType::I64, memory_format) }
    fn bool(own, memory_format) "The tensor in bool." { to_dtype(own, DType::Bool, memory_format) }
}

fn to_dtype<'py>(own: &Own<'_, 'py>, dtype: DType, format: Option<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let format = given(&format).map(named_format).transpose()?;
    convert(own, &ToOptions { dtype: Some(dtype), format, ..ToOptions::default() })
}
