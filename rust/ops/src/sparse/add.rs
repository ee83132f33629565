//! Sums with sparse operands.

use std::cmp::Ordering;

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::alloc::filled;
use rushlight_core::dtype::promote;
use rushlight_core::layout::Shape;
use rushlight_core::{Device, Dims, Error, Result, Scalar};
use rushlight_dispatch::create::{from_slice, zeros};
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::Output;
use rushlight_dispatch::{copy, create, node, op, variants};

use super::parts::{entries, in_format_of};
use super::{coalesce, convert};
use crate::convert::{to_dtype, to_vec};
use crate::index::index_select::INDEX_ADD;
use crate::pointwise::arith::{ADD, MUL, NEG};

fn factor(args: &Args, sign: i64) -> Result<Scalar> {
    let alpha = args.scalar(ADD::ALPHA)?;
    if sign > 0 {
        return Ok(alpha);
    }
    crate::convert::item(&op!(NEG, create::scalar_tensor(alpha)?)?)
}

pub fn sum(args: &Args, sign: i64) -> Result<Output> {
    let (Some(own), Some(other)) = (args.optional_tensor(ADD::INPUT), args.optional_tensor(ADD::OTHER)) else {
        return Err(dense_second());
    };
    let factor = factor(args, sign)?;
    if own.is_sparse() {
        return of_sparse(own, other, factor).map(Output::Tensor);
    }
    check_sizes(own, other)?;
    let dtype = promote(own.dtype(), other.dtype())?;
    let result = if dtype == own.dtype() { copy::clone(own)? } else { to_dtype(own, dtype)? };
    let parts = entries(other, "add")?;
    convert::add_scaled(&result, &parts.indices, &parts.values, factor)?;
    Ok(Output::Tensor(result))
}

#[cold]
fn dense_second() -> Error {
    Error::runtime("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
}

fn check_sizes(input: &Tensor, other: &Tensor) -> Result<()> {
    if input.sizes() == other.sizes() {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "add: expected 'self' and 'other' to have same size, but self has size {} while other has size {} (FYI: dense-sparse addition does not currently support broadcasting)",
        Shape(input.sizes()),
        Shape(other.sizes())
    )))
}

/// `dense += factor * sparse`: changes only the elements at the sparse tensor's indices.
pub fn into_dense(args: &Args, sign: i64) -> Result<Output> {
    let (input, other) = (args.tensor(ADD::INPUT)?, args.tensor(ADD::OTHER)?);
    check_sizes(input, other)?;
    if input.device() == Device::Meta || input.is_lazy_conj() {
        return Err(Error::not_implemented(
            "a sparse tensor is added in place to dense tensors whose elements lie in their own memory",
        ));
    }
    variants::check_in_place(args.op, input, input.sizes(), promote(input.dtype(), other.dtype())?)?;
    let factor = factor(args, sign)?;
    let parts = entries(other, "add")?;
    let change = node::InPlaceCall::begin(args)?;
    {
        let _off = rushlight_autograd::modes::GradMode::new(false);
        // Another handle on the elements: the change is counted once, and recorded as this call.
        let elements = Tensor::new(input.storage().clone(), input.layout().clone(), input.dtype(), input.device());
        convert::add_scaled(&elements, &parts.indices, &parts.values.detach(), factor)?;
    }
    change.finish()
}

fn of_sparse(input: &Tensor, other: &Tensor, factor: Scalar) -> Result<Tensor> {
    if !other.is_sparse() {
        if input.compressed_parts().is_none() {
            return Err(dense_second());
        }
        let other = if factor.is_one() { other.clone() } else { op!(MUL, other, factor)? };
        return op!(ADD, &convert::TO_DENSE.tensor([input.into()])?, &other);
    }
    let (first, second) = (entries(input, "add")?, entries(other, "add")?);
    if input.sizes() != other.sizes() {
        return Err(Error::runtime(format!(
            "add: expected sizes of 'self' and 'other' to match, but {} != {}",
            Shape(input.sizes()),
            Shape(other.sizes())
        )));
    }
    let (a, b) = (first.indices.sizes()[0], second.indices.sizes()[0]);
    if a != b {
        return Err(Error::runtime(format!(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but {a} != {b}"
        )));
    }
    let dtype = promote(input.dtype(), other.dtype())?;
    let left = SparseParts { values: to_dtype(&first.values, dtype)?, ..(*first).clone() };
    let mut values = to_dtype(&second.values, dtype)?;
    if !factor.is_one() {
        values = op!(MUL, &values, factor)?;
    }
    let right = SparseParts { values, ..(*second).clone() };
    // The lists of a device stay there, as in torch.
    let in_rows = input.device() == Device::Cpu
        && first.values.layout().is_contiguous()
        && second.values.layout().is_contiguous();
    let sum = if in_rows { merged(&left, &right)? } else { behind(&left, &right, input)? };
    in_format_of(input, sum)
}

fn cat(a: &Tensor, b: &Tensor, dim: i64) -> Result<Tensor> {
    op!(crate::join::cat::CAT, vec![a.clone(), b.clone()], dim)
}

/// The entries of both, concatenated; coalesced if there were more of them than elements.
fn behind(left: &SparseParts, right: &SparseParts, input: &Tensor) -> Result<SparseParts> {
    let both = SparseParts {
        indices: cat(&left.indices, &right.indices, 1)?,
        values: cat(&left.values, &right.values, 0)?,
        coalesced: false,
    };
    if both.values.sizes()[0] as usize > input.numel() { coalesce::coalesced(&both, input.sizes()) } else { Ok(both) }
}

/// Merges both sorted lists; entries with equal indices are added. The result is sorted if both were.
fn merged(left: &SparseParts, right: &SparseParts) -> Result<SparseParts> {
    let (x, y) = (to_vec::<i64>(&left.indices)?, to_vec::<i64>(&right.indices)?);
    let (m, n) = (left.indices.sizes()[1] as usize, right.indices.sizes()[1] as usize);
    let dims = left.indices.sizes()[0] as usize;
    let compare = |i: usize, j: usize| {
        (0..dims).map(|dim| x[dim * m + i].cmp(&y[dim * n + j])).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    // The target of each entry, and for each index of the result an entry of the two lists that has it.
    let (mut to, mut from) = (filled(0i64, m + n)?, rushlight_core::alloc::list(m + n)?);
    let (mut i, mut j) = (0, 0);
    while i < m || j < n {
        let order = match (i < m, j < n) {
            (true, true) => compare(i, j),
            (true, false) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let entry = from.len() as i64;
        from.push(if order.is_le() { i as i64 } else { (m + j) as i64 });
        if order.is_le() {
            to[i] = entry;
            i += 1;
        }
        if order.is_ge() {
            to[m + j] = entry;
            j += 1;
        }
    }
    let coalesced = left.coalesced && right.coalesced;
    let indices = op!(
        crate::index::index_select::INDEX_SELECT,
        &cat(&left.indices, &right.indices, 1)?,
        1i64,
        &from_slice(&from)?
    )?;
    let mut sizes = Dims::from_slice(left.values.sizes());
    sizes[0] = from.len() as isize;
    let none = zeros(&sizes, left.values.dtype(), left.values.device())?;
    let both = cat(&left.values, &right.values, 0)?;
    let values = op!(INDEX_ADD, &none, 0i64, &from_slice(&to)?, &both)?;
    Ok(SparseParts { indices, values, coalesced })
}
