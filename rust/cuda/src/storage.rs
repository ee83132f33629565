//! The memory of storages and of libraries' calls on devices: blocks of the allocators in `memory`, which give them back by themselves.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::fork;
use rushlight_core::{Device, Error, Result, Storage};
use smallvec::SmallVec;

use crate::allocator::BlockId;
use crate::memory::{self, Streams};
use crate::{card, copy, sent, stream, trace, user_allocator};

/// A block that is given back when its storage has gone.
struct Owner {
    /// None if it is empty, or if a program's functions give out all memory.
    id: Option<BlockId>,
    address: usize,
    bytes: usize,
    device: u8,
    stream: StreamId,
    /// The number of forks before the block was made: a forked child has no device to give it back to.
    generation: u64,
    shared: AtomicBool,
    others: Mutex<Streams>,
}

impl DeviceMemory for Owner {
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
        if stream != self.stream {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            if !others.contains(&stream) {
                others.push(stream);
                self.shared.store(true, Ordering::Release);
            }
        }
    }

    // Another process would keep the old block.
    fn is_resizable(&self) -> bool {
        !sent::has(self.address)
    }

    fn resized(&self, bytes: usize) -> Result<Box<dyn DeviceMemory>> {
        if !self.is_resizable() {
            return Err(Error::runtime("Trying to resize storage that is not resizable"));
        }
        let block = Owner::new(self.device, bytes)?;
        let kept = self.bytes.min(bytes);
        if kept != 0 {
            let stream = stream::current(self.device);
            self.record_stream(stream);
            let [from, to] = [self, &block].map(|owner| (self.device, owner.address));
            // SAFETY: two blocks of at least as many bytes; the old one is held for the stream, and the new one is the stream's.
            unsafe { copy::between(from, to, kept, stream)? };
        }
        Ok(Box::new(block))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.address == 0 || self.generation != fork::generation() {
            return;
        }
        let mut others = Streams::new();
        if self.shared.load(Ordering::Acquire) {
            others = std::mem::take(self.others.get_mut().unwrap_or_else(PoisonError::into_inner));
        }
        trace::note(false, self.address);
        match self.id {
            Some(id) => memory::give_back(self.device, id, self.address, &others),
            None => self.give_to_user(&others),
        }
    }
}

impl Owner {
    /// A block for work on this thread's current stream.
    fn new(device: u8, bytes: usize) -> Result<Owner> {
        card::get(device)?;
        let stream = stream::current(device);
        let (id, address) = match bytes {
            0 => (None, 0),
            _ => memory::take(device, bytes, stream)?,
        };
        trace::note(true, address);
        Ok(Owner {
            id,
            address,
            bytes,
            device,
            stream,
            generation: fork::generation(),
            shared: AtomicBool::new(false),
            others: Mutex::new(SmallVec::new()),
        })
    }

    /// Gives the memory to the functions of a program that gave it out.
    #[cold]
    fn give_to_user(&self, others: &Streams) {
        if let Some(user) = user_allocator::current()
            && card::select(self.device).is_ok()
        {
            // Such functions do not know which other streams use the memory.
            others.iter().for_each(|&other| drop(stream::synchronize(self.device, other)));
            user.free(self.address, self.bytes, self.device, self.stream);
        }
    }
}

/// Uninitialised memory for work on this thread's current stream.
pub fn allocate(device: u8, bytes: usize) -> Result<Storage> {
    Ok(Storage::new(Block::device(Box::new(Owner::new(device, bytes)?))))
}

/// An address as a pointer, for libraries.
pub fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

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
