//! Memory of CUDA devices that this process shares with other libraries.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use rushlight::{Device, Storage};
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::storage::ExportedOn;
use rushlight_cuda::stream;

use crate::errors::raise;
use crate::reclaim::DeferredDrop;

/// Holds a storage in place for another library.
pub struct Lent {
    /// Declared first, so that it is dropped before the storage it points into.
    _pin: ExportedOn<'static>,
    _storage: Storage,
}

// SAFETY: a pin is a count and a pointer to a block that threads share.
unsafe impl Send for Lent {}

impl Lent {
    /// Another library uses the storage on a stream.
    pub fn new(storage: &Storage, stream: StreamId) -> PyResult<Lent> {
        let storage = storage.clone();
        let pin = storage.export_on(stream).map_err(raise)?;
        // SAFETY: the pin points into the storage's shared part, which the other field keeps alive.
        let pin = unsafe { std::mem::transmute::<ExportedOn<'_>, ExportedOn<'static>>(pin) };
        Ok(Lent { _pin: pin, _storage: storage })
    }
}

/// Another library's memory on a device. It is given back when the work that uses it has run.
struct Borrowed {
    address: usize,
    bytes: usize,
    device: u8,
    streams: Mutex<Vec<StreamId>>,
    _owner: DeferredDrop,
}

impl DeviceMemory for Borrowed {
    fn address(&self) -> usize {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device(&self) -> Device {
        Device::Cuda(self.device)
    }

    fn record_stream(&self, stream: StreamId) {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        for stream in self.streams.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A device that fails runs no work any more.
            let _ = stream::synchronize(self.device, stream);
        }
    }
}

/// A block over another library's memory, which lives as long as the owner.
pub fn borrowed(device: u8, address: usize, bytes: usize, owner: DeferredDrop) -> Block {
    Block::device(Box::new(Borrowed { address, bytes, device, streams: Mutex::new(Vec::new()), _owner: owner }))
}
