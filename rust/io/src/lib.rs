//! File formats: what `save` writes and `load` reads, without executing anything.
//!
//! - [`zip`]: the archive around a checkpoint, read with every bound checked and written as torch writes it;
//! - [`pickle`]: a bounded interpreter of pickle's opcodes that yields a list of [`pickle::Step`]s, plain
//!   data which the caller turns into objects of its own;
//! - [`legacy`]: the format before torch 1.6, a row of pickles followed by raw storages.
//!
//! The crate knows neither tensors nor Python. Whatever the bytes, the answer is a value or an [`Error`],
//! after work and memory proportional to their number.

mod error;
pub mod legacy;
pub mod pickle;
pub mod source;
pub mod zip;

pub use error::{Error, Result};
pub use source::Source;
