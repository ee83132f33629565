//! DLPack 1.x: tensors to and from other libraries, over the same memory.
//!
//! A capsule named `dltensor` (old) or `dltensor_versioned` (new) points to a structure that says where the elements are
//! and how to let them go. Who takes the tensor renames the capsule; a capsule that nobody took lets go by itself. The
//! old form cannot say that memory is read-only, so such tensors leave in the new form only.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_core::layout::{Dims, MAX_RANK};
use rushlight_core::storage::Block;

use crate::buffer::Memory;
use crate::errors::{kind_of, raise};
use crate::reclaim::{Keep, Owned};

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Strided {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// The old form.
#[repr(C)]
struct Managed {
    tensor: Strided,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The form since version 1.0.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Strided,
}

const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
const HOST: i32 = 1;
const OLD: &CStr = c"dltensor";
const NEW: &CStr = c"dltensor_versioned";
const OLD_USED: &CStr = c"used_dltensor";
const NEW_USED: &CStr = c"used_dltensor_versioned";

fn code_of(dtype: DType) -> DataType {
    let code = match dtype {
        DType::Bool => 6,
        DType::BF16 => 4,
        _ if dtype.is_complex() => 5,
        _ if dtype.is_floating() => 2,
        _ if dtype.is_signed() => 0,
        _ => 1,
    };
    DataType { code, bits: dtype.size() as u8 * 8, lanes: 1 }
}

fn dtype_of(code: DataType) -> PyResult<DType> {
    let known = |dtype: &DType| {
        let own = code_of(*dtype);
        (own.code, own.bits, own.lanes) == (code.code, code.bits, code.lanes)
    };
    DType::ALL.into_iter().find(known).ok_or_else(|| {
        let DataType { code, bits, lanes } = code;
        PyBufferError::new_err(format!("unsupported DLPack dtype: code {code}, {bits} bits, {lanes} lanes"))
    })
}

/// Where a tensor is, in DLPack's numbers.
pub fn device(tensor: &Tensor) -> PyResult<(i32, i32)> {
    match tensor.device() {
        Device::Cpu => Ok((HOST, 0)),
        Device::Cuda(index) => Ok((2, i32::from(index))),
        Device::Meta => Err(PyValueError::new_err("Unknown device type meta for Dlpack")),
    }
}

/// A tensor on its way out: the structure, and what it points to. The structure stands first: their addresses are one.
#[repr(C)]
struct Export<T> {
    managed: T,
    _dims: Vec<i64>,
    _memory: Memory,
}

/// Ends an export; may be called on any thread.
///
/// # Safety
/// The structure is one that we exported, and nobody uses it any more.
unsafe extern "C" fn end_old(managed: *mut Managed) {
    // SAFETY: the context is the export that the structure stands in; a consumer ends it once.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export<Managed>>())) }
}

/// # Safety
/// The structure is one that we exported, and nobody uses it any more.
unsafe extern "C" fn end_new(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export<Versioned>>())) }
}

/// Lets go of what nobody took.
///
/// # Safety
/// Only the interpreter calls it, with a capsule of ours that dies.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the dying capsule; only one that still has its first name holds a tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, OLD.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, OLD.as_ptr()).cast::<Managed>();
            end_managed(managed);
        } else if ffi::PyCapsule_IsValid(capsule, NEW.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, NEW.as_ptr()).cast::<Versioned>();
            end_versioned(managed);
        }
    }
}

/// # Safety
/// The structure is a producer's, and nobody uses it any more.
unsafe fn end_managed(managed: *mut Managed) {
    // SAFETY: by the caller's word the structure is alive and nobody uses it after this.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

/// # Safety
/// The structure is a producer's, and nobody uses it any more.
unsafe fn end_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

/// `Tensor.__dlpack__`.
pub fn export<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    max_version: Option<Bound<'py, PyAny>>,
    dl_device: Option<Bound<'py, PyAny>>,
    copy: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    if tensor.requires_grad() {
        return Err(PyBufferError::new_err("Can't export tensors that require gradient, use tensor.detach()"));
    }
    if tensor.device() != Device::Cpu {
        return Err(PyBufferError::new_err(format!("Cannot pack tensors on {}", tensor.device())));
    }
    if let Some(wanted) = dl_device.filter(|wanted| !wanted.is_none())
        && wanted.extract::<(i32, i32)>()?.0 != HOST
    {
        return Err(PyBufferError::new_err("cannot move to (device_type: other than the CPU)"));
    }
    let copied = copy.is_some_and(|copy| copy.is_truthy().unwrap_or(false));
    let fresh;
    let tensor = if copied {
        fresh = rushlight::copy::clone(tensor).map_err(raise)?;
        &fresh
    } else {
        tensor
    };
    if tensor.is_mirrored() {
        let bit = if tensor.dtype().is_complex() { "conjugate" } else { "negative" };
        return Err(PyBufferError::new_err(format!("Can't export tensors with the {bit} bit set")));
    }
    let layout = tensor.layout();
    if layout.strides.iter().any(|stride| *stride < 0) {
        return Err(PyBufferError::new_err("DLPack has no negative strides; tensor.contiguous() has none either"));
    }
    let new = match max_version.filter(|version| !version.is_none()) {
        Some(version) => version.extract::<(u32, u32)>()?.0 >= 1,
        None => false,
    };
    let read_only = tensor.storage().is_read_only();
    if read_only && !new {
        return Err(PyBufferError::new_err("a read-only tensor needs DLPack 1.0: max_version=(1, 0)"));
    }
    let mut dims: Vec<i64> = layout.sizes.iter().chain(&layout.strides).map(|n| *n as i64).collect();
    let shape = dims.as_mut_ptr();
    let strided = Strided {
        data: crate::methods::address(tensor) as *mut c_void,
        device_type: HOST,
        device_id: 0,
        ndim: layout.rank() as i32,
        dtype: code_of(tensor.dtype()),
        shape,
        strides: shape.wrapping_add(layout.rank()),
        byte_offset: 0,
    };
    let memory = Memory::of(tensor.storage())?;
    let (pointer, name) = if new {
        let flags = if read_only { READ_ONLY } else { 0 } | if copied { COPIED } else { 0 };
        let managed = Versioned {
            major: 1,
            minor: 1,
            context: std::ptr::null_mut(),
            deleter: Some(end_new),
            flags,
            tensor: strided,
        };
        let export = Box::into_raw(Box::new(Export { managed, _dims: dims, _memory: memory }));
        // SAFETY: the export was just made.
        unsafe { (*export).managed.context = export.cast() };
        (export.cast::<c_void>(), NEW)
    } else {
        let managed = Managed { tensor: strided, context: std::ptr::null_mut(), deleter: Some(end_old) };
        let export = Box::into_raw(Box::new(Export { managed, _dims: dims, _memory: memory }));
        // SAFETY: as above.
        unsafe { (*export).managed.context = export.cast() };
        (export.cast::<c_void>(), OLD)
    };
    // SAFETY: the structure stands first in the export; the result is a new reference or an error.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(pointer, name.as_ptr(), Some(unused))) }
}

/// A structure of another library that lets go of its tensor.
enum Taken {
    Old(*mut Managed),
    New(*mut Versioned),
}

// SAFETY: nothing but its end is left to do, and DLPack allows that on any thread.
unsafe impl Send for Taken {}

impl Owned for Taken {
    fn end(self: Box<Self>, _: Python<'_>) {
        // SAFETY: taken once from its capsule, ended once.
        unsafe {
            match *self {
                Taken::Old(managed) => end_managed(managed),
                Taken::New(managed) => end_versioned(managed),
            }
        }
    }
}

pub fn is_capsule(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object.
    unsafe {
        ffi::PyCapsule_IsValid(object.as_ptr(), OLD.as_ptr()) != 0
            || ffi::PyCapsule_IsValid(object.as_ptr(), NEW.as_ptr()) != 0
    }
}

/// The capsule of a producer; producers that do not know versions get none.
fn capsule_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if is_capsule(object) {
        return Ok(object.clone());
    }
    let Some(producer) = object.getattr_opt(intern!(py, "__dlpack__"))? else {
        let kind = kind_of(object);
        return Err(PyRuntimeError::new_err(format!(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.\n\
             It takes such a capsule, or an object with the method __dlpack__, and got a {kind}."
        )));
    };
    let place: (i32, i32) = object.call_method0(intern!(py, "__dlpack_device__"))?.extract()?;
    if place.0 != HOST {
        return Err(PyBufferError::new_err(format!("from_dlpack: device type {} is not supported", place.0)));
    }
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), (1, 1))?;
    match producer.call((), Some(&keywords)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => producer.call0(),
        result => result,
    }
}

/// A producer's tensor, or a capsule's, over the same memory.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let capsule = capsule_of(object)?;
    let raw = capsule.as_ptr();
    // SAFETY: the capsule's name says what it points to, and renaming it makes the tensor ours.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, NEW.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(raw, NEW.as_ptr()).cast::<Versioned>();
            if (*managed).major != 1 {
                return Err(PyBufferError::new_err(format!("DLPack version {} is not supported", (*managed).major)));
            }
            let read_only = (*managed).flags & READ_ONLY != 0;
            let shape = described(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(raw, NEW_USED.as_ptr());
            Ok(shape.tensor(read_only, Taken::New(managed)))
        } else if ffi::PyCapsule_IsValid(raw, OLD.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(raw, OLD.as_ptr()).cast::<Managed>();
            let shape = described(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(raw, OLD_USED.as_ptr());
            Ok(shape.tensor(false, Taken::Old(managed)))
        } else {
            Err(PyRuntimeError::new_err(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.",
            ))
        }
    }
}

/// What a structure says about its tensor, checked.
struct Described {
    start: *mut u8,
    bytes: usize,
    layout: Layout,
    dtype: DType,
}

impl Described {
    /// # Safety
    /// `taken` keeps the bytes valid.
    unsafe fn tensor(self, read_only: bool, taken: Taken) -> Tensor {
        // SAFETY: by the caller's word.
        let block = unsafe { Block::foreign(self.start, self.bytes, read_only, Box::new(Keep::new(taken))) };
        Tensor::new(Storage::new(block), self.layout, self.dtype, Device::Cpu)
    }
}

/// # Safety
/// The structure is one that a producer filled in.
unsafe fn described(tensor: &Strided) -> PyResult<Described> {
    if tensor.device_type != HOST {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: device type {} is not supported",
            tensor.device_type
        )));
    }
    let dtype = dtype_of(tensor.dtype)?;
    let rank = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
    if rank > MAX_RANK || (rank > 0 && tensor.shape.is_null()) {
        return Err(PyBufferError::new_err(format!("from_dlpack: {} dimensions are not possible", tensor.ndim)));
    }
    let dims = |list: *const i64| -> Dims {
        if rank == 0 {
            Dims::new()
        } else {
            // SAFETY: by the caller's word the list has `ndim` entries.
            unsafe { std::slice::from_raw_parts(list, rank) }.iter().map(|n| *n as isize).collect()
        }
    };
    let sizes = dims(tensor.shape);
    let layout = if tensor.strides.is_null() {
        Layout::contiguous(&sizes)
    } else {
        Layout { strides: dims(tensor.strides), sizes, offset: 0 }
    };
    if layout.strides.iter().zip(&layout.sizes).any(|(stride, size)| *stride < 0 && *size > 1) {
        return Err(PyValueError::new_err("from_dlpack: negative strides are not supported; copy the array first"));
    }
    let bytes = layout.checked_bytes(dtype.size()).map_err(|error| PyBufferError::new_err(error.to_string()))?;
    if bytes > 0 && tensor.data.is_null() {
        return Err(PyBufferError::new_err("from_dlpack: there are elements, but no memory"));
    }
    let start = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    Ok(Described { start, bytes, layout, dtype })
}
