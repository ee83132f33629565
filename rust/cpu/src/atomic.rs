//! Atomic additions, which no other thread or process can undo: an element is exchanged only if it still has the value
//! that was read.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{Layout, Scalar};

use crate::index::gather::IndexedOperand;
use crate::pointwise::GRAIN;

/// A number that can be added to in shared memory.
pub trait Number: Copy {
    /// The numbers in which sums are computed; each is rounded once.
    type Term: Copy;

    fn product(number: Self, factor: Scalar) -> Self::Term;

    /// Adds to the number at `place`.
    ///
    /// # Safety
    /// `place` is aligned and may be written.
    unsafe fn add(place: *mut u8, term: Self::Term);
}

macro_rules! float {
    ($float:ty, $term:ty, $atomic:ty, $widen:expr, $round:expr) => {
        impl Number for $float {
            type Term = $term;

            fn product(number: $float, factor: Scalar) -> $term {
                $widen(number) * factor.f64() as $term
            }

            #[inline(always)]
            unsafe fn add(place: *mut u8, term: $term) {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                let cell = unsafe { <$atomic>::from_ptr(place.cast()) };
                let mut old = cell.load(Ordering::Relaxed);
                loop {
                    let new: $float = $round($widen(<$float>::from_bits(old)) + term);
                    match cell.compare_exchange_weak(old, new.to_bits(), Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return,
                        Err(found) => old = found,
                    }
                }
            }
        }
    };
}

float!(f16, f32, AtomicU16, f16::to_f32, f16::from_f32);
float!(bf16, f32, AtomicU16, bf16::to_f32, bf16::from_f32);
float!(f32, f32, AtomicU32, std::convert::identity, std::convert::identity);
float!(f64, f64, AtomicU64, std::convert::identity, std::convert::identity);

// Sums of integers wrap around, and so those of unsigned numbers have the same bits.
macro_rules! integer {
    ($($integer:ty, $atomic:ty;)*) => {$(
        impl Number for $integer {
            type Term = $integer;

            fn product(number: $integer, factor: Scalar) -> $integer {
                number.wrapping_mul(factor.i64() as $integer)
            }

            #[inline(always)]
            unsafe fn add(place: *mut u8, term: $integer) {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe { <$atomic>::from_ptr(place.cast()) }.fetch_add(term as _, Ordering::Relaxed);
            }
        }
    )*};
}

integer! {
    i8, AtomicU8;
    i16, AtomicU16;
    i32, AtomicU32;
    i64, AtomicU64;
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// `to += factor * from`, element by element.
///
/// # Safety
/// Both hold elements `T` at every position of their layouts, which have the same sizes; those of `to` are aligned.
pub unsafe fn add<T: Number>(to: IndexedOperand, from: IndexedOperand, factor: Scalar) {
    let nest = LoopNest::new([to.layout, from.layout], [size_of::<T>(); 2]);
    let [out, input] = nest.inner_strides();
    rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
        nest.runs(range, |at, n| {
            for place in 0..n as isize {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    let number = from.at(at[1] + place * input).cast::<T>().read_unaligned();
                    T::add(to.at(at[0] + place * out), T::product(number, factor));
                }
            }
        });
    });
}

/// `to[index[i]] += factor * from[i]`, on one thread, so that repeated indices are always added in the same order.
///
/// # Safety
/// As `add`, where `from` has as many rows as the index has 64-bit integers, each of which is a row of `to`, and the
/// rows of both have the same sizes. No other thread writes to the index.
pub unsafe fn add_rows<T: Number>(to: IndexedOperand, index: IndexedOperand, from: IndexedOperand, factor: Scalar) {
    let row = to.layout.strides[0] * size_of::<T>() as isize;
    let mut target = Layout { sizes: from.layout.sizes.clone(), ..to.layout.clone() };
    target.strides[0] = 0;
    let mut names = Layout { offset: index.layout.offset, ..from.layout.clone() };
    names.strides.fill(0);
    names.strides[0] = index.layout.strides[0];
    let nest = LoopNest::new([&target, from.layout, &names], [size_of::<T>(), size_of::<T>(), size_of::<i64>()]);
    let [out, input, step] = nest.inner_strides();
    nest.runs(0..nest.numel(), |at, n| {
        for place in 0..n as isize {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let named = index.at(at[2] + place * step).cast::<i64>().read_unaligned() as isize;
                let number = from.at(at[1] + place * input).cast::<T>().read_unaligned();
                T::add(to.at(at[0] + place * out + named * row), T::product(number, factor));
            }
        }
    });
}
