//! Derivatives of maxima, sorts and so on: gradients are written back at the indices from which elements came.

use rushlight_core::layout::wrap_dim;
use rushlight_dispatch::create;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{BackwardContext, DTypes};
use rushlight_dispatch::value::Arg;

use crate::index::scatter::SCATTER_ADD;

/// The dtypes of operators that select elements by their order.
pub const ORDERED: DTypes = DTypes::REAL.union(DTypes::BOOL);

/// The gradient of one element selected along `dim`, written back at its index.
pub fn select_backward(d: &BackwardContext, grad: Expr, index: Expr, dim: i64, keepdim: bool) -> Expr {
    let rank = d.rank(Arg::FIRST);
    scatter_gradient(d, grad.unreduce(&[dim], keepdim, rank), index.unreduce(&[dim], keepdim, rank), dim)
}

/// Gradients of elements that were rearranged along `dim`, added at their original indices.
pub fn scatter_gradient(d: &BackwardContext, grad: Expr, index: Expr, dim: i64) -> Expr {
    let Some(own) = d.meta(Arg::FIRST) else { return grad };
    if let Err(error) = wrap_dim(dim, own.sizes.len()) {
        return Expr::failed(error);
    }
    let (grad, index) = match (grad.done(), index.done()) {
        (Ok(grad), Ok(index)) => (grad, index),
        (Err(error), _) | (_, Err(error)) => return Expr::failed(error),
    };
    let zeros = Expr::new(create::zeros(&own.sizes, grad.dtype(), own.device));
    zeros.call(&SCATTER_ADD, [dim.into(), index.into(), grad.into()])
}
