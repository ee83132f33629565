//! Integers, as values of any dtype, and permutations.

use crate::{Element, FullRange, FullRange64, Stream};
use std::fmt;

/// A checked range of integers for one dtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntRange {
    base: i64,
    count: u64,
}

impl IntRange {
    /// The least integer.
    pub fn base(self) -> i64 {
        self.base
    }

    /// How many integers there are.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The integers in [from, to) for elements of type `T`.
    ///
    /// A bound that a floating type cannot represent moves inward to the next number that it can.
    pub fn new<T: Element>(from: i64, to: i64) -> Result<Self, RangeError> {
        if from >= to {
            return Err(RangeError::Empty { from, to });
        }
        let (from, to) = (round_up::<T>(from), round_down::<T>(to));
        if from >= to {
            return Err(RangeError::EmptyInDtype { from, to });
        }
        check_bound::<T>("from", from)?;
        check_bound::<T>("to - 1", to - 1)?;
        Ok(Self { base: from, count: to.wrapping_sub(from) as u64 })
    }

    /// The integers from `from` to the greatest value of type `T`; for floating types to the greatest integer up to
    /// which all are exact.
    ///
    /// torch treats `from = -2**63` separately, see [`random_full_64_bits`].
    pub fn starting<T: Element>(from: i64) -> Result<Self, RangeError> {
        let greatest = T::DIGITS.map_or(T::BOUNDS.1 as i64, |digits| 1 << digits);
        let from = round_up::<T>(from);
        if T::DIGITS.is_some() && from >= greatest {
            return Err(RangeError::EmptyFrom { from, greatest });
        }
        check_bound::<T>("from", from)?;
        // torch uses the greatest uint64 as -1 here, so it never accepts that dtype.
        check_bound::<T>("to - 1", if T::BOUNDS.1 > i64::MAX as f64 { -1 } else { greatest })?;
        Ok(Self { base: from, count: (greatest.wrapping_sub(from) as u64).wrapping_add(1) })
    }
}

fn check_bound<T: Element>(bound: &'static str, value: i64) -> Result<(), RangeError> {
    let (least, greatest) = T::BOUNDS;
    match value as f64 {
        x if x >= least && x <= greatest => Ok(()),
        _ => Err(RangeError::OutOfBounds { bound, dtype: T::C_NAME }),
    }
}

/// `from`, or if rounding would lose it, the next greater number of the floating type `T`.
fn round_up<T: Element>(from: i64) -> i64 {
    let Some(digits) = T::DIGITS else { return from };
    let next = through::<T>(from.wrapping_add(1));
    if next >= from { from } else { next.wrapping_add(spacing(from.wrapping_add(1), digits)) }
}

/// `to`, or if the number before it rounds up to it, the next smaller number of the floating type `T`.
fn round_down<T: Element>(to: i64) -> i64 {
    let Some(digits) = T::DIGITS else { return to };
    let before = through::<T>(to.wrapping_sub(1));
    if before < to { to } else { before.wrapping_sub(spacing(to.wrapping_sub(1), digits)) }
}

/// The value after a conversion to `T` and back; a value that does not fit in 64 bits becomes the smallest, as on x86.
fn through<T: Element>(value: i64) -> i64 {
    let x = T::from_i64(value).to_f64();
    if x >= -(2f64.powi(63)) && x < 2f64.powi(63) { x as i64 } else { i64::MIN }
}

/// The distance between adjacent numbers at `value` in a floating type with `digits` bits.
fn spacing(value: i64, digits: u32) -> i64 {
    1i64.checked_shl((value.unsigned_abs().checked_ilog2().unwrap_or(0) + 1).saturating_sub(digits)).unwrap_or(0)
}

/// Integers of `range`. A range of fewer than 2^28 integers takes one word per value, larger ones two.
pub fn random_from_to<T: Element>(stream: &mut Stream, out: &mut [T], range: IntRange) {
    let IntRange { base, count } = range;
    let place = |offset: u64| T::from_i64(base.wrapping_add_unsigned(offset));
    if count == 0 {
        // The full range of 64 bits.
        stream.engine.fill64(out, place);
    } else if count >= 1 << 28 {
        stream.engine.fill64(out, |word| place(word % count));
    } else {
        let count = count as u32;
        stream.engine.fill(out, |word| place((word % count).into()));
    }
}

/// Any non-negative value of the dtype; for floating types up to the greatest integer up to which all are exact.
pub fn random<T: FullRange>(stream: &mut Stream, out: &mut [T]) {
    out.fill_with(|| T::draw(stream));
}

/// Any 64-bit integer.
pub fn random_full_64_bits<T: FullRange64>(stream: &mut Stream, out: &mut [T]) {
    stream.engine.fill64(out, |word| T::from_i64(word as i64));
}

/// From this length on torch uses 64 random bits, because the remainder of 32 bits is not uniform enough.
const LONG: usize = u32::MAX as usize / 20;

/// A random permutation of the integers from 0 to the slice's length.
pub fn randperm<T: Element>(stream: &mut Stream, out: &mut [T]) {
    if out.len() < LONG {
        for (i, value) in out.iter_mut().enumerate() {
            *value = T::from_i64(i as i64);
        }
        for i in 0..out.len().saturating_sub(1) {
            let ahead = stream.random() % (out.len() - i) as u32;
            out.swap(i, i + ahead as usize);
        }
    } else {
        // Inside-out Fisher-Yates: each number takes a position among those before it, and the number that was there
        // moves to the end.
        for i in 0..out.len() {
            let place = (stream.random64() % (i as u64 + 1)) as usize;
            out[i] = out[place];
            out[place] = T::from_i64(i as i64);
        }
    }
}

/// Why a range of integers is invalid; the words are torch's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    Empty { from: i64, to: i64 },
    EmptyInDtype { from: i64, to: i64 },
    EmptyFrom { from: i64, greatest: i64 },
    OutOfBounds { bound: &'static str, dtype: &'static str },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty { from, to } => {
                write!(f, "random_ expects 'from' to be less than 'to', but got from={from} >= to={to}")
            }
            Self::EmptyInDtype { from, to } => write!(
                f,
                "random_ expects 'from' casted to dtype to be less than 'to' casted to dtype, \
                 but got from={from} >= to={to}"
            ),
            Self::EmptyFrom { from, greatest } => write!(
                f,
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted to dtype, \
                 but got from={from} > to_inc={greatest}"
            ),
            Self::OutOfBounds { bound, dtype } => write!(f, "{bound} is out of bounds for {dtype}"),
        }
    }
}

impl std::error::Error for RangeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn ranges_are_checked_in_torchs_words() {
        let says = |range: Result<IntRange, RangeError>| range.unwrap_err().to_string();
        assert_eq!(
            says(IntRange::new::<i64>(3, 3)),
            "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"
        );
        assert_eq!(says(IntRange::new::<u8>(0, 300)), "to - 1 is out of bounds for unsigned char");
        assert_eq!(says(IntRange::new::<u64>(-1, 3)), "from is out of bounds for long unsigned int");
        assert_eq!(says(IntRange::new::<f16>(0, 70_000)), "to - 1 is out of bounds for c10::Half");
        assert_eq!(says(IntRange::starting::<u64>(1)), "to - 1 is out of bounds for long unsigned int");
        assert!(says(IntRange::new::<f16>(65_503, 65_504)).starts_with("random_ expects 'from' casted"));
        assert!(says(IntRange::starting::<f32>(1 << 30)).contains("to_inc=16777216"));
    }

    #[test]
    fn extreme_ranges_do_not_overflow() {
        for (from, to) in [(i64::MIN, i64::MAX), (i64::MIN, i64::MIN + 1), (i64::MAX - 1, i64::MAX), (-1, i64::MAX)] {
            let mut stream = Stream::default();
            let range = IntRange::new::<i64>(from, to).unwrap();
            let mut out = [0; 100];
            random_from_to(&mut stream, &mut out, range);
            assert!(out.iter().all(|&x| from <= x && x < to));
            let floats =
                [IntRange::new::<f32>(from, to), IntRange::new::<f16>(from, to), IntRange::starting::<f32>(from)];
            for range in floats.into_iter().flatten() {
                random_from_to(&mut stream, &mut [0f32; 10], range);
            }
        }
    }
}
