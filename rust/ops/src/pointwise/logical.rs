//! Logical operations: every value but zero is true.

use rushlight_core::Bool;
use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::loops;
use rushlight_dispatch::operator::{DTypes, Derivative, Operator, Tags, operator};

use super::{BINARY, UNARY, question};

const WHY: Derivative = Derivative::NonDifferentiable("its results are bool");

/// A loop over the truth values of two operands.
macro_rules! truths {
    ($op:tt) => {
        question(loops! {
            signless;
            for<S> [i8, i16, i32, i64 => Bool] (|x, y| Bool::from((x != 0) $op (y != 0)));
            for<S> [f32, f64 => Bool] (|x, y| Bool::from((x != 0.0) $op (y != 0.0)));
            for<S> [c64, c128 => Bool] (|x, y| Bool::from((x != T::new(0.0, 0.0)) $op (y != T::new(0.0, 0.0))));
            for<S> [Bool => Bool] (|x, y| Bool::from(x.get() $op y.get()))
        })
    };
}

#[operator]
pub static LOGICAL_AND: Operator = Operator {
    name: "logical_and",
    doc: "Whether both elements are true.

    >>> torch.logical_and(torch.tensor([True, True]), torch.tensor([1, 0]))
    tensor([ True, False])",
    dtypes: DTypes::COMPUTED,
    implementation: truths!(&),
    tags: Tags::NO_GRAD_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_and(self, other)",
    ..BINARY
};

#[operator]
pub static LOGICAL_OR: Operator = Operator {
    name: "logical_or",
    doc: "Whether either element is true.

    >>> torch.logical_or(torch.tensor([True, False]), torch.tensor([0, 0]))
    tensor([ True, False])",
    dtypes: DTypes::COMPUTED,
    implementation: truths!(|),
    tags: Tags::NO_GRAD_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_or(self, other)",
    ..BINARY
};

#[operator]
pub static LOGICAL_XOR: Operator = Operator {
    name: "logical_xor",
    doc: "Whether exactly one element is true.

    >>> torch.logical_xor(torch.tensor([True, False]), torch.tensor([1, 1]))
    tensor([False,  True])",
    dtypes: DTypes::COMPUTED,
    implementation: truths!(^),
    tags: Tags::NO_GRAD_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_xor(self, other)",
    ..BINARY
};

#[operator]
pub static LOGICAL_NOT: Operator = Operator {
    name: "logical_not",
    doc: "Whether each element is zero.

    >>> torch.logical_not(torch.tensor([0, 3]))
    tensor([ True, False])",
    in_place_example: ">>> torch.tensor([0, 3]).logical_not_()
    tensor([1, 0])",
    dtypes: DTypes::COMPUTED,
    implementation: question(loops! {
        signless;
        for<S> [i8, i16, i32, i64 => Bool] (|x| Bool::from(x == 0));
        for<S> [f32, f64 => Bool] (|x| Bool::from(x == 0.0));
        for<S> [c64, c128 => Bool] (|x| Bool::from(x == T::new(0.0, 0.0)));
        for<S> [Bool => Bool] (|x| Bool::from(!x.get()))
    }),
    tags: Tags::NO_GRAD_IN_PLACE,
    derivative: WHY,
    reference: "np.logical_not(self)",
    ..UNARY
};
