//! The two entry points of `vmap`: operators that hide a dimension of a tensor and show it again. Both are views, and
//! differentiable.
//!
//! They are not in the table, because code that iterates over it does not handle levels.

use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, Operator, Saves, Variants, formula, operator};
use rushlight_dispatch::vmap::{add_batch_dim, remove_batch_dim};

use crate::reduce::sum::SUM_DIM;

pub static OPERATORS: &[&Operator] = &[&ADD_BATCH_DIM, &REMOVE_BATCH_DIM];

/// Hides a dimension: the result has the shape of one sample. Without a dimension all samples are the same.
#[operator]
pub static ADD_BATCH_DIM: Operator = Operator {
    name: "_add_batch_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int? dim, int level, int size) -> Tensor",
    dtypes: DTypes::ALL,
    implementation: Implementation::ViewDtype(|args| {
        let (meta, level) = (args.tensor(INPUT)?.meta().clone(), args.int(LEVEL)?);
        Ok(match args.optional_int(DIM) {
            Some(dim) => meta.add_batch_dim(dim as usize, level),
            None => meta.remove_batch_dim(0, level, args.int(SIZE)? as isize).add_batch_dim(0, level),
        })
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let (dim, level, size) = (d.args.optional_int(DIM), d.int(LEVEL), d.int(SIZE));
        let shown =
            d.grad().done().and_then(|grad| remove_batch_dim(&grad, dim.unwrap_or(0) as usize, level, size as isize));
        match dim {
            Some(_) => Expr::new(shown),
            None => Expr::new(shown.and_then(|grad| op!(SUM_DIM, grad, &[0i64][..], false))),
        }
    })]),
    ..Operator::BASE
};

/// Shows a hidden dimension as a dimension of the result; a tensor that is not batched at that level is repeated along
/// it.
#[operator]
pub static REMOVE_BATCH_DIM: Operator = Operator {
    name: "_remove_batch_dim",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, int level, int size) -> Tensor",
    dtypes: DTypes::ALL,
    implementation: Implementation::ViewDtype(|args| {
        Ok(args.tensor(INPUT)?.meta().remove_batch_dim(
            args.int(DIM)? as usize,
            args.int(LEVEL)?,
            args.int(SIZE)? as isize,
        ))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let (dim, level) = (d.int(DIM), d.int(LEVEL));
        let was_mapped = d.meta(INPUT).is_some_and(|meta| meta.batch_dims().iter().any(|axis| axis.level == level));
        match (d.grad().done(), was_mapped) {
            (Ok(grad), true) => Expr::new(add_batch_dim(&grad, Some(dim as usize), level, d.int(SIZE) as isize)),
            (Ok(grad), false) => Expr::new(op!(SUM_DIM, grad, &[dim][..], false)),
            (Err(error), _) => Expr::failed(error),
        }
    })]),
    ..Operator::BASE
};
