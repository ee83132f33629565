//! One number along the main diagonal, in place.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Update, Variants, formula, operator,
};
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create};

#[operator]
pub static FILL_DIAGONAL: Operator = Operator {
    name: "fill_diagonal",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor",
    doc: "Fills the main diagonal with one number; with `wrap` the diagonal of a tall matrix continues below.

    >>> torch.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])",
    dtypes: DTypes::COMPUTED,
    implementation: Implementation::Update(Update::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            if input.rank() < 2 {
                return Err(Error::runtime("dimensions must larger than 1"));
            }
            if input.rank() > 2 && input.sizes().iter().any(|size| *size != input.sizes()[0]) {
                return Err(Error::runtime("all dimensions of input must be of equal length"));
            }
            create::check_fits(args.scalar(FILL_VALUE)?, input.dtype())
        },
        fill,
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&CLEARED, [d.flag(WRAP).into()])
    })]),
    samples: &["t(3, 4), 2", "t(7, 2), 3", "t(7, 2), 3, True", "t(2, 2, 2), 1"],
    errors: &[
        ("t(3), 1", "RuntimeError", "dimensions must larger than 1"),
        ("t(2, 3, 2), 1", "RuntimeError", "all dimensions of input must be of equal length"),
    ],
    reference: "",
    ..Operator::BASE
};

/// The gradient of `fill_diagonal_` for the elements that it does not change.
#[operator]
pub static CLEARED: Operator = Operator {
    name: "_clear_diagonal",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool wrap) -> Tensor",
    doc: "A copy with zeros at the elements to which `fill_diagonal_` writes.

    >>> torch._clear_diagonal(torch.ones(2, 2), False)
    tensor([[0., 1.],
            [1., 0.]])",
    dtypes: DTypes::COMPUTED,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let copy = copy::clone(args.tensor(INPUT)?)?;
        write(&copy, rushlight_core::Scalar::ZERO, args.bool(WRAP)?)?;
        Ok(Output::Tensor(copy))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        d.grad().call(&CLEARED, [d.flag(WRAP).into()])
    })]),
    samples: &["t(3, 4), False", "t(7, 2), True"],
    reference: "",
    ..Operator::BASE
};

fn fill(args: &Args, target: &Tensor) -> Result<()> {
    use FILL_DIAGONAL::*;

    write(target, args.scalar(FILL_VALUE)?, args.bool(WRAP)?)
}

fn write(target: &Tensor, value: rushlight_core::Scalar, wrap: bool) -> Result<()> {
    let layout = target.layout();
    let Some(&shortest) = layout.sizes.iter().min() else { return Ok(()) };
    // A tensor without memory may have too many elements to iterate over.
    if shortest == 0 || target.device() == rushlight_core::Device::Meta {
        return Ok(());
    }
    let step: isize = layout.strides.iter().sum();
    let along = |first: isize, count: isize| {
        let line =
            Layout { sizes: [count].into_iter().collect(), strides: [step].into_iter().collect(), offset: first };
        let line = Tensor::with_meta(target.meta_with(line));
        copy::copy(&line, &create::scalar_of(value, target.dtype(), target.device())?)
    };
    along(layout.offset, shortest)?;
    if !wrap || layout.rank() != 2 {
        return Ok(());
    }
    // Below each square block one row is unchanged, and then the next block begins.
    let (rows, cols) = (layout.sizes[0], layout.sizes[1]);
    let mut top = cols + 1;
    while top < rows {
        along(layout.offset + top * layout.strides[0], cols.min(rows - top))?;
        top += cols + 1;
    }
    Ok(())
}
