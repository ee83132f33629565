//! What a rank wrote before a meeting that ranks of other machines read after it.

use std::sync::atomic::Ordering;

use super::memory::{Buffer, GroupMemory};

/// A part of the memory. `to` is the only rank that reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    Nothing,
    /// The first bytes of the rank's slot.
    Slot {
        buffer: Buffer,
        bytes: usize,
        to: Option<usize>,
    },
    /// The first bytes of each part of the rank's slot: part i, at i times `size`, for rank i. Their lengths go along.
    Parts {
        buffer: Buffer,
        bytes: usize,
        size: usize,
    },
    /// The ranges of a chunk in the rank's slot, for the ranks that reduce them.
    Ranges {
        buffer: Buffer,
        bytes: usize,
    },
    /// The rank's range of the results.
    Results {
        buffer: Buffer,
        bytes: usize,
        to: Option<usize>,
    },
}

/// Where the range of a chunk begins that a rank reduces.
pub fn range_start(bytes: usize, rank: usize, ranks: usize) -> usize {
    (bytes * rank / ranks).next_multiple_of(64).min(bytes)
}

impl Transfer {
    pub fn words(self) -> [u64; 3] {
        let (kind, buffer, bytes, other) = match self {
            Transfer::Nothing => return [0; 3],
            Transfer::Slot { buffer, bytes, to } => (1, buffer, bytes, to.map_or(0, |to| to + 1)),
            Transfer::Parts { buffer, bytes, size } => (2, buffer, bytes, size),
            Transfer::Ranges { buffer, bytes } => (3, buffer, bytes, 0),
            Transfer::Results { buffer, bytes, to } => (4, buffer, bytes, to.map_or(0, |to| to + 1)),
        };
        [kind | (buffer.index() as u64) << 8, bytes as u64, other as u64]
    }

    /// The transfer of these words; what cannot be one is nothing.
    pub fn from_words(words: [u64; 3], memory: &GroupMemory) -> Transfer {
        let (ranks, slot_bytes) = (memory.ranks, memory.slot_bytes);
        let buffer = Buffer::of_chunk((words[0] >> 8 & 1) as usize);
        let bytes = usize::try_from(words[1]).unwrap_or(0).min(slot_bytes);
        let other = usize::try_from(words[2]).unwrap_or(0);
        let to = other.checked_sub(1).filter(|&to| to < ranks);
        match words[0] & 0xff {
            1 => Transfer::Slot { buffer, bytes, to },
            2 if other.saturating_mul(ranks) <= slot_bytes => {
                Transfer::Parts { buffer, bytes: bytes.min(other), size: other }
            }
            3 => Transfer::Ranges { buffer, bytes },
            4 => Transfer::Results { buffer, bytes, to },
            _ => Transfer::Nothing,
        }
    }

    /// The buffer whose lengths go along.
    pub fn lengths(self) -> Option<Buffer> {
        match self {
            Transfer::Parts { buffer, .. } => Some(buffer),
            _ => None,
        }
    }

    /// Calls `each` with the place and number of bytes of everything that ranks of `machine` read of what `rank` wrote.
    pub fn for_each(self, memory: &GroupMemory, rank: usize, machine: usize, each: &mut dyn FnMut(*mut u8, usize)) {
        let (places, ranks) = (&memory.places, memory.ranks);
        let range = |bytes, rank| {
            let start = range_start(bytes, rank, ranks);
            (start, range_start(bytes, rank + 1, ranks) - start)
        };
        let reads = |to: Option<usize>| to.is_none_or(|to| places.machine_of(to) == machine);
        match self {
            Transfer::Slot { buffer, bytes, to } if reads(to) => each(memory.slot(buffer, rank), bytes),
            Transfer::Parts { buffer, bytes, size } => {
                for &to in places.members(machine) {
                    each(memory.slot(buffer, rank).wrapping_add(to * size), bytes);
                }
            }
            Transfer::Ranges { buffer, bytes } => {
                for &to in places.members(machine) {
                    let (start, bytes) = range(bytes, to);
                    each(memory.slot(buffer, rank).wrapping_add(start), bytes);
                }
            }
            Transfer::Results { buffer, bytes, to } if reads(to) => {
                let (start, bytes) = range(bytes, rank);
                each(memory.slot(buffer, ranks).wrapping_add(start), bytes);
            }
            _ => {}
        }
    }
}

impl GroupMemory {
    /// Tells the companion what to exchange at the next meeting.
    pub fn announce(&self, transfers: [Transfer; 2]) {
        for (places, transfer) in self.own().transfers.iter().zip(transfers) {
            for (place, word) in places.iter().zip(transfer.words()) {
                place.store(word, Ordering::Relaxed);
            }
        }
    }
}
