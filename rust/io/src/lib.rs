//! File formats: what `save()` writes and `load()` reads, without executing anything.
//!
//! - [`zip`]: the archive around a checkpoint, read with every bound checked and written as torch writes it;
//! - [`pickle`]: a bounded interpreter of pickle's opcodes that yields a list of [`pickle::Step`]s, plain data from
//!   which the caller builds its own objects;
//! - [`legacy_format`]: the format before torch 1.6, several pickles followed by raw storages;
//! - `source`: the bytes of a file or of memory, read within their bounds; `error`: what can be wrong with them.
//!
//! The crate depends on neither tensors nor Python. Any sequence of bytes gives a value or an [`Error`], with time and
//! memory proportional to its length.

mod error;
pub mod legacy_format;
pub mod pickle;
pub mod source;
pub mod zip;

pub use error::{Error, Result};
pub use source::Source;
