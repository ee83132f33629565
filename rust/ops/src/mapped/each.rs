//! A row for which there is no rule: it runs once for each sample, and the results are stacked.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use super::levels::{Randomness, current, without};
use super::{Batch, each_tensor, one_sample, show};
use crate::call::{Target, call_into};
use crate::create::zeros;
use crate::join::cat::STACK;
use crate::op;
use crate::row::{Row, Run};
use crate::value::{Args, Output, Value};
use crate::view::narrow::SELECT;

static LOOPS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicPtr<Row> = AtomicPtr::new(std::ptr::null_mut());

/// How many calls of this process ran once for each sample, and the last one's row, so that tests see which have no rule.
pub fn loops() -> (u64, &'static str) {
    // SAFETY: it points to a row, of which all are static, or nowhere.
    let last = unsafe { LAST.load(Relaxed).as_ref() };
    (LOOPS.load(Relaxed), last.map_or("", |row| row.name))
}

fn begin_loop(row: &'static Row) {
    LAST.store(std::ptr::from_ref(row).cast_mut(), Relaxed);
    LOOPS.fetch_add(1, Relaxed);
}

/// The arguments with each tensor replaced.
pub fn replaced<'a>(args: &Args<'a>, with: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Args<'a>> {
    let mut args = args.clone();
    for value in &mut args.values {
        match value {
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten() {
                    *tensor = with(tensor)?;
                }
            }
            value => {
                if let Some(tensor) = value.as_tensor() {
                    *value = Value::Own(with(tensor)?);
                }
            }
        }
    }
    Ok(args)
}

/// The arguments of one sample.
fn sample<'a>(batch: &Batch<'_, 'a>, place: isize) -> Result<Args<'a>> {
    replaced(batch.args, |tensor| Ok(one_sample(tensor, batch.level, batch.size, place)))
}

/// Runs one sample: what is drawn inside is its own.
fn alone<R>(level: i64, work: impl FnOnce() -> R) -> R {
    let own = current().into_iter().find(|one| one.number == level);
    if own.is_some_and(|own| own.randomness == Randomness::Different) { without(level, work) } else { work() }
}

/// The results with the samples along a first dimension.
pub fn fresh(batch: &Batch) -> Result<Output> {
    if batch.size == 0 {
        return of_none(batch);
    }
    begin_loop(batch.args.row);
    let mut results = Vec::with_capacity(batch.size as usize);
    for place in 0..batch.size {
        let args = sample(batch, place)?;
        results.push(alone(batch.level, || call_into(args, Target::Fresh))?);
    }
    stacked(batch, &results)
}

/// The results of all samples, which stand along a first dimension.
fn stacked(batch: &Batch, results: &[Output]) -> Result<Output> {
    let columns = results[0].tensors().len();
    let column = |at: usize| -> Result<Tensor> {
        let parts: Option<Vec<Tensor>> = results.iter().map(|result| result.tensors().get(at).cloned()).collect();
        op!(STACK, parts.ok_or_else(|| Error::runtime("vmap: samples gave different numbers of results"))?, 0i64)
    };
    Ok(match &results[0] {
        Output::Tensor(_) => Output::Tensor(column(0)?),
        Output::Tuple(_) => Output::Tuple((0..columns).map(column).collect::<Result<_>>()?),
        Output::List(_) => Output::List((0..columns).map(column).collect::<Result<_>>()?),
        _ => {
            return Err(Error::runtime(format!(
                "Batching rule not implemented for aten::{}. We could not generate a fallback.",
                batch.args.row.python_name()
            )));
        }
    })
}

/// The same for a row whose body is recorded.
pub fn recorded(batch: &Batch) -> Result<Output> {
    let (level, size) = (batch.level, batch.size);
    if size == 0 {
        return of_none(batch);
    }
    begin_loop(batch.args.row);
    let shown = replaced(batch.args, |tensor| match tensor.axis(level) {
        None => Ok(tensor.clone()),
        Some(_) => show(tensor, 0, level, size),
    })?;
    let mut results = Vec::with_capacity(size as usize);
    for place in 0..size {
        let mut at = shown.clone();
        for (value, own) in at.values.iter_mut().zip(&batch.args.values) {
            match (value, own) {
                (Value::Tensors(list), Value::Tensors(before)) => {
                    for (tensor, own) in list.iter_mut().flatten().zip(before.iter().flatten()) {
                        if own.axis(level).is_some() {
                            *tensor = op!(SELECT, &*tensor, 0i64, place as i64)?;
                        }
                    }
                }
                (value, own) => {
                    if own.as_tensor().is_some_and(|own| own.axis(level).is_some())
                        && let Some(tensor) = value.as_tensor()
                    {
                        *value = Value::Own(op!(SELECT, tensor, 0i64, place as i64)?);
                    }
                }
            }
        }
        results.push(alone(level, || call_into(at, Target::Fresh))?);
    }
    stacked(batch, &results)
}

/// What no sample gives has the sizes of what a sample of zeros would give.
fn of_none(batch: &Batch) -> Result<Output> {
    let none = |sizes: &[isize], dtype, device| {
        let mut all = vec![0];
        all.extend_from_slice(sizes);
        crate::create::empty(&all, dtype, device)
    };
    if let Run::Kernel(kernel) = &batch.args.row.run {
        let specs = (kernel.infer)(batch.args)?;
        let made = specs.iter().map(|spec| none(&spec.layout.sizes, spec.dtype, spec.device));
        return Ok(crate::call::gather(batch.args.row, made.collect::<Result<_>>()?));
    }
    let args = replaced(batch.args, |tensor| zeros(tensor.sizes(), tensor.dtype(), tensor.device()))?;
    let result = call_into(args, Target::Fresh)?;
    each_tensor(result, |tensor| none(tensor.sizes(), tensor.dtype(), tensor.device()))
}

/// Changes each sample of the first argument.
pub fn in_place(batch: &Batch) -> Result<()> {
    let target = || match batch.args.row.run {
        Run::Overwrite(_) => Target::Fresh,
        _ => Target::InPlace,
    };
    begin_loop(batch.args.row);
    (0..batch.size).try_for_each(|place| {
        let args = sample(batch, place)?;
        alone(batch.level, || call_into(args, target())).map(drop)
    })
}
