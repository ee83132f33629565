//! Weighted sums of a few elements along one dimension, to which resizing an image reduces, and their derivative.
//!
//! An index outside of the dimension contributes zero.

use rushlight_core::alloc::list;
use rushlight_core::{DType, Error, Result, dispatch};
use rushlight_par::Address;

use super::mix::{Number, TASK, with_taps, within};

/// The elements before and after the dimension, those along it in the source and in the sums, and the elements of a sum.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub outer: usize,
    pub inner: usize,
    pub area: usize,
    pub places: usize,
    pub taps: usize,
}

impl Sizes {
    /// The indices, if sums are of single elements that all exist: then the loops over the places need no checks. They are copied,
    /// because another thread may write to them.
    ///
    /// # Safety
    /// There are `places * taps` indices.
    unsafe fn of_lines(&self, indices: *const i64) -> Result<Option<Vec<usize>>> {
        if self.inner != 1 || self.taps == 0 {
            return Ok(None);
        }
        let mut checked = list(self.places * self.taps)?;
        for k in 0..self.places * self.taps {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            match within(unsafe { *indices.add(k) }, self.area) {
                Some(index) => checked.push(index),
                None => return Ok(None),
            }
        }
        Ok(Some(checked))
    }
}

/// # Safety
/// Same as for `mix`, of one line, whose indices all exist.
#[inline(always)]
unsafe fn mix_line<T: Number>(
    places: usize,
    x: *const T,
    indices: *const usize,
    weights: *const T,
    out: *mut T,
    taps: usize,
) {
    for p in 0..places {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let (indices, weights) = (indices.add(p * taps), weights.add(p * taps));
            let mut sum = *weights * *x.add(*indices);
            for k in 1..taps {
                sum += *weights.add(k) * *x.add(*indices.add(k));
            }
            out.add(p).write(sum);
        }
    }
}

/// # Safety
/// Same as for `spread`, of one line, whose indices all exist.
#[inline(always)]
unsafe fn spread_line<T: Number>(
    places: usize,
    values: *const T,
    indices: *const usize,
    weights: *const T,
    out: *mut T,
    taps: usize,
) {
    for p in 0..places {
        for k in p * taps..(p + 1) * taps {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe { *out.add(*indices.add(k)) += *weights.add(k) * *values.add(p) };
        }
    }
}

/// The sums `out[o, p, i]` of `weights[p, k] * x[o, indices[p, k], i]` over `k`.
///
/// # Safety
/// Row-major operands: `x` of `[outer, area, inner]`, indices and weights of `[places, taps]`, `out` of `[outer, places, inner]`.
pub unsafe fn mix(
    dtype: DType,
    s: Sizes,
    x: *const u8,
    indices: *const i64,
    weights: *const u8,
    out: *mut u8,
) -> Result<()> {
    let indices = Address(indices.cast_mut());
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let of_lines = unsafe { s.of_lines(indices.at(0))? };
    dispatch!(dtype, T in [f32, f64] => {
        let (x, weights, out) = (Address(x.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        if let Some(indices) = of_lines {
            rushlight_par::parallel_for(s.outer, TASK.div_ceil((s.places * s.taps).max(1)), |lines| {
                for line in lines {
                    let (from, to) = (x.at(line * s.area), out.at(line * s.places));
                    // SAFETY: guaranteed by the caller (see `# Safety`); each line belongs to one task.
                    unsafe { with_taps!(s.taps, mix_line(s.places, from, indices.as_ptr(), weights.at(0), to)) };
                }
            });
            return Ok(());
        }
        rushlight_par::parallel_for(s.outer * s.places, TASK.div_ceil((s.inner * s.taps).max(1)), |lines| {
            for line in lines {
                let (own, place) = (x.at(line / s.places * s.area * s.inner), line % s.places * s.taps);
                // SAFETY: guaranteed by the caller (see `# Safety`); each line belongs to one task.
                unsafe {
                    let to = out.at(line * s.inner);
                    let inside = |k: usize| {
                        let index = if k < place + s.taps { within(*indices.at(k), s.area) } else { None };
                        index.map(|index| (own.add(index * s.inner), *weights.at(k)))
                    };
                    // One element with the weight one keeps its sign, even if it is zero.
                    let first = inside(place);
                    for i in 0..s.inner {
                        to.add(i).write(first.map_or(T::default(), |(from, weight)| weight * *from.add(i)));
                    }
                    for (from, weight) in (place + 1..place + s.taps).filter_map(inside) {
                        add(to, from, weight, s.inner);
                    }
                }
            }
        });
    }, else => return Err(Error::unsupported("interpolate", dtype)));
    Ok(())
}

/// Values at the places, distributed over the elements that were summed: `out[o, indices[p, k], i]` gets `weights[p, k] *
/// values[o, p, i]`, in the order of the indices.
///
/// # Safety
/// Same as for `mix`: `values` are of `[outer, places, inner]`, the result of `[outer, area, inner]`.
pub unsafe fn spread(
    dtype: DType,
    s: Sizes,
    values: *const u8,
    indices: *const i64,
    weights: *const u8,
    out: *mut u8,
) -> Result<()> {
    let indices = Address(indices.cast_mut());
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let of_lines = unsafe { s.of_lines(indices.at(0))? };
    dispatch!(dtype, T in [f32, f64] => {
        let (values, weights, out) = (Address(values.cast_mut().cast::<T>()), Address(weights.cast_mut().cast::<T>()), Address(out.cast::<T>()));
        let each = s.inner * (s.places * s.taps + s.area);
        rushlight_par::parallel_for(s.outer, TASK.div_ceil(each.max(1)), |planes| {
            for plane in planes {
                // SAFETY: guaranteed by the caller (see `# Safety`); each plane belongs to one task.
                unsafe {
                    let to = out.at(plane * s.area * s.inner);
                    for i in 0..s.area * s.inner {
                        to.add(i).write(T::default());
                    }
                    if let Some(indices) = &of_lines {
                        let from = values.at(plane * s.places);
                        with_taps!(s.taps, spread_line(s.places, from, indices.as_ptr(), weights.at(0), to));
                        continue;
                    }
                    for k in 0..s.places * s.taps {
                        if let Some(index) = within(*indices.at(k), s.area) {
                            let from = values.at((plane * s.places + k / s.taps) * s.inner);
                            add(to.add(index * s.inner), from, *weights.at(k), s.inner);
                        }
                    }
                }
            }
        });
    }, else => return Err(Error::unsupported("interpolate", dtype)));
    Ok(())
}

/// Adds `weight * from`.
///
/// # Safety
/// There are `n` elements at both addresses, which do not overlap.
#[inline(always)]
unsafe fn add<T: Number>(to: *mut T, from: *const T, weight: T, n: usize) {
    for i in 0..n {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { *to.add(i) += weight * *from.add(i) };
    }
}
