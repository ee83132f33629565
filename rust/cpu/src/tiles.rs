//! `tiles!`: from an expression to a row's loops, one for each compute dtype.

use std::mem::MaybeUninit;

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
/// Names before `;` are elements of the operands in order, names behind it the row's numbers, converted to `T`, and names
/// behind `;;` numbers that may be absent: an `Option<T>` each. `T` is
/// the dtype of a loop and `S` its instruction set (`S::exp(x)` is the vector form of `exp`). `[f32, f64 => Bool]` gives
/// results of another type. After `signless;` unsigned integers take the loops of the signed ones: for what gives the same bits.
#[macro_export]
macro_rules! tiles {
    (signless; $($loops:tt)+) => {{
        fn signless(dtype: $crate::reexport::DType) -> Option<$crate::pointwise::Tile> {
            $crate::tiles!($($loops)+)(dtype.signed())
        }
        signless as fn($crate::reexport::DType) -> Option<$crate::pointwise::Tile>
    }};
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
    (@tile $S:ident, $T:ty, [$O:ty], (|$($x:ident),+ $(; $($p:ident),+)? $(;; $($o:ident),+)?| $value:expr)) => {
        $crate::reexport::simd_loop!(for<$S> |out: *mut u8, inputs: *const *const u8, n: usize, numbers: &[$crate::reexport::Scalar]| {
            use $crate::tiles::LANES;
            #[allow(dead_code)]
            type T = $T;
            type O = $O;
            $($(#[allow(unused_mut)] let mut $p = <T as Default>::default();)+)?
            let mut _given = numbers.iter();
            $($(if let Some(number) = _given.next() { $p = <T as $crate::reexport::Element>::from_scalar(*number); })+)?
            $($(let $o = _given.next().map(|number| <T as $crate::reexport::Element>::from_scalar(*number));)+)?
            let mut done = 0usize;
            // SAFETY: the caller gives n elements behind each pointer; blocks are of LANES, and a pad is one.
            unsafe {
                let mut _next = inputs;
                $(let $x = (*_next).cast::<T>(); _next = _next.add(1);)+
                while done < n {
                    let left = n - done;
                    $(let mut $x = $x.add(done);
                    let mut pad = std::mem::MaybeUninit::<[T; LANES]>::uninit();
                    if left < LANES {
                        $x = $crate::tiles::padded(&mut pad, $x, left);
                    })+
                    let mut block = [const { std::mem::MaybeUninit::<O>::uninit() }; LANES];
                    for (j, slot) in block.iter_mut().enumerate() {
                        $(let $x = $x.add(j).read_unaligned();)+
                        slot.write($value);
                    }
                    let to = out.cast::<O>().add(done);
                    if left < LANES {
                        $crate::tiles::store_part(to, block, left);
                    } else {
                        to.cast::<[std::mem::MaybeUninit<O>; LANES]>().write_unaligned(block);
                    }
                    done += LANES;
                }
            }
        })
    };
}

/// The end of an operand that does not fill a block, in room for one.
///
/// Far from the loops, as `store_part` is: a call inside would cost them their registers, and a block whose address leaves
/// its place in them.
///
/// # Safety
/// `left` elements stand at `from`, fewer than a block.
#[cold]
#[inline(never)]
pub unsafe fn padded<T: Copy + Default>(pad: &mut MaybeUninit<[T; LANES]>, from: *const T, left: usize) -> *const T {
    let pad = pad.write([T::default(); LANES]).as_mut_ptr();
    // SAFETY: by the caller's word; bytes, because foreign memory may be unaligned.
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
    // SAFETY: by the caller's word.
    unsafe { std::ptr::copy_nonoverlapping(block.as_ptr().cast::<u8>(), to.cast::<u8>(), left * size_of::<O>()) }
}
