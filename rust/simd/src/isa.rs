//! Marker types for the [`Level`] for which a loop's body is compiled.
//!
//! `cfg!(target_feature)` does not see the features of a `#[target_feature]` shell, so the shells of
//! [`multiversion!`](crate::multiversion) pass one of these types to the body instead.

use crate::Level;

pub use crate::math::Isa;

/// The baseline of the architecture.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base;

/// AVX2 with FMA.
#[derive(Clone, Copy, Debug, Default)]
pub struct V3;

/// AVX-512.
#[derive(Clone, Copy, Debug, Default)]
pub struct V4;

impl Isa for Base {
    const LEVEL: Level = Level::Base;
    const FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
}

impl Isa for V3 {
    const LEVEL: Level = Level::V3;
    const FMA: bool = true;
}

impl Isa for V4 {
    const LEVEL: Level = Level::V4;
    const FMA: bool = true;
}
