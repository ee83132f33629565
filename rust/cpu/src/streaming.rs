//! Stores that bypass the caches, and prefetches ahead of them.
//!
//! A result larger than the caches evicts everything else, and reading its lines before they are overwritten costs a
//! third of the bandwidth. Results that are computed in small steps into a buffer are written past the caches in whole
//! lines. Meanwhile the operands' lines are prefetched well in advance, because otherwise the memory is idle during the
//! arithmetic between two loads.

use rushlight_simd::{Isa, Level, multiversion};

/// New results of this many bytes and above are streamed.
pub const LEAST: usize = 32 << 20;
/// The bytes of the widest operand that a step takes: eight lines, which the processor can fetch concurrently.
pub const STEP: usize = 512;
/// How far ahead operands are prefetched.
const AHEAD: usize = 8 * STEP;
/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Prefetches `bytes` bytes at `AHEAD` behind `from`.
#[inline(always)]
pub fn prefetch(from: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(LINE) {
        prefetch_line(from.wrapping_add(AHEAD + at));
    }
}

/// Prefetches the line at an address, which may be invalid.
#[inline(always)]
pub fn prefetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint that reads nothing.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

multiversion! {
    /// Copies bytes with streaming stores if the target begins a line; `finish` makes them visible.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes and do not overlap.
    pub unsafe fn store<S>(to: *mut u8, from: *const u8, bytes: usize) {
        let whole = if (to as usize).is_multiple_of(LINE) { bytes / LINE * LINE } else { 0 };
        // SAFETY: guaranteed by the caller (see `# Safety`); the alignment of `to` was just checked, and the level
        // allows the instructions.
        unsafe {
            for at in (0..whole).step_by(LINE) {
                line::<S>(to.add(at), from.add(at));
            }
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), bytes - whole);
        }
    }
}

multiversion! {
    /// [`store`] from large memory, which is prefetched.
    ///
    /// # Safety
    /// Same as for `store`.
    pub unsafe fn copy<S>(to: *mut u8, from: *const u8, bytes: usize) {
        let whole = if (to as usize).is_multiple_of(LINE) { bytes / LINE * LINE } else { 0 };
        // SAFETY: as in `store`.
        unsafe {
            for at in (0..whole).step_by(LINE) {
                prefetch_line(from.wrapping_add(AHEAD + at));
                line::<S>(to.add(at), from.add(at));
            }
            std::ptr::copy_nonoverlapping(from.add(whole), to.add(whole), bytes - whole);
        }
        finish();
    }
}

/// One line with streaming stores.
///
/// # Safety
/// Both sides hold a line, `to` begins one, and the machine has the instructions of `S`.
#[inline(always)]
pub unsafe fn line<S: Isa>(to: *mut u8, from: *const u8) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::*;
            match S::LEVEL {
                Level::V4 => _mm512_stream_si512(to.cast(), _mm512_loadu_si512(from.cast())),
                Level::V3 => {
                    for at in (0..LINE).step_by(32) {
                        _mm256_stream_si256(to.add(at).cast(), _mm256_loadu_si256(from.add(at).cast()));
                    }
                }
                Level::Base => {
                    for at in (0..LINE).step_by(16) {
                        _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast()));
                    }
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        std::ptr::copy_nonoverlapping(from, to, LINE);
    }
}

/// Makes the stores visible to other threads.
#[inline(always)]
pub fn finish() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    }
}
