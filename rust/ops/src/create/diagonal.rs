//! One number along the main diagonal, in place.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Saves, formula};
use crate::row::{DTypes, Row, Run, Update, Variants};
use crate::value::Args;

pub static FILL_DIAGONAL: Row = Row {
    name: "fill_diagonal",
    variants: Variants::INPLACE,
    signature: "(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor",
    doc: "One number along the main diagonal; with `wrap` the diagonal of a tall matrix begins anew below.

    >>> torch.zeros(2, 2).fill_diagonal_(5)
    tensor([[5., 0.],
            [0., 5.]])",
    dtypes: DTypes::ALL,
    run: Run::Update(Update {
        check: |args| {
            let own = args.tensor(0)?;
            if own.rank() < 2 {
                return Err(Error::runtime("dimensions must larger than 1"));
            }
            if own.rank() > 2 && own.sizes().iter().any(|size| *size != own.sizes()[0]) {
                return Err(Error::runtime("all dimensions of input must be of equal length"));
            }
            crate::create::check_fits(args.scalar(1)?, own.dtype())
        },
        cpu: fill,
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().call(&CLEARED, [d.flag(2).into()]))]),
    samples: &["t(3, 4), 2", "t(7, 2), 3", "t(7, 2), 3, True", "t(2, 2, 2), 1"],
    errors: &[
        ("t(3), 1", "RuntimeError", "dimensions must larger than 1"),
        ("t(2, 3, 2), 1", "RuntimeError", "all dimensions of input must be of equal length"),
    ],
    reference: "",
    ..Row::BASE
};

/// The gradient of what stands beside a diagonal.
pub static CLEARED: Row = Row {
    name: "_clear_diagonal",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, bool wrap) -> Tensor",
    doc: "A copy with zeros where `fill_diagonal_` writes.

    >>> torch._clear_diagonal(torch.ones(2, 2), False)
    tensor([[0., 1.],
            [1., 0.]])",
    dtypes: DTypes::ALL,
    run: Run::Body(|args| {
        let copy = crate::copy::clone(args.tensor(0)?)?;
        write(&copy, rushlight_core::Scalar::ZERO, args.bool(1)?)?;
        Ok(crate::value::Output::Tensor(copy))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad().call(&CLEARED, [d.flag(1).into()]))]),
    samples: &["t(3, 4), False", "t(7, 2), True"],
    reference: "",
    ..Row::BASE
};

fn fill(args: &Args, target: &Tensor) -> Result<()> {
    write(target, args.scalar(1)?, args.bool(2)?)
}

fn write(target: &Tensor, value: rushlight_core::Scalar, wrap: bool) -> Result<()> {
    let layout = target.layout();
    let Some(&shortest) = layout.sizes.iter().min() else { return Ok(()) };
    // Elements that exist nowhere may be too many to walk past.
    if shortest == 0 || target.device() == rushlight_core::Device::Meta {
        return Ok(());
    }
    let step: isize = layout.strides.iter().sum();
    let along = |first: isize, count: isize| {
        let line =
            Layout { sizes: [count].into_iter().collect(), strides: [step].into_iter().collect(), offset: first };
        let line = Tensor::with_meta(target.meta_with(line));
        crate::copy::copy(&line, &crate::create::scalar_of(value, target.dtype(), target.device())?)
    };
    along(layout.offset, shortest)?;
    if !wrap || layout.rank() != 2 {
        return Ok(());
    }
    // Below each square comes a row that stays as it is, and then the next square.
    let (rows, cols) = (layout.sizes[0], layout.sizes[1]);
    let mut top = cols + 1;
    while top < rows {
        along(layout.offset + top * layout.strides[0], cols.min(rows - top))?;
        top += cols + 1;
    }
    Ok(())
}
