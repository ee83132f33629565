//! `torch.dtype`, `torch.device` and so on: small immutable values, with one object for each dtype.

use std::cell::{Cell, RefCell};
use std::fmt;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use rushlight::quantized::convert::{STORED, display_name as quantized_name};
use rushlight::{DType, Device, Tensor};

use crate::errors::{kind_of, raise};
use crate::{errors, scalars};

/// The type of a tensor's elements, such as `torch.float32`.
///
/// >>> torch.float32.itemsize, torch.int8.is_floating_point, torch.int8.is_signed
/// (4, False, True)
#[pyclass(frozen, name = "dtype", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub struct PyDType {
    pub dtype: DType,
    /// Whether the elements are numbers for which integers of `dtype` are stored, as in `torch.quint8`.
    pub quantized: bool,
}

#[pymethods]
impl PyDType {
    fn __repr__(&self) -> String {
        if self.quantized { format!("torch.q{}", self.dtype.name()) } else { self.dtype.to_string() }
    }

    fn __reduce__(&self) -> String {
        if self.quantized { format!("q{}", self.dtype.name()) } else { self.dtype.name().to_owned() }
    }

    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.dtype.size()
    }

    #[getter]
    fn is_floating_point(&self) -> bool {
        self.dtype.is_floating()
    }

    #[getter]
    fn is_complex(&self) -> bool {
        self.dtype.is_complex()
    }

    #[getter]
    fn is_signed(&self) -> PyResult<bool> {
        if self.quantized {
            return Err(PyRuntimeError::new_err("isSignedType not supported for quantized types"));
        }
        Ok(self.dtype.is_signed())
    }

    #[pyo3(name = "to_complex")]
    fn complex(&self) -> PyResult<Py<PyDType>> {
        if self.quantized || !self.dtype.is_differentiable() || self.dtype.is_float8() {
            let name = if self.quantized { quantized_name(self.dtype) } else { self.dtype.display_name() };
            return Err(PyRuntimeError::new_err(format!("Unknown Complex ScalarType for {name}")));
        }
        Python::attach(|py| dtype_object(py, self.dtype.to_complex()))
    }

    #[pyo3(name = "to_real")]
    fn real(&self) -> PyResult<Py<PyDType>> {
        Python::attach(|py| match self.quantized {
            true => quantized_dtype_object(py, self.dtype),
            false => dtype_object(py, self.dtype.to_real()),
        })
    }
}

static OBJECTS: [PyOnceLock<Py<PyDType>>; DType::ALL.len()] = [const { PyOnceLock::new() }; DType::ALL.len()];

/// The only object of a dtype.
pub fn dtype_object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    OBJECTS[dtype as usize]
        .get_or_try_init(py, || Py::new(py, PyDType { dtype, quantized: false }))
        .map(|object| object.clone_ref(py))
}

/// The only object of the quantised dtype whose integers have this dtype.
pub fn quantized_dtype_object(py: Python<'_>, dtype: DType) -> PyResult<Py<PyDType>> {
    static OBJECTS: [PyOnceLock<Py<PyDType>>; STORED.len()] = [const { PyOnceLock::new() }; STORED.len()];
    let place = STORED.iter().position(|own| *own == dtype).unwrap_or(0);
    OBJECTS[place]
        .get_or_try_init(py, || Py::new(py, PyDType { dtype: STORED[place], quantized: true }))
        .map(|object| object.clone_ref(py))
}

/// The dtype of a tensor, quantised or not.
pub fn dtype_of(py: Python<'_>, tensor: &Tensor) -> PyResult<Py<PyDType>> {
    match tensor.is_quantized() {
        true => quantized_dtype_object(py, tensor.dtype()),
        false => dtype_object(py, tensor.dtype()),
    }
}

/// The dtype of the integers of a quantised dtype.
pub fn extract_quantized(object: &Bound<'_, PyAny>) -> Option<DType> {
    object.cast::<PyDType>().ok().map(|dtype| *dtype.get()).filter(|dtype| dtype.quantized).map(|dtype| dtype.dtype)
}

/// The error for a dtype that no tensor has, such as `torch.uint4` (`_unsupported_dtypes.py`).
pub fn refused_dtype(object: &Bound<'_, PyAny>) -> Option<PyErr> {
    let refusal = object.getattr(intern!(object.py(), "_refusal")).ok()?;
    refusal.call0().ok().map(PyErr::from_value)
}

/// Reads a dtype: a `torch.dtype`, or Python's `float`, `int`, `bool`, `complex`.
pub fn extract_dtype(object: &Bound<'_, PyAny>) -> Option<DType> {
    if let Ok(dtype) = object.cast::<PyDType>() {
        return Some(dtype.get()).filter(|dtype| !dtype.quantized).map(|dtype| dtype.dtype);
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

/// The device of a tensor; as a context manager, the device of new tensors.
///
/// Args:
///     type: ``"cpu"``, ``"cuda"``, ``"meta"`` and others, with a number after a colon, or another device.
///     index: the number, given separately.
///
/// Raises:
///     RuntimeError: the name is unknown, or there are two numbers.
///
/// >>> torch.device("cuda:1").index, torch.zeros(1).device
/// (1, device(type='cpu'))
#[pyclass(frozen, name = "device", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub struct PyDevice {
    pub device: Device,
    index: Option<u8>,
}

impl From<Device> for PyDevice {
    fn from(device: Device) -> Self {
        let index = if let Device::Cuda(index) = device { Some(index) } else { None };
        PyDevice { device, index }
    }
}

impl PyDevice {
    /// The device of a tensor that is put there: the current one, if the number of a CUDA device is not given.
    pub fn placed(&self) -> Device {
        match (self.device, self.index) {
            (Device::Cuda(_), None) => Device::Cuda(rushlight_cuda::card::current()),
            (device, _) => device,
        }
    }

    /// The device for a tensor that moves there; torch's error if there is no support for it.
    pub fn reachable(self) -> PyResult<Device> {
        match self.device {
            Device::Unsupported(unsupported) => Err(raise(unsupported.refusal_of_move(self.index.is_some()))),
            _ => Ok(self.placed()),
        }
    }

    /// Whether it has a number, as `cpu:0`, which no tensor's device has: moving a tensor to it makes a copy on `cpu`.
    pub fn is_numbered(&self) -> bool {
        self.index.is_some() && !matches!(self.device, Device::Cuda(_))
    }
}

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (*args, **kwargs), text_signature = "(type=None, index=None)")]
    fn new(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let count = kwargs.map_or(0, |named| named.len());
        let argument = |place: usize, name: &str| match kwargs {
            Some(named) if place >= args.len() => named.get_item(name),
            _ => Ok(args.get_item(place).ok()),
        };
        // One argument may be a device in any of its forms.
        if args.len() + count == 1
            && let Some(device) = argument(0, "device")?
            && let Some(device) = read_device(&device)?
        {
            return Ok(device);
        }
        let (kind, index) = (argument(0, "type")?, argument(1, "index")?);
        let known = usize::from(kind.is_some()) + usize::from(index.is_some());
        let index = index.filter(|index| !index.is_none());
        let text = match kind {
            Some(text) if known == args.len() + count => match (text_of(&text)?, &index) {
                (Some(text), _) => text,
                (None, Some(_)) => return Err(not_accepted("type", 1, "str", &text)),
                (None, None) => return Err(no_form_of_device(args, kwargs)),
            },
            _ => return Err(no_form_of_device(args, kwargs)),
        };
        let index = match index {
            Some(object) => match scalars::plain_int(&object).map_err(too_wide)? {
                Some(index) => Some(ordinal(index)?),
                None => return Err(not_accepted("index", 2, "int", &object)),
            },
            None => None,
        };
        let named = named(&text)?;
        match (named.index, index) {
            (Some(_), Some(_)) => Err(PyRuntimeError::new_err(format!(
                "type (string) must not include an index because index was passed explicitly: {text}"
            ))),
            (None, Some(index)) => {
                let device = if let Device::Cuda(_) = named.device { Device::Cuda(index) } else { named.device };
                Ok(PyDevice { device, index: Some(index) })
            }
            (_, None) => Ok(named),
        }
    }

    #[getter]
    fn r#type(&self) -> &'static str {
        self.device.kind()
    }

    #[getter]
    fn index(&self) -> Option<u8> {
        self.index
    }

    fn __repr__(&self) -> String {
        match self.index {
            Some(index) => format!("device(type='{}', index={index})", self.device.kind()),
            None => format!("device(type='{}')", self.device.kind()),
        }
    }

    fn __str__(&self) -> String {
        self.to_string()
    }

    /// Within a `with` block new tensors are created on this device, unless another is given.
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        let before = set_default_device(Some(*slf.get()));
        ENTERED.with_borrow_mut(|entered| entered.push(before));
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) {
        set_default_device(ENTERED.with_borrow_mut(Vec::pop).flatten());
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, (String,)) {
        (py.get_type::<PyDevice>().into_any(), (self.to_string(),))
    }
}

impl fmt::Display for PyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.device.kind())?;
        self.index.map_or(Ok(()), |index| write!(f, ":{index}"))
    }
}

thread_local! {
    /// The default devices that the enclosing `with` blocks have replaced.
    static ENTERED: RefCell<Vec<Option<PyDevice>>> = const { RefCell::new(Vec::new()) };
    /// The device on which this thread creates tensors, as it was given; the engine stores it without a number.
    static DEFAULT: Cell<Option<PyDevice>> = const { Cell::new(None) };
}

/// The device on which this thread creates tensors, if one was set.
pub fn default_device() -> Option<PyDevice> {
    DEFAULT.get()
}

/// Sets the device on which this thread creates tensors; returns the previous setting.
pub fn set_default_device(device: Option<PyDevice>) -> Option<PyDevice> {
    rushlight_core::device::set_default_device(device.map(|device| device.placed()));
    DEFAULT.replace(device)
}

static HOST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The object of a device; the CPU always has the same one.
pub fn device_object(py: Python<'_>, device: Device) -> PyResult<Bound<'_, PyAny>> {
    if device != Device::Cpu {
        return Ok(Bound::new(py, PyDevice::from(device))?.into_any());
    }
    let host = HOST.get_or_try_init(py, || Py::new(py, PyDevice::from(device)).map(Py::into_any))?;
    Ok(host.bind(py).clone())
}

/// Reads a device: a `torch.device`, its name as text or bytes, or the index of a CUDA device.
pub fn read_device(object: &Bound<'_, PyAny>) -> PyResult<Option<PyDevice>> {
    if let Ok(device) = object.cast::<PyDevice>() {
        return Ok(Some(*device.get()));
    }
    if let Some(text) = text_of(object)? {
        return named(&text).map(Some);
    }
    let index = scalars::plain_int(object).map_err(too_wide)?;
    Ok(index.map(ordinal).transpose()?.map(|index| Device::Cuda(index).into()))
}

/// Text, which may be given as bytes.
fn text_of(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    if let Ok(text) = object.cast::<PyString>() {
        return text.extract().map(Some);
    }
    Ok(object.cast::<PyBytes>().ok().map(|text| String::from_utf8_lossy(text.as_bytes()).into_owned()))
}

/// torch's error for a number of a device that no int64 holds.
fn too_wide(_: PyErr) -> PyErr {
    PyValueError::new_err("Overflow when unpacking long long")
}

fn not_accepted(name: &str, place: usize, wanted: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let kind = kind_of(object);
    PyTypeError::new_err(format!("device(): argument '{name}' (position {place}) must be {wanted}, not {kind}"))
}

#[cold]
fn no_form_of_device(args: &Bound<'_, PyTuple>, kwargs: Option<&Bound<'_, PyDict>>) -> PyErr {
    let positional = args.iter().map(|object| kind_of(&object));
    let named = kwargs.into_iter().flatten().map(|(name, object)| format!("{name}={}", kind_of(&object)));
    let sentence = errors::invalid_combination("device", positional, named);
    PyTypeError::new_err(format!("{sentence}\n * (torch.device device)\n * (str type, int index = -1)"))
}

/// Reads a device in the form that tensors have.
pub fn extract_device(object: &Bound<'_, PyAny>) -> PyResult<Option<Device>> {
    Ok(read_device(object)?.map(|device| device.placed()))
}

/// torch's error for a conversion to a quantised dtype.
pub fn to_quantized() -> PyErr {
    PyRuntimeError::new_err(
        "empty_strided not supported on quantized tensors yet see https://github.com/pytorch/pytorch/issues/74540",
    )
}

/// A `dtype=` argument.
pub fn wanted_dtype(function: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<DType>> {
    wanted(function, "dtype", object, |object| match (extract_dtype(object), refused_dtype(object)) {
        (None, Some(error)) => Err(error),
        (dtype, _) => Ok(dtype),
    })
}

/// A `device=` argument.
pub fn wanted_device(function: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<PyDevice>> {
    wanted(function, "device", object, read_device)
}

/// The value of an optional argument `name`, which is a `torch.name`.
fn wanted<T>(
    function: &str,
    name: &str,
    object: Option<&Bound<'_, PyAny>>,
    read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<Option<T>>,
) -> PyResult<Option<T>> {
    let Some(object) = object.filter(|object| !object.is_none()) else { return Ok(None) };
    if extract_quantized(object).is_some() {
        return Err(to_quantized());
    }
    read(object)?.map(Some).ok_or_else(|| {
        let kind = kind_of(object);
        PyTypeError::new_err(format!("{function}(): argument '{name}' must be torch.{name}, not {kind}"))
    })
}

/// The device of a name such as `"cpu"` or `"cuda:1"`.
fn named(text: &str) -> PyResult<PyDevice> {
    Device::parse(text).map(|(device, index)| PyDevice { device, index }).map_err(raise)
}

/// The number of a device.
fn ordinal(index: i64) -> PyResult<u8> {
    u8::try_from(index).map_err(|_| {
        PyRuntimeError::new_err(if index < 0 {
            "Device index must not be negative"
        } else {
            "Device index is out of range"
        })
    })
}

/// How a tensor stores its elements, such as `torch.strided` or `torch.sparse_coo`.
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

/// How integers stand for the numbers of a quantised tensor, such as `torch.per_tensor_affine`.
///
/// >>> torch.quantize_per_tensor(torch.ones(1), 0.5, 0, torch.qint8).qscheme()
/// torch.per_tensor_affine
#[pyclass(frozen, name = "qscheme", module = "rushlight", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyQScheme(pub &'static str);

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

named! { PyLayout PyMemoryFormat PyQScheme }

/// No tensor of the engine is jagged: Python makes such tensors of others.
const LAYOUTS: [&str; 7] = ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"];

/// The only object of a layout: programs compare layouts by identity.
pub fn layout_object(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    static OBJECTS: [PyOnceLock<Py<PyAny>>; LAYOUTS.len()] = [const { PyOnceLock::new() }; LAYOUTS.len()];
    let place = LAYOUTS.iter().position(|own| *own == name).unwrap_or(0);
    OBJECTS[place]
        .get_or_try_init(py, || Py::new(py, PyLayout(LAYOUTS[place])).map(Py::into_any))
        .map(|object| object.clone_ref(py))
}

const QSCHEMES: [&str; 5] = [
    "per_tensor_affine",
    "per_channel_affine",
    "per_tensor_symmetric",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
];

/// The only object of a scheme: programs compare schemes by identity.
pub fn qscheme_object(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    static OBJECTS: [PyOnceLock<Py<PyAny>>; QSCHEMES.len()] = [const { PyOnceLock::new() }; QSCHEMES.len()];
    let place = QSCHEMES.iter().position(|own| *own == name).unwrap_or(0);
    OBJECTS[place]
        .get_or_try_init(py, || Py::new(py, PyQScheme(QSCHEMES[place])).map(Py::into_any))
        .map(|object| object.clone_ref(py))
}

pub const MEMORY_FORMATS: [&str; 4] = ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"];

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<PyDType>()?;
    module.add_class::<PyDevice>()?;
    module.add_class::<PyLayout>()?;
    module.add_class::<PyMemoryFormat>()?;
    module.add_class::<PyQScheme>()?;
    for dtype in DType::ALL {
        module.add(dtype.name(), dtype_object(py, dtype)?)?;
    }
    for dtype in STORED {
        module.add(format!("q{}", dtype.name()), quantized_dtype_object(py, dtype)?)?;
    }
    for name in QSCHEMES {
        module.add(name, qscheme_object(py, name)?)?;
    }
    for name in LAYOUTS {
        module.add(name, layout_object(py, name)?)?;
    }
    for name in MEMORY_FORMATS {
        module.add(name, PyMemoryFormat(name))?;
    }
    Ok(())
}
