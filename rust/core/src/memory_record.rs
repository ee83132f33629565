//! A record of the memory that tensors take and give back, for the profiler.
//!
//! The allocators tell of their blocks while a record is on. That of the host does so where it cannot use a cached block again, so a
//! thread in the record caches none (`alloc::record_here`), and a thread outside pays nothing.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::device::Device;
use crate::fork::{ForkMutex, Rank};

/// When and on which thread something happens, in the profiler's clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub time: u64,
    pub thread: u64,
}

/// A block that was taken, or given back: then the bytes are negative.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub moment: Moment,
    pub device: Device,
    pub address: usize,
    pub bytes: isize,
    /// The bytes of all blocks on the device after it: on the host those that were taken since the record began.
    pub allocated: usize,
    /// The bytes that a device's allocator has from the driver; zero for the host.
    pub reserved: usize,
}

/// The changes that a profiler takes.
#[derive(Default)]
pub struct Changes {
    pub list: Vec<Change>,
    /// The number of dropped changes since the list was last empty.
    pub dropped: usize,
}

struct Record {
    users: usize,
    clock: fn() -> Moment,
    /// The blocks of the host that were taken since the record began. Others are not told of when they are given back.
    sizes: BTreeMap<usize, usize>,
    allocated: usize,
    changes: Changes,
}

impl Record {
    const EMPTY: Record = Record {
        users: 0,
        clock: || Moment { time: 0, thread: 0 },
        sizes: BTreeMap::new(),
        allocated: 0,
        changes: Changes { list: Vec::new(), dropped: 0 },
    };

    fn note(&mut self, device: Device, address: usize, bytes: isize, allocated: usize, reserved: usize) {
        let changes = &mut self.changes;
        if changes.list.len() < LIMIT && changes.list.try_reserve(1).is_ok() {
            changes.list.push(Change { moment: (self.clock)(), device, address, bytes, allocated, reserved });
        } else {
            changes.dropped += 1;
        }
    }
}

/// Changes beyond this number are counted, but not stored.
const LIMIT: usize = 1 << 20;

static IS_ON: AtomicBool = AtomicBool::new(false);
/// Allocators hold their locks when they tell of a block, so this one comes after all of them.
static RECORD: ForkMutex<Record> = ForkMutex::new(Rank::MemoryRecord, Record::EMPTY);

/// Whether changes are recorded.
#[inline]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Notes a block of the host.
#[cold]
pub(crate) fn taken(address: usize, bytes: usize) {
    let mut record = RECORD.lock();
    if record.users > 0 && bytes > 0 {
        record.sizes.insert(address, bytes);
        record.allocated += bytes;
        let allocated = record.allocated;
        record.note(Device::Cpu, address, bytes as isize, allocated, 0);
    }
}

/// Notes that a block of the host is about to be given back.
#[cold]
pub(crate) fn given_back(address: usize) {
    let mut record = RECORD.lock();
    if let Some(bytes) = record.sizes.remove(&address) {
        record.allocated -= bytes;
        let allocated = record.allocated;
        record.note(Device::Cpu, address, -(bytes as isize), allocated, 0);
    }
}

/// Notes a block of another device, with the bytes of all blocks and those from the driver.
#[cold]
pub fn changed_on(device: Device, address: usize, bytes: isize, allocated: usize, reserved: usize) {
    let mut record = RECORD.lock();
    if record.users > 0 {
        record.note(device, address, bytes, allocated, reserved);
    }
}

/// Starts a record, which reads a clock.
pub fn start(clock: fn() -> Moment) {
    let mut record = RECORD.lock();
    record.users += 1;
    record.clock = clock;
    IS_ON.store(true, Ordering::Relaxed);
}

/// Stops a record that `start` began: the changes since a time.
pub fn stop(since: u64) -> Changes {
    let mut record = RECORD.lock();
    record.users = record.users.saturating_sub(1);
    let mut changes = if record.users > 0 {
        Changes { list: record.changes.list.clone(), dropped: record.changes.dropped }
    } else {
        IS_ON.store(false, Ordering::Relaxed);
        std::mem::replace(&mut *record, Record::EMPTY).changes
    };
    changes.list.retain(|change| change.moment.time >= since);
    changes
}

/// Forgets all records: those of the process that a forked child came from.
pub fn clear() {
    IS_ON.store(false, Ordering::Relaxed);
    *RECORD.lock() = Record::EMPTY;
}
