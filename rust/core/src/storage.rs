//! Bytes with an owner, shared by every view of them.
//!
//! A storage is a cell that points to a block. Kernels run without the interpreter's lock, so what replaces the bytes
//! (`share_memory_`, `resize_`, `set_`) swaps the block in the cell and the old one lives on until the last kernel that
//! pinned the cell has left.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use smallvec::SmallVec;

use crate::alloc;
use crate::counted::{Counted, WeakCounted};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::file_map::{FileMap, Writes};
use crate::shared::SharedBlock;

/// Who owns a block's bytes, and so what its end means.
pub enum Owner {
    /// The house's allocator.
    Heap,
    /// An arena that several processes see.
    Shared(SharedBlock),
    /// A file, some of which may be gone at any moment.
    File(Arc<FileMap>),
    /// Somebody else (NumPy, DLPack); dropping the value releases the bytes, from any thread.
    Foreign(Box<dyn Any + Send + Sync>),
    /// Nobody: a tensor on `meta` has a size and no bytes.
    Meta,
    /// Nobody any more: the storage was emptied, and its tensors wait for it to grow again.
    Released,
}

pub struct Block {
    pointer: NonNull<u8>,
    bytes: usize,
    device: Device,
    read_only: bool,
    /// Whether the host may read and write without asking.
    sure: bool,
    owner: Owner,
}

// SAFETY: a block is an address range; who may write when is the business of the kernels' callers, as torch's rules have it.
unsafe impl Send for Block {}
// SAFETY: see above; nothing here forms references into the bytes.
unsafe impl Sync for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        if let Owner::Heap = self.owner {
            // SAFETY: an owner of this kind is made by `Block::heap` alone, of what `alloc::allocate` gave for as many bytes.
            unsafe { alloc::free(self.pointer, self.bytes) };
        }
    }
}

impl Block {
    pub fn heap(bytes: usize) -> Result<Block> {
        let pointer = alloc::allocate(bytes)?;
        Ok(Block { pointer, bytes, device: Device::Cpu, read_only: false, sure: true, owner: Owner::Heap })
    }

    pub fn shared(block: SharedBlock) -> Block {
        let pointer = NonNull::new(block.as_ptr()).unwrap_or(NonNull::dangling());
        let bytes = block.len();
        Block { pointer, bytes, device: Device::Cpu, read_only: false, sure: true, owner: Owner::Shared(block) }
    }

    /// Bytes of a mapped file; nothing where it does not have them.
    pub fn file(map: &Arc<FileMap>, offset: usize, bytes: usize, read_only: bool) -> Option<Block> {
        offset.checked_add(bytes).filter(|&end| end <= map.len())?;
        let pointer = NonNull::new(map.as_ptr().wrapping_add(offset))?;
        Some(Block { pointer, bytes, device: Device::Cpu, read_only, sure: false, owner: Owner::File(map.clone()) })
    }

    /// # Safety
    /// The bytes stay valid, and writable unless `read_only`, for as long as `owner` lives.
    pub unsafe fn foreign(pointer: *mut u8, bytes: usize, read_only: bool, owner: Box<dyn Any + Send + Sync>) -> Block {
        let pointer = NonNull::new(pointer).unwrap_or(NonNull::dangling());
        Block { pointer, bytes, device: Device::Cpu, read_only, sure: true, owner: Owner::Foreign(owner) }
    }

    pub fn meta(bytes: usize) -> Block {
        let pointer = NonNull::dangling();
        Block { pointer, bytes, device: Device::Meta, read_only: false, sure: false, owner: Owner::Meta }
    }

    /// No bytes, in the place of those that were given back.
    fn released() -> Block {
        let pointer = NonNull::dangling();
        Block { pointer, bytes: 0, device: Device::Cpu, read_only: false, sure: false, owner: Owner::Released }
    }

    /// The first byte, where the host can reach it.
    #[inline]
    pub fn as_ptr(&self) -> Result<*mut u8> {
        if !self.sure {
            self.check()?;
        }
        Ok(self.pointer.as_ptr())
    }

    /// Whether the host can reach the bytes now.
    #[cold]
    fn check(&self) -> Result<()> {
        match &self.owner {
            Owner::File(map) => map.check(),
            Owner::Released => Err(Error::runtime("the tensor's storage was resized to zero bytes")
                .hint("storage.resize_(nbytes) gives it memory again.")),
            _ if self.device == Device::Cpu => Ok(()),
            _ => Err(out_of_reach(self.device)),
        }
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }
}

/// Memory elsewhere, or none: the host cannot read or write there.
#[cold]
fn out_of_reach(device: Device) -> Error {
    match device {
        Device::Meta => Error::not_implemented("Cannot copy out of meta tensor; no data!")
            .hint("A tensor on meta has a shape and a dtype and no values: make it on a device that holds data."),
        _ => Error::runtime(format!("the host cannot reach memory on {device}"))
            .hint("Use Tensor.cpu() to copy the tensor to host memory first."),
    }
}

/// A handle on bytes; clones name the same bytes.
#[derive(Clone)]
pub struct Storage(Counted<Cell>);

/// A handle that does not keep the bytes alive.
#[derive(Clone)]
pub struct WeakStorage(WeakCounted<Cell>);

impl WeakStorage {
    pub fn upgrade(&self) -> Option<Storage> {
        self.0.upgrade().map(Storage)
    }
}

struct Cell {
    block: AtomicPtr<Block>,
    /// The block that the storage was made with: most storages never get another, and so cost one allocation.
    first: UnsafeCell<ManuallyDrop<Block>>,
    /// How many kernels are inside.
    pins: AtomicU32,
    /// How many others show the bytes to their own users: arrays, buffers, capsules.
    exports: AtomicU32,
    /// Blocks that were replaced while kernels were inside.
    retired: AtomicPtr<Retired>,
}

// SAFETY: `first` is read through `block` only, and dropped once, by whoever took it out of the cell.
unsafe impl Send for Cell {}
// SAFETY: see above.
unsafe impl Sync for Cell {}

struct Retired {
    block: *mut Block,
    next: *mut Retired,
}

/// Holds a storage's current block in place, on any device.
struct Hold<'a> {
    cell: &'a Cell,
    block: *const Block,
}

impl Hold<'_> {
    #[inline]
    fn block(&self) -> &Block {
        // SAFETY: a cell that is held frees none of its blocks.
        unsafe { &*self.block }
    }
}

/// Holds a storage's current block in place; the proof that the host can reach its bytes.
pub struct Pin<'a>(Hold<'a>);

impl Pin<'_> {
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.block().pointer.as_ptr()
    }

    #[inline]
    pub fn block(&self) -> &Block {
        self.0.block()
    }
}

/// A pin that is held on behalf of somebody else's object over the same bytes; while there is one, the storage keeps its
/// size.
pub struct Exported<'a>(Pin<'a>);

impl Exported<'_> {
    pub fn pin(&self) -> &Pin<'_> {
        &self.0
    }
}

impl Drop for Exported<'_> {
    fn drop(&mut self) {
        self.0.0.cell.exports.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.cell.pins.fetch_sub(1, Ordering::AcqRel) == 1 && !self.cell.retired.load(Ordering::Relaxed).is_null() {
            self.cell.sweep();
        }
    }
}

/// The pins of several storages, in their order.
pub fn pin_all<'a>(storages: impl IntoIterator<Item = &'a Storage>) -> Result<SmallVec<[Pin<'a>; 4]>> {
    storages.into_iter().map(Storage::pin).collect()
}

impl Cell {
    /// Frees what was retired, if nobody is inside; whoever finds somebody inside leaves the list to the last one out.
    #[cold]
    fn sweep(&self) {
        let list = self.retired.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if list.is_null() {
            return;
        }
        if self.pins.load(Ordering::SeqCst) == 0 {
            // Whoever pins from here on finds the new block: a retired one was unlinked before it entered the list.
            // SAFETY: the list was taken whole, so it is this thread's alone.
            unsafe { self.free_list(list) };
        } else {
            // If the last one leaves just now it finds no list; then the next one to leave frees it, or the storage's end.
            // SAFETY: the list is this thread's alone until it is put back.
            unsafe { self.retire_list(list) };
        }
    }

    /// # Safety
    /// `block` was taken out of this cell, and nobody is inside that saw it.
    unsafe fn free_block(&self, block: *mut Block) {
        // SAFETY: by the caller's word; every block but the first stands in a box of its own.
        unsafe {
            if block == self.first.get().cast() {
                std::ptr::drop_in_place(block);
            } else {
                drop(Box::from_raw(block));
            }
        }
    }

    /// # Safety
    /// `list` is a list of boxes that nobody else reaches, of blocks that nobody sees any more.
    unsafe fn free_list(&self, mut list: *mut Retired) {
        while !list.is_null() {
            // SAFETY: by the caller's word; each node was made by `Box::into_raw`.
            unsafe {
                let node = Box::from_raw(list);
                self.free_block(node.block);
                list = node.next;
            }
        }
    }

    /// # Safety
    /// `list` is a list that nobody else reaches.
    unsafe fn retire_list(&self, list: *mut Retired) {
        let mut tail = list;
        // SAFETY: by the caller's word every node is alive and unshared.
        unsafe {
            while !(*tail).next.is_null() {
                tail = (*tail).next;
            }
            let mut head = self.retired.load(Ordering::Relaxed);
            loop {
                (*tail).next = head;
                match self.retired.compare_exchange_weak(head, list, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => head = now,
                }
            }
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // SAFETY: the last handle is gone, so is every hold (it borrows a handle).
        unsafe {
            self.free_block(self.block.load(Ordering::Relaxed));
            self.free_list(self.retired.load(Ordering::Relaxed));
        }
    }
}

impl Storage {
    #[inline]
    pub fn new(block: Block) -> Storage {
        let cell = Counted::new(Cell {
            block: AtomicPtr::new(std::ptr::null_mut()),
            first: UnsafeCell::new(ManuallyDrop::new(block)),
            pins: AtomicU32::new(0),
            exports: AtomicU32::new(0),
            retired: AtomicPtr::new(std::ptr::null_mut()),
        });
        cell.block.store(cell.first.get().cast(), Ordering::Relaxed);
        Storage(cell)
    }

    /// Fresh bytes on the host, uninitialised.
    #[inline]
    pub fn heap(bytes: usize) -> Result<Storage> {
        Ok(Storage::new(Block::heap(bytes)?))
    }

    /// Enters the storage: until this is dropped its block stays where it is.
    #[inline]
    fn hold(&self) -> Hold<'_> {
        // The order matters: first be seen inside, then look which block is the current one.
        self.0.pins.fetch_add(1, Ordering::SeqCst);
        Hold { cell: &self.0, block: self.0.block.load(Ordering::SeqCst) }
    }

    /// Enters the storage to read or write: until the pin is dropped its bytes stay where they are. The one way to the
    /// bytes, and an error where the host cannot reach any: on `meta`, on another device, behind the end of a file.
    #[inline]
    pub fn pin(&self) -> Result<Pin<'_>> {
        let hold = self.hold();
        if !hold.block().sure {
            hold.block().check()?;
        }
        Ok(Pin(hold))
    }

    /// A pin for somebody else's object over the same bytes.
    pub fn export(&self) -> Result<Exported<'_>> {
        let pin = self.pin()?;
        self.0.exports.fetch_add(1, Ordering::Relaxed);
        Ok(Exported(pin))
    }

    /// Keeps the bytes in place as long as the storage lives, for somebody who got their address.
    pub fn expose(&self) -> Result<()> {
        let exported = self.export()?;
        // The highest bit says that somebody has it; nobody else's count reaches it.
        if self.0.exports.fetch_or(1 << 31, Ordering::Relaxed) >> 31 == 0 {
            std::mem::forget(exported);
        }
        Ok(())
    }

    /// Whether what was read so far was there: an error for a file that lost some of it meanwhile.
    pub fn check_reads(&self) -> Result<()> {
        match self.hold().block().owner() {
            Owner::File(map) => map.check_reads(),
            _ => Ok(()),
        }
    }

    /// The first byte, for a caller who knows that nobody replaces the block meanwhile: two locked instructions less than a
    /// pin, which is 12 ns for each operand of a call. Nothing where the bytes may be gone.
    ///
    /// # Safety
    /// Until the last access through the pointer the caller holds the interpreter's lock,
    /// or is the only thread.
    #[inline]
    pub unsafe fn unpinned(&self) -> Option<*mut u8> {
        // SAFETY: whoever replaces blocks holds that lock too, so the current one stays.
        let block = unsafe { &*self.0.block.load(Ordering::Acquire) };
        block.sure.then_some(block.pointer.as_ptr())
    }

    /// Puts another block in place of the current one; kernels that are inside finish on the old one.
    ///
    /// # Safety
    /// The caller holds the interpreter's lock, if there is one, or is the only thread that reads `unpinned`.
    pub unsafe fn replace(&self, block: Block) {
        let old = self.0.block.swap(Box::into_raw(Box::new(block)), Ordering::SeqCst);
        let node = Box::new(Retired { block: old, next: std::ptr::null_mut() });
        // SAFETY: the node is new.
        unsafe { self.0.retire_list(Box::into_raw(node)) };
        if self.0.pins.load(Ordering::SeqCst) == 0 {
            self.0.sweep();
        }
    }

    /// Makes room for `bytes` bytes in all and keeps what is there; only memory of the house's own grows, and none that
    /// others show to their users, who would go on with the old bytes.
    ///
    /// # Safety
    /// As for `replace`.
    pub unsafe fn grow(&self, bytes: usize) -> Result<()> {
        let hold = self.hold();
        let old = hold.block();
        let block = match old.owner {
            Owner::Meta => Block::meta(bytes),
            Owner::Released => Block::heap(bytes)?,
            Owner::Heap if self.0.exports.load(Ordering::Relaxed) == 0 => {
                let block = Block::heap(bytes)?;
                // SAFETY: two blocks in host memory, both alive, of at least as many bytes.
                unsafe { old.pointer.copy_to_nonoverlapping(block.pointer, old.bytes.min(bytes)) };
                block
            }
            _ => return Err(Error::runtime("Trying to resize storage that is not resizable")),
        };
        // SAFETY: by the caller's word.
        unsafe { self.replace(block) };
        Ok(())
    }

    /// Gives the bytes back; whoever reads or writes here before the storage grows again is refused.
    ///
    /// # Safety
    /// As for `replace`.
    pub unsafe fn release(&self) -> Result<()> {
        let own = matches!(self.hold().block().owner, Owner::Heap | Owner::Released);
        if !own || self.0.exports.load(Ordering::Relaxed) != 0 {
            return Err(Error::runtime("Trying to resize storage that is not resizable"));
        }
        // SAFETY: by the caller's word.
        unsafe { self.replace(Block::released()) };
        Ok(())
    }

    /// Whether the memory is the house's own, and shown to nobody else.
    pub fn is_resizable(&self) -> bool {
        let own = matches!(self.hold().block().owner, Owner::Heap | Owner::Released | Owner::Meta);
        own && self.0.exports.load(Ordering::Relaxed) == 0
    }

    pub fn len(&self) -> usize {
        self.hold().block().bytes
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn device(&self) -> Device {
        self.hold().block().device
    }

    pub fn is_read_only(&self) -> bool {
        self.hold().block().read_only
    }

    /// Whether the bytes lie in an arena, where nobody can take them away.
    pub fn is_shared(&self) -> bool {
        matches!(self.hold().block().owner, Owner::Shared(_))
    }

    /// The mapped file that the bytes are of, and where in it they begin.
    pub fn file(&self) -> Option<(Arc<FileMap>, usize)> {
        let hold = self.hold();
        let block = hold.block();
        let Owner::File(map) = &block.owner else { return None };
        Some((map.clone(), block.pointer.as_ptr() as usize - map.as_ptr() as usize))
    }

    /// Whether processes see what others write: in an arena, or through a file that each of them maps.
    pub fn is_common(&self) -> bool {
        let through =
            |(map, _): (Arc<FileMap>, usize)| map.file().is_some_and(|(.., writes)| writes == Writes::Through);
        self.is_shared() || self.file().is_some_and(through)
    }

    /// The first byte's address, a number for `data_ptr` and not something to read through; zero where there are no bytes.
    pub fn address(&self) -> usize {
        let hold = self.hold();
        let block = hold.block();
        if let Owner::Meta = block.owner { 0 } else { block.pointer.as_ptr() as usize }
    }

    pub fn same(&self, other: &Storage) -> bool {
        Counted::ptr_eq(&self.0, &other.0)
    }

    /// A number that is this storage's as long as it lives, whatever becomes of its bytes.
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }

    /// Whether both begin at the same byte: one storage, or two that wrap the same memory of somebody else.
    pub fn shares_bytes(&self, other: &Storage) -> bool {
        let (here, there) = (self.address(), other.address());
        self.same(other) || (here != 0 && here == there)
    }

    pub fn downgrade(&self) -> WeakStorage {
        WeakStorage(Counted::downgrade(&self.0))
    }

    pub fn owners(&self) -> usize {
        Counted::owners(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_block_outlives_its_replacement() {
        let storage = Storage::heap(8).unwrap();
        let pin = storage.pin().unwrap();
        unsafe { pin.as_ptr().cast::<u64>().write(7) };
        // SAFETY: nobody reads without a pin.
        unsafe { storage.replace(Block::heap(16).unwrap()) };
        assert_eq!(unsafe { pin.as_ptr().cast::<u64>().read() }, 7);
        assert_eq!(storage.len(), 16);
        drop(pin);
    }

    #[test]
    fn where_the_host_has_no_memory_there_is_no_pointer() {
        let storage = Storage::new(Block::meta(8));
        let error = storage.pin().err().unwrap();
        assert_eq!(error.class(), crate::error::Class::NotImplemented);
        assert_eq!(error.sentence(), "Cannot copy out of meta tensor; no data!");
        assert!(Block::meta(8).as_ptr().is_err());
        assert_eq!((storage.len(), storage.address()), (8, 0));
        // SAFETY: the only thread.
        unsafe { storage.grow(16).unwrap() };
        assert_eq!((storage.len(), storage.device()), (16, Device::Meta));
        let other = Storage::new(Block::meta(8));
        assert!(storage.shares_bytes(&storage.clone()) && !storage.shares_bytes(&other));
    }

    #[test]
    fn growing_keeps_the_bytes() {
        let storage = Storage::heap(8).unwrap();
        // SAFETY: the storage has eight bytes.
        unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().write(7) };
        // SAFETY: the only thread.
        unsafe { storage.grow(64).unwrap() };
        // SAFETY: it has more now.
        assert_eq!(unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().read() }, 7);
        assert_eq!(storage.len(), 64);
    }

    #[test]
    fn what_others_show_keeps_its_size() {
        let storage = Storage::heap(8).unwrap();
        let shown = storage.export().unwrap();
        // SAFETY: the only thread.
        let refused = unsafe { storage.grow(64) }.unwrap_err();
        assert_eq!(refused.sentence(), "Trying to resize storage that is not resizable");
        drop(shown);
        // SAFETY: the only thread.
        unsafe { storage.grow(64).unwrap() };
        assert_eq!(storage.len(), 64);
    }

    #[test]
    fn replacing_while_others_read() {
        let storage = Storage::heap(8).unwrap();
        unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().write(1) };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        assert_eq!(unsafe { storage.pin().unwrap().as_ptr().cast::<u64>().read() }, 1);
                    }
                });
            }
            for _ in 0..2_000 {
                let block = Block::heap(8).unwrap();
                unsafe { block.as_ptr().unwrap().cast::<u64>().write(1) };
                // SAFETY: all readers pin.
                unsafe { storage.replace(block) };
            }
        });
    }
}
