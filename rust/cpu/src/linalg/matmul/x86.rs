//! The registers of AVX2 and AVX-512 as [`Lanes`].

use super::kernel::Lanes;
use std::arch::x86_64::*;

/// `Lanes` for one register type: the names of its intrinsics, and how it stores a part.
macro_rules! lanes {
    ($name:ident, $doc:literal, $elem:ty, $acc:ty, $v:ty, $width:literal,
     $zero:expr, $load:expr, $splat:expr, $mul_add:expr, $plus:expr, $read:expr, $write:expr) => {
        #[doc = $doc]
        pub struct $name;

        impl Lanes for $name {
            type Elem = $elem;
            type Acc = $acc;
            type V = $v;
            const WIDTH: usize = $width;

            #[inline(always)]
            unsafe fn zero() -> $v {
                // SAFETY: the trait's contract guarantees that the machine has the instructions.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn load(p: *const $elem) -> $v {
                // SAFETY: a whole register is readable.
                unsafe { $load(p) }
            }
            #[inline(always)]
            unsafe fn splat(p: *const $elem) -> $v {
                // SAFETY: one element is readable.
                unsafe { $splat(p) }
            }
            #[inline(always)]
            unsafe fn mul_add(a: $v, b: $v, acc: $v) -> $v {
                // SAFETY: the trait's contract.
                unsafe { $mul_add(a, b, acc) }
            }
            #[inline(always)]
            unsafe fn store(v: $v, c: *mut $acc, lanes: usize, add: bool) {
                // SAFETY: `lanes` sums are writable, and the masks touch no others.
                unsafe {
                    let v = if add { $plus($read(c, lanes), v) } else { v };
                    $write(c, lanes, v)
                }
            }
        }
    };
}

#[inline(always)]
fn first(lanes: usize) -> u16 {
    ((1u32 << lanes) - 1) as u16
}

lanes!(
    F32x16,
    "16 sums of float32.",
    f32,
    f32,
    __m512,
    16,
    || _mm512_setzero_ps(),
    |p| _mm512_loadu_ps(p),
    |p: *const f32| _mm512_set1_ps(*p),
    |a, b, c| _mm512_fmadd_ps(a, b, c),
    |a, b| _mm512_add_ps(a, b),
    |c, n| _mm512_maskz_loadu_ps(first(n), c),
    |c, n, v| _mm512_mask_storeu_ps(c, first(n), v)
);
lanes!(
    F64x8,
    "8 sums of float64.",
    f64,
    f64,
    __m512d,
    8,
    || _mm512_setzero_pd(),
    |p| _mm512_loadu_pd(p),
    |p: *const f64| _mm512_set1_pd(*p),
    |a, b, c| _mm512_fmadd_pd(a, b, c),
    |a, b| _mm512_add_pd(a, b),
    |c, n| _mm512_maskz_loadu_pd(first(n) as u8, c),
    |c, n, v| _mm512_mask_storeu_pd(c, first(n) as u8, v)
);
lanes!(
    I32x16,
    "16 sums of int32.",
    i32,
    i32,
    __m512i,
    16,
    || _mm512_setzero_si512(),
    |p| _mm512_loadu_epi32(p),
    |p: *const i32| _mm512_set1_epi32(*p),
    |a, b, c| _mm512_add_epi32(c, _mm512_mullo_epi32(a, b)),
    |a, b| _mm512_add_epi32(a, b),
    |c, n| _mm512_maskz_loadu_epi32(first(n), c),
    |c, n, v| _mm512_mask_storeu_epi32(c, first(n), v)
);
lanes!(
    I64x8,
    "8 sums of int64.",
    i64,
    i64,
    __m512i,
    8,
    || _mm512_setzero_si512(),
    |p| _mm512_loadu_epi64(p),
    |p: *const i64| _mm512_set1_epi64(*p),
    |a, b, c| _mm512_add_epi64(c, _mm512_mullo_epi64(a, b)),
    |a, b| _mm512_add_epi64(a, b),
    |c, n| _mm512_maskz_loadu_epi64(first(n) as u8, c),
    |c, n, v| _mm512_mask_storeu_epi64(c, first(n) as u8, v)
);
lanes!(
    Bf16Pairs,
    "16 float32 sums of products of pairs of bfloat16, two in each element.",
    u32,
    f32,
    __m512,
    16,
    || _mm512_setzero_ps(),
    |p: *const u32| _mm512_loadu_ps(p.cast()),
    |p: *const u32| _mm512_castsi512_ps(_mm512_set1_epi32(*p as i32)),
    |a, b, c| _mm512_dpbf16_ps(
        c,
        std::mem::transmute::<__m512, __m512bh>(a),
        std::mem::transmute::<__m512, __m512bh>(b)
    ),
    |a, b| _mm512_add_ps(a, b),
    |c, n| _mm512_maskz_loadu_ps(first(n), c),
    |c, n, v| _mm512_mask_storeu_ps(c, first(n), v)
);

/// All ones in the first `n` of eight 32-bit lanes.
///
/// # Safety
/// `n` is at most 8, and the machine has AVX2.
#[inline(always)]
unsafe fn first8(n: usize) -> __m256i {
    const ONES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: `n` is at most 8, so eight lanes of the sixteen remain.
    unsafe { _mm256_loadu_si256(ONES.as_ptr().add(8 - n).cast()) }
}

/// All ones in the first `n` of four 64-bit lanes.
///
/// # Safety
/// `n` is at most 4, and the machine has AVX2.
#[inline(always)]
unsafe fn first4(n: usize) -> __m256i {
    // SAFETY: as for `first8`.
    unsafe { first8(2 * n) }
}

lanes!(
    F32x8,
    "8 sums of float32.",
    f32,
    f32,
    __m256,
    8,
    || _mm256_setzero_ps(),
    |p| _mm256_loadu_ps(p),
    |p: *const f32| _mm256_set1_ps(*p),
    |a, b, c| _mm256_fmadd_ps(a, b, c),
    |a, b| _mm256_add_ps(a, b),
    |c: *mut f32, n| if n == 8 { _mm256_loadu_ps(c) } else { _mm256_maskload_ps(c, first8(n)) },
    |c: *mut f32, n, v| if n == 8 { _mm256_storeu_ps(c, v) } else { _mm256_maskstore_ps(c, first8(n), v) }
);
lanes!(
    F64x4,
    "4 sums of float64.",
    f64,
    f64,
    __m256d,
    4,
    || _mm256_setzero_pd(),
    |p| _mm256_loadu_pd(p),
    |p: *const f64| _mm256_set1_pd(*p),
    |a, b, c| _mm256_fmadd_pd(a, b, c),
    |a, b| _mm256_add_pd(a, b),
    |c: *mut f64, n| if n == 4 { _mm256_loadu_pd(c) } else { _mm256_maskload_pd(c, first4(n)) },
    |c: *mut f64, n, v| if n == 4 { _mm256_storeu_pd(c, v) } else { _mm256_maskstore_pd(c, first4(n), v) }
);
lanes!(
    I32x8,
    "8 sums of int32.",
    i32,
    i32,
    __m256i,
    8,
    || _mm256_setzero_si256(),
    |p: *const i32| _mm256_loadu_si256(p.cast()),
    |p: *const i32| _mm256_set1_epi32(*p),
    |a, b, c| _mm256_add_epi32(c, _mm256_mullo_epi32(a, b)),
    |a, b| _mm256_add_epi32(a, b),
    |c: *mut i32, n| _mm256_maskload_epi32(c, first8(n)),
    |c: *mut i32, n, v| _mm256_maskstore_epi32(c, first8(n), v)
);

/// AVX2 has no product of 64-bit integers.
pub type I64x4 = super::kernel::Portable<i64, 4>;

/// Transposes eight rows of eight 32-bit words: row `i` of the result is column `i`.
///
/// # Safety
/// The machine has AVX.
#[inline(always)]
pub unsafe fn transpose8x8(rows: &[[u32; 8]; 8], dst: *mut u32, stride: usize) {
    // SAFETY: the caller guarantees AVX and eight writable words at each of eight rows.
    unsafe {
        let r = |i: usize| _mm256_loadu_ps(rows[i].as_ptr().cast());
        let (a0, a1, a2, a3, a4, a5, a6, a7) = (r(0), r(1), r(2), r(3), r(4), r(5), r(6), r(7));
        let (b0, b1) = (_mm256_unpacklo_ps(a0, a1), _mm256_unpackhi_ps(a0, a1));
        let (b2, b3) = (_mm256_unpacklo_ps(a2, a3), _mm256_unpackhi_ps(a2, a3));
        let (b4, b5) = (_mm256_unpacklo_ps(a4, a5), _mm256_unpackhi_ps(a4, a5));
        let (b6, b7) = (_mm256_unpacklo_ps(a6, a7), _mm256_unpackhi_ps(a6, a7));
        let (c0, c1) = (_mm256_shuffle_ps::<0x44>(b0, b2), _mm256_shuffle_ps::<0xEE>(b0, b2));
        let (c2, c3) = (_mm256_shuffle_ps::<0x44>(b1, b3), _mm256_shuffle_ps::<0xEE>(b1, b3));
        let (c4, c5) = (_mm256_shuffle_ps::<0x44>(b4, b6), _mm256_shuffle_ps::<0xEE>(b4, b6));
        let (c6, c7) = (_mm256_shuffle_ps::<0x44>(b5, b7), _mm256_shuffle_ps::<0xEE>(b5, b7));
        let w = |i: usize, v: __m256| _mm256_storeu_ps(dst.add(i * stride).cast(), v);
        w(0, _mm256_permute2f128_ps::<0x20>(c0, c4));
        w(1, _mm256_permute2f128_ps::<0x20>(c1, c5));
        w(2, _mm256_permute2f128_ps::<0x20>(c2, c6));
        w(3, _mm256_permute2f128_ps::<0x20>(c3, c7));
        w(4, _mm256_permute2f128_ps::<0x31>(c0, c4));
        w(5, _mm256_permute2f128_ps::<0x31>(c1, c5));
        w(6, _mm256_permute2f128_ps::<0x31>(c2, c6));
        w(7, _mm256_permute2f128_ps::<0x31>(c3, c7));
    }
}

/// Transposes four rows of four 64-bit words.
///
/// # Safety
/// The machine has AVX; `dst` has four writable words at each of four rows.
#[inline(always)]
pub unsafe fn transpose4x4(rows: &[[u64; 4]; 4], dst: *mut u64, stride: usize) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        let r = |i: usize| _mm256_loadu_pd(rows[i].as_ptr().cast());
        let (a0, a1, a2, a3) = (r(0), r(1), r(2), r(3));
        let (b0, b1) = (_mm256_unpacklo_pd(a0, a1), _mm256_unpackhi_pd(a0, a1));
        let (b2, b3) = (_mm256_unpacklo_pd(a2, a3), _mm256_unpackhi_pd(a2, a3));
        let w = |i: usize, v: __m256d| _mm256_storeu_pd(dst.add(i * stride).cast(), v);
        w(0, _mm256_permute2f128_pd::<0x20>(b0, b2));
        w(1, _mm256_permute2f128_pd::<0x20>(b1, b3));
        w(2, _mm256_permute2f128_pd::<0x31>(b0, b2));
        w(3, _mm256_permute2f128_pd::<0x31>(b1, b3));
    }
}
