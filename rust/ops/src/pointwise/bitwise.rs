//! Operations on bits.

use rushlight_core::{Bool, DType, Error};
use rushlight_cpu::tiles;

use super::numbers::Integer;
use super::{UNARY, common};
use crate::derive::Derivative;
use crate::row::{DTypes, Out, Row, Variants};

/// What the operations on two operands have in common.
const PAIR: Row = Row {
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    dtypes: DTypes::EXACT,
    check: Some(super::some_tensor),
    checks: DTypes::NONE,
    derivative: Derivative::NonDifferentiable("its results are integers"),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), t()"],
    ..Row::BASE
};

pub static BITWISE_AND: Row = Row {
    name: "bitwise_and",
    doc: "The bits that both operands have; of bool the logical and.

    >>> torch.bitwise_and(torch.tensor([6, 5]), 3)
    tensor([2, 1])",
    run: common(tiles! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x & y);
        for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
    }),
    cuda: Some("self & other"),
    reference: "np.bitwise_and(self, other)",
    ..PAIR
};

pub static BITWISE_OR: Row = Row {
    name: "bitwise_or",
    doc: "The bits that either operand has; of bool the logical or.

    >>> torch.bitwise_or(torch.tensor([6, 5]), 3)
    tensor([7, 7])",
    run: common(tiles! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x | y);
        for<S> [Bool] (|x, y| Bool::from(x.get() | y.get()))
    }),
    cuda: Some("self | other"),
    reference: "np.bitwise_or(self, other)",
    ..PAIR
};

pub static BITWISE_XOR: Row = Row {
    name: "bitwise_xor",
    doc: "The bits that exactly one operand has; of bool whether they differ.

    >>> torch.bitwise_xor(torch.tensor([6, 5]), 3)
    tensor([5, 6])",
    run: common(tiles! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x ^ y);
        for<S> [Bool] (|x, y| Bool::from(x.get() ^ y.get()))
    }),
    cuda: Some("self ^ other"),
    reference: "np.bitwise_xor(self, other)",
    ..PAIR
};

pub static BITWISE_NOT: Row = Row {
    name: "bitwise_not",
    doc: "The other bits of each element; of bool the logical not.

    >>> torch.bitwise_not(torch.tensor([0, 5]))
    tensor([-1, -6])",
    out: Out::FOUND,
    dtypes: DTypes::EXACT,
    run: common(tiles! {
        signless;
        for<S> [i8, i16, i32, i64] (|x| !x);
        for<S> [Bool] (|x| Bool::from(!x.get()))
    }),
    cuda: Some("~self"),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.invert(self)",
    ..UNARY
};

/// `~x`: as `bitwise_not`, with a sentence of its own for what has no bits.
pub fn check_invert(dtype: DType) -> rushlight_core::Result<()> {
    if DTypes::EXACT.has(dtype) {
        return Ok(());
    }
    Err(Error::type_("~ (operator.invert) is only implemented on integer and Boolean-type tensors"))
}

pub static LEFT_SHIFT: Row = Row {
    name: "bitwise_left_shift",
    doc: "The bits moved up by `other` places.

    >>> torch.bitwise_left_shift(torch.tensor([1, 5]), 2)
    tensor([ 4, 20])",
    dtypes: DTypes::INTS,
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.left(y)) }),
    refuses: "lshift_cpu",
    cuda: Some("self << other"),
    samples: &["t(2, 3), i(5, 2, 3)", "t(4), 2"],
    reference: "np.left_shift(self, other)",
    ..PAIR
};

pub static RIGHT_SHIFT: Row = Row {
    name: "bitwise_right_shift",
    doc: "The bits moved down by `other` places; the sign stays.

    >>> torch.bitwise_right_shift(torch.tensor([8, -8]), 2)
    tensor([ 2, -2])",
    dtypes: DTypes::INTS,
    run: common(tiles! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.right(y)) }),
    refuses: "rshift_cpu",
    cuda: Some("self >> other"),
    samples: &["t(2, 3), i(5, 2, 3)", "t(4), 2"],
    reference: "np.right_shift(self, other)",
    ..PAIR
};
