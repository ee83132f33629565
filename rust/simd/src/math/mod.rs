//! Elementary functions that the compiler can vectorise: free of branches, calls and tables.
//!
//! One list (`traits`) defines three things: the trait [`Math`] that `f32` and `f64` implement, the trait [`Isa`] through
//! which kernels call the functions (`S::exp(x)`), and the documentation with the error of each. Errors are in units in
//! the last place (ulp), the largest seen against references of 60 and more digits (`f64`) and over 42 million
//! arguments of all exponents (`f32`). Without FMA the `f32` versions of tanh and erf err by 0.3 to 0.4 more. NaN,
//! infinities, signed zeros and subnormal numbers follow C99.
//!
//! Most `f32` functions compute in `f64` with short polynomials, which limits their error to 0.501 ulp. exp, exp2,
//! tanh, sigmoid, log, erf, sin and cos, the most frequent functions in neural networks, have algorithms of their own
//! in `f32`, two to three times faster. Those of sin and cos need FMA.

#![allow(clippy::extra_unused_type_parameters)] // One shape for all functions, also for those without a multiply-add.

pub mod bessel;
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
mod traits;
mod trig;

use traits::functions;
pub use traits::{Isa, Math};

macro_rules! implement {
    ($($(#[$doc:meta])* $name:ident($($x:ident),+) = $module:ident::$double:ident $(::<$digits:ident>)?, $single:ident;)*) => {
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
    };
}

functions!(implement);
