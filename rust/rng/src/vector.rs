//! One switch for wide registers.
//!
//! The crate is compiled for plain x86-64, which has 4-lane vectors and no fused multiply-add. The loops that matter are
//! passed through [`vectorised`], whose body the compiler builds a second time for AVX2 with FMA. Both builds give the same
//! bits, because nothing here is fused unless it says `mul_add`; without FMA that is a (slow) library call.

/// Runs `body`, compiled for AVX2 and FMA where the machine has them.
#[inline]
pub fn vectorised<R>(body: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the machine has both features.
        return unsafe { with_avx2(body) };
    }
    body()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<R>(body: impl FnOnce() -> R) -> R {
    body()
}
