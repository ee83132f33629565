//! In-place forms and `out=` of operators that are no elementwise loops: a new result is copied, unless the kernel can
//! fill `out=` directly.

use crate::call::devices::select_kernel;
use crate::interpreter::replace_meta;
use crate::value::{Arg, Output, Target, Value};
use rushlight_autograd::Tensor;
use rushlight_autograd::modes::{self, GradMode};
use rushlight_core::broadcast::broadcast;
use rushlight_core::{Error, Layout, Result};

use super::kernels::fill;
use super::resolve_conj::resolve_all;
use crate::operator::{Accepts, Args, Implementation, Kernel, TensorSpec};
use crate::out::settle_history;
use crate::overlap::{Overlap, overlap};
use crate::primitives::primitives;
use crate::variants::{check_in_place, check_no_gradient, check_out, check_writable, fit_in_place};
use crate::{autocast, copy, node, subgraph};

/// The kernel that fills `out` itself, if the operator has one. An argument in exactly that memory must be read before.
fn direct_kernel(args: &Args, out: &Tensor) -> Option<&'static Kernel> {
    let apart = |tensor: &Tensor| overlap(out, tensor) != Overlap::Same;
    match &args.op.implementation {
        Implementation::Kernel(kernel) if args.op.out.direct && !out.is_lazy_conj() && args.all_tensors(apart) => {
            Some(kernel)
        }
        _ => None,
    }
}

/// Whether a call leaves the dtype of its result open.
fn asks_no_dtype(args: &Args) -> bool {
    args.op.schema().arg("dtype").is_some_and(|dtype| args.dtype(dtype).is_none())
}

/// Compares the dtypes of `out=` with those of a kernel's results before it runs, where they are those of no operand. The
/// kernel may refuse values, and torch refuses the dtype first.
fn check_inferred(args: &Args, outs: &[Tensor]) -> Result<()> {
    let Implementation::Kernel(kernel) = &args.op.implementation else { return Ok(()) };
    if outs.iter().all(|out| !args.all_tensors(|tensor| tensor.dtype() != out.dtype())) {
        return Ok(());
    }
    for (place, (spec, out)) in (kernel.infer)(args)?.iter().zip(outs).enumerate() {
        args.op.out.check(args, place, spec.dtype, out.dtype())?;
    }
    Ok(())
}

/// In-place forms and `out=` of operators that cannot write directly: a new result is copied.
pub fn through_copy(args: &Args, target: Target) -> Result<Output> {
    // Mixed precision does not apply to such calls: the result has the target's dtype.
    let _off = autocast::disable();
    match target {
        Target::Fresh => Err(Error::runtime(format!("{} has no way to run", args.op.name))),
        Target::InPlace => in_place(args),
        Target::Out([out]) if let Some(kernel) = direct_kernel(args, out) => directly(args, kernel, out),
        Target::Out(outs) => into_outs(args, outs),
    }
}

fn in_place(args: &Args) -> Result<Output> {
    let (op, input) = (args.op, args.tensor(Arg::FIRST)?);
    check_writable(input)?;
    if let Some(check) = op.check_target {
        check(args)?;
    }
    op.out.check_known(args, input.dtype())?;
    if let Implementation::CompositeImplicit(body) = op.implementation {
        return composed_in_place(body, args);
    }
    let change = node::InPlaceCall::begin(args)?;
    let result = {
        let _off = GradMode::new(false);
        let own_dtype = matches!(op.out.accepts, Accepts::Requested) && asks_no_dtype(args);
        let args = if own_dtype { op.out.towards(args, input)? } else { args.clone() };
        resolve_all(args)?.call()?.into_tensor()?
    };
    check_in_place(op, input, &result.layout().sizes, result.dtype())?;
    copy::copy(input, &result)?;
    change.finish()
}

/// The in-place form of an operator that is composed of others.
fn composed_in_place(body: fn(&Args) -> Result<Output>, args: &Args) -> Result<Output> {
    let (op, input) = (args.op, args.tensor(Arg::FIRST)?);
    // Tensors that the parts save must not be overwritten.
    let recorded = modes::recording() && args.each_tensor().any(|(_, tensor)| tensor.is_tracked());
    if recorded && !op.node.is_empty() {
        return subgraph::compose_in_place(body, args);
    }
    let mut args = args.clone();
    if recorded {
        args.set(Arg::FIRST, Value::Own(primitives()?.clone.tensor([input.into()])?));
    }
    let result = body(&args)?.into_tensor()?;
    fit_in_place(op, input, result.sizes())?;
    check_in_place(op, input, &result.layout().sizes, result.dtype())?;
    (primitives()?.copy_)(input, &result)?;
    Ok(Output::Tensor(input.clone()))
}

/// `out=` filled by the kernel itself.
fn directly(args: &Args, kernel: &Kernel, out: &Tensor) -> Result<Output> {
    let op = args.op;
    let args = op.out.towards(args, out)?;
    check_no_gradient(&args, out)?;
    op.out.check_sizes(&args)?;
    for mut spec in (kernel.infer)(&args)? {
        if op.out.spanning {
            spec.layout = Layout::contiguous(&broadcast(&spec.layout.sizes, out.sizes())?);
        }
        check_out(&args, 0, out, &spec)?;
    }
    fill(select_kernel(op, out.device(), kernel.cpu, kernel.cuda)?, &args, std::slice::from_ref(out))?;
    out.bump_version();
    settle_history(&args, out)?;
    Ok(Output::Tensor(out.clone()))
}

/// `out=`, to which new results are copied.
fn into_outs(args: &Args, outs: &[Tensor]) -> Result<Output> {
    let op = args.op;
    let results = match outs {
        [] => Vec::new(),
        [first, ..] => {
            check_no_gradient(args, first)?;
            op.out.check_known(args, first.dtype())?;
            let args = op.out.towards(args, first)?;
            op.out.check_sizes(&args)?;
            check_inferred(&args, outs)?;
            args.call()?.into_tensors()
        }
    };
    if results.len() != outs.len() {
        return Err(Error::runtime(format!(
            "{}() expected an out= argument of size {}, got size {}",
            op.python_name(),
            results.len(),
            outs.len()
        )));
    }
    for (place, (out, result)) in outs.iter().zip(&results).enumerate() {
        let whole = op.out.filled && out.numel() == result.numel();
        let result = &if whole { Tensor::view_of(result, Layout::contiguous(out.sizes())) } else { result.clone() };
        if out.is_sparse() && result.is_sparse() && op.schema().options.is_some() {
            if !op.out.only_resizes || out.sizes() != result.sizes() || out.compressed_parts().is_none() {
                replace_meta(out, result.meta().clone());
            }
            out.bump_version();
            continue;
        }
        check_out(args, place, out, &TensorSpec::like(result))?;
        if !op.out.only_resizes {
            copy::copy(out, result)?;
            out.bump_version();
        }
        settle_history(args, out)?;
    }
    Ok(match outs {
        [one] => Output::Tensor(one.clone()),
        many => Output::Tuple(many.to_vec()),
    })
}
