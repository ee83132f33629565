//! Kernels for the host, by family: skeletons over raw memory that rows fill with an expression, and algorithms.
//!
//! Nothing here knows tensors, autograd or operators. A kernel gets addresses, strides and dtypes, and its results are
//! the same bits for any number of threads: work is cut at fixed places and partial results meet in a fixed order.

pub mod attention;
pub mod cast;
pub mod conv;
pub mod copy;
pub mod ctc;
pub mod embedding;
pub mod fft;
pub mod fill;
pub mod fold;
pub mod folds;
pub mod gather;
pub mod index;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod merge;
pub mod mix;
pub mod optim;
pub mod order;
pub mod pointwise;
pub mod pool;
pub mod recurrent;
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
