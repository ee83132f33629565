//! The errors of a call.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Class, DType, Device, Dims, Error};

use super::two_devices;
use crate::operator::{Args, Operator};

#[cold]
pub fn not_implemented(op: &Operator, dtype: DType) -> Error {
    let name = if op.kernel_name.is_empty() { &format!("{}_cpu", op.python_name()) } else { op.kernel_name };
    let sentence = format!("\"{name}\" not implemented for '{}'", dtype.display_name());
    let accepted: Vec<&str> = op.dtypes.list().map(DType::name).collect();
    Error::new(Class::NotImplemented, sentence).hint(format!("It accepts {}.", accepted.join(", ")))
}

/// torch's error for operands that do not broadcast, if one of several devices is `meta`: there it compares shapes first.
#[cold]
pub fn shapes_of_meta(args: &Args) -> Option<Error> {
    let tensors: Vec<&Tensor> = args.each_tensor().map(|(_, tensor)| tensor).collect();
    if tensors.iter().all(|tensor| tensor.device() != Device::Meta) {
        return None;
    }
    let rank = tensors.iter().map(|tensor| tensor.rank()).max().unwrap_or(0);
    let mut common = Dims::from_elem(1, rank);
    for (place, tensor) in tensors.iter().enumerate() {
        let missing = rank - tensor.rank();
        for dim in (missing..rank).rev() {
            let size = tensor.sizes()[dim - missing];
            if common[dim] == 1 {
                common[dim] = size;
            } else if size != 1 && size != common[dim] {
                return Some(Error::runtime(format!(
                    "Attempting to broadcast a dimension of length {size} at {}! Mismatching argument at index {place} had torch.Size({}); but expected shape should be broadcastable to {}",
                    dim as isize - rank as isize,
                    Shape(tensor.sizes()),
                    Shape(&common)
                )));
            }
        }
    }
    None
}

/// An error of the form of an operator that gives a new tensor, for its form in place: torch's sentence names this one.
#[cold]
pub fn named_in_place(error: Error, op: &Operator) -> Error {
    let name = op.python_name();
    match error.sentence().strip_prefix(name).filter(|rest| rest.starts_with("()")) {
        Some(rest) => Error::new(error.class(), format!("{name}_{rest}")),
        None => error,
    }
}

#[cold]
pub fn not_on_cuda(op: &Operator) -> Error {
    let sentence = format!("Could not run 'aten::{}' with arguments from the 'CUDA' backend.", op.name);
    Error::new(Class::NotImplemented, sentence).hint("Move the tensors to the host: x.cpu().")
}

/// The error of a call that could not read the memory of an operand. With operands on two devices, one is a number on the host
/// that this operator does not take. With one device, the operator is a composition that has no form for it.
#[cold]
fn out_of_reach(args: &Args) -> Error {
    two_devices::first_difference(args)
        .map_or_else(|| not_on_cuda(args.op), |(first, own)| two_devices::refuse(args, first, own))
}

/// An error that names the host's kernel, for tensors of a GPU: torch's sentence names the GPU's.
fn named_on_cuda(error: Error) -> Error {
    let said = error.sentence();
    match said.strip_prefix('"').and_then(|rest| rest.split_once("\" not implemented for ")) {
        Some((kernel, dtype)) if kernel.contains("_cpu") => {
            let sentence = format!("\"{}\" not implemented for {dtype}", kernel.replacen("_cpu", "_cuda", 1));
            error.with_sentence(sentence)
        }
        _ => error,
    }
}

/// Adds the operator, and the shapes of its operands unless the error has more specific ones.
#[cold]
pub fn with_context(error: Error, args: &Args, in_place: bool) -> Error {
    let error = if error.class() == Class::Unreachable { out_of_reach(args) } else { error };
    let is_on_cuda = args.each_tensor().any(|(_, tensor)| matches!(tensor.device(), Device::Cuda(_)));
    let error = if is_on_cuda { named_on_cuda(error) } else { error };
    let error = if in_place { two_devices::named_in_place(error, args.op) } else { error };
    let shapes: Vec<Dims> = args.each_tensor().map(|(_, tensor)| tensor.sizes().clone()).collect();
    error.called(args.op.display_name(in_place), shapes, !args.op.broadcasting().is_empty())
}
