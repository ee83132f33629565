//! The caching allocator, over a source whose memory is addresses alone.

use std::collections::BTreeMap;

use rushlight_core::device_memory::StreamId;
use rushlight_cuda::allocator::{Allocator, BlockId, PoolId, Source, State, Wanted};

const SHARED: PoolId = PoolId::SHARED;

const MIB: usize = 1 << 20;

/// Gives out ranges of addresses, up to a limit of bytes.
struct Addresses {
    next: usize,
    taken: BTreeMap<usize, usize>,
    limit: usize,
}

impl Addresses {
    fn new(limit: usize) -> Addresses {
        Addresses { next: 1 << 30, taken: BTreeMap::new(), limit }
    }

    fn used(&self) -> usize {
        self.taken.values().sum()
    }
}

impl Source for Addresses {
    fn allocate(&mut self, Wanted { bytes, .. }: Wanted) -> Option<usize> {
        if self.used() + bytes > self.limit {
            return None;
        }
        self.next += bytes + MIB;
        self.taken.insert(self.next - bytes, bytes);
        Some(self.next - bytes)
    }

    fn free(&mut self, address: usize, _: Wanted) {
        assert!(self.taken.remove(&address).is_some(), "a segment is returned once");
    }
}

#[test]
fn segments_have_torchs_sizes() {
    for (bytes, segment) in [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (33 * MIB, 34 * MIB),
    ] {
        let (mut allocator, mut source) = (Allocator::default(), Addresses::new(1 << 40));
        allocator.allocate(bytes, StreamId(0), SHARED, &mut source).unwrap();
        assert_eq!(source.used(), segment, "for {bytes} bytes");
    }
}

#[test]
fn a_freed_block_is_used_again_by_its_stream_alone() {
    let (mut allocator, mut source) = (Allocator::default(), Addresses::new(1 << 40));
    let first = allocator.allocate(1000, StreamId(0), SHARED, &mut source).unwrap();
    allocator.give_back(first);
    assert_ne!(allocator.allocate(1000, StreamId(7), SHARED, &mut source), Some(first));
    assert_eq!(allocator.allocate(1000, StreamId(0), SHARED, &mut source), Some(first));
}

#[test]
fn cached_segments_are_returned_before_memory_runs_out() {
    let (mut allocator, mut source) = (Allocator::default(), Addresses::new(40 * MIB));
    let large = allocator.allocate(30 * MIB, StreamId(0), SHARED, &mut source).unwrap();
    assert_eq!(allocator.allocate(36 * MIB, StreamId(0), SHARED, &mut source), None);
    allocator.give_back(large);
    assert!(allocator.allocate(36 * MIB, StreamId(0), SHARED, &mut source).is_some());
    assert_eq!(allocator.statistics.retries, 2);
}

/// Random requests against a model: blocks never overlap, the statistics are the sums of the model, and when all blocks are free so is
/// all memory of the source.
#[test]
fn random_requests() {
    let (mut allocator, mut source) = (Allocator::default(), Addresses::new(1 << 40));
    let mut live: BTreeMap<usize, (usize, BlockId)> = BTreeMap::new();
    let mut state = 1u64;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 8) as usize % below
    };
    for step in 0..20_000 {
        if live.is_empty() || random(5) < 3 {
            let bytes = match random(3) {
                0 => 1 + random(4000),
                1 => 1 + random(3 * MIB),
                _ => 1 + random(30 * MIB),
            };
            let id = allocator.allocate(bytes, StreamId(random(3)), SHARED, &mut source).unwrap();
            let address = allocator.address(id);
            let before = live.range(..=address).next_back();
            assert!(before.is_none_or(|(start, (size, _))| start + size <= address), "overlap at step {step}");
            let after = live.range(address..).next();
            let size = allocator.settings.rounded(bytes);
            assert!(after.is_none_or(|(&start, _)| address + size <= start), "overlap at step {step}");
            live.insert(address, (size, id));
        } else {
            let (&address, &(_, id)) = live.iter().nth(random(live.len())).unwrap();
            live.remove(&address);
            allocator.give_back(id);
        }
        let amounts = allocator.amounts();
        assert_eq!(amounts.allocation.current, live.len());
        assert!(amounts.allocated_bytes.current >= live.values().map(|(size, _)| size).sum());
        assert_eq!(amounts.reserved_bytes.current, source.used());
        assert_eq!(
            allocator.pieces().filter(|piece| piece.state == State::Used).map(|piece| piece.size).sum::<usize>(),
            amounts.allocated_bytes.current
        );
    }
    for (kind, sum) in [
        (State::Free, allocator.amounts().reserved_bytes.current - allocator.amounts().active_bytes.current),
        (State::Used, allocator.amounts().active_bytes.current),
    ] {
        assert_eq!(allocator.pieces().filter(|piece| piece.state == kind).map(|piece| piece.size).sum::<usize>(), sum);
    }
    let split = allocator.pieces().filter(|piece| piece.state == State::Free).map(|piece| piece.size).sum::<usize>();
    assert!(allocator.amounts().inactive_split_bytes.current <= split);
    let [all, small, large] = allocator.statistics.kinds;
    assert_eq!(all.active_bytes.current, small.active_bytes.current + large.active_bytes.current);
    for (_, id) in live.into_values() {
        allocator.give_back(id);
    }
    assert_eq!((allocator.amounts().active_bytes.current, allocator.amounts().requested_bytes.current), (0, 0));
    allocator.release(&mut source);
    assert_eq!((source.used(), allocator.pieces().count()), (0, 0));
}

#[test]
fn a_pool_of_a_graph_keeps_its_memory() {
    let (mut allocator, mut source) = (Allocator::default(), Addresses::new(1 << 40));
    let pool = PoolId(7);
    allocator.keep_pool(pool);
    let first = allocator.allocate(1000, StreamId(0), pool, &mut source).unwrap();
    allocator.give_back(first);
    assert_ne!(allocator.allocate(1000, StreamId(0), SHARED, &mut source), Some(first));
    allocator.release(&mut source);
    assert_eq!(allocator.allocate(1000, StreamId(0), pool, &mut source), Some(first));
    allocator.give_back(first);
    allocator.let_go_of_pool(pool);
    allocator.release(&mut source);
    assert_eq!(source.used(), 2 * MIB);
}

#[test]
fn a_limit_counts_as_missing_memory() {
    let (mut allocator, mut source) = (Allocator::default(), Addresses::new(1 << 40));
    allocator.limit = Some(30 * MIB);
    assert!(allocator.allocate(20 * MIB, StreamId(0), SHARED, &mut source).is_some());
    assert_eq!(allocator.allocate(12 * MIB, StreamId(0), SHARED, &mut source), None);
    allocator.limit = None;
    assert!(allocator.allocate(12 * MIB, StreamId(0), SHARED, &mut source).is_some());
}
