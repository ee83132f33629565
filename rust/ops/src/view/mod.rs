//! Views of the same bytes: no operator here copies unless its name says so.

pub mod complex;
pub mod diagonal;
pub mod expand;
pub mod flatten;
pub mod narrow;
pub mod reshape;
pub mod split;
pub mod squeeze;
pub mod strided;
pub mod transpose;
pub mod unfold;
pub mod view_copy;

pub use reshape::RESHAPE;
