//! Memory of a device other than the host, and memory of the host that a device reads and writes on its own.
//!
//! The device's allocator implements `DeviceMemory` and hands a value of it to `Block::device`. The host never reads or
//! writes such bytes: `Storage::pin` fails for them. A call on the device holds them with `Storage::pin_on`.
//! `PageLocked` is for `Block::page_locked`; there `Storage::pin` waits for the device.

use crate::device::Device;
use crate::error::{Error, Result};

/// Names a queue of work on a device: the driver's handle of a stream, as a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StreamId(pub usize);

/// A block of a device's allocator. Dropping the value gives the block back, from any thread.
pub trait DeviceMemory: Send + Sync {
    /// The address of the block in the device's address space.
    fn address(&self) -> usize;

    /// The length of the block in bytes.
    fn bytes(&self) -> usize;

    fn device(&self) -> Device;

    /// Records that work on `stream` uses the block. After the value is dropped, the allocator reuses the block only
    /// when all work that was enqueued on the recorded streams before the drop has finished.
    fn record_stream(&self, stream: StreamId);

    /// Whether the block belongs to another process.
    fn is_received(&self) -> bool {
        false
    }

    /// Whether `resized` makes another block.
    fn is_resizable(&self) -> bool {
        false
    }

    /// A block of another size with the bytes that fit. Work on the current stream finds them there.
    fn resized(&self, _bytes: usize) -> Result<Box<dyn DeviceMemory>> {
        Err(Error::runtime("Trying to resize storage that is not resizable"))
    }
}

/// Memory of the host that stays at its place, so that a device can copy from and to it while the host goes on. Dropping the
/// value gives the memory back, from any thread; it is not used again before the device has finished.
pub trait PageLocked: Send + Sync {
    fn address(&self) -> usize;

    /// The length of the block in bytes.
    fn bytes(&self) -> usize;

    /// Makes later work on `stream` of `device` wait for the copies that other streams make.
    fn enter(&self, device: Device, stream: StreamId) -> Result<()>;

    /// Records that the work enqueued on `stream` so far uses the memory.
    fn leave(&self, device: Device, stream: StreamId) -> Result<()>;

    /// Waits for the recorded work. It costs nothing if there is none.
    fn wait(&self) -> Result<()>;
}
