//! Elements on their way from one dtype or layout to another: `cast` for a run of them, `copy` for whole operands.

pub mod cast;
pub mod copy;
