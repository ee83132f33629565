//! Elements overwritten in place: `fill_`, `zero_`.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result, Scalar};

use super::check_fits;
use super::constant::ZEROS_LIKE;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::node::Change;
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Output};

/// The result does not depend on what the tensor held: its gradient is zero.
pub(super) const OVERWRITTEN: Derivative = Derivative::Formulas(&[formula(0, Saves::NOTHING, nothing)]);

/// A gradient of zeros.
pub(super) fn nothing(d: &Derive) -> Expr {
    d.grad().call(&ZEROS_LIKE, [])
}

/// Runs a body that changes the first argument, between autograd's checks and its record.
pub fn change(args: &Args, body: impl FnOnce(&Tensor) -> Result<()>) -> Result<Output> {
    let own = args.tensor(0)?;
    crate::variants::check_writable(own)?;
    let change = Change::begin(args)?;
    body(own)?;
    change.finish()
}

pub static FILL_: Row = Row {
    name: "fill_.Scalar",
    variants: Variants::BOTH,
    signature: "(Tensor self, Scalar value) -> Tensor",
    doc: "Sets every element to one value, in place.

    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let value = args.scalar(1)?;
        check_fits(value, args.tensor(0)?.dtype())?;
        change(args, |own| super::fill(own, value))
    }),
    derivative: OVERWRITTEN,
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
    variants: Variants::BOTH,
    signature: "(Tensor self, Tensor value) -> Tensor",
    doc: "Sets every element to the one of a tensor without dimensions, in place.

    >>> torch.zeros(2).fill_(torch.tensor(3))
    tensor([3., 3.])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let value = args.tensor(1)?;
        check_single(value)?;
        change(args, |own| crate::copy::copy(own, value))
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, nothing),
        formula(1, Saves::NOTHING, |d| d.grad()),
    ]),
    ..Row::BASE
};

pub static FILL: Row = Row {
    name: "fill",
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
            let layout =
                Layout { sizes: own.sizes().clone(), strides: own.layout().preserved_strides(), offset: 0 };
            Ok(vec![Spec { layout, dtype: own.dtype(), device: own.device() }])
        },
        cpu: |args, results| match args.optional_tensor(1) {
            Some(value) => crate::copy::copy(&results[0], value),
            None => super::fill(&results[0], args.scalar(1)?),
        },
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, nothing),
        formula(1, Saves::NOTHING, |d| d.grad()),
    ]),
    samples: &["t(2, 3), 1", "t(), 0"],
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
    run: Run::Compose(|args| change(args, |own| super::fill(own, Scalar::ZERO))),
    derivative: OVERWRITTEN,
    ..Row::BASE
};
