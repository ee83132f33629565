//! Loops compiled for several instruction sets, and mathematical functions that vectorise in them.
//!
//! A kernel is written once with [`multiversion!`] (a function) or [`simd_loop!`] (an expression). Its body is generic
//! over an instruction set `S`: [`Isa`], and calls mathematical functions as `S::exp(x)`, for `x` of any type `T`:
//! [`Math`], that is `f32` or `f64`:
//!
//! ```
//! use rushlight_simd::{multiversion, Isa, Math};
//!
//! multiversion! {
//!     pub fn softplus<S, T: Math>(dst: &mut [T], a: &[T]) {
//!         for (d, &a) in dst.iter_mut().zip(a) {
//!             *d = S::log1p(S::exp(a));
//!         }
//!     }
//! }
//! let mut out = [0.0];
//! softplus(&mut out, &[0.0f64]);
//! assert_eq!(out, [std::f64::consts::LN_2]);
//! ```
//!
//! Never write `x.exp()` in a kernel: for `f32` and `f64` that is the standard library's method, which is one call per
//! element and takes precedence over any trait's. `S::exp(x)` cannot be confused with it. `sqrt()`, `abs()`, comparison and
//! arithmetic are used as usual, and `S::mul_add(a, b, c)` is fused exactly if the hardware does it in one instruction.
//!
//! Whole-run helpers: [`convert`] for half types, [`math::slices`] for sine, cosine and tangent, whose huge arguments
//! need a branch per block.

pub mod convert;
mod dispatch;
mod isa;
pub mod math;
#[cfg(test)]
mod testing;

pub use dispatch::{Level, level, machine_level, set_level};
pub use isa::{Base, Isa, V3, V4};
pub use math::Math;

/// Prefetches the cache line at `place` for writing, so that another core that holds it gives it up. A hint that reads
/// and writes nothing, for any address; it has no effect on processors without the instruction.
#[inline(always)]
pub fn claim<T>(place: *mut T) {
    // SAFETY: the instruction never faults, and processors without it execute it as a no-op.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place.addr(), options(nomem, nostack, preserves_flags));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = place;
}
