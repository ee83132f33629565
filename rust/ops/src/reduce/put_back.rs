//! What derivatives of maxima, sorts and their like are made of: gradients go back to the places that elements came from.

use rushlight_core::layout::wrap_dim;

use crate::derive::Derive;
use crate::expr::Expr;
use crate::index::scatter::SCATTER_ADD;
use crate::row::DTypes;

/// The dtypes of rows that choose elements by their order.
pub const ORDERED: DTypes = DTypes::REAL.union(DTypes::BOOL);

/// The gradient of one element selected along `dim`, put back where it came from.
pub fn put_back(d: &Derive, grad: Expr, index: Expr, dim: i64, keepdim: bool) -> Expr {
    let rank = d.rank(0);
    spread(d, grad.unreduce(&[dim], keepdim, rank), index.unreduce(&[dim], keepdim, rank), dim)
}

/// Gradients of elements that were put along `dim`, added up at the places they came from.
pub fn spread(d: &Derive, grad: Expr, index: Expr, dim: i64) -> Expr {
    let Some(own) = d.facts(0) else { return grad };
    if let Err(error) = wrap_dim(dim, own.sizes.len()) {
        return Expr::failed(error);
    }
    let (grad, index) = match (grad.done(), index.done()) {
        (Ok(grad), Ok(index)) => (grad, index),
        (Err(error), _) | (_, Err(error)) => return Expr::failed(error),
    };
    let zeros = Expr::new(crate::create::zeros(&own.sizes, grad.dtype(), own.device));
    zeros.call(&SCATTER_ADD, [dim.into(), index.into(), grad.into()])
}
