//! The shared memory of a group: who takes part, what each rank is calling, and the bytes that are under way.
//!
//! The arena begins with a header and a cell for each rank. Then follow two buffers, each with a slot for every rank and
//! one slot for results: consecutive pieces of a call use them in turn, so that a rank may write the next piece while
//! others read this one. At the end there is a ring for each pair of ranks (`mailbox.rs`).
//!
//! Every process of the group may write everywhere. What is read from the arena is compared or copied, and never trusted
//! as a position.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use rushlight_core::storage::Storage;
use rushlight_core::{Error, Result};

/// The bytes of a slot: the slots of a few ranks stay in a second-level cache.
pub const PIECE: usize = 256 << 10;
/// The most ranks on one machine.
pub const MOST_RANKS: usize = 1024;
/// The bytes of all rings together are near this.
const RINGS: usize = 64 << 20;
const LONGEST_REASON: usize = 400;

#[repr(C, align(64))]
pub struct Header {
    /// How many ranks have reached the present meeting.
    pub arrived: AtomicU32,
    /// The number of meetings so far.
    pub turn: AtomicU32,
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
    /// The present call and the one before, which slower ranks may still read.
    pub announcements: [Announcement; 2],
    length: AtomicU32,
    reason: [AtomicU8; LONGEST_REASON],
}

/// The states of a cell.
pub const ABSENT: u32 = 0;
pub const PRESENT: u32 = 1;
pub const LEFT: u32 = 2;

#[repr(C, align(64))]
pub struct RingHeader {
    /// How many bytes the sender has written in all.
    pub written: AtomicU64,
    padding: [AtomicU64; 7],
    /// How many bytes the receiver has read in all.
    pub read: AtomicU64,
}

pub struct Arena {
    /// Keeps the memory mapped.
    _storage: Storage,
    base: *mut u8,
    pub ranks: usize,
    pub rank: usize,
}

// SAFETY: the memory stays mapped while the storage lives; it is accessed through atomics, and through raw copies whose
// order the meetings and the rings give.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The bytes of the ring between two ranks.
pub fn ring_bytes(ranks: usize) -> usize {
    let fair = (RINGS / (ranks * ranks)).clamp(4 << 10, 256 << 10);
    1 << fair.ilog2()
}

fn lengths_at(ranks: usize) -> usize {
    size_of::<Header>() + ranks * size_of::<Cell>()
}

fn slots_at(ranks: usize) -> usize {
    (lengths_at(ranks) + 2 * ranks * ranks * 8).next_multiple_of(4096)
}

fn rings_at(ranks: usize) -> usize {
    slots_at(ranks) + 2 * (ranks + 1) * PIECE
}

/// The bytes of an arena for so many ranks.
pub fn size(ranks: usize) -> usize {
    rings_at(ranks) + ranks * ranks * (size_of::<RingHeader>() + ring_bytes(ranks))
}

impl Arena {
    /// A view of the shared bytes in `storage`, which were zeros at first.
    pub fn new(storage: Storage, rank: usize, ranks: usize) -> Result<Arena> {
        if ranks == 0 || ranks > MOST_RANKS || rank >= ranks {
            return Err(Error::value(format!("rank {rank} of {ranks}: a group has 1 to {MOST_RANKS} ranks")));
        }
        if storage.len() < size(ranks) || !storage.is_cross_process() {
            return Err(Error::value(format!("a group of {ranks} needs {} shared bytes", size(ranks))));
        }
        let base = storage.pin()?.as_ptr();
        if !base.addr().is_multiple_of(align_of::<Header>()) {
            return Err(Error::value("the shared bytes of a group begin at a multiple of 64"));
        }
        // The address stays valid without a pin.
        storage.expose()?;
        Ok(Arena { _storage: storage, base, ranks, rank })
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < size(self.ranks));
        self.base.wrapping_add(offset)
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the arena begins with it, aligned; atomics are valid for all bytes and may change under a reference.
        unsafe { &*self.at(0).cast() }
    }

    pub fn cell(&self, rank: usize) -> &Cell {
        debug_assert!(rank < self.ranks);
        // SAFETY: as above; `rank` is below the number of ranks.
        unsafe { &*self.at(size_of::<Header>() + rank * size_of::<Cell>()).cast() }
    }

    pub fn own(&self) -> &Cell {
        self.cell(self.rank)
    }

    /// How many bytes `from` sends to `to` in a call of parity `side`.
    pub fn length(&self, side: usize, from: usize, to: usize) -> &AtomicU64 {
        let index = (side % 2 * self.ranks + from) * self.ranks + to;
        // SAFETY: as above, within the table of lengths.
        unsafe { &*self.at(lengths_at(self.ranks) + index * 8).cast() }
    }

    /// A rank's slot in one of the two buffers. The slot after the last rank's is for results.
    pub fn slot(&self, side: usize, rank: usize) -> *mut u8 {
        debug_assert!(rank <= self.ranks);
        self.at(slots_at(self.ranks) + (side % 2 * (self.ranks + 1) + rank) * PIECE)
    }

    /// The ring through which `from` sends to `to`: its header and its bytes.
    pub fn ring(&self, from: usize, to: usize) -> (&RingHeader, *mut u8) {
        let stride = size_of::<RingHeader>() + ring_bytes(self.ranks);
        let header = self.at(rings_at(self.ranks) + (from * self.ranks + to) * stride);
        // SAFETY: as above, within the rings.
        (unsafe { &*header.cast() }, header.wrapping_add(size_of::<RingHeader>()))
    }

    /// Tells the other ranks why this one gives up. The first reason stands.
    pub fn give_up(&self, reason: &str) {
        let cell = self.own();
        let bytes = &reason.as_bytes()[..reason.len().min(LONGEST_REASON)];
        for (place, &byte) in cell.reason.iter().zip(bytes) {
            place.store(byte, Ordering::Relaxed);
        }
        cell.length.store(bytes.len() as u32, Ordering::Relaxed);
        let mark = self.rank as u32 + 1;
        let _ = self.header().failed.compare_exchange(0, mark, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Which rank gave up first, and why.
    pub fn failure(&self) -> Option<(usize, String)> {
        let mark = self.header().failed.load(Ordering::Acquire) as usize;
        let rank = mark.checked_sub(1)?.min(self.ranks - 1);
        let cell = self.cell(rank);
        let length = (cell.length.load(Ordering::Relaxed) as usize).min(LONGEST_REASON);
        let bytes: Vec<u8> = cell.reason[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        Some((rank, String::from_utf8_lossy(&bytes).into_owned()))
    }
}
