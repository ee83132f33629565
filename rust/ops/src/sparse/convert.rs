//! Between sparse tensors, their parts, and dense tensors.

use rushlight_autograd::Parts;
use rushlight_core::alloc::collected;
use rushlight_core::{Error, Result, Scalar};

use super::{Sparse, build, coalesce, parts, scatter, taken};
use crate::convert::contiguous;
use crate::create::from_slice;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run};
use crate::value::{Args, Output};
use crate::view::reshape::sizes_value;
use crate::{Tensor, op};

const BASE: Row = Row { dtypes: DTypes::ALL, sparse: Sparse::Known, ..Row::BASE };

/// A sparse tensor of checked parts.
pub static MADE: Row = Row {
    name: "sparse_coo_tensor",
    signature: "(Tensor indices, Tensor values, int[]? size=None, bool is_coalesced=False) -> Tensor",
    run: Run::Body(|args| {
        let sizes = args.optional_ints(2).map(rushlight_core::layout::to_dims);
        super::checked(args.tensor(0)?, args.tensor(1)?, sizes.as_deref(), args.bool(3)?).map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[formula(1, Saves::input(0), |d| {
        let gradient = || -> Result<Tensor> { op!(TAKEN, &dense(&d.grad().done()?)?, &d.input(0).done()?) };
        Expr::new(gradient())
    })]),
    node: "SparseCooTensorWithDimsAndTensorsBackward0",
    ..BASE
};

/// The elements of a dense tensor at the places that indices name.
pub static TAKEN: Row = Row {
    name: "_taken",
    signature: "(Tensor self, Tensor indices) -> Tensor",
    run: Run::Compose(|args| {
        taken(args.tensor(0)?, &crate::convert::to_dtype(args.tensor(1)?, rushlight_core::DType::I64)?)
            .map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    ..BASE
};

/// The tensor itself, or all elements of a sparse one.
pub fn dense(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_sparse() { op!(TO_DENSE, tensor) } else { Ok(tensor.clone()) }
}

pub static TO_DENSE: Row = Row {
    name: "to_dense",
    signature: "(Tensor self) -> Tensor",
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        let Some(parts) = own.parts() else { return Ok(Output::Tensor(own.clone())) };
        let whole = crate::create::zeros(own.sizes(), own.dtype(), own.device())?;
        scatter(&whole, &parts.indices, &parts.values)?;
        Ok(Output::Tensor(whole))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        // A place that comes twice is one element, and has one gradient.
        let gradient = || -> Result<Tensor> { op!(MASKED, &d.grad().done()?, &op!(COALESCE, &d.input(0).done()?)?) };
        Expr::new(gradient())
    })]),
    node: "ToDenseBackward0",
    ..BASE
};

/// The elements of a tensor at the places of a sparse one.
pub static MASKED: Row = Row {
    name: "sparse_mask",
    signature: "(Tensor self, Tensor mask) -> Tensor",
    run: Run::Body(|args| {
        let (own, mask) = (args.tensor(0)?, args.tensor(1)?);
        let Some(places) = mask.parts() else {
            return Err(Error::runtime("sparse_mask(): the mask must be a sparse tensor"));
        };
        if own.sizes() != mask.sizes() {
            return Err(Error::runtime(format!(
                "sparse_mask(): operands have incompatible sizes; self has size {} but mask has size {}",
                rushlight_core::layout::Shape(own.sizes()),
                rushlight_core::layout::Shape(mask.sizes())
            )));
        }
        let values = match own.parts() {
            Some(held) => found(own, &held, &places)?,
            None => taken(own, &places.indices)?,
        };
        super::with_values(mask, &places, values).map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), |d| {
        let gradient = || -> Result<Tensor> {
            let (own, grad) = (d.input(0).done()?, d.grad().done()?);
            if own.is_sparse() { op!(MASKED, &grad, &op!(COALESCE, &own)?) } else { dense(&grad) }
        };
        Expr::new(gradient())
    })]),
    node: "SparseMaskBackward0",
    ..BASE
};

/// The values that a sparse tensor has at the places of another, of which it may not have all.
fn found(own: &Tensor, held: &Parts, places: &Parts) -> Result<Tensor> {
    if held.indices.sizes()[0] != places.indices.sizes()[0] {
        return taken(&dense(own)?, &places.indices);
    }
    let held = coalesce::coalesced(held, own.sizes())?;
    let (keys, wanted) = (coalesce::keys(&held, own.sizes())?, coalesce::keys(places, own.sizes())?);
    let count = keys.len() as i64;
    // Behind the last value stands a zero.
    let numbers = collected(wanted.iter().map(|key| keys.binary_search(key).map_or(count, |at| at as i64)))?;
    let mut block = held.values.sizes().clone();
    block[0] = 1;
    let none = crate::create::zeros(&block, held.values.dtype(), held.values.device())?;
    let values = op!(crate::join::CAT, vec![held.values.detach(), none], 0i64)?;
    op!(crate::index::along::INDEX_SELECT, &values, 0i64, &from_slice(&numbers)?)
}

pub static COALESCE: Row = Row {
    name: "coalesce",
    signature: "(Tensor self) -> Tensor",
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        let parts = parts(own, "coalesce")?;
        build(own.sizes(), coalesce::coalesced(&parts, own.sizes())?).map(Output::Tensor)
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    node: "CoalesceBackward0",
    ..BASE
};

/// The values, which belong to the tensor: a change of one is a change of the other.
pub static VALUES: Row = Row {
    name: "values",
    signature: "(Tensor self) -> Tensor",
    run: Run::Body(|args| {
        let parts = parts(args.tensor(0)?, "values")?;
        if !parts.coalesced {
            return Err(Error::runtime("Cannot get values on an uncoalesced tensor, please call .coalesce() first"));
        }
        Ok(Output::Tensor(parts.values.detach()))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0), spread)]),
    node: "ValuesBackward0",
    ..BASE
};

/// The gradient of a sparse tensor from that of its values.
fn spread(d: &Derive) -> Expr {
    let gradient = || -> Result<Tensor> {
        let own = d.input(0).done()?;
        let places = parts(&own, "values")?;
        op!(MADE, &places.indices, &d.grad().done()?, sizes_value(own.sizes()), places.coalesced)
    };
    Expr::new(gradient())
}

pub static TO_SPARSE: Row = Row {
    name: "to_sparse",
    signature: "(Tensor self, int? sparse_dim=None) -> Tensor",
    run: Run::Body(|args| to_sparse(args.tensor(0)?, args.optional_int(1)).map(Output::Tensor)),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        Expr::new(d.grad().done().and_then(|grad| dense(&grad)))
    })]),
    node: "ToSparseBackward1",
    ..BASE
};

fn to_sparse(own: &Tensor, wanted: Option<i64>) -> Result<Tensor> {
    if own.is_sparse() {
        return Ok(own.clone());
    }
    let rank = own.rank() as i64;
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
        op!(crate::index::nonzero::NONZERO, own)?
    } else {
        let blocks: Vec<i64> = (dims..rank).collect();
        let any = op!(crate::reduce::truth::ANY_DIMS, own, &*blocks)?;
        op!(crate::index::nonzero::NONZERO, any)?
    };
    let indices = contiguous(&crate::view::transpose::reversed(&found)?)?;
    let values = taken(own, &indices)?;
    build(own.sizes(), Parts { indices, values, coalesced: true })
}

/// `Tensor.copy_` of a sparse tensor to another.
pub fn copied(args: &Args) -> Result<Output> {
    let (own, from) = (args.tensor(0)?, args.tensor(1)?);
    match (own.is_sparse(), from.parts()) {
        (true, Some(places)) => {
            let values = crate::copy::clone(&places.values)?;
            super::with_values(from, &places, values).map(Output::Tensor)
        }
        _ => Err(Error::runtime(format!(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = torch.{}{}Tensor and src type = torch.{}{}Tensor",
            if own.is_sparse() { "sparse." } else { "" },
            own.dtype().title(),
            if from.is_sparse() { "sparse." } else { "" },
            from.dtype().title()
        ))
        .hint("x.to_dense() and x.to_sparse() convert.")),
    }
}

/// The second argument, scaled, is added to the first in place.
pub(super) fn add_scaled(dense: &Tensor, indices: &Tensor, values: &Tensor, factor: Scalar) -> Result<()> {
    let values = crate::convert::to_dtype(values, dense.dtype())?;
    if factor.is_one() {
        return scatter(dense, indices, &values);
    }
    scatter(dense, indices, &op!(crate::pointwise::arith::MUL, &values, factor)?)
}

/// Empty of elements in place: `zero_`.
pub fn emptied(args: &Args) -> Result<Output> {
    let own = args.tensor(0)?;
    let places = parts(own, "zero_")?;
    super::empty(own.sizes(), places.indices.sizes()[0] as usize, own.dtype()).map(Output::Tensor)
}
