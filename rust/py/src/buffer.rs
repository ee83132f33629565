//! The buffer protocol: other objects' memory under tensors, and tensors' memory under other objects.

use std::ffi::c_int;

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_core::storage::Exported as Shown;

use crate::errors::raise;
use crate::foreign_buffer::{Buffer, block_over};
use crate::memory_access::exportable;
use crate::object;

/// The bytes of an object with a buffer as a one-dimensional tensor over the same memory.
pub fn import(object: &Bound<'_, PyAny>, dtype: DType, count: isize, offset: isize) -> PyResult<Tensor> {
    // SAFETY: a living object; the check reads its type.
    if unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) } == 0 {
        return Err(PyValueError::new_err("object does not implement Python buffer protocol."));
    }
    let buffer = Buffer::get(object, ffi::PyBUF_SIMPLE)
        .map_err(|error| PyRuntimeError::new_err(format!("could not retrieve buffer from object\n{error}")))?;
    let (length, width) = (buffer.view().len, dtype.size() as isize);
    if length == 0 || count == 0 {
        return Err(PyValueError::new_err(format!("both buffer length ({length}) and count ({count}) must not be 0")));
    }
    if offset < 0 || offset >= length {
        return Err(PyValueError::new_err(format!(
            "offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )));
    }
    let rest = length - offset;
    if count < 0 && rest % width != 0 {
        return Err(PyValueError::new_err(format!(
            "buffer length ({rest} bytes) after offset ({offset} bytes) must be a multiple of element size ({width})"
        )));
    }
    let count = if count < 0 { rest / width } else { count };
    if count.checked_mul(width).is_none_or(|bytes| bytes > rest) {
        return Err(PyValueError::new_err(format!(
            "requested buffer length ({count} * {width} bytes) after offset ({offset} bytes) must not be greater than actual buffer length ({length} bytes)"
        )));
    }
    // SAFETY: the range lies within the buffer.
    let block = unsafe {
        let start = buffer.view().buf.cast::<u8>().offset(offset);
        block_over(object, buffer, start, (count * width) as usize)?
    };
    Ok(Tensor::new(Storage::new(block), Layout::contiguous(&[count]), dtype, Device::Cpu))
}

/// A storage's bytes as an object with a buffer, which NumPy arrays over tensors hold.
#[pyclass(frozen, module = "rushlight._C")]
pub struct Memory {
    /// Keeps the bytes in place; declared first, so that it is dropped before the storage it points into.
    pin: Pinned,
    _storage: Storage,
}

struct Pinned(Shown<'static>);
// SAFETY: a pin is a count and a pointer to a block that threads share.
unsafe impl Send for Pinned {}
// SAFETY: see above.
unsafe impl Sync for Pinned {}

impl Memory {
    pub fn of(storage: &Storage) -> PyResult<Memory> {
        let storage = storage.clone();
        let pin = storage.export().map_err(raise)?;
        // SAFETY: the pin points into the storage's shared part, which the other field keeps alive.
        let pin = unsafe { std::mem::transmute::<Shown<'_>, Shown<'static>>(pin) };
        Ok(Memory { pin: Pinned(pin), _storage: storage })
    }
}

#[pymethods]
impl Memory {
    /// # Safety
    /// Only the interpreter calls it, with a view to fill in.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (pointer, bytes, read_only) = {
            let pin = slf.get().pin.0.pin();
            (pin.as_ptr(), pin.block().len(), slf.get()._storage.is_read_only())
        };
        // SAFETY: CPython gives memory for the result; the object keeps the bytes in place.
        let failed = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer.cast(), bytes as isize, c_int::from(read_only), flags)
        };
        if failed != 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}

/// State of a tensor's buffer while a view of it exists.
struct Exported {
    /// The sizes, followed by the strides in bytes.
    dims: Vec<ffi::Py_ssize_t>,
    _memory: Memory,
}

/// Fills in a view of the tensor's own elements.
///
/// # Safety
/// `view` is memory for the result, from CPython's buffer protocol.
pub unsafe fn export(own: &Bound<'_, PyAny>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    let tensor = object::tensor(own)?;
    let refuse = |why: &str| Err(PyBufferError::new_err(why.to_owned()));
    if let Err(error) = exportable(tensor) {
        return refuse(&error.value(own.py()).to_string());
    }
    let Some(format) = format(tensor.dtype()) else {
        return refuse(&format!("{} has no code in the buffer protocol", tensor.dtype().name()));
    };
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
    dims.extend(layout.strides_in(width));
    let mut exported = Box::new(Exported { dims, _memory: Memory::of(tensor.storage())? });
    let start = exported._memory.pin.0.pin().as_ptr();
    let sizes = exported.dims.as_mut_ptr();
    // SAFETY: guaranteed by the caller (see `# Safety`); the memory that the view points to lives in `exported` until
    // the view is released.
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
/// `view` was filled in by `export`.
pub unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: guaranteed by the caller (see `# Safety`); CPython releases a view once.
    unsafe { drop(Box::from_raw((*view).internal.cast::<Exported>())) };
}

/// The codes of 64-bit integers: C's `long` if it has 64 bits, because that is NumPy's `int64` then.
const LONG: (&std::ffi::CStr, &std::ffi::CStr) =
    if size_of::<std::ffi::c_long>() == 8 { (c"l", c"L") } else { (c"q", c"Q") };

fn format(dtype: DType) -> Option<&'static std::ffi::CStr> {
    Some(match dtype {
        DType::U8 => c"B",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => LONG.0,
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => LONG.1,
        DType::F16 => c"e",
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::C64 => c"Zf",
        DType::C128 => c"Zd",
        DType::Bool => c"?",
        _ => return None,
    })
}
