//! Divides a device's memory into blocks and keeps freed ones, with torch's sizes.
//!
//! The driver gives out memory in segments: 2 MiB for small blocks, 20 MiB for medium ones, whole multiples of 2 MiB for large
//! ones. A block belongs to the stream that it was allocated for, whose later work may use it again at once. Neighbours that
//! are both free are joined: a block knows its neighbours, so that only lists of free blocks are searched. A graph has a pool of its own, whose segments no other work uses. Nothing here calls the driver:
//! `Source` does.

use std::collections::{BTreeMap, BTreeSet};

use rushlight_core::device_memory::StreamId;
use slab::Slab;

use crate::history::{Action, History};
use crate::statistics::{Amounts, Statistics};

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

/// A segment of a pool, for work of a stream.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub bytes: usize,
    pub stream: StreamId,
    pub pool: PoolId,
}

/// Where segments come from.
pub trait Source {
    /// A new segment; `None` if there is not enough memory.
    fn allocate(&mut self, wanted: Wanted) -> Option<usize>;
    fn free(&mut self, address: usize, was: Wanted);
}

/// The pool of a block. `PoolId::SHARED` is that of all work outside of graphs and of programs' pools.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PoolId(pub u64);

impl PoolId {
    pub const SHARED: PoolId = PoolId(0);
}

/// What is different about a pool that a program has made.
#[derive(Clone, Copy, Default)]
pub struct PoolOptions {
    /// Its free blocks serve other work when memory runs out.
    pub on_oom: bool,
    /// Its segments are not divided.
    pub no_split: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Free,
    Used,
    /// No tensor has it, and work of other streams may still use it.
    Waiting,
}

/// The number of a block that is in use, or that streams still use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BlockId(usize);

#[derive(Clone, Copy)]
struct Block {
    address: usize,
    size: usize,
    requested: usize,
    segment: Segment,
    stream: StreamId,
    state: State,
    /// The neighbours in the segment.
    before: Option<BlockId>,
    after: Option<BlockId>,
}

#[derive(Clone, Copy)]
struct Segment {
    address: usize,
    length: usize,
    small: bool,
    pool: PoolId,
}

impl Block {
    /// Whether it is all of its segment.
    fn is_whole(&self) -> bool {
        self.size == self.segment.length
    }

    /// The list that it is in while it is free.
    fn list(&self) -> ListKey {
        (self.segment.pool, self.segment.small, self.stream.0)
    }

    /// Its entry there.
    fn entry(&self, id: BlockId) -> Entry {
        (self.size, self.address, id)
    }
}

/// A block of a segment, for `torch.cuda.memory_snapshot`.
pub struct Piece {
    pub address: usize,
    pub size: usize,
    pub requested: usize,
    pub segment: usize,
    pub stream: StreamId,
    pub state: State,
    pub small: bool,
    pub pool: PoolId,
}

/// Which free blocks are in a list: the pool, whether their segments are for small blocks, and the stream.
type ListKey = (PoolId, bool, usize);
/// A free block: its size, its address and its number.
type Entry = (usize, usize, BlockId);

#[derive(Default)]
pub struct Allocator {
    blocks: Slab<Block>,
    free: BTreeMap<ListKey, BTreeSet<Entry>>,
    /// The first block of each segment, by address.
    segments: BTreeMap<usize, BlockId>,
    /// The pools of graphs that may run again, and of programs.
    kept: BTreeMap<PoolId, usize>,
    options: BTreeMap<PoolId, PoolOptions>,
    /// The most bytes to take from the source.
    pub limit: Option<usize>,
    pub statistics: Statistics,
    pub history: History,
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
    pub fn allocate(
        &mut self,
        bytes: usize,
        stream: StreamId,
        pool: PoolId,
        source: &mut dyn Source,
    ) -> Option<BlockId> {
        let size = rounded(bytes);
        let id = match self.free_block(size, stream, pool) {
            Some(id) => id,
            None => self.new_segment(size, stream, pool, source)?,
        };
        self.take(id, size, bytes);
        Some(id)
    }

    /// A free block of at least `bytes` for a stream, from the pools that serve all work when memory runs out.
    pub fn last_resort(&mut self, bytes: usize, stream: StreamId) -> Option<BlockId> {
        let size = rounded(bytes);
        let mut pools = self.options.iter().filter(|(_, options)| options.on_oom).map(|(pool, _)| *pool);
        let id = pools.find_map(|pool| self.free_block(size, stream, pool))?;
        self.take(id, size, bytes);
        Some(id)
    }

    /// Where a block begins.
    pub fn address(&self, id: BlockId) -> usize {
        self.blocks[id.0].address
    }

    /// The smallest free block of at least `size` of a pool.
    fn free_block(&self, size: usize, stream: StreamId, pool: PoolId) -> Option<BlockId> {
        let list = self.free.get(&(pool, size <= SMALL, stream.0))?;
        list.range((size, 0, BlockId(0))..).next().map(|&(.., id)| id)
    }

    /// A new segment, as one free block.
    fn new_segment(&mut self, size: usize, stream: StreamId, pool: PoolId, source: &mut dyn Source) -> Option<BlockId> {
        let (length, small) = (segment_size(size), size <= SMALL);
        let wanted = Wanted { bytes: length, stream, pool };
        let address = match self.grow_from(wanted, source) {
            Some(address) => address,
            None => {
                self.statistics.retries += 1;
                self.release(source);
                self.grow_from(wanted, source)?
            }
        };
        self.history.note(Action::SegmentAlloc, address, length, stream, pool.0);
        self.statistics.device_allocations += 1;
        self.statistics.add(small, |all| [(&mut all.segment, 1), (&mut all.reserved_bytes, length)]);
        let segment = Segment { address, length, small, pool };
        let (state, none) = (State::Free, None);
        let block = Block { address, size: length, requested: 0, segment, stream, state, before: none, after: none };
        let id = BlockId(self.blocks.insert(block));
        self.segments.insert(address, id);
        self.put_free(id);
        Some(id)
    }

    fn grow_from(&self, wanted: Wanted, source: &mut dyn Source) -> Option<usize> {
        let reserved = self.statistics.all().reserved_bytes.current;
        if self.limit.is_some_and(|limit| reserved + wanted.bytes > limit) {
            return None;
        }
        source.allocate(wanted)
    }

    /// Puts a block into the list of free ones.
    fn put_free(&mut self, id: BlockId) {
        let block = self.blocks[id.0];
        if !block.is_whole() {
            self.statistics.add(block.segment.small, |all| {
                [(&mut all.inactive_split, 1), (&mut all.inactive_split_bytes, block.size)]
            });
        }
        self.free.entry(block.list()).or_default().insert(block.entry(id));
    }

    /// Takes a block out of the list of free ones.
    fn take_free(&mut self, id: BlockId) {
        let block = self.blocks[id.0];
        if !block.is_whole() {
            self.statistics.subtract(block.segment.small, |all| {
                [(&mut all.inactive_split, 1), (&mut all.inactive_split_bytes, block.size)]
            });
        }
        if let Some(list) = self.free.get_mut(&block.list()) {
            list.remove(&block.entry(id));
        }
    }

    /// Takes a free block into use and splits off what is not needed.
    fn take(&mut self, id: BlockId, size: usize, requested: usize) {
        self.take_free(id);
        let Block { address, size: had, segment: Segment { small, pool, .. }, stream, .. } = self.blocks[id.0];
        let rest = had - size;
        let divides = !self.options.get(&pool).is_some_and(|options| options.no_split);
        let taken = if divides && if small { rest >= UNIT } else { rest > SMALL } {
            self.split(id, size);
            size
        } else {
            had
        };
        let block = &mut self.blocks[id.0];
        (block.state, block.requested) = (State::Used, requested);
        self.history.note(Action::Alloc, address, taken, stream, pool.0);
        self.statistics
            .add(small, |all| [(&mut all.allocation, 1), (&mut all.active, 1), (&mut all.allocated_bytes, taken)]);
        self.statistics.add(small, |all| [(&mut all.active_bytes, taken), (&mut all.requested_bytes, requested)]);
    }

    /// Shortens a block; what is left becomes a free one.
    fn split(&mut self, id: BlockId, size: usize) {
        let block = self.blocks[id.0];
        let rest = Block { address: block.address + size, size: block.size - size, before: Some(id), ..block };
        let rest = BlockId(self.blocks.insert(rest));
        self.blocks[id.0] = Block { size, after: Some(rest), ..block };
        if let Some(next) = block.after {
            self.blocks[next.0].before = Some(rest);
        }
        self.put_free(rest);
    }

    /// Joins a block with the one after it.
    fn join(&mut self, id: BlockId, next: BlockId) {
        let Block { size, after, .. } = self.blocks.remove(next.0);
        let block = &mut self.blocks[id.0];
        block.size += size;
        block.after = after;
        if let Some(after) = after {
            self.blocks[after.0].before = Some(id);
        }
    }

    /// A neighbour, if it is free.
    fn free_neighbour(&self, neighbour: Option<BlockId>) -> Option<BlockId> {
        neighbour.filter(|id| self.blocks[id.0].state == State::Free)
    }

    /// Marks a block that no tensor has any more, and that other streams still use.
    pub fn set_waiting(&mut self, id: BlockId) {
        let Some(block) = self.blocks.get_mut(id.0).filter(|block| block.state == State::Used) else { return };
        block.state = State::Waiting;
        let (address, size, Segment { small, pool, .. }) = (block.address, block.size, block.segment);
        self.history.note(Action::FreeRequested, address, size, block.stream, pool.0);
        self.statistics.subtract(small, |all| [(&mut all.allocation, 1), (&mut all.allocated_bytes, size)]);
    }

    /// Gives a block back and joins it with its free neighbours.
    pub fn give_back(&mut self, id: BlockId) {
        self.set_waiting(id);
        let Some(block) = self.blocks.get_mut(id.0).filter(|block| block.state == State::Waiting) else { return };
        let requested = std::mem::take(&mut block.requested);
        block.state = State::Free;
        let block = *block;
        let Segment { small, pool, .. } = block.segment;
        self.history.note(Action::FreeCompleted, block.address, block.size, block.stream, pool.0);
        self.statistics.subtract(small, |all| {
            [(&mut all.active, 1), (&mut all.active_bytes, block.size), (&mut all.requested_bytes, requested)]
        });
        if let Some(next) = self.free_neighbour(block.after) {
            self.take_free(next);
            self.join(id, next);
        }
        let mut joined = id;
        if let Some(last) = self.free_neighbour(block.before) {
            self.take_free(last);
            self.join(last, id);
            joined = last;
        }
        self.put_free(joined);
    }

    /// Returns segments without a block in use to the source, but not those of pools that are kept.
    pub fn release(&mut self, source: &mut dyn Source) {
        self.release_where(source, |_| true);
    }

    /// The same for the segments of one pool.
    pub fn release_pool(&mut self, pool: PoolId, source: &mut dyn Source) {
        self.release_where(source, |segment| segment.pool == pool);
    }

    fn release_where(&mut self, source: &mut dyn Source, wanted: impl Fn(&Segment) -> bool) {
        let unused = |id: &BlockId| {
            let Block { state, segment, .. } = &self.blocks[id.0];
            let whole = *state == State::Free && self.blocks[id.0].is_whole();
            whole && wanted(segment) && !self.kept.contains_key(&segment.pool)
        };
        let unused: Vec<BlockId> = self.segments.values().copied().filter(unused).collect();
        for id in unused {
            self.take_free(id);
            let Block { segment: Segment { address, length, small, pool }, stream, .. } = self.blocks.remove(id.0);
            self.segments.remove(&address);
            self.history.note(Action::SegmentFree, address, length, stream, pool.0);
            self.statistics.subtract(small, |all| [(&mut all.segment, 1), (&mut all.reserved_bytes, length)]);
            self.statistics.device_frees += 1;
            source.free(address, Wanted { bytes: length, stream, pool });
        }
        self.free.retain(|_, list| !list.is_empty());
    }

    /// Keeps a pool that a program has made.
    pub fn make_pool(&mut self, pool: PoolId, options: PoolOptions) {
        self.options.insert(pool, options);
        self.keep_pool(pool);
    }

    /// Ends a `make_pool`.
    pub fn end_pool(&mut self, pool: PoolId) {
        self.options.remove(&pool);
        self.let_go_of_pool(pool);
    }

    /// How often a pool is kept.
    pub fn uses_of(&self, pool: PoolId) -> usize {
        self.kept.get(&pool).copied().unwrap_or(0)
    }

    /// Keeps the segments of a pool, once more.
    pub fn keep_pool(&mut self, pool: PoolId) {
        *self.kept.entry(pool).or_default() += 1;
    }

    /// Ends one `keep_pool`.
    pub fn let_go_of_pool(&mut self, pool: PoolId) {
        if let Some(count) = self.kept.get_mut(&pool) {
            *count -= 1;
            if *count == 0 {
                self.kept.remove(&pool);
            }
        }
    }

    /// The amounts of all blocks.
    pub fn amounts(&self) -> &Amounts {
        self.statistics.all()
    }

    /// All blocks, in the order of their addresses.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let next = |id: &BlockId| self.blocks[id.0].after;
        let all = self.segments.values().flat_map(move |first| std::iter::successors(Some(*first), next));
        all.map(|id| {
            let Block { address, size, requested, segment, stream, state, .. } = self.blocks[id.0];
            let Segment { address: start, small, pool, .. } = segment;
            Piece { address, size, requested, segment: start, stream, state, small, pool }
        })
    }
}
