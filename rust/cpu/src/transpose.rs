//! Transposing blocks in registers: columns become rows.
//!
//! Moving elements one at a time costs a load and a store each; transposing eight registers of eight elements takes 24
//! shuffles.

use rushlight_simd::{Isa, Level, multiversion};

/// Moves `rows` by `columns` elements of `width` bytes. Rows are contiguous at `to`, columns at `from`. Steps count
/// bytes: from one row to the next in `to`, and from one column to the next in `from`.
///
/// # Safety
/// Both sides hold all elements at these steps, and do not overlap.
pub unsafe fn transpose_block(
    to: *mut u8,
    to_step: isize,
    from: *const u8,
    from_step: isize,
    rows: usize,
    columns: usize,
    width: usize,
) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        match width {
            1 => words::<u8>(to, to_step, from, from_step, rows, columns),
            2 => words::<u16>(to, to_step, from, from_step, rows, columns),
            4 => words::<u32>(to, to_step, from, from_step, rows, columns),
            8 => words::<u64>(to, to_step, from, from_step, rows, columns),
            _ => words::<u128>(to, to_step, from, from_step, rows, columns),
        }
    }
}

multiversion! {
    /// # Safety
    /// `rows` times `columns` words lie at `from` and at `to`, with these steps, and do not overlap.
    unsafe fn words<S, T: Word>(
        to: *mut u8, to_step: isize, from: *const u8, from_step: isize, rows: usize, columns: usize
    ) {
        let side = T::side::<S>();
        let (whole_rows, whole_columns) = (rows / side * side, columns / side * side);
        let width = size_of::<T>();
        // SAFETY: the caller's guarantee covers every position of the matrix.
        unsafe {
            let target = |row: usize, column: usize| to.offset(row as isize * to_step).add(column * width);
            let source = |row: usize, column: usize| from.offset(column as isize * from_step).add(row * width);
            let one = |row: usize, column: usize| {
                target(row, column).cast::<T>().write_unaligned(source(row, column).cast::<T>().read_unaligned())
            };
            for column in (0..whole_columns).step_by(side) {
                for row in (0..whole_rows).step_by(side) {
                    T::block::<S>(target(row, column), to_step, source(row, column), from_step);
                }
            }
            for row in 0..rows {
                for column in if row < whole_rows { whole_columns } else { 0 }..columns {
                    one(row, column);
                }
            }
        }
    }
}

/// An element as a bundle of bytes, with the largest block that is transposed in registers.
pub(crate) trait Word: Copy {
    fn side<S: Isa>() -> usize;
    /// Transposes one block.
    ///
    /// # Safety
    /// Both sides hold it, and the machine has the instructions of `S`.
    unsafe fn block<S: Isa>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize);
}

macro_rules! words {
    ($($word:ty: $side:literal from $level:ident by $block:path;)*) => {$(
        impl Word for $word {
            #[inline(always)]
            fn side<S: Isa>() -> usize {
                if cfg!(target_arch = "x86_64") && S::LEVEL >= Level::$level { $side } else { 1 }
            }
            #[inline(always)]
            unsafe fn block<S: Isa>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize) {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    #[cfg(target_arch = "x86_64")]
                    if S::LEVEL >= Level::$level {
                        $block(to, to_step, from, from_step);
                        return;
                    }
                    single::<$word>(to, to_step, from, from_step);
                }
            }
        }
    )*};
}

words! {
    u8: 8 from Base by x86::bytes8x8;
    u16: 8 from Base by x86::pairs8x8;
    u32: 8 from V3 by x86::words8x8;
    u64: 4 from V3 by x86::words4x4;
    u128: 1 from Base by single::<u128>;
}

#[inline(always)]
/// # Safety
/// Same as for `transpose_block`.
unsafe fn single<T: Copy>(to: *mut u8, _: isize, from: *const u8, _: isize) {
    // SAFETY: both sides hold an element.
    unsafe { to.cast::<T>().write_unaligned(from.cast::<T>().read_unaligned()) }
}

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use std::arch::x86_64::*;

    /// Eight by eight bytes.
    ///
    /// # Safety
    /// Both sides hold eight bytes at each of eight steps.
    #[inline(always)]
    pub unsafe fn bytes8x8(to: *mut u8, to_step: isize, from: *const u8, from_step: isize) {
        // SAFETY: guaranteed by the caller (see `# Safety`); every x86-64 has the instructions.
        unsafe {
            let r = |i: isize| _mm_loadl_epi64(from.offset(i * from_step).cast());
            let (a0, a1) = (_mm_unpacklo_epi8(r(0), r(1)), _mm_unpacklo_epi8(r(2), r(3)));
            let (a2, a3) = (_mm_unpacklo_epi8(r(4), r(5)), _mm_unpacklo_epi8(r(6), r(7)));
            let (b0, b1) = (_mm_unpacklo_epi16(a0, a1), _mm_unpackhi_epi16(a0, a1));
            let (b2, b3) = (_mm_unpacklo_epi16(a2, a3), _mm_unpackhi_epi16(a2, a3));
            let rows = [
                _mm_unpacklo_epi32(b0, b2),
                _mm_unpackhi_epi32(b0, b2),
                _mm_unpacklo_epi32(b1, b3),
                _mm_unpackhi_epi32(b1, b3),
            ];
            for (i, pair) in (0..).zip(rows) {
                _mm_storel_epi64(to.offset(2 * i * to_step).cast(), pair);
                _mm_storel_epi64(to.offset((2 * i + 1) * to_step).cast(), _mm_unpackhi_epi64(pair, pair));
            }
        }
    }

    /// Eight by eight words of 16 bits.
    ///
    /// # Safety
    /// Both sides hold eight words at each of eight steps.
    #[inline(always)]
    pub unsafe fn pairs8x8(to: *mut u8, to_step: isize, from: *const u8, from_step: isize) {
        // SAFETY: guaranteed by the caller (see `# Safety`); every x86-64 has the instructions.
        unsafe {
            let r = |i: isize| _mm_loadu_si128(from.offset(i * from_step).cast());
            let (a0, a1) = (_mm_unpacklo_epi16(r(0), r(1)), _mm_unpackhi_epi16(r(0), r(1)));
            let (a2, a3) = (_mm_unpacklo_epi16(r(2), r(3)), _mm_unpackhi_epi16(r(2), r(3)));
            let (a4, a5) = (_mm_unpacklo_epi16(r(4), r(5)), _mm_unpackhi_epi16(r(4), r(5)));
            let (a6, a7) = (_mm_unpacklo_epi16(r(6), r(7)), _mm_unpackhi_epi16(r(6), r(7)));
            let (b0, b1) = (_mm_unpacklo_epi32(a0, a2), _mm_unpackhi_epi32(a0, a2));
            let (b2, b3) = (_mm_unpacklo_epi32(a1, a3), _mm_unpackhi_epi32(a1, a3));
            let (b4, b5) = (_mm_unpacklo_epi32(a4, a6), _mm_unpackhi_epi32(a4, a6));
            let (b6, b7) = (_mm_unpacklo_epi32(a5, a7), _mm_unpackhi_epi32(a5, a7));
            let w = |i: isize, v: __m128i| _mm_storeu_si128(to.offset(i * to_step).cast(), v);
            w(0, _mm_unpacklo_epi64(b0, b4));
            w(1, _mm_unpackhi_epi64(b0, b4));
            w(2, _mm_unpacklo_epi64(b1, b5));
            w(3, _mm_unpackhi_epi64(b1, b5));
            w(4, _mm_unpacklo_epi64(b2, b6));
            w(5, _mm_unpackhi_epi64(b2, b6));
            w(6, _mm_unpacklo_epi64(b3, b7));
            w(7, _mm_unpackhi_epi64(b3, b7));
        }
    }

    /// Eight by eight words of 32 bits.
    ///
    /// # Safety
    /// Both sides hold eight words at each of eight steps, and the machine has AVX.
    #[inline(always)]
    pub unsafe fn words8x8(to: *mut u8, to_step: isize, from: *const u8, from_step: isize) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let r = |i: isize| _mm256_loadu_ps(from.offset(i * from_step).cast());
            let (a0, a1) = (_mm256_unpacklo_ps(r(0), r(1)), _mm256_unpackhi_ps(r(0), r(1)));
            let (a2, a3) = (_mm256_unpacklo_ps(r(2), r(3)), _mm256_unpackhi_ps(r(2), r(3)));
            let (a4, a5) = (_mm256_unpacklo_ps(r(4), r(5)), _mm256_unpackhi_ps(r(4), r(5)));
            let (a6, a7) = (_mm256_unpacklo_ps(r(6), r(7)), _mm256_unpackhi_ps(r(6), r(7)));
            let (b0, b1) = (_mm256_shuffle_ps::<0x44>(a0, a2), _mm256_shuffle_ps::<0xEE>(a0, a2));
            let (b2, b3) = (_mm256_shuffle_ps::<0x44>(a1, a3), _mm256_shuffle_ps::<0xEE>(a1, a3));
            let (b4, b5) = (_mm256_shuffle_ps::<0x44>(a4, a6), _mm256_shuffle_ps::<0xEE>(a4, a6));
            let (b6, b7) = (_mm256_shuffle_ps::<0x44>(a5, a7), _mm256_shuffle_ps::<0xEE>(a5, a7));
            let w = |i: isize, v: __m256| _mm256_storeu_ps(to.offset(i * to_step).cast(), v);
            w(0, _mm256_permute2f128_ps::<0x20>(b0, b4));
            w(1, _mm256_permute2f128_ps::<0x20>(b1, b5));
            w(2, _mm256_permute2f128_ps::<0x20>(b2, b6));
            w(3, _mm256_permute2f128_ps::<0x20>(b3, b7));
            w(4, _mm256_permute2f128_ps::<0x31>(b0, b4));
            w(5, _mm256_permute2f128_ps::<0x31>(b1, b5));
            w(6, _mm256_permute2f128_ps::<0x31>(b2, b6));
            w(7, _mm256_permute2f128_ps::<0x31>(b3, b7));
        }
    }

    /// Four by four words of 64 bits.
    ///
    /// # Safety
    /// Both sides hold four words at each of four steps, and the machine has AVX.
    #[inline(always)]
    pub unsafe fn words4x4(to: *mut u8, to_step: isize, from: *const u8, from_step: isize) {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let r = |i: isize| _mm256_loadu_pd(from.offset(i * from_step).cast());
            let (b0, b1) = (_mm256_unpacklo_pd(r(0), r(1)), _mm256_unpackhi_pd(r(0), r(1)));
            let (b2, b3) = (_mm256_unpacklo_pd(r(2), r(3)), _mm256_unpackhi_pd(r(2), r(3)));
            let w = |i: isize, v: __m256d| _mm256_storeu_pd(to.offset(i * to_step).cast(), v);
            w(0, _mm256_permute2f128_pd::<0x20>(b0, b2));
            w(1, _mm256_permute2f128_pd::<0x20>(b1, b3));
            w(2, _mm256_permute2f128_pd::<0x31>(b0, b2));
            w(3, _mm256_permute2f128_pd::<0x31>(b1, b3));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_edges_of_every_width() {
        for width in [1, 2, 4, 8, 16] {
            for (rows, columns) in [(1, 1), (7, 9), (8, 8), (19, 33), (64, 64)] {
                let (to_step, from_step) = ((columns + 3) * width, (rows + 1) * width);
                let source: Vec<u8> = (0..from_step * columns).map(|i| (i * 37 % 251) as u8).collect();
                let mut target = vec![0u8; to_step * rows];
                // SAFETY: both vectors have room for all rows and columns at their steps.
                unsafe {
                    let (to, from) = (target.as_mut_ptr(), source.as_ptr());
                    transpose_block(to, to_step as isize, from, from_step as isize, rows, columns, width);
                }
                for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                    let (at, from) = (row * to_step + column * width, column * from_step + row * width);
                    assert_eq!(target[at..at + width], source[from..from + width], "{width} {row} {column}");
                }
            }
        }
    }
}
