//! Divides a device's memory into blocks and keeps freed ones, with torch's sizes.
//!
//! The driver gives out memory in segments: 2 MiB for small blocks, 20 MiB for medium ones, whole multiples of 2 MiB for large
//! ones, unless the settings say otherwise. A block belongs to the stream that it was allocated for, whose later work may use it again at once. Neighbours that
//! are both free are joined. A graph has a pool of its own, whose segments no other work uses. Nothing here calls the driver:
//! `Source` does.

use std::collections::{BTreeMap, BTreeSet};

use rushlight_core::device_memory::StreamId;

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

#[derive(Clone, Copy)]
struct Block {
    size: usize,
    requested: usize,
    segment: usize,
    stream: StreamId,
    state: State,
    /// How many requests there were when the block became free.
    freed_at: u64,
}

#[derive(Clone, Copy)]
struct Segment {
    length: usize,
    small: bool,
    pool: PoolId,
}

impl Block {
    /// Whether it is free and the whole of its segment.
    fn is_whole(&self, segment: &Segment) -> bool {
        self.state == State::Free && self.size == segment.length
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

/// A free block: its pool, whether its segment is for small blocks, its stream, size and address.
type Free = (PoolId, bool, usize, usize, usize);

#[derive(Default)]
pub struct Allocator {
    blocks: BTreeMap<usize, Block>,
    free: BTreeSet<Free>,
    segments: BTreeMap<usize, Segment>,
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
    pub fn allocate(&mut self, bytes: usize, stream: StreamId, pool: PoolId, source: &mut dyn Source) -> Option<usize> {
        let size = self.settings.rounded(bytes);
        self.requests += 1;
        let address = match self.free_block(size, stream, pool) {
            Some(address) => address,
            None => self.new_segment(size, stream, pool, source)?,
        };
        self.take(address, size, bytes);
        Some(address)
    }

    /// A free block of at least `bytes` for a stream, from the pools that serve all work when memory runs out.
    pub fn last_resort(&mut self, bytes: usize, stream: StreamId) -> Option<usize> {
        let size = self.settings.rounded(bytes);
        let mut pools = self.options.iter().filter(|(_, options)| options.on_oom).map(|(pool, _)| *pool);
        let address = pools.find_map(|pool| self.free_block(size, stream, pool))?;
        self.take(address, size, bytes);
        Some(address)
    }

    /// The smallest free block of at least `size` of a pool. One that is not divided serves no small request, and none that would
    /// leave much of it unused.
    fn free_block(&self, size: usize, stream: StreamId, pool: PoolId) -> Option<usize> {
        let small = size <= SMALL;
        let range = (pool, small, stream.0, size, 0)..=(pool, small, stream.0, usize::MAX, usize::MAX);
        let &(.., found, address) = self.free.range(range).next()?;
        let Settings { max_split, max_non_split_rounding, .. } = self.settings;
        let wasted =
            if size < max_split { found >= max_split } else { found >= size.saturating_add(max_non_split_rounding) };
        (!wasted).then_some(address)
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
    fn new_segment(&mut self, size: usize, stream: StreamId, pool: PoolId, source: &mut dyn Source) -> Option<usize> {
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
        if length >= self.settings.max_split {
            self.statistics.oversize_segments.add(1);
        }
        self.segments.insert(address, Segment { length, small, pool });
        let state = State::Free;
        self.put_free(address, Block { size: length, requested: 0, segment: address, stream, state, freed_at: 0 });
        Some(address)
    }

    fn grow_from(&self, wanted: Wanted, source: &mut dyn Source) -> Option<usize> {
        let reserved = self.statistics.all().reserved_bytes.current;
        if self.limit.or_else(|| source.limit()).is_some_and(|limit| reserved + wanted.bytes > limit) {
            return None;
        }
        source.allocate(wanted)
    }

    /// A new segment once free ones that are not divided were returned: one that is large enough, or else the largest ones.
    fn grow_after_undivided(&mut self, wanted: Wanted, source: &mut dyn Source) -> Option<usize> {
        let Settings { max_split, .. } = self.settings;
        if max_split == usize::MAX {
            return None;
        }
        let all = |size| {
            (wanted.pool, false, wanted.stream.0, size, 0)
                ..=(wanted.pool, false, wanted.stream.0, usize::MAX, usize::MAX)
        };
        let least = wanted.bytes.max(max_split);
        let enough = self.free.range(all(least)).next().map(|&(.., address)| address);
        let mut returned = enough.map_or(0, |address| self.release_segment(address, source));
        while returned < least {
            let largest = self.free.range(all(max_split)).next_back().map(|&(.., address)| address);
            match largest.map_or(0, |address| self.release_segment(address, source)) {
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
            let age = |block: &Block| self.requests - block.freed_at;
            let total: u64 = unused.iter().map(|(_, block)| age(block)).sum();
            let old = unused.iter().filter(|(_, block)| age(block) * unused.len() as u64 >= total);
            let old: Vec<usize> = old.map(|(address, _)| *address).collect();
            if old.is_empty() {
                return;
            }
            for address in old {
                if reserved(self) > kept {
                    self.release_segment(address, source);
                }
            }
        }
    }

    fn segment_of(&self, block: &Block) -> Segment {
        let none = Segment { length: 0, small: false, pool: PoolId::SHARED };
        self.segments.get(&block.segment).copied().unwrap_or(none)
    }

    fn key(&self, address: usize, block: &Block) -> Free {
        let segment = self.segment_of(block);
        (segment.pool, segment.small, block.stream.0, block.size, address)
    }

    fn put_free(&mut self, address: usize, block: Block) {
        let segment = self.segment_of(&block);
        if block.size < segment.length {
            self.statistics
                .add(segment.small, |all| [(&mut all.inactive_split, 1), (&mut all.inactive_split_bytes, block.size)]);
        }
        self.free.insert(self.key(address, &block));
        self.blocks.insert(address, block);
    }

    fn take_free(&mut self, address: usize, block: &Block) {
        let segment = self.segment_of(block);
        if block.size < segment.length {
            self.statistics.subtract(segment.small, |all| {
                [(&mut all.inactive_split, 1), (&mut all.inactive_split_bytes, block.size)]
            });
        }
        self.free.remove(&self.key(address, block));
        self.blocks.remove(&address);
    }

    /// Takes a free block into use and splits off what is not needed.
    fn take(&mut self, address: usize, size: usize, requested: usize) {
        let Some(mut block) = self.blocks.get(&address).copied() else { return };
        self.take_free(address, &block);
        let Segment { small, pool, .. } = self.segment_of(&block);
        let rest = block.size - size;
        let divides = !self.options.get(&pool).is_some_and(|options| options.no_split);
        if divides && if small { rest >= UNIT } else { rest > SMALL && size < self.settings.max_split } {
            self.put_free(address + size, Block { size: rest, ..block });
            block.size = size;
        }
        self.blocks.insert(address, Block { state: State::Used, requested, ..block });
        self.history.note(Action::Alloc, address, block.size, block.stream, pool.0);
        self.statistics
            .add(small, |all| [(&mut all.allocation, 1), (&mut all.active, 1), (&mut all.allocated_bytes, block.size)]);
        self.statistics.add(small, |all| [(&mut all.active_bytes, block.size), (&mut all.requested_bytes, requested)]);
        if block.size >= self.settings.max_split {
            self.statistics.oversize_allocations.add(1);
        }
    }

    /// Marks a block that no tensor has any more, and that other streams still use.
    pub fn set_waiting(&mut self, address: usize) {
        let Some(block) = self.blocks.get(&address).copied().filter(|block| block.state == State::Used) else { return };
        let Segment { small, pool, .. } = self.segment_of(&block);
        self.blocks.insert(address, Block { state: State::Waiting, ..block });
        self.history.note(Action::FreeRequested, address, block.size, block.stream, pool.0);
        self.statistics.subtract(small, |all| [(&mut all.allocation, 1), (&mut all.allocated_bytes, block.size)]);
    }

    /// Gives a block back and joins it with its free neighbours.
    pub fn give_back(&mut self, address: usize) {
        self.set_waiting(address);
        let Some(block) = self.blocks.get(&address).copied().filter(|block| block.state == State::Waiting) else {
            return;
        };
        let Segment { small, pool, .. } = self.segment_of(&block);
        self.history.note(Action::FreeCompleted, address, block.size, block.stream, pool.0);
        self.statistics.subtract(small, |all| {
            [(&mut all.active, 1), (&mut all.active_bytes, block.size), (&mut all.requested_bytes, block.requested)]
        });
        if block.size >= self.settings.max_split {
            self.statistics.oversize_allocations.subtract(1);
        }
        self.blocks.remove(&address);
        let (mut start, mut size) = (address, block.size);
        let alike = |other: &Block| other.state == State::Free && other.segment == block.segment;
        let after = self.blocks.range(address..).next().map(|(&at, next)| (at, *next));
        if let Some((at, next)) = after.filter(|(_, next)| alike(next)) {
            size += next.size;
            self.take_free(at, &next);
        }
        let before = self.blocks.range(..address).next_back().map(|(&at, last)| (at, *last));
        if let Some((at, last)) = before.filter(|(_, last)| alike(last)) {
            start = at;
            size += last.size;
            self.take_free(at, &last);
        }
        self.put_free(start, Block { size, requested: 0, state: State::Free, freed_at: self.requests, ..block });
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
        for (address, _) in self.unused_segments(wanted) {
            self.release_segment(address, source);
        }
    }

    /// The segments without a block in use, but not those of pools that are kept.
    fn unused_segments(&self, wanted: impl Fn(&Segment) -> bool) -> Vec<(usize, Block)> {
        let unused = |(address, segment): (&usize, &Segment)| {
            let block = self.blocks.get(address)?;
            (block.is_whole(segment) && wanted(segment) && !self.kept.contains_key(&segment.pool))
                .then_some((*address, *block))
        };
        self.segments.iter().filter_map(unused).collect()
    }

    /// Returns a segment to the source if no block of it is in use; its bytes, or 0.
    fn release_segment(&mut self, address: usize, source: &mut dyn Source) -> usize {
        let found = self.blocks.get(&address).copied().zip(self.segments.get(&address).copied());
        let Some((block, segment)) = found.filter(|(block, segment)| block.is_whole(segment)) else { return 0 };
        let Segment { length, small, pool } = segment;
        self.take_free(address, &block);
        self.segments.remove(&address);
        self.history.note(Action::SegmentFree, address, length, block.stream, pool.0);
        self.statistics.subtract(small, |all| [(&mut all.segment, 1), (&mut all.reserved_bytes, length)]);
        if length >= self.settings.max_split {
            self.statistics.oversize_segments.subtract(1);
        }
        self.statistics.device_frees += 1;
        source.free(address, Wanted { bytes: length, stream: block.stream, pool });
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
        self.blocks.iter().map(|(&address, block)| {
            let segment = self.segment_of(block);
            Piece {
                address,
                size: block.size,
                requested: block.requested,
                segment: block.segment,
                stream: block.stream,
                state: block.state,
                small: segment.small,
                pool: segment.pool,
            }
        })
    }
}
