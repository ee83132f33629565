//! Fused steps of optimizers: several operators in one pass over memory.

mod on_cuda;
pub mod optimizer;
