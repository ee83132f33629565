//! Weighted sums of a few elements of each plane: what sampling an image at any places comes down to.
//!
//! `sum of weight[n, p, k] * x[n, c, index[n, p, k]] * g[n, c, p]` is linear in three operands; each kernel here is its
//! derivative in one of them. An index outside of the plane counts for nothing.

use rushlight_core::{DType, dispatch};
use rushlight_par::Address;

/// Elements worth a task of their own.
const TASK: usize = 1 << 15;

/// Items, channels, elements of a plane, places, and elements mixed for each place.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub items: usize,
    pub channels: usize,
    pub area: usize,
    pub places: usize,
    pub taps: usize,
}

/// The index, if it lies within the plane.
fn within(index: i64, area: usize) -> Option<usize> {
    usize::try_from(index).ok().filter(|&at| at < area)
}

/// `out[n, c, p]`: the mixture at each place.
///
/// # Safety
/// Row-major operands: `x` of `[items, channels, area]`, indices and weights of `[items, places, taps]`.
pub unsafe fn mix(dtype: DType, s: Sizes, x: *const u8, indices: *const i64, weights: *const u8, out: *mut u8) {
    let indices = Address(indices.cast_mut());
    dispatch!(dtype, T in [f32, f64] => {
        let (x, weights, out) = (Address(x.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * s.channels, TASK.div_ceil((s.places * s.taps).max(1)), |range| {
            for plane in range {
                let first = plane / s.channels * s.places * s.taps;
                for p in 0..s.places {
                    let mut sum = 0 as T;
                    for k in first + p * s.taps..first + (p + 1) * s.taps {
                        // SAFETY: the caller's promise; the index lies within the plane.
                        unsafe {
                            if let Some(at) = within(*indices.at(k), s.area) {
                                sum += *weights.at(k) * *x.at(plane * s.area + at);
                            }
                        }
                    }
                    // SAFETY: each place is written once.
                    unsafe { out.at(plane * s.places + p).write(sum) };
                }
            }
        });
    }, else => ())
}

/// `out[n, c, a]`: the values of the places, spread over what was mixed for them.
///
/// # Safety
/// As for `mix`; `values` are of `[items, channels, places]`, the result of `[items, channels, area]`.
pub unsafe fn spread(dtype: DType, s: Sizes, values: *const u8, indices: *const i64, weights: *const u8, out: *mut u8) {
    let indices = Address(indices.cast_mut());
    dispatch!(dtype, T in [f32, f64] => {
        let (values, weights, out) = (Address(values.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * s.channels, TASK.div_ceil((s.places * s.taps + s.area).max(1)), |range| {
            for plane in range {
                let first = plane / s.channels * s.places * s.taps;
                // SAFETY: the caller's promise; the plane is this task's.
                unsafe {
                    (0..s.area).for_each(|at| out.at(plane * s.area + at).write(0 as T));
                    for p in 0..s.places {
                        let value = *values.at(plane * s.places + p);
                        for k in first + p * s.taps..first + (p + 1) * s.taps {
                            if let Some(at) = within(*indices.at(k), s.area) {
                                *out.at(plane * s.area + at) += *weights.at(k) * value;
                            }
                        }
                    }
                }
            }
        });
    }, else => ())
}

/// `out[n, p, k]`: the products of a place's values with what was mixed for it, summed over the channels.
///
/// # Safety
/// As for `mix`; `values` are of `[items, channels, places]`, the result of `[items, places, taps]`.
pub unsafe fn meet(dtype: DType, s: Sizes, values: *const u8, x: *const u8, indices: *const i64, out: *mut u8) {
    let indices = Address(indices.cast_mut());
    // Runs of places, so that a run's results stay in the cache while the channels pass.
    const RUN: usize = 256;
    let runs = s.places.div_ceil(RUN);
    dispatch!(dtype, T in [f32, f64] => {
        let (values, x, out) = (Address(values.cast_mut().cast::<T>()), Address(x.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * runs, TASK.div_ceil((RUN * s.taps * s.channels).max(1)), |range| {
            for run in range {
                let (item, start) = (run / runs, run % runs * RUN);
                let places = start..s.places.min(start + RUN);
                let tap = |p: usize| (item * s.places + p) * s.taps;
                // SAFETY: the caller's promise; the run's results are this task's.
                unsafe {
                    (tap(places.start)..tap(places.end)).for_each(|k| out.at(k).write(0 as T));
                    for plane in item * s.channels..(item + 1) * s.channels {
                        for p in places.clone() {
                            let value = *values.at(plane * s.places + p);
                            for k in tap(p)..tap(p + 1) {
                                if let Some(at) = within(*indices.at(k), s.area) {
                                    *out.at(k) += value * *x.at(plane * s.area + at);
                                }
                            }
                        }
                    }
                }
            }
        });
    }, else => ())
}
