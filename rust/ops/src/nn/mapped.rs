//! Layers over mapped operands.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result, Scalar};

use super::Reduction;
use super::conv::{CONV, CONV_INPUT, CONV_WEIGHT};
use super::embedding::EMBEDDING;
use super::linear::{AFFINE, PLAIN};
use crate::index::{INDEX, PUT};
use crate::linalg::matrix::BMM;
use crate::mapped::{Batch, aligned, joined, parted, spread};
use crate::op;
use crate::pointwise::arith::ADD;
use crate::pointwise::divide::DIV;
use crate::reduce::sum::SUM_DIM;
use crate::row::Row;
use crate::value::{Args, Ints, Output, Value};
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;
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
    if !batch.differs_at(weight) {
        return op!(PLAIN, batch.tensor(input)?, batch.one(weight)?);
    }
    if !batch.differs_at(input) {
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
    if !batch.differs_at(0) && !batch.differs_at(2) {
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
    if !batch.differs_at(1) && !batch.differs_at(2) {
        let bias = if has_bias { Value::Own(batch.one(2)?) } else { Value::None };
        let whole = convolved(&CONV, batch, [joined(&batch.tensor(0)?)?.into(), batch.one(1)?.into(), bias], groups)?;
        return found(parted(&whole, batch.size));
    }
    let weight = joined(&batch.tensor(1)?)?;
    let bias = if has_bias { Value::Own(joined(&batch.tensor(2)?)?) } else { Value::None };
    let (input, groups) = if !batch.differs_at(0) && groups == 1 {
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
    let whole = if batch.differs_at(1) {
        let operands = [as_channels(&batch.tensor(0)?)?.into(), joined(&batch.tensor(1)?)?.into(), enlarged(batch, 1)?];
        from_channels(&convolved(&CONV_INPUT, batch, operands, groups * batch.size as i64)?, batch.size)?
    } else {
        let operands = [joined(&batch.tensor(0)?)?.into(), batch.one(1)?.into(), enlarged(batch, 0)?];
        parted(&convolved(&CONV_INPUT, batch, operands, groups)?, batch.size)?
    };
    if !batch.args.has_tensor(7) {
        return found(Ok(whole));
    }
    // `[B, N, C, ..]` beside `[B, 1, C, ..]`.
    let mut sizes = vec![1; whole.rank()];
    sizes[0] = batch.size;
    sizes[2] = batch.args.tensor(7)?.numel() as isize;
    let bias = op!(RESHAPE, batch.tensor(7)?, sizes_value(&sizes))?;
    found(op!(ADD, whole, bias))
}

pub fn conv_weight(batch: &Batch) -> Found {
    if batch.size == 0 {
        return Ok(None);
    }
    let groups = batch.args.int(6)?;
    let grad = as_channels(&batch.tensor(1)?)?;
    let (input, groups) = if !batch.differs_at(0) && groups == 1 {
        (batch.one(0)?, 1)
    } else {
        (as_channels(&batch.tensor(0)?)?, groups * batch.size as i64)
    };
    let whole = convolved(&CONV_WEIGHT, batch, [input.into(), grad.into(), enlarged(batch, 0)?], groups)?;
    found(parted(&whole, batch.size))
}

pub fn embedding(batch: &Batch) -> Found {
    if !batch.differs_at(0) {
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
        crate::create::fill(&line, Scalar::ZERO)?;
    }
    found(Ok(whole))
}

/// Of `n` items each, the samples become more groups: `[B, ..]` becomes `[N, B, ..]`.
fn as_groups(shown: &Tensor, n: isize, rest: isize) -> Result<Tensor> {
    let apart = op!(RESHAPE, shown, sizes_value(&[shown.sizes()[0], n, rest]))?;
    op!(TRANSPOSE, apart, 0i64, 1i64)
}

/// What `as_groups` undoes, for samples of these sizes.
fn from_groups(whole: &Tensor, size: isize, sizes: &[isize]) -> Result<Tensor> {
    let n = whole.sizes()[0];
    let apart = op!(RESHAPE, whole, sizes_value(&[n, size, whole.numel() as isize / (n * size).max(1)]))?;
    let mut own = vec![size];
    own.extend_from_slice(sizes);
    op!(RESHAPE, op!(TRANSPOSE, apart, 0i64, 1i64)?, sizes_value(&own))
}

/// The parameters of all groups of all samples, where there are any.
fn parameters(batch: &Batch, place: usize) -> Result<Value<'static>> {
    let Some(own) = batch.args.optional_tensor(place) else { return Ok(Value::None) };
    let shown = batch.shown(own);
    Ok(op!(RESHAPE, &shown, sizes_value(&[shown.numel() as isize]))?.into())
}

/// The sizes that a normalisation sees, from the argument at a place on.
struct Seen {
    view: [isize; 4],
    pooled: bool,
    centred: bool,
    eps: f64,
}

impl Seen {
    fn read(batch: &Batch, place: usize) -> Result<Option<Seen>> {
        let args = batch.args;
        let view = args.ints(place)?;
        let &[n, groups, channels, run] = view else { return Ok(None) };
        let (pooled, centred) = (args.bool(place + 1)?, args.bool(place + 2)?);
        let view = [n, groups, channels, run].map(|size| size as isize);
        let empty = batch.size == 0 || view.contains(&0);
        Ok((!empty).then_some(Seen { view, pooled, centred, eps: args.float(place + 3)? }))
    }

    fn rest(&self) -> isize {
        self.view[1] * self.view[2] * self.view[3]
    }

    /// The last arguments of a call, with so many times the items and the groups.
    fn values(&self, items: isize, groups: isize) -> [Value<'static>; 4] {
        let [n, own, channels, run] = self.view;
        let view = sizes_value(&[n * items, own * groups, channels, run]);
        [view, self.pooled.into(), self.centred.into(), self.eps.into()]
    }
}

/// Normalisation: samples are more items where they share the parameters and have statistics each, else more groups.
pub fn normalize(batch: &Batch) -> Found {
    let Some(seen) = Seen::read(batch, 3)? else { return Ok(None) };
    let (row, size) = (batch.args.row, batch.size);
    let [n, groups, ..] = seen.view;
    let sizes = batch.args.tensor(0)?.sizes();
    let run = |operands: [Value<'static>; 3], last: [Value<'static>; 4]| -> Result<[Tensor; 3]> {
        let results = crate::call(Args::new(row, operands.into_iter().chain(last)))?.into_tensors();
        <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a normalisation without statistics"))
    };
    if !seen.pooled && !batch.differs_at(1) && !batch.differs_at(2) {
        let shared = |place: usize| match batch.args.has_tensor(place) {
            true => batch.one(place).map(Value::from),
            false => Ok(Value::None),
        };
        let operands = [batch.tensor(0)?.into(), shared(1)?, shared(2)?];
        let [out, mean, variance] = run(operands, seen.values(size, 1))?;
        return Ok(Some(Output::Tuple(vec![out, parted(&mean, size)?, parted(&variance, size)?])));
    }
    let input = as_groups(&batch.tensor(0)?, n, seen.rest())?;
    let operands = [input.into(), parameters(batch, 1)?, parameters(batch, 2)?];
    let [out, mean, variance] = run(operands, seen.values(1, size))?;
    let statistic = |of: Tensor| match seen.pooled {
        true => parted(&of, size),
        false => from_groups(&of, size, &[n, groups]),
    };
    Ok(Some(Output::Tuple(vec![from_groups(&out, size, sizes)?, statistic(mean)?, statistic(variance)?])))
}

/// Its gradient: samples are more groups, so that parameters have a gradient for each.
pub fn normalize_backward(batch: &Batch) -> Found {
    let Some(seen) = Seen::read(batch, 5)? else { return Ok(None) };
    let (size, n) = (batch.size, seen.view[0]);
    let grouped = |place: usize| as_groups(&batch.tensor(place)?, n, seen.rest());
    let statistic = |place: usize| match seen.pooled {
        true => joined(&batch.tensor(place)?),
        false => {
            let apart = as_groups(&batch.tensor(place)?, n, seen.view[1])?;
            op!(RESHAPE, apart, sizes_value(&[n, size * seen.view[1]]))
        }
    };
    let operands =
        [grouped(0)?.into(), grouped(1)?.into(), statistic(2)?.into(), statistic(3)?.into(), parameters(batch, 4)?];
    let results = crate::call(Args::new(batch.args.row, operands.into_iter().chain(seen.values(1, size))))?;
    let [input, weight, bias] = <[Tensor; 3]>::try_from(results.into_tensors())
        .map_err(|_| Error::runtime("a normalisation without gradients"))?;
    let input = from_groups(&input, size, batch.args.tensor(1)?.sizes())?;
    Ok(Some(Output::Tuple(vec![input, parted(&weight, size)?, parted(&bias, size)?])))
}

/// Queries, keys, values and masks meet as they did; gradients, results and sums have all samples.
pub fn attention_backward(batch: &Batch) -> Found {
    let mut args = aligned(batch)?;
    for place in [0, 1, 6, 7] {
        if let Some(tensor) = batch.args.optional_tensor(place) {
            args.values[place] = batch.shown(tensor).into();
        }
    }
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    args.values[2] = spread(&batch.tensor(2)?, rank).into();
    crate::call(args).map(Some)
}

/// The items of all samples, which have some each or are one, as one batch.
struct Items {
    scores: Tensor,
    targets: Tensor,
    size: isize,
    single: bool,
}

impl Items {
    fn of(batch: &Batch, scores: usize, targets: usize) -> Result<Option<Items>> {
        if batch.size == 0 || batch.differs_at(2) {
            return Ok(None);
        }
        let single = batch.args.tensor(scores)?.rank() == 1;
        let all = Items { scores: batch.tensor(scores)?, targets: batch.tensor(targets)?, size: batch.size, single };
        Ok(Some(Items { scores: all.whole(all.scores.clone())?, targets: all.whole(all.targets.clone())?, ..all }))
    }

    /// What the samples have, as one batch.
    fn whole(&self, shown: Tensor) -> Result<Tensor> {
        if self.single { Ok(shown) } else { joined(&shown) }
    }

    /// What `whole` undoes.
    fn apart(&self, whole: &Tensor) -> Result<Tensor> {
        if self.single { Ok(whole.clone()) } else { parted(whole, self.size) }
    }
}

fn shared_weight(batch: &Batch) -> Result<Value<'static>> {
    Ok(if batch.args.has_tensor(2) { batch.one(2)?.into() } else { Value::None })
}

/// Each item's loss, for all samples; summed where it is asked for, of each sample alone.
pub fn nll(batch: &Batch) -> Found {
    let Some(items) = Items::of(batch, 0, 1)? else { return Ok(None) };
    let (scores, targets) = (&items.scores, &items.targets);
    let each = |scores: &Tensor| -> Result<Tensor> {
        let values = [scores.into(), targets.into(), shared_weight(batch)?, 0i64.into(), batch.args.int(4)?.into()];
        let results = batch.args.row.call(values)?.into_tensors();
        items.apart(results.first().ok_or_else(|| Error::runtime("no loss"))?)
    };
    let sum = |each: &Tensor| {
        if items.single {
            return Ok(each.clone());
        }
        let dims: Ints = (1..each.rank() as i64).collect();
        op!(SUM_DIM, each, dims)
    };
    let losses = each(scores)?;
    // The loss of scores of minus one is the weight.
    let weights = crate::create::full(scores.sizes(), Scalar::Int(-1), scores.dtype(), scores.device())?;
    let total = sum(&each(&weights)?)?;
    let loss = match Reduction::of_code(batch.args.int(3)?) {
        Reduction::None => losses,
        Reduction::Sum => sum(&losses)?,
        Reduction::Mean => op!(DIV, sum(&losses)?, &total)?,
    };
    Ok(Some(Output::Tuple(vec![loss, total])))
}

pub fn nll_backward(batch: &Batch) -> Found {
    let Some(items) = Items::of(batch, 6, 1)? else { return Ok(None) };
    let grad = batch.tensor(0)?;
    let grad = match Reduction::of_code(batch.args.int(3)?) {
        Reduction::None => items.whole(grad)?,
        summed => {
            let grad = op!(RESHAPE, grad, sizes_value(&[batch.size]))?;
            let grad = match summed {
                Reduction::Mean => op!(DIV, grad, op!(RESHAPE, batch.tensor(5)?, sizes_value(&[batch.size]))?)?,
                _ => grad,
            };
            let mut every = vec![batch.size];
            every.extend_from_slice(batch.args.tensor(1)?.sizes());
            items.whole(op!(EXPAND, spread(&grad, every.len() - 1), sizes_value(&every))?)?
        }
    };
    let total = crate::create::full(&[], Scalar::Int(1), grad.dtype(), grad.device())?;
    let values: [Value; 7] = [
        grad.into(),
        (&items.targets).into(),
        shared_weight(batch)?,
        0i64.into(),
        batch.args.int(4)?.into(),
        total.into(),
        (&items.scores).into(),
    ];
    found(items.apart(&batch.args.row.tensor(values)?))
}
