//! Losses that compare element by element.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::broadcast;
use rushlight_core::dtype::promote;
use rushlight_core::Result;

use super::Reduction;
use crate::convert::to_dtype;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::op;
use crate::pointwise::arith::{MUL, SUB};
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Output};

pub static MSE_LOSS: Row = Row {
    name: "mse_loss",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target, *, str reduction='mean') -> Tensor",
    doc: "The squared differences, as mean, sum or (`\"none\"`) each.

    >>> torch.nn.functional.mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]))
    tensor(2.5000)",
    dtypes: DTypes::INEXACT,
    run: Run::Compose(|args| {
        let reduction = Reduction::parse(args.str(2)?)?;
        let (input, target) = alike(args, "mse_cpu")?;
        op!(MSE, &input, &target, reduction.code()).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), t(2, 3)", "t(2, 3), t(2, 3), reduction='sum'", "t(2, 3), t(2, 3), reduction='none'"],
    errors: &[("t(3), t(3), reduction='foo'", "ValueError", "foo is not a valid value for reduction")],
    reference: "np.mean((self - target) ** 2)",
    ..Row::BASE
};

/// Both operands in their common dtype.
fn alike(args: &Args, kernel: &str) -> Result<(Tensor, Tensor)> {
    let (input, target) = (args.tensor(0)?, args.tensor(1)?);
    let dtype = promote(input.dtype(), target.dtype())?;
    if !dtype.is_floating() {
        return Err(super::refused(kernel, dtype));
    }
    Ok((to_dtype(input, dtype)?, to_dtype(target, dtype)?))
}

/// A gradient for each element: the incoming one, divided by their number where the loss is the mean.
fn each_gradient(d: &Derive, reduction: usize) -> Expr {
    match Reduction::of_code(d.int(reduction)) {
        Reduction::Mean => match broadcast(d.sizes(0), d.sizes(1)) {
            Ok(sizes) => d.grad() * (1.0 / sizes.iter().product::<isize>() as f64),
            Err(error) => Expr::Failed(error),
        },
        _ => d.grad(),
    }
}

pub static MSE: Row = Row {
    name: "_mse_loss",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, Tensor target, int reduction) -> Tensor",
    doc: "The squared differences; the reduction is 0 for none, 1 for mean, 2 for sum.

    >>> torch._mse_loss(torch.tensor([1., 2.]), torch.tensor([0., 4.]), 2)
    tensor(5.)",
    dtypes: DTypes::FLOATS,
    run: Run::Body(|args| {
        let difference = op!(SUB, args.tensor(0)?, args.tensor(1)?)?;
        let squares = op!(MUL, &difference, &difference)?;
        Reduction::of_code(args.int(2)?).apply(squares).map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).and(Saves::input(1)), |d| mse_gradient(d)),
        formula(1, Saves::input(0).and(Saves::input(1)), |d| -mse_gradient(d)),
    ]),
    node: "MseLossBackward0",
    samples: &["t(2, 3), t(2, 3), 0", "t(2, 3), t(2, 3), 1", "t(2, 3), t(3), 2"],
    reference: "",
    ..Row::BASE
};

fn mse_gradient(d: &Derive) -> Expr {
    (d.input(0) - d.input(1)) * (each_gradient(d, 2) * 2.0)
}
