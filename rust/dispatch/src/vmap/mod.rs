//! Batched tensors: one call under `vmap` runs the whole batch.
//!
//! A batched tensor has the shape of one sample (`Form::Batched`), so that shapes, dimensions, views and composite
//! operators need no changes. An operator that reads elements gets, for one batch dimension after the other, tensors
//! whose first dimension is the batch, and its results hide it again; `Operator::batch_rule` says how. The call is
//! recorded as it was made, so that autograd works above the batching, and derivatives run on batched tensors through
//! the same entry point.

mod batch_dims;
mod batch_rules;
mod batched_call;
mod errors;
mod fallback;
pub mod levels;
mod physical;
pub mod random;

use crate::value::{Arg, Output, Target};
use rushlight_autograd::modes::GradMode;
use rushlight_autograd::{BatchDim, Tensor};
use rushlight_core::{Error, Result};

pub use self::batch_dims::{add_batch_dim, gathered, remove_batch_dim};
pub use self::batch_rules::{broadcast_operands, merge_batch, split_batch, unsqueeze_to_rank};
use self::batched_call::effective_rule;
pub use self::batched_call::{RuleResult, one_result};
pub use self::errors::{
    control_flow_error, data_error, dynamic_shape_error, escaped_error, in_place_error, item_error, storage_error,
};
pub use self::fallback::fallbacks;
pub use self::physical::{all_logical, all_physical, empty, samples};
use self::physical::{logical, physical};
use crate::interceptors::Rest;
use crate::node;
use crate::operator::{Args, BatchRule, BatchedCall, Derivative, Implementation};

/// The innermost batch dimension of a call.
fn innermost(args: &Args, target: &Target) -> Option<BatchDim> {
    let last = |tensor: &Tensor| tensor.batch_dims().last().copied();
    let outs = match target {
        Target::Out(outs) => *outs,
        _ => &[],
    };
    args.each_tensor().map(|(_, tensor)| tensor).chain(outs).filter_map(last).max_by_key(|batch_dim| batch_dim.level)
}

/// Makes a call with batched tensors, unless the operator never reads their elements.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let (op, in_place) = (args.op, matches!(target, Target::InPlace));
    check_open(&args).map_err(|error| error.operator(op.display_name(in_place)))?;
    if passes_through(&args, &target) {
        return rest.call(args, target);
    }
    call(args, target).map_err(|error| error.operator(op.display_name(in_place)))
}

/// Returns an error for a tensor whose `vmap` has ended. Derivatives are computed after it with what it saved.
fn check_open(args: &Args) -> Result<()> {
    let is_open = |tensor: &Tensor| tensor.batch_dims().iter().all(|batch_dim| levels::is_open(batch_dim.level));
    if args.all_tensors(is_open) || rushlight_autograd::engine::in_backward() { Ok(()) } else { Err(escaped_error()) }
}

fn passes_through(args: &Args, target: &Target) -> bool {
    match (effective_rule(args), &args.op.implementation, target) {
        (_, _, Target::Out(_)) => false,
        (
            BatchRule::Default,
            Implementation::View(_)
            | Implementation::MultiView(_)
            | Implementation::ViewDtype(_)
            | Implementation::CompositeImplicit(_)
            | Implementation::ExplicitAutograd(_)
            | Implementation::Delegate(_),
            _,
        ) => true,
        // Computed separately, and copied.
        (
            _,
            Implementation::Kernel(_) | Implementation::CompositeImplicit(_) | Implementation::ExplicitAutograd(_),
            Target::InPlace,
        ) => true,
        _ => false,
    }
}

fn call(args: Args, target: Target) -> Result<Output> {
    let op = args.op;
    let Some(BatchDim { level, size, .. }) = innermost(&args, &target) else {
        return Err(Error::runtime("no batched tensor among the arguments"));
    };
    match target {
        Target::Out(_) => Err(Error::runtime(format!(
            "Batching rule not implemented for aten::{}.out; the fallback path doesn't work on out= or view ops.",
            op.python_name()
        ))),
        Target::InPlace => in_place(&args, level, size),
        Target::Fresh if matches!(op.implementation, Implementation::InPlaceFill(_)) => in_place(&args, level, size),
        Target::Fresh => {
            if let BatchRule::Substitute(other) = op.batch_rule {
                return Args { op: other, values: args.values }.call();
            }
            if let (BatchRule::Fallback, Derivative::CompositeImplicit) = (effective_rule(&args), &op.derivative) {
                let output = fallback::recorded(&BatchedCall { args: &args, level, size });
                return output?.map(|tensor| add_batch_dim(&tensor, Some(0), level, size));
            }
            let output = {
                let _off = GradMode::new(false);
                fresh(&BatchedCall { args: &args, level, size })?
            };
            node::record(&args, output)
        }
    }
}

/// The results of a call, with the batch dimension; not recorded.
fn fresh(batch: &BatchedCall) -> Result<Output> {
    // Errors are raised for a sample's own shapes.
    let specs = match (&batch.args.op.implementation, effective_rule(batch.args)) {
        (_, BatchRule::Fallback | BatchRule::Default | BatchRule::Unsupported(_)) => Vec::new(),
        (Implementation::Kernel(kernel), _) => (kernel.infer)(batch.args)?,
        (Implementation::Update(update), _) => (update.check)(batch.args).map(|()| Vec::new())?,
        _ => Vec::new(),
    };
    let output = match batch_rules::apply(batch)? {
        Some(output) => output,
        None => fallback::fresh(batch)?,
    };
    let mut specs = specs.iter();
    output.map(|tensor| {
        // An omitted result is empty and has no batch dimension.
        let left_out = specs.next().is_some_and(|spec| spec.layout.rank() == tensor.rank() && tensor.numel() == 0);
        Ok(logical(&if left_out { physical(&tensor, batch.level, batch.size) } else { tensor }, batch.level))
    })
}

/// An in-place change of the whole batch.
fn in_place(args: &Args, level: i64, size: isize) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    check_target(args)?;
    let change = node::InPlaceCall::begin(args)?;
    {
        let _off = GradMode::new(false);
        let batch = BatchedCall { args, level, size };
        if !batch_rules::in_place(&batch)? {
            fallback::in_place(&batch)?;
        }
    }
    change.finish().map(|_| Output::Tensor(input.clone()))
}

/// Checks that a target has room for every sample.
fn check_target(args: &Args) -> Result<()> {
    let input = args.tensor(Arg::FIRST)?;
    let has_all =
        |tensor: &Tensor| tensor.batch_dims().iter().all(|batch_dim| input.batch_dim(batch_dim.level).is_some());
    if args.all_tensors(has_all) { Ok(()) } else { Err(in_place_error()) }
}
