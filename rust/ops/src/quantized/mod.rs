//! Quantised tensors: their conversion from and to numbers, what the table's operators do with them, and products of
//! bytes. Python has the conversions as functions and methods (`py/src/quantized.rs`).

pub mod bodies;
pub mod convert;
pub mod linear;
mod params;
mod views;

pub use params::choose;
