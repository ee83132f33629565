//! Sine, cosine and tangent of runs of elements.
//!
//! Reducing a huge argument needs integers and a table, which would keep the whole loop scalar. So a run is processed
//! in blocks: a first, cheap pass tests whether any argument of the block is large, which is rare.

use super::Math;
use crate::multiversion;

/// Elements per block: small compared with the first-level cache, large compared with the cost of the test.
const BLOCK: usize = 256;

macro_rules! blockwise {
    ($($(#[$doc:meta])* $name:ident: $near:ident;)*) => {$(
        multiversion! {
            $(#[$doc])*
            ///
            /// # Safety
            /// `n` readable elements at `src`, `n` writable ones at `dst`; the two are equal or do not overlap.
            pub unsafe fn $name<S, T: Math>(dst: *mut T, src: *const T, n: usize) {
                for start in (0..n).step_by(BLOCK) {
                    let len = BLOCK.min(n - start);
                    // SAFETY: start + len <= n, and the caller guarantees n elements.
                    unsafe {
                        let (dst, src) = (dst.add(start), src.add(start));
                        let mut far = 0u32;
                        for i in 0..len {
                            far |= ((*src.add(i)).abs() > T::NEAR) as u32;
                        }
                        if far == 0 {
                            for i in 0..len {
                                *dst.add(i) = S::$near(*src.add(i));
                            }
                        } else {
                            for i in 0..len {
                                *dst.add(i) = S::$name(*src.add(i));
                            }
                        }
                    }
                }
            }
        }
    )*};
}

blockwise! {
    /// `dst[i] = sin(src[i])` for `n` elements of any size.
    sin: sin_near;
    /// `dst[i] = cos(src[i])` for `n` elements of any size.
    cos: cos_near;
    /// `dst[i] = tan(src[i])` for `n` elements of any size.
    tan: tan_near;
}
