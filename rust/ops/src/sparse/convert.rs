//! Conversion between sparse tensors, their parts, and dense tensors.

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::alloc::collected;
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{DType, Device, Dims, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula,
    operator,
};
use rushlight_dispatch::sparse::dense;
use rushlight_dispatch::value::{Output, sizes_value};
use rushlight_dispatch::{create, op};

use super::indices::{self, placed};
use super::parts::{build, empty, entries, moved, parts, scatter, taken, with_values};
use super::{coalesce, compressed};
use crate::convert::{contiguous, to_dtype, to_vec};

const BASE: Operator = Operator { dtypes: DTypes::COMPUTED, sparse: Sparse::Supported, ..Operator::BASE };

/// A sparse tensor of checked parts.
#[operator]
pub static FROM_PARTS: Operator = Operator {
    name: "sparse_coo_tensor",
    signature: "(Tensor indices, Tensor values, int[]? size=None, bool is_coalesced=False) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let sizes = args.optional_ints(SIZE).map(rushlight_core::layout::to_dims);
        checked(args.tensor(INDICES)?, args.tensor(VALUES)?, sizes.as_deref(), args.bool(IS_COALESCED)?)
            .map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(VALUES, Saves::input(INDICES), |d| {
        let gradient = || -> Result<Tensor> { op!(GATHERED, &dense(&d.grad().done()?)?, &d.input(INDICES).done()?) };
        Expr::new(gradient())
    })]),
    node: "SparseCooTensorWithDimsAndTensorsBackward0",
    ..BASE
};

/// A sparse tensor of indices and values from a user, which are checked.
fn checked(indices: &Tensor, values: &Tensor, sizes: Option<&[isize]>, coalesced: bool) -> Result<Tensor> {
    for (name, tensor) in [("indices", indices), ("values", values)] {
        if tensor.is_sparse() {
            return Err(Error::runtime(format!(
                "expected {name} to be a dense tensor, but got {name} of layout {}",
                tensor.layout_name()
            )));
        }
    }
    let without_data = values.device() == Device::Meta;
    if without_data && sizes.is_none() {
        return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!")
            .hint("Give the size, which cannot be computed from indices without data."));
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
    let bounds = if without_data { Vec::new() } else { indices::bounds(&indices)? };
    let sizes: Dims = match sizes {
        Some(sizes) => Dims::from_slice(sizes),
        None => {
            let reach = |dim: usize| bounds.get(dim).map_or(0, |&[_, most]| (most as isize).saturating_add(1).max(0));
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
        .hint("Sizes must be non-negative."));
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
    // As in torch, no entry and a single one are in order.
    let coalesced = coalesced || count < 2;
    if without_data {
        return build(&sizes, SparseParts { indices, values, coalesced });
    }
    indices::check(&bounds, &sizes)?;
    let made = SparseParts { indices, values, coalesced };
    if coalesced && !indices::is_ascending(&coalesce::keys(&made, &sizes)?)? {
        return Err(Error::runtime("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"));
    }
    build(&sizes, made)
}

/// The elements of a dense tensor at given indices.
#[operator]
pub static GATHERED: Operator = Operator {
    name: "_taken",
    signature: "(Tensor self, Tensor indices) -> Tensor",
    implementation: Implementation::CompositeImplicit(|args| {
        taken(args.tensor(INPUT)?, &crate::convert::to_dtype(args.tensor(INDICES)?, rushlight_core::DType::I64)?)
            .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    ..BASE
};

#[operator]
pub static TO_DENSE: Operator = Operator {
    name: "to_dense",
    signature: "(Tensor self, bool masked_grad=True) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?;
        if !input.is_sparse() {
            return Ok(Output::Tensor(input.detach()));
        }
        let parts = entries(input, "to_dense")?;
        let whole = create::zeros(input.sizes(), input.dtype(), input.device())?;
        scatter(&whole, &parts.indices, &parts.values)?;
        Ok(Output::Tensor(whole))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        // Repeated indices refer to one element, which has one gradient.
        let gradient = || -> Result<Tensor> {
            match d.input(INPUT).done()? {
                own if own.is_sparse() && d.flag(TO_DENSE::MASKED_GRAD) => {
                    op!(MASKED, &d.grad().done()?, &sorted(&own)?)
                }
                _ => d.grad().done(),
            }
        };
        Expr::new(gradient())
    })]),
    node: "ToDenseBackward0",
    ..BASE
};

/// The elements of a tensor at the indices of a sparse one.
#[operator]
pub static MASKED: Operator = Operator {
    name: "sparse_mask",
    signature: "(Tensor self, Tensor mask) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (input, mask) = (args.tensor(INPUT)?, args.tensor(MASK)?);
        if !mask.is_sparse() {
            return Err(Error::runtime("sparse_mask(): the mask must be a sparse tensor"));
        }
        let places = entries(mask, "sparse_mask")?;
        if input.sizes() != mask.sizes() {
            return Err(Error::runtime(format!(
                "sparse_mask(): operands have incompatible sizes; self has size {} but mask has size {}",
                rushlight_core::layout::Shape(input.sizes()),
                rushlight_core::layout::Shape(mask.sizes())
            )));
        }
        let values = if input.is_sparse() {
            found(input, &*entries(input, "sparse_mask")?, &places)?
        } else {
            taken(input, &places.indices)?
        };
        with_values(mask, &places, values).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let gradient = || -> Result<Tensor> {
            let (input, grad) = (d.input(INPUT).done()?, d.grad().done()?);
            if input.is_sparse() { op!(MASKED, &grad, &sorted(&input)?) } else { dense(&grad) }
        };
        Expr::new(gradient())
    })]),
    node: "SparseMaskBackward0",
    ..BASE
};

/// The values of a sparse tensor at the indices of another, of which it may lack some.
fn found(input: &Tensor, held: &SparseParts, places: &SparseParts) -> Result<Tensor> {
    if held.indices.sizes()[0] != places.indices.sizes()[0] {
        return taken(&dense(input)?, &places.indices);
    }
    let held = coalesce::coalesced(held, input.sizes())?;
    let keys_of = |parts: &SparseParts| to_vec::<i64>(&coalesce::keys(parts, input.sizes())?);
    let (keys, wanted) = (keys_of(&held)?, keys_of(places)?);
    let count = keys.len() as i64;
    // A zero follows the last value.
    let numbers = collected(wanted.iter().map(|key| keys.binary_search(key).map_or(count, |at| at as i64)))?;
    let mut block = held.values.sizes().clone();
    block[0] = 1;
    let none = create::zeros(&block, held.values.dtype(), held.values.device())?;
    let values = op!(crate::join::CAT, vec![held.values.detach(), none], 0i64)?;
    op!(crate::index::index_select::INDEX_SELECT, &values, 0i64, &placed(&numbers, input.device())?)
}

/// A sparse tensor with unique indices, in a recorded call. Those of compressed tensors always are.
pub fn sorted(input: &Tensor) -> Result<Tensor> {
    if input.compressed_parts().is_some() { Ok(input.clone()) } else { op!(COALESCE, input) }
}

#[operator]
pub static COALESCE: Operator = Operator {
    name: "coalesce",
    signature: "(Tensor self) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?;
        let parts = parts(input, "coalesce")?;
        build(input.sizes(), coalesce::coalesced(&parts, input.sizes())?).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad())]),
    node: "CoalesceBackward0",
    ..BASE
};

/// The values, which share the tensor's memory: a change of one is a change of the other.
#[operator]
pub static VALUES: Operator = Operator {
    name: "values",
    signature: "(Tensor self) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        if let Some(own) = args.tensor(INPUT)?.compressed_parts() {
            return Ok(Output::Tensor(own.values.detach()));
        }
        let parts = parts(args.tensor(INPUT)?, "values")?;
        if !parts.coalesced {
            return Err(Error::runtime("Cannot get values on an uncoalesced tensor, please call .coalesce() first"));
        }
        Ok(Output::Tensor(parts.values.detach()))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), spread)]),
    node: "ValuesBackward0",
    ..BASE
};

/// The gradient of a sparse tensor from that of its values.
fn spread(d: &BackwardContext) -> Expr {
    let gradient = || -> Result<Tensor> {
        let own = d.input(VALUES::INPUT).done()?;
        with_recorded_values(&own, &*entries(&own, "values")?, &d.grad().done()?)
    };
    Expr::new(gradient())
}

/// A sparse tensor with other values, in a recorded call; one for each entry of `entries`, which are its own.
pub fn with_recorded_values(tensor: &Tensor, entries: &SparseParts, values: &Tensor) -> Result<Tensor> {
    let sizes = sizes_value(tensor.sizes());
    let Some(own) = tensor.compressed_parts() else {
        return op!(FROM_PARTS, &entries.indices, values, sizes, entries.coalesced);
    };
    let values = op!(crate::view::reshape::RESHAPE, values, sizes_value(own.values.sizes()))?;
    op!(compressed::FROM_COMPRESSED, &own.compressed, &own.plain, &values, own.format.name(), sizes)
}

#[operator]
pub static TO_SPARSE: Operator = Operator {
    name: "to_sparse",
    signature: "(Tensor self, int? sparse_dim=None) -> Tensor",
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        to_sparse(args.tensor(INPUT)?, args.optional_int(SPARSE_DIM)).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        Expr::new(d.grad().done().and_then(|grad| dense(&grad)))
    })]),
    node: "ToSparseBackward1",
    ..BASE
};

fn to_sparse(input: &Tensor, wanted: Option<i64>) -> Result<Tensor> {
    if input.is_sparse() {
        return Ok(input.clone());
    }
    let rank = input.rank() as i64;
    let dims = wanted.unwrap_or(rank);
    if rank > 0 && dims == 0 {
        return Err(Error::runtime("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0"));
    }
    if !(0..=rank).contains(&dims) {
        return Err(Error::runtime(format!(
            "dense_to_sparse: sparse_dim argument must be in [0,{rank}] range, but {dims} is given"
        )));
    }
    let found = if dims == rank {
        op!(crate::index::nonzero::NONZERO, input)?
    } else {
        let blocks: Vec<i64> = (dims..rank).collect();
        let any = op!(crate::reduce::all_any::ANY_DIMS, input, &*blocks)?;
        op!(crate::index::nonzero::NONZERO, any)?
    };
    let indices = contiguous(&crate::view::transpose::reversed(&found)?)?;
    let values = taken(input, &indices)?;
    build(input.sizes(), SparseParts { indices, values, coalesced: true })
}

/// `Tensor.copy_` of a sparse tensor to another.
pub fn copy(args: &Args) -> Result<Output> {
    use crate::convert::copy::COPY::*;

    let (input, from) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
    if input.compressed_parts().is_some() || from.compressed_parts().is_some() {
        return compressed::parts::copied(input, from).map(Output::Tensor);
    }
    match (input.is_sparse(), from.parts()) {
        (true, Some(_)) => moved(from, input.dtype(), input.device()).map(Output::Tensor),
        _ => Err(Error::runtime(format!(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = torch.{}{}Tensor and src type = torch.{}{}Tensor",
            if input.is_sparse() { "sparse." } else { "" },
            input.dtype().display_name(),
            if from.is_sparse() { "sparse." } else { "" },
            from.dtype().display_name()
        ))
        .hint("Use x.to_dense() or x.to_sparse() to convert one of them.")),
    }
}

/// Adds the scaled second argument to the first in place.
pub(super) fn add_scaled(dense: &Tensor, indices: &Tensor, values: &Tensor, factor: Scalar) -> Result<()> {
    let values = crate::convert::to_dtype(values, dense.dtype())?;
    if factor.is_one() {
        return scatter(dense, indices, &values);
    }
    scatter(dense, indices, &op!(crate::pointwise::arith::MUL, &values, factor)?)
}

/// Removes all elements in place: `zero_`.
pub fn zero(args: &Args) -> Result<Output> {
    let input = args.tensor(crate::create::fill::ZERO_::INPUT)?;
    if let Some(held) = input.compressed_parts() {
        return compressed::parts::none(input, &held, input.dtype(), input.device()).map(Output::Tensor);
    }
    let places = parts(input, "zero_")?;
    empty(input.sizes(), places.indices.sizes()[0] as usize, input.dtype(), input.device()).map(Output::Tensor)
}
