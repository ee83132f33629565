//! Layers over mapped operands.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use super::conv::{CONV, CONV_INPUT, CONV_WEIGHT};
use super::embedding::EMBEDDING;
use super::linear::{AFFINE, PLAIN};
use crate::index::{INDEX, PUT};
use crate::linalg::matrix::BMM;
use crate::mapped::{Batch, joined, parted, spread};
use crate::op;
use crate::pointwise::arith::ADD;
use crate::row::Row;
use crate::value::{Args, Ints, Output, Value};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;
use crate::view::transpose::{MOVEDIM, TRANSPOSE};

type Found = Result<Option<Output>>;

fn found(tensor: Result<Tensor>) -> Found {
    tensor.map(|tensor| Some(Output::Tensor(tensor)))
}

/// `input @ weight.T` for the tensors at these places.
fn product(batch: &Batch, input: usize, weight: usize) -> Result<Tensor> {
    let sizes = batch.args.tensor(input)?.sizes();
    let (outer, inner) = sizes.split_at(sizes.len().saturating_sub(1));
    let inner = inner.first().copied().unwrap_or(1);
    let outputs = batch.args.tensor(weight)?.sizes()[0];
    if !batch.has(weight) {
        return op!(PLAIN, batch.tensor(input)?, batch.one(weight)?);
    }
    if !batch.has(input) {
        let all = op!(PLAIN, batch.one(input)?, joined(&batch.tensor(weight)?)?)?;
        let mut apart = outer.to_vec();
        apart.extend([batch.size, outputs]);
        return op!(MOVEDIM, op!(RESHAPE, all, sizes_value(&apart))?, &[outer.len() as i64][..], &[0i64][..]);
    }
    let rows: isize = outer.iter().product();
    let lines = op!(RESHAPE, batch.tensor(input)?, sizes_value(&[batch.size, rows, inner]))?;
    let whole = op!(BMM, lines, op!(TRANSPOSE, batch.tensor(weight)?, 1i64, 2i64)?)?;
    let mut apart = vec![batch.size];
    apart.extend_from_slice(outer);
    apart.push(outputs);
    op!(RESHAPE, whole, sizes_value(&apart))
}

pub fn plain(batch: &Batch) -> Found {
    found(product(batch, 0, 1))
}

pub fn affine(batch: &Batch) -> Found {
    if !batch.has(0) && !batch.has(2) {
        return found(op!(AFFINE, batch.one(0)?, batch.tensor(1)?, batch.one(2)?));
    }
    let whole = product(batch, 1, 2)?;
    let bias = spread(&batch.tensor(0)?, whole.rank() - 1);
    found(op!(ADD, whole, bias))
}

/// Samples beside the channels, the second dimension: `[N, B, C, ..]` becomes `[B, N * C, ..]`.
fn as_channels(shown: &Tensor) -> Result<Tensor> {
    let moved = op!(TRANSPOSE, shown, 0i64, 1i64)?;
    let sizes = moved.sizes();
    let mut merged = vec![sizes[0], sizes[1] * sizes[2]];
    merged.extend_from_slice(&sizes[3..]);
    op!(RESHAPE, moved, sizes_value(&merged))
}

/// What `as_channels` undoes.
fn from_channels(whole: &Tensor, size: isize) -> Result<Tensor> {
    let sizes = whole.sizes();
    let mut apart = vec![sizes[0], size, sizes[1] / size.max(1)];
    apart.extend_from_slice(&sizes[2..]);
    op!(TRANSPOSE, op!(RESHAPE, whole, sizes_value(&apart))?, 0i64, 1i64)
}

/// One of the three rows of convolution with the geometry of the call, other operands, and so many groups.
fn convolved(row: &'static Row, batch: &Batch, operands: [Value<'static>; 3], groups: i64) -> Result<Tensor> {
    let args = batch.args;
    let [first, second, third] = operands;
    let geometry = |place: usize| args.ints(place).map(Value::from);
    let values = [first, second, third, geometry(3)?, geometry(4)?, geometry(5)?, groups.into()];
    crate::call(Args::new(row, values))?.into_tensor()
}

/// The sizes at place 2 with one of them multiplied by the number of samples.
fn enlarged(batch: &Batch, dim: usize) -> Result<Value<'static>> {
    let mut sizes = Ints::from_slice(batch.args.ints(2)?);
    sizes[dim] *= batch.size as i64;
    Ok(Value::Ints(sizes))
}

pub fn conv(batch: &Batch) -> Found {
    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(6)?;
    let has_bias = batch.args.has_tensor(2);
    if !batch.has(1) && !batch.has(2) {
        let bias = if has_bias { Value::Own(batch.one(2)?) } else { Value::None };
        let whole = convolved(&CONV, batch, [joined(&batch.tensor(0)?)?.into(), batch.one(1)?.into(), bias], groups)?;
        return found(parted(&whole, batch.size));
    }
    let weight = joined(&batch.tensor(1)?)?;
    let bias = if has_bias { Value::Own(joined(&batch.tensor(2)?)?) } else { Value::None };
    let (input, groups) = if !batch.has(0) && groups == 1 {
        (batch.one(0)?, 1)
    } else {
        (as_channels(&batch.tensor(0)?)?, groups * batch.size as i64)
    };
    let whole = convolved(&CONV, batch, [input.into(), weight.into(), bias], groups)?;
    found(from_channels(&whole, batch.size))
}

pub fn conv_input(batch: &Batch) -> Found {
    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(6)?;
    if !batch.has(1) {
        let operands = [joined(&batch.tensor(0)?)?.into(), batch.one(1)?.into(), enlarged(batch, 0)?];
        return found(parted(&convolved(&CONV_INPUT, batch, operands, groups)?, batch.size));
    }
    let operands = [as_channels(&batch.tensor(0)?)?.into(), joined(&batch.tensor(1)?)?.into(), enlarged(batch, 1)?];
    found(from_channels(&convolved(&CONV_INPUT, batch, operands, groups * batch.size as i64)?, batch.size))
}

pub fn conv_weight(batch: &Batch) -> Found {
    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(6)?;
    let grad = as_channels(&batch.tensor(1)?)?;
    let (input, groups) = if !batch.has(0) && groups == 1 {
        (batch.one(0)?, 1)
    } else {
        (as_channels(&batch.tensor(0)?)?, groups * batch.size as i64)
    };
    let whole = convolved(&CONV_WEIGHT, batch, [input.into(), grad.into(), enlarged(batch, 0)?], groups)?;
    found(parted(&whole, batch.size))
}

pub fn embedding(batch: &Batch) -> Found {
    if !batch.has(0) {
        return found(op!(EMBEDDING, batch.one(0)?, batch.tensor(1)?));
    }
    let indices = batch.tensor(1)?;
    let samples = batch.numbers(indices.rank() - 1)?;
    found(op!(INDEX, batch.tensor(0)?, vec![samples, indices], &[0i64, 1][..]))
}

pub fn embedding_backward(batch: &Batch) -> Found {
    if batch.args.bool(4)? {
        return Ok(None);
    }
    let (grad, indices) = (batch.tensor(0)?, batch.tensor(1)?);
    let (rows, width) = (batch.args.int(2)?, grad.sizes()[grad.rank() - 1]);
    let zeros = crate::create::zeros(&[batch.size, rows as isize, width], grad.dtype(), grad.device())?;
    let samples = batch.numbers(indices.rank() - 1)?;
    let whole = op!(PUT, zeros, vec![samples, indices], &[0i64, 1][..], grad, true)?;
    let padding = batch.args.int(3)?;
    if (0..rows).contains(&padding) {
        let line = op!(crate::view::narrow::SELECT, &whole, 1i64, padding)?;
        crate::create::fill(&line, rushlight_core::Scalar::ZERO)?;
    }
    found(Ok(whole))
}
