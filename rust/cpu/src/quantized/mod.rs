//! Numbers as integers and back: `integer = round(number / scale) + zero_point`, limited to the integer's range.
//!
//! The roundings are torch's, bit for bit, and differ between its forms. With one scale for the whole tensor a number is
//! multiplied by the scale's inverse; bytes add the zero point in the same rounding (a fused multiplication and
//! addition), wider integers in a second one. With a scale for each channel the zero point is added to the product with the
//! inverse, before one rounding.

pub mod product;

use rushlight_par::Address;
use rushlight_simd::multiversion;

/// Elements worth a task of their own.
const TASK: usize = 1 << 15;

/// An integer that stands for a number.
pub trait Quantum: Copy + Send + Sync + 'static {
    /// With the inverse of the scale.
    fn by_inverse(number: f32, inverse: f32, zero_point: f32) -> Self;
    /// The product with the inverse plus the zero point; NaN is what the processor's conversion makes of it.
    fn limited(sum: f32) -> Self;
    /// The product with the inverse plus a zero point that is a float.
    fn by_sum(sum: f32) -> Self;
    /// The difference to the zero point, as a float.
    fn centred(self, zero_point: i32) -> f32;
    fn to_f32(self) -> f32;
}

macro_rules! byte {
    ($type:ty) => {
        impl Quantum for $type {
            #[inline(always)]
            fn by_inverse(number: f32, inverse: f32, zero_point: f32) -> Self {
                let rounded = number.mul_add(inverse, zero_point).round_ties_even();
                // NaN becomes the greatest.
                let low = if rounded < <$type>::MAX as f32 { rounded } else { <$type>::MAX as f32 };
                let limited = if low > <$type>::MIN as f32 { low } else { <$type>::MIN as f32 };
                // SAFETY: the value lies in the range of the type.
                unsafe { limited.to_int_unchecked::<i32>() as $type }
            }

            #[inline(always)]
            fn limited(sum: f32) -> Self {
                if sum.is_nan() { 0 } else { sum.round_ties_even() as $type }
            }

            #[inline(always)]
            fn by_sum(sum: f32) -> Self {
                // The conversion of the processor gives the least integer for numbers beyond 32 bits.
                if sum.abs() < 2_147_483_648.0 { sum.round_ties_even() as $type } else { <$type>::MIN }
            }

            #[inline(always)]
            fn centred(self, zero_point: i32) -> f32 {
                (self as i32).wrapping_sub(zero_point) as f32
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
        }
    };
}

byte!(u8);
byte!(i8);

impl Quantum for i32 {
    #[inline(always)]
    fn by_inverse(number: f32, inverse: f32, zero_point: f32) -> Self {
        i32::by_sum(number * inverse + zero_point)
    }

    #[inline(always)]
    fn limited(sum: f32) -> Self {
        i32::by_sum(sum)
    }

    #[inline(always)]
    fn by_sum(sum: f32) -> Self {
        if sum.is_nan() { i32::MIN } else { sum.round_ties_even() as i32 }
    }

    #[inline(always)]
    fn centred(self, zero_point: i32) -> f32 {
        self.wrapping_sub(zero_point) as f32
    }

    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
}

multiversion! {
    /// # Safety
    /// `count` elements behind each pointer.
    unsafe fn quantize_run<S, T: Quantum>(
        to: *mut T, from: *const f32, count: usize, inverse: f32, zero_point: f32
    ) {
        for i in 0..count {
            // SAFETY: guaranteed by the caller.
            unsafe { to.add(i).write(T::by_inverse(from.add(i).read(), inverse, zero_point)) }
        }
    }
}

multiversion! {
    /// # Safety
    /// `count` elements behind each pointer.
    unsafe fn dequantize_run<S, T: Quantum>(
        to: *mut f32, from: *const T, count: usize, scale: f32, zero_point: i32
    ) {
        for i in 0..count {
            // SAFETY: guaranteed by the caller.
            unsafe { to.add(i).write(from.add(i).read().centred(zero_point) * scale) }
        }
    }
}

/// Numbers as integers with one scale.
///
/// # Safety
/// `count` elements behind each pointer.
pub unsafe fn quantize<T: Quantum>(to: *mut T, from: *const f32, count: usize, scale: f64, zero_point: i64) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    let inverse = 1.0 / scale as f32;
    rushlight_par::parallel_for(count, TASK, |range| {
        // SAFETY: the range lies within the elements, and each is written by one task.
        unsafe { quantize_run(to.at(range.start), from.at(range.start), range.len(), inverse, zero_point as f32) }
    });
}

/// Integers as numbers with one scale.
///
/// # Safety
/// `count` elements behind each pointer.
pub unsafe fn dequantize<T: Quantum>(to: *mut f32, from: *const T, count: usize, scale: f64, zero_point: i64) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    rushlight_par::parallel_for(count, TASK, |range| {
        // SAFETY: as in `quantize`.
        unsafe {
            dequantize_run(to.at(range.start), from.at(range.start), range.len(), scale as f32, zero_point as i32)
        }
    });
}

/// The zero points of the channels: integers, or floats that are added before rounding.
#[derive(Clone, Copy)]
pub enum ZeroPoints<'a> {
    Ints(&'a [i64]),
    Floats(&'a [f32]),
}

/// A scale and a zero point for each channel; a channel is `inner` consecutive elements.
#[derive(Clone, Copy)]
pub struct Channels<'a> {
    pub scales: &'a [f64],
    pub zero_points: ZeroPoints<'a>,
    pub inner: usize,
}

impl Channels<'_> {
    /// Calls `task(channel, first)` with the first element of each run of each channel.
    fn each(&self, count: usize, task: impl Fn(usize, usize) + Sync) {
        let runs = count.checked_div(self.inner).unwrap_or(0);
        rushlight_par::parallel_for(runs, TASK.div_ceil(self.inner.max(1)), |range| {
            range.for_each(|run| task(run % self.scales.len(), run * self.inner));
        });
    }
}

/// Numbers as integers with a scale for each channel.
///
/// # Safety
/// `count` elements behind each pointer, a multiple of the channels' elements; as many zero points as scales.
pub unsafe fn quantize_channels<T: Quantum>(to: *mut T, from: *const f32, count: usize, channels: Channels) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    channels.each(count, |channel, first| {
        let inverse = 1.0 / channels.scales[channel] as f32;
        for i in first..first + channels.inner {
            // SAFETY: the run lies within the elements, and each is written by one task.
            unsafe {
                let number = from.at(i).read();
                to.at(i).write(match channels.zero_points {
                    ZeroPoints::Ints(list) => T::limited(number * inverse + list[channel] as f32),
                    ZeroPoints::Floats(list) => T::by_sum(number * inverse + list[channel]),
                });
            }
        }
    });
}

/// Integers as numbers with a scale for each channel.
///
/// # Safety
/// Same as for `quantize_channels`.
pub unsafe fn dequantize_channels<T: Quantum>(to: *mut f32, from: *const T, count: usize, channels: Channels) {
    let (to, from) = (Address(to), Address(from.cast_mut()));
    channels.each(count, |channel, first| {
        let scale = channels.scales[channel];
        for i in first..first + channels.inner {
            // SAFETY: as in `quantize_channels`.
            unsafe {
                let integer = from.at(i).read().to_f32();
                to.at(i).write(match channels.zero_points {
                    ZeroPoints::Ints(list) => (f64::from(integer - list[channel] as f32) * scale) as f32,
                    ZeroPoints::Floats(list) => (integer - list[channel]) * scale as f32,
                });
            }
        }
    });
}
