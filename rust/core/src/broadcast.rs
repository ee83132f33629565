//! Broadcasting: shapes are aligned at the right, and a size of one stretches.

use crate::dims::Dims;
use crate::error::{Error, Result};
use crate::layout::{Layout, Shape, product};

/// The shape to which both operands broadcast.
pub fn broadcast(a: &[isize], b: &[isize]) -> Result<Dims> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let mut sizes = Dims::from_slice(long);
    let missing = long.len() - short.len();
    // Dimensions are compared from the right, so the last mismatch is the one reported.
    for (dim, &size) in short.iter().enumerate().rev() {
        let place = &mut sizes[missing + dim];
        if *place == 1 {
            *place = size;
        } else if size != *place && size != 1 {
            return Err(mismatch(a, b, missing + dim));
        }
    }
    Ok(sizes)
}

/// The shape to which all operands broadcast.
pub fn broadcast_all<'a>(shapes: impl IntoIterator<Item = &'a [isize]>) -> Result<Dims> {
    let mut shapes = shapes.into_iter();
    let Some(first) = shapes.next() else { return Ok(Dims::new()) };
    let mut sizes = Dims::from_slice(first);
    for shape in shapes {
        sizes = broadcast(&sizes, shape)?;
    }
    Ok(sizes)
}

/// How two shapes broadcast.
pub struct BroadcastInfo {
    /// Each shape is stretched along some dimension.
    pub both_stretch: bool,
    /// One shape has dimensions that the other does not have.
    pub implied: bool,
    /// The last dimension that is stretched, counted from the left of the longer shape.
    pub axis: usize,
}

/// How two shapes that broadcast do so.
pub fn broadcast_info(a: &[isize], b: &[isize]) -> BroadcastInfo {
    let rank = a.len().max(b.len());
    let size = |shape: &[isize], axis: usize| {
        if axis + shape.len() < rank { 1 } else { shape[axis + shape.len() - rank] }
    };
    let unsqueezed =
        |own: &[isize], other: &[isize]| (0..rank).rev().find(|&axis| size(own, axis) == 1 && size(other, axis) != 1);
    let (first, second) = (unsqueezed(a, b), unsqueezed(b, a));
    BroadcastInfo {
        both_stretch: first.is_some() && second.is_some(),
        implied: a.len() != b.len(),
        axis: first.max(second).unwrap_or(0),
    }
}

#[cold]
fn mismatch(a: &[isize], b: &[isize], axis: usize) -> Error {
    let rank = a.len().max(b.len());
    let size = |shape: &[isize]| shape[axis + shape.len() - rank];
    let (x, y) = (size(a), size(b));
    let error = Error::runtime(format!(
        "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {axis}"
    ));
    error.shapes([a, b]).from_right().axis(axis).fit(advice(a, b))
}

/// The nearest change that would make the two shapes broadcast.
fn advice(a: &[isize], b: &[isize]) -> String {
    const EQUAL: &str = "They have the same number of elements: .view or .reshape makes the shapes equal.";
    let equal = product(a) == product(b);
    if equal && a.len() != b.len() {
        return EQUAL.into();
    }
    let ways: [ShapeFixes; 2] = if a.len() == b.len() { [transposed, unsqueezed] } else { [unsqueezed, transposed] };
    if let Some(way) = hint(ways, [a, b], ["a", "b"], can_broadcast) {
        return way;
    }
    if equal {
        return EQUAL.into();
    }
    "Sizes must be equal, or one of the two must be 1.".into()
}

/// A sentence with the call that makes one of two shapes match the other. The first candidate that works is used.
pub fn hint(
    ways: [ShapeFixes; 2],
    shapes: [&[isize]; 2],
    names: [&str; 2],
    fits: impl Fn(&[isize], &[isize]) -> bool,
) -> Option<String> {
    let tried = ways.into_iter().flat_map(|way| [(way, 1), (way, 0)]);
    let mut changes = tried.flat_map(|(way, at)| way(shapes[at]).into_iter().map(move |change| (at, change)));
    let (at, (_, call)) = changes.find(|(at, (changed, _))| match at {
        0 => fits(changed, shapes[1]),
        _ => fits(shapes[0], changed),
    })?;
    Some(format!("They would fit after {}.{call}.", names[at]))
}

/// The shapes that a kind of call can make of a shape, each with the call's text.
pub type ShapeFixes = fn(&[isize]) -> Vec<(Dims, String)>;

/// With the last two dimensions exchanged.
pub fn transposed(shape: &[isize]) -> Vec<(Dims, String)> {
    let Some(last) = shape.len().checked_sub(1).filter(|&last| last > 0) else { return Vec::new() };
    let mut sizes = Dims::from_slice(shape);
    sizes.swap(last - 1, last);
    vec![(sizes, "transpose(-2, -1)".into())]
}

/// With one more dimension, at any position.
pub fn unsqueezed(shape: &[isize]) -> Vec<(Dims, String)> {
    let with = |dim: usize| {
        let mut sizes = Dims::from_slice(shape);
        sizes.insert(dim, 1);
        (sizes, format!("unsqueeze({dim})"))
    };
    (0..=shape.len()).map(with).collect()
}

/// Whether two shapes broadcast.
pub fn can_broadcast(a: &[isize], b: &[isize]) -> bool {
    a.iter().rev().zip(b.iter().rev()).all(|(x, y)| x == y || *x == 1 || *y == 1)
}

/// Whether a tensor of `own` sizes expands to `sizes`.
pub fn can_expand(own: &[isize], sizes: &[isize]) -> bool {
    own.len() <= sizes.len() && own.iter().rev().zip(sizes.iter().rev()).all(|(own, size)| own == size || *own == 1)
}

impl Layout {
    /// The same elements with a larger shape: new and stretched dimensions get a stride of zero.
    pub fn broadcast_to(&self, sizes: &[isize]) -> Result<Layout> {
        if sizes.len() < self.rank() {
            let whole = broadcast(sizes, &self.sizes)?;
            return Err(Error::runtime(format!(
                "output with shape {} doesn't match the broadcast shape {}",
                Shape(sizes),
                Shape(&whole)
            )));
        }
        let missing = sizes.len() - self.rank();
        let mut strides = Dims::from_elem(0, sizes.len());
        for dim in 0..self.rank() {
            let (own, wanted) = (self.sizes[dim], sizes[missing + dim]);
            if own == wanted {
                strides[missing + dim] = self.strides[dim];
            } else if own != 1 {
                return Err(mismatch(&self.sizes, sizes, missing + dim));
            }
        }
        Ok(Layout { sizes: Dims::from_slice(sizes), strides, offset: self.offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_zero_dimensional_shapes() {
        assert_eq!(broadcast(&[1], &[0]).unwrap().as_slice(), [0]);
        assert_eq!(broadcast(&[], &[2, 2]).unwrap().as_slice(), [2, 2]);
        assert_eq!(broadcast(&[5, 1, 4, 1], &[3, 1, 1]).unwrap().as_slice(), [5, 3, 4, 1]);
    }

    #[test]
    fn how_shapes_meet() {
        let info = |a: &[isize], b: &[isize]| {
            let info = broadcast_info(a, b);
            (info.both_stretch, info.implied, info.axis)
        };
        assert_eq!(info(&[4, 1], &[4]), (true, true, 1));
        assert_eq!(info(&[4, 1], &[1, 4]), (true, false, 1));
        assert_eq!(info(&[3, 4], &[4]), (false, true, 0));
        assert_eq!(info(&[3, 4], &[]), (false, true, 1));
        assert_eq!(info(&[1, 4], &[4]), (false, true, 0));
        assert_eq!(info(&[2, 1, 5], &[3, 1]), (true, true, 2));
    }

    #[test]
    fn a_mismatch_names_both_sizes_and_the_axis() {
        let error = broadcast(&[5, 2, 4, 1], &[3, 1, 1]).unwrap_err().operator("add").to_string();
        assert!(error.starts_with(
            "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1\n"
        ));
        assert!(error.contains("^ axis 1"), "{error}");
    }
}
