//! Algorithms of neural network layers: attention, convolution, pooling, recurrent steps, normalisation, blocks and
//! mixtures of elements, losses by class or over time, embedding, and distances.

pub mod attention;
pub mod conv;
pub mod ctc;
pub mod distance;
pub mod embedding;
pub mod fold;
pub mod mix;
pub mod nll;
pub mod norm;
pub mod pool;
pub mod recurrent;
pub mod taps;
