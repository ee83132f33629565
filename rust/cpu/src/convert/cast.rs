//! Moving elements: strided to contiguous, contiguous to strided, and from one dtype to another.
//!
//! Every kernel works on contiguous elements of its own compute dtype. Elements in any other form pass through these
//! functions, tile by tile, so that no kernel is compiled for strides or for half types.

use half::{bf16, f16};
use num_complex::Complex;
use rushlight_core::dtype::Cast;
use rushlight_core::{Bool, DType};
use rushlight_simd::multiversion;

/// Converts `n` contiguous elements.
///
/// # Safety
/// `n` elements of their dtypes on both sides, which do not overlap partially.
pub type Convert = unsafe fn(to: *mut u8, from: *const u8, n: usize);

multiversion! {
    /// # Safety
    /// `n` elements on both sides.
    unsafe fn convert<S, T: Sized, F: Cast<T>>(to: *mut u8, from: *const u8, n: usize) {
        let (to, from) = (to.cast::<T>(), from.cast::<F>());
        for i in 0..n {
            // SAFETY: the caller gives `n` elements on both sides; foreign memory may be unaligned to its type.
            unsafe { to.add(i).write_unaligned(from.add(i).read_unaligned().cast()) };
        }
    }
}

macro_rules! converters {
    ($from:expr, $to:expr; $($name:ident: $type:ty),*) => {
        converters!(@from $from, $to; [$($name: $type),*]; [$($name: $type),*])
    };
    (@from $from:expr, $to:expr; [$($name:ident: $type:ty),*]; $all:tt) => {
        match $from { $(DType::$name => converters!(@to $to; $type; $all),)* }
    };
    (@to $to:expr; $source:ty; [$($name:ident: $type:ty),*]) => {
        match $to { $(DType::$name => convert::<$type, $source> as Convert,)* }
    };
}

/// The function that converts contiguous elements of one dtype to another.
pub fn converter(from: DType, to: DType) -> Convert {
    use rushlight_simd::convert as fast;
    /// # Safety
    /// `n` elements of `WIDTH` bytes on both sides.
    unsafe fn copy<const WIDTH: usize>(to: *mut u8, from: *const u8, n: usize) {
        // SAFETY: the caller guarantees that both sides hold `n` elements of WIDTH bytes and do not overlap partially.
        unsafe { std::ptr::copy(from, to, n * WIDTH) };
    }
    match (from, to) {
        (DType::F16, DType::F32) => {
            // SAFETY: the contract of `Convert` covers this.
            return |t, f, n| unsafe { fast::f16_to_f32(t.cast(), f.cast(), n) };
        }
        (DType::F32, DType::F16) => {
            // SAFETY: the contract of `Convert` covers this.
            return |t, f, n| unsafe { fast::f32_to_f16(t.cast(), f.cast(), n) };
        }
        (DType::BF16, DType::F32) => {
            // SAFETY: the contract of `Convert` covers this.
            return |t, f, n| unsafe { fast::bf16_to_f32(t.cast(), f.cast(), n) };
        }
        (DType::F32, DType::BF16) => {
            // SAFETY: the contract of `Convert` covers this.
            return |t, f, n| unsafe { fast::f32_to_bf16(t.cast(), f.cast(), n) };
        }
        _ if from == to => {
            return match from.size() {
                1 => copy::<1>,
                2 => copy::<2>,
                4 => copy::<4>,
                8 => copy::<8>,
                _ => copy::<16>,
            };
        }
        _ => {}
    }
    converters!(from, to;
        U8: u8, I8: i8, I16: i16, I32: i32, I64: i64, F16: f16, F32: f32, F64: f64, C64: Complex<f32>, C128: Complex<f64>,
        Bool: Bool, BF16: bf16, U16: u16, U32: u32, U64: u64)
}

/// Copies `n` elements of `width` bytes with a byte stride on each side.
///
/// # Safety
/// Both sides hold `n` elements at these strides.
pub unsafe fn move_strided(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize, width: usize) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        if to_step == width as isize && from_step == width as isize {
            std::ptr::copy(from, to, n * width);
            return;
        }
        match width {
            1 => step::<u8>(to, to_step, from, from_step, n),
            2 => step::<u16>(to, to_step, from, from_step, n),
            4 => step::<u32>(to, to_step, from, from_step, n),
            8 => step::<u64>(to, to_step, from, from_step, n),
            _ => step::<u128>(to, to_step, from, from_step, n),
        }
    }
}

multiversion! {
    /// Repeated elements and backward steps have loops of their own, which use whole registers.
    unsafe fn step<S, T: Copy>(to: *mut u8, to_step: isize, from: *const u8, from_step: isize, n: usize) {
        let size = size_of::<T>() as isize;
        let (target, source) = (to.cast::<T>(), from.cast::<T>());
        // SAFETY: guaranteed by the caller (see `# Safety` of `move_strided`); unaligned because foreign memory may be.
        unsafe {
            if to_step == size && from_step == 0 {
                let value = source.read_unaligned();
                for i in 0..n {
                    target.add(i).write_unaligned(value);
                }
            } else if to_step == size && from_step == -size {
                for i in 0..n {
                    target.add(i).write_unaligned(source.sub(i).read_unaligned());
                }
            } else {
                for i in 0..n as isize {
                    let value = from.offset(i * from_step).cast::<T>().read_unaligned();
                    to.offset(i * to_step).cast::<T>().write_unaligned(value);
                }
            }
        }
    }
}
