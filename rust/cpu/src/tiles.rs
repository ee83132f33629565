//! `tiles!`: from an expression to a row's loops, one for each compute dtype.

/// How many elements a loop takes at once. The block stands in registers, so that a result may lie on its own input.
pub const LANES: usize = 32;

/// Makes a `fn(DType) -> Option<Tile>` out of expressions over the elements of an operand each.
///
/// ```
/// use rushlight_cpu::tiles;
/// use rushlight_core::DType;
///
/// let pick = tiles! {
///     for<S> [f32, f64] (|x, y; alpha| S::mul_add(alpha, y, x));
///     for<S> [i32, i64] (|x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y)));
/// };
/// assert!(pick(DType::F32).is_some() && pick(DType::Bool).is_none());
/// ```
///
/// Names before `;` are elements of the operands in order, names behind it the row's numbers, converted to `T`. `T` is
/// the dtype of a loop and `S` its instruction set (`S::exp(x)` is the vector form of `exp`). `[f32, f64 => Bool]` gives
/// results of another type.
#[macro_export]
macro_rules! tiles {
    ($(for<$S:ident> [$($T:ty),+ $(=> $O:ty)?] $f:tt);+ $(;)?) => {{
        fn pick(dtype: $crate::reexport::DType) -> Option<$crate::pointwise::Tile> {
            $($crate::tiles!(@each dtype, $S, [$($T),+], [$($O)?], $f);)+
            None
        }
        pick as fn($crate::reexport::DType) -> Option<$crate::pointwise::Tile>
    }};
    (@each $dtype:ident, $S:ident, [$($T:ty),+], $O:tt, $f:tt) => {
        $(if $dtype == <$T as $crate::reexport::Element>::DTYPE {
            return Some($crate::tiles!(@tile $S, $T, $O, $f));
        })+
    };
    (@tile $S:ident, $T:ty, [], $f:tt) => { $crate::tiles!(@tile $S, $T, [$T], $f) };
    (@tile $S:ident, $T:ty, [$O:ty], (|$($x:ident),+ $(; $($p:ident),+)?| $value:expr)) => {
        $crate::reexport::simd_loop!(for<$S> |out: *mut u8, inputs: *const *const u8, n: usize, params: &[$crate::reexport::Scalar]| {
            use $crate::tiles::LANES;
            #[allow(dead_code)]
            type T = $T;
            type O = $O;
            $($(#[allow(unused_mut)] let mut $p = <T as Default>::default();)+)?
            let mut _given = params.iter();
            $($(if let Some(number) = _given.next() { $p = <T as $crate::reexport::Element>::from_scalar(*number); })+)?
            let mut done = 0usize;
            // SAFETY: the caller gives n elements behind each pointer; blocks are of LANES.
            unsafe {
                let mut _next = inputs;
                $(let $x = (*_next).cast::<T>(); _next = _next.add(1);)+
                while done < n {
                    let m = LANES.min(n - done);
                    $(let mut $x = $x.add(done);)+
                    $(let mut pad = $crate::tiles::Pad([<T as Default>::default(); LANES]);
                    if m < LANES {
                        std::ptr::copy_nonoverlapping($x.cast::<u8>(), pad.0.as_mut_ptr().cast::<u8>(), m * size_of::<T>());
                        $x = pad.0.as_ptr();
                    })+
                    let mut block = [const { std::mem::MaybeUninit::<O>::uninit() }; LANES];
                    for (j, slot) in block.iter_mut().enumerate() {
                        $(let $x = $x.add(j).read_unaligned();)+
                        slot.write($value);
                    }
                    let (from, to) = (block.as_ptr().cast::<u8>(), out.add(done * size_of::<O>()));
                    // A length that the compiler knows becomes stores; any other is a call for each block.
                    if m == LANES {
                        std::ptr::copy_nonoverlapping(from, to, LANES * size_of::<O>());
                    } else {
                        std::ptr::copy_nonoverlapping(from, to, m * size_of::<O>());
                    }
                    done += m;
                }
            }
        })
    };
}

/// Room for the end of an operand that does not fill a block.
#[repr(align(64))]
pub struct Pad<T>(pub [T; LANES]);
