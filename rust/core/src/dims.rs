//! Lists of a few sizes or strides.

use smallvec::SmallVec;

/// Sizes or strides. Up to five dimensions are stored inline. With a sixth, a tensor's geometry would exceed the 128
/// bytes that the compiler copies without a call.
pub type Dims = SmallVec<[isize; 5]>;
