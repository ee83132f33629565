//! Elementary functions that the compiler can vectorise: free of branches, calls and tables.
//!
//! One list below makes three things: the trait [`Math`] that `f32` and `f64` implement, the trait [`Isa`] through which
//! kernels spell the functions (`S::exp(x)`), and the documentation with the error of each. Errors are in units in the
//! last place (ulp), the largest seen by the tests in this folder against 60-digit references, at all levels. NaN,
//! infinities, signed zeros and subnormal numbers follow C99.

mod erf;
mod exp;
mod float;
mod gamma;
mod inverse;
mod log;
mod pow;
pub mod slices;
mod tables;
#[cfg(test)]
mod tests;
mod trig;

use crate::Level;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($x:ident),+) = $module:ident::$double:ident $(::<$digits:ident>)?, $single:ident;)*) => {
        /// The floating-point types with mathematics. Kernels that are generic over them say `T: Math` and call
        /// `S::exp(x)` through [`Isa`].
        pub trait Math: Copy + PartialOrd + Send + Sync + std::fmt::Debug + 'static {
            /// See [`Isa::mul_add`].
            fn mul_add<S: Isa>(a: Self, b: Self, c: Self) -> Self;
            /// Beyond this magnitude the periodic functions leave their fast path.
            const NEAR: Self;
            fn abs(self) -> Self;
            $($(#[$doc])* fn $name<S: Isa>($($x: Self),+) -> Self;)*
        }

        impl Math for f64 {
            const NEAR: f64 = trig::NEAR;
            #[inline(always)]
            fn abs(self) -> f64 {
                f64::abs(self)
            }
            #[inline(always)]
            fn mul_add<S: Isa>(a: f64, b: f64, c: f64) -> f64 {
                if S::FMA { f64::mul_add(a, b, c) } else { a * b + c }
            }
            $(#[inline(always)]
            fn $name<S: Isa>($($x: f64),+) -> f64 {
                $module::$double::<S $(, float::$digits)?>($($x),+)
            })*
        }

        impl Math for f32 {
            const NEAR: f32 = trig::NEAR as f32;
            #[inline(always)]
            fn abs(self) -> f32 {
                f32::abs(self)
            }
            #[inline(always)]
            fn mul_add<S: Isa>(a: f32, b: f32, c: f32) -> f32 {
                if S::FMA { f32::mul_add(a, b, c) } else { a * b + c }
            }
            $(#[inline(always)]
            fn $name<S: Isa>($($x: f32),+) -> f32 {
                $module::$single::<S>($($x),+)
            })*
        }

        /// The instructions that a loop's body is being compiled for, and the functions it may call. Inside
        /// [`multiversion!`](crate::multiversion) `S` is one of these; elsewhere, [`Base`](crate::Base) always works.
        pub trait Isa: Copy + Default + Send + Sync + 'static {
            /// The level of the shell around the body.
            const LEVEL: Level;
            /// Is a fused multiply-add one instruction here?
            const FMA: bool;

            /// `a * b + c`, rounded once where the hardware can, else twice (never by a slow emulation).
            #[inline(always)]
            fn mul_add<T: Math>(a: T, b: T, c: T) -> T {
                T::mul_add::<Self>(a, b, c)
            }
            $($(#[$doc])*
            #[inline(always)]
            fn $name<T: Math>($($x: T),+) -> T {
                T::$name::<Self>($($x),+)
            })*
        }
    };
}

functions! {
    /// e^x.
    exp(x) = exp::exp::<Double>, exp_32;
    /// 2^x.
    exp2(x) = exp::exp2, exp2_32;
    /// e^x - 1, exact near 0.
    expm1(x) = exp::expm1::<Double>, expm1_32;
    /// 1 / (1 + e^-x).
    sigmoid(x) = exp::sigmoid::<Double>, sigmoid_32;
    /// Hyperbolic sine.
    sinh(x) = exp::sinh::<Double>, sinh_32;
    /// Hyperbolic cosine.
    cosh(x) = exp::cosh::<Double>, cosh_32;
    /// Hyperbolic tangent.
    tanh(x) = exp::tanh, tanh_32;
    /// Natural logarithm.
    log(x) = log::log::<Double>, log_32;
    /// Logarithm to base 2.
    log2(x) = log::log2::<Double>, log2_32;
    /// Logarithm to base 10.
    log10(x) = log::log10::<Double>, log10_32;
    /// log(1 + x), exact near 0.
    log1p(x) = log::log1p::<Double>, log1p_32;
    /// Inverse hyperbolic sine.
    asinh(x) = log::asinh::<Double>, asinh_32;
    /// Inverse hyperbolic cosine.
    acosh(x) = log::acosh::<Double>, acosh_32;
    /// Inverse hyperbolic tangent.
    atanh(x) = log::atanh::<Double>, atanh_32;
    /// Sine of any argument. A loop over it is scalar: for runs of elements use [`slices::sin`].
    sin(x) = trig::sin, sin_32;
    /// Cosine of any argument. A loop over it is scalar: for runs of elements use [`slices::cos`].
    cos(x) = trig::cos, cos_32;
    /// Tangent of any argument. A loop over it is scalar: for runs of elements use [`slices::tan`].
    tan(x) = trig::tan, tan_32;
    /// Sine for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
    sin_near(x) = trig::sin_near, sin_near_32;
    /// Cosine for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
    cos_near(x) = trig::cos_near, cos_near_32;
    /// Tangent for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
    tan_near(x) = trig::tan_near, tan_near_32;
    /// Inverse sine.
    asin(x) = inverse::asin::<Double>, asin_32;
    /// Inverse cosine.
    acos(x) = inverse::acos::<Double>, acos_32;
    /// Inverse tangent.
    atan(x) = inverse::atan::<Double>, atan_32;
    /// The angle of the point (x, y).
    atan2(y, x) = inverse::atan2::<Double>, atan2_32;
    /// The error function.
    erf(x) = erf::erf::<Double>, erf_32;
    /// 1 - erf(x), with small relative error where erf is near 1.
    erfc(x) = erf::erfc::<Double>, erfc_32;
    /// The inverse of erf.
    erfinv(x) = erf::erfinv, erfinv_32;
    /// x^y with C99's special cases.
    pow(x, y) = pow::pow, pow_32;
    /// 1 / sqrt(x), by division: no estimate.
    rsqrt(x) = pow::rsqrt, rsqrt_32;
    /// log |Gamma(x)|; scalar.
    lgamma(x) = gamma::lgamma, lgamma_32;
    /// The derivative of log Gamma; scalar.
    digamma(x) = gamma::digamma, digamma_32;
}
