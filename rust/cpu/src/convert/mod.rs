//! Conversion between dtypes and layouts: `cast` for a run of elements, `copy` for whole operands.

pub mod cast;
pub mod copy;
