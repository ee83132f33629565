//! The element types of the matrix product: their sums, how they are converted, and the lanes of each level.

use half::{bf16, f16};
use num_complex::Complex;
use rushlight_core::Result;
use rushlight_simd::Level;
use rushlight_simd::convert::{round_to_bf16, round_to_f16, widen_f16};

use super::element::{GemmElement, Job, Kernels};

/// The second, if there is one.
macro_rules! dots_lanes {
    ($tiles:ty) => {
        $tiles
    };
    ($tiles:ty, $dots:ty) => {
        $dots
    };
}

/// `GemmElement` for one type: its sum, the two conversions, and the lanes of each level.
macro_rules! element {
    ($t:ty, $sum:ty, $in_place:literal, $widen:expr, $narrow:expr, $format:ty,
     $base:ty, $v3:ty, $v4:ty $(, $dots:ty)?) => {
        impl GemmElement for $t {
            type Sum = $sum;
            const SUMS_IN_PLACE: bool = $in_place;
            #[inline(always)]
            fn widen(self) -> $sum {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(sum: $sum) -> Self {
                $narrow(sum)
            }
            fn with_kernels<J: Job<Self>>(job: J) -> Result<()> {
                use super::kernel::{base, *};
                static BASE: Kernels<$format> = base::kernels::<$format, $base, dots_lanes!($base $(, $dots)?)>();
                #[cfg(target_arch = "x86_64")]
                {
                    use super::x86::*;
                    static V3: Kernels<$format> = v3::kernels::<$format, $v3, dots_lanes!($v3 $(, $dots)?)>();
                    static V4: Kernels<$format> = v4::kernels::<$format, $v4, dots_lanes!($v4 $(, $dots)?)>();
                    match rushlight_simd::level() {
                        Level::V4 => return job.run(&V4),
                        Level::V3 => return job.run(&V3),
                        Level::Base => {}
                    }
                }
                job.run(&BASE)
            }
        }
    };
}

type Real<T> = super::pack::Real<T>;
type Lanes32<T> = super::kernel::Portable<T, 4>;
type Lanes64<T> = super::kernel::Portable<T, 2>;

element!(f32, f32, true, |x| x, |x| x, Real<f32>, Lanes32<f32>, F32x8, F32x16);
element!(f64, f64, true, |x| x, |x| x, Real<f64>, Lanes64<f64>, F64x4, F64x8);
element!(f16, f32, false, widen_f16, round_to_f16, Real<f16>, Lanes32<f32>, F32x8, F32x16);
element!(i32, i32, true, |x| x, |x| x, Real<i32>, Lanes32<i32>, I32x8, I32x16);
element!(i64, i64, true, |x| x, |x| x, Real<i64>, Lanes64<i64>, I64x4, I64x8);
// Sums of narrow integers wrap in 32 bits: their low bits equal those of the narrow sum.
element!(i8, i32, false, |x| x as i32, |x| x as i8, Real<i8>, Lanes32<i32>, I32x8, I32x16);
element!(i16, i32, false, |x| x as i32, |x| x as i16, Real<i16>, Lanes32<i32>, I32x8, I32x16);
element!(u8, i32, false, |x| x as i32, |x| x as u8, Real<u8>, Lanes32<i32>, I32x8, I32x16);
element!(
    Complex<f32>,
    Complex<f32>,
    true,
    |x| x,
    |x| x,
    super::pack::Interleaved<f32>,
    Lanes32<f32>,
    F32x8,
    F32x16,
    Portable<Complex<f32>, 8>
);
element!(
    Complex<f64>,
    Complex<f64>,
    true,
    |x| x,
    |x| x,
    super::pack::Interleaved<f64>,
    Lanes64<f64>,
    F64x4,
    F64x8,
    Portable<Complex<f64>, 4>
);

/// Whether the instructions for pairs of bfloat16 are faster. On Sapphire Rapids they are not: 109 GFLOP/s against 197
/// through float32. On Zen 5 torch reaches four times its float32 rate with them; ours is not measured there.
#[cfg(target_arch = "x86_64")]
fn fast_pairs() -> bool {
    use std::arch::x86_64::__cpuid;
    static FAST: once_cell::race::OnceBool = once_cell::race::OnceBool::new();
    FAST.get_or_init(|| {
        let vendor = __cpuid(0);
        let amd = (vendor.ebx, vendor.edx, vendor.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163);
        // Tests use it on every machine that has it.
        (amd || cfg!(test)) && rushlight_simd::instructions!(v4_bf16 detected)
    })
}

/// In pairs if that is faster, else as float32.
impl GemmElement for bf16 {
    type Sum = f32;
    const SUMS_IN_PLACE: bool = false;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits((self.to_bits() as u32) << 16)
    }
    #[inline(always)]
    fn narrow(sum: f32) -> Self {
        round_to_bf16(sum)
    }
    fn with_kernels<J: Job<Self>>(job: J) -> Result<()> {
        use super::kernel::{base, *};
        static BASE: Kernels<Real<bf16>> = base::kernels::<Real<bf16>, Lanes32<f32>, Lanes32<f32>>();
        #[cfg(target_arch = "x86_64")]
        {
            use super::{pack::Pairs, x86::*};
            static V3: Kernels<Real<bf16>> = v3::kernels::<Real<bf16>, F32x8, F32x8>();
            static V4: Kernels<Real<bf16>> = v4::kernels::<Real<bf16>, F32x16, F32x16>();
            static PAIRS: Kernels<Pairs> = v4_bf16::kernels::<Pairs, Bf16Pairs, F32x16>();
            match rushlight_simd::level() {
                Level::V4 if fast_pairs() => return job.run(&PAIRS),
                Level::V4 => return job.run(&V4),
                Level::V3 => return job.run(&V3),
                Level::Base => {}
            }
        }
        job.run(&BASE)
    }
}
