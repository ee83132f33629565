//! Memory that the calls of kernels and libraries need besides their operands.

use std::ffi::c_void;

use rushlight_core::device_memory::StreamId;
use rushlight_core::{Result, Storage};

use crate::memory::{allocate, pointer};

/// Memory that a call needs besides its operands, for as long as the work of a stream takes.
pub struct Workspace {
    storage: Storage,
    bytes: usize,
}

impl Workspace {
    pub fn new(device: u8, stream: StreamId, bytes: usize) -> Result<Workspace> {
        let storage = allocate(device, bytes)?;
        // The block is not reused before the stream's work has run, and it stays in place because nobody else has the storage.
        storage.pin_on(stream)?;
        Ok(Workspace { storage, bytes })
    }

    /// Where it begins; null if it is empty.
    pub fn pointer(&self) -> *mut c_void {
        pointer(self.storage.address() as u64)
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}
