//! Transposition and selection for compressed sparse tensors.

use rushlight_autograd::{CompressedParts, Tensor};
use rushlight_core::layout::wrap_dim;
use rushlight_core::{Dims, Error, Result};
use rushlight_dispatch::{copy, op};

use super::parts::{build, expanded};
use crate::convert::contiguous;
use crate::sparse::parts::build as build_coo;
use crate::view::narrow::{SELECT, selected};
use crate::view::transpose::TRANSPOSE;

/// The kinds of dimensions, in torch's words.
fn kind(parts: &CompressedParts, dim: usize) -> &'static str {
    match dim {
        dim if dim < parts.batch_dims() => "Batch",
        dim if dim < parts.batch_dims() + 2 => "Sparse",
        _ => "Dense",
    }
}

fn exchanged(tensor: &Tensor, first: usize, second: usize) -> Result<Tensor> {
    op!(TRANSPOSE, &tensor.detach(), first as i64, second as i64)
}

/// The tensor with two dimensions of one kind exchanged: rows and columns by the other format, with the same entries.
pub fn transposed(input: &Tensor, parts: &CompressedParts, first: usize, second: usize) -> Result<Tensor> {
    let (one, other) = (kind(parts, first), kind(parts, second));
    if one != other {
        return Err(Error::runtime(format!(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got {first}({one}) and {second}({other})"
        )));
    }
    let mut sizes = input.sizes().clone();
    sizes.swap(first, second);
    let mut moved = CompressedParts { values: parts.values.detach(), ..parts.clone() };
    let batch_dims = parts.batch_dims();
    match one {
        _ if first == second => {}
        "Batch" => {
            moved.compressed = contiguous(&exchanged(&parts.compressed, first, second)?)?;
            moved.plain = contiguous(&exchanged(&parts.plain, first, second)?)?;
            moved.values = exchanged(&parts.values, first, second)?;
        }
        "Sparse" => {
            moved.format = parts.format.transposed();
            if parts.format.blocks {
                moved.values = exchanged(&parts.values, batch_dims + 1, batch_dims + 2)?;
            }
        }
        _ => {
            let at = |dim: usize| parts.values.rank() - (input.rank() - dim);
            moved.values = exchanged(&parts.values, at(first), at(second))?;
        }
    }
    build(&sizes, moved)
}

/// A copy of the elements at an index of a dimension: with coordinates if that is one of the matrix.
pub fn select(input: &Tensor, parts: &CompressedParts, dim: i64, index: i64) -> Result<Tensor> {
    let dim = wrap_dim(dim, input.rank())?;
    let index = if index < 0 { index + input.sizes()[dim] as i64 } else { index } as isize;
    let batch_dims = parts.batch_dims();
    let mut sizes: Dims = input.sizes().clone();
    sizes.remove(dim);
    let taken = |tensor: &Tensor, dim: usize| copy::clone(&contiguous(&selected(&tensor.detach(), dim, index)?)?);
    match kind(parts, dim) {
        "Batch" => {
            let part = |tensor: &Tensor| taken(tensor, dim);
            let (compressed, plain, values) = (part(&parts.compressed)?, part(&parts.plain)?, part(&parts.values)?);
            build(&sizes, CompressedParts { format: parts.format, compressed, plain, values })
        }
        "Sparse" if batch_dims > 0 => Err(Error::runtime(
            "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors.",
        )),
        "Sparse" => {
            let whole = build_coo(input.sizes(), expanded(parts, input.sizes())?)?;
            op!(SELECT, &whole, dim as i64, index as i64)
        }
        _ => {
            let values = taken(&parts.values, parts.values.rank() - (input.rank() - dim))?;
            build(&sizes, CompressedParts { values, ..parts.clone() })
        }
    }
}
