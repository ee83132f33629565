//! `Tensor.to` and its short forms: other dtypes, other devices, other orders in memory.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use rushlight::{DType, Device, Tensor, Value};

use crate::dtype::{PyDType, extract_device, extract_dtype};
use crate::errors::{kind_of, raise};
use crate::methods::{Own, named_format};
use crate::{methods, object};

/// What a conversion asks for.
#[derive(Default)]
struct Wanted {
    dtype: Option<DType>,
    device: Option<Device>,
    copy: bool,
    format: Option<&'static str>,
}

impl Wanted {
    fn dtype(dtype: DType) -> Wanted {
        Wanted { dtype: Some(dtype), ..Wanted::default() }
    }
}

/// The tensor as wanted: the same object where it already is so.
fn convert<'py>(own: &Own<'_, 'py>, wanted: &Wanted) -> PyResult<Bound<'py, PyAny>> {
    let tensor = own.tensor;
    let alike = wanted.dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && wanted.device.is_none_or(|device| device == tensor.device())
        && match wanted.format {
            None | Some("preserve_format") => true,
            format => rushlight::create::constant::is_contiguous(tensor.layout(), format).map_err(raise)?,
        };
    if alike && !wanted.copy {
        return own.same();
    }
    if let Some(dtype) = wanted.dtype {
        rushlight::convert::note_dropped(tensor.dtype(), dtype).map_err(raise)?;
    }
    let format = wanted.format.map_or(Value::None, Value::Str);
    let arguments = [tensor.into(), wanted.dtype.into(), wanted.device.map_or(Value::None, Value::Device), format];
    object::wrap_bound(own.py(), rushlight::convert::TO_DTYPE.tensor(arguments).map_err(raise)?)
}

type Argument<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn given<'a, 'py>(argument: &'a Option<Bound<'py, PyAny>>) -> Argument<'a, 'py> {
    argument.as_ref().filter(|argument| !argument.is_none())
}

fn truth(argument: Argument) -> PyResult<bool> {
    argument.map_or(Ok(false), |flag| flag.is_truthy())
}

fn device_of(object: &Bound<'_, PyAny>) -> PyResult<Device> {
    extract_device(object)?.ok_or_else(|| {
        let kind = kind_of(object);
        PyTypeError::new_err(format!("to() received an invalid combination of arguments - got ({kind})"))
    })
}

fn dtype_of(object: &Bound<'_, PyAny>) -> PyResult<DType> {
    extract_dtype(object).ok_or_else(|| PyTypeError::new_err("to(): argument 'dtype' must be torch.dtype"))
}

/// torch's name of a tensor's type, such as `torch.FloatTensor`.
fn type_name(tensor: &Tensor) -> String {
    let home = if let Device::Cuda(_) = tensor.device() { "torch.cuda" } else { "torch" };
    format!("{home}.{}Tensor", tensor.dtype().title())
}

/// The dtype that a class like `torch.FloatTensor` or its name stands for.
fn legacy_dtype(text: &str) -> Option<DType> {
    let title = text.rsplit('.').next()?.strip_suffix("Tensor")?;
    if title.is_empty() {
        return Some(rushlight_core::dtype::default_dtype());
    }
    DType::ALL.into_iter().find(|dtype| dtype.title() == title)
}

methods! {
    // `to(dtype, ..)`, `to(device, dtype, ..)` and `to(other, ..)` in one: what stands first decides what follows.
    fn to(own, device, dtype, non_blocking = False, copy = False, other, memory_format) "The tensor in another dtype or on another device; itself if it is so already." {
        let mut wanted = Wanted { format: given(&memory_format).map(named_format).transpose()?, ..Wanted::default() };
        let (mut second, mut fourth) = (given(&dtype), given(&copy));
        if let Some(first) = given(&device) {
            let like = object::is_tensor(first);
            if like || first.is_instance_of::<PyDType>() || extract_dtype(first).is_some() {
                if like {
                    let like = object::tensor(first)?;
                    (wanted.dtype, wanted.device) = (Some(like.dtype()), Some(like.device()));
                } else {
                    wanted.dtype = Some(dtype_of(first)?);
                }
                // What would be `dtype` is `non_blocking` here, and so on.
                second = second.filter(|argument| argument.is_instance_of::<PyDType>());
                fourth = fourth.or(given(&non_blocking));
            } else {
                wanted.device = Some(device_of(first)?);
            }
        }
        if let Some(dtype) = second {
            wanted.dtype = Some(dtype_of(dtype)?);
        }
        if let Some(other) = given(&other) {
            let like = object::tensor(other)?;
            (wanted.dtype, wanted.device) = (Some(like.dtype()), Some(like.device()));
        }
        wanted.copy = truth(fourth)?;
        convert(own, &wanted)
    }
    fn cpu(own, memory_format) "The tensor in host memory." {
        let format = given(&memory_format).map(named_format).transpose()?;
        convert(own, &Wanted { device: Some(Device::Cpu), format, ..Wanted::default() })
    }
    fn cuda(own, device, non_blocking = False, memory_format) "The tensor on a card." {
        let _ = (&non_blocking, &memory_format);
        let device = given(&device).map_or(Ok(Device::Cuda(0)), device_of)?;
        if !matches!(device, Device::Cuda(_)) {
            return Err(PyValueError::new_err(format!("Invalid device, must be cuda device but got {device}")));
        }
        convert(own, &Wanted { device: Some(device), ..Wanted::default() })
    }
    fn type_as(own, other = required) "The tensor in another one's dtype and on its device." {
        let other = other.ok_or_else(|| PyTypeError::new_err("type_as() missing 1 required positional arguments: \"other\""))?;
        let like = object::tensor(&other)?;
        convert(own, &Wanted { dtype: Some(like.dtype()), device: Some(like.device()), ..Wanted::default() })
    }
    fn r#type(own, dtype, non_blocking = False) "The name of the tensor's type, or the tensor in another type." {
        let _ = non_blocking;
        let Some(dtype) = given(&dtype) else { return own.give(type_name(own.tensor)) };
        if let Some(dtype) = extract_dtype(dtype) {
            return convert(own, &Wanted::dtype(dtype));
        }
        let text = match dtype.getattr("_type_name") {
            Ok(name) => name.extract::<String>()?,
            Err(_) => dtype.extract::<String>().map_err(|_| PyTypeError::new_err("dtype must be a type, str, or dtype object"))?,
        };
        let known = legacy_dtype(&text).ok_or_else(|| PyValueError::new_err(format!("invalid type: '{text}'")))?;
        convert(own, &Wanted::dtype(known))
    }
    fn new_tensor(own, data = required, dtype, device, requires_grad = False, pin_memory = False) "A new tensor of Python data, with this tensor's dtype and device." {
        let data = data.ok_or_else(|| PyTypeError::new_err("new_tensor() missing 1 required positional arguments: \"data\""))?;
        let dtype = given(&dtype).map(dtype_of).transpose()?.unwrap_or(own.tensor.dtype());
        let device = given(&device).map(device_of).transpose()?.unwrap_or(own.tensor.device());
        rushlight::create::warn_of_pinning(truth(given(&pin_memory))?, device).map_err(raise)?;
        let made = crate::functions::copied(&data, Some(dtype), "tensor.new_tensor")?;
        let made = rushlight::convert::to_device(&made, device).map_err(raise)?;
        rushlight::create::ask_gradient(&made, truth(given(&requires_grad))?).map_err(raise)?;
        own.wrap(made)
    }
    fn float(own, memory_format) "The tensor in float32." { to_dtype(own, DType::F32, memory_format) }
    fn double(own, memory_format) "The tensor in float64." { to_dtype(own, DType::F64, memory_format) }
    fn half(own, memory_format) "The tensor in float16." { to_dtype(own, DType::F16, memory_format) }
    fn bfloat16(own, memory_format) "The tensor in bfloat16." { to_dtype(own, DType::BF16, memory_format) }
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
    convert(own, &Wanted { dtype: Some(dtype), format, ..Wanted::default() })
}
