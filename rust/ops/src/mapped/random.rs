//! Random rows inside a map: an error, other numbers for each sample, or the same for all.
//!
//! Other numbers are those that one call for the whole batch draws, the outermost map's samples one after the other, as in
//! torch.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::GradMode;
use rushlight_core::{Error, Result};

use super::each::replaced;
use super::levels::{Level, Randomness, current, outside};
use super::{Mapped, hidden_at, one_sample, shown_at};
use crate::call::{Target, call_into};
use crate::node;
use crate::row::Run;
use crate::signature::Kind;
use crate::value::{Args, Ints, Output, Value};

/// Makes a random call inside maps.
#[cold]
pub fn call(args: Args, target: Target) -> Result<Output> {
    let levels = current();
    if levels.iter().any(|level| level.randomness == Randomness::Error) {
        return Err(Error::runtime(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap",
        ));
    }
    let mapped = |level: &Level| !args.all_tensors(|tensor| tensor.axis(level.number).is_none());
    let shown: Vec<Level> =
        levels.iter().copied().filter(|level| level.randomness == Randomness::Different || mapped(level)).collect();
    if shown.is_empty() {
        return outside(|| call_into(args, target));
    }
    if matches!(target, Target::Out(_)) {
        return Err(super::no_room());
    }
    let in_place = matches!(target, Target::InPlace) || matches!(args.row.run, Run::Overwrite(_));
    if in_place { changed(&args, &shown, target) } else { fresh(&args, &shown) }
}

/// The tensor with these hidden dimensions shown, the outermost first.
fn all_shown(tensor: &Tensor, levels: &[Level]) -> Tensor {
    shown_at(tensor, levels.iter().map(|level| (level.number, level.size)))
}

/// One sample of what is mapped at a level where all draw the same.
fn one_of(tensor: &Tensor, levels: &[Level]) -> Tensor {
    levels.iter().fold(tensor.clone(), |tensor, level| one_sample(&tensor, level.number, level.size, 0))
}

fn fresh(args: &Args, levels: &[Level]) -> Result<Output> {
    let (different, same): (Vec<Level>, Vec<Level>) =
        levels.iter().copied().partition(|level| level.randomness == Randomness::Different);
    if !same.is_empty() {
        if !matches!(args.row.mapped, Mapped::Shape) {
            return Err(Error::runtime(
                "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch",
            ));
        }
        return fresh(&replaced(args, |tensor| Ok(one_of(tensor, &same)))?, &different);
    }
    let schema = args.row.schema();
    let size = schema.params.iter().position(|param| param.name == "size" && param.kind == Kind::Ints);
    if size.is_none() && args.each_tensor().next().is_none() {
        return each(args, levels);
    }
    let rank = args.each_tensor().map(|(_, tensor)| tensor.rank()).max().unwrap_or(0);
    let mut whole = replaced(args, |tensor| Ok(aligned_to(&all_shown(tensor, levels), levels.len(), rank)))?;
    if let Some(place) = size {
        let sizes: Ints =
            levels.iter().map(|level| level.size as i64).chain(args.ints(place)?.iter().copied()).collect();
        whole.values[place] = Value::Ints(sizes);
    }
    let output = {
        let _off = GradMode::new(false);
        outside(|| call_into(whole, Target::Fresh))?
    };
    node::record(
        args,
        super::each_tensor(output, |tensor| Ok(hidden_at(&tensor, levels.iter().map(|level| level.number))))?,
    )
}

/// A row that says nothing of sizes draws again and again.
fn each(args: &Args, levels: &[Level]) -> Result<Output> {
    let count: isize = levels.iter().map(|level| level.size).product();
    let draw = || outside(|| call_into(args.clone(), Target::Fresh)).and_then(Output::into_tensor);
    let drawn = (0..count.max(1)).map(|_| draw()).collect::<Result<Vec<_>>>()?;
    let mut sizes: Ints = levels.iter().map(|level| level.size as i64).collect();
    sizes.extend(drawn[0].sizes().iter().map(|&size| size as i64));
    let whole = crate::op!(crate::join::cat::STACK, drawn, 0i64)?;
    let whole = crate::op!(crate::view::narrow::NARROW, whole, 0i64, 0i64, count as i64)?;
    let whole = crate::op!(crate::view::RESHAPE, whole, sizes)?;
    Ok(Output::Tensor(hidden_at(&whole, levels.iter().map(|level| level.number))))
}

fn changed(args: &Args, levels: &[Level], target: Target) -> Result<Output> {
    let own = args.tensor(0)?;
    if levels.iter().any(|level| level.randomness == Randomness::Different && own.axis(level.number).is_none()) {
        return Err(Error::runtime(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If this is necessary for your usage, please file an issue with functorch.",
        ));
    }
    let (different, same): (Vec<Level>, Vec<Level>) =
        levels.iter().copied().partition(|level| level.randomness == Randomness::Different);
    let change = node::Change::begin(args)?;
    {
        let _off = GradMode::new(false);
        // Chances broadcast to the tensor.
        let shown = |tensor: &Tensor| aligned_to(&all_shown(tensor, &different), different.len(), own.rank());
        let mut whole = replaced(args, |tensor| Ok(shown(tensor)))?;
        if same.is_empty() {
            outside(|| call_into(whole, target))?;
        } else {
            // Drawn for one sample, and copied to all.
            let made = crate::copy::clone(&one_of(&shown(own), &same))?;
            whole.values[0] = Value::Own(made.clone());
            outside(|| call_into(whole, target))?;
            crate::copy::copy(&shown(own), &made)?;
        }
    }
    change.finish().map(|_| Output::Tensor(own.clone()))
}

/// Ones between the samples and a tensor's own dimensions, of which there will be `rank`.
fn aligned_to(shown: &Tensor, samples: usize, rank: usize) -> Tensor {
    let mut layout = shown.layout().clone();
    while layout.rank() < samples + rank {
        layout = layout.unsqueeze(samples);
    }
    Tensor::with_meta(shown.meta_with(layout))
}
