//! Coalescing: sorted indices, and one value for each.

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_dispatch::create::{empty, zeros};
use rushlight_dispatch::op;

use super::indices::{bounds, check, each_index, is_ascending};
use crate::convert::contiguous;
use crate::index::index_select::INDEX_ADD;
use crate::join::STACK;
use crate::order::unique::UNIQUE;
use crate::pointwise::arith::{ADD, MUL};
use crate::pointwise::divide::{FLOOR_DIVIDE, REMAINDER};

/// For each entry its row-major index over the sparse dimensions.
pub fn keys(parts: &SparseParts, sizes: &[isize]) -> Result<Tensor> {
    check(&bounds(&parts.indices.detach())?, sizes)?;
    let mut rows = each_index(&parts.indices.detach())?.into_iter().zip(sizes);
    let Some((first, _)) = rows.next() else {
        return zeros(&[parts.indices.sizes()[1]], DType::I64, parts.indices.device());
    };
    contiguous(&rows.try_fold(first, |keys, (row, &size)| op!(ADD, &op!(MUL, &keys, size as i64)?, &row))?)
}

/// The indices of these keys.
fn indices_of(keys: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    if sizes.is_empty() {
        return empty(&[0, keys.sizes()[0]], DType::I64, keys.device());
    }
    let mut rest = keys.clone();
    let mut rows = Vec::with_capacity(sizes.len());
    for &size in sizes[1..].iter().rev() {
        rows.push(op!(REMAINDER, &rest, size as i64)?);
        rest = op!(FLOOR_DIVIDE, &rest, size as i64)?;
    }
    rows.push(rest);
    rows.reverse();
    op!(STACK, rows, 0i64)
}

/// The coalesced parts: values of equal indices are added in their order.
pub fn coalesced(parts: &SparseParts, sizes: &[isize]) -> Result<SparseParts> {
    if parts.coalesced {
        return Ok(parts.clone());
    }
    let keys = keys(parts, sizes)?;
    if is_ascending(&keys)? {
        return Ok(SparseParts { coalesced: true, ..parts.clone() });
    }
    let found = UNIQUE.call([(&keys).into(), true.into(), true.into()])?.into_tensors();
    let [keys, groups, _] =
        <[Tensor; 3]>::try_from(found).map_err(|_| Error::runtime("unique elements without their places"))?;
    let mut of_values = Dims::from_slice(parts.values.sizes());
    of_values[0] = keys.sizes()[0];
    let none = zeros(&of_values, parts.values.dtype(), parts.values.device())?;
    let values = op!(INDEX_ADD, &none, 0i64, &groups, &parts.values)?;
    let indices = indices_of(&keys, &sizes[..parts.indices.sizes()[0] as usize])?;
    Ok(SparseParts { indices, values, coalesced: true })
}
