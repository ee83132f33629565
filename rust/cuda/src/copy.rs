//! Copies of bytes between the host and devices, and bytes that are all alike. They are enqueued on this thread's current stream.

use cudarc::driver::sys;
use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use crate::driver::check;
use crate::stream::handle;
use crate::{card, failures, profile};

/// Copies bytes of the host to a device. The bytes were read when the function returns, unless they are page-locked.
///
/// # Safety
/// There are `bytes` bytes at both addresses, and those of the device are held for the stream.
pub unsafe fn from_host(device: u8, to: usize, from: *const u8, bytes: usize, stream: StreamId) -> Result<()> {
    card::select(device)?;
    let before = profile::before(device, stream);
    // SAFETY: guaranteed by the caller.
    check(unsafe { sys::cuMemcpyHtoDAsync_v2(to as u64, from.cast(), bytes, handle(stream)) })?;
    profile::after(before, "Memcpy HtoD", stream);
    Ok(())
}

/// Overwrites bytes of a device with one byte.
///
/// # Safety
/// There are `bytes` bytes at the address, which are held for the stream.
pub unsafe fn fill(device: u8, to: usize, byte: u8, bytes: usize, stream: StreamId) -> Result<()> {
    card::select(device)?;
    // SAFETY: guaranteed by the caller.
    check(unsafe { sys::cuMemsetD8Async(to as u64, byte, bytes, handle(stream)) })
}

/// Copies bytes of a device to the host. They were written when the stream has passed.
///
/// # Safety
/// As for `from_host`; the memory of the host stays until the stream has passed.
pub unsafe fn to_host(device: u8, to: *mut u8, from: usize, bytes: usize, stream: StreamId) -> Result<()> {
    card::select(device)?;
    let before = profile::before(device, stream);
    // SAFETY: guaranteed by the caller.
    check(unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from as u64, bytes, handle(stream)) })?;
    profile::after(before, "Memcpy DtoH", stream);
    // The driver has waited, unless the memory is page-locked.
    failures::check(device)
}

/// Copies bytes of one device to another, on a stream of the first.
///
/// # Safety
/// There are `bytes` bytes at both addresses, which are held for the stream.
pub unsafe fn between(from: (u8, usize), to: (u8, usize), bytes: usize, stream: StreamId) -> Result<()> {
    let target = card::select(to.0)?.context();
    let source = card::select(from.0)?.context();
    let before = profile::before(from.0, stream);
    // SAFETY: guaranteed by the caller.
    check(unsafe { sys::cuMemcpyPeerAsync(to.1 as u64, target, from.1 as u64, source, bytes, handle(stream)) })?;
    profile::after(before, "Memcpy PtoP", stream);
    Ok(())
}
