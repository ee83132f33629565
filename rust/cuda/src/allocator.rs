//! Divides a device's memory into blocks and keeps freed ones, with torch's sizes.
//!
//! The driver gives out memory in segments: 2 MiB for small blocks, 20 MiB for medium ones, whole multiples of 2 MiB for large
//! ones, unless the settings say otherwise. A block belongs to the stream that it was allocated for, whose later work may use it
//! again at once. Neighbours that are both free are joined: a block knows its neighbours, so that only lists of free blocks are
//! searched. A graph has a pool of its own, whose segments no other work uses. Nothing here calls the driver: `Source` does.

use std::collections::{BTreeMap, BTreeSet};

use rushlight_core::device_memory::StreamId;
use slab::Slab;

use crate::history::{Action, History};
use crate::settings::Settings;
use crate::statistics::{Amounts, Statistics};

/// The smallest block.
const UNIT: usize = 512;
const MIB: usize = 1 << 20;
/// The largest small block, and the segment of small blocks.
const SMALL: usize = MIB;
const SMALL_SEGMENT: usize = 2 * MIB;
/// The largest medium block.
const MEDIUM: usize = 10 * MIB;
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

    /// The most bytes to take from it, if the allocator has no limit of its own.
    fn limit(&self) -> Option<usize> {
        None
    }
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
    /// Whether it was counted as one that is not divided.
    oversize: bool,
    /// How many requests there were when the block became free.
    freed_at: u64,
    /// The neighbours in the segment.
    before: Option<BlockId>,
    after: Option<BlockId>,
}

#[derive(Clone, Copy)]
struct Segment {
    address: usize,
    length: usize,
    small: bool,
    /// Whether it was counted as one that is not divided.
    oversize: bool,
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
    pub settings: Settings,
    /// How many requests there were.
    requests: u64,
    pub statistics: Statistics,
    pub history: History,
}

impl Allocator {
    pub fn new(settings: Settings) -> Allocator {
        Allocator { settings, ..Allocator::default() }
    }

    /// A block of at least `bytes` for a stream: a free one, or part of a new segment; `None` if the source has no memory, even
    /// after all free segments were returned to it.
    pub fn allocate(
        &mut self,
        bytes: usize,
        stream: StreamId,
        pool: PoolId,
        source: &mut dyn Source,
    ) -> Option<BlockId> {
        let size = self.settings.rounded(bytes);
        self.requests += 1;
        let id = match self.free_block(size, stream, pool) {
            Some(id) => id,
            None => self.new_segment(size, stream, pool, source)?,
        };
        self.take(id, size, bytes);
        Some(id)
    }

    /// A free block of at least `bytes` for a stream, from the pools that serve all work when memory runs out.
    pub fn last_resort(&mut self, bytes: usize, stream: StreamId) -> Option<BlockId> {
        let size = self.settings.rounded(bytes);
        let mut pools = self.options.iter().filter(|(_, options)| options.on_oom).map(|(pool, _)| *pool);
        let id = pools.find_map(|pool| self.free_block(size, stream, pool))?;
        self.take(id, size, bytes);
        Some(id)
    }

    /// Where a block begins.
    pub fn address(&self, id: BlockId) -> usize {
        self.blocks[id.0].address
    }

    /// The smallest free block of at least `size` of a pool. One that is not divided serves no small request, and none that would
    /// leave much of it unused.
    fn free_block(&self, size: usize, stream: StreamId, pool: PoolId) -> Option<BlockId> {
        let list = self.free.get(&(pool, size <= SMALL, stream.0))?;
        let &(found, _, id) = list.range((size, 0, BlockId(0))..).next()?;
        let Settings { max_split, max_non_split_rounding, .. } = self.settings;
        let wasted =
            if size < max_split { found >= max_split } else { found >= size.saturating_add(max_non_split_rounding) };
        (!wasted).then_some(id)
    }

    fn segment_size(&self, size: usize) -> usize {
        if size <= SMALL {
            SMALL_SEGMENT
        } else if size < MEDIUM {
            self.settings.large_segment
        } else {
            size.next_multiple_of(LARGE_UNIT)
        }
    }

    /// A new segment, as one free block.
    fn new_segment(&mut self, size: usize, stream: StreamId, pool: PoolId, source: &mut dyn Source) -> Option<BlockId> {
        let (length, small) = (self.segment_size(size), size <= SMALL);
        let wanted = Wanted { bytes: length, stream, pool };
        self.collect_garbage(source);
        let address = match self.grow_from(wanted, source).or_else(|| self.grow_after_undivided(wanted, source)) {
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
        let oversize = length >= self.settings.max_split;
        if oversize {
            self.statistics.oversize_segments.add(1);
        }
        let id = BlockId(self.blocks.insert(Block {
            address,
            size: length,
            requested: 0,
            segment: Segment { address, length, small, oversize, pool },
            stream,
            state: State::Free,
            oversize: false,
            freed_at: 0,
            before: None,
            after: None,
        }));
        self.segments.insert(address, id);
        self.put_free(id);
        Some(id)
    }

    fn grow_from(&self, wanted: Wanted, source: &mut dyn Source) -> Option<usize> {
        let reserved = self.statistics.all().reserved_bytes.current;
        if self.limit.or_else(|| source.limit()).is_some_and(|limit| reserved.saturating_add(wanted.bytes) > limit) {
            return None;
        }
        source.allocate(wanted)
    }

    /// A new segment once free ones that are not divided were returned: one that is large enough, or else the largest ones. Those of a
    /// pool that is kept stay, because recorded work uses them.
    fn grow_after_undivided(&mut self, wanted: Wanted, source: &mut dyn Source) -> Option<usize> {
        let Settings { max_split, .. } = self.settings;
        if max_split == usize::MAX || self.kept.contains_key(&wanted.pool) {
            return None;
        }
        let list = (wanted.pool, false, wanted.stream.0);
        let least = wanted.bytes.max(max_split);
        let enough = self.free.get(&list)?.range((least, 0, BlockId(0))..).next().map(|&(.., id)| id);
        let mut returned = enough.map_or(0, |id| self.release_segment(id, source));
        while returned < least {
            let largest = self.free.get(&list)?.range((max_split, 0, BlockId(0))..).next_back().map(|&(.., id)| id);
            match largest.map_or(0, |id| self.release_segment(id, source)) {
                0 => return None,
                bytes => returned += bytes,
            }
        }
        self.grow_from(wanted, source)
    }

    /// Returns free segments until the part of the limit that the settings name is kept: those that have been free for at least as
    /// many requests as all of them on average.
    fn collect_garbage(&mut self, source: &mut dyn Source) {
        let threshold = self.settings.collection_threshold;
        let Some(limit) = self.limit.or_else(|| source.limit()).filter(|_| threshold > 0.0) else { return };
        let kept = (limit as f64 * threshold) as usize;
        let reserved = |own: &Allocator| own.statistics.all().reserved_bytes.current;
        while reserved(self) > kept {
            let unused = self.unused_segments(|segment| !segment.small && segment.pool == PoolId::SHARED);
            let age = |id: &BlockId| self.requests - self.blocks[id.0].freed_at;
            let total: u64 = unused.iter().map(age).sum();
            let old: Vec<BlockId> =
                unused.iter().filter(|id| age(id) * unused.len() as u64 >= total).copied().collect();
            if old.is_empty() {
                return;
            }
            for id in old {
                if reserved(self) > kept {
                    self.release_segment(id, source);
                }
            }
        }
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
        let divides = divides && if small { rest >= UNIT } else { rest > SMALL && size < self.settings.max_split };
        let taken = if divides {
            self.split(id, size);
            size
        } else {
            had
        };
        let block = &mut self.blocks[id.0];
        (block.state, block.requested) = (State::Used, requested);
        block.oversize = taken >= self.settings.max_split;
        self.history.note(Action::Alloc, address, taken, stream, pool.0);
        self.statistics
            .add(small, |all| [(&mut all.allocation, 1), (&mut all.active, 1), (&mut all.allocated_bytes, taken)]);
        self.statistics.add(small, |all| [(&mut all.active_bytes, taken), (&mut all.requested_bytes, requested)]);
        if self.blocks[id.0].oversize {
            self.statistics.oversize_allocations.add(1);
        }
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

    /// Gives a block back and joins it with its free neighbours. Whether its pool has ended.
    pub fn give_back(&mut self, id: BlockId) -> bool {
        self.set_waiting(id);
        let Some(block) = self.blocks.get_mut(id.0).filter(|block| block.state == State::Waiting) else { return false };
        let requested = std::mem::take(&mut block.requested);
        (block.state, block.freed_at) = (State::Free, self.requests);
        let block = *block;
        let Segment { small, pool, .. } = block.segment;
        self.history.note(Action::FreeCompleted, block.address, block.size, block.stream, pool.0);
        self.statistics.subtract(small, |all| {
            [(&mut all.active, 1), (&mut all.active_bytes, block.size), (&mut all.requested_bytes, requested)]
        });
        if block.oversize {
            self.statistics.oversize_allocations.subtract(1);
        }
        if let Some(next) = self.free_neighbour(block.after) {
            self.take_free(next);
            self.join(id, next);
        }
        let mut joined = id;
        if let Some(last) = self.free_neighbour(block.before) {
            self.take_free(last);
            self.join(last, id);
            self.blocks[last.0].freed_at = self.requests;
            joined = last;
        }
        self.put_free(joined);
        self.has_ended(pool)
    }

    /// Whether a pool of a graph or of a program has no owner and no user any more.
    fn has_ended(&self, pool: PoolId) -> bool {
        pool != PoolId::SHARED && !self.kept.contains_key(&pool)
    }

    /// Returns segments without a block in use to the source, but not those of pools that are kept.
    pub fn release(&mut self, source: &mut dyn Source) {
        self.release_where(source, |_| true);
    }

    /// The same for the segments of pools that have ended.
    pub fn release_ended(&mut self, source: &mut dyn Source) {
        self.release_where(source, |segment| segment.pool != PoolId::SHARED);
    }

    fn release_where(&mut self, source: &mut dyn Source, wanted: impl Fn(&Segment) -> bool) {
        for id in self.unused_segments(wanted) {
            self.release_segment(id, source);
        }
        self.free.retain(|_, list| !list.is_empty());
    }

    /// The segments without a block in use, but not those of pools that are kept: their only blocks.
    fn unused_segments(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<BlockId> {
        let unused = |id: &BlockId| {
            let block = &self.blocks[id.0];
            let is_kept = self.kept.contains_key(&block.segment.pool);
            block.state == State::Free && block.is_whole() && wanted(&block.segment) && !is_kept
        };
        self.segments.values().copied().filter(unused).collect()
    }

    /// Returns the segment of a free block to the source, if the block is all of it; its bytes, or 0.
    fn release_segment(&mut self, id: BlockId, source: &mut dyn Source) -> usize {
        if !self.blocks[id.0].is_whole() {
            return 0;
        }
        self.take_free(id);
        let Block { segment, stream, .. } = self.blocks.remove(id.0);
        let Segment { address, length, small, oversize, pool } = segment;
        self.segments.remove(&address);
        self.history.note(Action::SegmentFree, address, length, stream, pool.0);
        self.statistics.subtract(small, |all| [(&mut all.segment, 1), (&mut all.reserved_bytes, length)]);
        if oversize {
            self.statistics.oversize_segments.subtract(1);
        }
        self.statistics.device_frees += 1;
        source.free(address, Wanted { bytes: length, stream, pool });
        length
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
