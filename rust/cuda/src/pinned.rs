//! Page-locked memory of the host, which devices copy from and to while the host goes on.
//!
//! Blocks have sizes of powers of two and are kept when they are freed, unless the settings say otherwise. A block is used again only
//! after the copies that were recorded for it have run.

use std::alloc::Layout;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys;
use rushlight_core::block::Block;
use rushlight_core::device_memory::{PageLocked, StreamId};
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::{Device, Error, Result, Storage};

use crate::capture;
use crate::card;
use crate::driver::check;
use crate::settings;
use crate::statistics::Count;
use crate::stream::{Event, Stream};

/// What `torch.cuda.host_memory_stats` shows.
#[derive(Clone, Copy, Default)]
pub struct HostStatistics {
    /// Blocks from the driver.
    pub allocations: Count,
    pub allocated_bytes: Count,
    /// Blocks in use.
    pub active_requests: Count,
    pub active_bytes: Count,
    pub driver_allocations: usize,
    pub driver_frees: usize,
}

#[derive(Default)]
struct Cache {
    /// Free blocks by size.
    free: BTreeMap<usize, Vec<usize>>,
    /// Blocks that copies still use.
    waiting: Vec<(usize, usize, Vec<Event>)>,
    /// Blocks of this process's memory that the driver has locked; it has allocated the others.
    registered: BTreeSet<usize>,
    statistics: HostStatistics,
}

static CACHE: ForkMutex<Option<Cache>> = ForkMutex::new(Rank::Pool, None);

fn with<T>(run: impl FnOnce(&mut Cache) -> T) -> T {
    run(CACHE.lock().get_or_insert_with(Cache::default))
}

impl Cache {
    /// Frees the blocks whose copies have run.
    fn collect(&mut self) {
        for (size, address, mut events) in std::mem::take(&mut self.waiting) {
            events.retain(|event| !event.query().unwrap_or(true));
            match events.is_empty() {
                true => self.give_back(size, address),
                false => self.waiting.push((size, address, events)),
            }
        }
    }

    fn give_back(&mut self, size: usize, address: usize) {
        self.statistics.active_requests.subtract(1);
        self.statistics.active_bytes.subtract(size);
        match size > settings::current().pinned_cached {
            true => self.release(size, address),
            false => self.free.entry(size).or_default().push(address),
        }
    }

    /// New memory; the size is that of a page or more if this process has it.
    fn allocate(&mut self, size: usize) -> Result<usize> {
        let mut address: *mut c_void = std::ptr::null_mut();
        if settings::current().pinned_registers {
            let none = || Error::runtime(format!("cannot allocate {size} bytes of page-locked memory"));
            let layout = whole_pages(size).ok_or_else(none)?;
            // SAFETY: the layout is not empty.
            let own = unsafe { std::alloc::alloc(layout) };
            if own.is_null() {
                return Err(none());
            }
            // SAFETY: the memory is that of the layout, and a context is current.
            let locked =
                unsafe { sys::cuMemHostRegister_v2(own.cast(), layout.size(), sys::CU_MEMHOSTREGISTER_PORTABLE) };
            if let Err(error) = check(locked) {
                // SAFETY: it was just allocated.
                unsafe { std::alloc::dealloc(own, layout) };
                return Err(error);
            }
            address = own.cast();
            self.registered.insert(address.expose_provenance());
        } else {
            // SAFETY: a context is current, and the pointer is that of a local variable.
            check(unsafe { sys::cuMemHostAlloc(&raw mut address, size, sys::CU_MEMHOSTALLOC_PORTABLE) })?;
        }
        self.statistics.allocations.add(1);
        self.statistics.allocated_bytes.add(size);
        self.statistics.driver_allocations += 1;
        Ok(address.expose_provenance())
    }

    /// Gives memory up that no tensor or copy uses. Without a context, as in a process that ends, it stays.
    fn release(&mut self, size: usize, address: usize) {
        let _relaxed = capture::Relaxed::begin();
        if card::select(card::current()).is_err() {
            return;
        }
        let memory = std::ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: the block came from `allocate`, and nothing uses it.
        unsafe {
            match (self.registered.remove(&address), whole_pages(size)) {
                (true, Some(layout)) => {
                    sys::cuMemHostUnregister(memory.cast());
                    std::alloc::dealloc(memory, layout);
                }
                _ => {
                    sys::cuMemFreeHost(memory.cast());
                }
            }
        }
        self.statistics.allocations.subtract(1);
        self.statistics.allocated_bytes.subtract(size);
        self.statistics.driver_frees += 1;
    }

    fn take(&mut self, size: usize) -> Result<usize> {
        self.collect();
        let address = match self.free.get_mut(&size).and_then(Vec::pop) {
            Some(address) => address,
            None => self.allocate(size)?,
        };
        self.statistics.active_requests.add(1);
        self.statistics.active_bytes.add(size);
        Ok(address)
    }
}

/// The smallest block.
const SMALLEST: usize = 64;
const PAGE: usize = 4096;

/// The pages of a block of this process.
fn whole_pages(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_next_multiple_of(PAGE)?, PAGE).ok()
}

/// The size of the block for a request: a power of two, unless it is too large for that or would not be kept.
fn block_size(bytes: usize) -> Option<usize> {
    let settings = settings::current();
    let whole = bytes.max(SMALLEST);
    let most = settings.pinned_round.min(settings.pinned_cached);
    if whole > most { Some(whole) } else { whole.checked_next_power_of_two() }
}

struct Memory {
    address: usize,
    bytes: usize,
    /// The size of the block.
    size: usize,
    generation: u64,
    /// The streams that use the memory, with events after their last copies.
    uses: Mutex<Vec<(Device, StreamId, Event)>>,
    in_use: AtomicBool,
}

impl Memory {
    fn uses(&self) -> std::sync::MutexGuard<'_, Vec<(Device, StreamId, Event)>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PageLocked for Memory {
    fn address(&self) -> usize {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn enter(&self, device: Device, stream: StreamId) -> Result<()> {
        let Device::Cuda(index) = device else { return Ok(()) };
        for (other, used_by, event) in self.uses().iter() {
            if (*other, *used_by) != (device, stream) {
                Stream::of(index, stream).wait(event)?;
            }
        }
        Ok(())
    }

    fn leave(&self, device: Device, stream: StreamId) -> Result<()> {
        let Device::Cuda(index) = device else { return Ok(()) };
        let event = Event::new(index, false)?;
        event.record(stream)?;
        let mut uses = self.uses();
        uses.retain(|(other, used_by, _)| (*other, *used_by) != (device, stream));
        uses.push((device, stream, event));
        self.in_use.store(true, Ordering::Release);
        Ok(())
    }

    fn wait(&self) -> Result<()> {
        // A forked child has no device that could use the memory.
        if !self.in_use.load(Ordering::Acquire) || self.generation != fork::generation() {
            return Ok(());
        }
        let mut uses = self.uses();
        for (_, _, event) in uses.iter() {
            event.synchronize()?;
        }
        uses.clear();
        self.in_use.store(false, Ordering::Release);
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 || self.generation != fork::generation() {
            return;
        }
        let uses = std::mem::take(self.uses.get_mut().unwrap_or_else(PoisonError::into_inner));
        let events: Vec<Event> = uses.into_iter().map(|(_, _, event)| event).collect();
        with(|cache| match events.is_empty() {
            true => cache.give_back(self.size, self.address),
            false => cache.waiting.push((self.size, self.address, events)),
        });
    }
}

/// Uninitialised page-locked memory.
pub fn allocate(bytes: usize) -> Result<Storage> {
    card::select(card::current())?;
    let size = block_size(bytes)
        .ok_or_else(|| Error::runtime(format!("cannot allocate {bytes} bytes of page-locked memory")))?;
    let address = if bytes == 0 { 0 } else { with(|cache| cache.take(size))? };
    let memory = Memory {
        address,
        bytes,
        size,
        generation: fork::generation(),
        uses: Mutex::new(Vec::new()),
        in_use: AtomicBool::new(false),
    };
    // SAFETY: the block has at least `bytes` bytes and is given back when the value is dropped.
    Ok(Storage::new(unsafe { Block::page_locked(Box::new(memory)) }))
}

/// Returns the blocks that no tensor uses to the driver.
pub fn empty_cache() {
    if !crate::driver::is_initialized() || card::select(card::current()).is_err() {
        return;
    }
    with(|cache| {
        cache.collect();
        for (size, blocks) in std::mem::take(&mut cache.free) {
            blocks.into_iter().for_each(|address| cache.release(size, address));
        }
    });
}

pub fn statistics() -> HostStatistics {
    with(|cache| cache.statistics)
}

impl HostStatistics {
    fn each(&mut self) -> [&mut Count; 4] {
        [&mut self.allocations, &mut self.allocated_bytes, &mut self.active_requests, &mut self.active_bytes]
    }
}

/// Makes the present amounts the highest ones.
pub fn reset_peaks() {
    with(|cache| {
        for count in cache.statistics.each() {
            count.peak = count.current;
        }
    });
}

/// Makes the sums zero.
pub fn reset_sums() {
    with(|cache| {
        for count in cache.statistics.each() {
            (count.allocated, count.freed) = (0, 0);
        }
        (cache.statistics.driver_allocations, cache.statistics.driver_frees) = (0, 0);
    });
}
