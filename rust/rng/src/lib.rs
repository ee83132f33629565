//! Random numbers with torch's own bits.
//!
//! A program that calls `manual_seed(0)` and then draws gets the numbers of torch 2.13 on an x86-64 machine, bit for
//! bit: the same stream (mt19937), the same number of draws per value, and the same arithmetic from draw to value.
//!
//! * [`Mt19937`] makes 32-bit words, [`Stream`] adds the seed, the cached normal and torch's saved-state layout.
//! * [`distributions`] turn words into values of every dtype.
//! * [`philox`] is the counter-based stream for CUDA.
//!
//! # torch's behaviour, found by running it
//!
//! * Only the low 32 bits of a seed reach the engine.
//! * torch's kernels are compiled for machines with fused multiply-add, and the compiler fuses where it can. Every
//!   place where that changes a bit uses `mul_add()` here, so the result does not depend on our compiler or machine.
//! * torch 2.1 took `bernoulli_()` and `exponential_()` from an MKL stream on Intel machines. torch 2.13 does not: on Intel
//!   as on AMD both use mt19937 like everything else, and so does this crate.
//! * `random_()` without bounds, `bernoulli_()`, `geometric_()` and `randperm()` do not exist in torch for uint16, uint32 and
//!   uint64. The traits here exclude them for `random_()`; for the others the caller does.
//!
//! All functions fill contiguous slices. torch visits a tensor in the order of its memory, regardless of its strides, so
//! the caller fills a strided tensor by drawing into a buffer and copying in that order. Only the normal distribution
//! differs: it uses [`distributions::normal_serial`], for every tensor that is not contiguous in the order of its
//! dimensions.

pub mod distributions;
mod element;
mod mt19937;
pub mod philox;
mod stream;
mod vector;

pub use element::{Element, Float, FullRange, FullRange64};
pub use mt19937::Mt19937;
pub use stream::{DEFAULT_SEED, STATE_LEN, StateError, Stream};
