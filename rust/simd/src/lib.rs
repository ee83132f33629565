//! Loops compiled for each generation of processors, and mathematics that vectorises in them.
//!
//! A kernel is written once with [`multiversion!`] (a function) or [`simd_loop!`] (an expression). Its body is generic
//! over an instruction set `S`: [`Isa`], and calls mathematics as `S::exp(x)`, for `x` of any type `T`: [`Math`], that is
//! `f32` or `f64`:
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
//! Never write `x.exp()` in a kernel: for `f32` and `f64` that is the standard library's, a call per element, which no
//! trait of ours can shadow. `S::exp(x)` cannot be confused with it. `sqrt`, `abs`, comparison and arithmetic need
//! nothing from here, and `S::mul_add(a, b, c)` is fused exactly where that is fast.
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

/// Asks for the cache line at `place` to be brought here for writing: another core that holds it gives it up. A hint that
/// reads and writes nothing, for any address; without effect on processors that do not know it.
#[inline(always)]
pub fn claim<T>(place: *mut T) {
    // SAFETY: the instruction never faults, and processors without it take it for one that does nothing.
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
