//! Introsort with the steps of GNU's `std::sort`: a quicksort with the median of three as pivot leaves runs of at most
//! 16 elements to an insertion sort. The steps determine which of several equal elements comes last, and torch's
//! `mode` returns the index of that one.

use super::Ranked;

/// The length of the runs that are left to the insertion sort.
const SMALL: usize = 16;

/// Sorts ranks by their elements alone: equal elements are not ordered by their indices.
pub fn introsort<R: Ranked>(ranks: &mut [R]) {
    split(ranks, 2 * ranks.len().checked_ilog2().unwrap_or(0));
    for end in 1..ranks.len() {
        insert_last(&mut ranks[..=end]);
    }
}

/// Divides the ranks until short runs are left, which are in order among each other.
fn split<R: Ranked>(mut ranks: &mut [R], mut depth: u32) {
    while ranks.len() > SMALL {
        if depth == 0 {
            // Too many bad pivots. GNU sorts a heap here, whose order of equal elements is not reproduced.
            return ranks.sort_unstable();
        }
        depth -= 1;
        let cut = partition(ranks);
        let (low, high) = ranks.split_at_mut(cut);
        split(high, depth);
        ranks = low;
    }
}

/// Moves ranks below the pivot before the others, and returns where the others begin.
fn partition<R: Ranked>(ranks: &mut [R]) -> usize {
    let n = ranks.len();
    ranks.swap(0, median([1, n / 2, n - 1], |a, b| ranks[a].is_below(ranks[b])));
    let pivot = ranks[0];
    let (mut low, mut high) = (1, n);
    loop {
        // The pivot is a median, so that one rank stops each search.
        while ranks[low].is_below(pivot) {
            low += 1;
        }
        high -= 1;
        while pivot.is_below(ranks[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        ranks.swap(low, high);
        low += 1;
    }
}

fn median([a, b, c]: [usize; 3], below: impl Fn(usize, usize) -> bool) -> usize {
    if below(a, b) {
        if below(b, c) {
            b
        } else if below(a, c) {
            c
        } else {
            a
        }
    } else if below(a, c) {
        a
    } else if below(b, c) {
        c
    } else {
        b
    }
}

/// Moves the last rank before all that are above it.
fn insert_last<R: Ranked>(ranks: &mut [R]) {
    let end = ranks.len() - 1;
    let last = ranks[end];
    let place = ranks[..end].iter().rposition(|&rank| !last.is_below(rank)).map_or(0, |before| before + 1);
    ranks.copy_within(place..end, place + 1);
    ranks[place] = last;
}

#[cfg(test)]
mod tests {
    use super::introsort;
    use crate::order::Ranked;

    #[test]
    fn sorts_and_keeps_every_rank() {
        for n in [0, 1, 16, 17, 100, 5000] {
            let mut state = 1u64;
            let mut ranks: Vec<u64> = (0..n)
                .map(|place| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    <u64 as Ranked>::new(state >> 33 & 63, place)
                })
                .collect();
            let mut sorted = ranks.clone();
            introsort(&mut ranks);
            assert!(ranks.windows(2).all(|pair| !pair[1].is_below(pair[0])));
            ranks.sort_unstable();
            sorted.sort_unstable();
            assert_eq!(ranks, sorted);
        }
    }

    #[test]
    fn constant_and_sorted_lines_end() {
        for key in [|_: usize| 3u64, |place: usize| place as u64, |place: usize| (5000 - place) as u64] {
            let mut ranks: Vec<u64> = (0..5000).map(|place| <u64 as Ranked>::new(key(place), place)).collect();
            introsort(&mut ranks);
            assert!(ranks.windows(2).all(|pair| !pair[1].is_below(pair[0])));
        }
    }
}
