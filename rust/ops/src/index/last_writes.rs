//! Which of several values that were written to one element is the last.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{DType, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::BackwardContext;
use rushlight_dispatch::value::sizes_value;
use rushlight_dispatch::{create, op};

use crate::create::range::ARANGE;
use crate::expr_ext::ExprExt;

/// The gradient of written values, of which all but the last of an element get zero if a tangent is computed from it.
///
/// `write` writes integers in place of the values into a tensor of zeros with the shape of the result, `read` reads them
/// at the places of the values.
pub fn of_last_writes(
    d: &BackwardContext,
    grad: Expr,
    write: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    read: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Expr {
    let Expr::Tensor(grad) = grad else { return grad };
    if !d.for_tangent() {
        return Expr::Tensor(grad);
    }
    let kept = || {
        let _off = GradMode::new(false);
        let zeros = create::zeros(&d.results[0].sizes, DType::I64, grad.device())?;
        let numbers = op!(ARANGE, Scalar::Int(grad.numel() as i64))?;
        let numbers = op!(crate::view::RESHAPE, &numbers, sizes_value(grad.sizes()))?;
        Expr::from(read(&write(&zeros, &numbers)?)?).equals(Expr::from(numbers)).done()
    };
    match kept() {
        Ok(kept) => Expr::from(kept).choose(Expr::from(grad), 0.0),
        Err(error) => Expr::failed(error),
    }
}
