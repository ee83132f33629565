//! A set of byte ranges in which adjacent ranges are merged. It finds the shortest range that is long enough.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Default, Debug)]
pub struct Ranges {
    ends: BTreeMap<usize, usize>,
    lengths: BTreeSet<(usize, usize)>,
    total: usize,
}

impl Ranges {
    pub fn from(range: Range<usize>) -> Ranges {
        let mut ranges = Ranges::default();
        ranges.insert(range);
        ranges
    }

    /// How many bytes the ranges have together.
    pub fn total(&self) -> usize {
        self.total
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// The ranges, longest first.
    pub fn longest(&self) -> impl Iterator<Item = Range<usize>> {
        self.lengths.iter().rev().map(|&(length, start)| start..start + length)
    }

    pub fn contains(&self, range: &Range<usize>) -> bool {
        self.ends.range(..=range.start).next_back().is_some_and(|(_, &end)| range.end <= end)
    }

    /// Adds a range that overlaps none in the set.
    pub fn insert(&mut self, range: Range<usize>) {
        let (mut start, mut end) = (range.start, range.end);
        if start >= end {
            return;
        }
        if let Some((&before, &touch)) = self.ends.range(..start).next_back()
            && touch == start
        {
            self.drop_entry(before, touch);
            start = before;
        }
        if let Some(&after) = self.ends.get(&end) {
            self.drop_entry(end, after);
            end = after;
        }
        self.add_entry(start, end);
    }

    /// Removes the parts of `range` that are in the set, and returns them.
    pub fn subtract(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(&start, _)| start);
        let hit: Vec<(usize, usize)> = self
            .ends
            .range(first..range.end)
            .map(|(&start, &end)| (start, end))
            .filter(|&(_, end)| end > range.start)
            .collect();
        hit.into_iter()
            .map(|(start, end)| {
                self.drop_entry(start, end);
                let cut = start.max(range.start)..end.min(range.end);
                if start < cut.start {
                    self.add_entry(start, cut.start);
                }
                if cut.end < end {
                    self.add_entry(cut.end, end);
                }
                cut
            })
            .collect()
    }

    /// Takes `length` bytes from the start of the shortest range that is long enough.
    pub fn take(&mut self, length: usize) -> Option<usize> {
        let &(found, start) = self.lengths.range((length, 0)..).next()?;
        self.drop_entry(start, start + found);
        if found > length {
            self.add_entry(start + length, start + found);
        }
        Some(start)
    }

    fn add_entry(&mut self, start: usize, end: usize) {
        self.ends.insert(start, end);
        self.lengths.insert((end - start, start));
        self.total += end - start;
    }

    fn drop_entry(&mut self, start: usize, end: usize) {
        self.ends.remove(&start);
        self.lengths.remove(&(end - start, start));
        self.total -= end - start;
    }
}

#[cfg(test)]
mod tests {
    use super::Ranges;

    /// Compares with a bitmap under random operations.
    #[test]
    fn agrees_with_a_bitmap() {
        const SIZE: usize = 200;
        let mut ranges = Ranges::default();
        let mut bits = [false; SIZE];
        let mut state = 1u64;
        let mut next = |limit: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % limit
        };
        for _ in 0..20_000 {
            let start = next(SIZE - 1);
            let end = (start + 1 + next(20)).min(SIZE);
            match next(3) {
                0 if bits[start..end].iter().all(|bit| !bit) => {
                    ranges.insert(start..end);
                    bits[start..end].fill(true);
                }
                1 => {
                    let cut: usize = ranges.subtract(start..end).iter().map(ExactSizeIterator::len).sum();
                    assert_eq!(cut, bits[start..end].iter().filter(|bit| **bit).count());
                    bits[start..end].fill(false);
                }
                _ => {
                    if let Some(at) = ranges.take(end - start) {
                        assert!(bits[at..at + end - start].iter().all(|bit| *bit));
                        bits[at..at + end - start].fill(false);
                    }
                }
            }
            assert_eq!(ranges.total(), bits.iter().filter(|bit| **bit).count());
            assert!(ranges.iter().all(|range| bits[range].iter().all(|bit| *bit)));
            let ends: Vec<_> = ranges.iter().collect();
            assert!(ends.windows(2).all(|pair| pair[0].end < pair[1].start));
            let probe = start..end;
            assert_eq!(ranges.contains(&probe), bits[probe].iter().all(|bit| *bit));
        }
    }
}
