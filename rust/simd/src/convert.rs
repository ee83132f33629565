//! Half types to `f32` and back, for whole runs of elements.
//!
//! `bf16` is the upper half of an `f32`, so it is a shift one way and a rounding by integer addition the other; the
//! compiler vectorises both. `f16` has its own exponent: x86 has instructions for it (F16C, AVX-512) that the compiler
//! does not generate, so they are written out here. Rounding is to nearest, ties to even; infinities and the sign of
//! zero are preserved, and a NaN remains a (quiet) NaN with its sign and upper payload.
//!
//! All functions take pointers because the memory may be shared with other processes, where Rust's slices are not
//! allowed. Source and destination may not overlap.

use crate::multiversion;
use half::{bf16, f16};

multiversion! {
    /// `dst[i] = src[i]` for `n` elements; exact.
    ///
    /// # Safety
    /// `n` readable elements at `src`, `n` writable ones at `dst`, no overlap.
    pub unsafe fn bf16_to_f32(dst: *mut f32, src: *const bf16, n: usize) {
        for i in 0..n {
            // SAFETY: `i < n`, and the caller guarantees `n` elements.
            unsafe { *dst.add(i) = f32::from_bits(((*src.add(i)).to_bits() as u32) << 16) }
        }
    }
}

multiversion! {
    /// `dst[i] = src[i]` rounded to nearest even, for `n` elements.
    ///
    /// # Safety
    /// `n` readable elements at `src`, `n` writable ones at `dst`, no overlap.
    pub unsafe fn f32_to_bf16(dst: *mut bf16, src: *const f32, n: usize) {
        for i in 0..n {
            // SAFETY: `i < n`, and the caller guarantees `n` elements.
            unsafe { *dst.add(i) = round_to_bf16(*src.add(i)) }
        }
    }
}

/// One value, without a branch: `half`'s own conversion tests for NaN first, which would keep the loop scalar.
#[inline(always)]
pub fn round_to_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    bf16::from_bits(if x.is_nan() { quiet } else { rounded } as u16)
}

/// One value, without a branch and without arithmetic on denormal numbers, which a thread may flush to zero.
#[inline(always)]
pub fn widen_f16(h: f16) -> f32 {
    const SMALLEST: f32 = 1.0 / (1 << 24) as f32;
    let bits = u32::from(h.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let tiny = ((bits & 0x3ff) as f32 * SMALLEST).to_bits();
    let finite = if bits & 0x7c00 == 0 { tiny } else { magnitude.wrapping_add(112 << 23) };
    // The result of a NaN is quiet, as with the instructions.
    let special = magnitude | 0x7f80_0000 | if bits & 0x3ff == 0 { 0 } else { 1 << 22 };
    let value = if bits & 0x7c00 == 0x7c00 { special } else { finite };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

/// One value rounded to nearest even, without a branch.
#[inline(always)]
pub fn round_to_f16(x: f32) -> f16 {
    let bits = x.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Subnormal results: adding 0.5 makes the addition itself round at the right bit.
    let tiny = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let odd = (magnitude >> 13) & 1;
    let normal = magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13;
    let finite = if magnitude < 113 << 23 { tiny } else { normal };
    let large = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13) & 0x3ff } else { 0x7c00 };
    let value = if magnitude >= 0x4780_0000 { large } else { finite };
    f16::from_bits((value | (bits >> 16) & 0x8000) as u16)
}

/// `dst[i] = src[i]` for `n` elements; exact.
///
/// # Safety
/// `n` readable elements at `src`, `n` writable ones at `dst`, no overlap.
pub unsafe fn f16_to_f32(dst: *mut f32, src: *const f16, n: usize) {
    let done = match crate::level() {
        // SAFETY: `level()` never exceeds the machine's level; the caller guarantees the pointers.
        #[cfg(target_arch = "x86_64")]
        crate::Level::V4 => unsafe { x86::f16_to_f32_v4(dst, src, n) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        crate::Level::V3 => unsafe { x86::f16_to_f32_v3(dst, src, n) },
        _ => 0,
    };
    for i in done..n {
        // SAFETY: `i < n`, and the caller guarantees `n` elements.
        unsafe { *dst.add(i) = widen_f16(*src.add(i)) }
    }
}

/// `dst[i] = src[i]` rounded to nearest even, for `n` elements; values that are too large become infinite.
///
/// # Safety
/// `n` readable elements at `src`, `n` writable ones at `dst`, no overlap.
pub unsafe fn f32_to_f16(dst: *mut f16, src: *const f32, n: usize) {
    let done = match crate::level() {
        // SAFETY: `level()` never exceeds the machine's level; the caller guarantees the pointers.
        #[cfg(target_arch = "x86_64")]
        crate::Level::V4 => unsafe { x86::f32_to_f16_v4(dst, src, n) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        crate::Level::V3 => unsafe { x86::f32_to_f16_v3(dst, src, n) },
        _ => 0,
    };
    for i in done..n {
        // SAFETY: `i < n`, and the caller guarantees `n` elements.
        unsafe { *dst.add(i) = round_to_f16(*src.add(i)) }
    }
}

/// The instructions for `f16`. Each function converts the whole vectors and returns how many elements it converted.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;
    use half::f16;

    const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT;
    /// The 512-bit instruction needs its two other bits explicitly.
    const NEAREST_512: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

    /// A loop over whole vectors of `$lanes` elements, compiled with `$feature`.
    macro_rules! convert {
        ($name:ident, $feature:literal, $lanes:literal, $from:ty => $to:ty, |$dst:ident, $src:ident| $body:expr) => {
            /// # Safety
            /// The machine has the feature; `n` readable elements at `src`, `n` writable ones at `dst`, no overlap.
            #[target_feature(enable = $feature)]
            pub unsafe fn $name(dst: *mut $to, src: *const $from, n: usize) -> usize {
                let whole = n / $lanes * $lanes;
                for i in (0..whole).step_by($lanes) {
                    // SAFETY: i + LANES <= n, and the caller guarantees n elements.
                    unsafe {
                        let ($dst, $src) = (dst.add(i), src.add(i));
                        $body
                    }
                }
                whole
            }
        };
    }

    convert!(f16_to_f32_v3, "avx2,f16c", 8, f16 => f32, |d, s| _mm256_storeu_ps(d, _mm256_cvtph_ps(_mm_loadu_si128(s.cast()))));
    convert!(f32_to_f16_v3, "avx2,f16c", 8, f32 => f16, |d, s| _mm_storeu_si128(d.cast(), _mm256_cvtps_ph::<NEAREST>(_mm256_loadu_ps(s))));
    convert!(f16_to_f32_v4, "avx512f", 16, f16 => f32, |d, s| _mm512_storeu_ps(d, _mm512_cvtph_ps(_mm256_loadu_si256(s.cast()))));
    convert!(f32_to_f16_v4, "avx512f", 16, f32 => f16, |d, s| _mm256_storeu_si256(d.cast(), _mm512_cvtps_ph::<NEAREST_512>(_mm512_loadu_ps(s))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::for_each_level;

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan() && a.is_sign_negative() == b.is_sign_negative())
    }

    #[test]
    fn every_half_value_widens_exactly_and_comes_back() {
        let halves: Vec<u16> = (0..=u16::MAX).collect();
        for_each_level(|level| {
            let mut wide = vec![0.0f32; halves.len()];
            let mut back = vec![0u16; halves.len()];
            // SAFETY: all have the same length; u16, f16 and bf16 have the same layout.
            unsafe {
                f16_to_f32(wide.as_mut_ptr(), halves.as_ptr().cast(), halves.len());
                f32_to_f16(back.as_mut_ptr().cast(), wide.as_ptr(), halves.len());
            }
            for (i, &h) in halves.iter().enumerate() {
                let h = f16::from_bits(h);
                assert!(same(wide[i], h.to_f32_const()), "{level:?} f16 {h:?}");
                assert!(h.is_nan() || back[i] == h.to_bits(), "{level:?} f16 {h:?}");
            }
            // SAFETY: as above.
            unsafe {
                bf16_to_f32(wide.as_mut_ptr(), halves.as_ptr().cast(), halves.len());
                f32_to_bf16(back.as_mut_ptr().cast(), wide.as_ptr(), halves.len());
            }
            for (i, &h) in halves.iter().enumerate() {
                let h = bf16::from_bits(h);
                assert!(same(wide[i], f32::from_bits((h.to_bits() as u32) << 16)), "{level:?} bf16 {h:?}");
                assert!(h.is_nan() || back[i] == h.to_bits(), "{level:?} bf16 {h:?}");
            }
        });
    }

    #[test]
    fn narrowing_rounds_to_nearest_even() {
        // Every 4,099th bit pattern, and around each tie of the upper 16 bits.
        let mut values: Vec<f32> = (0..=u32::MAX).step_by(4099).map(f32::from_bits).collect();
        for upper in (0..=u16::MAX as u32).step_by(7) {
            values.extend([0x7fff, 0x8000, 0x8001].map(|low| f32::from_bits(upper << 16 | low)));
        }
        for_each_level(|level| {
            let mut short = vec![0u16; values.len()];
            // SAFETY: equal lengths and layouts.
            unsafe { f32_to_bf16(short.as_mut_ptr().cast(), values.as_ptr(), values.len()) };
            for (&x, &h) in values.iter().zip(&short) {
                assert_eq!(bf16::from_bits(h).to_bits(), bf16::from_f32(x).to_bits(), "{level:?} bf16 {x:e}");
            }
            // SAFETY: equal lengths and layouts.
            unsafe { f32_to_f16(short.as_mut_ptr().cast(), values.as_ptr(), values.len()) };
            for (&x, &h) in values.iter().zip(&short) {
                let want = f16::from_f32_const(x);
                assert!(h == want.to_bits() || (x.is_nan() && f16::from_bits(h).is_nan()), "{level:?} f16 {x:e}");
            }
        });
    }
}
