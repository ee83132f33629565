//! Sizes, signed strides and an offset: where the elements of a view lie in its storage.
//!
//! Everything here is integer arithmetic without data. Strides count elements and may be negative or zero; the offset
//! is the position of the element whose indices are all zero.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::dims::Dims;
use crate::error::{Error, Result};

/// The most dimensions for which a mask with one bit each fits a word; code that uses masks rejects more.
pub const MAX_RANK: usize = 64;

#[derive(PartialEq, Eq, Debug)]
pub struct Layout {
    pub sizes: Dims,
    pub strides: Dims,
    pub offset: isize,
}

impl Clone for Layout {
    #[inline]
    fn clone(&self) -> Self {
        Layout { sizes: copied(&self.sizes), strides: copied(&self.strides), offset: self.offset }
    }
}

/// A copy of a list as one block; the list's own `clone` copies element by element.
#[inline]
pub fn copied(dims: &Dims) -> Dims {
    if dims.spilled() {
        return Dims::from_slice(dims);
    }
    // SAFETY: an inline list owns no memory and consists of plain numbers.
    unsafe { std::ptr::read(dims) }
}

/// Row-major strides; a dimension of size zero counts as one, as in torch.
#[inline]
pub fn contiguous_strides(sizes: &[isize]) -> Dims {
    let mut strides = Dims::from_slice(sizes);
    let mut step = 1isize;
    for stride in strides.iter_mut().rev() {
        let size = std::mem::replace(stride, step);
        step = step.saturating_mul(size.max(1));
    }
    strides
}

/// The number of elements of a view, or an error if it overflows.
#[inline]
pub fn checked_numel(sizes: &[isize]) -> Result<usize> {
    match count(sizes) {
        Ok(Some(numel)) => Ok(numel),
        // A view may move the sizes before the size of zero.
        Ok(None) if sizes.contains(&0) => Ok(0),
        _ => Err(numel_overflow(sizes)),
    }
}

/// torch's error for sizes whose product does not fit, which a negative size never does.
#[cold]
pub fn numel_overflow(sizes: &[isize]) -> Error {
    Error::runtime("numel: integer multiplication overflow").hint(format!("sizes {}", Shape(sizes)))
}

/// The number of elements of a new tensor, or an error if it or one of the strides overflows.
#[inline]
pub fn checked_new(sizes: &[isize]) -> Result<usize> {
    let numel = count(sizes)?.ok_or_else(|| storage_overflow(sizes))?;
    // With elements, the strides are smaller than their number.
    if numel == 0 {
        let step = sizes.iter().skip(1).try_fold(1isize, |step, &size| step.checked_mul(size.max(1)));
        step.ok_or_else(|| Error::runtime("Stride calculation overflowed").hint(format!("sizes {}", Shape(sizes))))?;
    }
    Ok(numel)
}

#[cold]
fn storage_overflow(sizes: &[isize]) -> Error {
    Error::runtime(format!("Storage size calculation overflowed with sizes={}", Shape(sizes)))
        .hint("The size in bytes does not fit in 64 bits.")
}

/// The number of elements; `None` if it overflows. As in torch, the sizes behind a size of zero may be any.
#[inline]
fn count(sizes: &[isize]) -> Result<Option<usize>> {
    let mut numel = Some(1isize);
    for &size in sizes {
        if size < 0 {
            return Err(Error::runtime(format!(
                "Trying to create tensor with negative dimension {size}: {}",
                Shape(sizes)
            ))
            .hint("Sizes must be non-negative."));
        }
        numel = numel.and_then(|numel| numel.checked_mul(size));
    }
    Ok(numel.map(|numel| numel as usize))
}

/// Converts a dimension that may be negative into an index; a 0-d tensor counts as one-dimensional.
#[inline]
pub fn wrap_dim(dim: i64, rank: usize) -> Result<usize> {
    let span = rank.max(1) as i64;
    if dim < -span || dim >= span {
        return Err(Error::index(format!(
            "Dimension out of range (expected to be in range of [{}, {}], but got {dim})",
            -span,
            span - 1
        )));
    }
    Ok(if dim < 0 { dim + span } else { dim } as usize)
}

/// Some dimensions of a tensor, or all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DimSet {
    All,
    /// One bit for each dimension, up to 64.
    Some(u64),
}

impl DimSet {
    pub const NONE: DimSet = DimSet::Some(0);

    /// The dimensions in a list; negative ones count from the end, and an empty list means all of them.
    pub fn of(dims: &[i64], rank: usize) -> Result<DimSet> {
        if dims.is_empty() {
            return Ok(DimSet::All);
        }
        if rank > MAX_RANK {
            return Err(Error::runtime("only tensors with up to 64 dims are supported"));
        }
        let mut mask = 0u64;
        for &dim in dims {
            let dim = wrap_dim(dim, rank)?;
            if mask & (1 << dim) != 0 {
                return Err(Error::runtime(format!("dim {dim} appears multiple times in the list of dims"))
                    .hint("Name each dimension once; negative dimensions count from the end."));
            }
            mask |= 1 << dim;
        }
        Ok(DimSet::Some(mask))
    }

    /// Whether `dim`, counted from the front, is in the set.
    #[inline]
    pub fn has(self, dim: usize) -> bool {
        match self {
            DimSet::All => true,
            DimSet::Some(mask) => dim < MAX_RANK && mask & (1 << dim) != 0,
        }
    }

    /// The first dimension of the set.
    pub fn first(self) -> usize {
        match self {
            DimSet::All => 0,
            DimSet::Some(mask) => mask.trailing_zeros() as usize,
        }
    }
}

/// The product of sizes. It is known to fit, or one of the sizes is zero.
#[inline]
pub fn product(sizes: &[isize]) -> usize {
    sizes.iter().fold(1isize, |product, &size| product.wrapping_mul(size)) as usize
}

/// An offset plus `steps`. The sum fits if there are elements; the offset of an empty view is arbitrary.
#[inline]
fn moved(offset: isize, steps: isize, stride: isize) -> isize {
    offset.wrapping_add(steps.wrapping_mul(stride))
}

/// Prints sizes as torch's messages do: `[2, 3]`.
pub struct Shape<'a>(pub &'a [isize]);

impl std::fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[")?;
        for (i, size) in self.0.iter().enumerate() {
            write!(f, "{}{size}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl Layout {
    #[inline]
    pub fn contiguous(sizes: &[isize]) -> Layout {
        Layout { strides: contiguous_strides(sizes), sizes: Dims::from_slice(sizes), offset: 0 }
    }

    #[inline]
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    #[inline]
    pub fn numel(&self) -> usize {
        product(&self.sizes)
    }

    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            if size == 0 {
                return true;
            }
            if size != 1 {
                if stride != step {
                    return self.sizes.contains(&0);
                }
                step = step.wrapping_mul(size);
            }
        }
        true
    }

    /// The number of elements, if the strides are those that `contiguous` gives; the offset is arbitrary. This is
    /// stricter than `is_contiguous` for sizes of one or zero, and answers both questions in one pass.
    #[inline]
    pub fn row_major(&self) -> Option<usize> {
        let (sizes, strides) = (self.sizes.as_slice(), self.strides.as_slice());
        let mut step = 1;
        for (&size, &stride) in sizes.iter().zip(strides).rev() {
            if stride != step {
                return None;
            }
            step = step.wrapping_mul(size.max(1));
        }
        Some(if sizes.contains(&0) { 0 } else { step as usize })
    }

    /// Whether sizes and strides are equal. Most lists are short, and a call of `memcmp` costs more than it saves.
    #[inline]
    pub fn same_geometry(&self, other: &Layout) -> bool {
        let alike = |a: &[isize], b: &[isize]| a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x == y);
        alike(&self.sizes, &other.sizes) && alike(&self.strides, &other.strides)
    }

    /// Whether the elements fill one stretch of memory without gaps or overlap, in any order of dimensions.
    pub fn is_dense(&self) -> bool {
        if self.row_major().is_some() || self.sizes.contains(&0) {
            return true;
        }
        let mut order: Vec<usize> = (0..self.rank()).filter(|&d| self.sizes[d] != 1).collect();
        order.sort_by_key(|&d| self.strides[d]);
        let mut step = 1;
        for d in order {
            if self.strides[d] != step {
                return false;
            }
            step = self.sizes[d].wrapping_mul(step);
        }
        true
    }

    /// The dimensions along which one element repeats.
    pub fn expanded(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.rank()).filter(|&dim| self.sizes[dim] > 1 && self.strides[dim] == 0)
    }

    /// Whether two different indices may refer to the same element (a stride of zero, or dimensions that interleave).
    pub fn overlaps(&self) -> bool {
        if self.sizes.contains(&0) {
            return false;
        }
        let mut dims: Vec<(isize, isize)> =
            self.sizes.iter().zip(&self.strides).filter(|(size, _)| **size > 1).map(|(&n, &s)| (s.abs(), n)).collect();
        dims.sort_unstable();
        let mut reach = 0;
        for (stride, size) in dims {
            if stride <= reach {
                return true;
            }
            reach += stride * (size - 1);
        }
        false
    }

    /// The lowest and the highest element offset that an index can reach; `None` for an empty view.
    pub fn span(&self) -> Option<(isize, isize)> {
        if self.sizes.contains(&0) {
            return None;
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            let reach = (size - 1) * stride;
            if reach < 0 { low += reach } else { high += reach }
        }
        Some((low, high))
    }

    /// Like `span`, but with checked arithmetic, for geometry that comes from outside.
    pub fn checked_span(&self) -> Option<Option<(isize, isize)>> {
        let (mut low, mut high) = (self.offset, self.offset);
        if self.sizes.contains(&0) {
            return Some(None);
        }
        for (&size, &stride) in self.sizes.iter().zip(&self.strides) {
            let reach = size.checked_sub(1)?.checked_mul(stride)?;
            if reach < 0 { low = low.checked_add(reach)? } else { high = high.checked_add(reach)? }
        }
        Some(Some((low, high)))
    }

    /// Returns an error if the layout is invalid or exceeds a storage of `bytes` bytes. The elements may be the first
    /// ones of a batch: `batch` has the sizes and strides of its dimensions, and all of its elements must fit.
    pub fn check_within(
        &self,
        bytes: usize,
        width: usize,
        batch: impl IntoIterator<Item = (isize, isize)>,
    ) -> Result<()> {
        if self.sizes.len() != self.strides.len() {
            return Err(Error::runtime("mismatch in length of strides and shape").hint(format!(
                "There are {} sizes and {} strides.",
                self.sizes.len(),
                self.strides.len()
            )));
        }
        if self.offset < 0 {
            return Err(Error::runtime(format!("Tensor: invalid storage offset {}", self.offset))
                .hint("The storage offset must be non-negative; it counts elements."));
        }
        checked_numel(&self.sizes)?;
        let mut whole = self.clone();
        for (size, stride) in batch {
            whole.sizes.push(size);
            whole.strides.push(stride);
        }
        let held = (bytes / width) as isize;
        match whole.checked_span() {
            Some(Some((low, high))) if low >= 0 && high < held => Ok(()),
            Some(None) => Ok(()),
            _ => Err(self.outside(bytes, width)),
        }
    }

    #[cold]
    fn outside(&self, bytes: usize, width: usize) -> Error {
        let bytes_up_to = |(_, high): (isize, isize)| high.checked_add(1)?.checked_mul(width as isize);
        let Some(needed) = self.checked_span().and_then(|span| span.map_or(Some(0), bytes_up_to)) else {
            return Error::runtime(format!(
                "Storage size calculation overflowed with sizes={} and strides={}",
                Shape(&self.sizes),
                Shape(&self.strides)
            ))
            .hint("The size in bytes does not fit in 64 bits.");
        };
        Error::runtime(format!(
            "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {width} requiring a storage size of {needed} are out of bounds for storage of size {bytes}",
            Shape(&self.sizes),
            Shape(&self.strides),
            self.offset,
        ))
        .hint("Use fewer elements, smaller strides or a smaller offset: the last element must lie within the storage.")
    }

    /// The number of bytes from the first to the last element, or an error if it or the number of elements overflows.
    pub fn checked_bytes(&self, width: usize) -> Result<usize> {
        checked_numel(&self.sizes)?;
        let reach = match self.checked_span() {
            Some(None) => Some(0),
            Some(Some((low, high))) => high.checked_sub(low).and_then(|reach| reach.checked_add(1)),
            None => None,
        };
        let bytes = reach.and_then(|reach| (reach as usize).checked_mul(width)).filter(|&n| n <= isize::MAX as usize);
        match bytes {
            Some(bytes) => Ok(bytes),
            None => Err(storage_overflow(&self.sizes)),
        }
    }

    /// The element offset of the `linear`-th element in row-major order.
    pub fn locate(&self, mut linear: usize) -> isize {
        let mut offset = self.offset;
        for (&size, &stride) in self.sizes.iter().zip(&self.strides).rev() {
            let size = size.max(1) as usize;
            offset += (linear % size) as isize * stride;
            linear /= size;
        }
        offset
    }

    pub fn select(&self, dim: usize, index: isize) -> Layout {
        let mut view = self.clone();
        view.fix(dim, index);
        view
    }

    /// Selects one index of `dim`, which is removed.
    pub fn fix(&mut self, dim: usize, index: isize) {
        self.offset = moved(self.offset, index, self.strides[dim]);
        for later in dim + 1..self.rank() {
            self.sizes[later - 1] = self.sizes[later];
            self.strides[later - 1] = self.strides[later];
        }
        self.sizes.pop();
        self.strides.pop();
    }

    /// `length` elements of `dim` from `start` on, `step` apart (which may be negative).
    pub fn slice(&self, dim: usize, start: isize, length: isize, step: isize) -> Layout {
        let mut view = self.clone();
        view.cut(dim, start, length, step);
        view
    }

    /// Restricts `dim` to `length` elements from `start` on, `step` apart. An empty result of a dimension that runs
    /// backwards keeps its offset, because its end may lie before the storage.
    pub fn cut(&mut self, dim: usize, start: isize, length: isize, step: isize) {
        let stride = self.strides[dim];
        if length > 0 || stride > 0 {
            self.offset = moved(self.offset, start, stride);
        }
        self.sizes[dim] = length;
        self.strides[dim] = stride.wrapping_mul(step);
    }

    /// The strides in units of which `width` make an element. The stride of a dimension with fewer than two elements
    /// may wrap; it is never followed.
    pub fn strides_in(&self, width: isize) -> impl ExactSizeIterator<Item = isize> {
        self.strides.iter().map(move |stride| stride.wrapping_mul(width))
    }

    /// The same memory in parts, `count` to an element: the position of the first part of each.
    pub fn parts(&self, count: isize) -> Layout {
        Layout {
            sizes: copied(&self.sizes),
            strides: self.strides_in(count).collect(),
            offset: self.offset.wrapping_mul(count),
        }
    }

    /// Complex elements as pairs of real ones, in a new last dimension.
    pub fn pairs(&self) -> Layout {
        let mut pairs = self.parts(2);
        pairs.sizes.push(2);
        pairs.strides.push(1);
        pairs
    }

    pub fn permute(&self, order: &[usize]) -> Layout {
        Layout {
            sizes: order.iter().map(|&d| self.sizes[d]).collect(),
            strides: order.iter().map(|&d| self.strides[d]).collect(),
            offset: self.offset,
        }
    }

    pub fn transpose(&self, a: usize, b: usize) -> Layout {
        let mut view = self.clone();
        if view.rank() > 0 {
            view.sizes.swap(a, b);
            view.strides.swap(a, b);
        }
        view
    }

    pub fn flip(&self, dim: usize) -> Layout {
        let size = self.sizes[dim];
        self.slice(dim, (size - 1).max(0), size, -1)
    }

    pub fn unsqueeze(&self, dim: usize) -> Layout {
        let mut view = self.clone();
        let stride = if dim < self.rank() { self.sizes[dim].wrapping_mul(self.strides[dim]) } else { 1 };
        view.sizes.insert(dim, 1);
        view.strides.insert(dim, stride);
        view
    }

    /// Removes the dimensions of size one for which `drops` returns true.
    pub fn squeeze(&self, drops: impl Fn(usize) -> bool) -> Layout {
        let kept = (0..self.rank()).filter(|&d| self.sizes[d] != 1 || !drops(d));
        self.permute(&kept.collect::<SmallVec<[usize; 6]>>())
    }

    /// Strides under which the same elements have `sizes` in row-major order, if no copy is needed.
    pub fn view_strides(&self, sizes: &[isize]) -> Option<Dims> {
        let numel = self.numel();
        if numel == 0 {
            let same = self.sizes.as_slice() == sizes;
            return Some(if same { copied(&self.strides) } else { contiguous_strides(sizes) });
        }
        if self.row_major().is_some() && sizes.iter().product::<isize>() as usize == numel {
            return Some(contiguous_strides(sizes));
        }
        let mut strides = Dims::from_elem(0, sizes.len());
        let mut new = sizes.len();
        let mut chunk_stride = self.strides.last().copied().unwrap_or(1);
        let mut chunk = 1isize;
        let mut filled = 1isize;
        for old in (0..self.rank()).rev() {
            chunk *= self.sizes[old];
            let ends = old == 0 || (self.sizes[old - 1] != 1 && self.strides[old - 1] != chunk * chunk_stride);
            if !ends {
                continue;
            }
            while new > 0 && (filled < chunk || sizes[new - 1] == 1) {
                new -= 1;
                strides[new] = filled * chunk_stride;
                filled *= sizes[new];
            }
            if filled != chunk {
                return None;
            }
            if old > 0 {
                chunk_stride = self.strides[old - 1];
                chunk = 1;
                filled = 1;
            }
        }
        while new > 0 && sizes[new - 1] == 1 {
            new -= 1;
            strides[new] = filled * chunk_stride;
        }
        (new == 0).then_some(strides)
    }

    /// Strides for a new result that keeps the order in memory, as `torch.preserve_format` does.
    pub fn preserved_strides(&self) -> Dims {
        let kept = self.is_dense() && self.strides.iter().all(|&stride| stride >= 0);
        if kept { self.strides.clone() } else { self.packed_strides() }
    }

    /// Strides without gaps, with the dimensions in the order of their strides. A dimension of stride zero keeps its
    /// place among the others, and of two with equal strides the longer is the outer one.
    fn packed_strides(&self) -> Dims {
        let rank = self.rank();
        let mut order: SmallVec<[usize; 8]> = (0..rank).rev().collect();
        for from in 1..rank {
            let mut place = from;
            for ahead in (0..from).rev() {
                let (inner, outer) = (order[ahead], order[place]);
                let steps = (self.strides[inner].abs(), self.strides[outer].abs());
                if steps.0 == 0 || steps.1 == 0 {
                    continue;
                }
                match steps.0.cmp(&steps.1).then(self.sizes[inner].cmp(&self.sizes[outer])) {
                    Ordering::Less if steps.0 < steps.1 => break,
                    Ordering::Greater => {
                        order.swap(ahead, place);
                        place = ahead;
                    }
                    _ => {}
                }
            }
        }
        let (mut strides, mut step) = (Dims::from_elem(1, rank), 1isize);
        for dim in order {
            strides[dim] = step;
            step = step.wrapping_mul(self.sizes[dim].max(1));
        }
        strides
    }
}

/// Infers one `-1` of a requested shape.
pub fn infer_size(requested: &[i64], numel: usize) -> Result<Dims> {
    let unfit = || {
        Error::runtime(format!("shape '{}' is invalid for input of size {numel}", Shape(&to_dims(requested))))
            .hint(format!("The sizes must multiply to {numel}; one of them may be -1 and is then inferred."))
    };
    let mut unknown = None;
    let mut known = 1i64;
    for (dim, &size) in requested.iter().enumerate() {
        match size {
            -1 if unknown.is_some() => return Err(Error::runtime("only one dimension can be inferred")),
            -1 => unknown = Some(dim),
            size if size < 0 => {
                let shape = Shape(&to_dims(requested)).to_string();
                return Err(Error::runtime(format!("invalid shape dimension {size} at index {dim} of shape {shape}")));
            }
            size => known = known.checked_mul(size).ok_or_else(unfit)?,
        }
    }
    let mut sizes = to_dims(requested);
    let numel = numel as i64;
    if let Some(dim) = unknown {
        if known == 0 && numel == 0 {
            return Err(Error::runtime(format!(
                "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any value and is ambiguous",
                Shape(&sizes)
            )));
        }
        if known == 0 || numel % known != 0 {
            return Err(unfit());
        }
        sizes[dim] = (numel / known) as isize;
    } else if known != numel {
        return Err(unfit());
    }
    Ok(sizes)
}

pub fn to_dims(sizes: &[i64]) -> Dims {
    let mut dims = Dims::from_elem(0, sizes.len());
    for (dim, &size) in dims.iter_mut().zip(sizes) {
        *dim = size as isize;
    }
    dims
}
