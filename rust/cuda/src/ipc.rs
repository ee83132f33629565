//! Memory of devices that several processes use.
//!
//! The process that owns a block sends the driver's handle of its segment, and with it the writing end of a pipe, of which it
//! keeps the reading end alone. The block stays until the pipe has no writer any more: until every receiver has dropped its
//! tensors or has ended, whatever ended it. A message on its way holds the pipe too.

use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};

use cudarc::driver::sys;
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::{Device, Error, Result, Storage};

use crate::driver::check;
use crate::{card, memory, sent, stream};

/// The driver's name of a segment.
pub type Handle = [u8; 64];

/// What a receiver needs to reach a block.
pub struct Export {
    pub device: u8,
    pub handle: Handle,
    pub offset: usize,
    pub bytes: usize,
    /// The end of the pipe that receivers hold.
    pub held: OwnedFd,
}

static OPEN: ForkMutex<BTreeMap<(u8, Handle), Weak<Segment>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

fn last_error(what: &str) -> Error {
    Error::runtime(format!("{what}: {}", std::io::Error::last_os_error()))
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0 as RawFd; 2];
    // SAFETY: the array has two elements.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(last_error("no pipe for a tensor that is sent to another process"));
    }
    // SAFETY: both descriptors are new, and nothing else owns them.
    unsafe { Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))) }
}

/// Prepares a storage for other processes. Work that was enqueued on it has run when the function returns.
pub fn export(storage: &Storage) -> Result<Export> {
    sent::collect();
    let Device::Cuda(device) = storage.device() else {
        return Err(Error::runtime("only memory of a device has a handle for other processes"));
    };
    if storage.is_received() {
        return Err(Error::runtime(
            "Attempted to send CUDA tensor received from another process; this is not currently supported. Consider cloning \
             before sending.",
        ));
    }
    card::select(device)?;
    stream::synchronize(device, stream::current(device))?;
    let mut handle = sys::CUipcMemHandle_st { reserved: [0; 64] };
    let (segment, offset) = match memory::segment_of(device, storage.address()) {
        Some(found) => found,
        None => return Err(Error::runtime("the tensor has no memory that another process could use")),
    };
    // SAFETY: the segment came from the driver, and the pointer is that of a local variable.
    check(unsafe { sys::cuIpcGetMemHandle(&raw mut handle, segment as u64) })?;
    let (ended, held) = pipe()?;
    sent::keep(storage, ended);
    Ok(Export { device, handle: handle.reserved.map(|byte| byte as u8), offset, bytes: storage.len(), held })
}

/// A segment of another process, in this one.
struct Segment {
    address: usize,
    device: u8,
    generation: u64,
}

impl Drop for Segment {
    fn drop(&mut self) {
        if self.generation == fork::generation() && card::select(self.device).is_ok() {
            // SAFETY: `receive` has opened the segment, and no tensor lies in it any more.
            unsafe { sys::cuIpcCloseMemHandle(self.address as u64) };
        }
    }
}

/// A block of another process.
struct Received {
    segment: Arc<Segment>,
    offset: usize,
    bytes: usize,
    /// Closed after this process has finished with the block.
    _held: OwnedFd,
}

impl DeviceMemory for Received {
    fn address(&self) -> usize {
        self.segment.address + self.offset
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn device(&self) -> Device {
        Device::Cuda(self.segment.device)
    }

    // Dropping the block waits for all streams.
    fn record_stream(&self, _: StreamId) {}

    fn is_received(&self) -> bool {
        true
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if self.segment.generation == fork::generation()
            && let Ok(card) = card::select(self.segment.device)
        {
            // The owner may use the block again as soon as the pipe is closed. A device that has failed uses nothing.
            let _ = card.synchronize();
        }
    }
}

/// A storage over a block that another process has sent.
pub fn receive(device: u8, handle: Handle, offset: usize, bytes: usize, held: OwnedFd) -> Result<Storage> {
    card::select(device)?;
    let mut open = OPEN.lock();
    let segment = match open.get(&(device, handle)).and_then(Weak::upgrade) {
        Some(segment) => segment,
        None => {
            let mut address = 0;
            let name = sys::CUipcMemHandle_st { reserved: handle.map(|byte| byte as _) };
            let flags = sys::CUipcMem_flags_enum::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
            // SAFETY: a context is current, and the pointer is that of a local variable.
            check(unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut address, name, flags) }).map_err(|error| {
                error.hint("The process that sent the tensor must live until it has been received.")
            })?;
            let segment = Arc::new(Segment { address: address as usize, device, generation: fork::generation() });
            open.retain(|_, segment| segment.strong_count() > 0);
            open.insert((device, handle), Arc::downgrade(&segment));
            segment
        }
    };
    drop(open);
    Ok(Storage::new(Block::device(Box::new(Received { segment, offset, bytes, _held: held }))))
}
