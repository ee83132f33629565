//! The same bytes seen otherwise: no operator here copies unless its name says so.

pub mod complex;
pub mod copied;
pub mod diagonal;
pub mod embed;
pub mod expand;
pub mod flatten;
pub mod narrow;
pub mod reshape;
pub mod split;
pub mod squeeze;
pub mod strided;
pub mod transpose;
pub mod unfold;

pub use reshape::RESHAPE;
