//! `loops!`: from an expression to an operator's loops, one for each compute dtype, and to the expression's text.

use std::mem::MaybeUninit;

use rushlight_core::DType;

use crate::pointwise::InnerLoop;

/// The number of elements that a loop takes at once. The block is held in registers, so that a result may be written
/// over its own input.
pub const LANES: usize = 32;

/// The loops of an elementwise operator, and the expressions that they are made from.
#[derive(Clone, Copy)]
pub struct Loops {
    /// The loop for a compute dtype.
    pub cpu: fn(DType) -> Option<InnerLoop>,
    /// The expressions, from which the functions of other devices are made: see `rushlight_cuda::kernels`.
    pub expressions: &'static [Expression],
    /// Unsigned integers use the loops and expressions of the signed ones.
    pub signless: bool,
}

impl Loops {
    /// The expression for a compute dtype, and the dtype that it is written for.
    pub fn expression(&self, dtype: DType) -> Option<(&'static Expression, DType)> {
        let dtype = if self.signless { dtype.signed() } else { dtype };
        self.expressions.iter().find(|expression| expression.dtypes.contains(&dtype)).map(|found| (found, dtype))
    }
}

/// The text of an expression that computes one element of the result.
pub struct Expression {
    /// The dtypes of the elements, `T` in the text.
    pub dtypes: &'static [DType],
    /// The dtype of the value, if it differs.
    pub result: Option<DType>,
    /// The names of the operands' elements.
    pub operands: &'static [&'static str],
    /// The names of the operator's numbers.
    pub numbers: &'static [&'static str],
    /// The names of numbers that may be absent.
    pub optional: &'static [&'static str],
    /// The value, in Rust.
    pub value: &'static str,
}

/// Makes [`Loops`] from expressions over the elements of the operands.
///
/// ```
/// use rushlight_cpu::loops;
/// use rushlight_core::DType;
///
/// let loops = loops! {
///     for<S> [f32, f64] (|x, y; alpha| S::mul_add(alpha, y, x));
///     for<S> [i32, i64] (|x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y)));
/// };
/// assert!((loops.cpu)(DType::F32).is_some() && (loops.cpu)(DType::Bool).is_none());
/// assert_eq!(loops.expressions[0].value, "S::mul_add(alpha, y, x)");
/// ```
///
/// Names before `;` are elements of the operands in order, names behind it the operator's numbers, converted to `T`,
/// and names behind `;;` numbers that may be absent: an `Option<T>` each. `T` is the dtype of a loop and `S` its
/// instruction set (`S::exp(x)` is the vector form of `exp`). `[f32, f64 => Bool]` gives results of another type. After
/// `signless;` unsigned integers use the loops of the signed ones, for operations that give the same bits.
///
/// `(|x| S::sin(x)) by sines::<T>` has a hand-written loop, an [`InnerLoop`]. The expression states what the loop computes.
///
/// `cargo dev generate` translates the text into device functions. An expression may therefore use only a subset of Rust:
/// operators, calls, methods, casts, `if`, and `let` before the value.
#[macro_export]
macro_rules! loops {
    (signless; $($loops:tt)+) => {{
        const SIGNED: $crate::loops::Loops = $crate::loops!($($loops)+);
        fn signless(dtype: $crate::reexport::DType) -> Option<$crate::pointwise::InnerLoop> {
            (SIGNED.cpu)(dtype.signed())
        }
        $crate::loops::Loops { cpu: signless, signless: true, ..SIGNED }
    }};
    ($(for<$S:ident> [$($T:ty),+ $(=> $O:ty)?] $f:tt $(by $inner_loop:expr)?);+ $(;)?) => {{
        fn pick(dtype: $crate::reexport::DType) -> Option<$crate::pointwise::InnerLoop> {
            $($crate::loops!(@each dtype, $S, [$($T),+], [$($O)?], $f, [$($inner_loop)?]);)+
            None
        }
        const EXPRESSIONS: &[$crate::loops::Expression] = &[$($crate::loops!(@text [$($T),+], [$($O)?], $f)),+];
        $crate::loops::Loops { cpu: pick, expressions: EXPRESSIONS, signless: false }
    }};
    (@text [$($T:ty),+], [$($O:ty)?], (|$($x:ident),+ $(; $($p:ident),+)? $(;; $($o:ident),+)?| $value:expr)) => {
        $crate::loops::Expression {
            dtypes: &[$(<$T as $crate::reexport::Element>::DTYPE),+],
            result: $crate::loops!(@result $($O)?),
            operands: &[$(stringify!($x)),+],
            numbers: &[$($(stringify!($p)),+)?],
            optional: &[$($(stringify!($o)),+)?],
            value: stringify!($value),
        }
    };
    (@result) => { None };
    (@result $O:ty) => { Some(<$O as $crate::reexport::Element>::DTYPE) };
    (@each $dtype:ident, $S:ident, [$($T:ty),+], $O:tt, $f:tt, $inner_loop:tt) => {
        $(if $dtype == <$T as $crate::reexport::Element>::DTYPE {
            return Some($crate::loops!(@inner_loop $S, $T, $O, $f, $inner_loop));
        })+
    };
    (@inner_loop $S:ident, $T:ty, [], $f:tt, $inner_loop:tt) => { $crate::loops!(@inner_loop $S, $T, [$T], $f, $inner_loop) };
    (@inner_loop $S:ident, $T:ty, [$O:ty], (|$($x:ident),+ $(; $($p:ident),+)? $(;; $($o:ident),+)?| $value:expr), [$inner_loop:expr]) => {{
        #[allow(dead_code)]
        type T = $T;
        // Never called: it makes the compiler check the expression.
        #[allow(dead_code)]
        fn value<$S: $crate::reexport::Isa>($($x: T),+ $(, $($p: T),+)? $(, $($o: Option<T>),+)?) -> $O {
            $value
        }
        $inner_loop as $crate::pointwise::InnerLoop
    }};
    (@inner_loop $S:ident, $T:ty, [$O:ty], (|$($x:ident),+ $(; $($p:ident),+)? $(;; $($o:ident),+)?| $value:expr), []) => {
        $crate::reexport::simd_loop!(for<$S> |out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[$crate::reexport::Scalar]| {
            use $crate::loops::LANES;
            #[allow(dead_code)]
            type T = $T;
            type O = $O;
            $($(#[allow(unused_mut)] let mut $p = <T as Default>::default();)+)?
            let mut _given = numbers.iter();
            $($(if let Some(number) = _given.next() { $p = <T as $crate::reexport::Element>::from_scalar(*number); })+)?
            $($(let $o = _given.next().map(|number| <T as $crate::reexport::Element>::from_scalar(*number));)+)?
            let mut done = 0usize;
            // SAFETY: the caller gives n elements behind each pointer; blocks have LANES elements, and a pad is one
            // block.
            unsafe {
                let mut _next = inputs;
                $(let $x = (*_next).cast::<T>(); _next = _next.add(1);)+
                while done < n {
                    let left = n - done;
                    $(let mut $x = $x.add(done);
                    let mut pad = std::mem::MaybeUninit::<[T; LANES]>::uninit();
                    if left < LANES {
                        $x = $crate::loops::padded(&mut pad, $x, left);
                    })+
                    let mut block = [const { std::mem::MaybeUninit::<O>::uninit() }; LANES];
                    for (j, slot) in block.iter_mut().enumerate() {
                        $(let $x = $x.add(j).read_unaligned();)+
                        slot.write($value);
                    }
                    let to = out.cast::<O>().add(done);
                    if left < LANES {
                        $crate::loops::store_part(to, block, left);
                    } else {
                        to.cast::<[std::mem::MaybeUninit<O>; LANES]>().write_unaligned(block);
                    }
                    done += LANES;
                }
            }
        })
    };
}

/// Copies the end of an operand that does not fill a block to a pad.
///
/// Kept out of the loops, like `store_part`: a call inside would cost them their registers, and taking a block's
/// address would force it out of them.
///
/// # Safety
/// There are `left` elements at `from`, fewer than a block.
#[cold]
#[inline(never)]
pub unsafe fn padded<T: Copy + Default>(pad: &mut MaybeUninit<[T; LANES]>, from: *const T, left: usize) -> *const T {
    let pad = pad.write([T::default(); LANES]).as_mut_ptr();
    // SAFETY: guaranteed by the caller (see `# Safety`); as bytes, because foreign memory may be unaligned.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), pad.cast::<u8>(), left * size_of::<T>()) };
    pad
}

/// Writes the beginning of a block.
///
/// # Safety
/// There is room for `left` elements at `to`, fewer than a block.
#[cold]
#[inline(never)]
pub unsafe fn store_part<O>(to: *mut O, block: [MaybeUninit<O>; LANES], left: usize) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { std::ptr::copy_nonoverlapping(block.as_ptr().cast::<u8>(), to.cast::<u8>(), left * size_of::<O>()) }
}
