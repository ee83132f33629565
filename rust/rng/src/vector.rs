//! Compiles a function a second time for wide registers.
//!
//! The crate is compiled for plain x86-64, which has 4-lane vectors and no fused multiply-add. A loop that matters is
//! written as a function inside [`vectorised!`], which compiles it a second time for AVX2 with FMA and chooses when
//! called. Both versions give the same bits, because only `mul_add` is fused; without FMA that is a (slow) library
//! call.

macro_rules! vectorised {
    ($(
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident$(<$generic:ident>)?($($argument:ident: $type:ty),*) $body:block
    )*) => {$(
        $(#[$attribute])*
        $visibility fn $name$(<$generic>)?($($argument: $type),*) {
            // Always inlined: the body must be compiled with the features of the function around it.
            #[inline(always)]
            fn plain$(<$generic>)?($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                /// # Safety
                /// The machine has both features.
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2$(<$generic>)?($($argument: $type),*) {
                    plain($($argument),*);
                }
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                    // SAFETY: the machine has both features.
                    return unsafe { with_avx2($($argument),*) };
                }
            }
            plain($($argument),*);
        }
    )*};
}
pub(crate) use vectorised;
