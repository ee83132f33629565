//! Exponentials and logarithms.

use rushlight_core::dtype::{c64, c128};
use rushlight_cpu::tiles;

use crate::derive::{Derivative, Saves, formula};
use crate::row::{Pointwise, Promote, Row, Run, Variants};

pub static EXP: Row = Row {
    name: "exp",
    variants: Variants::ALL,
    signature: "(Tensor self) -> Tensor",
    doc: "The exponential of each element.

    out = e ** self

Integers give the default float dtype. The error is at most 1 ulp.

    >>> torch.exp(torch.tensor([0., 1.]))
    tensor([1.0000, 2.7183])",
    run: Run::Pointwise(Pointwise {
        promote: Promote::IntToFloat,
        cpu: tiles! {
            for<S> [f32, f64] (|x| S::exp(x));
            for<S> [c64, c128] (|x| x.exp())
        },
    }),
    cuda: Some("exp(self)"),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| d.grad() * d.result().conj())]),
    samples: &["t(2, 3)", "t(0)", "t()"],
    reference: "np.exp(self)",
    ..Row::BASE
};
