//! Steps of recurrent networks: a single step from its gates, or a whole sequence.

pub mod gates;
pub mod sequence;
