//! The memory of tensors on devices, from one caching allocator for each device.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUresult};
use once_cell::race::OnceBool;
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::{Class, Device, Error, Result, Storage};
use smallvec::SmallVec;

use crate::allocator::{Allocator, Piece, Source, Statistics};
use crate::card;
use crate::stream::{self, Event};

/// The allocator of a device, and the blocks that other streams still use.
#[derive(Default)]
struct Pool {
    allocator: Allocator,
    waiting: Vec<(usize, Vec<Event>)>,
}

static POOLS: ForkMutex<BTreeMap<u8, Pool>> = ForkMutex::new(Rank::Pool, BTreeMap::new());

/// Memory of the driver, in the current context.
struct Driver;

impl Source for Driver {
    fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let mut address = 0;
        // SAFETY: a context is current, and the pointer is that of a local variable.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) };
        (status == CUresult::CUDA_SUCCESS).then_some(address as usize)
    }

    fn free(&mut self, address: usize) {
        // SAFETY: the segment came from `allocate`, and no block of it is in use.
        unsafe { sys::cuMemFree_v2(address as u64) };
    }
}

/// Whether freed memory is kept, unless torch's variable says otherwise.
fn caches() -> bool {
    static CACHES: OnceBool = OnceBool::new();
    CACHES.get_or_init(|| std::env::var("PYTORCH_NO_CUDA_MEMORY_CACHING").is_err())
}

impl Pool {
    /// Gives back the blocks whose streams have passed; with `wait`, all of them.
    fn collect(&mut self, wait: bool) {
        let passed = |event: &Event| {
            if wait { event.synchronize().is_ok() } else { event.query().unwrap_or(true) }
        };
        for (address, mut events) in std::mem::take(&mut self.waiting) {
            events.retain(|event| !passed(event));
            if events.is_empty() || wait {
                self.give_back(address);
            } else {
                self.waiting.push((address, events));
            }
        }
    }

    fn give_back(&mut self, address: usize) {
        self.allocator.give_back(address);
        if !caches() {
            self.allocator.release(&mut Driver);
        }
    }
}

/// A block of a pool.
struct Memory {
    address: usize,
    bytes: usize,
    device: u8,
    stream: StreamId,
    /// The number of forks before the block was made: a forked child has no device to give it back to.
    generation: u64,
    shared: AtomicBool,
    others: Mutex<SmallVec<[StreamId; 1]>>,
}

impl DeviceMemory for Memory {
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
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 || self.generation != fork::generation() || card::select(self.device).is_err() {
            return;
        }
        let mut events = Vec::new();
        if self.shared.load(Ordering::Acquire) {
            let others = self.others.get_mut().unwrap_or_else(PoisonError::into_inner);
            for &other in others.iter() {
                // A device that cannot record an event runs no work any more.
                if let Ok(event) = Event::new(self.device, false)
                    && event.record(other).is_ok()
                {
                    events.push(event);
                }
            }
        }
        let mut pools = POOLS.lock();
        let pool = pools.entry(self.device).or_default();
        match events.is_empty() {
            true => pool.give_back(self.address),
            false => pool.waiting.push((self.address, events)),
        }
    }
}

/// Uninitialised memory for work on this thread's current stream.
pub fn allocate(device: u8, bytes: usize) -> Result<Storage> {
    card::select(device)?;
    let stream = stream::current(device);
    let address = match bytes {
        0 => 0,
        _ => take(device, bytes, stream)?,
    };
    Ok(Storage::new(Block::device(Box::new(Memory {
        address,
        bytes,
        device,
        stream,
        generation: fork::generation(),
        shared: AtomicBool::new(false),
        others: Mutex::new(SmallVec::new()),
    }))))
}

fn take(device: u8, bytes: usize, stream: StreamId) -> Result<usize> {
    let mut pools = POOLS.lock();
    let pool = pools.entry(device).or_default();
    pool.collect(false);
    if let Some(address) = pool.allocator.allocate(bytes, stream, &mut Driver) {
        return Ok(address);
    }
    // Blocks that other streams use may be enough.
    if !pool.waiting.is_empty() {
        pool.collect(true);
        if let Some(address) = pool.allocator.allocate(bytes, stream, &mut Driver) {
            return Ok(address);
        }
    }
    pool.allocator.statistics.out_of_memory += 1;
    let statistics = pool.allocator.statistics;
    drop(pools);
    Err(out_of_memory(device, bytes, &statistics))
}

fn in_words(bytes: usize) -> String {
    let bytes = bytes as f64;
    match bytes {
        1073741824.0.. => format!("{:.2} GiB", bytes / 1073741824.0),
        1048576.0.. => format!("{:.2} MiB", bytes / 1048576.0),
        1024.0.. => format!("{:.2} KiB", bytes / 1024.0),
        _ => format!("{bytes} bytes"),
    }
}

#[cold]
fn out_of_memory(device: u8, bytes: usize, statistics: &Statistics) -> Error {
    let (free, total) = card::select(device).and_then(|card| card.memory_info()).unwrap_or_default();
    let (reserved, used) = (statistics.reserved.current, statistics.bytes.current);
    Error::new(
        Class::DeviceMemory,
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free.",
            in_words(bytes),
            in_words(total),
            in_words(free)
        ),
    )
    .hint(format!(
        "Tensors take {}, and freed ones keep {} reserved: a smaller batch, or del and torch.cuda.empty_cache(), may help.",
        in_words(used),
        in_words(reserved - used)
    ))
}

/// Returns the memory that no tensor uses to the driver.
pub fn empty_cache() {
    let used: Vec<u8> = card::used().map(|card| card.index).collect();
    for device in used {
        if card::select(device).is_ok() {
            let mut pools = POOLS.lock();
            let pool = pools.entry(device).or_default();
            pool.collect(true);
            pool.allocator.release(&mut Driver);
        }
    }
}

/// Runs a function on the allocator of a device.
fn with<T>(device: u8, run: impl FnOnce(&mut Allocator) -> T) -> T {
    run(&mut POOLS.lock().entry(device).or_default().allocator)
}

pub fn statistics(device: u8) -> Statistics {
    with(device, |allocator| allocator.statistics)
}

pub fn reset_peaks(device: u8) {
    with(device, Allocator::reset_peaks);
}

pub fn reset_sums(device: u8) {
    with(device, Allocator::reset_sums);
}

/// The blocks of a device, free ones included.
pub fn snapshot(device: u8) -> Vec<Piece> {
    with(device, |allocator| allocator.pieces().collect())
}
