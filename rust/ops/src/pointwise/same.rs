//! Whether two tensors are the same: one answer, not one for each element.

use rushlight_core::{Error, Result};

use super::compare::{EQ, ISCLOSE};
use crate::derive::Derivative;
use crate::reduce::truth::ALL;
use crate::row::{DTypes, Row, Run, Traits};
use crate::value::{Args, Output};

pub static ALLCLOSE: Row = Row {
    name: "allclose",
    signature: "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    doc: "Whether all elements are equal up to a tolerance.

    abs(self - other) <= atol + rtol * abs(other)

    >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1., 2.000001]))
    True",
    traits: Traits::NEEDS_VALUES,
    run: Run::Compose(|args| {
        let close =
            crate::op!(ISCLOSE, args.tensor(0)?, args.tensor(1)?, args.float(2)?, args.float(3)?, args.bool(4)?)?;
        all(&close)
    }),
    derivative: Derivative::NonDifferentiable("the answer is no tensor"),
    samples: &["t(2, 3), t(2, 3)", "t(4), t(4), 0.1, 0.5"],
    errors: &[super::MISMATCH],
    reference: "np.allclose(self, other, rtol, atol, equal_nan)",
    ..Row::BASE
};

pub static EQUAL: Row = Row {
    name: "equal",
    signature: "(Tensor self, Tensor other) -> bool",
    doc: "Whether two tensors have the same shape and the same elements; NaN equals nothing.

    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    run: Run::Compose(equal),
    derivative: Derivative::NonDifferentiable("the answer is no tensor"),
    samples: &["t(2, 3), t(2, 3)", "t(0), t(0)", "t(2), t(3)"],
    errors: &[("t(2), 1", "TypeError", "equal(): argument 'other' (position 2) must be Tensor, not int")],
    reference: "np.array_equal(self, other)",
    ..Row::BASE
};

fn all(flags: &rushlight_autograd::Tensor) -> Result<Output> {
    let answer = crate::item(&crate::op!(ALL, flags)?)?;
    Ok(Output::Bool(answer.truth()))
}

fn equal(args: &Args) -> Result<Output> {
    let (own, other) = (args.valued(0)?, args.valued(1)?);
    if own.device() != other.device() {
        return Err(Error::runtime(format!(
            "Cannot compare two tensors on different devices. Got: {} and {}",
            own.device(),
            other.device()
        )));
    }
    if own.sizes() != other.sizes() {
        return Ok(Output::Bool(false));
    }
    all(&crate::op!(EQ, &own.detach(), &other.detach())?)
}
