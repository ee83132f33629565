//! What in-place forms and `out=` may write: derived from the definition for every operator. The dtypes that `out=` may
//! have are in `out`.

use rushlight_autograd::{Tensor, modes};
use rushlight_core::dtype::can_cast;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Dims, Error, Layout, Result};

use crate::operator::{Accepts, Args, Derivative, Implementation, Operator, Promote, Resized, Tags, TensorSpec};
use crate::overlap::{OVERLAPS, check_no_self_overlap, check_overlap, shared_memory};

/// Checks whether the operator may write its result into its first argument.
pub fn check_in_place(op: &Operator, input: &Tensor, sizes: &[isize], dtype: DType) -> Result<()> {
    check_writable(input)?;
    if matches!(&op.implementation, Implementation::Pointwise(body) if body.promote == Promote::ComplexToReal)
        && input.dtype().is_complex()
    {
        return Err(Error::runtime(format!("In-place {} is not supported for complex tensors.", op.python_name())));
    }
    if input.layout().sizes.as_slice() != sizes {
        // A kernel with a shape of its own does not broadcast its result.
        let error = match &op.implementation {
            Implementation::Kernel(_) => Error::runtime(format!(
                "Bad in-place call: input tensor size {} and output tensor size {} should match",
                Shape(input.sizes()),
                Shape(sizes)
            ))
            .shapes([input.sizes().as_slice(), sizes]),
            _ => wrong_shape(input.sizes(), sizes),
        };
        return Err(error.hint(format!(
            "{}_ cannot change the shape of its tensor; use the operator without the underscore to broadcast.",
            op.python_name()
        )));
    }
    let writes_expanded = op.tags.has(Tags::WRITES_EXPANDED)
        && input.layout().expanded().next().is_some()
        && !(input.is_tracked() && modes::recording());
    let elementwise = matches!(&op.implementation, Implementation::Pointwise(_));
    if elementwise && !writes_expanded {
        check_no_self_overlap(input)?;
    }
    if dtype != input.dtype() && matches!(op.out.accepts, Accepts::Requested) {
        return Err(Error::runtime(format!(
            "Bad in-place call: input tensor dtype {} and output tensor dtype {} should match",
            input.dtype().c_name(),
            dtype.c_name()
        )));
    }
    check_cast(dtype, input.dtype()).map_err(|error| match op.kernel_name.strip_prefix("clamp_") {
        // torch's kernels of limits are not told apart by its usual check, and name the target as C++ does.
        Some(_) => Error::runtime(format!(
            "result type {} can't be cast to the desired output type {}",
            dtype.display_name(),
            input.dtype().c_name()
        )),
        None => error,
    })?;
    match (writes_expanded, elementwise) {
        (true, _) => note_expanded(op),
        (false, true) => Ok(()),
        (false, false) => check_no_self_overlap(input),
    }
}

/// Gives a tensor the sizes of its new value, for the operators that may change them in place. A recorded view keeps its
/// sizes, which its base's history needs.
pub fn fit_in_place(op: &Operator, input: &Tensor, sizes: &[isize]) -> Result<()> {
    let kept = input.is_view() && input.is_tracked();
    if !op.tags.has(Tags::RESHAPES_IN_PLACE) || input.layout().sizes.as_slice() == sizes || kept {
        return Ok(());
    }
    resize(input, Layout::contiguous(sizes))
}

/// The error for a result that is written into a tensor of another shape.
#[cold]
pub fn wrong_shape(own: &[isize], result: &[isize]) -> Error {
    Error::runtime(format!("output with shape {} doesn't match the broadcast shape {}", Shape(own), Shape(result)))
        .shapes([own, result])
        .from_right()
}

#[cold]
fn note_expanded(op: &Operator) -> Result<()> {
    let name = op.python_name().trim_start_matches('_');
    let example = if name == "index_put" { "tensor[indices] = tensor" } else { "tensor[mask] = scalar" };
    crate::interpreter::warn(&format!(
        "Use of {name}_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies to advanced indexing e.g. {example}"
    ))
}

pub fn check_cast(from: DType, to: DType) -> Result<()> {
    if can_cast(from, to) {
        return Ok(());
    }
    Err(Error::runtime(format!(
        "result type {} can't be cast to the desired output type {}",
        from.display_name(),
        to.display_name()
    ))
    .hint(format!("Convert the tensor first: x = x.to({from}).")))
}

/// Returns an error for read-only memory.
pub fn check_writable(tensor: &Tensor) -> Result<()> {
    if tensor.storage().is_read_only() {
        return Err(Error::value("output array is read-only")
            .hint("The tensor is a view of read-only memory; use x.clone() to get a writable copy."));
    }
    Ok(())
}

/// Returns an error for `out=` if gradients are recorded.
pub fn check_no_gradient(args: &Args, out: &Tensor) -> Result<()> {
    if args.op.schema().options.is_some() {
        return check_factory(args, out);
    }
    // torch records nothing for such operators, and does not check their `out=`.
    if matches!(args.op.derivative, Derivative::NonDifferentiable(_)) {
        return Ok(());
    }
    let wants_gradient = args.each_tensor().any(|(_, tensor)| tensor.requires_grad()) || out.requires_grad();
    if wants_gradient && modes::grad_enabled() {
        return Err(no_derivative(&args.op.flat_name()));
    }
    let has_tangent = |tensor: &Tensor| tensor.is_tracked() && !tensor.requires_grad();
    if modes::current().tangents && (args.each_tensor().any(|(_, tensor)| has_tangent(tensor)) || has_tangent(out)) {
        return Err(Error::not_implemented(format!(
            "Trying to use forward AD with {}_out that does not support it because it is an out= function",
            args.op.flat_name()
        ))
        .hint("Omit out=."));
    }
    Ok(())
}

/// Returns an error for `out=` of a factory that requires a gradient: a leaf, whose elements no derivative leads to, or any
/// tensor that the factory resizes first.
fn check_factory(args: &Args, out: &Tensor) -> Result<()> {
    if !out.requires_grad() {
        return Ok(());
    }
    if args.op.out.resizes_first {
        return Err(resized_history());
    }
    let of_leaf = out.is_leaf() || out.base().is_some_and(Tensor::is_leaf);
    match of_leaf && modes::grad_enabled() {
        true => Err(no_derivative(&format!("aten::{}", args.op.flat_name()))),
        false => Ok(()),
    }
}

#[cold]
pub fn resized_history() -> Error {
    Error::runtime("cannot resize variables that require grad")
}

#[cold]
fn no_derivative(name: &str) -> Error {
    Error::runtime(format!(
        "{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
    ))
    .hint("Omit out=, or call it under torch.no_grad().")
}

/// Prepares `out=` for the result at `place`: checks its dtype and that it does not overlap the arguments, and resizes
/// it.
pub fn check_out(args: &Args, place: usize, out: &Tensor, result: &TensorSpec) -> Result<()> {
    check_no_gradient(args, out)?;
    check_writable(out)?;
    if out.is_inference() && !modes::inference_enabled() {
        return Err(rushlight_autograd::inference_update());
    }
    let (sizes, dtype) = (&result.layout.sizes, result.dtype);
    let makes_device = args.op.schema().options.is_some() || args.op.tags.has(Tags::MIXED_DEVICES);
    if out.device() != result.device && !makes_device {
        return Err(Error::runtime(format!(
            "Attempting to copy from device {} to device {}, but cross-device copies are not allowed!",
            result.device,
            out.device()
        ))
        .hint("out= must be on the operands' device."));
    }
    let rule = &args.op.out;
    rule.check(args, place, dtype, out.dtype())?;
    if rule.no_alias {
        check_no_self_overlap(out)?;
        for (_, tensor) in
            args.each_tensor().skip(usize::from(matches!(args.op.implementation, Implementation::Update(_))))
        {
            if tensor.layout() == out.layout() && tensor.storage().shares_bytes(out.storage()) {
                return Err(shared_memory());
            }
            check_overlap(out, tensor)?;
        }
    }
    if let Resized::RowIf(such) = rule.resized
        && such(args)
    {
        resize_to_row(out, sizes)?;
    } else if out.layout().sizes != *sizes {
        let is_pointwise = matches!(args.op.implementation, Implementation::Pointwise(_));
        if is_pointwise && args.each_tensor().any(|(_, tensor)| tensor.ptr_eq(out)) {
            return Err(wrong_shape(out.sizes(), sizes).hint("out= is an operand, which cannot be resized."));
        }
        // Other operators resize it before they look at its memory.
        if is_pointwise && out.layout().expanded().next().is_some() {
            return Err(Error::runtime(OVERLAPS));
        }
        if out.numel() != 0 {
            note_resized(rule.resized, out.sizes(), sizes)?;
        }
        // Elementwise operators give it the operands' order of dimensions.
        resize(out, if is_pointwise { result.layout.clone() } else { Layout::contiguous(sizes) })?;
    }
    // Equal elements may be written to one place.
    if rule.only_resizes || args.op.tags.has(Tags::UNIFORM) { Ok(()) } else { check_no_self_overlap(out) }
}

/// Resizes `out=` to a matrix of one row, and takes the row.
#[cold]
fn resize_to_row(out: &Tensor, sizes: &[isize]) -> Result<()> {
    let mut row = Dims::from_slice(&[1]);
    row.extend_from_slice(sizes);
    if out.layout().sizes != row {
        if out.numel() != 0 {
            note_resized(Resized::Deprecated, out.sizes(), &row)?;
        }
        return resize(out, Layout::contiguous(sizes));
    }
    let meta = out.meta_with(out.layout().select(0, 0));
    crate::interpreter::replace_meta(out, meta);
    Ok(())
}

/// Warns about an `out=` that is resized.
#[cold]
fn note_resized(resized: Resized, own: &[isize], sizes: &[isize]) -> Result<()> {
    match resized {
        Resized::Silently => Ok(()),
        Resized::Deprecated | Resized::RowIf(_) => crate::interpreter::warn(&format!(
            "An output with one or more elements was resized since it had shape {}, which does not match the required output shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            Shape(own),
            Shape(sizes)
        )),
        Resized::Counted => crate::interpreter::warn(&format!(
            "The number of elements in the out tensor of shape {} is {} which does not match the computed number of elements {count}. Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape ({count},).",
            Shape(own),
            own.iter().product::<isize>(),
            count = sizes.iter().product::<isize>(),
        )),
    }
}

/// Gives a tensor a dense layout from its offset on. Its storage grows if necessary.
pub fn resize(tensor: &Tensor, layout: Layout) -> Result<()> {
    if tensor.is_sparse() {
        return Err(crate::sparse::unsupported("resize_", tensor));
    }
    if tensor.is_batched() {
        return Err(crate::vmap::storage_error());
    }
    let numel = rushlight_core::layout::checked_numel(&layout.sizes)?;
    let layout = Layout { offset: tensor.layout().offset, ..layout };
    let end = (layout.offset.max(0) as usize).saturating_add(numel);
    let Some(needed) = end.checked_mul(tensor.dtype().size()) else {
        return Err(Error::runtime(format!("Storage size calculation overflowed with sizes={}", Shape(&layout.sizes))));
    };
    let storage = tensor.storage();
    if numel > 0 && needed > storage.len() {
        // SAFETY: in-place calls and `out=` come from the interpreter with the GIL held, so that no other thread
        // replaces the block at the same time; kernels that read the old one hold it by their pins.
        unsafe { storage.resize(needed)? };
    }
    let meta = tensor.meta_with(layout);
    crate::interpreter::replace_meta(tensor, meta);
    Ok(())
}
