//! Kernels for the CPU, by family: skeletons over raw memory that operators fill with an expression, and algorithms.
//!
//! Nothing here depends on tensors, autograd or operators. A kernel gets addresses, strides and dtypes, and its results
//! are the same bits for any number of threads: sums, and writes to one position, are split at fixed positions, and
//! partial results are combined in a fixed order.

pub mod atomic;
pub mod convert;
pub mod create;
pub mod fft;
pub mod float;
pub mod folds;
pub mod fused;
pub mod index;
pub mod linalg;
pub mod loops;
pub mod nn;
pub mod order;
pub mod pointwise;
pub mod quantized;
pub mod reduce;
mod streaming;
mod transpose;

/// Names from other crates that this crate's macros use.
#[doc(hidden)]
pub mod reexport {
    pub use rushlight_core::{DType, Element, Scalar};
    pub use rushlight_simd::{Base, Isa, simd_loop};
}
