//! Searches over mapped operands.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Result};

use super::isin::{ISIN, common};
use super::search::{SEARCHSORTED, value};
use super::sort::SORT;
use crate::convert::copy::CONTIGUOUS;
use crate::convert::to_dtype;
use crate::index::gather::GATHER;
use crate::mapped::Batch;
use crate::op;
use crate::pointwise::clamp::CLAMP_MAX;
use crate::pointwise::compare::EQ;
use crate::pointwise::logical::LOGICAL_NOT;
use crate::value::{Output, Value};
use crate::view::RESHAPE;
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;

type Found = Result<Option<Output>>;

/// The elements of each sample in a line; a number, or what has none of its own, stands in every line.
fn lines(shown: &Tensor, size: isize) -> Result<Tensor> {
    let whole = if shown.rank() == 0 { op!(EXPAND, shown, sizes_value(&[size]))? } else { shown.clone() };
    op!(CONTIGUOUS, op!(RESHAPE, whole, sizes_value(&[size, -1]))?)
}

/// A result of lines in the shape of a sample's operand.
fn shaped(batch: &Batch, lines: Tensor, place: usize) -> Found {
    let mut sizes = vec![batch.size];
    sizes.extend_from_slice(batch.args.optional_tensor(place).map_or(&[][..], |own| own.sizes()));
    op!(RESHAPE, lines, sizes_value(&sizes)).map(|found| Some(Output::Tensor(found)))
}

/// Each sample's elements are looked for among its own, which are sorted for it.
pub fn isin(batch: &Batch) -> Found {
    let (args, invert) = (batch.args, batch.args.bool(3)?);
    if batch.size == 0 {
        return Ok(None);
    }
    if !batch.differs_at(1) {
        if !args.has_tensor(0) {
            return Ok(None);
        }
        let tests = if args.has_tensor(1) { Value::Own(batch.one(1)?) } else { args.values[1].clone() };
        return op!(ISIN, batch.tensor(0)?, tests, args.bool(2)?, invert).map(|found| Some(Output::Tensor(found)));
    }
    let dtype = common(args)?;
    let own = match args.has_tensor(0) {
        true => to_dtype(&batch.tensor(0)?, dtype)?,
        false => crate::create::scalar_of(args.scalar(0)?, dtype, Device::Cpu)?,
    };
    let (own, tests) = (lines(&own, batch.size)?, lines(&to_dtype(&batch.tensor(1)?, dtype)?, batch.size)?);
    let count = tests.sizes()[1] as i64;
    if count == 0 {
        return Ok(None);
    }
    let sorted = SORT.call([tests.into(), 1i64.into()])?.into_tensors().swap_remove(0);
    let places = op!(CLAMP_MAX, op!(SEARCHSORTED, &sorted, &own)?, count - 1)?;
    let found = op!(EQ, op!(GATHER, &sorted, 1i64, places)?, own)?;
    shaped(batch, if invert { op!(LOGICAL_NOT, found)? } else { found }, 0)
}

/// One line for all samples takes values of any shape; of each sample's own lines there are more.
pub fn searchsorted(batch: &Batch) -> Found {
    let args = batch.args;
    let own = args.tensor(0)?;
    let shared = own.rank() == 1 && !batch.differs_at(0) && !batch.differs_at(5);
    if batch.size == 0 || (shared && !args.has_tensor(1)) {
        return Ok(None);
    }
    let mut shown = args.clone();
    if shared {
        for place in [0, 5].into_iter().filter(|&place| args.has_tensor(place)) {
            shown.values[place] = Value::Own(batch.one(place)?);
        }
        shown.values[1] = Value::Own(batch.tensor(1)?);
        return crate::call(shown).map(Some);
    }
    let dense = |tensor: Tensor| op!(CONTIGUOUS, tensor).map(Value::Own);
    let values = value(args, 1, own)?;
    shown.row = &SEARCHSORTED;
    shown.values[0] = dense(batch.tensor(0)?)?;
    if args.has_tensor(5) {
        shown.values[5] = dense(batch.tensor(5)?)?;
    }
    shown.values[1] = match own.rank() {
        1 => Value::Own(lines(&if args.has_tensor(1) { batch.shown(&values) } else { values }, batch.size)?),
        _ => dense(batch.shown(&values))?,
    };
    shaped(batch, crate::call(shown)?.into_tensor()?, 1)
}

/// The same with the operands the other way round.
pub fn bucketize(batch: &Batch) -> Found {
    let args = batch.args;
    let shared = !batch.differs_at(1);
    if batch.size == 0 || (shared && !args.has_tensor(0)) {
        return Ok(None);
    }
    if shared {
        let mut shown = args.clone();
        shown.values[0] = Value::Own(batch.tensor(0)?);
        shown.values[1] = Value::Own(batch.one(1)?);
        return crate::call(shown).map(Some);
    }
    let values = value(args, 0, args.tensor(1)?)?;
    let values = lines(&if args.has_tensor(0) { batch.shown(&values) } else { values }, batch.size)?;
    let lines = op!(CONTIGUOUS, batch.tensor(1)?)?;
    shaped(batch, op!(SEARCHSORTED, lines, values, args.bool(2)?, args.bool(3)?)?, 0)
}
