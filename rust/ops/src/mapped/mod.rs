//! Mapped tensors: one call of `vmap` runs the whole batch.
//!
//! A mapped tensor looks like one sample (`Form::Mapped`), so that shapes, dimensions, views and bodies of other rows need
//! to know nothing. A row that reads elements gets, one hidden dimension after the other, tensors in which the samples
//! stand along a first dimension, and its results hide it again: how, its `Row::mapped` says. The call is recorded as it was
//! made, so that autograd stands above the mapping, and derivatives run on mapped tensors through the same door.

pub mod each;
mod errors;
pub mod levels;
pub mod random;
pub mod rows;
mod rules;

use rushlight_autograd::modes::GradMode;
use rushlight_autograd::{Axis, Tensor};
use rushlight_core::{Error, Layout, Result};

use crate::call::{Target, allocate, call_into};
use crate::derive::{Derivative, Facts};
use crate::node;
use crate::op;
use crate::pointwise::arith::MUL;
use crate::reduce::sum::SUM_DIM;
use crate::row::{Row, Run, Spec};
use crate::value::{Args, Output, Value};

pub use errors::{no_choice, no_elements, no_item, no_memory, no_one_shape, no_room};
pub use rows::{HIDE, SHOW, hide, show};
pub use rules::{aligned, joined, parted, spread};

/// What a row makes of mapped operands.
#[derive(Clone, Copy)]
pub enum Mapped {
    /// What its kind does: views and bodies of other rows hand them on, loops over elements align them, others run once for
    /// each sample.
    ByKind,
    /// It runs once for each sample, whatever its kind.
    Each,
    /// The same where an argument at one of these places is mapped, whose values the body reads.
    EachIf(&'static [usize]),
    /// It broadcasts its tensors, and treats each element of the result alone.
    Aligned,
    /// Its tensors take any leading dimensions, all the same.
    Batch,
    /// The first dimension of all its tensors, and of its results, is one of items that it treats each alone: samples are more
    /// of them.
    Items,
    /// It works along the dimensions that the argument at this place names; its tensors have the same number of them.
    Along(usize),
    /// The same; without such an argument over all of them.
    Over(usize),
    /// It takes all dimensions away; this row does so along given ones.
    Whole(&'static Row),
    /// Another row, for the same arguments.
    Instead(&'static Row),
    /// Its result follows from the shape alone.
    Shape,
    /// The number of its results depends on values: it refuses, in these words.
    Refused(fn(&Row) -> Error),
    /// A rule of its own, which gets the call on samples: `batch.tensor(i)` shows all of them along a first dimension, which
    /// the results must have. Nothing where the rule does not know the case, which then runs for each sample.
    Rule(fn(&Batch) -> Result<Option<Output>>),
}

/// A call of which one hidden dimension is shown.
pub struct Batch<'a, 'v> {
    /// The call as it was made, on samples.
    pub args: &'a Args<'v>,
    pub level: i64,
    pub size: isize,
}

impl Batch<'_, '_> {
    /// Whether the tensor at a place differs from sample to sample; one that is mapped need not.
    pub fn differs_at(&self, place: usize) -> bool {
        self.args.optional_tensor(place).is_some_and(|tensor| self.differs(tensor))
    }

    pub fn differs(&self, tensor: &Tensor) -> bool {
        tensor.axis(self.level).is_some_and(|axis| axis.stride != 0 || axis.size == 0)
    }

    /// The tensor with the samples along a first dimension.
    pub fn shown(&self, tensor: &Tensor) -> Tensor {
        shown(tensor, self.level, self.size)
    }

    /// The tensor at a place with the samples along a first dimension.
    pub fn tensor(&self, place: usize) -> Result<Tensor> {
        Ok(self.shown(self.args.tensor(place)?))
    }

    /// The samples' numbers, to be used as an index beside others of so many dimensions.
    pub fn numbers(&self, rank: usize) -> Result<Tensor> {
        let mut sizes = vec![1; rank + 1];
        sizes[0] = self.size;
        let numbers: Vec<i64> = (0..self.size as i64).collect();
        op!(crate::view::RESHAPE, crate::from_slice(&numbers)?, crate::view::reshape::sizes_value(&sizes))
    }

    /// One sample, where all are the same.
    pub fn one(&self, place: usize) -> Result<Tensor> {
        Ok(one_sample(self.args.tensor(place)?, self.level, self.size, 0))
    }
}

/// One sample of a tensor, which is the tensor itself where it is not mapped; without history.
fn one_sample(tensor: &Tensor, level: i64, size: isize, place: isize) -> Tensor {
    if tensor.axis(level).is_none() {
        return tensor.clone();
    }
    let shown = shown(tensor, level, size);
    let layout = shown.layout().select(0, place);
    Tensor::with_meta(shown.meta_with(layout))
}

/// The memory of a tensor with the samples along a first dimension; without history, and nobody counts its changes.
fn shown(tensor: &Tensor, level: i64, size: isize) -> Tensor {
    Tensor::with_meta(tensor.meta().show(0, level, size))
}

/// What `shown` undoes, for a fresh result.
fn hidden(tensor: &Tensor, level: i64) -> Tensor {
    Tensor::with_meta(tensor.meta().hide(0, level))
}

/// The innermost hidden dimension of a call.
fn innermost(args: &Args, target: &Target) -> Option<Axis> {
    let last = |tensor: &Tensor| tensor.axes().last().copied();
    let outs = match target {
        Target::Out(outs) => *outs,
        _ => &[],
    };
    args.each_tensor().map(|(_, tensor)| tensor).chain(outs).filter_map(last).max_by_key(|axis| axis.level)
}

/// Whether a tensor of the call is mapped, and its row reads elements.
#[cold]
pub fn concerns(args: &Args, target: &Target) -> bool {
    let mapped = !args.all_tensors(|tensor| !tensor.is_mapped())
        || matches!(target, Target::Out(outs) if outs.iter().any(Tensor::is_mapped));
    mapped && !hands_on(args, target)
}

/// How the row takes the call.
pub(crate) fn way(args: &Args) -> Mapped {
    match args.row.mapped {
        Mapped::EachIf(places) => {
            let reads = |(place, tensor): (usize, &Tensor)| places.contains(&place) && tensor.is_mapped();
            if args.each_tensor().any(reads) { Mapped::Each } else { Mapped::ByKind }
        }
        way => way,
    }
}

fn hands_on(args: &Args, target: &Target) -> bool {
    match (way(args), &args.row.run, target) {
        (_, _, Target::Out(_)) => false,
        (Mapped::ByKind, Run::View(_) | Run::Views(_) | Run::Retype(_), _) => true,
        (Mapped::ByKind, Run::Compose(_) | Run::Body(_) | Run::Defer(_), _) => true,
        // Made apart, and copied over.
        (_, Run::Kernel(_) | Run::Compose(_) | Run::Body(_), Target::InPlace) => true,
        _ => false,
    }
}

/// Makes a call that `concerns` is true of.
#[cold]
pub fn call(args: Args, target: Target) -> Result<Output> {
    let row = args.row;
    let Some(Axis { level, size, .. }) = innermost(&args, &target) else {
        return Err(Error::runtime("a call without mapped tensors came to the rules of mapping"));
    };
    match target {
        Target::Out(_) => Err(Error::runtime(format!(
            "Batching rule not implemented for aten::{}.out; the fallback path doesn't work on out= or view ops.",
            row.python_name()
        ))),
        Target::InPlace => in_place(&args, level, size),
        Target::Fresh if matches!(row.run, Run::Overwrite(_)) => in_place(&args, level, size),
        Target::Fresh => {
            if let Mapped::Instead(other) = row.mapped {
                return call_into(Args { row: other, values: args.values }, Target::Fresh);
            }
            if let (Mapped::Each, Derivative::Composed) = (way(&args), &row.derivative) {
                let output = each::recorded(&Batch { args: &args, level, size });
                return each_tensor(output?, |tensor| hide(&tensor, Some(0), level, size));
            }
            let output = {
                let _off = GradMode::new(false);
                fresh(&Batch { args: &args, level, size })?
            };
            node::record(&args, output)
        }
    }
}

/// The results of a call, hidden dimension and all; unrecorded.
fn fresh(batch: &Batch) -> Result<Output> {
    // What is wrong with a sample is said in its own shapes.
    let specs = match (&batch.args.row.run, way(batch.args)) {
        (_, Mapped::Each | Mapped::ByKind | Mapped::Refused(_)) => Vec::new(),
        (Run::Kernel(kernel), _) => (kernel.infer)(batch.args)?,
        (Run::Update(update), _) => (update.check)(batch.args).map(|()| Vec::new())?,
        _ => Vec::new(),
    };
    let output = match rules::apply(batch)? {
        Some(output) => output,
        None => each::fresh(batch)?,
    };
    let mut specs = specs.iter();
    each_tensor(output, |tensor| {
        // What a row leaves out it leaves empty, and takes no samples for it.
        let left_out = specs.next().is_some_and(|spec| spec.layout.rank() == tensor.rank() && tensor.numel() == 0);
        Ok(hidden(&if left_out { shown(&tensor, batch.level, batch.size) } else { tensor }, batch.level))
    })
}

/// Results with each tensor replaced.
pub fn each_tensor(output: Output, mut with: impl FnMut(Tensor) -> Result<Tensor>) -> Result<Output> {
    Ok(match output {
        Output::Tensor(tensor) => Output::Tensor(with(tensor)?),
        Output::Tuple(list) => Output::Tuple(list.into_iter().map(&mut with).collect::<Result<_>>()?),
        Output::List(list) => Output::List(list.into_iter().map(with).collect::<Result<_>>()?),
        other => other,
    })
}

/// A change in place of the whole batch.
fn in_place(args: &Args, level: i64, size: isize) -> Result<Output> {
    let own = args.tensor(0)?;
    check_target(args)?;
    let change = node::Change::begin(args)?;
    {
        let _off = GradMode::new(false);
        let batch = Batch { args, level, size };
        if !rules::in_place(&batch)? {
            each::in_place(&batch)?;
        }
    }
    change.finish().map(|_| Output::Tensor(own.clone()))
}

/// A target must have a place for every sample.
fn check_target(args: &Args) -> Result<()> {
    let own = args.tensor(0)?;
    let has_all = |tensor: &Tensor| tensor.axes().iter().all(|axis| own.axis(axis.level).is_some());
    if args.all_tensors(has_all) { Ok(()) } else { Err(no_room()) }
}

/// Elements of any value in a sample's geometry, with room for every sample that `like` stands for.
pub fn room(layout: &Layout, like: &Tensor) -> Result<Tensor> {
    let spec = Spec { layout: layout.clone(), dtype: like.dtype(), device: like.device() };
    if !like.is_mapped() {
        return allocate(&spec);
    }
    let mut stride = layout.span().map_or(0, |(_, high)| high + 1);
    let mut axes = like.axes().to_vec();
    for axis in axes.iter_mut().rev() {
        axis.stride = stride;
        stride *= axis.size;
    }
    let whole = allocate(&Spec { layout: Layout::contiguous(&[stride]), ..spec })?;
    Ok(Tensor::with_meta(whole.meta_with(layout.clone()).with_axes(axes)))
}

/// The tensor with every hidden dimension shown, the outermost first, and what they were.
pub fn all_shown(tensor: &Tensor) -> (Tensor, Vec<Axis>) {
    let axes = tensor.axes().to_vec();
    (shown_at(tensor, axes.iter().map(|axis| (axis.level, axis.size))), axes)
}

/// The tensor with the samples of some maps shown, which are given with their sizes, the outermost first.
fn shown_at(tensor: &Tensor, maps: impl DoubleEndedIterator<Item = (i64, isize)>) -> Tensor {
    Tensor::with_meta(maps.rev().fold(tensor.meta().clone(), |meta, (level, size)| meta.show(0, level, size)))
}

/// What `shown_at` undoes.
fn hidden_at(tensor: &Tensor, maps: impl Iterator<Item = i64>) -> Tensor {
    Tensor::with_meta(maps.fold(tensor.meta().clone(), |meta, level| meta.hide(0, level)))
}

/// All samples, for who asks whether something holds of every one.
pub fn samples(tensor: &Tensor) -> Tensor {
    all_shown(tensor).0
}

/// What `all_shown` undoes.
pub fn all_hidden(tensor: &Tensor, axes: &[Axis]) -> Tensor {
    hidden_at(tensor, axes.iter().map(|axis| axis.level))
}

/// Adds up the gradient of an argument over the hidden dimensions that the results had and the argument has not: it served all
/// samples, as what was broadcast does.
pub fn gathered(grad: Tensor, results: &[Facts], argument: &Facts) -> Result<Tensor> {
    let mut grad = grad;
    let mut done: Vec<i64> = Vec::new();
    for axis in results.iter().flat_map(Facts::axes) {
        if argument.axes().iter().any(|own| own.level == axis.level) || done.contains(&axis.level) {
            continue;
        }
        done.push(axis.level);
        grad = match grad.axis(axis.level) {
            Some(_) => op!(SUM_DIM, show(&grad, 0, axis.level, axis.size)?, &[0i64][..], false)?,
            None => op!(MUL, grad, Value::Scalar((axis.size as i64).into()))?,
        };
    }
    Ok(grad)
}
