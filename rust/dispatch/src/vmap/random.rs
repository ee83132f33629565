//! Random operators inside a `vmap`: an error, different numbers for each sample, or the same for all.
//!
//! Different numbers are those that one call for the whole batch draws, the samples of the outermost `vmap` one
//! after the other, as in torch.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{Error, Result};

use super::errors::in_place_error;
use super::levels::{Level, Randomness, current, inside, outside};
use super::physical::{logical_at, one_sample, physical_at};
use crate::interceptors::Rest;
use crate::node;
use crate::operator::{Args, BatchRule, Implementation};
use crate::primitives::primitives;
use crate::signature::Kind;
use crate::value::{Arg, Ints, Output, Target, Value};

/// Carries out a random call, where this thread is inside of a `vmap`.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    if inside() { call(args, target) } else { rest.call(args, target) }
}

fn call(args: Args, target: Target) -> Result<Output> {
    let levels = current();
    if levels.iter().any(|level| level.randomness == Randomness::Error) {
        return Err(Error::runtime(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap",
        ));
    }
    let batched = |level: &Level| !args.all_tensors(|tensor| tensor.batch_dim(level.number).is_none());
    let physical: Vec<Level> =
        levels.iter().copied().filter(|level| level.randomness == Randomness::Different || batched(level)).collect();
    if physical.is_empty() {
        return outside(|| args.call_into(target));
    }
    if matches!(target, Target::Out(_)) {
        return Err(in_place_error());
    }
    let in_place =
        matches!(target, Target::InPlace) || matches!(args.op.implementation, Implementation::InPlaceFill(_));
    if in_place { changed(&args, &physical, target) } else { fresh(&args, &physical) }
}

/// The tensor with these batch dimensions shown, the outermost first.
fn all_physical(tensor: &Tensor, levels: &[Level]) -> Tensor {
    physical_at(tensor, levels.iter().map(|level| (level.number, level.size)))
}

/// One sample of a batch whose samples all draw the same.
fn one_of(tensor: &Tensor, levels: &[Level]) -> Tensor {
    levels.iter().fold(tensor.clone(), |tensor, level| one_sample(&tensor, level.number, level.size, 0))
}

fn fresh(args: &Args, levels: &[Level]) -> Result<Output> {
    let (different, same): (Vec<Level>, Vec<Level>) =
        levels.iter().copied().partition(|level| level.randomness == Randomness::Different);
    if !same.is_empty() {
        if !matches!(args.op.batch_rule, BatchRule::ShapeOnly) {
            return Err(Error::runtime(
                "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch",
            ));
        }
        return fresh(&args.replaced(|tensor| Ok(one_of(tensor, &same)))?, &different);
    }
    let schema = args.op.schema();
    let size = schema.arg("size").filter(|&size| args.param(size).kind == Kind::Ints);
    if size.is_none() && args.each_tensor().next().is_none() {
        return each(args, levels);
    }
    let rank = args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let mut whole = args.replaced(|tensor| Ok(aligned_to(&all_physical(tensor, levels), levels.len(), rank)))?;
    if let Some(size) = size {
        let sizes: Ints =
            levels.iter().map(|level| level.size as i64).chain(args.ints(size)?.iter().copied()).collect();
        whole.set(size, Value::Ints(sizes));
    }
    let output = {
        let _off = GradMode::new(false);
        outside(|| whole.call())?
    };
    node::record(args, output.map(|tensor| Ok(logical_at(&tensor, levels.iter().map(|level| level.number))))?)
}

/// An operator without a size argument runs once for each sample.
fn each(args: &Args, levels: &[Level]) -> Result<Output> {
    let count: isize = levels.iter().map(|level| level.size).product();
    let draw = || outside(|| args.clone().call()).and_then(Output::into_tensor);
    let drawn = (0..count.max(1)).map(|_| draw()).collect::<Result<Vec<_>>>()?;
    let mut sizes: Ints = levels.iter().map(|level| level.size as i64).collect();
    sizes.extend(drawn[0].sizes().iter().map(|&size| size as i64));
    let primitives = primitives()?;
    let whole = primitives.stack.tensor([drawn.into(), 0i64.into()])?;
    let whole = primitives.narrow.tensor([whole.into(), 0i64.into(), 0i64.into(), (count as i64).into()])?;
    let whole = primitives.reshape.tensor([whole.into(), sizes.into()])?;
    Ok(Output::Tensor(logical_at(&whole, levels.iter().map(|level| level.number))))
}

fn changed(args: &Args, levels: &[Level], target: Target) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    if levels.iter().any(|level| level.randomness == Randomness::Different && input.batch_dim(level.number).is_none()) {
        return Err(Error::runtime(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If this is necessary for your usage, please file an issue with functorch.",
        ));
    }
    let (different, same): (Vec<Level>, Vec<Level>) =
        levels.iter().copied().partition(|level| level.randomness == Randomness::Different);
    let change = node::InPlaceCall::begin(args)?;
    {
        let _off = GradMode::new(false);
        // Probabilities broadcast to the tensor.
        let physical = |tensor: &Tensor| aligned_to(&all_physical(tensor, &different), different.len(), input.rank());
        let mut whole = args.replaced(|tensor| Ok(physical(tensor)))?;
        if same.is_empty() {
            outside(|| whole.call_into(target))?;
        } else {
            // Drawn for one sample, and copied to all.
            let made = crate::copy::clone(&one_of(&physical(input), &same))?;
            whole.set(Arg::FIRST, Value::Own(made.clone()));
            outside(|| whole.call_into(target))?;
            crate::copy::copy(&physical(input), &made)?;
        }
    }
    change.finish().map(|_| Output::Tensor(input.clone()))
}

/// Inserts dimensions of size one between the batch dimension and a tensor's own, up to `rank`.
fn aligned_to(physical: &Tensor, samples: usize, rank: usize) -> Tensor {
    let mut layout = physical.layout().clone();
    while layout.rank() < samples + rank {
        layout = layout.unsqueeze(samples);
    }
    Tensor::with_meta(physical.meta_with(layout))
}
