//! Checks that gradients match the tensors whose gradients they are.

use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Result};

use crate::arithmetic::arithmetic;
use crate::graph::{AccumulateGrad, Edge, Gradients, Node, Tensor};

/// Checks a node's results: as many gradients as inputs, each shaped like its input. Broadcast dimensions are summed,
/// and another dtype is cast.
pub(crate) fn check_results(node: &Node, results: &mut Gradients) -> Result<()> {
    let expected = node.edges().len();
    if results.len() < expected || results.iter().skip(expected).any(Option::is_some) {
        return Err(Error::runtime(format!(
            "function {} returned an incorrect number of gradients (expected {expected}, got {})",
            node.name(),
            results.len()
        )));
    }
    results.truncate(expected);
    for (index, (result, edge)) in results.iter_mut().zip(node.edges()).enumerate() {
        match (&result, edge) {
            (Some(grad), Some(edge)) => {
                if let Some(fitted) = fit(|| node.name(), index, grad, edge)? {
                    *result = Some(fitted);
                }
            }
            _ => *result = None,
        }
    }
    Ok(())
}

/// The gradient in the form of its target; `None` if it has that form already. `function` supplies the name for errors.
pub(crate) fn fit<'a>(
    function: impl Fn() -> &'a str,
    index: usize,
    grad: &Tensor,
    edge: &Edge,
) -> Result<Option<Tensor>> {
    let meta = &edge.node().outputs()[edge.output as usize];
    let mut fitted = None;
    if grad.sizes() != &meta.sizes {
        if !is_stretched(grad.sizes(), &meta.sizes) {
            return Err(Error::runtime(format!(
                "Function {} returned an invalid gradient at index {index} - got {} but expected shape compatible with {}",
                function(),
                Shape(grad.sizes()),
                Shape(&meta.sizes)
            )));
        }
        fitted = Some((arithmetic()?.sum_to)(grad, &meta.sizes)?);
    }
    if !grad.dtype().is_floating() && grad.dtype().is_complex() != meta.dtype.is_complex() {
        return Err(Error::runtime(
            "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
        )
        .hint(format!(
            "{} returned a gradient of {} at index {index} for an input of {}: return one of the input's dtype.",
            function(),
            grad.dtype(),
            meta.dtype
        )));
    }
    let leaf = edge.node().function_as::<AccumulateGrad>().map(AccumulateGrad::variable);
    let wanted = leaf.and_then(Tensor::chosen_grad_dtype).unwrap_or(Some(meta.dtype));
    if let Some(wanted) = wanted.filter(|wanted| grad.dtype() != *wanted) {
        if !wanted.is_differentiable() {
            return Err(Error::runtime("isDifferentiableType(grad.scalar_type()) INTERNAL ASSERT FAILED")
                .hint(format!("The gradient of a leaf cannot have its grad_dtype, {wanted}.")));
        }
        fitted = Some((arithmetic()?.cast)(fitted.as_ref().unwrap_or(grad), wanted)?);
    }
    if grad.device() != meta.device {
        return Err(Error::runtime(format!(
            "Function {} returned an invalid gradient at index {index} - expected device {} but got {}",
            function(),
            meta.device,
            grad.device()
        )));
    }
    Ok(fitted)
}

/// Whether broadcasting stretches `from` to `sizes`.
pub fn is_stretched(sizes: &[isize], from: &[isize]) -> bool {
    sizes.len() >= from.len()
        && sizes.iter().rev().zip(from.iter().rev()).all(|(size, from)| size == from || *from == 1)
}

/// Checks that a hook replaced a gradient by one of the same kind.
pub(crate) fn check_hook_result(name: &str, old: &Tensor, new: &Tensor) -> Result<()> {
    if new.dtype() != old.dtype() || new.device() != old.device() {
        return Err(Error::runtime(format!(
            "hook '{name}' has changed the type of value (was {} got {})",
            type_name(old),
            type_name(new)
        )));
    }
    if new.sizes() != old.sizes() {
        return Err(Error::runtime(format!("hook '{name}' has changed the size of value")).hint(format!(
            "It was {} and is {}.",
            Shape(old.sizes()),
            Shape(new.sizes())
        )));
    }
    Ok(())
}

/// The same for all gradients of a node: as many as before, each of the same kind or absent.
pub(crate) fn check_hook_results(name: &str, old: &Gradients, new: &Gradients) -> Result<()> {
    if old.len() != new.len() {
        return Err(Error::runtime(format!(
            "hook '{name}' has returned an incorrect number of values (got {}, but expected {})",
            new.len(),
            old.len()
        )));
    }
    old.iter().zip(new).try_for_each(|pair| match pair {
        (_, None) => Ok(()),
        (None, Some(_)) => Err(gradient_out_of_none()),
        (Some(old), Some(new)) => check_hook_result(name, old, new),
    })
}

/// The error for a hook that returns a gradient where none arrived.
#[cold]
pub(crate) fn gradient_out_of_none() -> Error {
    Error::runtime("can't replace a None gradient with a non-None value")
}

/// torch's name for tensors of this dtype and device.
fn type_name(tensor: &Tensor) -> String {
    let display_name = tensor.dtype().display_name();
    match (tensor.device(), tensor.dtype()) {
        (Device::Meta, _) => format!("Meta{display_name}Type"),
        (Device::Cpu, DType::BF16 | DType::C32 | DType::C64 | DType::C128) => format!("CPU{display_name}Type"),
        (Device::Cpu, _) => format!("torch.{display_name}Tensor"),
        (device, _) => format!("torch.{}.{display_name}Tensor", device.kind()),
    }
}
