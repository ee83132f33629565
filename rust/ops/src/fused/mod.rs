//! Several operators in one pass over memory, for the loops of optimizers.

pub mod optimizer;
