//! Selects the instructions that this process may use, and compiles a loop for each level.
//!
//! A wheel must run on any x86-64, yet a loop compiled for AVX-512 is several times faster than one for SSE2. So each
//! loop is written once, as an ordinary body that the compiler vectorises, and compiled three times: for the baseline,
//! for AVX2 with FMA, and for AVX-512. [`multiversion!`](crate::multiversion) writes the three shells and the `match`
//! that picks one; [`simd_loop!`](crate::simd_loop) is the same as an expression.
//!
//! The level is detected once. `RUSHLIGHT_SIMD=base|v3|v4` or [`set_level`] can lower it but never raise it above the
//! machine's.

use std::sync::atomic::{AtomicU8, Ordering};

/// A set of instructions that a loop may be compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// The features of every machine of the architecture: SSE2 on x86-64, NEON on AArch64.
    Base = 0,
    /// AVX2, FMA, F16C and BMI2: x86-64-v3.
    V3 = 1,
    /// V3 and AVX-512 F, BW, DQ, VL, CD: x86-64-v4.
    V4 = 2,
}

impl Level {
    pub const ALL: [Level; 3] = [Level::Base, Level::V3, Level::V4];
}

/// The level in use; `UNKNOWN` until the first call of `level`.
static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = u8::MAX;

/// The level that loops run at in this process.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        0 => Level::Base,
        1 => Level::V3,
        2 => Level::V4,
        _ => set_level(named(std::env::var("RUSHLIGHT_SIMD").ok().as_deref())),
    }
}

/// Lowers the level to `wanted`, or to what the machine has if that is less, and returns the level now in use.
///
/// A later call may raise it again, up to the machine's own. Meant for tests and benches: loops that run meanwhile on
/// other threads may use either level.
#[cold]
pub fn set_level(wanted: Level) -> Level {
    let level = wanted.min(machine_level());
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// The best level of this machine. No machine has AVX-512 without FMA or F16C, so levels are nested.
pub fn machine_level() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if crate::instructions!(v4 detected) {
            return Level::V4;
        }
        if crate::instructions!(v3 detected) {
            return Level::V3;
        }
    }
    Level::Base
}

/// The level that a value of `RUSHLIGHT_SIMD` requests; no limit if it is absent or not the name of a level.
fn named(name: Option<&str>) -> Level {
    match name {
        Some("base") => Level::Base,
        Some("v3") => Level::V3,
        _ => Level::V4,
    }
}

/// The instruction sets of each level, listed only here: `instructions!(v3 detected)` tests whether the machine has
/// them, `instructions!(v3 fn ..)` compiles a function for them. `v4_bf16` is level 4 with products of bfloat16.
#[macro_export]
macro_rules! instructions {
    (base $($function:tt)*) => { $($function)* };
    (v3 $($use:tt)*) => {
        $crate::instructions! { @ ["avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"] $($use)* }
    };
    (v4 $($use:tt)*) => {
        $crate::instructions! { @ ["avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"
            "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512cd"] $($use)* }
    };
    (v4_bf16 $($use:tt)*) => {
        $crate::instructions! { @ ["avx" "avx2" "fma" "f16c" "bmi1" "bmi2" "lzcnt" "popcnt"
            "avx512f" "avx512bw" "avx512dq" "avx512vl" "avx512cd" "avx512bf16"] $($use)* }
    };
    (@ [$($feature:tt)*] detected) => { $(std::arch::is_x86_feature_detected!($feature))&&* };
    (@ [$($feature:tt)*] $($function:tt)*) => { #[target_feature($(enable = $feature),*)] $($function)* };
}

/// Compiles a function once per [`Level`] and calls the version for the level in use.
///
/// The first generic parameter, if there is one, names the [`Isa`](crate::Isa) in the body; it does not belong to the
/// finished function. Further ones are ordinary type parameters, each with one bound. The function may be `unsafe` or
/// not; the body is an ordinary body of such a function. Its parameters are plain names.
///
/// The body must be *visible* to the compiler as a whole: functions that it calls should be `#[inline(always)]`, or
/// they are compiled for the baseline only. Everything in [`math`](crate::math) is.
///
/// ```
/// use rushlight_simd::{multiversion, Isa, Math};
///
/// multiversion! {
///     /// `dst[i] = exp(a[i]) * b + c`
///     pub fn scaled_exp<S, T: Math>(dst: &mut [T], a: &[T], b: T, c: T) {
///         for (d, &a) in dst.iter_mut().zip(a) {
///             *d = S::mul_add(S::exp(a), b, c);
///         }
///     }
/// }
///
/// let mut out = [0.0f32; 3];
/// scaled_exp(&mut out, &[0.0, 1.0, f32::NEG_INFINITY], 2.0, 1.0);
/// assert_eq!(out, [3.0, 1.0 + 2.0 * std::f32::consts::E, 1.0]);
/// ```
///
/// Without mathematics no parameter is needed, and kernels over shared memory take pointers:
///
/// ```
/// rushlight_simd::multiversion! {
///     unsafe fn add(dst: *mut i32, a: *const i32, b: *const i32, n: usize) {
///         for i in 0..n {
///             // SAFETY: the caller gives n elements behind each pointer.
///             unsafe { *dst.add(i) = (*a.add(i)).wrapping_add(*b.add(i)) }
///         }
///     }
/// }
/// let mut out = [0; 2];
/// // SAFETY: two elements each.
/// unsafe { add(out.as_mut_ptr(), [1, 2].as_ptr(), [3, 4].as_ptr(), 2) };
/// assert_eq!(out, [4, 6]);
/// ```
#[macro_export]
macro_rules! multiversion {
    (@sig [$($head:tt)*] [$($unsafe:tt)?] $name:ident ($($args:tt)*) $($rest:tt)*) => {
        $crate::multiversion!(@sig [$($head)*] [$($unsafe)?] $name <AnyIsa> ($($args)*) $($rest)*);
    };
    (@sig [$($head:tt)*] [$($unsafe:tt)?] $name:ident <$isa:ident $(, $T:ident : $bound:path)* $(,)?>
        ($($arg:ident : $type:ty),* $(,)?) $(-> $ret:ty)? $body:block) => {
        $($head)* $($unsafe)? fn $name<$($T: $bound),*>($($arg: $type),*) $(-> $ret)? {
            /// # Safety
            /// The contract of the whole function.
            #[inline(always)]
            $($unsafe)? fn body<$isa: $crate::Isa $(, $T: $bound)*>($($arg: $type),*) $(-> $ret)? $body

            #[cfg(target_arch = "x86_64")]
            $crate::instructions! { v3
                /// # Safety
                /// Same as for `body`, and the machine is of level 3.
                unsafe fn v3<$($T: $bound),*>($($arg: $type),*) $(-> $ret)? {
                    #[allow(unused_unsafe)]
                    // SAFETY: the caller upholds the contract of the whole function.
                    unsafe { body::<$crate::V3 $(, $T)*>($($arg),*) }
                }
            }
            #[cfg(target_arch = "x86_64")]
            $crate::instructions! { v4
                /// # Safety
                /// Same as for `body`, and the machine is of level 4.
                unsafe fn v4<$($T: $bound),*>($($arg: $type),*) $(-> $ret)? {
                    #[allow(unused_unsafe)]
                    // SAFETY: the caller upholds the contract of the whole function.
                    unsafe { body::<$crate::V4 $(, $T)*>($($arg),*) }
                }
            }
            #[allow(unused_unsafe)]
            match $crate::level() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `level()` never exceeds the machine's level; the caller upholds the rest of the contract.
                $crate::Level::V4 => unsafe { v4::<$($T),*>($($arg),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                $crate::Level::V3 => unsafe { v3::<$($T),*>($($arg),*) },
                // SAFETY: as above.
                _ => unsafe { body::<$crate::Base $(, $T)*>($($arg),*) },
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis unsafe fn $($rest:tt)*) => {
        $crate::multiversion!(@sig [$(#[$meta])* $vis] [unsafe] $($rest)*);
    };
    ($(#[$meta:meta])* $vis:vis fn $($rest:tt)*) => {
        $crate::multiversion!(@sig [$(#[$meta])* $vis] [] $($rest)*);
    };
}

/// [`multiversion!`](crate::multiversion) as an expression: a loop in the form of a closure, which becomes an
/// `unsafe fn` pointer and may stand in a `const` or `static`.
///
/// `for<S>` before the bars names the [`Isa`](crate::Isa). Because the body is pasted as text, and not passed as a
/// closure, the compiler sees it inside the shells; so another macro can build kernels from an expression:
///
/// ```
/// use rushlight_simd::{simd_loop, Isa};
///
/// macro_rules! unary {
///     ($t:ty, $isa:ident, |$x:ident| $value:expr) => {
///         simd_loop!(for<$isa> |dst: *mut $t, a: *const $t, n: usize| {
///             for i in 0..n {
///                 // SAFETY: the caller gives n elements behind each pointer.
///                 unsafe {
///                     let $x = *a.add(i);
///                     *dst.add(i) = $value;
///                 }
///             }
///         })
///     };
/// }
///
/// const SIGMOID: unsafe fn(*mut f32, *const f32, usize) = unary!(f32, S, |x| S::sigmoid(x));
/// let mut out = [0.0; 2];
/// // SAFETY: two elements each.
/// unsafe { SIGMOID(out.as_mut_ptr(), [0.0, f32::INFINITY].as_ptr(), 2) };
/// assert_eq!(out, [0.5, 1.0]);
/// ```
#[macro_export]
macro_rules! simd_loop {
    (for<$isa:ident> |$($arg:ident : $type:ty),* $(,)?| -> $ret:ty $body:block) => {{
        $crate::multiversion! {
            /// # Safety
            /// The conditions on which the loop's body relies.
            unsafe fn kernel<$isa>($($arg: $type),*) -> $ret $body
        }
        kernel as unsafe fn($($type),*) -> $ret
    }};
    (for<$isa:ident> |$($arg:ident : $type:ty),* $(,)?| $body:expr) => {{
        $crate::multiversion! {
            /// # Safety
            /// The conditions on which the loop's body relies.
            unsafe fn kernel<$isa>($($arg: $type),*) { $body }
        }
        kernel as unsafe fn($($type),*)
    }};
    (| $($rest:tt)*) => { $crate::simd_loop!(for<AnyIsa> | $($rest)*) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_nested_and_only_lowered() {
        assert!(Level::Base < Level::V3 && Level::V3 < Level::V4);
        let _guard = crate::testing::lock_level();
        for wanted in Level::ALL {
            let got = set_level(wanted);
            assert_eq!(got, wanted.min(machine_level()));
            assert_eq!(level(), got);
        }
        set_level(Level::V4);
    }

    #[test]
    fn names_of_levels() {
        assert_eq!(named(Some("base")), Level::Base);
        assert_eq!(named(Some("v3")), Level::V3);
        assert_eq!(named(Some("anything")), Level::V4);
        assert_eq!(named(None), Level::V4);
    }
}
