//! The two doors of `vmap`: a dimension of a tensor hidden, and shown again. Both are views, and differentiable.
//!
//! They stand here and not in the table, whose readers know nothing of levels.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use crate::call::mirrored::resolved;
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::op;
use crate::reduce::sum::SUM_DIM;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::Value;

pub static ROWS: &[&Row] = &[&HIDE, &SHOW];

/// A dimension hidden: the tensor of one sample, which stands for all. Without a dimension all samples are the same.
pub static HIDE: Row = Row {
    name: "_add_batch_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int? dim, int level, int size) -> Tensor",
    dtypes: DTypes::ALL,
    run: Run::Retype(|args| {
        let (meta, level) = (args.tensor(0)?.meta().clone(), args.int(2)?);
        Ok(match args.optional_int(1) {
            Some(dim) => meta.hide(dim as usize, level),
            None => meta.show(0, level, args.int(3)? as isize).hide(0, level),
        })
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let (dim, level, size) = (d.args.optional_int(1), d.int(2), d.int(3));
        let shown = d.grad().done().and_then(|grad| show(&grad, dim.unwrap_or(0) as usize, level, size as isize));
        match dim {
            Some(_) => Expr::new(shown),
            None => Expr::new(shown.and_then(|grad| op!(SUM_DIM, grad, &[0i64][..], false))),
        }
    })]),
    ..Row::BASE
};

/// A hidden dimension shown as a dimension of the result; a tensor that is not mapped there is repeated along it.
pub static SHOW: Row = Row {
    name: "_remove_batch_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, int level, int size) -> Tensor",
    dtypes: DTypes::ALL,
    run: Run::Retype(|args| {
        Ok(args.tensor(0)?.meta().show(args.int(1)? as usize, args.int(2)?, args.int(3)? as isize))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        let (dim, level) = (d.int(1), d.int(2));
        let was_mapped = d.facts(0).is_some_and(|facts| facts.axes().iter().any(|axis| axis.level == level));
        match (d.grad().done(), was_mapped) {
            (Ok(grad), true) => Expr::new(hide(&grad, Some(dim as usize), level, d.int(3) as isize)),
            (Ok(grad), false) => Expr::new(op!(SUM_DIM, grad, &[dim][..], false)),
            (Err(error), _) => Expr::failed(error),
        }
    })]),
    ..Row::BASE
};

/// Hides a dimension, or none.
pub fn hide(tensor: &Tensor, dim: Option<usize>, level: i64, size: isize) -> Result<Tensor> {
    if tensor.is_sparse() {
        return Err(crate::sparse::no_memory());
    }
    HIDE.tensor([Value::Own(resolved(tensor)?), dim.into(), level.into(), (size as i64).into()])
}

/// Shows a hidden dimension.
pub fn show(tensor: &Tensor, dim: usize, level: i64, size: isize) -> Result<Tensor> {
    let shown = SHOW.tensor([tensor.into(), dim.into(), level.into(), (size as i64).into()])?;
    // What was made under the map is seen through its results alone: they are no views of it.
    if shown.base().is_some_and(Tensor::is_mapped) { shown.without_base() } else { Ok(shown) }
}
