//! Memory of a device other than the host.
//!
//! The device's allocator implements `DeviceMemory` and hands a value of it to `Block::device`. The host never reads or
//! writes such bytes: `Storage::pin` fails for them. A call on the device holds them with `Storage::pin_on`.

use crate::device::Device;

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
}
