//! The memory of devices: one caching allocator for each, over the driver or a program's functions, and blocks that wait for streams.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU8, Ordering};

use cudarc::driver::sys::{self, CUresult};
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::memory_record;
use rushlight_core::{Device, Error, Result};
use smallvec::SmallVec;

use crate::allocator::{Allocator, BlockId, Piece, PoolId, PoolOptions, Source, State, Wanted};
use crate::capture::{self, CaptureId};
use crate::card::{self, Card};
use crate::history::{Action, Call, Entry, Frames};
use crate::out_of_memory::{Table, out_of_memory};
use crate::sent;
use crate::settings::{self, Settings};
use crate::statistics::Statistics;
use crate::stream::{self, Event};
use crate::user_allocator::{self, OfPools, UserAllocator};

/// The allocator of a device, and what it waits for.
struct DeviceAllocator {
    device: u8,
    allocator: Allocator,
    /// Blocks that other streams still use, until these events.
    waiting: Vec<(BlockId, Vec<Event>)>,
    /// Blocks that were freed while a graph was captured, when no event can be recorded, with the streams that use them.
    deferred: Vec<(BlockId, Streams)>,
    /// The pools of the graphs that are being captured, and their captures once they have begun.
    capturing: Vec<(PoolId, Option<CaptureId>)>,
    /// The allocators of pools whose memory a program's functions give out. They stay, because tensors may outlive their pool.
    users: OfPools,
}

pub type Streams = SmallVec<[StreamId; 1]>;

thread_local! {
    /// The pools from which this thread takes memory of devices. The last one of a device counts.
    static CHOSEN: RefCell<Vec<(u8, PoolId)>> = const { RefCell::new(Vec::new()) };
}

/// The allocators of the devices that were used.
struct Allocators(Vec<DeviceAllocator>);

static ALLOCATORS: ForkMutex<Allocators> = ForkMutex::new(Rank::Pool, Allocators(Vec::new()));

impl Allocators {
    /// The allocator of a device.
    #[inline]
    fn of(&mut self, device: u8) -> &mut DeviceAllocator {
        let at = usize::from(device);
        if at >= self.0.len() {
            let new = (self.0.len()..=at).map(|device| DeviceAllocator::new(device as u8));
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

impl DeviceAllocator {
    fn new(device: u8) -> DeviceAllocator {
        DeviceAllocator {
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
        let pool = self.pool_of(stream);
        self.allocator.allocate(bytes, stream, pool, &mut Driver { device: self.device, users: &self.users })
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
    fn pool_of(&self, stream: StreamId) -> PoolId {
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

/// New memory for work of a stream: its block, and where it begins. There is no block if a program's functions give out all memory.
pub fn take(device: u8, bytes: usize, stream: StreamId) -> Result<(Option<BlockId>, usize)> {
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
    let mut allocators = ALLOCATORS.lock();
    let own = allocators.of(device);
    let before = own.in_use();
    own.allocator.history.call = call;
    let found = own.allocator.last_resort(bytes, stream).map(|id| (Some(id), own.allocator.address(id)));
    found.iter().for_each(|&(_, address)| own.tell(address, before));
    let allocator = &mut own.allocator;
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
    drop(allocators);
    let table = Table { limit: table.limit.or_else(|| default_limit(device)), ..table };
    Err(out_of_memory(device, bytes, &table))
}

/// The same from the blocks that are free, or from the driver; with `wait`, after the streams that still use freed blocks. That is the
/// second attempt: as in torch, one request counts as one retry.
fn attempt(device: u8, bytes: usize, stream: StreamId, wait: bool) -> Option<(Option<BlockId>, usize)> {
    recorded(device, true, |own| {
        own.collect(wait);
        let (before, retries) = (own.in_use(), own.allocator.statistics.retries);
        let id = own.allocate(bytes, stream);
        if wait {
            own.allocator.statistics.retries = retries;
        }
        let taken = id.map(|id| (Some(id), own.allocator.address(id)));
        taken.iter().for_each(|&(_, address)| own.tell(address, before));
        taken
    })
}

/// Gives a block back when the work that streams besides its own have now has run.
pub fn give_back(device: u8, id: BlockId, address: usize, others: &Streams) {
    recorded(device, false, |own| {
        let before = own.in_use();
        own.give_back_after(id, others);
        own.tell(address, before);
    });
}

/// Returns the memory that no tensor uses to the driver.
pub fn empty_cache() {
    sent::collect();
    let used: Vec<u8> = card::used().map(|card| card.index).collect();
    for device in used {
        if card::select(device).is_ok() {
            recorded(device, false, |own| {
                own.collect(true);
                own.release();
            });
        }
    }
}

/// Runs a function on the allocator of a device as one call, which takes memory or gives it back, of the record.
fn recorded<T>(device: u8, takes: bool, run: impl FnOnce(&mut DeviceAllocator) -> T) -> T {
    let call = Call::new(takes);
    let mut allocators = ALLOCATORS.lock();
    let own = allocators.of(device);
    own.allocator.history.call = call;
    let result = run(own);
    own.allocator.history.call = None;
    result
}

/// Runs a function on the allocator of a device.
fn with<T>(device: u8, run: impl FnOnce(&mut Allocator) -> T) -> T {
    run(&mut ALLOCATORS.lock().of(device).allocator)
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
pub fn read_settings(text: &str) -> Result<()> {
    let read = settings::read(text);
    let settings: Settings = settings::current();
    ALLOCATORS.lock().0.iter_mut().for_each(|own| own.allocator.settings = settings);
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
    recorded(device, false, |own| {
        let history = &mut own.allocator.history;
        history.note(Action::Snapshot, 0, 0, stream::DEFAULT, PoolId::SHARED.0);
        history.entries().cloned().collect()
    })
}

/// Forgets what was recorded.
pub fn clear_history() {
    ALLOCATORS.lock().0.iter_mut().for_each(|own| own.allocator.history.clear());
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
    let mut allocators = ALLOCATORS.lock();
    let own = allocators.of(device);
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
    let mut allocators = ALLOCATORS.lock();
    let all = allocators.of(device).capturing.iter_mut();
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
    let mut allocators = ALLOCATORS.lock();
    let own = allocators.of(device);
    own.users.extend(user.map(|user| (pool, user)));
    own.allocator.make_pool(pool, options);
}

/// Ends a pool: what no tensor uses goes back to the driver.
pub fn end_pool(device: u8, pool: PoolId) {
    ending(device, |own| own.allocator.end_pool(pool));
}

/// Ends a use of a pool, and the pool itself if that was the last one.
fn ending(device: u8, end: impl FnOnce(&mut DeviceAllocator)) {
    recorded(device, false, |own| {
        end(own);
        own.release_ended();
    });
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
