//! Whether two tensors are equal: one result for all elements.

use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Tags, operator};
use rushlight_dispatch::value::Output;

use super::compare::{EQ, ISCLOSE};
use crate::reduce::all_any::ALL;

#[operator]
pub static ALLCLOSE: Operator = Operator {
    name: "allclose",
    signature: "(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> bool",
    doc: "Whether all elements are equal up to a tolerance. `input` and `other` broadcast together.

    abs(self - other) <= atol + rtol * abs(other)

    >>> torch.allclose(torch.tensor([1., 2.]), torch.tensor([1., 2.000001]))
    True",
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::CompositeImplicit(|args| {
        let close = op!(
            ISCLOSE,
            args.tensor(INPUT)?,
            args.tensor(OTHER)?,
            args.float(RTOL)?,
            args.float(ATOL)?,
            args.bool(EQUAL_NAN)?
        )?;
        all(&close)
    }),
    derivative: Derivative::NonDifferentiable("the result is not a tensor"),
    samples: &["t(2, 3), t(2, 3)", "t(4), t(4), 0.1, 0.5"],
    errors: &[super::MISMATCH],
    reference: "np.allclose(self, other, rtol, atol, equal_nan)",
    ..Operator::BASE
};

#[operator]
pub static EQUAL: Operator = Operator {
    name: "equal",
    signature: "(Tensor self, Tensor other) -> bool",
    doc: "Whether two tensors have the same shape and the same elements; NaN equals nothing.

    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True",
    dtypes: DTypes::COMPUTED.union(DTypes::FLOAT8),
    tags: Tags::DATA_DEPENDENT,
    implementation: Implementation::CompositeImplicit(equal),
    derivative: Derivative::NonDifferentiable("the result is not a tensor"),
    samples: &["t(2, 3), t(2, 3)", "t(0), t(0)", "t(2), t(3)"],
    errors: &[("t(2), 1", "TypeError", "equal(): argument 'other' (position 2) must be Tensor, not int")],
    reference: "np.array_equal(self, other)",
    ..Operator::BASE
};

fn all(flags: &rushlight_autograd::Tensor) -> Result<Output> {
    let answer = crate::convert::item(&op!(ALL, flags)?)?;
    Ok(Output::Bool(answer.truth()))
}

fn equal(args: &Args) -> Result<Output> {
    use EQUAL::*;

    let (input, other) = (args.valued(INPUT)?, args.valued(OTHER)?);
    if input.device() != other.device() {
        return Err(Error::runtime(format!(
            "Cannot compare two tensors on different devices. Got: {} and {}",
            input.device(),
            other.device()
        )));
    }
    if input.sizes() != other.sizes() {
        return Ok(Output::Bool(false));
    }
    all(&op!(EQ, &input.detach(), &other.detach())?)
}
