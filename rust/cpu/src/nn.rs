//! Algorithms of networks' layers: convolution, pooling, losses by class and embedding.

pub mod conv;
pub mod embedding;
pub mod loss;
pub mod pool;
