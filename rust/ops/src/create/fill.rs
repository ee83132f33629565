//! Elements overwritten in place: `fill_`, `zero_`.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result, Scalar};
use rushlight_dispatch::create::check_fits;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, InPlaceFill, Kernel, Operator, Saves,
    Sparse, Tags, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::vmap::unsqueeze_to_rank;
use rushlight_dispatch::{copy, create, op};

use super::constant::ZEROS_LIKE;

/// The result does not depend on the tensor's old values: its gradient is zero.
pub(super) const ZERO_GRADIENT: Derivative = Derivative::Formulas(&[formula(FILL::INPUT, Saves::NOTHING, nothing)]);

/// A gradient of zeros.
pub fn nothing(d: &BackwardContext) -> Expr {
    d.grad().call(&ZEROS_LIKE, [])
}

#[operator]
pub static FILL_: Operator = Operator {
    name: "fill_.Scalar",
    node: "FillBackward2",
    variants: Variants::BOTH,
    signature: "(Tensor self, Scalar value) -> Tensor",
    doc: "Sets every element to one value, in place.

    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    check: Some(|args| check_fits(args.scalar(VALUE)?, args.tensor(INPUT)?.dtype())),
    tags: Tags::UNIFORM,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        create::fill(own, args.scalar(VALUE)?)
    })),
    derivative: ZERO_GRADIENT,
    samples: &["t(2, 3), 1", "t(), 0", "t(3, 2).t(), 1"],
    errors: &[(
        "torch.zeros(2, dtype=torch.uint8), 300",
        "RuntimeError",
        "value cannot be converted to type uint8_t without overflow",
    )],
    reference: "np.full_like(self, value)",
    ..Operator::BASE
};

fn check_single(value: &Tensor) -> Result<()> {
    match value.rank() {
        0 => Ok(()),
        rank => Err(Error::runtime(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions."
        ))),
    }
}

#[operator]
pub static FILL_TENSOR_: Operator = Operator {
    name: "fill_.Tensor",
    node: "FillBackward3",
    variants: Variants::BOTH,
    signature: "(Tensor self, Tensor value) -> Tensor",
    doc: "Sets every element to the value of a 0-d tensor, in place.

    >>> torch.zeros(2).fill_(torch.tensor(3))
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    check: Some(|args| check_single(args.tensor(VALUE)?)),
    tags: Tags::DATA_DEPENDENT.union(Tags::UNIFORM),
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|args, own| {
        copy::copy(own, args.tensor(VALUE)?)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, nothing),
        formula(VALUE, Saves::NOTHING, |d| d.grad()),
    ]),
    samples: &["t(2, 3), torch.tensor(1)", "t(3), t()"],
    errors: &[(
        "t(2), t(2)",
        "RuntimeError",
        "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.",
    )],
    reference: "np.full_like(self, value)",
    ..Operator::BASE
};

fn filled(batch: &BatchedCall) -> Result<Option<Output>> {
    use FILL::*;

    let input = batch.tensor(INPUT)?;
    let whole = match batch.args.optional_tensor(VALUE) {
        None => op!(FILL, input, batch.args.scalar(VALUE)?)?,
        Some(_) => {
            let whole = op!(FILL, &input, Scalar::ZERO)?;
            copy::copy(&whole, &unsqueeze_to_rank(&batch.tensor(VALUE)?, input.rank() - 1))?;
            whole
        }
    };
    Ok(Some(Output::Tensor(whole)))
}

#[operator]
pub static FILL: Operator = Operator {
    name: "fill",
    node: "number=FillBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor|Scalar value) -> Tensor",
    doc: "A tensor like another one, filled with one value.

    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            match args.optional_tensor(VALUE) {
                Some(value) => check_single(value)?,
                None => check_fits(args.scalar(VALUE)?, input.dtype())?,
            }
            let layout =
                Layout { sizes: input.sizes().clone(), strides: input.layout().preserved_strides(), offset: 0 };
            Ok(vec![TensorSpec { layout, dtype: input.dtype(), device: input.device() }])
        },
        |args, results| match args.optional_tensor(VALUE) {
            Some(value) => copy::copy(&results[0], value),
            None => create::fill(&results[0], args.scalar(VALUE)?),
        },
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::NOTHING, nothing),
        formula(VALUE, Saves::NOTHING, |d| d.grad()),
    ]),
    batch_rule: BatchRule::Custom(filled),
    samples: &["t(2, 3), 1", "t(), 0"],
    errors: &[
        (
            "t(2), t(2)",
            "RuntimeError",
            "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.",
        ),
        (
            "torch.zeros(2, dtype=torch.uint8), 300",
            "RuntimeError",
            "value cannot be converted to type uint8_t without overflow",
        ),
    ],
    reference: "np.full_like(self, value)",
    ..Operator::BASE
};

#[operator]
pub static ZERO_: Operator = Operator {
    name: "zero_",
    signature: "(Tensor self) -> Tensor",
    doc: "Sets every element to 0, in place.

    >>> torch.ones(2).zero_()
    tensor([0., 0.])",
    dtypes: DTypes::ALL,
    tags: Tags::UNIFORM,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::InPlaceFill(InPlaceFill::on_any_device(|_, own| create::fill(own, Scalar::ZERO))),
    derivative: ZERO_GRADIENT,
    samples: &["t(2, 3)", "t()", "t(3, 2).t()"],
    errors: &[(
        "torch.ones(2, requires_grad=True)",
        "RuntimeError",
        "a leaf Variable that requires grad is being used in an in-place operation.",
    )],
    reference: "np.zeros_like(self)",
    ..Operator::BASE
};
