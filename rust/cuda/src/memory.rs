//! The memory of tensors and of libraries' calls on devices, from one caching allocator for each device.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use cudarc::driver::sys::{self, CUresult};
use rushlight_core::block::Block;
use rushlight_core::device_memory::{DeviceMemory, StreamId};
use rushlight_core::fork::{self, ForkMutex, Rank};
use rushlight_core::memory_record;
use rushlight_core::{Device, Error, Result, Storage};
use smallvec::SmallVec;

use crate::allocator::{Allocator, BlockId, Piece, PoolId, PoolOptions, Source, State, Wanted};
use crate::capture::{self, CaptureId};
use crate::card::{self, Card};
use crate::copy;
use crate::history::{Action, Call, Entry, Frames};
use crate::out_of_memory::{Table, out_of_memory};
use crate::sent;
use crate::settings::{self, Settings};
use crate::statistics::Statistics;
use crate::stream::{self, Event};
use crate::user_allocator::{self, OfPools, UserAllocator};

/// The allocator of a device, and the blocks that other streams still use.
struct Pool {
    device: u8,
    allocator: Allocator,
    waiting: Vec<(BlockId, Vec<Event>)>,
    /// Blocks that were freed while a graph was captured, when no event can be recorded, with the streams that use them.
    deferred: Vec<(BlockId, Streams)>,
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

/// The allocators of the devices that were used.
struct Pools(Vec<Pool>);

static POOLS: ForkMutex<Pools> = ForkMutex::new(Rank::Pool, Pools(Vec::new()));

impl Pools {
    /// The allocator of a device.
    #[inline]
    fn of(&mut self, device: u8) -> &mut Pool {
        let at = usize::from(device);
        if at >= self.0.len() {
            let new = (self.0.len()..=at).map(|device| Pool::new(device as u8));
            self.0.extend(new.collect::<Vec<_>>());
        }
        &mut self.0[at]
    }
}

/// Memory of the driver, or of a program's functions for its pools.
struct Driver<'a> {
    device: u8,
    users: &'a OfPools,
}

impl Source for Driver<'_> {
    fn allocate(&mut self, Wanted { bytes, stream, pool }: Wanted) -> Option<usize> {
        let _relaxed = capture::Relaxed::begin();
        card::select(self.device).ok()?;
        if let Some(user) = self.users.get(&pool) {
            let address = user.allocate(bytes, self.device, stream);
            // The function may have changed the context.
            card::select(self.device).ok()?;
            return address;
        }
        let mut address = 0;
        // SAFETY: a context is current, and the pointer is that of a local variable.
        let status = unsafe { sys::cuMemAlloc_v2(&raw mut address, bytes) };
        (status == CUresult::CUDA_SUCCESS).then_some(address as usize)
    }

    fn free(&mut self, address: usize, Wanted { bytes, stream, pool }: Wanted) {
        let _relaxed = capture::Relaxed::begin();
        if card::select(self.device).is_err() {
            return;
        }
        if let Some(user) = self.users.get(&pool) {
            return user.free(address, bytes, self.device, stream);
        }
        // SAFETY: a context is current, the segment came from `allocate`, and no block of it is in use.
        unsafe { sys::cuMemFree_v2(address as u64) };
    }

    fn limit(&self) -> Option<usize> {
        default_limit(self.device)
    }
}

/// The part of a device's memory that the settings name.
fn default_limit(device: u8) -> Option<usize> {
    let fraction = settings::current().memory_fraction;
    let total = |card: &Card| (card.properties.total_memory as f64 * fraction) as usize;
    (fraction < 1.0).then(|| card::get(device).ok().map(total)).flatten()
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
    fn new(device: u8) -> Pool {
        Pool {
            device,
            allocator: Allocator::new(settings::current()),
            waiting: Vec::new(),
            deferred: Vec::new(),
            capturing: Vec::new(),
            users: OfPools::new(),
        }
    }

    /// Gives back the blocks whose streams have passed; with `wait`, all of them.
    #[inline]
    fn collect(&mut self, wait: bool) {
        if self.capturing.is_empty() && !(self.deferred.is_empty() && self.waiting.is_empty()) {
            self.collect_waiting(wait);
        }
    }

    fn collect_waiting(&mut self, wait: bool) {
        for (id, streams) in std::mem::take(&mut self.deferred) {
            self.give_back_after(id, &streams);
        }
        if wait && !self.waiting.is_empty() {
            self.allocator.statistics.waits += 1;
        }
        let passed = |event: &Event| {
            if wait { event.synchronize().is_ok() } else { event.query().unwrap_or(true) }
        };
        for (id, mut events) in std::mem::take(&mut self.waiting) {
            events.retain(|event| !passed(event));
            if events.is_empty() || wait {
                self.give_back(id);
            } else {
                self.waiting.push((id, events));
            }
        }
    }

    /// Gives a block back when the work that streams have now has run.
    fn give_back_after(&mut self, id: BlockId, streams: &Streams) {
        if streams.is_empty() {
            return self.give_back(id);
        }
        self.allocator.set_waiting(id);
        if !self.capturing.is_empty() {
            return self.deferred.push((id, streams.clone()));
        }
        // A device that cannot record an event runs no work any more.
        let record = |&stream: &StreamId| {
            let event = Event::new(self.device, false).ok()?;
            event.record(stream).is_ok().then_some(event)
        };
        let events = streams.iter().filter_map(record).collect();
        self.waiting.push((id, events));
    }

    fn give_back(&mut self, id: BlockId) {
        let has_ended = self.allocator.give_back(id);
        if !is_caching() && self.capturing.is_empty() {
            self.release();
        } else if has_ended {
            self.release_ended();
        }
    }

    /// Returns what no tensor uses of pools that have ended to the driver: no later work takes it. It waits until no work is captured.
    fn release_ended(&mut self) {
        if self.capturing.is_empty() {
            self.allocator.release_ended(&mut Driver { device: self.device, users: &self.users });
        }
    }

    /// Returns what no tensor uses to the driver.
    fn release(&mut self) {
        self.allocator.release(&mut Driver { device: self.device, users: &self.users });
    }

    /// A block for work of a stream.
    fn allocate(&mut self, bytes: usize, stream: StreamId) -> Option<BlockId> {
        let home = self.of(stream);
        self.allocator.allocate(bytes, stream, home, &mut Driver { device: self.device, users: &self.users })
    }

    /// Tells the profiler how much a call has taken or given back since there were `before` bytes.
    fn tell(&self, address: usize, before: usize) {
        let amounts = self.allocator.amounts();
        let now = amounts.allocated_bytes.current;
        if memory_record::is_on() && now != before {
            let (bytes, reserved) = (now as isize - before as isize, amounts.reserved_bytes.current);
            memory_record::changed_on(Device::Cuda(self.device), address, bytes, now, reserved);
        }
    }

    /// The bytes of the blocks of tensors.
    fn in_use(&self) -> usize {
        self.allocator.amounts().allocated_bytes.current
    }

    /// The pool for an allocation on a stream.
    fn of(&self, stream: StreamId) -> PoolId {
        let device = self.device;
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
    /// None if it is empty, or if a program's functions give out all memory.
    id: Option<BlockId>,
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
        if self.address == 0 || self.generation != fork::generation() {
            return;
        }
        let mut others = Streams::new();
        if self.shared.load(Ordering::Acquire) {
            others = std::mem::take(self.others.get_mut().unwrap_or_else(PoisonError::into_inner));
        }
        let Some(id) = self.id else { return self.give_to_user(&others) };
        let call = Call::new(false);
        let mut pools = POOLS.lock();
        let pool = pools.of(self.device);
        pool.allocator.history.call = call;
        let before = pool.in_use();
        pool.give_back_after(id, &others);
        pool.tell(self.address, before);
        pool.allocator.history.call = None;
    }
}

impl Memory {
    /// A block for work on this thread's current stream.
    fn new(device: u8, bytes: usize) -> Result<Memory> {
        card::get(device)?;
        let stream = stream::current(device);
        let (id, address) = match bytes {
            0 => (None, 0),
            _ => take(device, bytes, stream)?,
        };
        Ok(Memory {
            id,
            address,
            bytes,
            device,
            stream,
            generation: fork::generation(),
            shared: AtomicBool::new(false),
            others: Mutex::new(SmallVec::new()),
        })
    }

    /// Gives the memory to the functions of a program that gave it out.
    #[cold]
    fn give_to_user(&self, others: &Streams) {
        if let Some(user) = user_allocator::current()
            && card::select(self.device).is_ok()
        {
            // Such functions do not know which other streams use the memory.
            others.iter().for_each(|&other| drop(stream::synchronize(self.device, other)));
            user.free(self.address, self.bytes, self.device, self.stream);
        }
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

/// New memory for work of a stream: its block, and where it begins.
fn take(device: u8, bytes: usize, stream: StreamId) -> Result<(Option<BlockId>, usize)> {
    if let Some(user) = user_allocator::current() {
        card::select(device)?;
        let table = Table { statistics: Statistics::default(), largest: None, limit: None };
        let address = user.allocate(bytes, device, stream).ok_or_else(|| out_of_memory(device, bytes, &table))?;
        // The function may have changed the context.
        card::select(device)?;
        return Ok((None, address));
    }
    if let Some(taken) = attempt(device, bytes, stream, false) {
        return Ok(taken);
    }
    // Blocks that other streams or processes used may be enough. Those of other devices change the context.
    sent::collect();
    card::select(device)?;
    if let Some(taken) = attempt(device, bytes, stream, true) {
        return Ok(taken);
    }
    let (call, free) = (Call::new(true), card::get(device)?.memory_info().map_or(0, |(free, _)| free));
    let mut pools = POOLS.lock();
    let pool = pools.of(device);
    let before = pool.in_use();
    pool.allocator.history.call = call;
    let found = pool.allocator.last_resort(bytes, stream).map(|id| (Some(id), pool.allocator.address(id)));
    found.iter().for_each(|&(_, address)| pool.tell(address, before));
    let allocator = &mut pool.allocator;
    if found.is_none() {
        allocator.history.note(Action::Oom, free, bytes, stream, PoolId::SHARED.0);
    }
    allocator.history.call = None;
    if let Some(taken) = found {
        return Ok(taken);
    }
    allocator.statistics.out_of_memory += 1;
    let table = Table {
        statistics: allocator.statistics,
        largest: allocator.pieces().filter(|piece| piece.state == State::Free).map(|piece| piece.size).max(),
        limit: allocator.limit,
    };
    drop(pools);
    let table = Table { limit: table.limit.or_else(|| default_limit(device)), ..table };
    Err(out_of_memory(device, bytes, &table))
}

/// The same from the blocks that are free, or from the driver; with `wait`, after the streams that still use freed blocks. That is the
/// second attempt: as in torch, one request counts as one retry.
fn attempt(device: u8, bytes: usize, stream: StreamId, wait: bool) -> Option<(Option<BlockId>, usize)> {
    let call = Call::new(true);
    let mut pools = POOLS.lock();
    let pool = pools.of(device);
    pool.allocator.history.call = call;
    pool.collect(wait);
    let (before, retries) = (pool.in_use(), pool.allocator.statistics.retries);
    let id = pool.allocate(bytes, stream);
    if wait {
        pool.allocator.statistics.retries = retries;
    }
    let taken = id.map(|id| (Some(id), pool.allocator.address(id)));
    taken.iter().for_each(|&(_, address)| pool.tell(address, before));
    pool.allocator.history.call = None;
    taken
}

/// Returns the memory that no tensor uses to the driver.
pub fn empty_cache() {
    sent::collect();
    let used: Vec<u8> = card::used().map(|card| card.index).collect();
    for device in used {
        if card::select(device).is_ok() {
            let call = Call::new(false);
            let mut pools = POOLS.lock();
            let pool = pools.of(device);
            pool.allocator.history.call = call;
            pool.collect(true);
            pool.release();
            pool.allocator.history.call = None;
        }
    }
}

/// Runs a function on the allocator of a device.
fn with<T>(device: u8, run: impl FnOnce(&mut Allocator) -> T) -> T {
    run(&mut POOLS.lock().of(device).allocator)
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
    with(device, |allocator| allocator.limit).or_else(|| default_limit(device))
}

/// Takes over what a text says about the allocators, up to its first mistake.
pub fn set(text: &str) -> Result<()> {
    let read = settings::read(text);
    let settings: Settings = settings::current();
    POOLS.lock().0.iter_mut().for_each(|pool| pool.allocator.settings = settings);
    read
}

/// The blocks of a device, free ones included, each with the lines that asked for it if they were recorded.
pub fn snapshot(device: u8) -> Vec<(Piece, Frames)> {
    with(device, |allocator| {
        let with_frames = |piece: Piece| {
            let frames = allocator.history.of_block(piece.address);
            (piece, frames)
        };
        allocator.pieces().map(with_frames).collect()
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
    POOLS.lock().0.iter_mut().for_each(|pool| pool.allocator.history.clear());
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
    let own = pools.of(device);
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
    let all = pools.of(device).capturing.iter_mut();
    all.filter(|(other, _)| *other == pool).for_each(|(_, own)| *own = Some(capture));
}

pub fn end_capture(device: u8, pool: PoolId) {
    ending(device, |own| own.capturing.retain(|(other, _)| *other != pool));
}

pub fn let_go_of_pool(device: u8, pool: PoolId) {
    with(device, |allocator| allocator.let_go_of_pool(pool));
}

/// Keeps the segments of a pool that a program makes on a device, until `end_pool`; `user` gives out its memory.
pub fn make_pool(device: u8, pool: PoolId, options: PoolOptions, user: Option<UserAllocator>) {
    let mut pools = POOLS.lock();
    let own = pools.of(device);
    own.users.extend(user.map(|user| (pool, user)));
    own.allocator.make_pool(pool, options);
}

/// Ends a pool: what no tensor uses goes back to the driver.
pub fn end_pool(device: u8, pool: PoolId) {
    ending(device, |own| own.allocator.end_pool(pool));
}

/// Ends a use of a pool, and the pool itself if that was the last one.
fn ending(device: u8, end: impl FnOnce(&mut Pool)) {
    let call = Call::new(false);
    let mut pools = POOLS.lock();
    let own = pools.of(device);
    end(own);
    own.allocator.history.call = call;
    own.release_ended();
    own.allocator.history.call = None;
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
        ending(device, |own| own.allocator.let_go_of_pool(pool));
    }
}
