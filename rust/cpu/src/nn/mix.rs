//! Weighted sums of a few elements of each plane, to which sampling an image at arbitrary points reduces.
//!
//! `sum of weight[n, p, k] * x[n, c, index[n, p, k]] * g[n, c, p]` is linear in three operands; each kernel here is its
//! derivative in one of them. An index outside of the plane contributes zero.

use std::ops::{AddAssign, Mul, Range};

use rushlight_core::{DType, Error, Result, dispatch};
use rushlight_par::Address;

/// Elements worth a task of their own.
pub(super) const TASK: usize = 1 << 15;

/// Items, channels, elements of a plane, points, and elements mixed for each point.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub items: usize,
    pub channels: usize,
    pub area: usize,
    pub places: usize,
    pub taps: usize,
}

/// The index, if it lies within the plane.
#[inline(always)]
pub(super) fn within(index: i64, area: usize) -> Option<usize> {
    ((index as u64) < area as u64).then_some(index as usize)
}

/// The type of the arithmetic.
pub(super) trait Number: Copy + Default + AddAssign + Mul<Output = Self> {}
impl Number for f32 {}
impl Number for f64 {}

/// Instantiates a body for the common numbers of taps: those of nearest, linear and cubic sampling, along one dimension or several.
macro_rules! with_taps {
    ($taps:expr, $body:ident($($arg:expr),*)) => {
        match $taps {
            1 => $body($($arg),*, 1),
            2 => $body($($arg),*, 2),
            4 => $body($($arg),*, 4),
            8 => $body($($arg),*, 8),
            16 => $body($($arg),*, 16),
            taps => $body($($arg),*, taps),
        }
    };
}
pub(super) use with_taps;

/// `out[n, c, p]`: the mixture at each point.
///
/// # Safety
/// Row-major operands: `x` of `[items, channels, area]`, indices and weights of `[items, places, taps]`.
pub unsafe fn mix(
    dtype: DType,
    s: Sizes,
    x: *const u8,
    indices: *const i64,
    weights: *const u8,
    out: *mut u8,
) -> Result<()> {
    let indices = Address(indices.cast_mut());
    dispatch!(dtype, T in [f32, f64] => {
        let (x, weights, out) = (Address(x.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * s.channels, TASK.div_ceil((s.places * s.taps).max(1)), |range| {
            for plane in range {
                let first = plane / s.channels * s.places * s.taps;
                let (x, out) = (x.at(plane * s.area), out.at(plane * s.places));
                // SAFETY: guaranteed by the caller (see `# Safety`); each plane belongs to one task.
                unsafe { with_taps!(s.taps, mix_plane(s, x, indices.at(first), weights.at(first), out)) };
            }
        });
    }, else => return Err(Error::unsupported("grid_sampler", dtype)));
    Ok(())
}

/// # Safety
/// Same as for `mix`, of one plane.
#[inline(always)]
unsafe fn mix_plane<T: Number>(
    s: Sizes,
    x: *const T,
    indices: *const i64,
    weights: *const T,
    out: *mut T,
    taps: usize,
) {
    for p in 0..s.places {
        let mut sum = T::default();
        for k in p * taps..(p + 1) * taps {
            // SAFETY: guaranteed by the caller (see `# Safety`); the index lies within the plane.
            unsafe {
                let value = match within(*indices.add(k), s.area) {
                    Some(at) => *x.add(at),
                    // A weight of NaN gives NaN, even outside of the plane.
                    None => T::default(),
                };
                sum += *weights.add(k) * value;
            }
        }
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { out.add(p).write(sum) };
    }
}

/// `out[n, c, a]`: the values at the points, distributed over the elements that were mixed for them.
///
/// # Safety
/// Same as for `mix`; `values` are of `[items, channels, places]`, the result of `[items, channels, area]`.
pub unsafe fn spread(
    dtype: DType,
    s: Sizes,
    values: *const u8,
    indices: *const i64,
    weights: *const u8,
    out: *mut u8,
) -> Result<()> {
    let indices = Address(indices.cast_mut());
    dispatch!(dtype, T in [f32, f64] => {
        let (values, weights, out) = (Address(values.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * s.channels, TASK.div_ceil((s.places * s.taps + s.area).max(1)), |range| {
            for plane in range {
                let first = plane / s.channels * s.places * s.taps;
                let (values, out) = (values.at(plane * s.places), out.at(plane * s.area));
                // SAFETY: guaranteed by the caller (see `# Safety`); the plane belongs to this task.
                unsafe { with_taps!(s.taps, spread_plane(s, values, indices.at(first), weights.at(first), out)) };
            }
        });
    }, else => return Err(Error::unsupported("grid_sampler", dtype)));
    Ok(())
}

/// # Safety
/// Same as for `spread`, of one plane.
#[inline(always)]
unsafe fn spread_plane<T: Number>(
    s: Sizes,
    values: *const T,
    indices: *const i64,
    weights: *const T,
    out: *mut T,
    taps: usize,
) {
    // SAFETY: guaranteed by the caller (see `# Safety`); indices lie within the plane.
    unsafe {
        (0..s.area).for_each(|at| out.add(at).write(T::default()));
        for p in 0..s.places {
            let value = *values.add(p);
            for k in p * taps..(p + 1) * taps {
                if let Some(at) = within(*indices.add(k), s.area) {
                    *out.add(at) += *weights.add(k) * value;
                }
            }
        }
    }
}

/// `out[n, p, k]`: the products of a point's values with the elements that were mixed for it, summed over the channels.
///
/// # Safety
/// Same as for `mix`; `values` are of `[items, channels, places]`, the result of `[items, places, taps]`.
pub unsafe fn meet(
    dtype: DType,
    s: Sizes,
    values: *const u8,
    x: *const u8,
    indices: *const i64,
    out: *mut u8,
) -> Result<()> {
    let indices = Address(indices.cast_mut());
    // Points per run, so that a run's results stay in the cache while the kernel iterates over the channels.
    const RUN: usize = 256;
    let runs = s.places.div_ceil(RUN);
    dispatch!(dtype, T in [f32, f64] => {
        let (values, x, out) = (Address(values.cast_mut().cast::<T>()), Address(x.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        rushlight_par::parallel_for(s.items * runs, TASK.div_ceil((RUN * s.taps * s.channels).max(1)), |range| {
            for run in range {
                let (item, start) = (run / runs, run % runs * RUN);
                let places = start..s.places.min(start + RUN);
                let first = item * s.places * s.taps;
                let (values, x) = (values.at(item * s.channels * s.places), x.at(item * s.channels * s.area));
                // SAFETY: guaranteed by the caller (see `# Safety`); the run's results belong to this task.
                unsafe { with_taps!(s.taps, meet_run(s, places, values, x, indices.at(first), out.at(first))) };
            }
        });
    }, else => return Err(Error::unsupported("grid_sampler", dtype)));
    Ok(())
}

/// # Safety
/// Same as for `meet`, of some points of one item.
#[inline(always)]
unsafe fn meet_run<T: Number>(
    s: Sizes,
    places: Range<usize>,
    values: *const T,
    x: *const T,
    indices: *const i64,
    out: *mut T,
    taps: usize,
) {
    // SAFETY: guaranteed by the caller (see `# Safety`); indices lie within the plane.
    unsafe {
        (places.start * taps..places.end * taps).for_each(|k| out.add(k).write(T::default()));
        for channel in 0..s.channels {
            let (values, x) = (values.add(channel * s.places), x.add(channel * s.area));
            for p in places.clone() {
                let value = *values.add(p);
                for k in p * taps..(p + 1) * taps {
                    if let Some(at) = within(*indices.add(k), s.area) {
                        *out.add(k) += value * *x.add(at);
                    }
                }
            }
        }
    }
}
