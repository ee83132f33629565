//! The uniform distribution, and those computed one by one in f64 from uniform or normal numbers.

use crate::{Element, Float, Stream, element::Wide};

/// Uniform in [from, to). A value that rounds to `to` becomes `from`.
pub fn uniform<T: Float>(stream: &mut Stream, out: &mut [T], from: f64, to: f64) {
    let (low, high) = (T::Wide::from_f64(from), T::Wide::from_f64(to));
    let (bottom, top) = (T::from_f64(from), T::from_f64(to));
    let mut buffer = [T::Wide::default(); 512];
    for part in out.chunks_mut(buffer.len()) {
        let values = &mut buffer[..part.len()];
        T::Wide::uniform(stream, values, high - low, low);
        T::store(part, values);
        for value in part {
            *value = if *value == top { bottom } else { *value };
        }
    }
}

/// Exponential: ln(1 - u) / -lambda.
pub fn exponential<T: Float>(stream: &mut Stream, out: &mut [T], lambda: f64) {
    out.fill_with(|| T::from_f64(-1.0 / lambda * (-stream.uniform64()).ln_1p()));
}

/// Cauchy: median + sigma tan(pi (u - 1/2)).
pub fn cauchy<T: Float>(stream: &mut Stream, out: &mut [T], median: f64, sigma: f64) {
    out.fill_with(|| {
        let angle = std::f64::consts::PI * (stream.uniform64() - 0.5);
        T::from_f64(sigma.mul_add(angle.tan(), median))
    });
}

/// The exponential of a normal value of `mean` and `std`; always drawn one by one, through the cached normal.
pub fn log_normal<T: Float>(stream: &mut Stream, out: &mut [T], mean: f64, std: f64) {
    out.fill_with(|| T::from_f64(stream.standard_normal().mul_add(std, mean).exp()));
}
