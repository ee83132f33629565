//! The list of functions, and the traits that they are methods of: [`Math`] of the types, [`Isa`] of the instructions.

use crate::Level;

macro_rules! traits {
    ($($(#[$doc:meta])* $name:ident($($x:ident),+) = $module:ident::$double:ident $(::<$digits:ident>)?, $single:ident;)*) => {
        /// The floating-point types with mathematical functions. Generic kernels declare `T: Math` and call `S::exp(x)`
        /// through [`Isa`].
        pub trait Math: Copy + PartialOrd + Send + Sync + std::fmt::Debug + 'static {
            /// See [`Isa::mul_add`].
            fn mul_add<S: Isa>(a: Self, b: Self, c: Self) -> Self;
            /// Beyond this magnitude the periodic functions leave their fast path.
            const NEAR: Self;
            fn abs(self) -> Self;
            $($(#[$doc])* fn $name<S: Isa>($($x: Self),+) -> Self;)*
        }

        /// The instruction set for which a loop's body is compiled, and the functions it may call. Inside
        /// [`multiversion!`](crate::multiversion) `S` is one of these; elsewhere, [`Base`](crate::Base) always works.
        pub trait Isa: Copy + Default + Send + Sync + 'static {
            /// The level of the shell around the body.
            const LEVEL: Level;
            /// Whether a fused multiply-add is one instruction.
            const FMA: bool;

            /// `a * b + c`, rounded once if the hardware can, else twice (never by a slow emulation).
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

/// Hands the functions to another macro: their documentation, and in which file the algorithms for both types stand.
macro_rules! functions {
    ($make:ident) => {
        $make! {
        /// e^x.
        /// Error: f64 0.8 ulp, f32 0.9.
        exp(x) = exp::exp::<Double>, exp_32;
        /// 2^x.
        /// Error: f64 1.0 ulp, f32 1.0.
        exp2(x) = exp::exp2, exp2_32;
        /// e^x - 1, exact near 0.
        /// Error: f64 1.1 ulp, f32 0.5.
        expm1(x) = exp::expm1::<Double>, expm1_32;
        /// 1 / (1 + e^-x).
        /// Error: f64 1.8 ulp, f32 2.3, which is torch's 2.4: a quotient to 1 ulp took half as long again.
        sigmoid(x) = exp::sigmoid::<Double>, sigmoid_32;
        /// Hyperbolic sine.
        /// Error: f64 1.4 ulp, f32 0.5.
        sinh(x) = exp::sinh::<Double>, sinh_32;
        /// Hyperbolic cosine.
        /// Error: f64 1.2 ulp, f32 0.5.
        cosh(x) = exp::cosh::<Double>, cosh_32;
        /// Hyperbolic tangent.
        /// Error: f64 1.1 ulp, f32 1.1.
        tanh(x) = exp::tanh, tanh_32;
        /// Natural logarithm.
        /// Error: f64 0.8 ulp, f32 0.8.
        log(x) = log::log::<Double>, log_32;
        /// Logarithm to base 2.
        /// Error: f64 0.6 ulp, f32 0.5.
        log2(x) = log::log2::<Double>, log2_32;
        /// Logarithm to base 10.
        /// Error: f64 0.7 ulp, f32 0.5.
        log10(x) = log::log10::<Double>, log10_32;
        /// log(1 + x), exact near 0.
        /// Error: f64 1.1 ulp, f32 0.5.
        log1p(x) = log::log1p::<Double>, log1p_32;
        /// Inverse hyperbolic sine.
        /// Error: f64 1.3 ulp, f32 0.5.
        asinh(x) = log::asinh::<Double>, asinh_32;
        /// Inverse hyperbolic cosine.
        /// Error: f64 1.7 ulp, f32 0.5.
        acosh(x) = log::acosh::<Double>, acosh_32;
        /// Inverse hyperbolic tangent.
        /// Error: f64 1.4 ulp, f32 0.5.
        atanh(x) = log::atanh::<Double>, atanh_32;
        /// Sine of any argument. A loop over it is scalar: for runs of elements use [`slices::sin`].
        /// Error: f64 0.7 ulp, f32 0.8.
        sin(x) = trig::sin, sin_32;
        /// Cosine of any argument. A loop over it is scalar: for runs of elements use [`slices::cos`].
        /// Error: f64 0.8 ulp, f32 0.9.
        cos(x) = trig::cos, cos_32;
        /// Tangent of any argument. A loop over it is scalar: for runs of elements use [`slices::tan`].
        /// Error: f64 1.7 ulp, f32 0.5.
        tan(x) = trig::tan, tan_32;
        /// Sine for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
        sin_near(x) = trig::sin_near, sin_near_32;
        /// Cosine for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
        cos_near(x) = trig::cos_near, cos_near_32;
        /// Tangent for |x| <= [`Math::NEAR`], vectorisable; beyond that, anything.
        tan_near(x) = trig::tan_near, tan_near_32;
        /// Inverse sine.
        /// Error: f64 0.6 ulp, f32 0.5.
        asin(x) = inverse::asin::<Double>, asin_32;
        /// Inverse cosine.
        /// Error: f64 0.6 ulp, f32 0.5.
        acos(x) = inverse::acos::<Double>, acos_32;
        /// Inverse tangent.
        /// Error: f64 1.6 ulp, f32 0.5.
        atan(x) = inverse::atan::<Double>, atan_32;
        /// The angle of the point (x, y).
        /// Error: f64 1.9 ulp, f32 0.5.
        atan2(y, x) = inverse::atan2::<Double>, atan2_32;
        /// The error function.
        /// Error: f64 1.0 ulp, f32 1.1.
        erf(x) = erf::erf::<Double>, erf_32;
        /// 1 - erf(x), with small relative error where erf is near 1.
        /// Error: f64 2.5 ulp, f32 0.5.
        erfc(x) = erf::erfc::<Double>, erfc_32;
        /// The standard normal distribution function, for products with it: the error is absolute, f64 1.5e-16, f32 1.2e-7.
        ndtr(x) = erf::ndtr, ndtr_32;
        /// The inverse of erf.
        /// Error: f64 3.1 ulp, f32 0.5.
        erfinv(x) = erf::erfinv, erfinv_32;
        /// x^y with C99's special cases.
        /// Error: f64 0.9 ulp, f32 0.7.
        pow(x, y) = pow::pow, pow_32;
        /// 1 / sqrt(x), by division: no estimate.
        /// Two roundings, as torch: 1.5 ulp.
        rsqrt(x) = pow::rsqrt, rsqrt_32;
        /// log |Gamma(x)|; scalar.
        /// Error: f64 2.2 ulp, f32 0.5.
        lgamma(x) = gamma::lgamma, lgamma_32;
        /// The derivative of log Gamma; scalar.
        /// Relative errors grow to 35 ulp beside the zero at 1.46 (absolute: 1e-15).
        digamma(x) = gamma::digamma, digamma_32;
            }
    };
}

functions!(traits);

pub(super) use functions;
