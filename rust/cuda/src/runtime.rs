//! The functions of the CUDA runtime that `torch.cuda.cudart` has. They return the driver's statuses, which have the runtime's numbers.

use std::ffi::{CStr, c_void};

use cudarc::driver::sys::{self, CUresult};
use rushlight_core::{Error, Result};

use crate::driver::check;
use crate::{card, driver};

fn address(at: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(at)
}

/// Runs a function in the context of this thread's device.
fn in_context(run: impl FnOnce() -> CUresult) -> Result<u32> {
    card::select(card::current())?;
    Ok(run() as u32)
}

/// Locks pages of the host.
pub fn host_register(at: usize, bytes: usize, flags: u32) -> Result<u32> {
    // SAFETY: a context is current; the driver refuses pages that it cannot lock.
    in_context(|| unsafe { sys::cuMemHostRegister_v2(address(at), bytes, flags) })
}

pub fn host_unregister(at: usize) -> Result<u32> {
    // SAFETY: as above; the driver refuses what is not registered.
    in_context(|| unsafe { sys::cuMemHostUnregister(address(at)) })
}

pub fn profiler_start() -> Result<u32> {
    // SAFETY: a context is current.
    in_context(|| unsafe { sys::cuProfilerStart() })
}

pub fn profiler_stop() -> Result<u32> {
    // SAFETY: a context is current.
    in_context(|| unsafe { sys::cuProfilerStop() })
}

/// Stores the handle of a new stream at an address.
///
/// # Safety
/// A handle can be written there.
pub unsafe fn stream_create(at: usize) -> Result<u32> {
    // SAFETY: a context is current; the rest is guaranteed by the caller.
    in_context(|| unsafe { sys::cuStreamCreate(address(at).cast(), 0) })
}

pub fn stream_destroy(stream: usize) -> Result<u32> {
    // SAFETY: a context is current; a handle that is no stream is the program's mistake, as in torch.
    in_context(|| unsafe { sys::cuStreamDestroy_v2(address(stream).cast()) })
}

/// The driver's sentence for a status.
pub fn error_string(status: u32) -> Result<String> {
    driver::initialize()?;
    let mut text = std::ptr::null();
    type Describe = unsafe extern "C" fn(u32, *mut *const std::ffi::c_char) -> CUresult;
    // SAFETY: the driver is loaded, and takes any number; its texts live as long as it. A number is passed in place of the
    // enumeration, which has not every number.
    unsafe {
        let library = crate::library::Library::find(&["libcuda.so.1"]);
        let found = library.and_then(|library| library.function(c"cuGetErrorString"));
        if let Some(found) = found {
            std::mem::transmute::<*mut c_void, Describe>(found)(status, &raw mut text);
        }
        Ok(if text.is_null() {
            "unrecognized error code".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into()
        })
    }
}

/// The device whose memory an address is in.
pub fn device_of(at: usize) -> Result<u8> {
    card::select(card::current())?;
    let mut device = 0i32;
    let attribute = sys::CUpointer_attribute_enum::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    // SAFETY: a context is current, and the pointer is that of a local variable of the attribute's type.
    check(unsafe { sys::cuPointerGetAttribute((&raw mut device).cast(), attribute, at as u64) })?;
    u8::try_from(device).map_err(|_| Error::runtime(format!("{at:#x} is in the memory of no device")))
}
