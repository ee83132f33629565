//! The largest or smallest element and its first index.
//!
//! A row is searched in blocks: a vectorised pass finds the block's extreme value, and only a block that exceeds the
//! best so far is searched for its index. NaN wins over everything, as in torch.

use rushlight_core::{Bool, DType, Element};
use rushlight_simd::multiversion;

use super::Fold;

/// An order in which the searched element comes first.
pub trait Extreme: Copy + Send + Sync + 'static {
    type T: Element;
    /// Loses against every other element, or equals it.
    const LAST: Self::T;
    /// Whether `x` is strictly better than `best`.
    fn beats(x: Self::T, best: Self::T) -> bool;
}

/// The order of `T` upwards or downwards.
#[derive(Clone, Copy)]
pub struct Towards<T, const UP: bool>(std::marker::PhantomData<T>);

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl<const UP: bool> Extreme for Towards<$t, UP> {
            type T = $t;
            const LAST: $t = if UP { <$t>::MIN } else { <$t>::MAX };
            #[inline(always)]
            fn beats(x: $t, best: $t) -> bool {
                if UP { x > best } else { x < best }
            }
        }
    )*};
}
integers! { u8 i8 i16 i32 i64 }

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl<const UP: bool> Extreme for Towards<$t, UP> {
            type T = $t;
            const LAST: $t = if UP { <$t>::NEG_INFINITY } else { <$t>::INFINITY };
            #[inline(always)]
            #[allow(clippy::eq_op)]
            fn beats(x: $t, best: $t) -> bool {
                (if UP { x > best } else { x < best }) | ((x != x) & (best == best))
            }
        }
    )*};
}
floats! { f32 f64 }

impl<const UP: bool> Extreme for Towards<Bool, UP> {
    type T = Bool;
    const LAST: Bool = Bool(!UP as u8);
    #[inline(always)]
    fn beats(x: Bool, best: Bool) -> bool {
        if UP { x.get() & !best.get() } else { !x.get() & best.get() }
    }
}

/// An element and its index; a negative index means that there was none yet.
#[derive(Clone, Copy)]
#[repr(C)]
struct Found<T> {
    place: i64,
    value: T,
}

const BLOCK: usize = 1024;
const LANES: usize = 32;

multiversion! {
    /// # Safety
    /// `acc` is an accumulator of this fold, and `row` holds `n` elements.
    unsafe fn row<S, E: Extreme>(acc: *mut u8, row: *const u8, n: usize, first: usize, _numbers: &[f64]) {
        let row = row.cast::<E::T>();
        let mut best = Found { place: -1, value: E::LAST };
        // SAFETY: the caller gives n elements and room for an accumulator.
        unsafe {
            for start in (0..n).step_by(BLOCK) {
                let m = BLOCK.min(n - start);
                let row = row.add(start);
                let whole = m - m % LANES;
                let mut lanes = [E::LAST; LANES];
                for i in (0..whole).step_by(LANES) {
                    for (j, lane) in lanes.iter_mut().enumerate() {
                        let x = row.add(i).add(j).read_unaligned();
                        *lane = if E::beats(x, *lane) { x } else { *lane };
                    }
                }
                let mut top = E::LAST;
                for lane in lanes {
                    top = if E::beats(lane, top) { lane } else { top };
                }
                for j in whole..m {
                    let x = row.add(j).read_unaligned();
                    top = if E::beats(x, top) { x } else { top };
                }
                if best.place < 0 || E::beats(top, best.value) {
                    // The first element that is not worse than any: equal to the top, or NaN if the top is NaN.
                    let mut at = 0;
                    while at + 1 < m && E::beats(top, row.add(at).read_unaligned()) {
                        at += 1;
                    }
                    best = Found { place: (first + start + at) as i64, value: row.add(at).read_unaligned() };
                }
            }
            acc.cast::<Found<E::T>>().write_unaligned(best);
        }
    }
}

multiversion! {
    /// # Safety
    /// `accs` are `n` accumulators of this fold, and `data` holds `rows` rows of `n` elements.
    unsafe fn columns<S, E: Extreme>(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, first: usize, _numbers: &[f64]) {
        const COLUMNS: usize = 64;
        let accs = accs.cast::<Found<E::T>>();
        // SAFETY: the caller gives rows of n elements and room for n accumulators.
        unsafe {
            for start in (0..n).step_by(COLUMNS) {
                let m = COLUMNS.min(n - start);
                let line = |r: usize| data.offset(r as isize * step).cast::<E::T>().add(start);
                let mut values = [E::LAST; COLUMNS];
                let mut places = [0u32; COLUMNS];
                if rows > 0 {
                    let line = line(0);
                    for (j, value) in values.iter_mut().enumerate().take(m) {
                        *value = line.add(j).read_unaligned();
                    }
                }
                for r in 1..rows {
                    let line = line(r);
                    for j in 0..m {
                        let x = line.add(j).read_unaligned();
                        let better = E::beats(x, values[j]);
                        values[j] = if better { x } else { values[j] };
                        places[j] = if better { r as u32 } else { places[j] };
                    }
                }
                for j in 0..m {
                    let place = if rows == 0 { -1 } else { (first + places[j] as usize) as i64 };
                    accs.add(start + j).write_unaligned(Found { place, value: values[j] });
                }
            }
        }
    }
}

/// # Safety
/// Both hold `n` accumulators of this fold.
unsafe fn join<E: Extreme>(accs: *mut u8, later: *const u8, n: usize) {
    let (accs, later) = (accs.cast::<Found<E::T>>(), later.cast::<Found<E::T>>());
    for j in 0..n {
        // SAFETY: n accumulators on both sides.
        unsafe {
            let (own, other) = (accs.add(j).read_unaligned(), later.add(j).read_unaligned());
            if own.place < 0 || (other.place >= 0 && E::beats(other.value, own.value)) {
                accs.add(j).write_unaligned(other);
            }
        }
    }
}

/// Values and indices, or with `PLACES` the indices alone.
///
/// # Safety
/// `accs` are `n` accumulators of this fold, and every output has room for as many.
unsafe fn done<E: Extreme, const PLACES: bool>(outs: *const *mut u8, accs: *const u8, n: usize, _: usize, _: &[f64]) {
    for j in 0..n {
        // SAFETY: n accumulators, and room for n results in each output.
        unsafe {
            let found = accs.cast::<Found<E::T>>().add(j).read_unaligned();
            if PLACES {
                (*outs).cast::<i64>().add(j).write_unaligned(found.place);
            } else {
                (*outs).cast::<E::T>().add(j).write_unaligned(found.value);
                (*outs.add(1)).cast::<i64>().add(j).write_unaligned(found.place);
            }
        }
    }
}

fn of<E: Extreme>(places: bool) -> Fold {
    let own = <E::T as Element>::DTYPE;
    Fold {
        takes: own,
        gives: if places { [DType::I64; 2] } else { [own, DType::I64] },
        results: if places { 1 } else { 2 },
        width: size_of::<Found<E::T>>(),
        indexed: true,
        row: row::<E>,
        columns: columns::<E>,
        stack: super::STACK,
        join: join::<E>,
        done: if places { done::<E, true> } else { done::<E, false> },
        short: None,
    }
}

/// The largest (`up`) or smallest element with its index, or the index alone.
pub fn extremum(dtype: DType, up: bool, places: bool) -> Option<Fold> {
    macro_rules! pick {
        ($($name:ident: $t:ty),*) => {
            match dtype {
                $(DType::$name => Some(if up { of::<Towards<$t, true>>(places) } else { of::<Towards<$t, false>>(places) }),)*
                _ => None,
            }
        };
    }
    pick!(U8: u8, I8: i8, I16: i16, I32: i32, I64: i64, F32: f32, F64: f64, Bool: Bool)
}
