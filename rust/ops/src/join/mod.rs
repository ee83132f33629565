//! Tensors put together, and one tensor's elements put in another arrangement.

pub mod cat;
pub mod diag;
pub mod flip;
mod mapped;
pub mod meshgrid;
pub mod pad;
pub mod repeat;
pub mod slot;
pub mod tril;

pub use cat::{CAT, STACK};
