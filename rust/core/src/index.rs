//! The meaning of `x[...]`: integers, slices, None and Ellipsis become steps of a view, tensors become the indices of a
//! gather.
//!
//! This is a pure function over geometry: the Python layer passes the items, and the operators execute the steps.

use smallvec::SmallVec;

use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::layout::Layout;

/// One entry between the brackets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    Int(i64),
    /// As written, with Python's defaults for omitted ends; `start` and `stop` may lie far outside.
    Slice {
        start: isize,
        stop: isize,
        step: isize,
    },
    NewAxis,
    Ellipsis,
    /// True keeps a new dimension of size one, and False makes it empty.
    Bool(bool),
    /// Indices or a mask; a mask indexes as many dimensions as it has.
    Tensor {
        rank: usize,
        mask: bool,
    },
}

/// One step of the view, in the order in which the steps are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Select { dim: usize, index: isize },
    Slice { dim: usize, start: isize, length: isize, step: isize },
    Unsqueeze { dim: usize },
}

/// An item that gathers: its number, and the first dimension of the view that it indexes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GatherIndex {
    pub item: usize,
    pub dim: usize,
}

/// The meaning of an index expression.
pub struct IndexExpr {
    pub steps: SmallVec<[Step; 4]>,
    /// The geometry after all steps.
    pub layout: Layout,
    pub gathers: SmallVec<[GatherIndex; 4]>,
}

impl IndexExpr {
    /// An index expression that leaves a tensor of this geometry unchanged.
    #[inline]
    pub fn of(own: &Layout) -> IndexExpr {
        IndexExpr { steps: SmallVec::new(), layout: own.clone(), gathers: SmallVec::new() }
    }

    /// Interprets an index expression; `bare` means that its one item is not in a tuple. The result is large, so it is
    /// filled in place.
    pub fn read(&mut self, items: &[Item], bare: bool) -> Result<()> {
        let rank = self.layout.rank();
        let taken = items.iter().map(dims_taken).sum::<usize>();
        if taken > rank {
            return Err(match items {
                [Item::Int(_)] if bare => Error::index(
                    "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a 0-dim tensor to a number",
                ),
                [Item::Slice { .. }] if bare => Error::index("slice() cannot be applied to a 0-dim tensor.")
                    .hint("Use x.reshape(1) to add a dimension."),
                _ => Error::index(format!("too many indices for tensor of dimension {rank}"))
                    .hint("Use at most one index per dimension; a mask counts once for each of its dimensions."),
            });
        }
        let mut dim = 0;
        for (at, item) in items.iter().enumerate() {
            match *item {
                Item::Int(index) => {
                    let size = self.layout.sizes[dim];
                    let wrapped = if index < 0 { index as isize + size } else { index as isize };
                    if wrapped < 0 || wrapped >= size {
                        return Err(Error::index(format!(
                            "index {index} is out of bounds for dimension {at} with size {size}"
                        )));
                    }
                    self.layout.fix(dim, wrapped);
                    self.steps.push(Step::Select { dim, index: wrapped });
                }
                Item::Slice { start, stop, step } => {
                    let (start, length) = bounds(start, stop, step, self.layout.sizes[dim])?;
                    if (start, length, step) != (0, self.layout.sizes[dim], 1) {
                        self.layout.cut(dim, start, length, step);
                        self.steps.push(Step::Slice { dim, start, length, step });
                    }
                    dim += 1;
                }
                Item::Ellipsis => {
                    // A second ellipsis stands for no dimensions.
                    if !items[..at].contains(&Item::Ellipsis) {
                        dim += rank - taken;
                    }
                }
                Item::NewAxis | Item::Bool(_) => {
                    self.layout = self.layout.unsqueeze(dim);
                    self.steps.push(Step::Unsqueeze { dim });
                    if let Item::Bool(_) = item {
                        self.gathers.push(GatherIndex { item: at, dim });
                    }
                    dim += 1;
                }
                Item::Tensor { .. } => {
                    self.gathers.push(GatherIndex { item: at, dim });
                    dim += dims_taken(item);
                }
            }
        }
        Ok(())
    }
}

fn dims_taken(item: &Item) -> usize {
    match *item {
        Item::Int(_) | Item::Slice { .. } => 1,
        Item::Tensor { rank, mask: true } => rank,
        Item::Tensor { .. } => 1,
        Item::NewAxis | Item::Ellipsis | Item::Bool(_) => 0,
    }
}

/// The first index and the number of indices of a slice over `size` elements.
pub fn bounds(start: isize, stop: isize, step: isize, size: isize) -> Result<(isize, isize)> {
    if step == 0 {
        return Err(Error::value("slice step cannot be zero"));
    }
    // For a negative step, the end before the first element is -1.
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let clamp = |at: isize| if at < 0 { at.saturating_add(size).max(low) } else { at.min(high) };
    let (start, stop) = (clamp(start), clamp(stop));
    let length = if step > 0 && start < stop {
        (stop - start - 1) / step + 1
    } else if step < 0 && stop < start {
        (start - stop - 1) / step.unsigned_abs() as isize + 1
    } else {
        0
    };
    Ok((if length == 0 { start.clamp(0, size) } else { start }, length))
}

/// Where the dimensions of the indices stand in the result of a gather: in place of the indexed dimensions if those are
/// adjacent, else first.
pub fn subspace(dims: &[usize]) -> usize {
    let adjacent = dims.windows(2).all(|pair| pair[1] == pair[0] + 1);
    if adjacent { dims.first().copied().unwrap_or(0) } else { 0 }
}

/// The sizes of a gather's result: the indices' common sizes at `subspace`, among the dimensions that are not indexed.
pub fn gathered(sizes: &[isize], dims: &[usize], common: &[isize]) -> Dims {
    let mut result: Dims =
        sizes.iter().enumerate().filter(|(dim, _)| !dims.contains(dim)).map(|(_, &size)| size).collect();
    result.insert_from_slice(subspace(dims), common);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(own: &Layout, items: &[Item]) -> Result<IndexExpr> {
        let mut expr = IndexExpr::of(own);
        expr.read(items, false).map(|()| expr)
    }

    const ALL: Item = Item::Slice { start: 0, stop: isize::MAX, step: 1 };

    fn shape(sizes: &[isize], items: &[Item]) -> Vec<isize> {
        read(&Layout::contiguous(sizes), items).unwrap().layout.sizes.to_vec()
    }

    #[test]
    fn views_of_all_kinds() {
        assert_eq!(shape(&[3, 4, 5], &[Item::Int(-1), ALL, Item::NewAxis]), [4, 1, 5]);
        assert_eq!(shape(&[3, 4, 5], &[Item::Ellipsis, Item::Int(0)]), [3, 4]);
        assert_eq!(shape(&[3], &[Item::Slice { start: 0, stop: 0, step: 2 }]), [0]);
        let back =
            read(&Layout::contiguous(&[5]), &[Item::Slice { start: isize::MAX, stop: isize::MIN, step: -2 }]).unwrap();
        assert_eq!((back.layout.offset, back.layout.sizes[0], back.layout.strides[0]), (4, 3, -2));
        assert!(read(&Layout::contiguous(&[5]), &[ALL]).unwrap().steps.is_empty());
        let end = Item::Slice { start: 1, stop: isize::MAX, step: 1 };
        assert_eq!(read(&Layout::contiguous(&[1]).flip(0), &[end]).unwrap().layout.offset, 0);
    }

    #[test]
    fn slices_agree_with_enumeration() {
        for size in 0..5isize {
            for start in -7..7 {
                for stop in -7..7 {
                    for step in [-3isize, -1, 1, 2] {
                        let (first, length) = bounds(start, stop, step, size).unwrap();
                        let wrap = |at: isize| if at < 0 { at + size } else { at };
                        let mut expected = Vec::new();
                        let mut at = if step > 0 { wrap(start).max(0) } else { wrap(start).min(size - 1) };
                        while at >= 0 && at < size && (if step > 0 { at < wrap(stop) } else { at > wrap(stop) }) {
                            expected.push(at);
                            at += step;
                        }
                        let got: Vec<isize> = (0..length).map(|i| first + i * step).collect();
                        assert_eq!(got, expected, "{start}:{stop}:{step} of {size}");
                    }
                }
            }
        }
    }

    #[test]
    fn separated_indices_move_to_the_front() {
        assert_eq!(gathered(&[3, 4, 5], &[0, 2], &[7]).as_slice(), [7, 4]);
        assert_eq!(gathered(&[3, 4, 5], &[1, 2], &[7]).as_slice(), [3, 7]);
    }

    #[test]
    fn masks_stand_for_several_dimensions() {
        let items = [Item::Tensor { rank: 2, mask: true }, Item::Int(1)];
        let expr = read(&Layout::contiguous(&[3, 4, 5]), &items).unwrap();
        assert_eq!(expr.layout.sizes.as_slice(), [3, 4]);
        assert_eq!(expr.gathers.as_slice(), [GatherIndex { item: 0, dim: 0 }]);
    }
}
