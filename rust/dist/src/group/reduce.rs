//! The reductions of collective calls: elementwise over the slots of all ranks, in the order of the ranks.
//!
//! Half types are added in single precision and rounded once at the end.

use half::{bf16, f16};
use num_complex::Complex;
use rushlight_core::{Bool, DType, Error, Result};
use rushlight_simd::multiversion;

/// torch's `ReduceOp`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reduction {
    Sum,
    Avg,
    Product,
    Min,
    Max,
    BitAnd,
    BitOr,
    BitXor,
}

impl Reduction {
    pub const ALL: [Reduction; 8] = [
        Reduction::Sum,
        Reduction::Avg,
        Reduction::Product,
        Reduction::Min,
        Reduction::Max,
        Reduction::BitAnd,
        Reduction::BitOr,
        Reduction::BitXor,
    ];

    /// torch's name.
    pub fn name(self) -> &'static str {
        ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"][self as usize]
    }
}

/// The type in which elements are combined. Elements lie in memory that other processes may write, so they are read one
/// by one through pointers.
trait Number: Copy + 'static {
    type Wide: Copy;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    fn add(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn mul(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn min(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn max(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn divide(a: Self::Wide, by: usize) -> Self::Wide;
}

macro_rules! floats {
    ($($type:ty, $wide:ty, |$x:ident| $widen:expr, |$y:ident| $narrow:expr;)*) => {$(
        impl Number for $type {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide { let $x = self; $widen }
            #[inline(always)]
            fn narrow($y: $wide) -> $type { $narrow }
            #[inline(always)]
            fn add(a: $wide, b: $wide) -> $wide { a + b }
            #[inline(always)]
            fn mul(a: $wide, b: $wide) -> $wide { a * b }
            // As `torch.minimum`: NaN stays.
            #[inline(always)]
            fn min(a: $wide, b: $wide) -> $wide { if a < b || a.is_nan() { a } else { b } }
            #[inline(always)]
            fn max(a: $wide, b: $wide) -> $wide { if a > b || a.is_nan() { a } else { b } }
            #[inline(always)]
            fn divide(a: $wide, by: usize) -> $wide { a / by as $wide }
        }
    )*};
}

floats! {
    f32, f32, |x| x, |y| y;
    f64, f64, |x| x, |y| y;
    f16, f32, |x| x.to_f32(), |y| f16::from_f32(y);
    bf16, f32, |x| f32::from_bits(u32::from(x.to_bits()) << 16), |y| rushlight_simd::convert::round_to_bf16(y);
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            type Wide = $type;
            #[inline(always)]
            fn widen(self) -> $type { self }
            #[inline(always)]
            fn narrow(wide: $type) -> $type { wide }
            #[inline(always)]
            fn add(a: $type, b: $type) -> $type { a.wrapping_add(b) }
            #[inline(always)]
            fn mul(a: $type, b: $type) -> $type { a.wrapping_mul(b) }
            #[inline(always)]
            fn min(a: $type, b: $type) -> $type { Ord::min(a, b) }
            #[inline(always)]
            fn max(a: $type, b: $type) -> $type { Ord::max(a, b) }
            #[inline(always)]
            fn divide(a: $type, by: usize) -> $type {
                // More ranks than the type can count.
                <$type>::try_from(by).map_or_else(|_| (a as i128 / by as i128) as $type, |by| a.wrapping_div(by))
            }
        }
    )*};
}

integers! { u8 i8 i16 i32 i64 u16 u32 u64 }

multiversion! {
    /// `dst[i] = combine(sources[0][i], sources[1][i], ..)`, then divided by the number of sources for an average.
    unsafe fn fold<S, T: Number>(dst: *mut T, sources: &[*const T], n: usize, reduction: Reduction) {
        /// So many elements are combined at a time, in the first-level cache.
        const TILE: usize = 512;
        let mut tile = [std::mem::MaybeUninit::<T::Wide>::uninit(); TILE];
        let mut at = 0;
        while at < n {
            let count = TILE.min(n - at);
            // SAFETY: the caller gives n elements behind each pointer; the first source fills the tile.
            unsafe {
                let wide = tile.as_mut_ptr().cast::<T::Wide>();
                for i in 0..count {
                    *wide.add(i) = sources[0].add(at + i).read_unaligned().widen();
                }
                for source in &sources[1..] {
                    let source = source.add(at);
                    macro_rules! with {
                        ($combine:path) => {
                            for i in 0..count {
                                *wide.add(i) = $combine(*wide.add(i), source.add(i).read_unaligned().widen());
                            }
                        };
                    }
                    match reduction {
                        Reduction::Product => with!(T::mul),
                        Reduction::Min => with!(T::min),
                        Reduction::Max => with!(T::max),
                        _ => with!(T::add),
                    }
                }
                if reduction == Reduction::Avg {
                    for i in 0..count {
                        *wide.add(i) = T::divide(*wide.add(i), sources.len());
                    }
                }
                for i in 0..count {
                    dst.add(at + i).write_unaligned(T::narrow(*wide.add(i)));
                }
            }
            at += count;
        }
    }
}

multiversion! {
    /// Combines bytes by their bits.
    unsafe fn fold_bits<S>(dst: *mut u8, sources: &[*const u8], n: usize, reduction: Reduction) {
        for i in 0..n {
            // SAFETY: the caller gives n bytes behind each pointer.
            unsafe {
                let mut bits = *sources[0].add(i);
                for source in &sources[1..] {
                    let other = *source.add(i);
                    bits = match reduction {
                        Reduction::BitAnd => bits & other,
                        Reduction::BitOr => bits | other,
                        _ => bits ^ other,
                    };
                }
                *dst.add(i) = bits;
            }
        }
    }
}

/// Products of complex numbers, which are no sums of their parts.
///
/// # Safety
/// `n` elements lie behind each pointer.
unsafe fn multiply<T: Number<Wide = W>, W: Copy>(
    dst: *mut Complex<T>,
    sources: &[*const Complex<T>],
    n: usize,
    product: fn(Complex<W>, Complex<W>) -> Complex<W>,
) {
    for i in 0..n {
        // SAFETY: the caller gives n elements behind each pointer.
        unsafe {
            let wide = |z: Complex<T>| Complex::new(z.re.widen(), z.im.widen());
            let mut all = wide(sources[0].add(i).read_unaligned());
            for source in &sources[1..] {
                all = product(all, wide(source.add(i).read_unaligned()));
            }
            dst.add(i).write_unaligned(Complex::new(T::narrow(all.re), T::narrow(all.im)));
        }
    }
}

/// Whether elements of a dtype can be reduced so, with torch's class of error.
pub fn check(reduction: Reduction, dtype: DType) -> Result<()> {
    let bits = matches!(reduction, Reduction::BitAnd | Reduction::BitOr | Reduction::BitXor);
    if DType::FLOAT8.contains(&dtype) {
        return Err(Error::runtime(format!("Invalid scalar type: ReduceOp.{} of {}", reduction.name(), dtype.name())));
    }
    if bits && (dtype.is_floating() || dtype.is_complex()) {
        return Err(Error::runtime(format!("Cannot use ReduceOp.{} with non-integral dtype", reduction.name())));
    }
    if dtype.is_complex() && matches!(reduction, Reduction::Min | Reduction::Max) {
        return Err(Error::value(format!(
            "all_reduce does not support ReduceOp.{} on complex tensors",
            reduction.name()
        )));
    }
    Ok(())
}

/// Combines `bytes` bytes of each source.
///
/// # Safety
/// All pointers have so many bytes behind them; `dst` is none of the sources. A tensor may begin anywhere in a buffer of a
/// program, so that they need not be aligned.
pub unsafe fn reduce(reduction: Reduction, dtype: DType, dst: *mut u8, sources: &[*const u8], bytes: usize) {
    let n = bytes / dtype.size();
    macro_rules! with {
        ($type:ty, $n:expr) => {{
            // SAFETY: pointers to elements have the layout of pointers to bytes.
            let sources = unsafe { std::slice::from_raw_parts(sources.as_ptr().cast::<*const $type>(), sources.len()) };
            // SAFETY: the caller's contract.
            unsafe { fold::<$type>(dst.cast(), sources, $n, reduction) }
        }};
    }
    macro_rules! product {
        ($type:ty) => {{
            let (first, count) = (sources.as_ptr().cast::<*const Complex<$type>>(), sources.len());
            // SAFETY: pointers to elements have the layout of pointers to bytes.
            let sources = unsafe { std::slice::from_raw_parts(first, count) };
            // SAFETY: the caller's contract.
            unsafe { multiply::<$type, _>(dst.cast(), sources, n, |a, b| a * b) }
        }};
    }
    let logical = match reduction {
        Reduction::Sum | Reduction::Avg | Reduction::Max => Reduction::BitOr,
        Reduction::Product | Reduction::Min => Reduction::BitAnd,
        bits => bits,
    };
    match dtype {
        // SAFETY: the caller's contract; `Bool` is a byte.
        DType::Bool => unsafe { fold_truths(dst, sources, n, logical) },
        // SAFETY: the caller's contract.
        _ if logical == reduction => unsafe { fold_bits(dst, sources, bytes, reduction) },
        DType::C32 if reduction == Reduction::Product => product!(f16),
        DType::C64 if reduction == Reduction::Product => product!(f32),
        DType::C128 if reduction == Reduction::Product => product!(f64),
        DType::C32 => with!(f16, 2 * n),
        DType::C64 => with!(f32, 2 * n),
        DType::C128 => with!(f64, 2 * n),
        DType::F16 => with!(f16, n),
        DType::BF16 => with!(bf16, n),
        DType::F32 => with!(f32, n),
        DType::F64 => with!(f64, n),
        DType::U8 => with!(u8, n),
        DType::I8 => with!(i8, n),
        DType::I16 => with!(i16, n),
        DType::I32 => with!(i32, n),
        DType::I64 => with!(i64, n),
        DType::U16 => with!(u16, n),
        DType::U32 => with!(u32, n),
        DType::U64 => with!(u64, n),
        DType::F8E5M2 | DType::F8E4M3Fn | DType::F8E5M2Fnuz | DType::F8E4M3Fnuz | DType::F8E8M0Fnu => {
            debug_assert!(false, "refused by `check`");
        }
    }
}

/// As `fold_bits`, of truths: any byte but zero is true.
///
/// # Safety
/// `n` bytes lie behind each pointer.
unsafe fn fold_truths(dst: *mut u8, sources: &[*const u8], n: usize, reduction: Reduction) {
    for i in 0..n {
        // SAFETY: the caller gives n bytes behind each pointer.
        let truth = |source: &*const u8| unsafe { Bool(*source.add(i)).get() };
        let all = match reduction {
            Reduction::BitAnd => sources.iter().all(truth),
            Reduction::BitOr => sources.iter().any(truth),
            _ => sources.iter().fold(false, |all, source| all ^ truth(source)),
        };
        // SAFETY: as above.
        unsafe { *dst.add(i) = u8::from(all) };
    }
}
