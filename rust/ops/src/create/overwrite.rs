//! Elements overwritten in place: `fill_`, `zero_`.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result, Scalar};

use super::check_fits;
use super::constant::ZEROS_LIKE;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::{Batch, Mapped, spread};
use crate::op;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::Output;

/// The result does not depend on what the tensor held: its gradient is zero.
pub(super) const OVERWRITTEN: Derivative = Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]);

/// A gradient of zeros.
pub(super) fn nothing(d: &Derive) -> Expr {
    d.grad().call(&ZEROS_LIKE, [])
}

pub static FILL_: Row = Row {
    name: "fill_.Scalar",
    node: "FillBackward2",
    variants: Variants::BOTH,
    signature: "(Tensor self, Scalar value) -> Tensor",
    doc: "Sets every element to one value, in place.

    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    check: Some(|args| check_fits(args.scalar(1)?, args.tensor(0)?.dtype())),
    traits: Traits::UNIFORM,
    mapped: Mapped::Batch,
    run: Run::Overwrite(|args, own| super::fill(own, args.scalar(1)?)),
    derivative: OVERWRITTEN,
    samples: &["t(2, 3), 1", "t(), 0", "t(3, 2).t(), 1"],
    errors: &[(
        "torch.zeros(2, dtype=torch.uint8), 300",
        "RuntimeError",
        "value cannot be converted to type uint8_t without overflow",
    )],
    reference: "np.full_like(self, value)",
    ..Row::BASE
};

fn check_single(value: &Tensor) -> Result<()> {
    match value.rank() {
        0 => Ok(()),
        rank => Err(Error::runtime(format!(
            "fill_ only supports 0-dimension value tensor but got tensor with {rank} dimensions."
        ))),
    }
}

pub static FILL_TENSOR_: Row = Row {
    name: "fill_.Tensor",
    node: "FillBackward3",
    variants: Variants::BOTH,
    signature: "(Tensor self, Tensor value) -> Tensor",
    doc: "Sets every element to the one of a tensor without dimensions, in place.

    >>> torch.zeros(2).fill_(torch.tensor(3))
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    check: Some(|args| check_single(args.tensor(1)?)),
    traits: Traits::NEEDS_VALUES.union(Traits::UNIFORM),
    run: Run::Overwrite(|args, own| crate::copy::copy(own, args.tensor(1)?)),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing), formula(1, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3), torch.tensor(1)", "t(3), t()"],
    errors: &[(
        "t(2), t(2)",
        "RuntimeError",
        "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.",
    )],
    reference: "np.full_like(self, value)",
    ..Row::BASE
};

fn filled(batch: &Batch) -> Result<Option<Output>> {
    let own = batch.tensor(0)?;
    let whole = match batch.args.optional_tensor(1) {
        None => op!(FILL, own, batch.args.scalar(1)?)?,
        Some(_) => {
            let whole = op!(FILL, &own, Scalar::ZERO)?;
            crate::copy::copy(&whole, &spread(&batch.tensor(1)?, own.rank() - 1))?;
            whole
        }
    };
    Ok(Some(Output::Tensor(whole)))
}

pub static FILL: Row = Row {
    name: "fill",
    node: "number=FillBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor|Scalar value) -> Tensor",
    doc: "A tensor like another one, with one value everywhere.

    >>> torch.fill(torch.zeros(2), 3)
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            match args.optional_tensor(1) {
                Some(value) => check_single(value)?,
                None => check_fits(args.scalar(1)?, own.dtype())?,
            }
            let layout = Layout { sizes: own.sizes().clone(), strides: own.layout().preserved_strides(), offset: 0 };
            Ok(vec![Spec { layout, dtype: own.dtype(), device: own.device() }])
        },
        cpu: |args, results| match args.optional_tensor(1) {
            Some(value) => crate::copy::copy(&results[0], value),
            None => super::fill(&results[0], args.scalar(1)?),
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing), formula(1, Saves::NOTHING, |d| d.grad())]),
    mapped: Mapped::Rule(filled),
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
    ..Row::BASE
};

pub static ZERO_: Row = Row {
    name: "zero_",
    signature: "(Tensor self) -> Tensor",
    doc: "Sets every element to 0, in place.

    >>> torch.ones(2).zero_()
    tensor([0., 0.])",
    dtypes: DTypes::ALL,
    traits: Traits::UNIFORM,
    sparse: Sparse::Body(crate::sparse::convert::emptied),
    mapped: Mapped::Batch,
    run: Run::Overwrite(|_, own| super::fill(own, Scalar::ZERO)),
    derivative: OVERWRITTEN,
    samples: &["t(2, 3)", "t()", "t(3, 2).t()"],
    errors: &[(
        "torch.ones(2, requires_grad=True)",
        "RuntimeError",
        "a leaf Variable that requires grad is being used in an in-place operation.",
    )],
    reference: "np.zeros_like(self)",
    ..Row::BASE
};
