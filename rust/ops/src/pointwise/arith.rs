//! Sums, differences, products, quotients.

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, Scalar};
use rushlight_cpu::tiles;

use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Pointwise, Promote, Row, Run, Variants};

pub static ADD: Row = Row {
    name: "add",
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Adds `other`, scaled by `alpha`, to `self`.

    out = self + alpha * other

Both arguments broadcast; integers, floats and complex numbers promote to their common dtype.

    >>> torch.add(torch.tensor([1, 2, 3]), torch.tensor([[10], [20]]), alpha=2)
    tensor([[21, 22, 23],
            [41, 42, 43]])",
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x, y; alpha| x.wrapping_add(alpha.wrapping_mul(y)));
            for<S> [f32, f64, c64, c128] (|x, y; alpha| x + alpha * y);
            for<S> [Bool] (|x, y; alpha| Bool::from(x.get() | (alpha.get() & y.get())))
        },
    }),
    cuda: Some("self + alpha * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::NOTHING, |d| scaled(d.grad(), d.scalar(2))),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2", "t(0, 3), t(1, 3)"],
    errors: &[(
        "t(5, 2, 4), t(3, 1)",
        "RuntimeError",
        "The size of tensor a (2) must match the size of tensor b (3) at non-singleton dimension 1",
    )],
    reference: "np.add(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Row::BASE
};

/// A gradient times the conjugate of a number, which is often one.
fn scaled(grad: Expr, factor: Scalar) -> Expr {
    if factor.is_one() { grad } else { grad * Expr::from(factor).conj() }
}

pub static SUB: Row = Row {
    name: "sub",
    aliases: &["subtract"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor",
    doc: "Subtracts `other`, scaled by `alpha`, from `self`.

    out = self - alpha * other

Both arguments broadcast and promote to their common dtype; bool has no difference.

    >>> torch.sub(torch.tensor([5, 7]), 2)
    tensor([3, 5])",
    dtypes: DTypes::NUMBERS,
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x, y; alpha| x.wrapping_sub(alpha.wrapping_mul(y)));
            for<S> [f32, f64, c64, c128] (|x, y; alpha| x - alpha * y)
        },
    }),
    cuda: Some("self - alpha * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::NOTHING, |d| -scaled(d.grad(), d.scalar(2))),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2", "t(2, 3), t(), alpha=2"],
    reference: "np.subtract(self, np.multiply(other, alpha, dtype=np.result_type(other)))",
    ..Row::BASE
};

pub static MUL: Row = Row {
    name: "mul",
    aliases: &["multiply"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "Multiplies element by element.

    out = self * other

    >>> torch.mul(torch.tensor([1., 2.]), torch.tensor([[3.], [4.]]))
    tensor([[3., 6.],
            [4., 8.]])",
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x, y| x.wrapping_mul(y));
            for<S> [f32, f64, c64, c128] (|x, y| x * y);
            for<S> [Bool] (|x, y| Bool::from(x.get() & y.get()))
        },
    }),
    cuda: Some("self * other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() * d.input(1).conj()),
        formula(1, Saves::input(0), |d| d.grad() * d.input(0).conj()),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.multiply(self, other)",
    ..Row::BASE
};

pub static DIV: Row = Row {
    name: "div",
    aliases: &["divide", "true_divide"],
    variants: Variants::ALL,
    signature: "(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
    doc: "Divides element by element; integers give the default float dtype.

    out = self / other

    >>> torch.div(torch.tensor([7, 1]), 2)
    tensor([3.5000, 0.5000])",
    run: Run::Pointwise(Pointwise {
        promote: Promote::IntToFloat,
        cpu: tiles! { for<S> [f32, f64, c64, c128] (|x, y| x / y) },
    }),
    cuda: Some("self / other"),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad() / d.input(1).conj()),
        formula(1, Saves::input(0).and(Saves::input(1)), |d| {
            -d.grad() * ((d.input(0) / d.input(1)) / d.input(1)).conj()
        }),
    ]),
    samples: &["t(2, 3), t(2, 3)", "t(5, 1, 4), t(3, 1)", "t(4), 2"],
    reference: "np.true_divide(self, other)",
    ..Row::BASE
};

pub static NEG: Row = Row {
    name: "neg",
    aliases: &["negative"],
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The negative of each element.

    >>> torch.neg(torch.tensor([1, -2]))
    tensor([-1,  2])",
    dtypes: DTypes::NUMBERS,
    run: Run::Pointwise(Pointwise {
        promote: Promote::Common,
        cpu: tiles! {
            for<S> [u8, i8, i16, i32, i64] (|x| x.wrapping_neg());
            for<S> [f32, f64, c64, c128] (|x| -x)
        },
    }),
    cuda: Some("-self"),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| -d.grad())]),
    samples: &["t(2, 3)", "t()"],
    reference: "np.negative(self)",
    ..Row::BASE
};
