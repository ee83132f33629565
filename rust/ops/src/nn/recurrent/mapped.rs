//! Sequences over mapped operands: samples that share the weights are more sequences.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use crate::join::cat::CAT;
use crate::linalg::matrix::BMM;
use crate::mapped::{Batch, joined, parted};
use crate::op;
use crate::value::{Args, Output, Value};
use crate::view::RESHAPE;
use crate::view::narrow::NARROW;
use crate::view::reshape::sizes_value;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::TRANSPOSE;

type Found = Result<Option<Output>>;

/// `[B, T, N, ..]` as `[T, B * N, ..]`.
fn as_sequences(shown: &Tensor) -> Result<Tensor> {
    let [size, steps, rows, width] = shown.sizes()[..] else { return Err(Error::runtime("no sequences")) };
    op!(RESHAPE, op!(TRANSPOSE, shown, 0i64, 1i64)?, sizes_value(&[steps, size * rows, width]))
}

/// What `as_sequences` undoes.
fn from_sequences(whole: &Tensor, size: isize) -> Result<Tensor> {
    let [steps, rows, width] = whole.sizes()[..] else { return Err(Error::runtime("no sequences")) };
    op!(TRANSPOSE, op!(RESHAPE, whole, sizes_value(&[steps, size, rows / size, width]))?, 0i64, 1i64)
}

pub fn lstm(batch: &Batch) -> Found {
    if batch.size == 0 || batch.differs_at(3) {
        return Ok(None);
    }
    let [products, hx, cx] = [0, 1, 2].map(|place| batch.tensor(place));
    let operands = [as_sequences(&products?)?, joined(&hx?)?, joined(&cx?)?, batch.one(3)?].map(Value::Own);
    let values = operands.into_iter().chain([batch.args.bool(4)?.into()]);
    let results = crate::call(Args::new(batch.args.row, values))?.into_tensors();
    let results = results.iter().map(|whole| from_sequences(whole, batch.size)).collect::<Result<_>>()?;
    Ok(Some(Output::Tuple(results)))
}

/// The weights have a gradient for each sample.
pub fn lstm_backward(batch: &Batch) -> Found {
    let steps = batch.args.tensor(5)?.sizes()[0] as i64;
    if batch.size == 0 || steps == 0 || batch.differs_at(4) {
        return Ok(None);
    }
    let backwards = batch.args.bool(8)?;
    let sequences = |place: usize| as_sequences(&batch.tensor(place)?).map(Value::Own);
    let state = |place: usize| joined(&batch.tensor(place)?).map(Value::Own);
    let arriving = if batch.args.has_tensor(1) { sequences(1)? } else { Value::None };
    let operands = [
        sequences(0)?,
        arriving,
        state(2)?,
        state(3)?,
        batch.one(4)?.into(),
        sequences(5)?,
        sequences(6)?,
        sequences(7)?,
        backwards.into(),
    ];
    let results = <[Tensor; 4]>::try_from(batch.args.row.call(operands)?.into_tensors());
    let [products, hx, cx, _] = results.map_err(|_| Error::runtime("a sequence without gradients"))?;
    let products = from_sequences(&products, batch.size)?;
    // Each step's product is of the output before it.
    let (first, outputs) = (op!(UNSQUEEZE, batch.tensor(2)?, 1i64)?, batch.tensor(5)?);
    let others = op!(NARROW, &outputs, 1i64, i64::from(backwards), steps - 1)?;
    let before = op!(CAT, if backwards { vec![others, first] } else { vec![first, others] }, 1i64)?;
    let flat = |of: &Tensor| op!(RESHAPE, of, sizes_value(&[batch.size, -1, of.sizes()[3]]));
    let weight = op!(BMM, op!(TRANSPOSE, flat(&products)?, 1i64, 2i64)?, flat(&before)?)?;
    Ok(Some(Output::Tuple(vec![products, parted(&hx, batch.size)?, parted(&cx, batch.size)?, weight])))
}
