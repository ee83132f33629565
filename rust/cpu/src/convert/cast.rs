//! Moving elements: strided to contiguous, contiguous to strided, and from one dtype to another.
//!
//! Every kernel works on contiguous elements of its own compute dtype. Elements in any other form pass through these
//! functions, tile by tile, so that no kernel is compiled for strides or for half types.
//!
//! complex32 and the 8-bit floats are converted from and to float32 and complex64 alone, and through these to all others.

use half::{bf16, f16};
use num_complex::Complex;
use rushlight_core::dtype::{Cast, c32, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0fnu};
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
        match $from { $(DType::$name => converters!(@to $from, $to; $type; $all),)* _ => stored($from, $to) }
    };
    (@to $from:expr, $to:expr; $source:ty; [$($name:ident: $type:ty),*]) => {
        match $to { $(DType::$name => convert::<$type, $source> as Convert,)* _ => stored($from, $to) }
    };
}

/// How contiguous elements of one dtype are converted to another: in one step, or through a third dtype.
#[derive(Clone, Copy)]
pub struct Converter {
    first: Convert,
    /// The second step, and the bytes of an element of each dtype.
    second: Option<(Convert, [usize; 3])>,
}

impl Converter {
    /// Converts `n` contiguous elements.
    ///
    /// # Safety
    /// The contract of [`Convert`].
    #[inline]
    pub unsafe fn run(self, to: *mut u8, from: *const u8, n: usize) {
        match self.second {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            None => unsafe { (self.first)(to, from, n) },
            // SAFETY: as above.
            Some((second, widths)) => unsafe { two_steps([self.first, second], widths, to, from, n) },
        }
    }
}

/// # Safety
/// `n` elements of the first width at `from`, and of the last at `to`.
#[inline(never)]
unsafe fn two_steps(steps: [Convert; 2], widths: [usize; 3], to: *mut u8, from: *const u8, n: usize) {
    const PIECE: usize = 512;
    let mut between = std::mem::MaybeUninit::<[u64; PIECE]>::uninit();
    let between = between.as_mut_ptr().cast::<u8>();
    debug_assert!(widths[1] <= size_of::<u64>());
    for start in (0..n).step_by(PIECE) {
        let length = PIECE.min(n - start);
        // SAFETY: guaranteed by the caller (see `# Safety`); a piece of float32 or complex64 fits into `between`.
        unsafe {
            steps[0](between, from.add(start * widths[0]), length);
            steps[1](to.add(start * widths[2]), between, length);
        }
    }
}

/// How contiguous elements of one dtype are converted to another.
pub fn converter(from: DType, to: DType) -> Converter {
    let middle = match (from, to) {
        _ if from == to || !(from.is_storage_only() || to.is_storage_only()) => None,
        _ if from.is_float8() || to.is_float8() => Some(DType::F32),
        _ => Some(DType::C64),
    };
    match middle.filter(|middle| *middle != from && *middle != to) {
        Some(middle) => {
            let widths = [from, middle, to].map(DType::size);
            Converter { first: one_step(from, middle), second: Some((one_step(middle, to), widths)) }
        }
        None => Converter { first: one_step(from, to), second: None },
    }
}

fn one_step(from: DType, to: DType) -> Convert {
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

/// The conversion of complex32 or an 8-bit float, on either side, and float32 or complex64 on the other.
fn stored(from: DType, to: DType) -> Convert {
    use rushlight_simd::convert as fast;
    match (from, to) {
        // SAFETY: the contract of `Convert` covers this; the parts of a complex number are adjacent.
        (DType::C32, DType::C64) => |t, f, n| unsafe { fast::f16_to_f32(t.cast(), f.cast(), 2 * n) },
        // SAFETY: as above.
        (DType::C64, DType::C32) => |t, f, n| unsafe { fast::f32_to_f16(t.cast(), f.cast(), 2 * n) },
        (DType::F8E5M2, _) => convert::<f32, f8e5m2>,
        (DType::F8E4M3Fn, _) => convert::<f32, f8e4m3fn>,
        (DType::F8E5M2Fnuz, _) => convert::<f32, f8e5m2fnuz>,
        (DType::F8E4M3Fnuz, _) => convert::<f32, f8e4m3fnuz>,
        (DType::F8E8M0Fnu, _) => convert::<f32, f8e8m0fnu>,
        (_, DType::F8E5M2) => convert::<f8e5m2, f32>,
        (_, DType::F8E4M3Fn) => convert::<f8e4m3fn, f32>,
        (_, DType::F8E5M2Fnuz) => convert::<f8e5m2fnuz, f32>,
        (_, DType::F8E4M3Fnuz) => convert::<f8e4m3fnuz, f32>,
        (_, DType::F8E8M0Fnu) => convert::<f8e8m0fnu, f32>,
        (DType::C32, _) => convert::<f32, c32>,
        _ => convert::<c32, f32>,
    }
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

/// Moves a block of rows, each a few elements. The steps are those from row to row and from element to element; the longer
/// side of the block is the inner loop.
///
/// # Safety
/// Both sides hold the block at these strides.
pub unsafe fn move_block(
    to: *mut u8,
    to_steps: [isize; 2],
    from: *const u8,
    from_steps: [isize; 2],
    [rows, columns]: [usize; 2],
    width: usize,
) {
    let joins = |steps: [isize; 2]| steps[0] == steps[1].wrapping_mul(columns as isize);
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe {
        if joins(to_steps) && joins(from_steps) {
            move_strided(to, to_steps[1], from, from_steps[1], rows * columns, width);
            return;
        }
        let (lines, along) = if rows > columns { (columns, 0) } else { (rows, 1) };
        for line in 0..lines as isize {
            let (to, from) = (to.offset(line * to_steps[1 - along]), from.offset(line * from_steps[1 - along]));
            move_strided(to, to_steps[along], from, from_steps[along], rows.max(columns), width);
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
