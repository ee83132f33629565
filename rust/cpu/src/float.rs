//! Operations on `f32` and `f64` that kernels of fused sums need: arithmetic, and conversion to and from `f64`.

use rushlight_core::Element;
use rushlight_simd::Math;

/// The arithmetic of both float types.
pub trait Float:
    Math
    + Element
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn wide(self) -> f64;
    fn narrow(wide: f64) -> Self;
    /// The square root.
    fn root(self) -> Self;
}

impl Float for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn narrow(wide: f64) -> f32 {
        wide as f32
    }
    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }
}

impl Float for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
    #[inline(always)]
    fn narrow(wide: f64) -> f64 {
        wide
    }
    #[inline(always)]
    fn root(self) -> f64 {
        self.sqrt()
    }
}
