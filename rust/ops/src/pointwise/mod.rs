//! Operators that treat each element alone.

pub mod arith;
pub mod complex;
pub mod explog;
