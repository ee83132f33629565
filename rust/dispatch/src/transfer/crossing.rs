//! Copies from one device to another.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Layout, Result};
use rushlight_cuda::{copy as bytes, stream};

use super::within;
use crate::allocate::allocate;
use crate::interpreter::while_waiting;
use crate::operator::TensorSpec;
use crate::waits;

/// Overwrites the view `target` of one storage with the view `source`, of the same sizes, of another on another device. Elements
/// are converted where they come from. A copy between the host and a device waits for its bytes, unless `wait` is false and
/// the host's memory is page-locked: then whoever reads or writes that memory waits for the copy.
pub fn copy(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout, wait: bool) -> Result<()> {
    let dtype = to.dtype();
    let packed = packed(from, source, dtype)?;
    let length = packed.numel() * dtype.size();
    match (from.device(), to.device()) {
        (Device::Cpu, Device::Cuda(index)) => {
            if wait {
                waits::announce()?;
            }
            let arrived = arrival(to, target)?;
            let stream = stream::current(index);
            let written = arrived.storage().pin_on(stream)?;
            let address = written.address().wrapping_add_signed(arrived.first_byte());
            let start = packed.first_byte() as usize;
            if let Some(read) = packed.storage().pin_locked() {
                read.enter(to.device(), stream)?;
                // SAFETY: both tensors are row-major, of one size and dtype, and pinned; the memory of the host stays until the
                // copy has run.
                unsafe { bytes::from_host(index, address, read.as_ptr().add(start), length, stream)? };
                read.leave(to.device(), stream)?;
                if wait {
                    waits::tell_watcher(stream)?;
                    while_waiting(|| stream::synchronize(index, stream))?;
                }
            } else {
                while_waiting(|| {
                    let read = packed.storage().pin()?;
                    // SAFETY: as above; other memory was read when the function returns.
                    unsafe { bytes::from_host(index, address, read.as_ptr().add(start), length, stream) }
                })?;
            }
            drop(written);
            settle(to, target, &arrived)
        }
        (Device::Cuda(index), Device::Cpu) => {
            let arrived = arrival(to, target)?;
            let stream = stream::current(index);
            let (from_byte, to_byte) = (packed.first_byte(), arrived.first_byte() as usize);
            // Arrays over the memory are read without a pin, which would wait for the copy.
            let later = !wait && target.is_contiguous() && !to.storage().is_exported();
            if let Some(written) = arrived.storage().pin_locked().filter(|_| later) {
                written.enter(from.device(), stream)?;
                let read = packed.storage().pin_on(stream)?;
                let address = read.address().wrapping_add_signed(from_byte);
                // SAFETY: as above.
                unsafe { bytes::to_host(index, written.as_ptr().add(to_byte), address, length, stream)? };
                return written.leave(from.device(), stream);
            }
            waits::announce()?;
            waits::tell_watcher(stream)?;
            while_waiting(|| {
                let (read, written) = (packed.storage().pin_on(stream)?, arrived.storage().pin()?);
                let address = read.address().wrapping_add_signed(from_byte);
                // SAFETY: as above; the memory of the host is pinned until the stream has passed.
                unsafe { bytes::to_host(index, written.as_ptr().add(to_byte), address, length, stream)? };
                stream::synchronize(index, stream)
            })?;
            settle(to, target, &arrived)
        }
        (Device::Cuda(source_card), Device::Cuda(target_card)) => {
            let arrived = arrival(to, target)?;
            let (here, there) = (stream::Stream::current(source_card), stream::Stream::current(target_card));
            // The memory may still be in use by the target's stream; afterwards that stream uses the copy.
            let ready = stream::Event::new(target_card, false)?;
            ready.record(there.id())?;
            here.wait(&ready)?;
            let (read, written) = (packed.storage().pin_on(here.id())?, arrived.storage().pin_on(there.id())?);
            let from = (source_card, read.address().wrapping_add_signed(packed.first_byte()));
            let target_address = (target_card, written.address().wrapping_add_signed(arrived.first_byte()));
            // SAFETY: as above.
            unsafe { bytes::between(from, target_address, length, here.id())? };
            let done = stream::Event::new(source_card, false)?;
            done.record(here.id())?;
            there.wait(&done)?;
            drop(written);
            settle(to, target, &arrived)
        }
        // A tensor on `meta` has no elements to copy.
        _ => from.storage().pin().map(drop),
    }
}

/// The source as a row-major tensor of a dtype, on its own device.
fn packed(from: &Tensor, source: &Layout, dtype: DType) -> Result<Tensor> {
    if from.dtype() == dtype && source.is_contiguous() {
        return Ok(Tensor::new(from.storage().clone(), source.clone(), dtype, from.device()));
    }
    let packed = allocate(&TensorSpec { layout: Layout::contiguous(&source.sizes), dtype, device: from.device() })?;
    within::copy(&packed, packed.layout(), from, source)?;
    Ok(packed)
}

/// Where the bytes arrive: the target itself if it is row-major, or else new memory on its device.
fn arrival(to: &Tensor, target: &Layout) -> Result<Tensor> {
    if target.is_contiguous() {
        return Ok(Tensor::new(to.storage().clone(), target.clone(), to.dtype(), to.device()));
    }
    allocate(&TensorSpec { layout: Layout::contiguous(&target.sizes), dtype: to.dtype(), device: to.device() })
}

/// Moves the bytes that arrived to their places.
fn settle(to: &Tensor, target: &Layout, arrived: &Tensor) -> Result<()> {
    if target.is_contiguous() {
        return Ok(());
    }
    within::copy(to, target, arrived, arrived.layout())
}
