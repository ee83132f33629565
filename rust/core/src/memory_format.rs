//! Memory formats: named orders of elements in memory.

use crate::dims::Dims;
use crate::layout::{Layout, contiguous_strides};
use crate::{Error, Result};

/// Strides in which the last-but-spatial dimension, the channels, changes fastest.
pub fn channels_last(sizes: &[isize]) -> Dims {
    let rank = sizes.len();
    let order: Vec<usize> = std::iter::once(0).chain(2..rank).chain(std::iter::once(1)).collect();
    let mut strides = Dims::from_elem(0, rank);
    let mut step = 1isize;
    for &dim in order.iter().rev() {
        strides[dim] = step;
        // Unlike those of a row-major tensor, the strides before a size of zero are zero.
        step = step.wrapping_mul(sizes[dim]);
    }
    strides
}

/// Whether the channels of images or volumes come last, with gaps or without: torch keeps that order in results.
/// Strides that sizes of one leave ambiguous do not count as channels last.
pub fn has_channels_last(layout: &Layout) -> bool {
    let (sizes, strides, rank) = (&layout.sizes, &layout.strides, layout.rank());
    if !matches!(rank, 4 | 5) || strides[1] == 0 {
        return false;
    }
    let mut least = 0;
    for dim in std::iter::once(1).chain((2..rank).rev()).chain(std::iter::once(0)) {
        if sizes[dim] == 0 || strides[dim] < least || (dim == 0 && least == strides[1]) {
            return false;
        }
        least = strides[dim].saturating_mul(sizes[dim].max(1));
    }
    true
}

/// Whether an image's elements lie in channels-last order without gaps.
pub fn is_channels_last_2d(layout: &Layout) -> bool {
    is_contiguous(layout, Some("channels_last")).unwrap_or(false)
}

/// The memory format of a layout's strides, if it is not row-major; gaps do not matter.
pub fn channels_last_format(layout: &Layout) -> Option<&'static str> {
    has_channels_last(layout).then_some(if layout.rank() == 4 { "channels_last" } else { "channels_last_3d" })
}

/// Strides of a new tensor in a memory format; `like` is the layout that `preserve_format` preserves.
pub fn strides(sizes: &[isize], format: Option<&str>, like: Option<&Layout>) -> Result<Dims> {
    let wanted = match format {
        Some("channels_last") => Some(4),
        Some("channels_last_3d") => Some(5),
        _ => None,
    };
    match (wanted, format, like) {
        (Some(rank), ..) if sizes.len() != rank => {
            Err(Error::runtime(format!("required rank {rank} tensor to use {} format", format.unwrap_or_default())))
        }
        (Some(_), ..) => Ok(channels_last(sizes)),
        (None, None | Some("preserve_format"), Some(like)) => Ok(like.preserved_strides()),
        _ => Ok(contiguous_strides(sizes)),
    }
}

/// Whether the elements lie in the order of a memory format, without gaps.
pub fn is_contiguous(layout: &Layout, format: Option<&str>) -> Result<bool> {
    let ordered = match format {
        Some("preserve_format") => {
            return Err(Error::runtime("preserve memory format is unsupported by the contiguous operator"));
        }
        Some("channels_last") if layout.rank() != 4 => return Ok(false),
        Some("channels_last_3d") if layout.rank() != 5 => return Ok(false),
        Some("channels_last" | "channels_last_3d") => channels_last(&layout.sizes),
        _ => return Ok(layout.is_contiguous()),
    };
    let counts = |dim: &usize| layout.sizes[*dim] != 1;
    Ok(layout.numel() == 0 || (0..layout.rank()).filter(counts).all(|dim| ordered[dim] == layout.strides[dim]))
}
