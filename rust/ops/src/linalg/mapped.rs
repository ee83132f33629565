//! Products of mapped operands: one product of matrices where one operand is the same for all samples, and a batch of
//! products else.

use rushlight_autograd::Tensor;
use rushlight_core::Result;

use super::added::{ADDMM, BADDBMM};
use super::matrix::{BATCHED, BMM, MM, MV};
use crate::mapped::each::replaced;
use crate::mapped::{Batch, joined, parted, spread};
use crate::op;
use crate::value::{Output, Value};
use crate::view::expand::EXPAND;
use crate::view::reshape::sizes_value;
use crate::view::squeeze::{SQUEEZE_DIM, UNSQUEEZE};
use crate::view::transpose::TRANSPOSE;

type Found = Result<Option<Output>>;

fn found(tensor: Result<Tensor>) -> Found {
    tensor.map(|tensor| Some(Output::Tensor(tensor)))
}

/// `a @ b` for matrices.
pub fn mm(batch: &Batch) -> Found {
    found(match (batch.differs_at(0), batch.differs_at(1)) {
        (true, false) => parted(&op!(MM, joined(&batch.tensor(0)?)?, batch.one(1)?)?, batch.size),
        _ => op!(BMM, batch.tensor(0)?, batch.tensor(1)?),
    })
}

/// `a @ b` for batches, whose dimensions before the matrices broadcast.
pub fn batched(batch: &Batch) -> Found {
    let rank = batch.args.tensor(0)?.rank().max(batch.args.tensor(1)?.rank());
    let side = |place| batch.tensor(place).map(|shown| spread(&shown, rank));
    found(op!(BATCHED, side(0)?, side(1)?))
}

/// A matrix times a vector.
pub fn mv(batch: &Batch) -> Found {
    found(match (batch.differs_at(0), batch.differs_at(1)) {
        (true, false) => parted(&op!(MV, joined(&batch.tensor(0)?)?, batch.one(1)?)?, batch.size),
        (false, true) => op!(MM, batch.tensor(1)?, op!(TRANSPOSE, batch.one(0)?, 0i64, 1i64)?),
        _ => {
            let columns = op!(UNSQUEEZE, batch.tensor(1)?, 2i64)?;
            op!(SQUEEZE_DIM, op!(BMM, batch.tensor(0)?, columns)?, 2i64)
        }
    })
}

/// The product of two vectors.
pub fn dot(batch: &Batch) -> Found {
    found(match (batch.differs_at(0), batch.differs_at(1)) {
        (true, false) => op!(MV, batch.tensor(0)?, batch.one(1)?),
        (false, true) => op!(MV, batch.tensor(1)?, batch.one(0)?),
        _ => {
            let row = op!(UNSQUEEZE, batch.tensor(0)?, 1i64)?;
            let column = op!(UNSQUEEZE, batch.tensor(1)?, 2i64)?;
            op!(crate::view::RESHAPE, op!(BMM, row, column)?, sizes_value(&[batch.size]))
        }
    })
}

/// The first operand in the sizes of the result, with the samples in front.
fn addend(batch: &Batch, sizes: &[isize]) -> Result<Tensor> {
    Ok(batch.shown(&op!(EXPAND, batch.args.tensor(0)?, sizes_value(sizes))?))
}

/// `beta * c + alpha * a @ b`, for batches of matrices with one dimension more in front than the row that is called.
fn added(c: Tensor, a: Tensor, b: Tensor, batch: &Batch) -> Result<Tensor> {
    let number = |place: usize| batch.args.scalar(place).map(Value::Scalar);
    BADDBMM.tensor([c.into(), a.into(), b.into(), number(3)?, number(4)?])
}

pub fn addmm(batch: &Batch) -> Found {
    let (own, a, b) = (batch.args.tensor(0)?, batch.args.tensor(1)?, batch.args.tensor(2)?);
    if !batch.differs_at(0) && batch.differs_at(1) && !batch.differs_at(2) && (own.rank() < 2 || own.sizes()[0] == 1) {
        let number = |place: usize| batch.args.scalar(place).map(Value::Scalar);
        let a = joined(&batch.tensor(1)?)?;
        let whole = ADDMM.tensor([batch.one(0)?.into(), a.into(), batch.one(2)?.into(), number(3)?, number(4)?])?;
        return found(parted(&whole, batch.size));
    }
    let sizes = [a.sizes()[0], b.sizes()[1]];
    found(added(addend(batch, &sizes)?, batch.tensor(1)?, batch.tensor(2)?, batch))
}

pub fn addmv(batch: &Batch) -> Found {
    let rows = batch.args.tensor(1)?.sizes()[0];
    let own = op!(UNSQUEEZE, addend(batch, &[rows])?, 2i64)?;
    let columns = op!(UNSQUEEZE, batch.tensor(2)?, 2i64)?;
    found(op!(SQUEEZE_DIM, added(own, batch.tensor(1)?, columns, batch)?, 2i64))
}

pub fn baddbmm(batch: &Batch) -> Found {
    let (a, b) = (batch.args.tensor(1)?, batch.args.tensor(2)?);
    let sizes = [a.sizes()[0], a.sizes()[1], b.sizes()[2]];
    let own = joined(&addend(batch, &sizes)?)?;
    found(parted(&added(own, joined(&batch.tensor(1)?)?, joined(&batch.tensor(2)?)?, batch)?, batch.size))
}

/// A row of batches of matrices that broadcast.
pub fn matrices(batch: &Batch) -> Found {
    let rank = batch.args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let args = replaced(batch.args, |tensor| Ok(spread(&batch.shown(tensor), rank)))?;
    crate::call(args).map(Some)
}
