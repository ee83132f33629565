//! Convolutions of one feature for each group: there is nothing for a matrix product's rows to share, so neighbouring pixels
//! stand abreast.

use rushlight_simd::multiversion;

use super::Pixel;

/// Pixels abreast.
const WIDE: usize = 64;
pub(super) const NARROW: usize = 8;
/// Taps whose sums stand in registers side by side.
const TAPS: usize = 4;
const LANES: usize = 16;

multiversion! {
    /// `to[i]` is the sum of `weights[t] * from[i + taps[t]]`, for `n` pixels, a multiple of `NARROW`.
    ///
    /// # Safety
    /// There is a weight for each tap, every pixel that a tap sees may be read, and `to` has room for `n`.
    pub(super) unsafe fn correlate<S, T: Pixel>(to: *mut T, from: *const T, taps: &[isize], weights: *const T, n: usize) {
        let mut i = 0;
        // SAFETY: the caller's promise.
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
/// As for `correlate`, for `N` pixels.
#[inline(always)]
unsafe fn abreast<T: Pixel, const N: usize>(to: *mut T, from: *const T, taps: &[isize], weights: *const T) {
    let mut sums = [T::ZERO; N];
    // SAFETY: the caller's promise.
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

/// The pixels of a tile: rows of the gradient, `gradient_jump` apart, and of what the first tap sees.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub rows: usize,
    pub cols: usize,
    pub gradient_jump: usize,
    pub seen_jump: usize,
}

multiversion! {
    /// Adds to `to[t]` the sum of `gradient[i] * from[i + taps[t]]` over a tile's pixels.
    ///
    /// # Safety
    /// There is a sum for each tap, and every pixel of the gradient and that a tap sees may be read.
    pub(super) unsafe fn gather<S, T: Pixel>(to: *mut T, gradient: *const T, from: *const T, taps: &[isize], tile: Rows) {
        // SAFETY: the caller's promise.
        unsafe {
            for (at, taps) in taps.chunks(TAPS).enumerate() {
                let mut sums = [[T::ZERO; LANES]; TAPS];
                match *taps {
                    [a, b, c, d] => side_by_side(&mut sums, gradient, from, [a, b, c, d], tile),
                    [a, b, c] => side_by_side(&mut sums, gradient, from, [a, b, c], tile),
                    [a, b] => side_by_side(&mut sums, gradient, from, [a, b], tile),
                    [a] => side_by_side(&mut sums, gradient, from, [a], tile),
                    _ => {}
                }
                for (t, lanes) in sums.iter().enumerate().take(taps.len()) {
                    let to = to.add(at * TAPS + t);
                    to.write(lanes.iter().fold(*to, |sum, &lane| sum.plus(lane)));
                }
            }
        }
    }
}

/// # Safety
/// As for `gather`.
#[inline(always)]
unsafe fn side_by_side<T: Pixel, const N: usize>(
    all: &mut [[T; LANES]; TAPS],
    gradient: *const T,
    from: *const T,
    taps: [isize; N],
    tile: Rows,
) {
    let mut sums = [[T::ZERO; LANES]; N];
    let whole = tile.cols - tile.cols % LANES;
    // SAFETY: the caller's promise.
    unsafe {
        for row in 0..tile.rows {
            let (gradient, from) = (gradient.add(row * tile.gradient_jump), from.add(row * tile.seen_jump));
            for i in (0..whole).step_by(LANES) {
                let given = gradient.add(i).cast::<[T; LANES]>().read();
                for (sums, &tap) in sums.iter_mut().zip(&taps) {
                    let seen = from.add(i).offset(tap).cast::<[T; LANES]>().read();
                    for j in 0..LANES {
                        sums[j] = sums[j].plus(given[j].times(seen[j]));
                    }
                }
            }
            for i in whole..tile.cols {
                let given = *gradient.add(i);
                for (sums, &tap) in sums.iter_mut().zip(&taps) {
                    sums[i - whole] = sums[i - whole].plus(given.times(*from.add(i).offset(tap)));
                }
            }
        }
    }
    all[..N].copy_from_slice(&sums);
}
