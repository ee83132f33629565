//! Bytes with an owner, shared by every view of them.
//!
//! A storage is a cell that points to a block. Kernels run without the GIL. So operations that replace the bytes
//! (`share_memory_`, `resize_`, `set_`) swap the block in the cell, and the old block stays alive until the last kernel
//! that pinned the cell has finished.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::block::{Block, Owner, released};
use crate::counted::{self, Counted, WeakCounted};
use crate::device::Device;
use crate::device_memory::{PageLocked, StreamId};
use crate::error::{Class, Error, Result};
use crate::file_map::{FileMap, MapMode};
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// A handle on bytes; clones refer to the same bytes.
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
    /// The block that the storage was made with. Most storages never get another, and so cost one allocation.
    first: UnsafeCell<ManuallyDrop<Block>>,
    /// How many kernels use the storage now.
    pins: AtomicU32,
    /// How many exports of the bytes exist: arrays, buffers, capsules.
    exports: AtomicU32,
    /// Blocks that were replaced while kernels used them.
    retired: AtomicPtr<Retired>,
}

static LEFT_ALONE: OnceLock<fn(Storage)> = OnceLock::new();

/// Installs the function that receives the last handle on a storage besides a kept one; on any thread.
pub fn set_left_alone(function: fn(Storage)) {
    let _ = LEFT_ALONE.set(function);
}

impl counted::Value for Cell {
    fn left_alone(last: Counted<Cell>) {
        match LEFT_ALONE.get() {
            Some(function) => function(Storage(last)),
            None => std::mem::forget(last),
        }
    }
}

// SAFETY: `first` is read through `block` only, and dropped once, by the code that takes it out of the cell.
unsafe impl Send for Cell {}
// SAFETY: see above.
unsafe impl Sync for Cell {}

struct Retired {
    block: *mut Block,
    next: *mut Retired,
}

/// Keeps a storage's current block alive, on any device.
struct Hold<'a> {
    cell: &'a Cell,
    block: *const Block,
}

impl Hold<'_> {
    #[inline]
    fn block(&self) -> &Block {
        // SAFETY: a cell frees none of its blocks while it is held.
        unsafe { &*self.block }
    }
}

/// Keeps a storage's current block alive, and proves that the host can reach its bytes.
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

/// A pin that is held for another object over the same bytes; while one exists, the storage keeps its size.
pub struct Exported<'a>(Pin<'a>);

impl Exported<'_> {
    pub fn pin(&self) -> &Pin<'_> {
        &self.0
    }
}

/// Holds a block of a device in place while work that uses it is enqueued.
pub struct DevicePin<'a>(Hold<'a>);

impl DevicePin<'_> {
    /// The address of the block in the device's address space.
    #[inline]
    pub fn address(&self) -> usize {
        self.0.block().pointer.addr().get()
    }
}

/// A pin of a device's memory for another object over the same bytes; while one exists, the storage keeps its size.
pub struct ExportedOn<'a>(DevicePin<'a>);

impl Drop for ExportedOn<'_> {
    fn drop(&mut self) {
        self.0.0.cell.exports.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Holds page-locked memory in place while a device copies from or to it.
pub struct LockedPin<'a>(Hold<'a>);

impl LockedPin<'_> {
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.0.block().pointer.as_ptr()
    }

    /// See `PageLocked::enter`.
    pub fn enter(&self, device: Device, stream: StreamId) -> Result<()> {
        self.memory().map_or(Ok(()), |memory| memory.enter(device, stream))
    }

    /// See `PageLocked::leave`.
    pub fn leave(&self, device: Device, stream: StreamId) -> Result<()> {
        self.memory().map_or(Ok(()), |memory| memory.leave(device, stream))
    }

    fn memory(&self) -> Option<&dyn PageLocked> {
        match &self.0.block().owner {
            Owner::PageLocked(memory) => Some(&**memory),
            _ => None,
        }
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
            self.cell.free_retired();
        }
    }
}

/// The pins of several storages, in their order.
pub fn pin_all<'a>(storages: impl IntoIterator<Item = &'a Storage>) -> Result<SmallVec<[Pin<'a>; 4]>> {
    storages.into_iter().map(Storage::pin).collect()
}

impl Cell {
    /// Frees retired blocks if no kernel uses the storage; otherwise the last one to finish does.
    #[cold]
    fn free_retired(&self) {
        let list = self.retired.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if list.is_null() {
            return;
        }
        if self.pins.load(Ordering::SeqCst) == 0 {
            // A pin that begins now sees the new block: a retired one was unlinked before it entered the list.
            //
            // SAFETY: the list was taken whole, so it belongs to this thread alone.
            unsafe { self.free_list(list) };
        } else {
            // If the last kernel finishes just now it finds no list; then the next one to finish frees it, or the drop
            // of the storage.
            //
            // SAFETY: the list belongs to this thread alone until it is put back.
            unsafe { self.retire_list(list) };
        }
    }

    /// # Safety
    /// `block` was taken out of this cell, and no hold that refers to it exists.
    unsafe fn free_block(&self, block: *mut Block) {
        // SAFETY: no hold refers to the block (see above); every block but the first is a box of its own.
        unsafe {
            if block == self.first.get().cast() {
                std::ptr::drop_in_place(block);
            } else {
                drop(Box::from_raw(block));
            }
        }
    }

    /// # Safety
    /// `list` is a list of boxes that nothing else reaches, of blocks to which no hold refers.
    unsafe fn free_list(&self, mut list: *mut Retired) {
        while !list.is_null() {
            // SAFETY: the caller guarantees unique access; each node was made by `Box::into_raw`.
            unsafe {
                let node = Box::from_raw(list);
                self.free_block(node.block);
                list = node.next;
            }
        }
    }

    /// # Safety
    /// `list` is a list that nothing else reaches.
    unsafe fn retire_list(&self, list: *mut Retired) {
        let mut tail = list;
        // SAFETY: the caller guarantees that every node is alive and unshared.
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
        // SAFETY: the last handle is gone, and so is every hold, which borrows a handle.
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

    /// New bytes on the host, uninitialised.
    #[inline]
    pub fn heap(bytes: usize) -> Result<Storage> {
        Ok(Storage::new(Block::heap(bytes)?))
    }

    /// Holds the storage's current block until the result is dropped.
    #[inline]
    fn hold(&self) -> Hold<'_> {
        // The order matters: count the hold first, then read which block is current.
        self.0.pins.fetch_add(1, Ordering::SeqCst);
        Hold { cell: &self.0, block: self.0.block.load(Ordering::SeqCst) }
    }

    /// Pins the bytes for reading or writing; they stay in place until the pin is dropped. This is the only safe way to
    /// the bytes for the host. It is an error if the host cannot reach them: on `meta`, on another device, or behind the end of a file.
    #[inline]
    pub fn pin(&self) -> Result<Pin<'_>> {
        let hold = self.hold();
        if !hold.block().always_accessible {
            hold.block().check()?;
        }
        Ok(Pin(hold))
    }

    /// Pins the storage for work on `stream` of its device. The block stays in place until the pin is dropped, and is
    /// not reused before the work has finished. Memory of the host is an error, and memory that was freed.
    pub fn pin_on(&self, stream: StreamId) -> Result<DevicePin<'_>> {
        let hold = self.hold();
        let Owner::Device(memory) = &hold.block().owner else {
            let device = hold.block().device;
            return Err(Error::new(Class::Unreachable, format!("the device cannot reach memory on {device}"))
                .hint("Use Tensor.to(device) to copy the tensor to the device first."));
        };
        if hold.block().bytes == 0 && hold.block().reserved != 0 {
            return Err(released());
        }
        memory.record_stream(stream);
        Ok(DevicePin(hold))
    }

    /// Whether the memory is a device's and belongs to another process.
    pub fn is_received(&self) -> bool {
        matches!(&self.hold().block().owner, Owner::Device(memory) if memory.is_received())
    }

    /// Pins page-locked memory for a copy that a device makes, without waiting for copies before it; `None` for other memory.
    pub fn pin_locked(&self) -> Option<LockedPin<'_>> {
        let hold = self.hold();
        matches!(hold.block().owner, Owner::PageLocked(_)).then(|| LockedPin(hold))
    }

    /// Whether the memory is page-locked.
    pub fn is_page_locked(&self) -> bool {
        matches!(self.hold().block().owner, Owner::PageLocked(_))
    }

    /// Whether arrays, buffers or capsules over the bytes exist, which read and write them without a pin.
    pub fn is_exported(&self) -> bool {
        self.0.exports.load(Ordering::Relaxed) != 0
    }

    /// A pin for another object over the same bytes.
    pub fn export(&self) -> Result<Exported<'_>> {
        let pin = self.pin()?;
        self.0.exports.fetch_add(1, Ordering::Relaxed);
        Ok(Exported(pin))
    }

    /// A pin of a device's memory for another object over the same bytes, which work on `stream` uses.
    pub fn export_on(&self, stream: StreamId) -> Result<ExportedOn<'_>> {
        let pin = self.pin_on(stream)?;
        self.0.exports.fetch_add(1, Ordering::Relaxed);
        Ok(ExportedOn(pin))
    }

    /// Keeps the bytes in place as long as the storage lives, because their address was given out.
    pub fn expose(&self) -> Result<()> {
        let exported = self.export()?;
        // The highest bit means "exposed"; the count never reaches it.
        if self.0.exports.fetch_or(1 << 31, Ordering::Relaxed) >> 31 == 0 {
            std::mem::forget(exported);
        }
        Ok(())
    }

    /// Checks that everything read so far was present: an error for a file that was truncated meanwhile.
    pub fn check_reads(&self) -> Result<()> {
        match self.hold().block().owner() {
            Owner::File(map) => map.check_reads(),
            _ => Ok(()),
        }
    }

    /// The first byte, for a caller that guarantees that the block is not replaced meanwhile. It saves the two locked
    /// instructions of a pin, 12 ns for each operand of a call. `None` if the bytes may be missing.
    ///
    /// # Safety
    /// Until the last access through the pointer the caller holds the GIL, or is the only thread.
    #[inline]
    pub unsafe fn unpinned(&self) -> Option<*mut u8> {
        // SAFETY: replacing a block requires the GIL too, so the current one stays.
        let block = unsafe { &*self.0.block.load(Ordering::Acquire) };
        block.always_accessible.then_some(block.pointer.as_ptr())
    }

    /// The address for work on `stream` of the storage's device, for a caller that guarantees that the block is not replaced before
    /// the work is enqueued; see `unpinned`. `None` if the memory is no device's, or was freed.
    ///
    /// # Safety
    /// Until the work is enqueued the caller holds the GIL, or is the only thread.
    #[inline]
    pub unsafe fn unpinned_on(&self, stream: StreamId) -> Option<usize> {
        // SAFETY: replacing a block requires the GIL too, so the current one stays.
        let block = unsafe { &*self.0.block.load(Ordering::Acquire) };
        match &block.owner {
            Owner::Device(memory) if block.bytes != 0 => {
                memory.record_stream(stream);
                Some(block.pointer.addr().get())
            }
            _ => None,
        }
    }

    /// Replaces the current block; kernels that are running finish on the old one.
    ///
    /// # Safety
    /// The caller holds the GIL, if there is one, or is the only thread that reads `unpinned`.
    pub unsafe fn replace(&self, block: Block) {
        let old = self.0.block.swap(Box::into_raw(Box::new(block)), Ordering::SeqCst);
        let node = Box::new(Retired { block: old, next: std::ptr::null_mut() });
        // SAFETY: the node is new.
        unsafe { self.0.retire_list(Box::into_raw(node)) };
        if self.0.pins.load(Ordering::SeqCst) == 0 {
            self.0.free_retired();
        }
    }

    /// Gives the storage `bytes` bytes in all and keeps the content that fits. Only memory of the engine's own
    /// allocators has another size, and only without exports, whose users would keep the old bytes. Zero bytes
    /// free the memory: reading or writing before the storage grows again is an error. Any other size keeps at
    /// least as much memory as the storage ever had.
    ///
    /// # Safety
    /// Same as for `replace`.
    pub unsafe fn resize(&self, bytes: usize) -> Result<()> {
        let hold = self.hold();
        let old = hold.block();
        let exported = self.0.exports.load(Ordering::Relaxed) != 0;
        let block = match &old.owner {
            Owner::Meta => Block::meta(bytes),
            Owner::Heap | Owner::Released if bytes == 0 && !exported => Block::released(old.reserved),
            Owner::Released => Block::heap_reserving(bytes, old.reserved)?,
            Owner::Heap if !exported => {
                let block = Block::heap_reserving(bytes, old.reserved)?;
                // SAFETY: two blocks in host memory, both alive, of at least as many bytes.
                unsafe { old.pointer.copy_to_nonoverlapping(block.pointer, old.reserved) };
                block
            }
            Owner::Device(memory) if !exported => {
                let kept = if bytes == 0 { 0 } else { bytes.max(old.reserved) };
                let mut block = Block::device(memory.resized(kept)?);
                block.bytes = bytes;
                block.reserved = bytes.max(old.reserved);
                block
            }
            _ => return Err(Error::runtime("Trying to resize storage that is not resizable")),
        };
        // SAFETY: the caller upholds the contract of `replace`.
        unsafe { self.replace(block) };
        Ok(())
    }

    /// Whether the memory is from the engine's own allocator and has no exports.
    pub fn is_resizable(&self) -> bool {
        let own = match &self.hold().block().owner {
            Owner::Heap | Owner::Released | Owner::Meta => true,
            Owner::Device(memory) => memory.is_resizable(),
            _ => false,
        };
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

    /// Whether this is the storage of a tensor whose class handles operators.
    pub fn is_wrapper(&self) -> bool {
        matches!(self.hold().block().owner, Owner::Wrapper)
    }

    /// Whether the bytes are in an arena, where they cannot be truncated.
    pub fn is_shared(&self) -> bool {
        matches!(self.hold().block().owner, Owner::Shared(_))
    }

    /// The mapped file of the bytes, and their offset in it.
    pub fn file(&self) -> Option<(Arc<FileMap>, usize)> {
        let hold = self.hold();
        let block = hold.block();
        let Owner::File(map) = &block.owner else { return None };
        Some((map.clone(), block.pointer.as_ptr() as usize - map.as_ptr() as usize))
    }

    /// Whether other processes see writes: through an arena, or through a file that each of them maps.
    pub fn is_cross_process(&self) -> bool {
        let through =
            |(map, _): (Arc<FileMap>, usize)| map.file().is_some_and(|(.., writes)| writes == MapMode::Shared);
        self.is_shared() || self.file().is_some_and(through)
    }

    /// The first byte's address, a number for `data_ptr` that is not dereferenced; zero if there are no bytes.
    pub fn address(&self) -> usize {
        let hold = self.hold();
        let block = hold.block();
        if block.bytes == 0 || matches!(block.owner, Owner::Meta | Owner::Wrapper) {
            0
        } else {
            block.pointer.as_ptr() as usize
        }
    }

    pub fn same(&self, other: &Storage) -> bool {
        Counted::ptr_eq(&self.0, &other.0)
    }

    /// A number that identifies this storage as long as it lives, regardless of its current block.
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(&*self.0).addr()
    }

    /// Whether both begin at the same byte: one storage, or two that wrap the same foreign memory.
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

    /// See `Counted::keep`: the caller's handle is the kept one.
    pub fn keep(&self) -> bool {
        Counted::keep(&self.0)
    }

    pub fn release_kept(&self) {
        Counted::release_kept(&self.0);
    }

    pub fn is_kept(&self) -> bool {
        Counted::is_kept(&self.0)
    }
}
