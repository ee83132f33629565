//! Gradients of operators for whole networks without a kernel of their own: the steps run again and are recorded.

use rushlight_autograd::modes::{self, Recording};
use rushlight_autograd::{BatchDim, Tensor, engine};
use rushlight_core::Result;
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::{create, op, vmap};

use crate::view::narrow::ALIAS;

/// Whether `vmap` runs a call on all samples, for which operators compose it.
pub(super) fn is_batched(args: &Args) -> bool {
    !args.all_tensors(|tensor| !tensor.is_batched())
}

/// The gradients of all operands from those of the results that `steps` computes. Those of operands without influence are zeros.
pub(super) fn gradients(
    operands: &[Tensor],
    arriving: &[Option<Tensor>],
    steps: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let _recording = Recording::begin();
    let detached = operands.iter().map(Tensor::detach).collect();
    let leaves: Vec<Tensor> = with_all_levels(detached)?.iter().map(Tensor::detach).collect();
    leaves.iter().try_for_each(|leaf| leaf.set_requires_grad(true))?;
    let found = of_results(steps(&leaves)?, arriving, &leaves, engine::Options::default())?;
    let filled = |(found, leaf): (Option<Tensor>, &Tensor)| match found {
        Some(found) => Ok(found.detach()),
        None => create::zeros(leaf.sizes(), leaf.dtype(), leaf.device()),
    };
    found.into_iter().zip(&leaves).map(filled).collect()
}

/// The same in a derivative, which may itself be recorded. `None` for operands that need none.
pub(super) fn derived(
    operands: Vec<Tensor>,
    arriving: &[Option<Tensor>],
    steps: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Option<Tensor>>> {
    let is_recorded = modes::recording();
    let _recording = (!is_recorded).then(Recording::begin);
    // An operand may depend on another one; the gradient of an alias is only that of this call.
    let aliases = with_all_levels(operands)?.iter().map(|operand| op!(ALIAS, operand)).collect::<Result<Vec<_>>>()?;
    of_results(
        steps(&aliases)?,
        arriving,
        &aliases,
        engine::Options { retain_graph: is_recorded, create_graph: is_recorded },
    )
}

/// The tensors with the batch dimensions of all: an operand that the samples of a `vmap` share has a gradient for each of them.
fn with_all_levels(tensors: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let mut all: Vec<BatchDim> = tensors.iter().flat_map(|tensor| tensor.batch_dims()).copied().collect();
    all.sort_unstable_by_key(|batch_dim| batch_dim.level);
    all.dedup_by_key(|batch_dim| batch_dim.level);
    let spread = |tensor: Tensor| {
        let mut missing = all.iter().filter(|batch_dim| tensor.batch_dim(batch_dim.level).is_none());
        missing.try_fold(tensor.clone(), |whole, batch_dim| {
            vmap::add_batch_dim(&whole, None, batch_dim.level, batch_dim.size)
        })
    };
    tensors.into_iter().map(spread).collect()
}

/// The gradients of operands from those of results, which operators have recorded.
fn of_results(
    results: Vec<Tensor>,
    arriving: &[Option<Tensor>],
    operands: &[Tensor],
    options: engine::Options,
) -> Result<Vec<Option<Tensor>>> {
    let (mut outputs, mut grads) = (Vec::new(), Vec::new());
    for (result, grad) in results.into_iter().zip(arriving) {
        if grad.is_some() && result.gradient_edge()?.is_some() {
            outputs.push(result);
            grads.push(grad.clone());
        }
    }
    let (mut found, mut places) = (vec![None; operands.len()], Vec::new());
    for (at, operand) in operands.iter().enumerate() {
        if operand.gradient_edge()?.is_some() {
            places.push(at);
        }
    }
    let targets: Vec<Tensor> = places.iter().map(|&at| operands[at].clone()).collect();
    if !outputs.is_empty() && !targets.is_empty() {
        let gradients = engine::grad(&outputs, &targets, &grads, true, options)?;
        places.into_iter().zip(gradients).for_each(|(at, gradient)| found[at] = gradient);
    }
    Ok(found)
}
