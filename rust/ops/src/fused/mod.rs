//! Fused steps of optimizers: several operators in one pass over memory.

pub mod optimizer;
