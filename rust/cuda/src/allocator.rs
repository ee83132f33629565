//! Divides a device's memory into blocks and keeps freed ones, with torch's sizes.
//!
//! The driver gives out memory in segments: 2 MiB for small blocks, 20 MiB for medium ones, whole multiples of 2 MiB for large
//! ones. A block belongs to the stream that it was allocated for, whose later work may use it again at once. Neighbours that
//! are both free are joined. Nothing here calls the driver: `Source` does.

use std::collections::{BTreeMap, BTreeSet};

use rushlight_core::device_memory::StreamId;

/// Sizes are multiples of this.
const UNIT: usize = 512;
const MIB: usize = 1 << 20;
/// The largest small block, and the segment of small blocks.
const SMALL: usize = MIB;
const SMALL_SEGMENT: usize = 2 * MIB;
/// The largest medium block, and the segment of medium blocks.
const MEDIUM: usize = 10 * MIB;
const MEDIUM_SEGMENT: usize = 20 * MIB;
const LARGE_UNIT: usize = 2 * MIB;

/// Where segments come from.
pub trait Source {
    /// A new segment; `None` if there is not enough memory.
    fn allocate(&mut self, bytes: usize) -> Option<usize>;
    fn free(&mut self, address: usize);
}

#[derive(Clone, Copy)]
struct Block {
    size: usize,
    requested: usize,
    segment: usize,
    stream: StreamId,
    free: bool,
}

/// An amount now, the most there was, and the sums of increases and decreases, as torch counts them.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Count {
    pub current: usize,
    pub peak: usize,
    pub allocated: usize,
    pub freed: usize,
}

impl Count {
    fn add(&mut self, amount: usize) {
        self.current += amount;
        self.allocated += amount;
        self.peak = self.peak.max(self.current);
    }

    fn subtract(&mut self, amount: usize) {
        self.current -= amount;
        self.freed += amount;
    }
}

/// The statistics of one device.
#[derive(Clone, Copy, Default, Debug)]
pub struct Statistics {
    pub blocks: Count,
    pub bytes: Count,
    pub requested: Count,
    pub segments: Count,
    pub reserved: Count,
    pub retries: usize,
    pub out_of_memory: usize,
}

/// A block of a segment, for `torch.cuda.memory_snapshot`.
pub struct Piece {
    pub address: usize,
    pub size: usize,
    pub requested: usize,
    pub segment: usize,
    pub stream: StreamId,
    pub free: bool,
}

/// A free block: whether its segment is for small blocks, its stream, size and address.
type Free = (bool, usize, usize, usize);

#[derive(Default)]
pub struct Allocator {
    blocks: BTreeMap<usize, Block>,
    free: BTreeSet<Free>,
    segments: BTreeMap<usize, (usize, bool)>,
    pub statistics: Statistics,
}

/// The size of the block for a request.
pub fn rounded(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(UNIT)
}

fn segment_size(size: usize) -> usize {
    if size <= SMALL {
        SMALL_SEGMENT
    } else if size < MEDIUM {
        MEDIUM_SEGMENT
    } else {
        size.next_multiple_of(LARGE_UNIT)
    }
}

impl Allocator {
    /// A block of at least `bytes` for a stream: a free one, or part of a new segment; `None` if the source has no memory, even
    /// after all free segments were returned to it.
    pub fn allocate(&mut self, bytes: usize, stream: StreamId, source: &mut dyn Source) -> Option<usize> {
        let size = rounded(bytes);
        let small = size <= SMALL;
        let found = self.free.range((small, stream.0, size, 0)..=(small, stream.0, usize::MAX, usize::MAX)).next();
        let address = match found {
            Some(&(.., address)) => address,
            None => self.new_segment(size, small, stream, source)?,
        };
        self.take(address, size, bytes, small);
        Some(address)
    }

    /// A new segment, as one free block.
    fn new_segment(&mut self, size: usize, small: bool, stream: StreamId, source: &mut dyn Source) -> Option<usize> {
        let length = segment_size(size);
        let address = match source.allocate(length) {
            Some(address) => address,
            None => {
                self.statistics.retries += 1;
                self.release(source);
                source.allocate(length)?
            }
        };
        self.statistics.segments.add(1);
        self.statistics.reserved.add(length);
        self.segments.insert(address, (length, small));
        self.blocks.insert(address, Block { size: length, requested: 0, segment: address, stream, free: true });
        self.free.insert((small, stream.0, length, address));
        Some(address)
    }

    /// Takes a free block into use and splits off what is not needed.
    fn take(&mut self, address: usize, size: usize, requested: usize, small: bool) {
        let Some(block) = self.blocks.get_mut(&address) else { return };
        self.free.remove(&(small, block.stream.0, block.size, address));
        block.free = false;
        block.requested = requested;
        let rest = block.size - size;
        if if small { rest >= UNIT } else { rest > SMALL } {
            let split = Block { size: rest, requested: 0, free: true, ..*block };
            block.size = size;
            self.free.insert((small, split.stream.0, rest, address + size));
            self.blocks.insert(address + size, split);
        }
        let size = self.blocks[&address].size;
        self.statistics.blocks.add(1);
        self.statistics.bytes.add(size);
        self.statistics.requested.add(requested);
    }

    /// Gives a block back and joins it with its free neighbours.
    pub fn give_back(&mut self, address: usize) {
        let Some(block) = self.blocks.get(&address).copied().filter(|block| !block.free) else { return };
        let small = self.segments.get(&block.segment).is_some_and(|segment| segment.1);
        self.statistics.blocks.subtract(1);
        self.statistics.bytes.subtract(block.size);
        self.statistics.requested.subtract(block.requested);
        let (mut start, mut size) = (address, block.size);
        let alike = |other: &Block| other.free && other.segment == block.segment;
        if let Some((&after, next)) = self.blocks.range(address + 1..).next().filter(|(_, next)| alike(next)) {
            size += next.size;
            self.free.remove(&(small, block.stream.0, next.size, after));
            self.blocks.remove(&after);
        }
        if let Some((&before, last)) = self.blocks.range(..address).next_back().filter(|(_, last)| alike(last)) {
            start = before;
            size += last.size;
            self.free.remove(&(small, block.stream.0, last.size, before));
            self.blocks.remove(&address);
        }
        self.blocks.insert(start, Block { size, requested: 0, free: true, ..block });
        self.free.insert((small, block.stream.0, size, start));
    }

    /// Returns segments without a block in use to the source.
    pub fn release(&mut self, source: &mut dyn Source) {
        let unused = |(address, (length, _)): (&usize, &(usize, bool))| {
            let block = self.blocks.get(address)?;
            (block.free && block.size == *length).then_some(*address)
        };
        let unused: Vec<usize> = self.segments.iter().filter_map(unused).collect();
        for address in unused {
            let (Some((length, small)), Some(block)) = (self.segments.remove(&address), self.blocks.remove(&address))
            else {
                continue;
            };
            self.free.remove(&(small, block.stream.0, length, address));
            self.statistics.segments.subtract(1);
            self.statistics.reserved.subtract(length);
            source.free(address);
        }
    }

    /// Makes the present amounts the highest ones.
    pub fn reset_peaks(&mut self) {
        let all = &mut self.statistics;
        for count in [&mut all.blocks, &mut all.bytes, &mut all.requested, &mut all.segments, &mut all.reserved] {
            count.peak = count.current;
        }
    }

    /// Makes the sums zero.
    pub fn reset_sums(&mut self) {
        let all = &mut self.statistics;
        for count in [&mut all.blocks, &mut all.bytes, &mut all.requested, &mut all.segments, &mut all.reserved] {
            (count.allocated, count.freed) = (0, 0);
        }
        (all.retries, all.out_of_memory) = (0, 0);
    }

    /// All blocks, in the order of their addresses.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.blocks.iter().map(|(&address, block)| Piece {
            address,
            size: block.size,
            requested: block.requested,
            segment: block.segment,
            stream: block.stream,
            free: block.free,
        })
    }
}
