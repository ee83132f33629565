//! Conversion to another dtype or other memory.

mod captured;
pub mod copy;

use rushlight_autograd::Tensor;
use rushlight_core::alloc::collected;
use rushlight_core::{DType, Device, Element, Error, Layout, Result, Scalar, dispatch};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves, Sparse, Tags,
    TensorSpec, Variants, formula, operator,
};

use rushlight_core::memory_format::{channels_last_format, strides};
use rushlight_dispatch::copy::{copy as copy_elements, on_host, readable};
use rushlight_dispatch::value::{Arg, Output, Value};
use rushlight_dispatch::{create, handled, op, quantized, sparse, vmap, warn_once};

/// The operator behind `.to(dtype)`, `.float()` and every cast in derivatives.
#[operator]
pub static TO_DTYPE: Operator = Operator {
    name: "_to_copy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor",
    doc: "A copy in another dtype or on another device, in the same order of dimensions.

    >>> torch._to_copy(torch.tensor([1.7, -1.7]), dtype=torch.int64)
    tensor([ 1, -1])",
    dtypes: DTypes::ALL,
    tags: Tags::LAZY_CONJ,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(copied),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let layout = like(input, args.optional_str(MEMORY_FORMAT))?;
            let device = args.device(DEVICE).unwrap_or(input.device());
            if input.device() == Device::Meta && device != Device::Meta {
                return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!"));
            }
            Ok(vec![TensorSpec { layout, dtype: args.dtype(DTYPE).unwrap_or(input.dtype()), device }])
        },
        |args, results| {
            captured::check(&results[0], args.tensor(INPUT)?)?;
            copy_elements(&results[0], args.tensor(INPUT)?)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| back_home(d, INPUT))]),
    samples: &["t(2, 3), dtype=torch.float64", "t(2, 3).t(), dtype=torch.float64", "t()"],
    reference: "np.array(self, dtype=dtype)",
    ..Operator::BASE
};

/// The gradient on the device of the argument that was copied.
pub fn back_home(d: &BackwardContext, arg: Arg) -> Expr {
    match (d.meta(arg), d.results.first()) {
        (Some(meta), Some(result)) if meta.device != result.device => {
            d.grad().call(&TO_DTYPE, [Value::None, Value::Device(meta.device)])
        }
        _ => d.grad(),
    }
}

/// A copy in channels-last order if `like` has it; else the tensor itself.
pub fn in_format_of(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    match channels_last_format(like.layout()) {
        Some(format) if tensor.rank() == like.rank() => op!(CLONE, tensor, format),
        _ => Ok(tensor.clone()),
    }
}

#[operator]
pub static CLONE: Operator = Operator {
    name: "clone",
    signature: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "A copy in new memory, in the same order of dimensions; gradients flow through it.

    >>> x = torch.ones(2)
    >>> y = torch.clone(x)
    >>> y[0] = 5.
    >>> x
    tensor([1., 1.])",
    dtypes: DTypes::ALL,
    tags: Tags::LAZY_CONJ,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Custom(copied),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let input = args.tensor(INPUT)?;
            let layout = like(input, args.optional_str(MEMORY_FORMAT))?;
            Ok(vec![TensorSpec { layout, dtype: input.dtype(), device: input.device() }])
        },
        |args, results| copy_elements(&results[0], args.tensor(INPUT)?),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)", "t(2, 3).t()", "t()"],
    reference: "np.array(self)",
    ..Operator::BASE
};

/// Copies of all samples, in any memory format for which a batch has enough dimensions.
fn copied(batch: &BatchedCall) -> Result<Option<Output>> {
    let format = batch.args.op.schema().arg("memory_format").and_then(|format| batch.args.optional_str(format));
    if !matches!(format, None | Some("preserve_format" | "contiguous_format")) {
        return Ok(None);
    }
    let mut args = batch.args.clone();
    args.set(TO_DTYPE::INPUT, Value::Own(batch.tensor(TO_DTYPE::INPUT)?));
    args.call().map(Some)
}

/// The layout of a copy: in the memory format `format`, or in the tensor's own order.
fn like(input: &Tensor, format: Option<&str>) -> Result<Layout> {
    let strides = strides(input.sizes(), format, Some(input.layout()))?;
    Ok(Layout { sizes: input.sizes().clone(), strides, offset: 0 })
}

/// Warns once per process that a requested conversion drops imaginary parts.
pub fn note_dropped(from: DType, to: DType) -> Result<()> {
    if from.is_complex() && !to.is_complex() && to != DType::Bool {
        warn_once!(
            "Casting complex values to real discards the imaginary part\nUse x.real to get the real part as a view.",
        )?;
    }
    Ok(())
}

/// The tensor in another dtype; itself if it already has it.
pub fn to_dtype(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    op!(TO_DTYPE, tensor, dtype)
}

/// The tensor on another device; itself if it is already there.
pub fn to_device(tensor: &Tensor, device: Device) -> Result<Tensor> {
    if tensor.device() == device {
        return Ok(tensor.clone());
    }
    op!(TO_DTYPE, tensor, Value::None, Value::Device(device))
}

/// The tensor in row-major memory; itself if it is already contiguous.
pub fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    op!(CLONE, tensor, "contiguous_format")
}

/// The only element as a number.
pub fn item(tensor: &Tensor) -> Result<Scalar> {
    if tensor.numel() != 1 {
        return Err(Error::runtime(format!("a Tensor with {} elements cannot be converted to Scalar", tensor.numel()))
            .shapes([tensor.sizes().as_slice()])
            .hint("Use x.tolist() to get all elements."));
    }
    if let Some(number) = handled::item(tensor)? {
        return Ok(number);
    }
    if tensor.device() == Device::Meta {
        return Err(Error::runtime("Tensor.item() cannot be called on meta tensors"));
    }
    if tensor.is_batched() {
        return Err(vmap::item_error());
    }
    if tensor.is_sparse() && tensor.compressed_parts().is_none() {
        return item(&sparse::dense(&tensor.detach())?);
    }
    let tensor = &readable(&on_host(&quantized::dequantized(tensor)?)?)?;
    let pin = tensor.storage().pin()?;
    Ok(dispatch!(tensor.dtype(), T in all => {
        // SAFETY: the layout lies within the pinned storage; foreign memory may be unaligned.
        unsafe { pin.as_ptr().cast::<T>().offset(tensor.layout().offset).read_unaligned() }.to_scalar()
    }))
}

/// The elements in row-major order.
pub fn to_vec<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    if tensor.is_batched() {
        return Err(vmap::data_error());
    }
    if let Some(elements) = handled::elements(tensor)? {
        return collected(elements.into_iter().map(T::from_scalar));
    }
    let flat = create::empty(tensor.sizes(), T::DTYPE, Device::Cpu)?;
    copy_elements(&flat, tensor)?;
    let pin = flat.storage().pin()?;
    let mut elements = rushlight_core::alloc::list(flat.numel())?;
    // SAFETY: the tensor is new, contiguous and of type T.
    elements.extend_from_slice(unsafe { std::slice::from_raw_parts(pin.as_ptr().cast::<T>(), flat.numel()) });
    Ok(elements)
}
