//! Joins of mapped tensors.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_core::layout::wrap_dim;

use super::cat::{CAT, STACK};
use super::diag::DIAG_EMBED;
use super::flip::ROLL;
use super::repeat::REPEAT;
use crate::mapped::{Batch, spread};
use crate::op;
use crate::value::{Ints, Output};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;

type Found = Result<Option<Output>>;

fn found(tensor: Result<Tensor>) -> Found {
    tensor.map(|tensor| Some(Output::Tensor(tensor)))
}

pub fn cat(batch: &Batch) -> Found {
    let list = batch.args.tensors(0)?;
    // An empty vector fits to anything, as torch's oldest programs have it.
    let kept: Vec<&Tensor> = match list.iter().any(|tensor| tensor.rank() != 1) {
        true => list.into_iter().filter(|tensor| tensor.rank() != 1 || tensor.numel() > 0).collect(),
        false => list,
    };
    let Some(first) = kept.first() else { return Ok(None) };
    let dim = wrap_dim(batch.args.int(1)?, first.rank())?;
    let shown: Vec<Tensor> = kept.into_iter().map(|tensor| batch.shown(tensor)).collect();
    found(op!(CAT, shown, dim + 1))
}

pub fn stack(batch: &Batch) -> Found {
    let list = batch.args.tensors(0)?;
    let dim = wrap_dim(batch.args.int(1)?, list[0].rank() + 1)?;
    let shown: Vec<Tensor> = list.into_iter().map(|tensor| batch.shown(tensor)).collect();
    found(op!(STACK, shown, dim + 1))
}

pub fn repeat(batch: &Batch) -> Found {
    let times = batch.args.ints(1)?;
    let own = spread(&batch.tensor(0)?, times.len());
    let times: Ints = std::iter::once(1).chain(times.iter().copied()).collect();
    found(op!(REPEAT, own, times))
}

pub fn roll(batch: &Batch) -> Found {
    let own = batch.args.tensor(0)?;
    let (shifts, dims) = (crate::reduce::dims(batch.args, 1), crate::reduce::dims(batch.args, 2));
    if own.rank() == 0 || batch.size == 0 {
        return Ok(None);
    }
    if dims.is_empty() {
        let shown = batch.tensor(0)?;
        let lines = op!(RESHAPE, &shown, sizes_value(&[batch.size, -1]))?;
        return found(op!(RESHAPE, op!(ROLL, lines, shifts, &[1i64][..])?, sizes_value(shown.sizes())));
    }
    let moved = dims.iter().map(|&dim| wrap_dim(dim, own.rank()).map(|dim| dim as i64 + 1));
    found(op!(ROLL, batch.tensor(0)?, shifts, moved.collect::<Result<Ints>>()?))
}

pub fn diag_embed(batch: &Batch) -> Found {
    let rank = batch.args.tensor(0)?.rank() + 1;
    let dim = |place: usize| batch.args.int(place).and_then(|dim| wrap_dim(dim, rank)).map(|dim| dim + 1);
    found(op!(DIAG_EMBED, batch.tensor(0)?, batch.args.int(1)?, dim(2)?, dim(3)?))
}
