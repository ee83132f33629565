//! Calls that a handler of `__torch_dispatch__` handles: which part of them, and how their results are recorded.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};

use super::checks::checked;
use crate::autocast;
use crate::handled::{below_autograd, detach, handler_of, handling_parts, supplier_of, view_of};
use crate::interceptors::Rest;
use crate::node::{self, InPlaceCall};
use crate::operator::{Args, Derivative, Implementation};
use crate::signature::Returns;
use crate::value::{Arg, Output, Target, Value};
use crate::variants::check_no_gradient;

/// Has a handler make the results of a call, or of the operators that it is composed of.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    if matches!(args.op.implementation, Implementation::Delegate(_)) {
        return rest.call(args, target);
    }
    let is_composite = matches!(args.op.implementation, Implementation::CompositeImplicit(_));
    if let Some(supplier) = supplier_of(&args) {
        let derives = is_composite && matches!(args.op.derivative, Derivative::CompositeImplicit);
        let is_decomposed = derives && node::is_tracked(&args) && !matches!(target, Target::Out(_));
        if is_decomposed || autocast::changes(&args)? {
            drop(supplier);
            return handling_parts(|| rest.call(args, target));
        }
        return supplied(args, target, supplier);
    }
    let in_place = matches!(target, Target::InPlace);
    let handler = if is_composite || matches!(target, Target::Out(_)) { None } else { handler_of(&args) };
    let Some(handler) = handler else { return rest.call(args, target) };
    let given = args.clone();
    supplied(args, target, || handler.call(&given, in_place))
}

/// Records a call with the results of its handler.
fn supplied(args: Args, target: Target, supplier: impl FnOnce() -> Result<Vec<Tensor>>) -> Result<Output> {
    let supply = || below_autograd(supplier);
    let fills = matches!(args.op.implementation, Implementation::InPlaceFill(_));
    match checked(&args, target)? {
        Target::Out(outs) => {
            if let Some(first) = outs.first() {
                check_no_gradient(&args, first)?;
            }
            supply()?;
            Ok(args.op.gather(outs.iter().cloned().collect()))
        }
        Target::InPlace if matches!(args.op.implementation, Implementation::View(_)) => {
            let change = InPlaceCall::begin_geometry(&args)?;
            supply()?;
            match change {
                Some(change) => change.finish(),
                None => Ok(Output::Tensor(args.tensor(Arg::FIRST)?.clone())),
            }
        }
        Target::InPlace => change(&args, supply),
        Target::Fresh if fills => change(&args, supply),
        Target::Fresh => {
            let results = supply()?;
            if results.is_empty() && args.op.schema().returns != Returns::List {
                return Ok(Output::Nothing);
            }
            check_count(&args, &results)?;
            check_dtype(&args, &results)?;
            let results = results.into_iter().map(|result| recordable(&args, result)).collect::<Result<_>>()?;
            node::record(&args, args.op.gather(results))
        }
    }
}

fn change(args: &Args, supply: impl FnOnce() -> Result<Vec<Tensor>>) -> Result<Output> {
    let change = InPlaceCall::begin(args)?;
    supply()?;
    change.finish()
}

/// Returns an error unless there are as many results as the operator has.
fn check_count(args: &Args, results: &[Tensor]) -> Result<()> {
    let expected = match args.op.schema().returns {
        Returns::Named(names) => names.len(),
        Returns::List => return Ok(()),
        _ => results.len().max(1),
    };
    if results.len() == expected {
        return Ok(());
    }
    let name = args.op.python_name();
    let message = format!("the handler of {name} returned {} results, and the operator has {expected}", results.len());
    Err(Error::runtime(message).hint("Return as many tensors as the operator returns."))
}

/// Returns torch's error for a recorded call whose (first) result has a dtype without gradients, unless the call asks for it.
fn check_dtype(args: &Args, results: &[Tensor]) -> Result<()> {
    let Some(dtype) = results.first().map(Tensor::dtype).filter(|dtype| !dtype.is_differentiable()) else {
        return Ok(());
    };
    let asked = args.values.iter().any(|value| matches!(value, Value::DType(asked) if !asked.is_differentiable()));
    if asked || !matches!(args.op.derivative, Derivative::Formulas(_)) || !node::is_tracked(args) {
        return Ok(());
    }
    Err(Error::runtime(format!("Autograd not support dtype: {}", dtype.display_name())).hint(format!(
        "The handler of {} returned it. Return a tensor of floating point or complex numbers.",
        args.op.python_name()
    )))
}

/// A result that may be recorded: not an operand itself, and a view of the operand whose memory it shares.
fn recordable(args: &Args, result: Tensor) -> Result<Tensor> {
    if let Some(view) = args.each_tensor().find_map(|(_, operand)| view_of(operand, &result)) {
        return Ok(view);
    }
    let is_operand = !args.all_tensors(|one| !one.ptr_eq(&result));
    if !node::is_tracked(args) {
        return Ok(result);
    }
    let is_view = matches!(
        args.op.implementation,
        Implementation::View(_) | Implementation::MultiView(_) | Implementation::ViewDtype(_)
    );
    if is_view && result.is_wrapper() {
        result.mark_opaque_view();
    }
    if is_operand || !result.is_leaf() { detach(&result) } else { Ok(result) }
}
