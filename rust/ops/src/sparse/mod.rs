//! Sparse tensors (COO): how they are made, and what a call makes of them.
//!
//! Their rows stand here and not in the table, whose readers speak of dense values; Python has them as methods. Of the table's
//! rows a few say what sparse operands mean to them (`Row::sparse`); a call refuses them for all others before it sees
//! their geometry. Who reads indices checks them, since programs may write to them: through the rows that gather and
//! scatter, or by `keys`.

pub mod add;
pub mod coalesce;
pub mod convert;
pub mod elementwise;
pub mod places;
pub mod product;
pub mod spgemm;

use std::sync::Arc;

use rushlight_autograd::Parts;
use rushlight_autograd::modes::GradMode;
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{Class, DType, Device, Dims, Error, Result, Storage};

use crate::Tensor;
use crate::call::Target;
use crate::convert::{contiguous, to_dtype, to_vec};
use crate::node;
use crate::op;
use crate::row::{Row, Run};
use crate::value::{Args, Output, Value};
use crate::variants::through_copy;

/// What sparse tensors have that dense ones have not.
pub static ROWS: &[&Row] = &[
    &convert::MADE,
    &convert::TAKEN,
    &convert::TO_DENSE,
    &convert::MASKED,
    &convert::COALESCE,
    &convert::VALUES,
    &convert::TO_SPARSE,
    &product::PRODUCT,
    &spgemm::SPARSE_SPARSE_MATMUL,
];

pub use convert::{COALESCE, MADE, MASKED, TO_DENSE, TO_SPARSE, VALUES};

/// What a row makes of sparse operands.
#[derive(Clone, Copy)]
pub enum Sparse {
    /// Nothing: it refuses them. A composed row leaves that to its parts.
    Refused,
    /// It runs as it does on others.
    Known,
    /// Its zero stays zero, and it is linear: it goes over the values.
    Linear,
    /// Its zero stays zero: it goes over the values once each place has only one.
    KeepsZero,
    /// A sum in which the second operand counts so often.
    Add(i64),
    /// Another body, whose inside leaves no trace in the graph; the derivative is the row's.
    Body(fn(&Args) -> Result<Output>),
    /// Another body, out of rows that know their derivatives.
    Compose(fn(&Args) -> Result<Output>),
}

/// Whether a tensor of the call is sparse, and its row does not run as it is.
#[cold]
pub fn concerns(args: &Args, target: &Target) -> bool {
    let row = args.row;
    let sparse = !args.all_tensors(|tensor| !tensor.is_sparse())
        || matches!(target, Target::Out(outs) if outs.iter().any(Tensor::is_sparse));
    let hands_on = matches!(row.sparse, Sparse::Refused) && matches!(row.run, Run::Compose(_) | Run::Defer(_));
    sparse && !hands_on && !matches!(row.sparse, Sparse::Known)
}

/// Makes a call that `concerns` is true of.
#[cold]
pub fn call(args: Args, target: Target) -> Result<Output> {
    let row = args.row;
    let target = if matches!(row.run, Run::Overwrite(_)) { Target::InPlace } else { target };
    match (row.sparse, target) {
        (Sparse::Refused, _) => Err(refusal(row)),
        (Sparse::Compose(body), Target::Fresh) => body(&args),
        (_, Target::Fresh) => {
            let output = fresh(&args)?;
            node::record(&args, output)
        }
        (Sparse::Add(sign), Target::InPlace) if !args.tensor(0)?.is_sparse() => add::into_dense(&args, sign),
        (_, Target::InPlace) => in_place(&args),
        (_, target) => through_copy(&args, target),
    }
}

fn fresh(args: &Args) -> Result<Output> {
    let _off = GradMode::new(false);
    match args.row.sparse {
        Sparse::Linear => elementwise::over_values(args, false),
        Sparse::KeepsZero => elementwise::over_values(args, true),
        Sparse::Add(sign) => add::sum(args, sign),
        Sparse::Body(body) | Sparse::Compose(body) => body(args),
        Sparse::Refused | Sparse::Known => Err(refusal(args.row)),
    }
}

/// A sparse tensor that changes takes the parts of a fresh result.
fn in_place(args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    if !own.is_sparse() {
        // In the row's own words, where it has some.
        if let Sparse::Body(body) = args.row.sparse {
            body(args)?;
        }
        return Err(refusal(args.row));
    }
    let change = node::Change::begin(args)?;
    let result = fresh(args)?.into_tensor()?;
    let Some(parts) = result.parts() else { return Err(refusal(args.row)) };
    if result.sizes() != own.sizes() {
        return Err(Error::runtime(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            Shape(own.sizes()),
            Shape(result.sizes())
        )));
    }
    crate::variants::check_cast(result.dtype(), own.dtype())?;
    own.set_parts(Parts { values: to_dtype(&parts.values, own.dtype())?, ..(*parts).clone() });
    change.finish()
}

/// torch's word for an operator that does not know sparse tensors.
fn refusal(row: &Row) -> Error {
    refused(&row.flat_name())
}

#[cold]
pub fn refused(name: &str) -> Error {
    Error::new(
        Class::NotImplemented,
        format!(
            "Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
        ),
    )
    .hint("x.to_dense() holds all elements, x.coalesce().values() those that are not zero.")
}

/// The error where memory is asked of a tensor that has none of its own.
#[cold]
pub fn no_memory() -> Error {
    Error::new(Class::NotImplemented, "Cannot access storage of SparseTensorImpl")
        .hint("x.to_dense() has memory, and so have x._indices() and x._values().")
}

/// The parts of a tensor that must be sparse; `name` asks.
pub fn parts(tensor: &Tensor, name: &str) -> Result<Arc<Parts>> {
    tensor
        .parts()
        .ok_or_else(|| Error::runtime(format!("{name} expected sparse coordinate tensor layout but got Strided")))
}

/// A sparse tensor of parts that are known to be good.
fn build(sizes: &[isize], parts: Parts) -> Result<Tensor> {
    let storage = Storage::heap(16)?;
    // SAFETY: the storage is fresh and has sixteen bytes, the widest element.
    unsafe { storage.pin()?.as_ptr().write_bytes(0, 16) };
    Ok(Tensor::sparse(storage, Dims::from_slice(sizes), parts))
}

/// The sparse tensor with other values at the places of `tensor`.
fn with_values(tensor: &Tensor, parts: &Parts, values: Tensor) -> Result<Tensor> {
    build(tensor.sizes(), Parts { values, ..parts.clone() })
}

/// A sparse tensor without elements.
pub fn empty(sizes: &[isize], sparse_dims: usize, dtype: DType) -> Result<Tensor> {
    let indices = crate::create::empty(&[sparse_dims as isize, 0], DType::I64, Device::Cpu)?;
    let mut of_values = Dims::from_slice(&[0]);
    of_values.extend_from_slice(sizes.get(sparse_dims..).unwrap_or(&[]));
    let values = crate::create::empty(&of_values, dtype, Device::Cpu)?;
    build(sizes, Parts { indices, values, coalesced: true })
}

/// A sparse tensor of indices and values that anybody may have chosen: all of it is checked.
pub fn checked(indices: &Tensor, values: &Tensor, sizes: Option<&[isize]>, coalesced: bool) -> Result<Tensor> {
    for (name, tensor) in [("indices", indices), ("values", values)] {
        if tensor.is_sparse() {
            return Err(Error::runtime(format!(
                "expected {name} to be a dense tensor, but got {name} of layout Sparse"
            )));
        }
        if tensor.device() != Device::Cpu {
            return Err(Error::not_implemented("sparse tensors live on the host"));
        }
    }
    if indices.rank() != 2 {
        return Err(Error::runtime(format!("indices must be sparse_dim x nnz, but got: {}", Shape(indices.sizes()))));
    }
    let values = values.detach();
    let values = if values.rank() == 0 { op!(crate::view::squeeze::UNSQUEEZE, &values, 0i64)? } else { values };
    let (sparse_dims, count) = (indices.sizes()[0] as usize, indices.sizes()[1]);
    if count != values.sizes()[0] {
        return Err(Error::runtime(format!(
            "indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: {}",
            values.sizes()[0]
        )));
    }
    let indices = contiguous(&to_dtype(&indices.detach(), DType::I64)?)?;
    let places = to_vec::<i64>(&indices)?;
    let of_dim = |dim: usize| &places[dim * count as usize..(dim + 1) * count as usize];
    let sizes: Dims = match sizes {
        Some(sizes) => Dims::from_slice(sizes),
        None => {
            let reach = |dim| of_dim(dim).iter().max().map_or(0, |&most| (most as isize).saturating_add(1).max(0));
            (0..sparse_dims).map(reach).chain(values.sizes().iter().skip(1).copied()).collect()
        }
    };
    let dense_dims = values.rank() - 1;
    if sizes.len() != sparse_dims + dense_dims {
        return Err(Error::runtime(format!(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {}, sparse_dim = {sparse_dims}, dense_dim = {dense_dims}",
            sizes.len()
        )));
    }
    if let Some(negative) = sizes.iter().find(|&&size| size < 0) {
        return Err(Error::runtime(format!(
            "Trying to create tensor with negative dimension {negative}: {}",
            Shape(&sizes)
        ))
        .hint("Sizes count from 0 on."));
    }
    checked_numel(&sizes)?;
    let mut expected = Dims::from_slice(&[count]);
    expected.extend_from_slice(&sizes[sparse_dims..]);
    if &expected != values.sizes() {
        return Err(Error::runtime(format!(
            "values has incorrect size, expected {}, got {}",
            Shape(&expected),
            Shape(values.sizes())
        )));
    }
    for dim in 0..sparse_dims {
        check_places(of_dim(dim), dim, sizes[dim])?;
    }
    let made = Parts { indices, values, coalesced };
    if coalesced && !coalesce::keys(&made, &sizes)?.is_sorted_by(|a, b| a < b) {
        return Err(Error::runtime("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"));
    }
    build(&sizes, made)
}

/// All places along a dimension lie in it.
fn check_places(places: &[i64], dim: usize, size: isize) -> Result<()> {
    if let Some(least) = places.iter().min().filter(|&&least| least < 0) {
        return Err(Error::runtime(format!("found negative index {least} for dim {dim}")));
    }
    match places.iter().max() {
        Some(&most) if most >= size as i64 => Err(Error::runtime(format!(
            "size is inconsistent with indices: for dim {dim}, size is {size} but found index {most}"
        ))),
        _ => Ok(()),
    }
}

/// The indices as one tensor for each sparse dimension.
fn each_index(indices: &Tensor) -> Result<Vec<Tensor>> {
    (0..indices.sizes()[0] as i64).map(|dim| op!(crate::view::narrow::SELECT, indices, 0i64, dim)).collect()
}

/// The elements, or blocks of them, of a dense tensor at `indices`.
pub fn taken(dense: &Tensor, indices: &Tensor) -> Result<Tensor> {
    let count = indices.sizes()[1];
    let indices = each_index(indices)?;
    match &*indices {
        [] => {
            let one = op!(crate::view::squeeze::UNSQUEEZE, dense, 0i64)?;
            let first = crate::create::zeros(&[count], DType::I64, Device::Cpu)?;
            op!(crate::index::along::INDEX_SELECT, &one, 0i64, &first)
        }
        [index] => op!(crate::index::along::INDEX_SELECT, dense, 0i64, index),
        _ => {
            let dims: Vec<i64> = (0..indices.len() as i64).collect();
            op!(crate::index::INDEX, dense, indices, &*dims)
        }
    }
}

/// Adds values at their places to a dense tensor of their dtype, and touches nothing else.
pub fn scatter(dense: &Tensor, indices: &Tensor, values: &Tensor) -> Result<()> {
    use crate::index::along::INDEX_ADD;
    let indices = each_index(indices)?;
    let args = match &*indices {
        [] => {
            let whole = op!(crate::reduce::sum::SUM_DIM, values, &[0i64][..], false, values.dtype())?;
            let args = Args::new(&crate::pointwise::arith::ADD, [dense.into(), Value::Own(whole)]);
            return crate::call::call_into(args, Target::InPlace).map(drop);
        }
        [index] => Args::new(&INDEX_ADD, [dense.into(), 0i64.into(), Value::Own(index.clone()), values.into()]),
        _ => {
            let dims: Vec<i64> = (0..indices.len() as i64).collect();
            let dims = Value::Ints(crate::value::Ints::from_slice(&dims));
            Args::new(&crate::index::PUT, [dense.into(), indices.into(), dims, values.into(), true.into()])
        }
    };
    crate::call::call_into(args, Target::InPlace).map(drop)
}
