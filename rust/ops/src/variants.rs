//! In-place and `out=`: derived from the row for every operator, never written by hand.

use rushlight_autograd::Tensor;
use rushlight_autograd::modes::{self, GradMode};
use rushlight_core::dtype::can_cast;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Device, Error, Layout, Result};

use crate::call::{Target, mirrored};
use crate::node;
use crate::out::Resized;
use crate::row::{Kernel, Promote, Row, Run, Spec, Traits};
use crate::value::{Args, Output, Value};

/// Whether the operator may write its result into its first argument.
pub fn check_in_place(row: &Row, own: &Tensor, sizes: &[isize], dtype: DType) -> Result<()> {
    check_writable(own)?;
    if matches!(&row.run, Run::Pointwise(body) if body.promote == Promote::ComplexToReal) && own.dtype().is_complex() {
        return Err(Error::runtime(format!("In-place {} is not supported for complex tensors.", row.python_name())));
    }
    if own.layout().sizes.as_slice() != sizes {
        return Err(Error::runtime(format!(
            "output with shape {} doesn't match the broadcast shape {}",
            Shape(&own.layout().sizes),
            Shape(sizes)
        ))
        .shapes([own.layout().sizes.as_slice(), sizes])
        .hint(format!(
            "{}_ never changes its tensor's shape; the operator without the underscore broadcasts.",
            row.python_name()
        )));
    }
    check_cast(dtype, own.dtype())?;
    if row.traits.has(Traits::WRITES_EXPANDED)
        && own.layout().expanded().next().is_some()
        && !(own.is_watched() && modes::recording())
    {
        return note_expanded(row);
    }
    check_no_self_overlap(own)
}

#[cold]
fn note_expanded(row: &Row) -> Result<()> {
    let name = row.python_name().trim_start_matches('_');
    let example = if name == "index_put" { "tensor[indices] = tensor" } else { "tensor[mask] = scalar" };
    crate::host::warn(&format!(
        "Use of {name}_ on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This also applies to advanced indexing e.g. {example}"
    ))
}

pub fn check_cast(from: DType, to: DType) -> Result<()> {
    if can_cast(from, to) {
        return Ok(());
    }
    Err(Error::runtime(format!("result type {} can't be cast to the desired output type {}", from.title(), to.title()))
        .hint(format!("Convert the tensor first: x = x.to({from}).")))
}

/// Refuses memory that may only be read.
pub fn check_writable(tensor: &Tensor) -> Result<()> {
    if tensor.storage().is_read_only() {
        return Err(Error::value("output array is read-only")
            .hint("The tensor views memory that its owner marked read-only; x.clone() gives one of its own."));
    }
    Ok(())
}

pub const OVERLAPS: &str = "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please clone() the tensor before performing the operation.";

pub fn check_no_self_overlap(tensor: &Tensor) -> Result<()> {
    if !tensor.layout().is_contiguous() && tensor.layout().overlaps() {
        return Err(Error::runtime(OVERLAPS));
    }
    Ok(())
}

/// What the memory of an input is to that of a result.
#[derive(PartialEq, Eq)]
pub enum Overlap {
    /// It is other memory, or element lies on element.
    Harmless,
    /// Both have gaps, or one has: whether an element of one is another element of the other nobody has asked.
    Unknown,
    /// Elements are other elements of the result.
    Partial,
}

/// Refuses an input that may share part of the result's memory; lying exactly on it is fine.
pub fn check_overlap(out: &Tensor, input: &Tensor) -> Result<()> {
    if overlap(out, input) == Overlap::Harmless { Ok(()) } else { Err(shared_memory()) }
}

/// Whether an input must be read before the result is written. Like torch, refuses two that fill their memory and share a
/// part of it; what torch computes in an order that nobody promises is here computed as from a copy.
pub fn must_be_copied(out: &Tensor, input: &Tensor) -> Result<bool> {
    match overlap(out, input) {
        Overlap::Harmless => Ok(false),
        Overlap::Unknown => Ok(true),
        Overlap::Partial => Err(shared_memory()),
    }
}

fn overlap(out: &Tensor, input: &Tensor) -> Overlap {
    if !out.storage().shares_bytes(input.storage()) {
        return Overlap::Harmless;
    }
    let (a, b) = (out.layout(), input.layout());
    if a == b && out.dtype() == input.dtype() {
        return Overlap::Harmless;
    }
    let bytes = |tensor: &Tensor, layout: &Layout| {
        let width = tensor.dtype().size() as isize;
        layout.span().map(|(low, high)| (low.saturating_mul(width), (high + 1).saturating_mul(width)))
    };
    let (Some(x), Some(y)) = (bytes(out, a), bytes(input, b)) else { return Overlap::Harmless };
    if x.1 <= y.0 || y.1 <= x.0 || (out.dtype() == input.dtype() && interleave(a, b)) {
        return Overlap::Harmless;
    }
    if a.is_dense() && b.is_dense() { Overlap::Partial } else { Overlap::Unknown }
}

#[cold]
fn shared_memory() -> Error {
    Error::runtime(
        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. Please clone() the tensor before performing the operation.",
    )
}

/// The arguments with copies of those tensors that share memory with `own`, other than the first; nothing if none does.
pub fn apart<'a>(args: &Args<'a>, own: &Tensor) -> Result<Option<Args<'a>>> {
    let shares = |tensor: &Tensor| {
        tensor.storage().shares_bytes(own.storage())
            && (tensor.layout() == own.layout() || overlap(own, tensor) != Overlap::Harmless)
    };
    if !args.each_tensor().skip(1).any(|(_, tensor)| shares(tensor)) {
        return Ok(None);
    }
    let mut args = args.clone();
    for value in args.values.iter_mut().skip(1) {
        match value {
            Value::Tensors(list) => {
                for tensor in list.iter_mut().flatten().filter(|tensor| shares(tensor)) {
                    *tensor = crate::copy::clone(tensor)?;
                }
            }
            _ => {
                if let Some(tensor) = value.as_tensor().filter(|tensor| shares(tensor)) {
                    *value = Value::Own(crate::copy::clone(tensor)?);
                }
            }
        }
    }
    Ok(Some(args))
}

/// Whether two views step through the same stretch without ever meeting (columns of one matrix, say).
fn interleave(a: &Layout, b: &Layout) -> bool {
    if a.sizes != b.sizes || a.strides != b.strides || a.numel() == 0 {
        return false;
    }
    let gap = (a.offset - b.offset).abs();
    let steps: Vec<isize> =
        a.sizes.iter().zip(&a.strides).filter(|(size, _)| **size > 1).map(|(_, stride)| stride.abs()).collect();
    let common = steps.iter().copied().fold(0, gcd);
    common != 0 && gap % common != 0
}

fn gcd(a: isize, b: isize) -> isize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Refuses `out=` where gradients are recorded.
pub fn check_no_gradient(args: &Args, out: &Tensor) -> Result<()> {
    let wants_gradient = args.each_tensor().any(|(_, tensor)| tensor.requires_grad()) || out.requires_grad();
    if wants_gradient && modes::grad_enabled() {
        return Err(Error::runtime(format!(
            "{}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.",
            args.row.flat_name()
        ))
        .hint("Leave out= away, or call it under torch.no_grad()."));
    }
    Ok(())
}

/// Prepares `out=` for the result at `place`: the right dtype, apart from the arguments, resized to the result's shape.
pub fn check_out(args: &Args, place: usize, out: &Tensor, result: &Spec) -> Result<()> {
    check_no_gradient(args, out)?;
    check_writable(out)?;
    let (sizes, dtype) = (&result.layout.sizes, result.dtype);
    let makes_device = args.row.schema().options.is_some() || args.row.traits.has(Traits::ACROSS_DEVICES);
    if out.device() != result.device && !makes_device {
        return Err(Error::runtime(format!(
            "Attempting to copy from device {} to device {}, but cross-device copies are not allowed!",
            result.device,
            out.device()
        ))
        .hint("out= must be on the operands' device."));
    }
    let rule = &args.row.out;
    rule.check(args, place, dtype, out.dtype())?;
    if rule.apart {
        check_no_self_overlap(out)?;
        for (_, tensor) in args.each_tensor().skip(usize::from(matches!(args.row.run, Run::Update(_)))) {
            if tensor.layout() == out.layout() && tensor.storage().shares_bytes(out.storage()) {
                return Err(shared_memory());
            }
            check_overlap(out, tensor)?;
        }
    }
    if out.layout().sizes != *sizes {
        if out.numel() != 0 {
            note_resized(rule.resized, out.sizes(), sizes)?;
        }
        resize(out, sizes)?;
    }
    check_no_self_overlap(out)
}

/// Tells of an `out=` that becomes a tensor of other sizes.
#[cold]
fn note_resized(resized: Resized, own: &[isize], sizes: &[isize]) -> Result<()> {
    match resized {
        Resized::Silently => Ok(()),
        Resized::Deprecated => crate::host::warn(&format!(
            "An output with one or more elements was resized since it had shape {}, which does not match the required output shape {}. This behavior is deprecated, and in a future PyTorch release outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by resizing it, inplace, to zero elements with t.resize_(0).",
            Shape(own),
            Shape(sizes)
        )),
        Resized::Counted => crate::host::warn(&format!(
            "The number of elements in the out tensor of shape {} is {} which does not match the computed number of elements {count}. Note that this may occur as a result of rounding error. The out tensor will be resized to a tensor of shape ({count},).",
            Shape(own),
            own.iter().product::<isize>(),
            count = sizes.iter().product::<isize>(),
        )),
    }
}

/// `resize_`: row-major sizes over the same storage, which grows if it must.
pub fn resize(tensor: &Tensor, sizes: &[isize]) -> Result<()> {
    if tensor.is_sparse() {
        return Err(crate::sparse::refused("resize_"));
    }
    if tensor.is_mapped() {
        return Err(crate::mapped::no_memory());
    }
    let numel = rushlight_core::layout::checked_numel(sizes)?;
    let layout = Layout { offset: tensor.layout().offset, ..Layout::contiguous(sizes) };
    let end = (layout.offset.max(0) as usize).saturating_add(numel);
    let needed = end.saturating_mul(tensor.dtype().size());
    let storage = tensor.storage();
    if numel > 0 && needed > storage.len() {
        // SAFETY: in-place calls and `out=` come from the interpreter with its lock held, so that nobody replaces the
        // block at the same time; kernels that read the old one hold it by their pins.
        unsafe { storage.grow(needed)? };
    }
    let meta = tensor.meta_with(layout);
    crate::host::replace_meta(tensor, meta);
    Ok(())
}

/// The kernel that fills `out` itself, if the row has such a one. An argument that lies exactly there must be read before.
fn direct_kernel(args: &Args, out: &Tensor) -> Option<&'static Kernel> {
    let apart =
        |tensor: &Tensor| !tensor.storage().shares_bytes(out.storage()) || overlap(out, tensor) != Overlap::Harmless;
    match &args.row.run {
        Run::Kernel(kernel) if args.row.out.direct && !out.is_mirrored() && args.all_tensors(apart) => Some(kernel),
        _ => None,
    }
}

/// In-place and `out=` of rows that cannot write there themselves: a fresh result is copied over.
pub fn through_copy(args: &Args, target: Target) -> Result<Output> {
    let row = args.row;
    // Mixed precision leaves such calls alone: their results' types are the target's.
    let _off = crate::autocast::off();
    match target {
        Target::Fresh => Err(Error::runtime(format!("{} has no way to run", row.name))),
        Target::InPlace => {
            let own = args.tensor(0)?;
            check_writable(own)?;
            if let Run::Compose(body) = row.run {
                // What the parts keep for their derivatives must not be what is overwritten.
                let recorded = modes::recording() && args.each_tensor().any(|(_, tensor)| tensor.is_watched());
                if recorded && !row.node.is_empty() {
                    return crate::enclosed::compose_in_place(body, args);
                }
                let mut args = args.clone();
                if recorded {
                    args.values[0] = Value::Own(crate::op!(crate::convert::CLONE, own)?);
                }
                let result = body(&args)?.into_tensor()?;
                if row.traits.has(Traits::RESHAPES_IN_PLACE) && own.layout().sizes != result.layout().sizes {
                    resize(own, &result.layout().sizes)?;
                }
                check_in_place(row, own, &result.layout().sizes, result.dtype())?;
                crate::convert::copy::copy_(own, &result)?;
                return Ok(Output::Tensor(own.clone()));
            }
            let change = node::Change::begin(args)?;
            let result = {
                let _off = GradMode::new(false);
                crate::call::call(mirrored::all_resolved(args.clone())?)?.into_tensor()?
            };
            check_in_place(row, own, &result.layout().sizes, result.dtype())?;
            crate::copy::copy(own, &result)?;
            change.finish()
        }
        Target::Out([out]) if let Some(kernel) = direct_kernel(args, out) => {
            let args = row.out.towards(args, out.dtype())?;
            check_no_gradient(&args, out)?;
            for spec in (kernel.infer)(&args)? {
                check_out(&args, 0, out, &spec)?;
            }
            if out.device() == Device::Cpu {
                (kernel.cpu)(&args, std::slice::from_ref(out))?;
            }
            out.bump_version();
            Ok(Output::Tensor(out.clone()))
        }
        Target::Out(outs) => {
            let results = match outs {
                [] => Vec::new(),
                [first, ..] => {
                    check_no_gradient(args, first)?;
                    crate::call::call(row.out.towards(args, first.dtype())?)?.into_tensors()
                }
            };
            if results.len() != outs.len() {
                return Err(Error::runtime(format!(
                    "{}() expected an out= argument of size {}, got size {}",
                    row.python_name(),
                    results.len(),
                    outs.len()
                )));
            }
            for (place, (out, result)) in outs.iter().zip(&results).enumerate() {
                let whole = row.out.filled && out.numel() == result.numel();
                let result =
                    &if whole { Tensor::view_of(result, Layout::contiguous(out.sizes())) } else { result.clone() };
                check_out(args, place, out, &Spec::like(result))?;
                crate::copy::copy(out, result)?;
                out.bump_version();
            }
            Ok(match outs {
                [one] => Output::Tensor(one.clone()),
                many => Output::Tuple(many.to_vec()),
            })
        }
    }
}
