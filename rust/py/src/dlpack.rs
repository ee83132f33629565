//! DLPack 1.x: tensors to and from other libraries, over the same memory.
//!
//! A capsule named `dltensor` (old) or `dltensor_versioned` (new) points to a structure that describes the elements and
//! how to free them. A consumer that takes the tensor renames the capsule; a capsule that was not taken frees the
//! tensor itself. The old form has no flag for read-only memory, so such tensors are exported in the new form only.
//!
//! Negative strides are imported as they are, but not exported, because some consumers abort when they see them. Such
//! tensors are exported as copies and marked as such, if the form and the consumer allow it.

use std::ffi::{CStr, c_void};

use pyo3::exceptions::{PyAssertionError, PyBufferError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt};
use pyo3::{ffi, intern};
use rushlight::{DType, Device, Layout, Storage, Tensor};
use rushlight_core::Dims;
use rushlight_core::block::Block;
use rushlight_core::device_memory::StreamId;
use rushlight_core::layout::MAX_RANK;
use rushlight_cuda::stream;
use rushlight_dispatch::{copy, vmap};

use crate::buffer::Memory;
use crate::device_share::{Lent, borrowed};
use crate::errors::{kind_of, raise};
use crate::memory_access;
use crate::reclaim::{DeferredDrop, Owned};

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
const CUDA: i32 = 2;
/// Memory that a CUDA device reads directly: for the host, memory like any other.
const PINNED_HOST: i32 = 3;
const OLD: &CStr = c"dltensor";
const NEW: &CStr = c"dltensor_versioned";
const OLD_USED: &CStr = c"used_dltensor";
const NEW_USED: &CStr = c"used_dltensor_versioned";

fn code_of(dtype: DType) -> DataType {
    let code = match dtype {
        DType::Bool => 6,
        DType::BF16 => 4,
        DType::F8E4M3Fn => 10,
        DType::F8E4M3Fnuz => 11,
        DType::F8E5M2 => 12,
        DType::F8E5M2Fnuz => 13,
        DType::F8E8M0Fnu => 14,
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

/// A tensor's device, in DLPack's numbers. As in torch, programs hear of page-locked memory, and exported structures do not tell.
pub fn device(tensor: &Tensor, for_programs: bool) -> PyResult<(i32, i32)> {
    let is_locked = || !tensor.is_sparse() && tensor.storage().is_page_locked();
    match tensor.device() {
        Device::Cpu if for_programs && is_locked() => Ok((PINNED_HOST, 0)),
        Device::Cpu => Ok((HOST, 0)),
        Device::Cuda(index) => Ok((CUDA, i32::from(index))),
        other => Err(PyValueError::new_err(format!("Unknown device type {} for Dlpack", other.kind()))),
    }
}

/// Whether some stride is negative. Strides of dimensions of one element do not count.
fn steps_back(layout: &Layout) -> bool {
    layout.sizes.iter().zip(&layout.strides).any(|(size, stride)| *size > 1 && *stride < 0)
}

/// An exported tensor: the structure, and the data that it points to. The structure comes first, so that both have the
/// same address.
#[repr(C)]
struct Export<T> {
    managed: T,
    _dims: Vec<i64>,
    _memory: Kept,
}

/// What keeps the elements of an exported tensor in place.
enum Kept {
    Host { _memory: Memory },
    Device { _memory: Lent },
}

/// Ends an export; may be called on any thread.
///
/// # Safety
/// The structure is one that we exported, and it is no longer used.
unsafe extern "C" fn end_old(managed: *mut Managed) {
    // SAFETY: the context is the export that contains the structure; a consumer ends it once.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export<Managed>>())) }
}

/// # Safety
/// The structure is one that we exported, and it is no longer used.
unsafe extern "C" fn end_new(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe { drop(Box::from_raw((*managed).context.cast::<Export<Versioned>>())) }
}

/// Frees an export that was not taken.
///
/// # Safety
/// Only the interpreter calls it, with a capsule of ours that is being destroyed.
unsafe extern "C" fn unused(capsule: *mut ffi::PyObject) {
    // SAFETY: called by the interpreter with the capsule; only one that still has its first name holds a tensor.
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
/// The structure is a producer's, and it is no longer used.
unsafe fn end_managed(managed: *mut Managed) {
    // SAFETY: the caller guarantees that the structure is alive and not used after this.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

/// # Safety
/// The structure is a producer's, and it is no longer used.
unsafe fn end_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        if let Some(deleter) = (*managed).deleter {
            deleter(managed);
        }
    }
}

/// The arguments of `Tensor.__dlpack__`.
pub struct ExportOptions<'py> {
    pub stream: Option<Bound<'py, PyAny>>,
    pub max_version: Option<Bound<'py, PyAny>>,
    pub dl_device: Option<Bound<'py, PyAny>>,
    pub copy: Option<Bound<'py, PyAny>>,
}

/// An argument read as a pair of integers or a flag; `None` if it is absent.
fn read<'py, T: FromPyObjectOwned<'py>>(
    given: Option<Bound<'py, PyAny>>,
    name: &str,
    kind: &str,
) -> PyResult<Option<T>> {
    let Some(object) = given.filter(|object| !object.is_none()) else { return Ok(None) };
    object.extract().map(Some).map_err(|_| {
        let found = kind_of(&object);
        PyTypeError::new_err(format!("__dlpack__(): argument '{name}' must be {kind}, not {found}"))
    })
}

/// The device of DLPack's numbers, if it is one that tensors have.
fn named(place: i32, number: i32) -> Option<Device> {
    match (place, u8::try_from(number)) {
        (HOST, _) => Some(Device::Cpu),
        (CUDA, Ok(index)) if usize::from(index) < rushlight_cuda::device_count() => Some(Device::Cuda(index)),
        _ => None,
    }
}

/// The stream on which a consumer uses a tensor's elements; `None` if it sees to the order of the work itself.
fn consumer(device: Device, stream: Option<Bound<'_, PyAny>>) -> PyResult<Option<StreamId>> {
    let stream = stream.filter(|stream| !stream.is_none());
    if stream.as_ref().is_some_and(|stream| !stream.is_instance_of::<PyInt>()) {
        return Err(PyTypeError::new_err("stream must be ``int`` or ``none``"));
    }
    let number = stream.map(|stream| stream.extract::<isize>()).transpose()?;
    match (device, number) {
        (_, Some(-1)) => Ok(None),
        // The number of the default stream.
        (Device::Cuda(_), None | Some(1)) => Ok(Some(stream::DEFAULT)),
        (Device::Cuda(_), Some(2)) => Err(PyBufferError::new_err("per-thread default stream is not supported.")),
        (Device::Cuda(_), Some(0)) => Err(PyAssertionError::new_err("unsupported stream on CUDA: 0.")),
        (Device::Cuda(_), Some(handle)) => Ok(Some(StreamId(handle.cast_unsigned()))),
        (_, None) => Ok(None),
        (_, Some(_)) => Err(PyAssertionError::new_err("stream should be None on cpu.")),
    }
}

#[cold]
fn cannot_move(tensor: &Tensor, device: Device) -> PyErr {
    PyValueError::new_err(format!(
        "cannot move (i.e. copy=False) tensor from {} to {device} without copying.",
        tensor.device()
    ))
}

/// `Tensor.__dlpack__`.
pub fn export<'py>(py: Python<'py>, tensor: &Tensor, wanted: ExportOptions<'py>) -> PyResult<Bound<'py, PyAny>> {
    check_kind(tensor)?;
    let stream = consumer(tensor.device(), wanted.stream)?;
    let target = target_of(tensor, wanted.dl_device)?;
    let is_new = match wanted.max_version.filter(|version| !version.is_none()) {
        // Of any length, and of numbers of any size.
        Some(version) => !version.get_item(0)?.lt(1)?,
        None => false,
    };
    check_elements(tensor)?;
    let fresh = copied(tensor, target, wanted.copy, is_new)?;
    let is_copied = fresh.is_some();
    let tensor = fresh.as_ref().unwrap_or(tensor);
    check_layout(tensor)?;
    let is_read_only = tensor.storage().is_read_only();
    if is_read_only && !is_new {
        return Err(PyBufferError::new_err("a read-only tensor needs DLPack 1.0: max_version=(1, 0)"));
    }
    let layout = tensor.layout();
    let mut dims: Vec<i64> = layout.sizes.iter().chain(&layout.strides).map(|n| *n as i64).collect();
    let shape = dims.as_mut_ptr();
    let (device_type, device_id) = device(tensor, false)?;
    let strided = Strided {
        data: memory_access::address(tensor) as *mut c_void,
        device_type,
        device_id,
        ndim: layout.rank() as i32,
        dtype: code_of(tensor.dtype()),
        shape,
        strides: shape.wrapping_add(layout.rank()),
        byte_offset: 0,
    };
    let memory = lent(tensor, stream)?;
    if is_new {
        let flags = if is_read_only { READ_ONLY } else { 0 } | if is_copied { COPIED } else { 0 };
        new_capsule(py, strided, flags, dims, memory)
    } else {
        old_capsule(py, strided, dims, memory)
    }
}

/// Returns torch's error for a tensor that DLPack cannot describe, by what it is.
fn check_kind(tensor: &Tensor) -> PyResult<()> {
    if tensor.requires_grad() {
        return Err(PyBufferError::new_err("Can't export tensors that require gradient, use tensor.detach()"));
    }
    if tensor.is_sparse() {
        return Err(PyBufferError::new_err(
            "Can't export tensors with layout other than torch.strided\n  Export the indices and the values, or tensor.to_dense().",
        ));
    }
    if !matches!(tensor.device(), Device::Cpu | Device::Cuda(_)) {
        return Err(PyBufferError::new_err(format!("Cannot pack tensors on {}", tensor.device())));
    }
    Ok(())
}

/// The device on which the consumer wants the tensor.
fn target_of(tensor: &Tensor, dl_device: Option<Bound<'_, PyAny>>) -> PyResult<Device> {
    match read::<(i32, i32)>(dl_device, "dl_device", "tuple of ints")? {
        None => Ok(tensor.device()),
        Some((place, number)) => named(place, number).ok_or_else(|| {
            let own = tensor.device();
            PyBufferError::new_err(format!(
                "cannot move a tensor on {own} to device type {place}; use tensor.to(device)"
            ))
        }),
    }
}

/// Returns an error for a tensor without elements of its own, or with ones that DLPack has no dtype for.
fn check_elements(tensor: &Tensor) -> PyResult<()> {
    if tensor.is_batched() {
        return Err(raise(vmap::data_error()));
    }
    if tensor.is_quantized() {
        return Err(PyBufferError::new_err("QUInt/QInt types are not supported by dlpack"));
    }
    memory_access::with_memory(tensor)
}

/// The copy that is exported in place of a tensor, if it is wanted or needed.
fn copied(tensor: &Tensor, target: Device, copy: Option<Bound<'_, PyAny>>, is_new: bool) -> PyResult<Option<Tensor>> {
    let copy = read::<bool>(copy, "copy", "bool")?;
    if target != tensor.device() {
        if copy == Some(false) {
            return Err(cannot_move(tensor, target));
        }
        return rushlight::convert::to_device(tensor, target).map(Some).map_err(raise);
    }
    let is_copied = copy == Some(true) || (copy.is_none() && is_new && steps_back(tensor.layout()));
    is_copied.then(|| copy::clone(tensor)).transpose().map_err(raise)
}

/// Returns an error for a tensor whose elements are not those of its memory, or are in an order that consumers do not expect.
fn check_layout(tensor: &Tensor) -> PyResult<()> {
    if tensor.is_lazy_conj() {
        let bit = if tensor.dtype().is_complex() { "conjugate" } else { "negative" };
        return Err(PyBufferError::new_err(format!("Can't export tensors with the {bit} bit set")));
    }
    if steps_back(tensor.layout()) {
        return Err(PyBufferError::new_err(
            "a tensor with negative strides can only be exported as a copy: export tensor.contiguous(), or allow a copy and DLPack 1.0",
        ));
    }
    Ok(())
}

/// The tensor's memory, kept for the consumer, whose stream uses it after this thread's work.
fn lent(tensor: &Tensor, stream: Option<StreamId>) -> PyResult<Kept> {
    Ok(match tensor.device() {
        Device::Cuda(index) => {
            let own = stream::current(index);
            let used = stream.unwrap_or(own);
            stream::put_in_order(index, own, used).map_err(raise)?;
            Kept::Device { _memory: Lent::new(tensor.storage(), used)? }
        }
        _ => Kept::Host { _memory: Memory::of(tensor.storage())? },
    })
}

/// A capsule of DLPack 1.0 and later.
fn new_capsule(
    py: Python<'_>,
    tensor: Strided,
    flags: u64,
    dims: Vec<i64>,
    memory: Kept,
) -> PyResult<Bound<'_, PyAny>> {
    let managed =
        Versioned { major: 1, minor: 1, context: std::ptr::null_mut(), deleter: Some(end_new), flags, tensor };
    let export = Box::into_raw(Box::new(Export { managed, _dims: dims, _memory: memory }));
    // SAFETY: the export was just made.
    unsafe { (*export).managed.context = export.cast() };
    capsule(py, export.cast(), NEW)
}

/// A capsule of earlier versions.
fn old_capsule(py: Python<'_>, tensor: Strided, dims: Vec<i64>, memory: Kept) -> PyResult<Bound<'_, PyAny>> {
    let managed = Managed { tensor, context: std::ptr::null_mut(), deleter: Some(end_old) };
    let export = Box::into_raw(Box::new(Export { managed, _dims: dims, _memory: memory }));
    // SAFETY: as above.
    unsafe { (*export).managed.context = export.cast() };
    capsule(py, export.cast(), OLD)
}

fn capsule<'py>(py: Python<'py>, export: *mut c_void, name: &CStr) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the structure comes first in the export; the result is a new reference or an error.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCapsule_New(export, name.as_ptr(), Some(unused))) }
}

/// A structure of another library, which frees its tensor when dropped.
enum Imported {
    Old(*mut Managed),
    New(*mut Versioned),
}

// SAFETY: the structure is only freed, and DLPack allows that on any thread.
unsafe impl Send for Imported {}

impl Owned for Imported {
    fn end(self: Box<Self>, _: Python<'_>) {
        // SAFETY: taken once from its capsule, ended once.
        unsafe {
            match *self {
                Imported::Old(managed) => end_managed(managed),
                Imported::New(managed) => end_versioned(managed),
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

/// The capsule of a producer; producers that predate versions get no keywords.
fn capsule_of<'py>(
    object: &Bound<'py, PyAny>,
    device: Option<Device>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
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
    let dl_device = object.call_method0(intern!(py, "__dlpack_device__"))?;
    let ordered = PyDict::new(py);
    let keywords = PyDict::new(py);
    keywords.set_item(intern!(py, "max_version"), (1, 1))?;
    if device == Some(Device::Cpu) {
        keywords.set_item(intern!(py, "dl_device"), (HOST, 0))?;
    } else if let Some(index) = card(&dl_device)? {
        // The number of the default stream is 1.
        ordered.set_item(intern!(py, "stream"), stream::current(index).0.max(1))?;
        keywords.update(ordered.as_mapping())?;
    }
    if let Some(copy) = copy {
        keywords.set_item(intern!(py, "copy"), copy)?;
    }
    match producer.call((), Some(&keywords)) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => producer.call((), Some(&ordered)),
        result => result,
    }
}

/// The index of the CUDA device that `__dlpack_device__` tells. Other devices have no streams: the structure itself says where
/// its elements are.
fn card(dl_device: &Bound<'_, PyAny>) -> PyResult<Option<u8>> {
    if dl_device.get_item(0)?.extract::<i32>().ok() != Some(CUDA) {
        return Ok(None);
    }
    match placed(CUDA, dl_device.get_item(1)?.extract()?)? {
        Device::Cuda(index) => Ok(Some(index)),
        _ => Ok(None),
    }
}

/// The device of a structure's elements.
fn placed(place: i32, number: i32) -> PyResult<Device> {
    match named(place, number) {
        _ if place == PINNED_HOST => Ok(Device::Cpu),
        Some(device) => Ok(device),
        None if place == CUDA => Err(PyBufferError::new_err(format!("from_dlpack: there is no device cuda:{number}"))),
        None => Err(PyBufferError::new_err(format!("from_dlpack: device type {place} is not supported"))),
    }
}

/// A producer's tensor, or a capsule's, over the same memory; with `copy` over new memory, from the producer or from
/// here.
pub fn import(object: &Bound<'_, PyAny>, device: Option<Device>, copy: Option<bool>) -> PyResult<Tensor> {
    let capsule = capsule_of(object, device, copy)?;
    let raw = capsule.as_ptr();
    // SAFETY: the capsule's name determines the type it points to, and renaming it transfers the tensor to us.
    let (tensor, copied) = unsafe {
        if ffi::PyCapsule_IsValid(raw, NEW.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(raw, NEW.as_ptr()).cast::<Versioned>();
            if (*managed).major != 1 {
                return Err(PyBufferError::new_err(format!("DLPack version {} is not supported", (*managed).major)));
            }
            let flags = (*managed).flags;
            let shape = described(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(raw, NEW_USED.as_ptr());
            (shape.tensor(flags & READ_ONLY != 0, Imported::New(managed)), flags & COPIED != 0)
        } else if ffi::PyCapsule_IsValid(raw, OLD.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(raw, OLD.as_ptr()).cast::<Managed>();
            let shape = described(&(*managed).tensor)?;
            ffi::PyCapsule_SetName(raw, OLD_USED.as_ptr());
            (shape.tensor(false, Imported::Old(managed)), false)
        } else {
            return Err(PyRuntimeError::new_err(
                "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only once, so you might have already constructed a tensor from it once.",
            ));
        }
    };
    match device {
        Some(device) if device != tensor.device() => {
            if copy == Some(false) {
                return Err(cannot_move(&tensor, device));
            }
            rushlight::convert::to_device(&tensor, device).map_err(raise)
        }
        _ if copy == Some(true) && !copied => copy::clone(&tensor).map_err(raise),
        _ => Ok(tensor),
    }
}

/// The description of a structure's tensor, checked.
struct Described {
    start: *mut u8,
    bytes: usize,
    layout: Layout,
    dtype: DType,
    device: Device,
}

impl Described {
    /// # Safety
    /// `taken` keeps the bytes valid.
    unsafe fn tensor(self, read_only: bool, taken: Imported) -> Tensor {
        let owner = DeferredDrop::new(taken);
        let block = match self.device {
            Device::Cuda(index) => borrowed(index, self.start.addr(), self.bytes, owner),
            // SAFETY: guaranteed by the caller (see `# Safety`).
            _ => unsafe { Block::foreign(self.start, self.bytes, read_only, Box::new(owner)) },
        };
        Tensor::new(Storage::new(block), self.layout, self.dtype, self.device)
    }
}

/// # Safety
/// The structure is one that a producer filled in.
unsafe fn described(tensor: &Strided) -> PyResult<Described> {
    let device = placed(tensor.device_type, tensor.device_id)?;
    let dtype = dtype_of(tensor.dtype)?;
    let rank = usize::try_from(tensor.ndim).unwrap_or(usize::MAX);
    if rank > MAX_RANK || (rank > 0 && tensor.shape.is_null()) {
        return Err(PyBufferError::new_err(format!("from_dlpack: {} dimensions are not possible", tensor.ndim)));
    }
    let dims = |list: *const i64| -> Dims {
        if rank == 0 {
            Dims::new()
        } else {
            // SAFETY: the caller guarantees that the list has `ndim` entries.
            unsafe { std::slice::from_raw_parts(list, rank) }.iter().map(|n| *n as isize).collect()
        }
    };
    let sizes = dims(tensor.shape);
    let mut layout = if tensor.strides.is_null() {
        Layout::contiguous(&sizes)
    } else {
        Layout { strides: dims(tensor.strides), sizes, offset: 0 }
    };
    let bytes = layout.checked_bytes(dtype.size()).map_err(|error| PyBufferError::new_err(error.to_string()))?;
    if bytes > 0 && tensor.data.is_null() {
        return Err(PyBufferError::new_err("from_dlpack: there are elements, but no memory"));
    }
    // The memory begins at the lowest element, which is not the first one if strides are negative.
    let (low, _) = layout.checked_span().flatten().unwrap_or((0, 0));
    layout.offset = -low;
    let first = tensor.data.cast::<u8>().wrapping_add(tensor.byte_offset as usize);
    let start = first.wrapping_offset(low * dtype.size() as isize);
    // An offset past the end of the address space wraps around, and so does the end of the bytes.
    let offset_fits =
        usize::try_from(tensor.byte_offset).ok().and_then(|offset| tensor.data.addr().checked_add(offset));
    let end_fits =
        offset_fits.is_some() && start.addr().checked_add(bytes).is_some_and(|end| isize::try_from(end).is_ok());
    if bytes > 0 && !end_fits {
        return Err(PyBufferError::new_err(format!(
            "from_dlpack: {bytes} bytes at the byte offset {} do not fit in memory",
            tensor.byte_offset
        )));
    }
    Ok(Described { start, bytes, layout, dtype, device })
}
