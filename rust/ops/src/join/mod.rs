//! Joining tensors, and rearranging one tensor's elements.

pub mod cat;
pub mod diag;
pub mod flip;
pub mod meshgrid;
pub mod pad;
mod printed;
pub mod repeat;
pub mod tril;
pub mod view_scatter;

pub use cat::{CAT, STACK};
