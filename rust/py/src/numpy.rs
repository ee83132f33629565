//! NumPy arrays in and out without a copy, and without NumPy being imported before somebody uses it.
//!
//! In: the array's buffer becomes a storage that keeps the array alive. Out: a NumPy array over `Memory`, an object that
//! keeps the tensor's bytes alive and in place.

use std::ffi::c_int;

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_core::layout::Dims;
use rushlight_core::storage::{Block, Pin};

use crate::object;
use crate::reclaim::{Keep, Owned};

/// What is needed of NumPy, found once.
struct Numpy {
    array: Py<PyType>,
    scalar: Py<PyType>,
    /// NumPy's own objects for the dtypes that both have.
    dtypes: Vec<(Py<PyAny>, DType)>,
}

static NUMPY: PyOnceLock<Numpy> = PyOnceLock::new();

fn find(py: Python<'_>) -> PyResult<Numpy> {
    let module = py.import("numpy")?;
    let class = |name: &str| -> PyResult<Py<PyType>> { Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind()) };
    let shared = DType::ALL.into_iter().filter(|dtype| *dtype != DType::BF16);
    let dtypes = shared.map(|dtype| Ok((module.getattr("dtype")?.call1((dtype.name(),))?.unbind(), dtype)));
    Ok(Numpy { array: class("ndarray")?, scalar: class("generic")?, dtypes: dtypes.collect::<PyResult<_>>()? })
}

fn numpy(py: Python<'_>) -> PyResult<&'static Numpy> {
    NUMPY.get_or_try_init(py, || find(py))?;
    NUMPY.get(py).ok_or_else(|| PyRuntimeError::new_err("NumPy is not available"))
}

/// NumPy, if the program uses it already.
fn loaded(py: Python<'_>) -> PyResult<Option<&'static Numpy>> {
    if let Some(numpy) = NUMPY.get(py) {
        return Ok(Some(numpy));
    }
    let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?.cast_into::<PyDict>()?;
    if modules.contains(intern!(py, "numpy"))? { numpy(py).map(Some) } else { Ok(None) }
}

pub fn is_array(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    loaded(object.py())?.map_or(Ok(false), |numpy| object.is_instance(numpy.array.bind(object.py())))
}

/// Whether the first element of a list or tuple is an array.
pub fn is_array_inside(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    if loaded(data.py())?.is_none() || !data.is_instance_of::<pyo3::types::PyList>() || data.len()? == 0 {
        return Ok(false);
    }
    is_array(&data.get_item(0)?)
}

pub fn is_scalar(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    loaded(object.py())?.map_or(Ok(false), |numpy| object.is_instance(numpy.scalar.bind(object.py())))
}

/// The dtype of a NumPy scalar or array.
pub fn scalar_dtype(object: &Bound<'_, PyAny>) -> PyResult<Option<DType>> {
    if is_scalar(object)? || is_array(object)? {
        return dtype_of(object).map(Some);
    }
    Ok(None)
}

/// A NumPy object's dtype as ours, or torch's error.
fn dtype_of(array: &Bound<'_, PyAny>) -> PyResult<DType> {
    let py = array.py();
    let own = array.getattr(intern!(py, "dtype"))?;
    let known = &numpy(py)?.dtypes;
    if let Some((_, dtype)) = known.iter().find(|(theirs, _)| own.is(theirs)) {
        return Ok(*dtype);
    }
    for (theirs, dtype) in known {
        if own.eq(theirs)? {
            return Ok(*dtype);
        }
    }
    let kind = own.getattr(intern!(py, "type"))?;
    if kind.getattr(intern!(py, "__name__"))?.extract::<String>()? == "bfloat16" {
        return Ok(DType::BF16);
    }
    if !own.getattr("isnative")?.extract::<bool>()? {
        return Err(PyValueError::new_err(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is currently not supported.",
        ));
    }
    let name = kind.cast::<PyType>()?.fully_qualified_name()?;
    Err(PyTypeError::new_err(format!(
        "can't convert np.ndarray of type {name}. The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
    )))
}

/// A buffer that is held until the storage over it dies.
pub struct Held(Box<ffi::Py_buffer>);

// SAFETY: released attached, see `reclaim`.
unsafe impl Send for Held {}

impl Owned for Held {
    fn end(mut self: Box<Self>, _: Python<'_>) {
        // SAFETY: filled by `PyObject_GetBuffer`, released once.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.0) };
    }
}

impl Held {
    pub fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Held> {
        let mut view: Box<ffi::Py_buffer> = Box::new(ffi::Py_buffer::new());
        // SAFETY: a living object and memory for the answer.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Held(view))
    }

    pub fn view(&self) -> &ffi::Py_buffer {
        &self.0
    }
}

/// An array as a tensor over the same bytes. Negative strides stay, and what was read-only stays so.
pub fn import(array: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let dtype = dtype_of(array)?;
    let plain = match dtype {
        DType::BF16 => array.call_method1("view", ("uint16",))?,
        _ => array.clone(),
    };
    let held = Held::get(&plain, ffi::PyBUF_STRIDES)?;
    let view = held.view();
    let rank = view.ndim as usize;
    let width = dtype.size() as isize;
    let dims = |pointer: *const isize| -> Dims {
        // SAFETY: a buffer with strides has `ndim` sizes and as many strides.
        if rank == 0 { Dims::new() } else { unsafe { std::slice::from_raw_parts(pointer, rank) }.into() }
    };
    let (sizes, mut strides) = (dims(view.shape), dims(view.strides));
    if sizes.iter().zip(&strides).any(|(size, stride)| *size > 1 && stride % width != 0) {
        return Err(PyValueError::new_err(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.",
        ));
    }
    strides.iter_mut().for_each(|stride| *stride /= width);
    let mut layout = Layout { sizes, strides, offset: 0 };
    let (low, high) = layout.span().unwrap_or((0, -1));
    layout.offset = -low;
    let bytes = (high + 1 - low) * width;
    let read_only = view.readonly != 0;
    // SAFETY: NumPy says that every element lies in the array's memory, which the held buffer keeps alive.
    let block = unsafe {
        let start = view.buf.cast::<u8>().offset(low * width);
        Block::foreign(start, bytes as usize, read_only, Box::new(Keep::new(held)))
    };
    Ok(Tensor::new(Storage::new(block), layout, dtype, Device::Cpu))
}

/// A storage's bytes as an object with a buffer; what NumPy arrays over tensors hold on to.
#[pyclass(frozen, module = "rushlight._C")]
pub struct Memory {
    /// Keeps the bytes in place; declared first, so that it ends before the storage it points into.
    pin: Pinned,
    _storage: Storage,
}

struct Pinned(Pin<'static>);
// SAFETY: a pin is a count and a pointer to a block that threads share.
unsafe impl Send for Pinned {}
// SAFETY: see above.
unsafe impl Sync for Pinned {}

impl Memory {
    pub fn of(storage: &Storage) -> Memory {
        let storage = storage.clone();
        // SAFETY: the pin points into the storage's shared part, which the field beside it keeps alive.
        let pin = unsafe { std::mem::transmute::<Pin<'_>, Pin<'static>>(storage.pin()) };
        Memory { pin: Pinned(pin), _storage: storage }
    }
}

#[pymethods]
impl Memory {
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (pointer, bytes, read_only) = {
            let pin = &slf.get().pin.0;
            (pin.as_ptr(), pin.block().len(), slf.get()._storage.is_read_only())
        };
        // SAFETY: CPython gives memory for the answer; the object keeps the bytes in place.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer.cast(), bytes as isize, c_int::from(read_only), flags)
        };
        if failed != 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}

/// Refuses what NumPy cannot see, in torch's words.
fn exportable(tensor: &Tensor) -> PyResult<()> {
    if tensor.device() != Device::Cpu {
        return Err(PyTypeError::new_err(format!(
            "can't convert {} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.",
            tensor.device()
        )));
    }
    if tensor.requires_grad() {
        return Err(PyRuntimeError::new_err(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
        ));
    }
    Ok(())
}

/// The tensor as an array over the same bytes. With `force` a copy is made where it must, and history is no obstacle.
pub fn export<'py>(py: Python<'py>, tensor: &Tensor, force: bool) -> PyResult<Bound<'py, PyAny>> {
    if !force || tensor.device() != Device::Cpu {
        exportable(tensor)?;
    }
    let numpy = numpy(py)?;
    let dtype = match numpy.dtypes.iter().find(|(_, dtype)| *dtype == tensor.dtype()) {
        Some((theirs, _)) => theirs.bind(py).clone(),
        None => py
            .import("ml_dtypes")
            .and_then(|module| module.getattr("bfloat16"))
            .map_err(|_| PyTypeError::new_err("Got unsupported ScalarType BFloat16"))?,
    };
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let memory = Bound::new(py, Memory::of(tensor.storage()))?;
    let strides = PyTuple::new(py, layout.strides.iter().map(|stride| stride * width))?;
    let sizes = PyTuple::new(py, &layout.sizes)?;
    numpy.array.bind(py).call1((sizes, dtype, memory, layout.offset * width, strides))
}

/// The array interface, version 3.
pub fn interface<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    exportable(tensor)?;
    let layout = tensor.layout();
    let width = tensor.dtype().size() as isize;
    let dict = PyDict::new(py);
    dict.set_item("version", 3)?;
    dict.set_item("typestr", typestr(tensor.dtype())?)?;
    dict.set_item("shape", PyTuple::new(py, &layout.sizes)?)?;
    dict.set_item("strides", PyTuple::new(py, layout.strides.iter().map(|stride| stride * width))?)?;
    dict.set_item("data", (crate::methods::address(tensor), tensor.storage().is_read_only()))?;
    Ok(dict.into_any())
}

fn typestr(dtype: DType) -> PyResult<String> {
    let kind = match dtype {
        DType::Bool => "|b",
        DType::U8 => "|u",
        DType::I8 => "|i",
        DType::BF16 => return Err(PyTypeError::new_err("Got unsupported ScalarType BFloat16")),
        _ if dtype.is_complex() => "<c",
        _ if dtype.is_floating() => "<f",
        _ if dtype.is_signed() => "<i",
        _ => "<u",
    };
    Ok(format!("{kind}{}", dtype.size()))
}

/// What a tensor's buffer needs while somebody looks at it.
struct Exported {
    /// Byte strides behind the sizes.
    dims: Vec<ffi::Py_ssize_t>,
    _memory: Memory,
}

/// Fills in a view of the tensor's own elements.
///
/// # Safety
/// `view` is memory for the answer, as CPython's buffer protocol gives it.
pub unsafe fn get_buffer(own: &Bound<'_, PyAny>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    let tensor = object::tensor(own)?;
    let refuse = |why: &str| Err(PyBufferError::new_err(why.to_owned()));
    if let Err(error) = exportable(tensor) {
        return refuse(&error.value(own.py()).to_string());
    }
    let Some(format) = format(tensor.dtype()) else { return refuse("bfloat16 has no code in the buffer protocol") };
    let layout = tensor.layout();
    let read_only = tensor.storage().is_read_only();
    if flags & ffi::PyBUF_WRITABLE != 0 && read_only {
        return refuse("the tensor's memory is read-only");
    }
    let fortran = || layout.permute(&(0..layout.rank()).rev().collect::<Vec<_>>()).is_contiguous();
    let asks = |flag: c_int| flags & flag == flag;
    let contiguous = layout.is_contiguous();
    let fits = match () {
        () if asks(ffi::PyBUF_ANY_CONTIGUOUS) => contiguous || fortran(),
        () if asks(ffi::PyBUF_C_CONTIGUOUS) => contiguous,
        () if asks(ffi::PyBUF_F_CONTIGUOUS) => fortran(),
        () => asks(ffi::PyBUF_STRIDES) || contiguous,
    };
    if !fits {
        return refuse("the tensor is not contiguous; tensor.contiguous() is");
    }
    let width = tensor.dtype().size() as isize;
    let mut dims = layout.sizes.to_vec();
    dims.extend(layout.strides.iter().map(|stride| stride * width));
    let mut exported = Box::new(Exported { dims, _memory: Memory::of(tensor.storage()) });
    let start = exported._memory.pin.0.as_ptr();
    let sizes = exported.dims.as_mut_ptr();
    // SAFETY: by the caller's word; what the view points to lives in `exported` until the view is released.
    unsafe {
        (*view).buf = start.wrapping_offset(layout.offset * width).cast();
        (*view).len = layout.numel() as isize * width;
        (*view).itemsize = width;
        (*view).readonly = c_int::from(read_only);
        (*view).ndim = layout.rank() as c_int;
        (*view).format = if asks(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { std::ptr::null_mut() };
        (*view).shape = if asks(ffi::PyBUF_ND) { sizes } else { std::ptr::null_mut() };
        (*view).strides = if asks(ffi::PyBUF_STRIDES) { sizes.add(layout.rank()) } else { std::ptr::null_mut() };
        (*view).suboffsets = std::ptr::null_mut();
        (*view).internal = Box::into_raw(exported).cast();
        (*view).obj = own.clone().into_ptr();
    }
    Ok(())
}

/// # Safety
/// `view` was filled in by `get_buffer`.
pub unsafe fn release_buffer(view: *mut ffi::Py_buffer) {
    // SAFETY: by the caller's word; CPython releases a view once.
    unsafe { drop(Box::from_raw((*view).internal.cast::<Exported>())) };
}

fn format(dtype: DType) -> Option<&'static std::ffi::CStr> {
    Some(match dtype {
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"q",
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
        DType::Bool => c"?",
        DType::BF16 => return None,
    })
}
