//! The normal distribution. torch has two algorithms, which give different numbers from the same words.

use super::box_muller::BLOCK;
use crate::{Element, Float, Stream, element::Wide};

/// Fills a contiguous tensor: in blocks if it has at least 16 elements, else as [`normal_serial`].
pub fn normal<T: Float>(stream: &mut Stream, out: &mut [T], mean: f64, std: f64) {
    if out.len() < BLOCK {
        let mut slots = out.iter_mut();
        return normal_serial(stream, slots.len(), mean, std, |value| {
            if let Some(slot) = slots.next() {
                *slot = T::from_f64(value);
            }
        });
    }

    let (mean, std) = (T::Wide::from_f64(mean), T::Wide::from_f64(std));
    let mut buffer = [T::Wide::default(); 32 * BLOCK];
    let mut fill = |out: &mut [T]| {
        let buffer = &mut buffer[..out.len()];
        uniform_unit(stream, buffer);
        T::Wide::normal_blocks(buffer, mean, std);
        T::store(out, buffer);
    };
    let incomplete = out.len() % BLOCK;
    let (blocks, rest) = out.split_at_mut(out.len() - incomplete);
    blocks.chunks_mut(32 * BLOCK).for_each(&mut fill);
    if incomplete > 0 {
        // torch draws f32 and f64 for the whole tensor first, including the remainder that is drawn again below. The
        // half types go block by block and omit the remainder.
        if size_of::<T>() == size_of::<T::Wide>() {
            fill(rest);
        }
        // The last 16 elements are drawn again, over the end of the last complete block.
        let last = out.len() - BLOCK;
        fill(&mut out[last..]);
    }
}

fn uniform_unit<T: Wide>(stream: &mut Stream, out: &mut [T]) {
    T::uniform(stream, out, T::from_f64(1.0), T::from_f64(0.0));
}

/// Passes `count` normal values to `sink`, as torch fills tensors that are small or not contiguous: in f64 for every
/// dtype, in pairs whose second value the stream keeps for the next call.
pub fn normal_serial(stream: &mut Stream, count: usize, mean: f64, std: f64, mut sink: impl FnMut(f64)) {
    for _ in 0..count {
        sink(stream.standard_normal().mul_add(std, mean));
    }
}

impl Stream {
    /// The cached normal value if there is one, else the first of a new pair.
    pub(crate) fn standard_normal(&mut self) -> f64 {
        if let Some(value) = self.next_normal.take() {
            return value;
        }
        let (angle, radius) = (self.uniform64(), self.uniform64());
        let radius = (-2.0 * (-radius).ln_1p()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * angle).sin_cos();
        self.next_normal = Some(radius * sin);
        radius * cos
    }
}
