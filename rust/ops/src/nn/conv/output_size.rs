//! The output size of a convolution along one dimension, and the errors about sizes.

use rushlight_core::layout::{Shape, to_dims};
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

/// torch's error for a step of zero, which names the sizes of two dimensions at least.
#[cold]
pub(super) fn zero_dilation(dilation: &[i64], transposed: bool) -> Error {
    let mut steps = to_dims(dilation);
    if steps.len() == 1 {
        steps.insert(0, 1);
    }
    let found = if transposed {
        let names = ["depth", "height", "width"];
        let named = names[3 - steps.len()..].iter().zip(&steps).map(|(name, step)| format!("dilation_{name}: {step}"));
        named.collect::<Vec<_>>().join(", ")
    } else {
        Shape(&steps).to_string()
    };
    Error::runtime(format!("dilation should be greater than zero, but got {found}"))
        .hint(format!("dilation is {}; it must be at least 1.", Shape(&to_dims(dilation))))
}
