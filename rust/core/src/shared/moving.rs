//! Moves a storage's bytes to shared memory, in place: all tensors on the storage follow.

use crate::block::{Block, Owner};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::fork::{ForkMutex, Rank};
use crate::storage::Storage;

use super::{SharedBlock, alloc};

/// Held during a move. Two threads that moved the same storage at once would leave one of them with bytes that are not
/// the storage's.
static MOVING: ForkMutex<()> = ForkMutex::new(Rank::Tables, ());

/// The storage's block in shared memory; it is moved there if necessary. Kernels that are running finish on the old
/// bytes. What they write after the copy is lost, as with every change of bytes under a running kernel.
pub fn share(storage: &Storage) -> Result<SharedBlock> {
    let _one = MOVING.lock();
    if storage.device() != Device::Cpu {
        return Err(Error::runtime(format!(
            "share_memory_: only storages on the CPU can be moved, not {}",
            storage.device()
        )));
    }
    let pin = storage.pin()?;
    if let Owner::Shared(block) = pin.block().owner() {
        return Ok(block.clone());
    }
    // As long as all that tensors may describe. What a storage discarded when it shrank is not copied.
    let (bytes, reserved) = (pin.block().len(), pin.block().reserved());
    let block = alloc(reserved)?;
    // SAFETY: both blocks have `reserved` bytes, of which the storage has the first `bytes`; the new one is not shared
    // yet, so they do not overlap and nothing else writes it.
    unsafe {
        block.as_ptr().copy_from_nonoverlapping(pin.as_ptr(), bytes);
        block.as_ptr().add(bytes).write_bytes(0, reserved - bytes);
    }
    drop(pin);
    // SAFETY: called only from Python calls, which hold the GIL.
    unsafe { storage.replace(Block::shared_in_part(block.clone(), bytes)) };
    Ok(block)
}
