//! Tensors put together, and one tensor's elements put in another arrangement.

pub mod cat;

pub use cat::{CAT, STACK};
