//! The output size of a convolution along one dimension.

use rushlight_core::{Error, window};

/// Sizes and offsets above this are refused, so that sums of a few of them do not overflow in a kernel.
const LARGEST: i128 = 1 << 60;

/// The number of windows on an input with padding at both sides; `None` if a number exceeds the limit of the kernels.
pub(super) fn output_size(input: isize, kernel: isize, sides: [i64; 2], dilation: i64, stride: i64) -> Option<isize> {
    let (sides, kernel) = (sides.map(i128::from), kernel as i64);
    let padded = input as i128 + sides[0] + sides[1];
    let size = window::count(padded, kernel, dilation, stride);
    let (reach, last) = (window::reach(kernel, dilation), (size - 1) * i128::from(stride));
    let counted = sides.into_iter().chain([reach, padded, size, last]).all(|n| n.abs() < LARGEST);
    counted.then_some(size as isize)
}

#[cold]
pub(super) fn too_many() -> Error {
    Error::runtime("numel: integer multiplication overflow")
}
