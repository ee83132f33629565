//! Steps of recurrent networks: one from its gates, or all of a sequence.

pub mod gates;
pub mod sequence;
