//! The shared memory of a group: who takes part, what each rank is calling, and the bytes that are under way.
//!
//! The memory begins with a header, a cell for each rank and one for the companion. Then follows a table of the lengths of
//! messages that ranks address to each other, for either buffer, and then the two buffers, each with a slot for every rank
//! and one slot for results: consecutive chunks of a call use them in turn, so that a rank may write the next chunk while
//! others read this one. At the end there is a ring for each pair of ranks (`mailbox.rs`).
//!
//! A group of several machines has such memory on each of them, and a companion process that copies what ranks of other
//! machines wrote: their cells, the parts of their slots that ranks of this machine read, and the rings between them and
//! ranks of this machine.
//!
//! Every process of the group may write everywhere. What is read from the memory is compared or copied, and never trusted
//! as a position.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rushlight_core::storage::Storage;
use rushlight_core::{Error, Result};

use super::places::Places;

/// The least bytes of a slot, and the most for one machine: each chunk costs a meeting, and the slots of a few ranks stay
/// in the caches.
const CHUNK: usize = 256 << 10;
const LONG_CHUNK: usize = 1 << 20;
/// The most for several machines, where each chunk costs a round through the network, and what all slots may take.
const LONGEST_CHUNK: usize = 2 << 20;
const LONG_CHUNKS: usize = 64 << 20;
/// At least so many chunks are made of a message, if they are long enough: one is written while another is read.
const OVERLAPPED: usize = 4;
/// The bytes of all rings together are near this.
const RINGS: usize = 64 << 20;
const LONGEST_REASON: usize = 400;

#[repr(C, align(64))]
pub struct Header {
    /// How many ranks have reached the present meeting.
    pub arrived: AtomicU32,
    /// The number of meetings so far.
    pub turn: AtomicU32,
    /// The number of meetings so far to which all ranks of this machine came.
    pub ready: AtomicU32,
    /// Whether the companion exchanges with those of other machines: not yet, `SERVING` or `PARTING`.
    pub served: AtomicU32,
    /// One more than the rank that gave up first; zero while nobody has.
    pub failed: AtomicU32,
}

/// What a rank calls, so that ranks that call different things get an error and not each other's bytes.
#[repr(C)]
#[derive(Default)]
pub struct Announcement {
    pub words: [AtomicU64; 5],
}

#[repr(C, align(64))]
pub struct Cell {
    pub pid: AtomicU32,
    pub state: AtomicU32,
    /// When the process started, which distinguishes it from a later one with the same number.
    pub started: AtomicU64,
    /// The number of meetings that the rank has reached.
    pub meetings: AtomicU32,
    /// Changes when a ring of the rank changes.
    pub bell: AtomicU32,
    /// Not zero while the rank waits for messages.
    pub expects: AtomicU32,
    /// The present call and the one before, which slower ranks may still read.
    pub announcements: [Announcement; 2],
    /// What the rank wrote for other machines before the present meeting, as `Transfer::words`.
    pub transfers: [[AtomicU64; 3]; 2],
    length: AtomicU32,
    reason: [AtomicU8; LONGEST_REASON],
}

/// The states of a cell. The last two are those of ranks on other machines: one that has died, and one whose machine
/// cannot be reached.
pub const ABSENT: u32 = 0;
pub const PRESENT: u32 = 1;
pub const LEFT: u32 = 2;
pub const DEAD: u32 = 3;
pub const LOST: u32 = 4;

/// The companion serves the ranks; they are gone and it parts from the others.
pub const SERVING: u32 = 1;
pub const PARTING: u32 = 2;

#[repr(C, align(64))]
pub struct RingHeader {
    /// How many bytes the sender has written in all.
    pub written: AtomicU64,
    padding: [AtomicU64; 7],
    /// How many bytes the receiver has read in all.
    pub read: AtomicU64,
}

/// One of the two buffers. The chunks of all calls use them in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer(usize);

impl Buffer {
    /// The buffer of a chunk, by the number of chunks before.
    pub fn of_chunk(number: usize) -> Buffer {
        Buffer(number % 2)
    }

    pub fn index(self) -> usize {
        self.0
    }
}

pub struct GroupMemory {
    /// Keeps the memory mapped.
    _storage: Storage,
    base: *mut u8,
    pub places: Places,
    pub ranks: usize,
    /// The bytes of a slot, and so of the longest chunk.
    pub slot_bytes: usize,
    /// The rank of this process; for the companion the number of ranks.
    pub rank: usize,
}

// SAFETY: the memory stays mapped while the storage lives; it is accessed through atomics, and through raw copies whose
// order the meetings and the rings give.
unsafe impl Send for GroupMemory {}
// SAFETY: as above.
unsafe impl Sync for GroupMemory {}

/// The bytes of the ring between two ranks.
fn ring_bytes(places: &Places) -> usize {
    let fair = (RINGS / places.most_rings()).clamp(4 << 10, 256 << 10);
    1 << fair.ilog2()
}

fn slot_bytes(places: &Places) -> usize {
    let most = if places.spans() { LONGEST_CHUNK } else { LONG_CHUNK };
    (LONG_CHUNKS / places.ranks() / CHUNK * CHUNK).clamp(CHUNK, most)
}

fn lengths_at(ranks: usize) -> usize {
    size_of::<Header>() + (ranks + 1) * size_of::<Cell>()
}

fn slots_at(ranks: usize) -> usize {
    (lengths_at(ranks) + 2 * ranks * ranks * 8).next_multiple_of(4096)
}

fn rings_at(places: &Places) -> usize {
    slots_at(places.ranks()) + 2 * (places.ranks() + 1) * slot_bytes(places)
}

/// The bytes of a group's memory.
pub fn size(places: &Places) -> usize {
    rings_at(places) + places.rings() * (size_of::<RingHeader>() + ring_bytes(places))
}

impl GroupMemory {
    /// A view of the shared bytes in `storage`, which were zeros at first. `rank` is the number of ranks for the companion.
    pub fn new(storage: Storage, rank: usize, places: Places) -> Result<GroupMemory> {
        let ranks = places.ranks();
        if rank > ranks || rank < ranks && !places.is_local(rank) {
            return Err(Error::value(format!("rank {rank} of {ranks} is not on this machine")));
        }
        if storage.len() < size(&places) || !storage.is_cross_process() {
            return Err(Error::value(format!("a group of {ranks} needs {} shared bytes", size(&places))));
        }
        let base = storage.pin()?.as_ptr();
        if !base.addr().is_multiple_of(align_of::<Header>()) {
            return Err(Error::value("the shared bytes of a group begin at a multiple of 64"));
        }
        // The address stays valid without a pin.
        storage.expose()?;
        Ok(GroupMemory { _storage: storage, base, slot_bytes: slot_bytes(&places), places, ranks, rank })
    }

    /// The bytes of the chunks of a message of so many bytes.
    pub fn chunk_of(&self, bytes: usize) -> usize {
        if self.places.spans() {
            self.slot_bytes
        } else {
            (bytes / OVERLAPPED / CHUNK * CHUNK).clamp(CHUNK, self.slot_bytes)
        }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < size(&self.places));
        self.base.wrapping_add(offset)
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the memory begins with it, aligned; atomics are valid for all bytes and may change under a reference.
        unsafe { &*self.at(0).cast() }
    }

    /// The cell of a rank, or of the companion behind them.
    pub fn cell(&self, rank: usize) -> &Cell {
        debug_assert!(rank <= self.ranks);
        // SAFETY: as above; there is one cell more than ranks.
        unsafe { &*self.at(size_of::<Header>() + rank * size_of::<Cell>()).cast() }
    }

    pub fn own(&self) -> &Cell {
        self.cell(self.rank)
    }

    pub fn companion(&self) -> &Cell {
        self.cell(self.ranks)
    }

    pub fn ring_bytes(&self) -> usize {
        ring_bytes(&self.places)
    }

    /// How many bytes `from` sends to `to`, for the call whose first chunk is in this buffer.
    pub fn length(&self, buffer: Buffer, from: usize, to: usize) -> &AtomicU64 {
        let index = (buffer.index() * self.ranks + from) * self.ranks + to;
        // SAFETY: as above, within the table of lengths.
        unsafe { &*self.at(lengths_at(self.ranks) + index * 8).cast() }
    }

    /// A rank's slot in a buffer. The slot after the last rank's is for results.
    pub fn slot(&self, buffer: Buffer, rank: usize) -> *mut u8 {
        debug_assert!(rank <= self.ranks);
        self.at(slots_at(self.ranks) + (buffer.index() * (self.ranks + 1) + rank) * self.slot_bytes)
    }

    /// The ring through which `from` sends to `to`, one of which is on this machine: its header and its bytes.
    pub fn ring(&self, from: usize, to: usize) -> (&RingHeader, *mut u8) {
        let stride = size_of::<RingHeader>() + self.ring_bytes();
        let header = self.at(rings_at(&self.places) + self.places.ring(from, to) * stride);
        // SAFETY: as above, within the rings.
        (unsafe { &*header.cast() }, header.wrapping_add(size_of::<RingHeader>()))
    }

    /// Tells the other ranks why this one gives up. The first reason stands.
    pub fn give_up(&self, reason: &str) {
        self.record_failure(self.rank, reason);
    }

    /// Notes why a rank gave up.
    pub fn record_failure(&self, rank: usize, reason: &str) {
        let cell = self.cell(rank);
        let bytes = &reason.as_bytes()[..reason.len().min(LONGEST_REASON)];
        for (place, &byte) in cell.reason.iter().zip(bytes) {
            place.store(byte, Ordering::Relaxed);
        }
        cell.length.store(bytes.len() as u32, Ordering::Relaxed);
        let mark = rank as u32 + 1;
        let _ = self.header().failed.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Which rank gave up first, and why. The number of ranks stands for the companion.
    pub fn failure(&self) -> Option<(usize, String)> {
        let mark = self.header().failed.load(Ordering::Acquire) as usize;
        let rank = mark.checked_sub(1)?.min(self.ranks);
        let cell = self.cell(rank);
        let length = (cell.length.load(Ordering::Relaxed) as usize).min(LONGEST_REASON);
        let bytes: Vec<u8> = cell.reason[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        Some((rank, String::from_utf8_lossy(&bytes).into_owned()))
    }
}
