//! Current devices, streams, warnings, and the errors of CUDA's runtime.

use std::ffi::{CStr, CString, c_char, c_void};

use rushlight_core::device_memory::StreamId;
use rushlight_core::{Device, Error, Result};
use rushlight_cuda::card;
use rushlight_cuda::stream::Stream;
use rushlight_dispatch::interpreter;

use crate::errors::{code, export};
use crate::numbers;

/// The device that was current before a guard.
pub struct Guard(u8);

fn index_of(device: i32) -> Result<u8> {
    if device < 0 {
        return Ok(card::current());
    }
    u8::try_from(device).map_err(|_| Error::runtime("Device index is out of range"))
}

/// Makes a device current; `end` makes the one before current again.
fn guard(device: i32) -> Result<*mut Guard> {
    Ok(Box::into_raw(Box::new(Guard(card::set_current(index_of(device)?)?))))
}

/// # Safety
/// The guard is null, or one of `guard` that has not ended.
unsafe fn end(guard: *mut Guard) -> Result<()> {
    if !guard.is_null() {
        // SAFETY: guaranteed by the caller.
        card::set_current(unsafe { Box::from_raw(guard) }.0)?;
    }
    Ok(())
}

/// The current stream of a device.
fn current(device: i32) -> Result<Stream> {
    let device = index_of(device)?;
    card::select(device)?;
    Ok(Stream::current(device))
}

fn native(stream: Stream) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(stream.id().0)
}

export! {
    fn aoti_torch_create_device_guard(device: i32, result: *mut *mut Guard) {
        *result = guard(device)?;
    }

    fn aoti_torch_delete_device_guard(guard: *mut Guard) {
        end(guard)?;
    }

    fn aoti_torch_device_guard_set_index(_guard: *mut Guard, device: i32) {
        card::set_current(index_of(device)?)?;
    }

    fn aoti_torch_create_cuda_guard(device: i32, result: *mut *mut Guard) {
        *result = guard(device)?;
    }

    fn aoti_torch_delete_cuda_guard(guard: *mut Guard) {
        end(guard)?;
    }

    fn aoti_torch_cuda_guard_set_index(_guard: *mut Guard, device: i32) {
        card::set_current(index_of(device)?)?;
    }

    /// A text without an index has the index -1.
    fn torch_parse_device_string(text: *const c_char, kind: *mut u32, index: *mut i32) {
        let (device, number) = Device::parse(&CStr::from_ptr(text).to_string_lossy())?;
        *kind = numbers::device_numbers(device)?.0 as u32;
        *index = number.map_or(-1, i32::from);
    }

    fn aoti_torch_get_current_device_index(result: *mut i32) {
        *result = i32::from(card::select(card::current()).map(|_| card::current())?);
    }

    fn aoti_torch_get_current_stream(device: i32, result: *mut *mut Stream) {
        *result = Box::into_raw(Box::new(current(device)?));
    }

    fn aoti_torch_delete_stream(stream: *mut Stream) {
        if !stream.is_null() {
            drop(Box::from_raw(stream));
        }
    }

    fn aoti_torch_stream_id(stream: *mut Stream, result: *mut i64) {
        let stream = stream.as_ref().ok_or_else(|| Error::runtime("the handle of a stream is null"))?;
        *result = stream.id().0 as i64;
    }

    fn torch_stream_native_handle(stream: *mut Stream, result: *mut *mut c_void) {
        *result = native(*stream.as_ref().ok_or_else(|| Error::runtime("the handle of a stream is null"))?);
    }

    fn aoti_torch_get_current_cuda_stream(device: i32, result: *mut *mut c_void) {
        *result = native(current(device)?);
    }

    fn torch_get_cuda_stream_from_pool(high_priority: bool, device: i32, result: *mut *mut c_void) {
        *result = native(Stream::new(index_of(device)?, if high_priority { -1 } else { 0 })?);
    }

    fn torch_set_current_cuda_stream(stream: *mut c_void, device: i32) {
        Stream::of(index_of(device)?, StreamId(stream.expose_provenance())).set_current();
    }

    fn torch_cuda_stream_synchronize(stream: *mut c_void, device: i32) {
        let device = index_of(device)?;
        rushlight_cuda::stream::synchronize(device, StreamId(stream.expose_provenance()))?;
    }

    /// The text of an error of CUDA's runtime; null for success.
    fn torch_c10_cuda_check_msg(
        status: i32,
        file: *const c_char,
        function: *const c_char,
        line: u32,
        _device_assertions: bool,
        result: *mut *mut c_char,
    ) {
        *result = std::ptr::null_mut();
        if status != 0 {
            let text = |text: *const c_char| if text.is_null() { "".into() } else { CStr::from_ptr(text).to_string_lossy() };
            let sentence = format!("CUDA error: {status} in {}, {}:{line}", text(function), text(file));
            *result = CString::new(sentence).unwrap_or_default().into_raw();
        }
    }
}

/// # Safety
/// The text is one of `torch_c10_cuda_check_msg`, freed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn torch_c10_cuda_free_error_msg(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: guaranteed by the caller.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Warns as `warnings.warn` does.
///
/// # Safety
/// The texts are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aoti_torch_warn(
    _function: *const c_char,
    _file: *const c_char,
    _line: u32,
    text: *const c_char,
) {
    if !text.is_null() {
        // SAFETY: guaranteed by the caller.
        let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        code(|| interpreter::warn(&text));
    }
}
