//! From random words to values: one function per distribution, over slices.
//!
//! Each takes the stream, the slice to fill and the parameters, in that order. Parameters are not checked, because the
//! operators do that first with their name in the message; no parameter causes a panic.

pub(crate) mod box_muller;
mod continuous;
mod discrete;
mod integer;
mod multinomial;
mod normal;
mod rejection;

pub use continuous::{cauchy, exponential, log_normal, uniform};
pub use discrete::{bernoulli, bernoulli_each, dropout_mask, geometric};
pub use integer::{IntRange, RangeError, random, random_from_to, random_full_64_bits, randperm};
pub use multinomial::{MultinomialError, exponential_race, multinomial_with_replacement};
pub use normal::{normal, normal_serial};
pub use rejection::{binomial, poisson, standard_gamma};
