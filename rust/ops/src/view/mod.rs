//! The same bytes seen otherwise: no operator here copies unless its name says so.

pub mod expand;
pub mod reshape;
pub mod strided;

pub use reshape::RESHAPE;
