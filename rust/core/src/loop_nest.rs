//! How several strided operands are iterated together: dimensions are sorted by stride, adjacent ones are joined, and
//! the elements are visited in runs.
//!
//! Operand 0 is the result. Sizes are stored innermost first; strides count bytes. The order of the loops decides only
//! when each element is visited, never which elements are combined, so an elementwise kernel gives the same bits in any
//! order.

use std::cmp::Ordering;
use std::ops::Range;

use smallvec::SmallVec;

use crate::dims::Dims;
use crate::layout::{Layout, product};
use crate::memory_format;

type Strides<const N: usize> = SmallVec<[[isize; N]; 6]>;

/// Nested loops over `N` operands of one (broadcast) shape.
pub struct LoopNest<const N: usize> {
    sizes: SmallVec<[usize; 6]>,
    strides: Strides<N>,
    bases: [isize; N],
    numel: usize,
}

impl<const N: usize> LoopNest<N> {
    /// Every layout must already have the sizes of the first; `widths` are the operands' element sizes in bytes.
    pub fn new(layouts: [&Layout; N], widths: [usize; N]) -> Self {
        let shape = &layouts[0].sizes;
        let mut bases = [0isize; N];
        for n in 0..N {
            debug_assert_eq!(layouts[n].sizes, *shape);
            bases[n] = layouts[n].offset.wrapping_mul(widths[n] as isize);
        }
        let mut sizes: SmallVec<[usize; 6]> = SmallVec::new();
        let mut strides: Strides<N> = SmallVec::new();
        for dim in (0..shape.len()).rev() {
            if shape[dim] != 1 {
                sizes.push(shape[dim] as usize);
                strides.push(std::array::from_fn(|n| layouts[n].strides[dim].wrapping_mul(widths[n] as isize)));
            }
        }
        let numel = product(shape);
        let mut nest = LoopNest { sizes, strides, bases, numel };
        if nest.sizes.len() > 1 {
            nest.sort();
            nest.join();
        }
        nest
    }

    /// Sorts dimensions by stride, the smallest innermost; the result's strides decide first.
    fn sort(&mut self) {
        for i in 1..self.sizes.len() {
            let mut j = i;
            while j > 0 && inner_first(&self.strides[j], &self.strides[j - 1]) {
                self.sizes.swap(j, j - 1);
                self.strides.swap(j, j - 1);
                j -= 1;
            }
        }
    }

    /// Joins a dimension with the next outer one if every operand continues without a gap.
    fn join(&mut self) {
        let mut last = 0;
        for dim in 1..self.sizes.len() {
            let size = self.sizes[last] as isize;
            if (0..N).all(|n| self.strides[last][n].wrapping_mul(size) == self.strides[dim][n]) {
                self.sizes[last] *= self.sizes[dim];
            } else {
                last += 1;
                self.sizes[last] = self.sizes[dim];
                self.strides[last] = self.strides[dim];
            }
        }
        self.sizes.truncate(last + 1);
        self.strides.truncate(last + 1);
    }

    pub fn numel(&self) -> usize {
        self.numel
    }

    /// The length of a run: how many consecutive elements have constant strides.
    pub fn inner(&self) -> usize {
        self.sizes.first().copied().unwrap_or(1)
    }

    /// The byte strides within a run.
    pub fn inner_strides(&self) -> [isize; N] {
        self.strides.first().copied().unwrap_or([0; N])
    }

    /// The outer dimension along which an operand's elements of `width` bytes are adjacent, if there is one.
    pub fn across(&self, operand: usize, width: usize) -> Option<usize> {
        (1..self.sizes.len()).find(|&dim| self.strides[dim][operand] == width as isize)
    }

    /// Whether an operand's elements of `width` bytes lie one after the other, in the order of the loops.
    pub fn is_dense(&self, operand: usize, width: usize) -> bool {
        let mut step = width as isize;
        self.sizes.iter().zip(&self.strides).all(|(&size, strides)| {
            let continues = strides[operand] == step;
            step = step.wrapping_mul(size as isize);
            continues
        })
    }

    /// Whether all runs read the same elements of an operand.
    pub fn repeats_runs(&self, operand: usize) -> bool {
        self.strides.iter().skip(1).all(|strides| strides[operand] == 0)
    }

    /// The number of loops.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    pub fn size(&self, dim: usize) -> usize {
        self.sizes[dim]
    }

    pub fn strides(&self, dim: usize) -> [isize; N] {
        self.strides[dim]
    }

    /// The loops over all dimensions but the innermost and one more.
    pub fn around(&self, dim: usize) -> LoopNest<N> {
        let kept = |d: &usize| *d != 0 && *d != dim;
        let sizes: SmallVec<_> = (0..self.sizes.len()).filter(kept).map(|d| self.sizes[d]).collect();
        let strides = (0..self.sizes.len()).filter(kept).map(|d| self.strides[d]).collect();
        LoopNest { numel: sizes.iter().product(), sizes, strides, bases: self.bases }
    }

    /// The loops over the runs: all dimensions but the innermost.
    pub fn outer(&self) -> LoopNest<N> {
        let sizes: SmallVec<_> = self.sizes.iter().skip(1).copied().collect();
        let strides = self.strides.iter().skip(1).copied().collect();
        let numel = if self.numel == 0 { 0 } else { sizes.iter().product() };
        LoopNest { numel, sizes, strides, bases: self.bases }
    }

    /// The byte offsets of the first element.
    pub fn bases(&self) -> [isize; N] {
        self.bases
    }

    /// Whether one run covers everything.
    pub fn is_flat(&self) -> bool {
        self.sizes.len() <= 1
    }

    /// Calls `visit(byte offsets, length)` for each run, or part of a run, in `range` of the elements, in this order.
    pub fn runs(&self, range: Range<usize>, mut visit: impl FnMut([isize; N], usize)) {
        if range.is_empty() {
            return;
        }
        let inner = self.inner();
        let mut index: SmallVec<[usize; 6]> = SmallVec::new();
        let mut offsets = self.bases;
        let mut rest = range.start;
        for (&size, strides) in self.sizes.iter().zip(&self.strides) {
            let at = rest % size;
            rest /= size;
            index.push(at);
            for n in 0..N {
                offsets[n] += at as isize * strides[n];
            }
        }
        let mut left = range.len();
        loop {
            let at = index.first().copied().unwrap_or(0);
            let length = left.min(inner - at);
            visit(offsets, length);
            left -= length;
            if left == 0 {
                return;
            }
            for n in 0..N {
                offsets[n] -= at as isize * self.strides[0][n];
            }
            index[0] = 0;
            for dim in 1..self.sizes.len() {
                index[dim] += 1;
                if index[dim] < self.sizes[dim] {
                    for n in 0..N {
                        offsets[n] += self.strides[dim][n];
                    }
                    break;
                }
                index[dim] = 0;
                for n in 0..N {
                    offsets[n] -= (self.sizes[dim] - 1) as isize * self.strides[dim][n];
                }
            }
        }
    }
}

/// Whether a dimension with strides `a` belongs inside one with strides `b`.
fn inner_first<const N: usize>(a: &[isize; N], b: &[isize; N]) -> bool {
    for n in 0..N {
        let (x, y) = (a[n].unsigned_abs(), b[n].unsigned_abs());
        if x != 0 && y != 0 && x != y {
            return x < y;
        }
    }
    false
}

/// The layout of a new result: dense, with its dimensions in the operands' order in memory.
///
/// Operands of the result's sizes that agree give it their format. Otherwise the first operand that moves along two
/// dimensions decides which of them is the outer one; if none does, the earlier dimension is. Sizes of one count with
/// their strides, as in torch.
pub fn result_layout<'a>(sizes: &[isize], operands: impl IntoIterator<Item = &'a Layout>) -> Layout {
    let operands: SmallVec<[&Layout; 4]> = operands.into_iter().collect();
    let all = |holds: fn(&Layout) -> bool| operands.iter().all(|operand| holds(operand));
    if all(|operand| operand.row_major().is_some()) {
        return Layout::contiguous(sizes);
    }
    if operands.iter().all(|operand| operand.sizes.as_slice() == sizes) {
        if all(Layout::is_contiguous) {
            return Layout::contiguous(sizes);
        }
        let strides = if all(memory_format::is_channels_last_2d) {
            Some(memory_format::channels_last(sizes))
        } else {
            let first = &operands[0].strides;
            (operands.iter().all(|operand| operand.strides == *first) && all(Layout::is_dense)).then(|| first.clone())
        };
        if let Some(strides) = strides {
            return Layout { sizes: Dims::from_slice(sizes), strides, offset: 0 };
        }
    }
    // Insertion sort from the innermost dimension outwards: the relation "outer" is not a total order.
    let mut order: SmallVec<[usize; 8]> = (0..sizes.len()).rev().collect();
    let mut in_order = true;
    for moved in 1..order.len() {
        let mut at = moved;
        for inner in (0..moved).rev() {
            match further_out(&operands, sizes, order[inner], order[at]) {
                Ordering::Greater => {
                    order.swap(inner, at);
                    at = inner;
                    in_order = false;
                }
                Ordering::Less => break,
                Ordering::Equal => {}
            }
        }
    }
    let mut layout = Layout::contiguous(sizes);
    if !in_order {
        let mut step = 1isize;
        for dim in order {
            layout.strides[dim] = step;
            step = step.saturating_mul(sizes[dim]);
        }
    }
    layout
}

/// Which of two dimensions is the outer one in memory; the larger of two with equal strides.
fn further_out(operands: &[&Layout], sizes: &[isize], a: usize, b: usize) -> Ordering {
    for operand in operands {
        let step = |dim: usize| {
            let own = (dim + operand.rank()).checked_sub(sizes.len())?;
            let moves = (operand.sizes[own] != 1 || sizes[dim] == 1) && operand.strides[own] != 0;
            moves.then(|| operand.strides[own].abs())
        };
        if let (Some(x), Some(y)) = (step(a), step(b)) {
            match x.cmp(&y) {
                Ordering::Equal if sizes[a] > sizes[b] => return Ordering::Greater,
                Ordering::Equal => {}
                other => return other,
            }
        }
    }
    Ordering::Equal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(layout: &Layout) -> Vec<isize> {
        let nest = LoopNest::new([layout], [1]);
        let mut seen = Vec::new();
        for start in (0..nest.numel()).step_by(3) {
            let end = (start + 3).min(nest.numel());
            nest.runs(start..end, |offsets, length| {
                seen.extend((0..length as isize).map(|i| offsets[0] + i * nest.inner_strides()[0]));
            });
        }
        seen
    }

    #[test]
    fn every_element_is_visited_once() {
        let base = Layout::contiguous(&[2, 3, 4]);
        for layout in [base.clone(), base.permute(&[2, 0, 1]), base.flip(1), base.slice(2, 3, 2, -2), base.select(1, 2)]
        {
            let mut expected: Vec<isize> = (0..layout.numel()).map(|i| layout.locate(i)).collect();
            let mut seen = visited(&layout);
            seen.sort_unstable();
            expected.sort_unstable();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_transposed_operand_runs_across() {
        let (wide, tall) = (Layout::contiguous(&[5, 3, 4]), Layout::contiguous(&[5, 4, 3]).permute(&[0, 2, 1]));
        let nest = LoopNest::new([&wide, &tall], [8, 4]);
        assert_eq!((nest.across(0, 8), nest.across(1, 4)), (None, Some(1)));
        assert_eq!((nest.size(1), nest.strides(1)), (3, [32, 4]));
        let around = nest.around(1);
        assert_eq!((around.numel(), around.inner(), around.inner_strides()), (5, 5, [96, 48]));
    }

    #[test]
    fn the_runs_are_the_loops_around_them() {
        let layout = Layout::contiguous(&[5, 4, 8]).slice(2, 0, 3, 1).slice(1, 0, 2, 1);
        let nest = LoopNest::new([&layout], [4]);
        let outer = nest.outer();
        assert_eq!((nest.inner(), outer.numel(), outer.inner(), outer.inner_strides()), (3, 10, 2, [32]));
        let mut starts = Vec::new();
        nest.runs(0..nest.numel(), |offsets, _| starts.push(offsets[0]));
        let mut found = Vec::new();
        outer.runs(0..10, |offsets, rows| found.extend((0..rows as isize).map(|row| offsets[0] + 32 * row)));
        assert_eq!(found, starts);
    }

    #[test]
    fn operands_of_which_runs_share_a_tile() {
        let (dense, gaps) = (Layout::contiguous(&[5, 3, 4]), Layout::contiguous(&[5, 3, 8]).slice(2, 0, 4, 1));
        let row = Layout { strides: Dims::from_slice(&[0, 0, 1]), ..dense.clone() };
        let rows = Layout { strides: Dims::from_slice(&[0, 4, 1]), ..dense.clone() };
        let nest = LoopNest::new([&dense, &gaps, &row, &rows], [4, 4, 4, 4]);
        assert_eq!([0, 1, 2, 3].map(|operand| nest.is_dense(operand, 4)), [true, false, false, false]);
        assert_eq!([0, 1, 2, 3].map(|operand| nest.repeats_runs(operand)), [false, false, true, false]);
    }

    #[test]
    fn contiguous_dimensions_join() {
        let layout = Layout::contiguous(&[2, 3, 4]);
        assert!(LoopNest::new([&layout, &layout], [4, 4]).is_flat());
        let moved = layout.permute(&[2, 1, 0]);
        assert!(LoopNest::new([&moved, &moved], [4, 8]).is_flat());
    }
}
