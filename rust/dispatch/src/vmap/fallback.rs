//! The fallback for an operator without a batching rule: it runs once for each sample, and the results are stacked.

use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use super::batch_dims::remove_batch_dim;
use super::levels::{Randomness, current, without};
use super::physical::one_sample;
use crate::create::{empty, zeros};
use crate::operator::{Args, BatchedCall, Implementation, Operator};
use crate::primitives::primitives;
use crate::value::{Output, Target, Value};

static FALLBACKS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicPtr<Operator> = AtomicPtr::new(std::ptr::null_mut());

/// How many calls of this process ran once for each sample, and the last one's operator, so that tests find those
/// without a rule.
pub fn fallbacks() -> (u64, &'static str) {
    // SAFETY: it points to an operator, which is static, or is null.
    let last = unsafe { LAST.load(Relaxed).as_ref() };
    (FALLBACKS.load(Relaxed), last.map_or("", |op| op.name))
}

fn count_fallback(op: &'static Operator) {
    LAST.store(std::ptr::from_ref(op).cast_mut(), Relaxed);
    FALLBACKS.fetch_add(1, Relaxed);
}

/// The arguments of one sample.
fn sample<'a>(batch: &BatchedCall<'_, 'a>, place: isize) -> Result<Args<'a>> {
    batch.args.replaced(|tensor| Ok(one_sample(tensor, batch.level, batch.size, place)))
}

/// Runs one sample: random numbers inside it are its own.
fn per_sample<R>(level: i64, work: impl FnOnce() -> R) -> R {
    let own = current().into_iter().find(|one| one.number == level);
    if own.is_some_and(|own| own.randomness == Randomness::Different) { without(level, work) } else { work() }
}

/// The results with the batch dimension first.
pub fn fresh(batch: &BatchedCall) -> Result<Output> {
    if batch.size == 0 {
        return of_none(batch);
    }
    count_fallback(batch.args.op);
    let mut results = Vec::with_capacity(batch.size as usize);
    for place in 0..batch.size {
        let args = sample(batch, place)?;
        results.push(per_sample(batch.level, || args.call())?);
    }
    stacked(batch, &results)
}

/// The results of all samples, stacked along a first dimension.
fn stacked(batch: &BatchedCall, results: &[Output]) -> Result<Output> {
    let columns = results[0].tensors().len();
    let column = |at: usize| -> Result<Tensor> {
        let parts: Option<Vec<Tensor>> = results.iter().map(|result| result.tensors().get(at).cloned()).collect();
        let parts = parts.ok_or_else(|| Error::runtime("vmap: samples gave different numbers of results"))?;
        primitives()?.stack.tensor([parts.into(), 0i64.into()])
    };
    Ok(match &results[0] {
        Output::Tensor(_) => Output::Tensor(column(0)?),
        Output::Tuple(_) => Output::Tuple((0..columns).map(column).collect::<Result<_>>()?),
        Output::List(_) => Output::List((0..columns).map(column).collect::<Result<_>>()?),
        _ => {
            return Err(Error::runtime(format!(
                "Batching rule not implemented for aten::{}. We could not generate a fallback.",
                batch.args.op.python_name()
            )));
        }
    })
}

/// Calls an operator whose body is recorded once for each sample, and stacks the results.
pub fn recorded(batch: &BatchedCall) -> Result<Output> {
    let (level, size) = (batch.level, batch.size);
    if size == 0 {
        return of_none(batch);
    }
    count_fallback(batch.args.op);
    let select = primitives()?.select;
    let physical = batch.args.replaced(|tensor| match tensor.batch_dim(level) {
        None => Ok(tensor.clone()),
        Some(_) => remove_batch_dim(tensor, 0, level, size),
    })?;
    let mut results = Vec::with_capacity(size as usize);
    for place in 0..size {
        let mut at = physical.clone();
        for (value, own) in at.values.iter_mut().zip(&batch.args.values) {
            match (value, own) {
                (Value::Tensors(list), Value::Tensors(before)) => {
                    for (tensor, own) in list.iter_mut().flatten().zip(before.iter().flatten()) {
                        if own.batch_dim(level).is_some() {
                            *tensor = select.tensor([(&*tensor).into(), 0i64.into(), (place as i64).into()])?;
                        }
                    }
                }
                (value, own) => {
                    if own.as_tensor().is_some_and(|own| own.batch_dim(level).is_some())
                        && let Some(tensor) = value.as_tensor()
                    {
                        *value = Value::Own(select.tensor([tensor.into(), 0i64.into(), (place as i64).into()])?);
                    }
                }
            }
        }
        results.push(per_sample(level, || at.call())?);
    }
    stacked(batch, &results)
}

/// With no samples, the result has the sizes that a sample of zeros would give.
fn of_none(batch: &BatchedCall) -> Result<Output> {
    let none = |sizes: &[isize], dtype, device| {
        let mut all = vec![0];
        all.extend_from_slice(sizes);
        empty(&all, dtype, device)
    };
    if let Implementation::Kernel(kernel) = &batch.args.op.implementation {
        let specs = (kernel.infer)(batch.args)?;
        let made = specs.iter().map(|spec| none(&spec.layout.sizes, spec.dtype, spec.device));
        return Ok(batch.args.op.gather(made.collect::<Result<_>>()?));
    }
    let args = batch.args.replaced(|tensor| zeros(tensor.sizes(), tensor.dtype(), tensor.device()))?;
    let result = args.call()?;
    result.map(|tensor| none(tensor.sizes(), tensor.dtype(), tensor.device()))
}

/// Changes each sample of the first argument.
pub fn in_place(batch: &BatchedCall) -> Result<()> {
    let target = || match batch.args.op.implementation {
        Implementation::InPlaceFill(_) => Target::Fresh,
        _ => Target::InPlace,
    };
    count_fallback(batch.args.op);
    (0..batch.size).try_for_each(|place| {
        let args = sample(batch, place)?;
        per_sample(batch.level, || args.call_into(target())).map(drop)
    })
}
