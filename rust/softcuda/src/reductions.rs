//! Sums, products and the like of memory of several ranks, as NCCL makes them. Ranks are taken in their order.

use std::ffi::c_int;

use half::{bf16, f16};

pub const SUM: c_int = 0;
pub const PRODUCT: c_int = 1;
pub const MAX: c_int = 2;
pub const MIN: c_int = 3;
pub const AVERAGE: c_int = 4;

/// The bytes of a value of a type (`ncclDataType_t`).
pub fn bytes_of(code: c_int) -> Option<usize> {
    Some(match code {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

/// Whether values of a type can be reduced so. Those of float8 need a card of another kind.
pub fn is_supported(code: c_int, reduction: c_int) -> bool {
    (0..=9).contains(&code) && (SUM..=AVERAGE).contains(&reduction)
}

trait Number: Copy {
    fn join(self, other: Self, reduction: c_int) -> Self;
    fn divide(self, count: usize) -> Self;
}

macro_rules! integers {
    ($($kind:ty)*) => {
        $(impl Number for $kind {
            fn join(self, other: Self, reduction: c_int) -> Self {
                match reduction {
                    PRODUCT => self.wrapping_mul(other),
                    MAX => self.max(other),
                    MIN => self.min(other),
                    _ => self.wrapping_add(other),
                }
            }

            fn divide(self, count: usize) -> Self { self / count as Self }
        })*
    };
}

macro_rules! floats {
    ($($kind:ty)*) => {
        $(impl Number for $kind {
            fn join(self, other: Self, reduction: c_int) -> Self {
                match reduction {
                    PRODUCT => self * other,
                    MAX if self > other || self.is_nan() => self,
                    MIN if self < other || self.is_nan() => self,
                    MAX | MIN => other,
                    _ => self + other,
                }
            }

            fn divide(self, count: usize) -> Self { self / <$kind>::from(count as u8) }
        })*
    };
}

integers! { i8 u8 i32 u32 i64 u64 }
floats! { f16 bf16 f32 f64 }

fn reduce<T: Number>(parts: &[Vec<u8>], reduction: c_int) -> Vec<u8> {
    let size = size_of::<T>();
    // SAFETY: a part has whole values, which may have any bits.
    let value = |part: &Vec<u8>, at: usize| unsafe { part.as_ptr().add(at * size).cast::<T>().read_unaligned() };
    let mut result = parts[0].clone();
    for at in 0..result.len() / size {
        let mut total =
            parts[1..].iter().fold(value(&parts[0], at), |total, part| total.join(value(part, at), reduction));
        if reduction == AVERAGE {
            total = total.divide(parts.len());
        }
        // SAFETY: as above.
        unsafe { result.as_mut_ptr().add(at * size).cast::<T>().write_unaligned(total) };
    }
    result
}

/// The reduction of the ranks' parts, which have one length.
pub fn of(parts: &[Vec<u8>], code: c_int, reduction: c_int) -> Vec<u8> {
    match code {
        0 => reduce::<i8>(parts, reduction),
        1 => reduce::<u8>(parts, reduction),
        2 => reduce::<i32>(parts, reduction),
        3 => reduce::<u32>(parts, reduction),
        4 => reduce::<i64>(parts, reduction),
        5 => reduce::<u64>(parts, reduction),
        6 => reduce::<f16>(parts, reduction),
        7 => reduce::<f32>(parts, reduction),
        8 => reduce::<f64>(parts, reduction),
        _ => reduce::<bf16>(parts, reduction),
    }
}
