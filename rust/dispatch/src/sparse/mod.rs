//! How a call handles sparse operands.
//!
//! An operator declares its support of sparse operands in `Operator::sparse`; for all others a call raises an error before
//! it uses their geometry. Operations on the parts of a sparse tensor are in the crate of the operators
//! (`Primitives::sparse`).

mod errors;

use crate::value::{Arg, Output, Target};
use rushlight_autograd::modes::GradMode;
use rushlight_autograd::{CompressedParts, SparseParts, Tensor};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};

use self::errors::{no_compressed_result, refused_factory, unsupported_operator, unsupported_out};
pub use self::errors::{no_memory, unsupported};
use crate::call::devices::check_devices;
use crate::call::errors::named_in_place;
use crate::call::through_copy::through_copy;
use crate::call::two_devices::apart;
use crate::copy::copy;
use crate::interceptors::Rest;
use crate::interpreter;
use crate::node;
use crate::operator::{Args, Implementation, Operator, Sparse, TensorSpec};
use crate::out::settle_history;
use crate::primitives::{SparseBody, primitives};
use crate::unsupported::out_overload;
use crate::variants::{check_cast, check_in_place, check_no_gradient, check_out, check_writable, fit_in_place};

/// Makes a call with sparse tensors, unless its operator runs as it is.
#[cold]
pub fn intercept(args: Args, target: Target, rest: Rest) -> Result<Output> {
    let (op, in_place) = (args.op, matches!(target, Target::InPlace));
    if let Target::Out([out]) = target
        && out.is_sparse()
        && op.schema().options.is_some()
    {
        let written = into_factory_out(&args, out).map_err(|error| error.operator(op.display_name(false)))?;
        if let Some(output) = written {
            return Ok(output);
        }
    }
    if passes_through(op) {
        return rest.call(args, target);
    }
    call(args, target).map_err(|error| error.operator(op.display_name(in_place)))
}

/// Writes the result of a factory to a sparse `out=`. None for those that make a tensor in its layout, whose parts it takes.
fn into_factory_out(args: &Args, out: &Tensor) -> Result<Option<Output>> {
    let into_compressed = primitives()?.sparse.into_compressed;
    if out.compressed_parts().is_some() {
        check_no_gradient(args, out)?;
        let args = args.op.out.towards(args, out)?;
        if let Some(written) = into_compressed(&args, out) {
            written?;
            settle_history(&args, out)?;
            return Ok(Some(Output::Tensor(out.clone())));
        }
    }
    refused_factory(args, out).map_or(Ok(None), Err)
}

fn passes_through(op: &Operator) -> bool {
    match op.sparse {
        Sparse::Supported => true,
        // Its parts refuse.
        Sparse::Unsupported => {
            matches!(op.implementation, Implementation::CompositeImplicit(_) | Implementation::Delegate(_))
        }
        _ => false,
    }
}

fn call(args: Args, target: Target) -> Result<Output> {
    let op = args.op;
    check_devices(&args)?;
    let target = if matches!(op.implementation, Implementation::InPlaceFill(_)) { Target::InPlace } else { target };
    match (op.sparse, target) {
        (Sparse::Unsupported, Target::Out([out])) => Err(unsupported_out(&args, out)),
        (Sparse::Unsupported, _) => Err(unsupported_operator(&args)),
        (_, Target::Out([out])) if out_overload(op.name).is_some() => Err(unsupported_out(&args, out)),
        (Sparse::CompositeImplicit, Target::Fresh) => body(&args)?(&args),
        (_, Target::Fresh) => {
            let output = fresh(&args)?;
            node::record(&args, output)
        }
        (Sparse::Add(sign), Target::InPlace) if !args.tensor(Arg::FIRST)?.is_sparse() => {
            if op.python_name() == "sub" && has_compressed(&args) {
                return Err(unsupported_operator(&args));
            }
            (primitives()?.sparse.add_into_dense)(&args, sign)
        }
        (Sparse::CompositeImplicit, Target::InPlace) if !args.tensor(Arg::FIRST)?.is_sparse() => into_dense(&args),
        (_, Target::InPlace) => in_place(&args),
        (_, Target::Out([out])) if is_product(op) && has_compressed(&args) && !out.is_sparse() => {
            Err(no_compressed_result())
        }
        (_, Target::Out([out])) if out.is_sparse() || args.all_tensors(Tensor::is_sparse) => written(&args, out),
        (_, target) => through_copy(&args, target),
    }
}

fn is_product(op: &Operator) -> bool {
    op.python_name() == "mul"
}

fn has_compressed(args: &Args) -> bool {
    args.each_tensor().any(|(_, tensor)| tensor.compressed_parts().is_some())
}

/// The listed body of an operator.
fn body(args: &Args) -> Result<SparseBody> {
    let found = primitives()?.sparse.bodies.iter().find(|(own, _)| std::ptr::eq(*own, args.op));
    found.map(|(_, body)| *body).ok_or_else(|| unsupported_operator(args))
}

/// All elements of a sparse tensor; any other tensor itself.
pub fn dense(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_sparse() { primitives()?.sparse.to_dense.tensor([tensor.into()]) } else { Ok(tensor.clone()) }
}

/// A sparse tensor without entries, in a named layout.
pub fn empty(layout: &str, sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    (primitives()?.sparse.empty)(layout, sizes, dtype, device)
}

fn fresh(args: &Args) -> Result<Output> {
    let _off = GradMode::new(false);
    match args.op.sparse {
        Sparse::Linear => (primitives()?.sparse.over_values)(args, false),
        Sparse::ZeroPreserving => (primitives()?.sparse.over_values)(args, true),
        Sparse::Add(sign) => (primitives()?.sparse.sum)(args, sign),
        Sparse::ExplicitAutograd | Sparse::CompositeImplicit => body(args)?(args),
        Sparse::Unsupported | Sparse::Supported => Err(unsupported_operator(args)),
    }
}

/// A dense tensor that is changed takes the elements of a dense result; the copy is recorded.
fn into_dense(args: &Args) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let result = body(args)?(args)?.into_tensor()?;
    if result.is_sparse() {
        return Err(cannot_write(args, input));
    }
    fit_in_place(args.op, input, result.sizes())?;
    check_in_place(args.op, input, &result.layout().sizes, result.dtype())?;
    (primitives()?.copy_)(input, &result)?;
    Ok(Output::Tensor(input.clone()))
}

/// A sparse `out=` takes the parts of a new result in the same layout, and a dense one the elements of a compressed result.
fn written(args: &Args, out: &Tensor) -> Result<Output> {
    check_no_gradient(args, out)?;
    check_writable(out)?;
    if matches!(args.op.sparse, Sparse::Linear | Sparse::ZeroPreserving)
        && !(out.is_sparse() && args.all_tensors(Tensor::is_sparse))
    {
        return Err(Error::runtime(
            "Expected self.is_sparse() && result.is_sparse() to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
        )
        .hint("out= must have the layout of the operand."));
    }
    let result = fresh(args)?.into_tensor()?;
    if out.is_sparse() {
        take_parts(args, out, &result)?;
    } else {
        let result = if result.compressed_parts().is_some() { dense(&result)? } else { result };
        if result.is_sparse() {
            return Err(cannot_write(args, out));
        }
        check_out(args, 0, out, &TensorSpec::like(&result))?;
        copy(out, &result)?;
    }
    out.bump_version();
    Ok(Output::Tensor(out.clone()))
}

/// A sparse tensor that is changed takes the parts of a new result, and a dense one all of its elements.
fn in_place(args: &Args) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    if !input.is_sparse() {
        if !matches!(args.op.sparse, Sparse::ExplicitAutograd) {
            return Err(unsupported_operator(args));
        }
        let result = fresh(args)?.into_tensor()?;
        if result.parts().is_none() {
            return Err(no_compressed_result());
        }
        fit_in_place(args.op, input, result.sizes())?;
        check_cast(result.dtype(), input.dtype())?;
        let change = node::InPlaceCall::begin(args)?;
        copy(input, &dense(&result)?)?;
        return change.finish();
    }
    let is_view = matches!(args.op.implementation, Implementation::View(_));
    if let Some(parts) = input.compressed_parts().filter(|_| is_view) {
        return Err(Error::runtime(format!(
            "torch.transpose_: in-place transposition is not supported for {} layout",
            parts.format.layout_name()
        )));
    }
    let change = node::InPlaceCall::begin(args)?;
    let result = fresh(args).map_err(|error| named_in_place(error, args.op))?.into_tensor()?;
    match is_view {
        true if result.rank() != input.rank() => return Err(unsupported("as_strided_", input)),
        true => interpreter::replace_meta(input, result.meta().clone()),
        false => take_parts(args, input, &result)?,
    }
    change.finish()
}

/// Gives a sparse tensor the parts of a result in its layout and size, in its dtype.
fn take_parts(args: &Args, input: &Tensor, result: &Tensor) -> Result<()> {
    if result.layout_name() != input.layout_name() {
        return Err(cannot_write(args, input));
    }
    if result.device() != input.device() {
        return Err(apart(input.device(), result.device()));
    }
    if result.sizes() != input.sizes() {
        return Err(Error::runtime(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            Shape(input.sizes()),
            Shape(result.sizes())
        )));
    }
    check_cast(result.dtype(), input.dtype())?;
    if let Some(parts) = result.parts() {
        input
            .set_parts(SparseParts { values: (primitives()?.cast)(&parts.values, input.dtype())?, ..(*parts).clone() });
    }
    if let Some(parts) = result.compressed_parts() {
        let values = (primitives()?.cast)(&parts.values, input.dtype())?;
        input.set_compressed_parts(CompressedParts { values, ..(*parts).clone() });
    }
    Ok(())
}

/// The error for a result whose layout the target does not have.
#[cold]
fn cannot_write(args: &Args, target: &Tensor) -> Error {
    match primitives().map(|primitives| (primitives.sparse.refused)(args, target)) {
        Ok(Some(error)) => error,
        _ => unsupported_operator(args),
    }
}
