//! Convolutions of one feature for each group. The rows of a matrix product would have nothing to share, so adjacent
//! pixels are computed side by side.

use rushlight_simd::multiversion;

use super::operands::Pixel;

/// The number of pixels side by side.
const WIDE: usize = 64;
pub(super) const NARROW: usize = 8;
const LANES: usize = 16;

multiversion! {
    /// `to[i]` is the sum of `weights[t] * from[i + taps[t]]`, for `n` pixels, a multiple of `NARROW`.
    ///
    /// # Safety
    /// There is a weight for each tap, every pixel that a tap sees may be read, and `to` has room for `n`.
    pub(super) unsafe fn correlate<S, T: Pixel>(to: *mut T, from: *const T, taps: &[isize], weights: *const T, n: usize) {
        let mut i = 0;
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            while i + WIDE <= n {
                abreast::<T, WIDE>(to.add(i), from.add(i), taps, weights);
                i += WIDE;
            }
            while i < n {
                abreast::<T, NARROW>(to.add(i), from.add(i), taps, weights);
                i += NARROW;
            }
        }
    }
}

/// # Safety
/// Same as for `correlate`, for `N` pixels.
#[inline(always)]
unsafe fn abreast<T: Pixel, const N: usize>(to: *mut T, from: *const T, taps: &[isize], weights: *const T) {
    let mut sums = [T::ZERO; N];
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        for (t, &tap) in taps.iter().enumerate() {
            let (weight, seen) = (*weights.add(t), from.offset(tap));
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = sum.plus(weight.times(*seen.add(j)));
            }
        }
        to.cast::<[T; N]>().write(sums);
    }
}

/// The pixels of a tile: rows of the gradient, `gradient_jump` apart, and of the elements that the first tap sees. The
/// taps' rows of sums are `sums_jump` apart.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub rows: usize,
    pub cols: usize,
    pub sums_jump: usize,
    pub gradient_jump: usize,
    pub seen_jump: usize,
}

multiversion! {
    /// Adds to row `t` of `sums` the products of `gradient[i]` and `from[i + taps[t]]`. The sums are in memory, as
    /// whole vectors.
    ///
    /// # Safety
    /// There is a row of sums for each tap, and every pixel of the gradient and every pixel that a tap sees may be
    /// read.
    pub(super) unsafe fn gather<S, T: Pixel>(sums: *mut T, gradient: *const T, from: *const T, taps: &[isize], tile: Rows) {
        for row in 0..tile.rows {
            for (t, &tap) in taps.iter().enumerate() {
                // SAFETY: guaranteed by the caller (see `# Safety`); pieces lie within the row.
                unsafe {
                    let (sums, gradient) = (sums.add(t * tile.sums_jump), gradient.add(row * tile.gradient_jump));
                    let seen = from.add(row * tile.seen_jump).offset(tap);
                    let mut at = 0;
                    while at + LANES <= tile.cols {
                        add::<T, LANES>(sums.add(at), gradient.add(at), seen.add(at));
                        at += LANES;
                    }
                    if at + NARROW <= tile.cols {
                        add::<T, NARROW>(sums.add(at), gradient.add(at), seen.add(at));
                        at += NARROW;
                    }
                    while at < tile.cols {
                        add::<T, 1>(sums.add(at), gradient.add(at), seen.add(at));
                        at += 1;
                    }
                }
            }
        }
    }
}

/// # Safety
/// There are `N` pixels, as many elements that the tap sees, and sums.
#[inline(always)]
unsafe fn add<T: Pixel, const N: usize>(sums: *mut T, gradient: *const T, seen: *const T) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        let (old, given, seen) =
            (sums.cast::<[T; N]>().read(), gradient.cast::<[T; N]>().read(), seen.cast::<[T; N]>().read());
        sums.cast::<[T; N]>().write(std::array::from_fn(|j| old[j].plus(given[j].times(seen[j]))));
    }
}
