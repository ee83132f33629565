//! Bytes in one piece, with their owner: what a storage points to.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::alloc;
use crate::device::Device;
use crate::device_memory::{DeviceMemory, PageLocked};
use crate::error::{Class, Error, Result};
use crate::file_map::FileMap;
use crate::shared::SharedBlock;

/// The owner of a block's bytes, which decides what dropping the block does.
pub enum Owner {
    /// The engine's allocator.
    Heap,
    /// An arena that several processes see.
    Shared(SharedBlock),
    /// A mapped file, which may be truncated at any moment.
    File(Arc<FileMap>),
    /// An object of another library (NumPy, DLPack); dropping the value releases the bytes, from any thread.
    Foreign(Box<dyn Any + Send + Sync>),
    /// The allocator of another device, such as a GPU.
    Device(Box<dyn DeviceMemory>),
    /// Memory of the host that a device may be reading or writing.
    PageLocked(Box<dyn PageLocked>),
    /// No owner: a tensor on `meta` has a size and no bytes.
    Meta,
    /// No owner: a tensor whose class handles operators tells a size and has no bytes.
    Wrapper,
    /// No owner any more: the storage was emptied and may grow again.
    Released,
}

pub struct Block {
    pub(crate) pointer: NonNull<u8>,
    pub(crate) bytes: usize,
    /// Bytes of the allocation, at least `bytes`. A storage that shrinks keeps what it had: its tensors may still
    /// describe memory behind the new end.
    pub(crate) reserved: usize,
    pub(crate) device: Device,
    pub(crate) read_only: bool,
    /// Whether the host may always read and write, without a check.
    pub(crate) always_accessible: bool,
    pub(crate) owner: Owner,
}

// SAFETY: a block is an address range; the callers of kernels synchronise writes, as torch requires of programs.
unsafe impl Send for Block {}
// SAFETY: see above; nothing here forms references into the bytes.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        if let Owner::Heap = self.owner {
            // SAFETY: only `Block::heap` makes an owner of this kind, with what `alloc::allocate` returned for as many
            // bytes.
            unsafe { alloc::free(self.pointer, self.reserved) };
        }
    }
}

impl Block {
    /// `bytes` bytes at `pointer` that `owner` keeps, writable and all of the allocation.
    #[inline]
    fn new(pointer: Option<NonNull<u8>>, bytes: usize, owner: Owner) -> Block {
        let device = match &owner {
            Owner::Device(memory) => memory.device(),
            Owner::Meta | Owner::Wrapper => Device::Meta,
            _ => Device::Cpu,
        };
        Block {
            pointer: pointer.unwrap_or(NonNull::dangling()),
            bytes,
            reserved: bytes,
            device,
            read_only: false,
            always_accessible: matches!(owner, Owner::Heap | Owner::Shared(_) | Owner::Foreign(_)),
            owner,
        }
    }

    #[inline]
    pub fn heap(bytes: usize) -> Result<Block> {
        Block::heap_reserving(bytes, bytes)
    }

    /// `bytes` bytes in an allocation of at least `reserved`.
    pub(crate) fn heap_reserving(bytes: usize, reserved: usize) -> Result<Block> {
        let reserved = reserved.max(bytes);
        let mut block = Block::new(Some(alloc::allocate(reserved)?), reserved, Owner::Heap);
        block.bytes = bytes;
        Ok(block)
    }

    pub fn shared(block: SharedBlock) -> Block {
        let bytes = block.len();
        Block::shared_in_part(block, bytes)
    }

    /// The first bytes of a shared block, of which tensors may describe all.
    pub fn shared_in_part(block: SharedBlock, bytes: usize) -> Block {
        let (pointer, reserved) = (NonNull::new(block.as_ptr()), block.len());
        let mut block = Block::new(pointer, reserved, Owner::Shared(block));
        block.bytes = bytes.min(reserved);
        block
    }

    /// Bytes of a mapped file; `None` if the file does not have them.
    pub fn file(map: &Arc<FileMap>, offset: usize, bytes: usize, read_only: bool) -> Option<Block> {
        offset.checked_add(bytes).filter(|&end| end <= map.len())?;
        let pointer = NonNull::new(map.as_ptr().wrapping_add(offset))?;
        let mut block = Block::new(Some(pointer), bytes, Owner::File(map.clone()));
        block.read_only = read_only;
        Some(block)
    }

    /// # Safety
    /// The bytes stay valid, and writable unless `read_only`, for as long as `owner` lives.
    pub unsafe fn foreign(pointer: *mut u8, bytes: usize, read_only: bool, owner: Box<dyn Any + Send + Sync>) -> Block {
        let mut block = Block::new(NonNull::new(pointer), bytes, Owner::Foreign(owner));
        block.read_only = read_only;
        block
    }

    /// Memory of another device. The pointer is a number of that device's address space.
    pub fn device(memory: Box<dyn DeviceMemory>) -> Block {
        let pointer = std::ptr::without_provenance_mut(memory.address());
        let bytes = memory.bytes();
        Block::new(NonNull::new(pointer), bytes, Owner::Device(memory))
    }

    /// Page-locked memory of the host.
    ///
    /// # Safety
    /// The bytes stay valid and writable for as long as the value lives.
    pub unsafe fn page_locked(memory: Box<dyn PageLocked>) -> Block {
        let (pointer, bytes) = (std::ptr::with_exposed_provenance_mut(memory.address()), memory.bytes());
        Block::new(NonNull::new(pointer), bytes, Owner::PageLocked(memory))
    }

    pub fn meta(bytes: usize) -> Block {
        Block::new(None, bytes, Owner::Meta)
    }

    pub fn wrapper(bytes: usize) -> Block {
        Block::new(None, bytes, Owner::Wrapper)
    }

    /// An empty block that replaces `reserved` released bytes.
    pub(crate) fn released(reserved: usize) -> Block {
        let mut block = Block::new(None, reserved, Owner::Released);
        block.bytes = 0;
        block
    }

    /// The first byte, if the host can reach it.
    #[inline]
    pub fn as_ptr(&self) -> Result<*mut u8> {
        if !self.always_accessible {
            self.check()?;
        }
        Ok(self.pointer.as_ptr())
    }

    /// Whether the host can reach the bytes now; waits for a device that uses them.
    #[cold]
    pub(crate) fn check(&self) -> Result<()> {
        match &self.owner {
            Owner::File(map) => map.check(),
            Owner::PageLocked(memory) => memory.wait(),
            Owner::Released => Err(released()),
            _ if self.device == Device::Cpu => Ok(()),
            _ => Err(out_of_reach(self.device)),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The bytes of the allocation, which all tensors of the storage lie in.
    pub fn reserved(&self) -> usize {
        self.reserved
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

/// The error for the bytes of a storage that was emptied.
#[cold]
pub(crate) fn released() -> Error {
    Error::runtime("the tensor's storage was resized to zero bytes")
        .hint("Use storage.resize_(nbytes) to allocate memory again.")
}

/// The error for memory on another device, or on none: the host cannot read or write there.
#[cold]
fn out_of_reach(device: Device) -> Error {
    match device {
        Device::Meta => Error::not_implemented("Cannot copy out of meta tensor; no data!")
            .hint("A meta tensor has a shape and a dtype but no data: create it on another device."),
        _ => Error::new(Class::Unreachable, format!("the host cannot reach memory on {device}"))
            .hint("Use Tensor.cpu() to copy the tensor to host memory first."),
    }
}
