//! Kernels for the host, by family: skeletons over raw memory that rows fill with an expression, and algorithms.
//!
//! Nothing here knows tensors, autograd or operators. A kernel gets addresses, strides and dtypes, and its results are
//! the same bits for any number of threads: sums, and writes to one place, are cut at fixed places, and partial results
//! meet in a fixed order.

pub mod atomic;
pub mod convert;
pub mod create;
mod fallible;
pub mod fft;
pub mod float;
pub mod folds;
pub mod fused;
pub mod index;
pub mod linalg;
pub mod nn;
pub mod order;
pub mod pointwise;
pub mod reduce;
mod streaming;
pub mod tiles;
mod turn;

/// What the macros of this crate need to name in other crates.
#[doc(hidden)]
pub mod reexport {
    pub use rushlight_core::{DType, Element, Scalar};
    pub use rushlight_simd::{Base, Isa, simd_loop};
}
