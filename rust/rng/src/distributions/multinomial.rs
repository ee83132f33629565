//! Drawing categories with given weights.
//!
//! torch has two algorithms. Without replacement, or for a single draw, it divides each weight by its own exponential
//! number ([`exponential_race`]); the greatest quotients win, so the caller takes the top k. With replacement it
//! searches the cumulative sum of the weights.

use super::exponential;
use crate::{Element, Float, Stream};
use std::fmt;

/// Fills `out` with weight / exponential, for the shorter of the two slices.
pub fn exponential_race<T: Float>(stream: &mut Stream, out: &mut [T], weights: &[T]) {
    let count = out.len().min(weights.len());
    let out = &mut out[..count];
    exponential(stream, out, 1.0);
    for (value, weight) in out.iter_mut().zip(weights) {
        *value = T::from_wide(weight.to_wide() / value.to_wide());
    }
}

/// Fills `out` with indices into `weights`, drawn independently.
pub fn multinomial_with_replacement<T: Float>(
    stream: &mut Stream,
    out: &mut [i64],
    weights: &[T],
) -> Result<(), MultinomialError> {
    let zero = T::Wide::from_f64(0.0);
    let mut sum = zero;
    let mut running = Vec::with_capacity(weights.len());
    for weight in weights {
        let weight = weight.to_wide();
        let size = weight.to_f64();
        // torch treats NaN as negative.
        if size < 0.0 || size.is_nan() {
            return Err(MultinomialError::Negative);
        }
        if size.is_infinite() {
            return Err(MultinomialError::NotFinite);
        }
        sum = sum + weight;
        running.push(sum);
    }
    if sum == zero {
        return Err(MultinomialError::Zero);
    }
    for value in &mut running {
        *value = *value / sum;
    }
    if let Some(last) = running.last_mut() {
        *last = T::Wide::from_f64(1.0);
    }
    out.fill_with(|| {
        let uniform = stream.uniform64();
        running.partition_point(|value| value.to_f64() < uniform) as i64
    });
    Ok(())
}

/// Why weights are invalid; the words are torch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MultinomialError {
    Negative,
    NotFinite,
    Zero,
}

impl fmt::Display for MultinomialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            Self::Negative => "encountering probability entry < 0",
            Self::NotFinite => "encountering probability entry = infinity or NaN",
            Self::Zero => "sum of probabilities <= 0",
        };
        write!(f, "invalid multinomial distribution ({what})")
    }
}

impl std::error::Error for MultinomialError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_weights_are_refused() {
        let draw = |weights: &[f32]| multinomial_with_replacement(&mut Stream::default(), &mut [0; 3], weights);
        assert_eq!(draw(&[1.0, -1.0]), Err(MultinomialError::Negative));
        assert_eq!(draw(&[1.0, f32::NAN]), Err(MultinomialError::Negative));
        assert_eq!(draw(&[1.0, f32::INFINITY]), Err(MultinomialError::NotFinite));
        assert_eq!(draw(&[0.0, 0.0]), Err(MultinomialError::Zero));
        assert_eq!(draw(&[]), Err(MultinomialError::Zero));
    }
}
