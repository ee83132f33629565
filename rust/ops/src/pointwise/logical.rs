//! Logic: everything but zero is true.

use rushlight_core::Bool;
use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::tiles;

use super::{BINARY, UNARY, question};
use crate::derive::Derivative;
use crate::row::{DTypes, Row, Traits};

const WHY: Derivative = Derivative::NonDifferentiable("its results are bool");

/// A loop over the truth of two operands.
macro_rules! truths {
    ($op:tt) => {
        question(tiles! {
            signless;
            for<S> [i8, i16, i32, i64 => Bool] (|x, y| Bool::from((x != 0) $op (y != 0)));
            for<S> [f32, f64 => Bool] (|x, y| Bool::from((x != 0.0) $op (y != 0.0)));
            for<S> [c64, c128 => Bool] (|x, y| Bool::from((x != T::new(0.0, 0.0)) $op (y != T::new(0.0, 0.0))));
            for<S> [Bool => Bool] (|x, y| Bool::from(x.get() $op y.get()))
        })
    };
}

pub static LOGICAL_AND: Row = Row {
    name: "logical_and",
    doc: "Whether both elements are true.

    >>> torch.logical_and(torch.tensor([True, True]), torch.tensor([1, 0]))
    tensor([ True, False])",
    dtypes: DTypes::ALL,
    run: truths!(&),
    cuda: Some("(self != 0) && (other != 0)"),
    traits: Traits::UNRECORDED_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_and(self, other)",
    ..BINARY
};

pub static LOGICAL_OR: Row = Row {
    name: "logical_or",
    doc: "Whether either element is true.

    >>> torch.logical_or(torch.tensor([True, False]), torch.tensor([0, 0]))
    tensor([ True, False])",
    dtypes: DTypes::ALL,
    run: truths!(|),
    cuda: Some("(self != 0) || (other != 0)"),
    traits: Traits::UNRECORDED_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_or(self, other)",
    ..BINARY
};

pub static LOGICAL_XOR: Row = Row {
    name: "logical_xor",
    doc: "Whether exactly one element is true.

    >>> torch.logical_xor(torch.tensor([True, False]), torch.tensor([1, 1]))
    tensor([False,  True])",
    dtypes: DTypes::ALL,
    run: truths!(^),
    cuda: Some("(self != 0) != (other != 0)"),
    traits: Traits::UNRECORDED_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_xor(self, other)",
    ..BINARY
};

pub static LOGICAL_NOT: Row = Row {
    name: "logical_not",
    doc: "Whether each element is zero.

    >>> torch.logical_not(torch.tensor([0, 3]))
    tensor([ True, False])",
    dtypes: DTypes::ALL,
    run: question(tiles! {
        signless;
        for<S> [i8, i16, i32, i64 => Bool] (|x| Bool::from(x == 0));
        for<S> [f32, f64 => Bool] (|x| Bool::from(x == 0.0));
        for<S> [c64, c128 => Bool] (|x| Bool::from(x == T::new(0.0, 0.0)));
        for<S> [Bool => Bool] (|x| Bool::from(!x.get()))
    }),
    cuda: Some("self == 0"),
    traits: Traits::UNRECORDED_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_not(self)",
    ..UNARY
};
