//! The memory of tensors and of libraries' calls on devices, from one caching allocator for each device.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUresult};
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::memory_record;
use rushlight_core::{Class, Device, Error, Result, Storage};
use smallvec::SmallVec;

use crate::allocator::{Allocator, Piece, PoolId, PoolOptions, Source, State, Wanted};
use crate::capture::{self, CaptureId};
use crate::card;
use crate::copy;
use crate::history::{Action, Call, Entry, Frames};
use crate::sent;
use crate::statistics::Statistics;
use crate::stream::{self, Event};
use crate::user_allocator::{self, OfPools, UserAllocator};

/// The allocator of a device, and the blocks that other streams still use.
#[derive(Default)]
struct Pool {
    allocator: Allocator,
    waiting: Vec<(usize, Vec<Event>)>,
    /// Blocks that were freed while a graph was captured, when no event can be recorded, with the streams that use them.
    deferred: Vec<(usize, Streams)>,
    /// The pools of the graphs that are being captured, and their captures once they have begun.
    capturing: Vec<(PoolId, Option<CaptureId>)>,
    /// The allocators of pools whose memory a program's functions give out. They stay, because tensors may outlive their pool.
    users: OfPools,
}

type Streams = SmallVec<[StreamId; 1]>;

thread_local! {
    /// The pools from which this thread takes memory of devices. The last one of a device counts.
    static CHOSEN: RefCell<Vec<(u8, PoolId)>> = const { RefCell::new(Vec::new()) };
}

static POOLS: ForkMutex<BTreeMap<u8, Pool>> = ForkMutex::new(Rank::Pool, BTreeMap::new());

/// Memory of the driver, in the current context, or of a program's functions for its pools.
struct Driver<'a>(&'a OfPools);

impl Source for Driver<'_> {
    fn allocate(&mut self, Wanted { bytes, stream, pool }: Wanted) -> Option<usize> {
        let _relaxed = capture::Relaxed::begin();
        if let Some(user) = self.0.get(&pool) {
            return user.allocate(bytes, card::current_context(), stream);
        }
        let mut address = 0;
        // SAFETY: a context is current, and the pointer is that of a local variable.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) };
        (status == CUresult::CUDA_SUCCESS).then_some(address as usize)
    }

    fn free(&mut self, address: usize, Wanted { bytes, stream, pool }: Wanted) {
        if let Some(user) = self.0.get(&pool) {
            return user.free(address, bytes, card::current_context(), stream);
        }
        // SAFETY: the segment came from `allocate`, and no block of it is in use.
        unsafe { sys::cuMemFree_v2(address as u64) };
    }
}

/// Whether freed memory is kept: 0 if torch's variable decides, 1 if not, 2 if so.
static CACHES: AtomicU8 = AtomicU8::new(0);

/// Whether freed memory is kept.
pub fn is_caching() -> bool {
    match CACHES.load(Ordering::Relaxed) {
        0 => {
            let caches = std::env::var("PYTORCH_NO_CUDA_MEMORY_CACHING").is_err();
            set_caching(caches);
            caches
        }
        chosen => chosen == 2,
    }
}

/// Sets whether freed memory is kept. Otherwise it goes back to the driver at once.
pub fn set_caching(caches: bool) {
    CACHES.store(1 + u8::from(caches), Ordering::Relaxed);
}

impl Pool {
    /// Gives back the blocks whose streams have passed; with `wait`, all of them.
    fn collect(&mut self, wait: bool) {
        if !self.capturing.is_empty() {
            return;
        }
        for (address, streams) in std::mem::take(&mut self.deferred) {
            self.give_back_after(address, &streams);
        }
        if wait && !self.waiting.is_empty() {
            self.allocator.statistics.waits += 1;
        }
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

    /// Gives a block back when the work that streams have now has run.
    fn give_back_after(&mut self, address: usize, streams: &Streams) {
        if streams.is_empty() {
            return self.give_back(address);
        }
        self.allocator.set_waiting(address);
        if !self.capturing.is_empty() {
            return self.deferred.push((address, streams.clone()));
        }
        // A device that cannot record an event runs no work any more.
        let record = |&(device, stream): &(u8, StreamId)| {
            let event = Event::new(device, false).ok()?;
            event.record(stream).is_ok().then_some(event)
        };
        let device = card::current_context();
        let events = streams.iter().filter_map(|&stream| record(&(device, stream))).collect();
        self.waiting.push((address, events));
    }

    fn give_back(&mut self, address: usize) {
        self.allocator.give_back(address);
        if !is_caching() && self.capturing.is_empty() {
            self.allocator.release(&mut Driver(&self.users));
        }
    }

    /// Tells the profiler how much a call has taken or given back since there were `before` bytes.
    fn tell(&self, device: u8, address: usize, before: usize) {
        let amounts = self.allocator.amounts();
        let now = amounts.allocated_bytes.current;
        if memory_record::is_on() && now != before {
            let (bytes, reserved) = (now as isize - before as isize, amounts.reserved_bytes.current);
            memory_record::changed_on(Device::Cuda(device), address, bytes, now, reserved);
        }
    }

    /// The bytes of the blocks of tensors.
    fn in_use(&self) -> usize {
        self.allocator.amounts().allocated_bytes.current
    }

    /// The pool for an allocation on a stream.
    fn of(&self, device: u8, stream: StreamId) -> PoolId {
        let chosen = || CHOSEN.with_borrow(|all| all.iter().rev().find(|(of, _)| *of == device).map(|(_, pool)| *pool));
        if self.capturing.is_empty() {
            return chosen().unwrap_or(PoolId::SHARED);
        }
        let capture = capture::of(device, stream);
        let own = self.capturing.iter().find(|(_, other)| capture.is_some() && *other == capture);
        own.map(|(pool, _)| *pool).or_else(chosen).unwrap_or(PoolId::SHARED)
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
    others: Mutex<Streams>,
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

    // Another process would keep the old block.
    fn is_resizable(&self) -> bool {
        !sent::has(self.address)
    }

    fn resized(&self, bytes: usize) -> Result<Box<dyn DeviceMemory>> {
        if !self.is_resizable() {
            return Err(Error::runtime("Trying to resize storage that is not resizable"));
        }
        let block = Memory::new(self.device, bytes)?;
        let kept = self.bytes.min(bytes);
        if kept != 0 {
            let stream = stream::current(self.device);
            self.record_stream(stream);
            let [from, to] = [self, &block].map(|memory| (self.device, memory.address));
            // SAFETY: two blocks of at least as many bytes; the old one is held for the stream, and the new one is the stream's.
            unsafe { copy::between(from, to, kept, stream)? };
        }
        Ok(Box::new(block))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 || self.generation != fork::generation() || card::select(self.device).is_err() {
            return;
        }
        let mut others = Streams::new();
        if self.shared.load(Ordering::Acquire) {
            others = std::mem::take(self.others.get_mut().unwrap_or_else(PoisonError::into_inner));
        }
        if let Some(user) = user_allocator::current() {
            // Such functions do not know which other streams use the memory.
            others.iter().for_each(|&other| drop(stream::synchronize(self.device, other)));
            return user.free(self.address, self.bytes, self.device, self.stream);
        }
        let call = Call::new(false);
        let mut pools = POOLS.lock();
        let pool = pools.entry(self.device).or_default();
        pool.allocator.history.call = call;
        let before = pool.in_use();
        pool.give_back_after(self.address, &others);
        pool.tell(self.device, self.address, before);
        pool.allocator.history.call = None;
    }
}

impl Memory {
    /// A block for work on this thread's current stream.
    fn new(device: u8, bytes: usize) -> Result<Memory> {
        card::select(device)?;
        let stream = stream::current(device);
        let address = match bytes {
            0 => 0,
            _ => take(device, bytes, stream)?,
        };
        Ok(Memory {
            address,
            bytes,
            device,
            stream,
            generation: fork::generation(),
            shared: AtomicBool::new(false),
            others: Mutex::new(SmallVec::new()),
        })
    }
}

/// Uninitialised memory for work on this thread's current stream.
pub fn allocate(device: u8, bytes: usize) -> Result<Storage> {
    Ok(Storage::new(Block::device(Box::new(Memory::new(device, bytes)?))))
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

/// The address of new memory for work of a stream.
fn take(device: u8, bytes: usize, stream: StreamId) -> Result<usize> {
    if let Some(user) = user_allocator::current() {
        let table = Table { statistics: Statistics::default(), largest: None, limit: None };
        return user.allocate(bytes, device, stream).ok_or_else(|| out_of_memory(device, bytes, &table));
    }
    let attempt = |wait: bool| {
        let call = Call::new(true);
        let mut pools = POOLS.lock();
        let pool = pools.entry(device).or_default();
        pool.allocator.history.call = call;
        pool.collect(wait);
        let home = pool.of(device, stream);
        let before = pool.in_use();
        let taken = pool.allocator.allocate(bytes, stream, home, &mut Driver(&pool.users));
        taken.iter().for_each(|&address| pool.tell(device, address, before));
        pool.allocator.history.call = None;
        taken
    };
    if let Some(address) = attempt(false) {
        return Ok(address);
    }
    // Blocks that other streams or processes used may be enough.
    sent::collect();
    if let Some(address) = attempt(true) {
        return Ok(address);
    }
    let (call, free) = (Call::new(true), card::select(device)?.memory_info().map_or(0, |(free, _)| free));
    let mut pools = POOLS.lock();
    let pool = pools.entry(device).or_default();
    let before = pool.in_use();
    pool.allocator.history.call = call;
    let found = pool.allocator.last_resort(bytes, stream);
    found.iter().for_each(|&address| pool.tell(device, address, before));
    let allocator = &mut pool.allocator;
    if found.is_none() {
        allocator.history.note(Action::Oom, free, bytes, stream, PoolId::SHARED.0);
    }
    allocator.history.call = None;
    if let Some(address) = found {
        return Ok(address);
    }
    allocator.statistics.out_of_memory += 1;
    let table = Table {
        statistics: allocator.statistics,
        largest: allocator.pieces().filter(|piece| piece.state == State::Free).map(|piece| piece.size).max(),
        limit: allocator.limit,
    };
    drop(pools);
    Err(out_of_memory(device, bytes, &table))
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

/// What the error of a failed allocation shows.
struct Table {
    statistics: Statistics,
    largest: Option<usize>,
    limit: Option<usize>,
}

#[cold]
fn out_of_memory(device: u8, bytes: usize, table: &Table) -> Error {
    // A device that has failed has memory, but gives none.
    let (free, total) = match card::select(device).and_then(|card| card.memory_info()) {
        Ok(known) => known,
        Err(error) => return error,
    };
    let all = table.statistics.all();
    let (reserved, used) = (all.reserved_bytes.current, all.allocated_bytes.current);
    let allowed = table.limit.map_or(String::new(), |limit| format!(" {} allowed;", in_words(limit)));
    let rows = [
        ("tensors", used, format!("in {} blocks", all.allocation.current)),
        (
            "freed, kept for reuse",
            reserved - used,
            format!("the largest block is {}", in_words(table.largest.unwrap_or(0))),
        ),
        ("from the driver", reserved, format!("in {} segments", all.segment.current)),
        ("most tensors so far", all.allocated_bytes.peak, String::new()),
    ];
    let rows: String = rows
        .iter()
        .map(|(what, bytes, more)| format!("\n    {what:<22} {:>12}  {more}", in_words(*bytes)).trim_end().to_string())
        .collect();
    Error::new(
        Class::DeviceMemory,
        format!(
            "CUDA out of memory. Tried to allocate {}. GPU {device} has a total capacity of {} of which {} is free.{allowed} \
             Of the allocated memory {} is allocated by PyTorch, and {} is reserved by PyTorch but unallocated.",
            in_words(bytes),
            in_words(total),
            in_words(free),
            in_words(used),
            in_words(reserved - used)
        ),
    )
    .hint(format!("A smaller batch, or del and torch.cuda.empty_cache(), may help. The memory of GPU {device}:{rows}"))
}

/// Returns the memory that no tensor uses to the driver.
pub fn empty_cache() {
    sent::collect();
    let used: Vec<u8> = card::used().map(|card| card.index).collect();
    for device in used {
        if card::select(device).is_ok() {
            let call = Call::new(false);
            let mut pools = POOLS.lock();
            let pool = pools.entry(device).or_default();
            pool.allocator.history.call = call;
            pool.collect(true);
            pool.allocator.release(&mut Driver(&pool.users));
            pool.allocator.history.call = None;
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
    with(device, |allocator| allocator.statistics.reset_peaks());
}

pub fn reset_sums(device: u8) {
    with(device, |allocator| allocator.statistics.reset_sums());
}

/// Limits the memory that is taken from the driver.
pub fn set_limit(device: u8, bytes: Option<usize>) {
    with(device, |allocator| allocator.limit = bytes);
}

pub fn limit(device: u8) -> Option<usize> {
    with(device, |allocator| allocator.limit)
}

/// The blocks of a device, free ones included, each with the lines that asked for it if they were recorded.
pub fn snapshot(device: u8) -> Vec<(Piece, Frames)> {
    with(device, |allocator| {
        let told = |piece: Piece| {
            let frames = allocator.history.of_block(piece.address);
            (piece, frames)
        };
        allocator.pieces().map(told).collect()
    })
}

/// What a device's allocator has done while it was recorded, after the mark of a snapshot.
pub fn history(device: u8) -> Vec<Entry> {
    let call = Call::new(false);
    with(device, |allocator| {
        allocator.history.call = call;
        allocator.history.note(Action::Snapshot, 0, 0, stream::DEFAULT, PoolId::SHARED.0);
        allocator.history.call = None;
        allocator.history.entries().cloned().collect()
    })
}

/// Forgets what was recorded.
pub fn clear_history() {
    POOLS.lock().values_mut().for_each(|pool| pool.allocator.history.clear());
}

/// The segment of an address, and its first byte's offset in it.
pub fn segment_of(device: u8, address: usize) -> Option<(usize, usize)> {
    with(device, |allocator| {
        let piece = allocator.pieces().take_while(|piece| piece.address <= address).last()?;
        (address < piece.address + piece.size).then(|| (piece.segment, address - piece.segment))
    })
}

/// Announces a capture whose work allocates in a pool, until `end_capture`; the pool's segments stay until `let_go_of_pool`. What
/// two captures at once free would be used by both, so that they cannot have one pool.
pub fn begin_capture(device: u8, pool: PoolId) -> Result<()> {
    let mut pools = POOLS.lock();
    let own = pools.entry(device).or_default();
    if own.capturing.iter().any(|(other, _)| *other == pool) {
        return Err(Error::runtime("beginAllocateToPool: already recording to mempool_id")
            .hint("Another graph is being recorded with this pool: record one after the other, or with a pool each."));
    }
    own.capturing.push((pool, None));
    own.allocator.keep_pool(pool);
    Ok(())
}

/// Names the capture that has begun.
pub fn name_capture(device: u8, pool: PoolId, capture: CaptureId) {
    let mut pools = POOLS.lock();
    let all = pools.entry(device).or_default().capturing.iter_mut();
    all.filter(|(other, _)| *other == pool).for_each(|(_, own)| *own = Some(capture));
}

pub fn end_capture(device: u8, pool: PoolId) {
    POOLS.lock().entry(device).or_default().capturing.retain(|(other, _)| *other != pool);
}

pub fn let_go_of_pool(device: u8, pool: PoolId) {
    with(device, |allocator| allocator.let_go_of_pool(pool));
}

/// Keeps the segments of a pool that a program makes on a device, until `end_pool`; `user` gives out its memory.
pub fn make_pool(device: u8, pool: PoolId, options: PoolOptions, user: Option<UserAllocator>) {
    let mut pools = POOLS.lock();
    let own = pools.entry(device).or_default();
    own.users.extend(user.map(|user| (pool, user)));
    own.allocator.make_pool(pool, options);
}

/// Ends a pool: what no tensor uses goes back to the driver.
pub fn end_pool(device: u8, pool: PoolId) {
    let ended = card::select(device).is_ok();
    let call = Call::new(false);
    let mut pools = POOLS.lock();
    let own = pools.entry(device).or_default();
    own.allocator.end_pool(pool);
    if ended {
        own.allocator.history.call = call;
        own.allocator.release_pool(pool, &mut Driver(&own.users));
        own.allocator.history.call = None;
    }
}

/// How many graphs and programs keep a pool.
pub fn uses_of_pool(device: u8, pool: PoolId) -> usize {
    with(device, |allocator| allocator.uses_of(pool))
}

/// Lets this thread take memory of a device from a pool, until `leave_pool`.
pub fn enter_pool(device: u8, pool: PoolId) -> Result<()> {
    card::select(device)?;
    with(device, |allocator| allocator.keep_pool(pool));
    CHOSEN.with_borrow_mut(|all| all.push((device, pool)));
    Ok(())
}

pub fn leave_pool(device: u8, pool: PoolId) {
    let left = CHOSEN.with_borrow_mut(|all| {
        let last = all.iter().rposition(|own| *own == (device, pool))?;
        Some(all.remove(last))
    });
    if left.is_some() {
        let_go_of_pool(device, pool);
    }
}
