//! `folds!`: from expressions to a reduction's kernels, one set for each dtype, and to the expressions' text.

use rushlight_core::DType;

use crate::reduce::Fold;

/// Bytes of accumulators that are updated independently in a row, so that additions need not wait for each other.
pub const LANES: usize = 256;

/// The kernels of a reduction, and the expressions that they are made from.
#[derive(Clone, Copy)]
pub struct Folds {
    /// The name of the device functions.
    pub name: &'static str,
    /// The kernels for a compute dtype.
    pub cpu: fn(DType) -> Option<Fold>,
    /// The expressions, from which the functions of other devices are made: see `rushlight_cuda::kernels`.
    pub expressions: &'static [FoldExpressions],
}

impl Folds {
    /// The expressions for a compute dtype.
    pub fn expressions_of(&self, dtype: DType) -> Option<&'static FoldExpressions> {
        self.expressions.iter().find(|expressions| expressions.dtypes.contains(&dtype))
    }
}

/// The text of the expressions of a fold.
pub struct FoldExpressions {
    /// The dtypes of the elements, `T` in the text.
    pub dtypes: &'static [DType],
    /// The dtypes of accumulator and result, `A` and `O`, if they differ.
    pub accumulator: Option<DType>,
    pub result: Option<DType>,
    /// The initial value of an accumulator.
    pub start: &'static str,
    /// Adds an element to an accumulator.
    pub take: Step,
    /// Combines two accumulators.
    pub join: Step,
    /// Computes the result from an accumulator and its number of elements.
    pub done: Step,
}

/// One expression of a fold.
pub struct Step {
    /// The names of the two parameters.
    pub parameters: [&'static str; 2],
    /// The names of the operator's numbers.
    pub numbers: &'static [&'static str],
    /// The value, in Rust.
    pub value: &'static str,
}

/// Makes [`Folds`] from a name, an accumulator's initial value, how it takes an element, how two join, and the final result.
///
/// ```
/// use rushlight_cpu::folds;
/// use rushlight_core::DType;
///
/// let folds = folds! {
///     "example";
///     for<S> [f32, f64] (0.0; |a, x| a + x; |a, b| a + b; |a, n| a / n as T);
///     for<S> [i32, i64 => i64] (0; |a, x| a + i64::from(x != 0); |a, b| a + b; |a, n| a)
/// };
/// assert!((folds.cpu)(DType::F32).is_some() && (folds.cpu)(DType::Bool).is_none());
/// assert_eq!(folds.expressions[0].take.value, "a + x");
/// ```
///
/// `[f32 => f64 => i64]` accumulates in `f64` and gives `i64`. In the expressions `T`, `A` and `O` name the element,
/// the accumulator and the result, `S` the instruction set, and `n` the number of elements. Names behind `;` in the
/// second expression are the operator's numbers as `f64`; the last may read them too. The text is translated into device
/// functions, as that of [`loops!`](crate::loops) is.
#[macro_export]
macro_rules! folds {
    ($name:literal; $(for<$S:ident> [$($T:ty),+ $(=> $A:ty $(=> $O:ty)?)?] $f:tt);+ $(;)?) => {{
        fn pick(dtype: $crate::reexport::DType) -> Option<$crate::reduce::Fold> {
            $($crate::folds!(@each dtype, $S, [$($T),+], [$($A $(, $O)?)?], $f);)+
            None
        }
        const EXPRESSIONS: &[$crate::folds::FoldExpressions] =
            &[$($crate::folds!(@text [$($T),+], [$($A $(, $O)?)?], $f)),+];
        $crate::folds::Folds { name: $name, cpu: pick, expressions: EXPRESSIONS }
    }};
    (@text [$($T:ty),+], [$($A:ty $(, $O:ty)?)?],
        ($start:expr; |$a:ident, $x:ident $(; $($p:ident),+)?| $take:expr; |$l:ident, $r:ident| $join:expr; |$v:ident, $n:ident $(; $($q:ident),+)?| $done:expr)) => {
        $crate::folds::FoldExpressions {
            dtypes: &[$(<$T as $crate::reexport::Element>::DTYPE),+],
            accumulator: $crate::folds!(@dtype $($A)?),
            result: $crate::folds!(@dtype $($($O)?)?),
            start: stringify!($start),
            take: $crate::folds::Step {
                parameters: [stringify!($a), stringify!($x)],
                numbers: &[$($(stringify!($p)),+)?],
                value: stringify!($take),
            },
            join: $crate::folds::Step {
                parameters: [stringify!($l), stringify!($r)],
                numbers: &[],
                value: stringify!($join),
            },
            done: $crate::folds::Step {
                parameters: [stringify!($v), stringify!($n)],
                numbers: &[$($(stringify!($q)),+)?],
                value: stringify!($done),
            },
        }
    };
    // Written out, because the compiler uses whole registers only in loops whose lengths it knows.
    (@halves [$($half:literal),+] $lanes:ident, $total:ident, $row:ident, $n:ident, $i:ident,
        (|$a:ident, $x:ident| $take:expr), (|$l:ident, $r:ident| $join:expr)) => {$(
        if $half < $lanes {
            if ($n - $i) & $half != 0 {
                for j in 0..$half {
                    let $a: A = $total[$half + j];
                    let $x: T = $row.add($i).add(j).read_unaligned();
                    $total[$half + j] = $take;
                }
                $i += $half;
            }
            for j in 0..$half {
                let ($l, $r): (A, A) = ($total[j], $total[j + $half]);
                $total[j] = $join;
            }
        }
    )+};
    (@dtype) => { None };
    (@dtype $T:ty) => { Some(<$T as $crate::reexport::Element>::DTYPE) };
    (@each $dtype:ident, $S:ident, [$($T:ty),+], $kinds:tt, $f:tt) => {
        $(if $dtype == <$T as $crate::reexport::Element>::DTYPE {
            return Some($crate::folds!(@fold $S, $T, $kinds, $f));
        })+
    };
    (@fold $S:ident, $T:ty, [], $f:tt) => { $crate::folds!(@fold $S, $T, [$T, $T], $f) };
    (@fold $S:ident, $T:ty, [$A:ty], $f:tt) => { $crate::folds!(@fold $S, $T, [$A, $A], $f) };
    (@fold $S:ident, $T:ty, [$A:ty, $O:ty],
        ($start:expr; |$a:ident, $x:ident $(; $($p:ident),+)?| $take:expr; |$l:ident, $r:ident| $join:expr; |$v:ident, $n:ident $(; $($q:ident),+)?| $done:expr)) => {
        $crate::reduce::Fold {
            takes: <$T as $crate::reexport::Element>::DTYPE,
            gives: [<$O as $crate::reexport::Element>::DTYPE; 2],
            results: 1,
            width: size_of::<$A>(),
            indexed: false,
            stack: $crate::reduce::STACK,
            row: $crate::reexport::simd_loop!(for<$S> |acc: *mut u8, row: *const u8, n: usize, _first: usize, _numbers: &[f64]| {
                #[allow(dead_code)]
                type T = $T;
                type A = $A;
                const LANES: usize = $crate::folds::LANES / size_of::<A>();
                $($(#[allow(unused_mut)] let mut $p = 0.0f64;)+
                let mut _given = _numbers.iter();
                $(if let Some(number) = _given.next() { $p = *number; })+)?
                let row = row.cast::<T>();
                let start: A = $start;
                // SAFETY: the caller gives n elements and room for an accumulator.
                unsafe {
                    let mut total = [start; LANES];
                    let mut i = 0;
                    while i + LANES <= n {
                        // Sixteen elements for each accumulator in turn, then their sum joins: a tree of two levels.
                        let mut part = [start; LANES];
                        let end = (n - n % LANES).min(i + 16 * LANES);
                        while i < end {
                            for (j, slot) in part.iter_mut().enumerate() {
                                let $a: A = *slot;
                                let $x: T = row.add(i).add(j).read_unaligned();
                                *slot = $take;
                            }
                            i += LANES;
                        }
                        for (slot, &more) in total.iter_mut().zip(&part) {
                            let ($l, $r): (A, A) = (*slot, more);
                            *slot = $join;
                        }
                    }
                    // The remainder is split into blocks of halves, quarters and so on: each joins the level of its
                    // size.
                    $crate::folds!(@halves [128, 64, 32, 16, 8, 4, 2, 1] LANES, total, row, n, i,
                        (|$a, $x| $take), (|$l, $r| $join));
                    acc.cast::<A>().write_unaligned(total[0]);
                }
            }),
            columns: $crate::reexport::simd_loop!(for<$S> |accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, _first: usize, _numbers: &[f64]| {
                #[allow(dead_code)]
                type T = $T;
                type A = $A;
                $($(#[allow(unused_mut)] let mut $p = 0.0f64;)+
                let mut _given = _numbers.iter();
                $(if let Some(number) = _given.next() { $p = *number; })+)?
                let accs = accs.cast::<A>();
                let start: A = $start;
                // SAFETY: the caller gives rows of n elements and room for n accumulators.
                unsafe {
                    let line = |r: usize| data.offset(r as isize * step).cast::<T>();
                    for j in 0..n {
                        accs.add(j).write_unaligned(start);
                    }
                    let mut r = 0;
                    while r + 4 <= rows {
                        let (w, x, y, z) = (line(r), line(r + 1), line(r + 2), line(r + 3));
                        for j in 0..n {
                            let mut sum: A = accs.add(j).read_unaligned();
                            for line in [w, x, y, z] {
                                let $a: A = sum;
                                let $x: T = line.add(j).read_unaligned();
                                sum = $take;
                            }
                            accs.add(j).write_unaligned(sum);
                        }
                        r += 4;
                    }
                    while r < rows {
                        let line = line(r);
                        for j in 0..n {
                            let $a: A = accs.add(j).read_unaligned();
                            let $x: T = line.add(j).read_unaligned();
                            accs.add(j).write_unaligned($take);
                        }
                        r += 1;
                    }
                }
            }),
            short: {
                #[allow(dead_code)]
                type T = $T;
                type A = $A;
                unsafe fn short<$S: $crate::reexport::Isa>(accs: *mut u8, data: *const u8, step: isize, rows: usize, n: usize, _numbers: &[f64]) {
                    $($(#[allow(unused_mut)] let mut $p = 0.0f64;)+
                    let mut _given = _numbers.iter();
                    $(if let Some(number) = _given.next() { $p = *number; })+)?
                    let mut line = data;
                    for r in 0..rows {
                        // SAFETY: the caller gives rows of n elements and room for as many accumulators.
                        unsafe {
                            let mut sum: A = $start;
                            for j in 0..n {
                                let $a: A = sum;
                                let $x: T = line.cast::<T>().add(j).read_unaligned();
                                sum = $take;
                            }
                            accs.cast::<A>().add(r).write_unaligned(sum);
                        }
                        line = line.wrapping_offset(step);
                    }
                }
                Some(short::<$crate::reexport::Base> as $crate::reduce::ShortRows)
            },
            join: $crate::reexport::simd_loop!(for<$S> |accs: *mut u8, later: *const u8, n: usize| {
                #[allow(dead_code)]
                type T = $T;
                type A = $A;
                let (accs, later) = (accs.cast::<A>(), later.cast::<A>());
                for j in 0..n {
                    // SAFETY: n accumulators on both sides.
                    unsafe {
                        let ($l, $r): (A, A) = (accs.add(j).read_unaligned(), later.add(j).read_unaligned());
                        accs.add(j).write_unaligned($join);
                    }
                }
            }),
            done: $crate::reexport::simd_loop!(for<$S> |outs: *const *mut u8, accs: *const u8, n: usize, _count: usize, _numbers: &[f64]| {
                #[allow(dead_code)]
                type T = $T;
                type A = $A;
                type O = $O;
                $($(#[allow(unused_mut)] let mut $q = 0.0f64;)+
                let mut _given = _numbers.iter();
                $(if let Some(number) = _given.next() { $q = *number; })+)?
                // SAFETY: n accumulators, and room for n results.
                unsafe {
                    let (out, accs) = ((*outs).cast::<O>(), accs.cast::<A>());
                    #[allow(unused_variables)]
                    let $n = _count;
                    for j in 0..n {
                        let $v: A = accs.add(j).read_unaligned();
                        let value: O = $done;
                        out.add(j).write_unaligned(value);
                    }
                }
            }),
        }
    };
}
