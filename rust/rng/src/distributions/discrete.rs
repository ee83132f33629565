//! Discrete distributions: bernoulli, dropout, geometric.

use crate::{Element, Float, Stream};

/// 1 with probability `p`, else 0. Two words per element whatever the dtype.
pub fn bernoulli<T: Element>(stream: &mut Stream, out: &mut [T], p: f64) {
    toss(stream, out, p, T::from_i64(0), T::from_i64(1));
}

/// The mask by which dropout multiplies: 0 with probability `p`, else 1 / (1 - p).
///
/// torch draws nothing in evaluation mode, or if `p` is 0 or 1; the caller handles these cases.
pub fn dropout_mask<T: Float>(stream: &mut Stream, out: &mut [T], p: f64) {
    let keep = 1.0 - p;
    let scale = T::from_wide(T::Wide::from_f64(1.0) / T::Wide::from_f64(keep));
    toss(stream, out, keep, T::from_i64(0), scale);
}

/// `yes` if a uniform f64 is below `p`, else `no`.
fn toss<T: Copy>(stream: &mut Stream, out: &mut [T], p: f64, no: T, yes: T) {
    // k / 2^53 < p is equivalent to k < ceil(2^53 p), and both steps are exact.
    let bound = (p * (1u64 << 53) as f64).ceil() as i64;
    stream.engine.fill64(out, |word| if ((word & ((1 << 53) - 1)) as i64) < bound { yes } else { no });
}

/// 1 with the probability at the same index of `p`, else 0, for the shorter of the two slices.
///
/// A probability in f64 takes two words, one in f32 or a half type takes one. In torch a probability outside [0, 1] is
/// an error.
pub fn bernoulli_each<T: Element, P: Float>(stream: &mut Stream, out: &mut [T], p: &[P]) {
    let mut uniform = [P::Wide::default(); 256];
    for (out, p) in out.chunks_mut(uniform.len()).zip(p.chunks(uniform.len())) {
        let uniform = &mut uniform[..out.len().min(p.len())];
        crate::element::Wide::uniform(stream, uniform, P::Wide::from_f64(1.0), P::Wide::from_f64(0.0));
        for ((out, p), u) in out.iter_mut().zip(p).zip(uniform) {
            *out = T::from_i64((*u < p.to_wide()).into());
        }
    }
}

/// The number of tries until the first success of probability `p`: ceil(ln u / ln(1 - p)).
pub fn geometric<T: Element>(stream: &mut Stream, out: &mut [T], p: f64) {
    let scale = (-p).ln_1p();
    out.fill_with(|| T::from_f64((stream.uniform64().ln() / scale).ceil()));
}
