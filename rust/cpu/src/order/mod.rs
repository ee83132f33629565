//! Sorting the elements of a line: each is mapped to an integer of the same order, combined with its index, so that
//! equal elements keep their order and the processor compares plain integers. NaN sorts last.

mod combinations;
mod introsort;
mod search;
mod unique;

pub use combinations::combinations;
pub use introsort::introsort;
pub use search::{Search, search};
pub use unique::{Runs, distinct, distinct_slices};

use rushlight_par::Address;
use std::sync::atomic::{AtomicBool, Ordering};

use half::{bf16, f16};
use rushlight_core::alloc::{list, out_of_memory};
use rushlight_core::{Bool, Error, Result};

use crate::reduce::cumulative::Lines;

/// An element's rank with its index; ordered by both.
pub trait Ranked: Copy + Ord + Send {
    fn new(key: u64, place: usize) -> Self;
    fn place(self) -> usize;
    /// Whether the elements of both are equal.
    fn ties(self, other: Self) -> bool;
    /// Whether the element is less than the other's.
    fn is_below(self, other: Self) -> bool;
}

impl Ranked for u64 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u64 {
        key << 32 | place as u64
    }
    #[inline(always)]
    fn place(self) -> usize {
        (self & 0xffff_ffff) as usize
    }
    #[inline(always)]
    fn ties(self, other: u64) -> bool {
        self >> 32 == other >> 32
    }
    #[inline(always)]
    fn is_below(self, other: u64) -> bool {
        self >> 32 < other >> 32
    }
}

impl Ranked for u128 {
    #[inline(always)]
    fn new(key: u64, place: usize) -> u128 {
        u128::from(key) << 64 | place as u128
    }
    #[inline(always)]
    fn place(self) -> usize {
        self as u64 as usize
    }
    #[inline(always)]
    fn ties(self, other: u128) -> bool {
        self >> 64 == other >> 64
    }
    #[inline(always)]
    fn is_below(self, other: u128) -> bool {
        self >> 64 < other >> 64
    }
}

/// An element type with a rank.
pub trait Sortable: Copy + Send + Sync + 'static {
    type Ranked: Ranked;
    /// An integer of the same order as the element; all bits for which `Ranked` has room may be used.
    fn key(self) -> u64;
    /// The key for the reverse order.
    fn turned(key: u64) -> u64;
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! sortable {
    ($($t:ty, $ranked:ty, $mask:expr, |$x:ident| $key:expr, $nan:expr;)*) => {$(
        impl Sortable for $t {
            type Ranked = $ranked;
            #[inline(always)]
            fn key(self) -> u64 {
                let $x = self;
                $key
            }
            #[inline(always)]
            fn turned(key: u64) -> u64 {
                key ^ $mask
            }
            #[inline(always)]
            #[allow(unused_variables)]
            fn is_nan(self) -> bool {
                let $x = self;
                $nan
            }
        }
    )*};
}

/// Maps signed numbers to unsigned ones in the same order.
macro_rules! flip {
    ($x:expr, $signed:ty, $unsigned:ty) => {
        (($x as $unsigned) ^ (1 << (<$unsigned>::BITS - 1))) as u64
    };
}

/// A float's bits in its order; both zeros are equal, NaN is last.
macro_rules! float_key {
    ($x:expr, $unsigned:ty, $nan:expr) => {{
        let bits = if $nan {
            <$unsigned>::MAX >> 1
        } else if $x.to_bits() << 1 == 0 {
            0
        } else {
            $x.to_bits()
        };
        let sign = 1 << (<$unsigned>::BITS - 1);
        u64::from(if bits & sign != 0 { !bits } else { bits | sign })
    }};
}

sortable! {
    u8, u64, 0xffff_ffff, |x| u64::from(x), false;
    u16, u64, 0xffff_ffff, |x| u64::from(x), false;
    u32, u64, 0xffff_ffff, |x| u64::from(x), false;
    u64, u128, u64::MAX, |x| x, false;
    i8, u64, 0xffff_ffff, |x| flip!(x, i8, u8), false;
    i16, u64, 0xffff_ffff, |x| flip!(x, i16, u16), false;
    i32, u64, 0xffff_ffff, |x| flip!(x, i32, u32), false;
    i64, u128, u64::MAX, |x| flip!(x, i64, u64), false;
    f16, u64, 0xffff_ffff, |x| float_key!(x, u16, x.is_nan()), x.is_nan();
    bf16, u64, 0xffff_ffff, |x| float_key!(x, u16, x.is_nan()), x.is_nan();
    f32, u64, 0xffff_ffff, |x| float_key!(x, u32, x.is_nan()), x.is_nan();
    f64, u128, u64::MAX, |x| float_key!(x, u64, x.is_nan()), x.is_nan();
    Bool, u64, 0xffff_ffff, |x| u64::from(x.get()), false;
}

/// One line: its ranks, initially in the elements' order, and the position of its elements in memory.
pub struct Line<'a, T: Sortable> {
    pub ranks: &'a mut [T::Ranked],
    pub first: usize,
    pub step: usize,
    from: Address<T>,
}

impl<T: Sortable> Line<'_, T> {
    /// The element at an index of the line.
    #[inline(always)]
    pub fn element(&self, place: usize) -> T {
        // SAFETY: `each_line` was given memory for the whole shape.
        unsafe { self.from.at(self.first + place * self.step).read_unaligned() }
    }
}

/// Ranks of 64 bits have 32 bits for the index in the line.
const COUNTABLE: u64 = 1 << 32;

/// Returns an error for lines with more elements than their ranks can number.
fn check_countable<T: Sortable>(n: usize) -> Result<()> {
    if size_of::<T::Ranked>() == size_of::<u64>() && n as u64 > COUNTABLE {
        return Err(Error::runtime(format!("a line of {n} elements is too long to be sorted"))
            .hint("Only lines of 64-bit elements may have more than 2**32 elements."));
    }
    Ok(())
}

/// How many candidates are collected besides the least ones before the greater half of all is dropped.
const WAITING: usize = 4096;
/// Lines with fewer elements than this for each requested one are ranked completely.
const FEW: usize = 8;

/// The `k` least of `n` ranks, in any order. A rank that is not below the k-th of those before is dropped at once, so
/// that a long line is only read.
fn least<R: Ranked>(found: &mut Vec<R>, k: usize, n: usize, rank: impl Fn(usize) -> R) {
    let Some(last) = k.checked_sub(1) else { return };
    let mut bound = None;
    for next in (0..n).map(rank) {
        if bound.is_none_or(|bound| next < bound) {
            found.push(next);
            if found.len() == found.capacity() {
                bound = Some(*found.select_nth_unstable(last).1);
                found.truncate(k);
            }
        }
    }
    if found.len() > k {
        found.select_nth_unstable(last);
        found.truncate(k);
    }
}

/// Calls `work` for each line, in parallel; if a number is `wanted`, only that many of its least ranks are computed.
///
/// # Safety
/// `from` holds the whole shape, contiguous.
pub unsafe fn each_line<T: Sortable>(
    lines: Lines,
    from: *const T,
    descending: bool,
    wanted: Option<usize>,
    work: impl Fn(Line<T>) + Sync,
) -> Result<()> {
    check_countable::<T>(lines.n)?;
    let from = Address(from.cast_mut());
    let refused = AtomicBool::new(false);
    let few = wanted.filter(|&k| k + WAITING <= lines.n / FEW);
    let capacity = few.map_or(lines.n, |k| k + WAITING);
    lines.each(|first, abreast| {
        let Ok(mut ranks) = list::<T::Ranked>(capacity) else { return refused.store(true, Ordering::Relaxed) };
        for j in 0..abreast {
            let rank = |i: usize| {
                // SAFETY: guaranteed by the caller (see `# Safety`); unaligned because foreign memory may be.
                let key = unsafe { from.at(first + j + i * lines.inner).read_unaligned() }.key();
                T::Ranked::new(if descending { T::turned(key) } else { key }, i)
            };
            ranks.clear();
            match few {
                Some(k) => least(&mut ranks, k, lines.n, rank),
                None => ranks.extend((0..lines.n).map(rank)),
            }
            work(Line { ranks: &mut ranks, first: first + j, step: lines.inner, from });
        }
    });
    if refused.into_inner() { Err(out_of_memory(capacity.saturating_mul(size_of::<T::Ranked>()))) } else { Ok(()) }
}
