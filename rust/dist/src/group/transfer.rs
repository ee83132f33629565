//! What a rank wrote before a meeting that ranks of other machines read after it.

use std::sync::atomic::Ordering;

use super::memory::GroupMemory;

/// A part of the memory. `side` is the parity of the piece, `to` the only rank that reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    Nothing,
    /// The first bytes of the rank's slot.
    Slot {
        side: usize,
        bytes: usize,
        to: Option<usize>,
    },
    /// The first bytes of each part of the rank's slot: part i, at i times `size`, for rank i. Their lengths go along.
    Parts {
        side: usize,
        bytes: usize,
        size: usize,
    },
    /// The ranges of a piece in the rank's slot, for the ranks that reduce them.
    Ranges {
        side: usize,
        bytes: usize,
    },
    /// The rank's range of the results.
    Results {
        side: usize,
        bytes: usize,
        to: Option<usize>,
    },
}

/// Where the range of a piece begins that a rank reduces.
pub fn range_start(bytes: usize, rank: usize, ranks: usize) -> usize {
    (bytes * rank / ranks).next_multiple_of(64).min(bytes)
}

impl Transfer {
    pub fn words(self) -> [u64; 3] {
        let (kind, side, bytes, other) = match self {
            Transfer::Nothing => (0, 0, 0, 0),
            Transfer::Slot { side, bytes, to } => (1, side, bytes, to.map_or(0, |to| to + 1)),
            Transfer::Parts { side, bytes, size } => (2, side, bytes, size),
            Transfer::Ranges { side, bytes } => (3, side, bytes, 0),
            Transfer::Results { side, bytes, to } => (4, side, bytes, to.map_or(0, |to| to + 1)),
        };
        [kind | (side as u64 & 1) << 8, bytes as u64, other as u64]
    }

    /// The transfer of these words; what cannot be one is nothing.
    pub fn from_words(words: [u64; 3], memory: &GroupMemory) -> Transfer {
        let (ranks, piece) = (memory.ranks, memory.piece);
        let side = (words[0] >> 8 & 1) as usize;
        let bytes = usize::try_from(words[1]).unwrap_or(0).min(piece);
        let other = usize::try_from(words[2]).unwrap_or(0);
        let to = other.checked_sub(1).filter(|&to| to < ranks);
        match words[0] & 0xff {
            1 => Transfer::Slot { side, bytes, to },
            2 if other.saturating_mul(ranks) <= piece => Transfer::Parts { side, bytes: bytes.min(other), size: other },
            3 => Transfer::Ranges { side, bytes },
            4 => Transfer::Results { side, bytes, to },
            _ => Transfer::Nothing,
        }
    }

    /// The side of the lengths that go along.
    pub fn lengths(self) -> Option<usize> {
        match self {
            Transfer::Parts { side, .. } => Some(side),
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
            Transfer::Slot { side, bytes, to } if reads(to) => each(memory.slot(side, rank), bytes),
            Transfer::Parts { side, bytes, size } => {
                for &to in places.members(machine) {
                    each(memory.slot(side, rank).wrapping_add(to * size), bytes);
                }
            }
            Transfer::Ranges { side, bytes } => {
                for &to in places.members(machine) {
                    let (start, bytes) = range(bytes, to);
                    each(memory.slot(side, rank).wrapping_add(start), bytes);
                }
            }
            Transfer::Results { side, bytes, to } if reads(to) => {
                let (start, bytes) = range(bytes, rank);
                each(memory.slot(side, ranks).wrapping_add(start), bytes);
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
