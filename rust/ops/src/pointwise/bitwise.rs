//! Bitwise operations.

use rushlight_core::{Bool, DType, Error};
use rushlight_cpu::loops;
use rushlight_dispatch::operator::{DTypes, Derivative, Operator, Out, Variants, operator};

use super::numbers::Integer;
use super::{UNARY, common};

/// Shared by the binary operations.
#[operator]
const PAIR: Operator = Operator {
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    dtypes: DTypes::EXACT,
    check: Some(super::some_tensor),
    checked_dtypes: DTypes::NONE,
    derivative: Derivative::NonDifferentiable("its results are integers"),
    errors: &[super::MISMATCH],
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), t()"],
    ..Operator::BASE
};

#[operator]
pub static BITWISE_AND: Operator = Operator {
    name: "bitwise_and",
    doc: "The bitwise and; for bool the logical and.

    >>> torch.bitwise_and(torch.tensor([6, 5]), 3)
    tensor([2, 1])",
    implementation: common(loops! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x & y);
        for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
    }),
    reference: "np.bitwise_and(self, other)",
    ..PAIR
};

#[operator]
pub static BITWISE_OR: Operator = Operator {
    name: "bitwise_or",
    doc: "The bitwise or; for bool the logical or.

    >>> torch.bitwise_or(torch.tensor([6, 5]), 3)
    tensor([7, 7])",
    implementation: common(loops! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x | y);
        for<S> [Bool] (|x, y| Bool::from(x.get() | y.get()))
    }),
    reference: "np.bitwise_or(self, other)",
    ..PAIR
};

#[operator]
pub static BITWISE_XOR: Operator = Operator {
    name: "bitwise_xor",
    doc: "The bitwise exclusive or; for bool whether the operands differ.

    >>> torch.bitwise_xor(torch.tensor([6, 5]), 3)
    tensor([5, 6])",
    implementation: common(loops! {
        signless;
        for<S> [i8, i16, i32, i64] (|x, y| x ^ y);
        for<S> [Bool] (|x, y| Bool::from(x.get() ^ y.get()))
    }),
    reference: "np.bitwise_xor(self, other)",
    ..PAIR
};

#[operator]
pub static BITWISE_NOT: Operator = Operator {
    name: "bitwise_not",
    doc: "The bitwise complement of each element; for bool the logical not.

    >>> torch.bitwise_not(torch.tensor([0, 5]))
    tensor([-1, -6])",
    out: Out::COMPUTE_DTYPE,
    dtypes: DTypes::EXACT,
    implementation: common(loops! {
        signless;
        for<S> [i8, i16, i32, i64] (|x| !x);
        for<S> [Bool] (|x| Bool::from(!x.get()))
    }),
    derivative: Derivative::NonDifferentiable("its results are integers"),
    reference: "np.invert(self)",
    ..UNARY
};

/// The check of `~x`: as for `bitwise_not`, with its own message for dtypes without bits.
pub fn check_invert(dtype: DType) -> rushlight_core::Result<()> {
    if DTypes::EXACT.has(dtype) {
        return Ok(());
    }
    Err(Error::type_("~ (operator.invert) is only implemented on integer and Boolean-type tensors"))
}

#[operator]
pub static LEFT_SHIFT: Operator = Operator {
    name: "bitwise_left_shift",
    doc: "The bits shifted left by `other`.

    >>> torch.bitwise_left_shift(torch.tensor([1, 5]), 2)
    tensor([ 4, 20])",
    dtypes: DTypes::INTS,
    implementation: common(loops! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.left(y)) }),
    kernel_name: "lshift_cpu",
    samples: &["t(2, 3), i(5, 2, 3)", "t(4), 2"],
    reference: "np.left_shift(self, other)",
    ..PAIR
};

#[operator]
pub static RIGHT_SHIFT: Operator = Operator {
    name: "bitwise_right_shift",
    doc: "The bits shifted right by `other`; the sign is kept.

    >>> torch.bitwise_right_shift(torch.tensor([8, -8]), 2)
    tensor([ 2, -2])",
    dtypes: DTypes::INTS,
    implementation: common(loops! { for<S> [u8, i8, i16, i32, i64] (|x, y| x.right(y)) }),
    kernel_name: "rshift_cpu",
    samples: &["t(2, 3), i(5, 2, 3)", "t(4), 2"],
    reference: "np.right_shift(self, other)",
    ..PAIR
};
