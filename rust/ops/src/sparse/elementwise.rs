//! Rows that go over the values: functions that keep zero, and products and quotients.

use rushlight_autograd::Parts;
use rushlight_core::alloc::list;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};

use super::{build, coalesce, parts, taken, with_values};
use crate::convert::to_dtype;
use crate::create::from_slice;
use crate::index::along::INDEX_SELECT;
use crate::pointwise::arith::MUL;
use crate::value::{Args, Output, Value};
use crate::{Tensor, op};

/// The row over the values of its first argument.
pub fn over_values(args: &Args, coalesced: bool) -> Result<Output> {
    let own = args.tensor(0)?;
    let mut parts = (*parts(own, args.row.python_name())?).clone();
    if coalesced {
        parts = coalesce::coalesced(&parts, own.sizes())?;
    }
    let values = on_values(args, 0, &parts)?;
    with_values(own, &parts, values).map(Output::Tensor)
}

fn on_values(args: &Args, place: usize, parts: &Parts) -> Result<Tensor> {
    let mut inner = args.clone();
    inner.values[place] = Value::Own(parts.values.detach());
    crate::call::call(inner)?.into_tensor()
}

pub fn pow(args: &Args) -> Result<Output> {
    if args.scalar(1)?.is_zero() {
        return Err(Error::runtime(
            "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense",
        ));
    }
    over_values(args, true)
}

/// A copy; memory formats are those of dense tensors.
pub fn clone(args: &Args) -> Result<Output> {
    if !matches!(args.optional_str(1), None | Some("preserve_format")) {
        return Err(Error::runtime("unsupported memory format option Contiguous"));
    }
    over_values(args, false)
}

/// Whether the argument at `place` is a number, or a dense tensor that counts as one.
fn is_number(args: &Args, place: usize) -> bool {
    args.optional_tensor(place).is_none_or(|tensor| tensor.rank() == 0 && !tensor.is_sparse())
}

pub fn mul(args: &Args) -> Result<Output> {
    let sparse = |place: usize| args.optional_tensor(place).filter(|tensor| tensor.is_sparse());
    match (sparse(0), sparse(1)) {
        (Some(own), None) if is_number(args, 1) => {
            let parts = parts(own, "mul")?;
            with_values(own, &parts, on_values(args, 0, &parts)?).map(Output::Tensor)
        }
        (None, Some(own)) if is_number(args, 0) => {
            let parts = parts(own, "mul")?;
            with_values(own, &parts, on_values(args, 1, &parts)?).map(Output::Tensor)
        }
        (Some(own), None) => times_dense(own, args.tensor(1)?),
        (None, Some(own)) => times_dense(own, args.tensor(0)?),
        _ => times_sparse(args.tensor(0)?, args.tensor(1)?),
    }
}

fn check_sizes(a: &Tensor, b: &Tensor) -> Result<()> {
    if a.sizes() == b.sizes() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "mul: expected 'self' and 'other' to have same sizes when both are sparse, but {} != {}",
        Shape(a.sizes()),
        Shape(b.sizes())
    )))
}

fn times_dense(own: &Tensor, dense: &Tensor) -> Result<Output> {
    check_sizes(own, dense)?;
    let parts = parts(own, "mul")?;
    let values = op!(MUL, &parts.values, &taken(dense, &parts.indices)?)?;
    with_values(own, &parts, values).map(Output::Tensor)
}

/// What both have a value for.
fn times_sparse(a: &Tensor, b: &Tensor) -> Result<Output> {
    check_sizes(a, b)?;
    let (x, y) = (parts(a, "mul")?, parts(b, "mul")?);
    if x.indices.sizes()[0] != y.indices.sizes()[0] {
        return Err(Error::runtime("mul: expected 'self' and 'other' to have the same number of sparse dimensions"));
    }
    let (x, y) = (coalesce::coalesced(&x, a.sizes())?, coalesce::coalesced(&y, b.sizes())?);
    let (left, right) = (coalesce::keys(&x, a.sizes())?, coalesce::keys(&y, b.sizes())?);
    let most = left.len().min(right.len());
    let (mut i, mut j, mut of_x, mut of_y) = (0, 0, list(most)?, list(most)?);
    while i < left.len() && j < right.len() {
        let order = left[i].cmp(&right[j]);
        if order.is_eq() {
            of_x.push(i as i64);
            of_y.push(j as i64);
        }
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
    }
    let (of_x, of_y) = (from_slice(&of_x)?, from_slice(&of_y)?);
    let values = op!(MUL, &op!(INDEX_SELECT, &x.values, 0i64, &of_x)?, &op!(INDEX_SELECT, &y.values, 0i64, &of_y)?)?;
    let indices = op!(INDEX_SELECT, &x.indices, 1i64, &of_x)?;
    build(a.sizes(), Parts { indices, values, coalesced: true }).map(Output::Tensor)
}

/// A quotient by a number.
pub fn div(args: &Args) -> Result<Output> {
    match args.optional_tensor(0) {
        Some(own) if own.is_sparse() && is_number(args, 1) => over_values(args, false),
        _ => {
            let divisor = args.tensor(1)?;
            Err(Error::runtime(format!(
                "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {} for divisor)",
                Shape(divisor.sizes())
            )))
        }
    }
}

/// The sum of all elements.
pub fn total(args: &Args) -> Result<Output> {
    let parts = parts(args.tensor(0)?, "sum")?;
    on_values(args, 0, &parts).map(Output::Tensor)
}

/// The norm of all elements.
pub fn norm(args: &Args) -> Result<Output> {
    let values = op!(super::VALUES, &op!(super::COALESCE, args.tensor(0)?)?)?;
    if args.has(2) {
        return Err(Error::not_implemented(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input",
        ));
    }
    let mut inner = args.clone();
    inner.values[0] = Value::Own(values);
    crate::call::call(inner)
}

/// Nothing at all, in another's sizes: `zeros_like`.
pub fn zeros_like(args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    let parts = parts(own, "zeros_like")?;
    let dtype = args.values.iter().find_map(|value| match value {
        Value::DType(dtype) => Some(*dtype),
        _ => None,
    });
    let sparse_dims = parts.indices.sizes()[0] as usize;
    let dtype = dtype.unwrap_or(own.dtype());
    super::empty(own.sizes(), sparse_dims, dtype).map(Output::Tensor)
}

/// Another dtype; sparse tensors are on the host.
pub fn cast(args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    let parts = parts(own, "to")?;
    if args.device(2).is_some_and(|device| device != own.device()) {
        return Err(Error::not_implemented("sparse tensors live on the host"));
    }
    let values = match args.dtype(1) {
        Some(dtype) if dtype != own.dtype() => to_dtype(&parts.values, dtype)?,
        _ => crate::copy::clone(&parts.values)?,
    };
    with_values(own, &parts, values).map(Output::Tensor)
}
