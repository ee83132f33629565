//! `torch.dtype`, `torch.device` and their kind: small immutable values, one object for each dtype.

use std::cell::RefCell;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyTuple};
use rushlight::{DType, Device};
use rushlight_core::device::set_default_device;

use crate::errors::{kind_of, raise};
use crate::{convert, parse};

/// The type of a tensor's elements, such as `torch.float32`.
///
/// >>> torch.float32.itemsize, torch.int8.is_floating_point, torch.int8.is_signed
/// (4, False, True)
#[pyclass(frozen, name = "dtype", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub struct PyDType(pub DType);

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        self.0.to_string()
    }

    fn __reduce__(&self) -> &'static str {
        self.0.name()
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.0.size()
    }

    #[getter]
    fn is_floating_point(&self) -> bool {
        self.0.is_floating()
    }

    #[getter]
    fn is_complex(&self) -> bool {
        self.0.is_complex()
    }

    #[getter]
    fn is_signed(&self) -> bool {
        self.0.is_signed()
    }

    #[pyo3(name = "to_complex")]
    fn complex(&self) -> PyResult<Py<PyDType>> {
        Python::attach(|py| dtype_object(py, self.0.to_complex()))
    }

    #[pyo3(name = "to_real")]
    fn real(&self) -> PyResult<Py<PyDType>> {
        Python::attach(|py| dtype_object(py, self.0.to_real()))
    }
}

static OBJECTS: [PyOnceLock<Py<PyDType>>; 15] = [const { PyOnceLock::new() }; 15];

/// The one object of a dtype.
pub fn dtype_object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    OBJECTS[dtype as usize].get_or_try_init(py, || Py::new(py, PyDType(dtype))).map(|object| object.clone_ref(py))
}

/// Reads a dtype: a `torch.dtype`, or Python's `float`, `int`, `bool`, `complex`.
pub fn extract_dtype(object: &Bound<'_, PyAny>) -> Option<DType> {
    if let Ok(dtype) = object.cast::<PyDType>() {
        return Some(dtype.get().0);
    }
    let py = object.py();
    if object.is(py.get_type::<pyo3::types::PyFloat>()) {
        Some(DType::F64)
    } else if object.is(py.get_type::<pyo3::types::PyInt>()) {
        Some(DType::I64)
    } else if object.is(py.get_type::<pyo3::types::PyBool>()) {
        Some(DType::Bool)
    } else if object.is(py.get_type::<pyo3::types::PyComplex>()) {
        Some(DType::C128)
    } else {
        None
    }
}

/// Where a tensor lives; in a ``with`` block, where new tensors are made.
///
/// Args:
///     type: ``"cpu"``, ``"cuda"``, ``"meta"`` and others, with a number after a colon, or another device.
///     index: the number, apart.
///
/// Raises:
///     RuntimeError: a name that nobody knows, or two numbers.
///
/// >>> torch.device("cuda:1").index, torch.zeros(1).device
/// (1, device(type='cpu'))
#[pyclass(frozen, name = "device", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub struct PyDevice {
    pub device: Device,
    indexed: bool,
}

impl From<Device> for PyDevice {
    fn from(device: Device) -> Self {
        PyDevice { device, indexed: matches!(device, Device::Cuda(_)) }
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type=None, index=None))]
    fn new(r#type: Option<&Bound<'_, PyAny>>, index: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let wrong = |name: &str, place: usize, title: &str, object: &Bound<'_, PyAny>| {
            let kind = kind_of(object);
            PyTypeError::new_err(format!("device(): argument '{name}' (position {place}) must be {title}, not {kind}"))
        };
        let ordinal = |index: i64| match u8::try_from(index) {
            Ok(index) => Ok(index),
            Err(_) if index < 0 => Err(PyRuntimeError::new_err("Device index must not be negative")),
            Err(_) => Err(PyRuntimeError::new_err("Device index is out of range")),
        };
        let index = match index {
            Some(object) => match convert::int(object)? {
                Some(index) => Some(ordinal(index)?),
                None => return Err(wrong("index", 2, "int", object)),
            },
            None => None,
        };
        let alone = index.is_none();
        let text: String = match r#type {
            Some(device) if alone && device.is_instance_of::<PyDevice>() => {
                return Ok(*device.cast::<PyDevice>()?.get());
            }
            Some(text) if text.is_instance_of::<PyString>() => text.extract()?,
            other => {
                if let (Some(object), true) = (other, alone)
                    && let Some(number) = convert::int(object)?
                {
                    return Ok(PyDevice { device: Device::Cuda(ordinal(number)?), indexed: true });
                }
                if let (Some(object), false) = (other, alone) {
                    return Err(wrong("type", 1, "str", object));
                }
                let kinds = other.into_iter().map(kind_of);
                let sentence = parse::invalid_combination("device", kinds, std::iter::empty());
                return Err(PyTypeError::new_err(format!(
                    "{sentence}\n * (torch.device device)\n * (str type, int index = -1)"
                )));
            }
        };
        let (device, own) = Device::parse(&text).map_err(raise)?;
        match (own, index) {
            (Some(_), Some(_)) => Err(PyRuntimeError::new_err(format!(
                "type (string) must not include an index because index was passed explicitly: {text}"
            ))),
            (None, Some(index)) => {
                let device = if let Device::Cuda(_) = device { Device::Cuda(index) } else { device };
                Ok(PyDevice { device, indexed: true })
            }
            (own, None) => Ok(PyDevice { device, indexed: own.is_some() }),
        }
    }

    #[getter]
    fn r#type(&self) -> &'static str {
        self.device.kind()
    }

    #[getter]
    fn index(&self) -> Option<u8> {
        self.indexed.then_some(match self.device {
            Device::Cuda(index) => index,
            _ => 0,
        })
    }

    fn __repr__(&self) -> String {
        match self.index() {
            Some(index) => format!("device(type='{}', index={index})", self.device.kind()),
            None => format!("device(type='{}')", self.device.kind()),
        }
    }

    fn __str__(&self) -> String {
        match self.index() {
            Some(index) => format!("{}:{index}", self.device.kind()),
            None => self.device.kind().into(),
        }
    }

    /// Within a `with` block new tensors live here, unless they are told otherwise.
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        let before = set_default_device(Some(slf.get().device));
        ENTERED.with_borrow_mut(|entered| entered.push(before));
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        set_default_device(ENTERED.with_borrow_mut(Vec::pop).flatten());
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (String,)) {
        (py.get_type::<PyDevice>().into_any(), (self.__str__(),))
    }
}

thread_local! {
    /// The default devices that the `with` blocks around this point put aside.
    static ENTERED: RefCell<Vec<Option<Device>>> = const { RefCell::new(Vec::new()) };
}

static HOST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The object of a device; for the host always the same.
pub fn device_object(py: Python<'_>, device: Device) -> PyResult<Bound<'_, PyAny>> {
    if device != Device::Cpu {
        return Ok(Bound::new(py, PyDevice::from(device))?.into_any());
    }
    let host = HOST.get_or_try_init(py, || Py::new(py, PyDevice::from(device)).map(Py::into_any))?;
    Ok(host.bind(py).clone())
}

/// Reads a device: a `torch.device`, its name, or a card's number.
pub fn extract_device(object: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(Some(device.get().device));
    }
    if let Ok(text) = object.cast::<pyo3::types::PyString>() {
        return Device::parse(&text.to_cow()?).map(|(device, _)| Some(device)).map_err(raise);
    }
    Ok(object.extract::<u8>().ok().map(Device::Cuda))
}

/// How a tensor holds its elements: `torch.strided`, the only one that tensors have.
///
/// >>> torch.zeros(1).layout
/// torch.strided
#[pyclass(frozen, name = "layout", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyLayout(pub &'static str);

/// The order of a new tensor's elements in memory, such as `torch.contiguous_format`.
///
/// >>> torch.zeros(1, 2, 3, 4).contiguous(memory_format=torch.channels_last).stride()
/// (24, 1, 8, 2)
#[pyclass(frozen, name = "memory_format", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyMemoryFormat(pub &'static str);

macro_rules! named {
    ($($class:ident)*) => {$(
        #[pymethods]
        impl $class {
            fn __repr__(&self) -> String {
                format!("torch.{}", self.0)
            }

            fn __reduce__(&self) -> &'static str {
                self.0
            }
        }
    )*};
}

named! { PyLayout PyMemoryFormat }

/// The one object `torch.strided`: programs compare layouts by identity.
pub fn strided(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static STRIDED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    STRIDED
        .get_or_try_init(py, || Py::new(py, PyLayout("strided")).map(Py::into_any))
        .map(|object| object.clone_ref(py))
}

/// The one object `torch.sparse_coo`.
pub fn sparse_coo(py: Python<'_>) -> PyResult<Py<PyAny>> {
    static SPARSE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    SPARSE
        .get_or_try_init(py, || Py::new(py, PyLayout("sparse_coo")).map(Py::into_any))
        .map(|object| object.clone_ref(py))
}

pub const MEMORY_FORMATS: [&str; 4] = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"];

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDType>()?;
    module.add_class::<PyDevice>()?;
    module.add_class::<PyLayout>()?;
    module.add_class::<PyMemoryFormat>()?;
    for dtype in DType::ALL {
        module.add(dtype.name(), dtype_object(py, dtype)?)?;
    }
    module.add("strided", strided(py)?)?;
    module.add("sparse_coo", sparse_coo(py)?)?;
    for name in MEMORY_FORMATS {
        module.add(name, PyMemoryFormat(name))?;
    }
    Ok(())
}
