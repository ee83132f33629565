//! Indices into mapped tensors, and mapped indices.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_core::index::{gathered, subspace};

use super::along::{INDEX_SELECT, refuse_outside};
use super::gather::GATHER;
use super::geometry::common;
use super::scatter::{SCATTER, SCATTER_ADD, SCATTER_VALUE};
use super::{INDEX, PUT};
use crate::convert::to_dtype;
use crate::create::scalar_of;
use crate::mapped::{Batch, no_elements, spread};
use crate::op;
use crate::pointwise::arith::MUL;
use crate::pointwise::choose::WHERE;
use crate::value::{Args, Ints, Output, Value};
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;
use crate::view::transpose::{MOVEDIM, PERMUTE};

type Found = Result<Option<Output>>;

/// Indices of a batch, and what they index.
struct Places {
    indices: Vec<Tensor>,
    dims: Ints,
    /// Where in the result of this call the samples stand.
    samples: usize,
    /// Where there the dimensions of the indices stand, how many they are, and where they stand in a sample's result.
    block: (usize, usize, usize),
}

impl Places {
    /// `shared` says that what is indexed has no dimension of samples in front.
    fn of(batch: &Batch, shared: bool) -> Result<Places> {
        let given = batch.args.tensors(1)?;
        let dims: Vec<usize> = batch.args.ints(2)?.iter().map(|&dim| dim as usize).collect();
        let owned: Vec<Tensor> = given.iter().map(|&index| index.clone()).collect();
        let count = common(&owned)?.len();
        let own = subspace(&dims);
        let differ = given.iter().any(|index| batch.differs(index));
        let mut indices = Vec::with_capacity(given.len() + 1);
        for index in &given {
            indices.push(match (index.axis(batch.level), differ) {
                (None, _) => (*index).clone(),
                (Some(_), true) => spread(&batch.shown(index), count),
                (Some(_), false) => {
                    let shown = batch.shown(index);
                    let layout = shown.layout().select(0, 0);
                    Tensor::with_meta(shown.meta_with(layout))
                }
            });
        }
        let moved = |by: usize| dims.iter().map(|&dim| (dim + by) as i64).collect::<Ints>();
        Ok(match (differ, shared) {
            // Each sample has its indices into the same: they have one dimension more, which stands before their own.
            (true, true) => Places { indices, dims: moved(0), samples: own, block: (own + 1, count, own) },
            (true, false) => {
                indices.insert(0, batch.numbers(count)?);
                let dims = std::iter::once(0).chain(moved(1)).collect();
                Places { indices, dims, samples: 0, block: (1, count, own) }
            }
            (false, _) => {
                let dims = moved(1);
                let at = subspace(&dims.iter().map(|&dim| dim as usize).collect::<Vec<_>>());
                // Apart from each other, they stand in front of all others.
                let samples = if at == 0 { count } else { 0 };
                let block = (if at == 0 { 0 } else { at }, count, own);
                Places { indices, dims, samples, block }
            }
        })
    }

    /// For each dimension of a sample's result, behind the samples, where it stands in the result of this call.
    fn order(&self, rank: usize) -> Vec<usize> {
        let (from, count, own) = self.block;
        let block = from..from + count;
        let rest: Vec<usize> = (0..rank).filter(|dim| *dim != self.samples && !block.contains(dim)).collect();
        let (before, after) = rest.split_at(own);
        std::iter::once(self.samples).chain(before.iter().copied()).chain(block).chain(after.iter().copied()).collect()
    }
}

fn permuted(tensor: &Tensor, order: &[usize]) -> Result<Tensor> {
    let order: Ints = order.iter().map(|&dim| dim as i64).collect();
    op!(PERMUTE, tensor, order)
}

/// `x[i, j]`.
pub fn get(batch: &Batch) -> Found {
    let differ = batch.args.tensors(1)?.iter().any(|index| batch.differs(index));
    let shared = differ && !batch.differs_at(0);
    let places = Places::of(batch, shared)?;
    let own = if shared { batch.one(0)? } else { batch.tensor(0)? };
    let whole = op!(INDEX, own, places.indices.clone(), places.dims.clone())?;
    permuted(&whole, &places.order(whole.rank())).map(|tensor| Some(Output::Tensor(tensor)))
}

/// `x[i, j] = v`.
pub fn put(batch: &Batch) -> Found {
    let args = batch.args;
    let places = Places::of(batch, false)?;
    let owned: Vec<Tensor> = args.tensors(1)?.into_iter().cloned().collect();
    let dims: Vec<usize> = args.ints(2)?.iter().map(|&dim| dim as usize).collect();
    let sizes = gathered(args.tensor(0)?.sizes(), &dims, &common(&owned)?);
    let values = batch.shown(&op!(EXPAND, args.tensor(3)?, sizes_value(&sizes))?);
    let order = places.order(values.rank());
    let mut back = vec![0; order.len()];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    let values = permuted(&values, &back)?;
    let accumulate = args.bool(4)?;
    op!(PUT, batch.tensor(0)?, places.indices, places.dims, values, accumulate)
        .map(|tensor| Some(Output::Tensor(tensor)))
}

/// Whole slices along a dimension.
pub fn select(batch: &Batch) -> Found {
    let (own, index) = (batch.args.tensor(0)?, batch.args.tensor(2)?);
    if own.rank() == 0 || index.rank() > 1 {
        return Ok(None);
    }
    let dim = rushlight_core::layout::wrap_dim(batch.args.int(1)?, own.rank())?;
    let count = index.numel() as isize;
    let whole = match (batch.differs_at(0), batch.differs_at(2)) {
        (_, false) => op!(INDEX_SELECT, batch.tensor(0)?, dim + 1, batch.one(2)?)?,
        (false, true) => {
            let flat = op!(RESHAPE, batch.tensor(2)?, sizes_value(&[batch.size * count]))?;
            let all = op!(INDEX_SELECT, batch.one(0)?, dim, flat)?;
            let mut sizes = all.sizes().to_vec();
            sizes.splice(dim..=dim, [batch.size, count]);
            op!(MOVEDIM, op!(RESHAPE, all, sizes_value(&sizes))?, &[dim as i64][..], &[0i64][..])?
        }
        (true, true) => {
            let mut sizes = vec![batch.size];
            sizes.extend_from_slice(own.sizes());
            sizes[dim + 1] = count;
            let mut ones = vec![1; own.rank() + 1];
            (ones[0], ones[dim + 1]) = (batch.size, count);
            let index = op!(RESHAPE, batch.tensor(2)?, sizes_value(&ones))?;
            op!(GATHER, batch.tensor(0)?, dim + 1, op!(EXPAND, index, sizes_value(&sizes))?)?
        }
    };
    Ok(Some(Output::Tensor(whole)))
}

/// What does to elements, each with an index of its own, what a row does to slices.
type Scatter = fn(&Batch, own: &Tensor, dim: i64, index: &Tensor) -> Result<Tensor>;

/// Slices along the dimension at place 1 changed, where each sample may have an index of its own, at place 2.
fn changed(batch: &Batch, scatter: Option<Scatter>) -> Found {
    let (own, index) = (batch.args.tensor(0)?, batch.args.tensor(2)?);
    if own.rank() == 0 {
        return Ok(None);
    }
    let source = batch.args.optional_tensor(3);
    if source.is_some_and(|source| source.rank() != own.rank()) {
        return Ok(None);
    }
    let dim = rushlight_core::layout::wrap_dim(batch.args.int(1)?, own.rank())?;
    if !batch.differs_at(2) {
        let mut args: Args = batch.args.clone();
        args.values[0] = Value::Own(batch.tensor(0)?);
        args.values[1] = (dim + 1).into();
        args.values[2] = Value::Own(batch.one(2)?);
        if let Some(source) = source {
            args.values[3] = Value::Own(batch.shown(source));
        }
        return crate::call(args).map(Some);
    }
    let Some(scatter) = scatter else { return Ok(None) };
    let shown = super::gather::long(&batch.tensor(2)?)?;
    // What is wrong with an index its sample says.
    if index.rank() > 1 || refuse_outside(&shown, own.sizes()[dim], |_| no_elements()).is_err() {
        return Ok(None);
    }
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(own.sizes());
    sizes[dim + 1] = index.numel() as isize;
    let mut ones = vec![1; own.rank() + 1];
    (ones[0], ones[dim + 1]) = (batch.size, sizes[dim + 1]);
    let each = op!(EXPAND, op!(RESHAPE, shown, sizes_value(&ones))?, sizes_value(&sizes))?;
    scatter(batch, &batch.tensor(0)?, dim as i64 + 1, &each).map(|whole| Some(Output::Tensor(whole)))
}

pub fn add(batch: &Batch) -> Found {
    changed(
        batch,
        Some(|batch, own, dim, index| {
            let (source, alpha) = (batch.tensor(3)?, batch.args.scalar(4)?);
            let source =
                if alpha.is_one() { source } else { op!(MUL, source, scalar_of(alpha, own.dtype(), own.device())?)? };
            op!(SCATTER_ADD, own, dim, index, source)
        }),
    )
}

pub fn copy(batch: &Batch) -> Found {
    changed(batch, Some(|batch, own, dim, index| op!(SCATTER, own, dim, index, batch.tensor(3)?)))
}

pub fn fill(batch: &Batch) -> Found {
    changed(batch, Some(|batch, own, dim, index| op!(SCATTER_VALUE, own, dim, index, batch.args.scalar(3)?)))
}

/// One that only an index that all samples share lets change all of them at once.
pub fn reduce(batch: &Batch) -> Found {
    changed(batch, None)
}

/// `masked_fill` by a number that each sample has of its own.
pub fn masked(batch: &Batch) -> Found {
    let (own, value) = (batch.args.tensor(0)?, batch.args.tensor(2)?);
    // Numbers of another kind may not fit, and elements shown several times change where any of their places does.
    if value.dtype().category() > own.dtype().category() || own.layout().expanded().next().is_some() {
        return Ok(None);
    }
    let [own, mask] = [0, 1].map(|place| batch.tensor(place).map(|all| spread(&all, own.rank())));
    let (own, mask) = (own?, mask?);
    let value = spread(&to_dtype(&batch.tensor(2)?, own.dtype())?, own.rank() - 1);
    op!(WHERE, mask, value, own).map(|whole| Some(Output::Tensor(whole)))
}
