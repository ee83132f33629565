//! The same numbers in another dtype or another memory.

pub mod copy;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Element, Error, Layout, Result, Scalar, dispatch};

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::{Batch, Mapped};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Traits, Variants};
use crate::sparse::Sparse;
use crate::value::Value;
use rushlight_core::memory_format::{has_channels_last, strides};

/// The row behind `.to(dtype)`, `.float()` and every cast in derivatives.
pub static TO_DTYPE: Row = Row {
    name: "_to_copy",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, *, ScalarType? dtype=None, Device? device=None, MemoryFormat? memory_format=None) -> Tensor",
    doc: "A copy in another dtype or on another device, in the same order of dimensions.

    >>> torch._to_copy(torch.tensor([1.7, -1.7]), dtype=torch.int64)
    tensor([ 1, -1])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MIRRORED,
    sparse: Sparse::Body(crate::sparse::elementwise::cast),
    mapped: Mapped::Rule(copied),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let layout = like(own, args.optional_str(3))?;
            let device = args.device(2).unwrap_or(own.device());
            if own.device() == Device::Meta && device != Device::Meta {
                return Err(Error::not_implemented("Cannot copy out of meta tensor; no data!"));
            }
            Ok(vec![Spec { layout, dtype: args.dtype(1).unwrap_or(own.dtype()), device }])
        },
        cpu: |args, results| crate::copy::copy(&results[0], args.tensor(0)?),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3), dtype=torch.float64", "t(2, 3).t(), dtype=torch.float64", "t()"],
    reference: "np.array(self, dtype=dtype)",
    ..Row::BASE
};

/// A copy of a tensor with the channels last where those of `like` are; else the tensor itself.
pub fn in_format_of(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    if tensor.rank() != like.rank() || !has_channels_last(like.layout()) {
        return Ok(tensor.clone());
    }
    crate::op!(CLONE, tensor, if like.rank() == 4 { "channels_last" } else { "channels_last_3d" })
}

pub static CLONE: Row = Row {
    name: "clone",
    signature: "(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
    doc: "A copy in memory of its own, in the same order of dimensions; gradients flow through it.

    >>> x = torch.ones(2)
    >>> y = torch.clone(x)
    >>> y[0] = 5.
    >>> x
    tensor([1., 1.])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MIRRORED,
    sparse: Sparse::Body(crate::sparse::elementwise::clone),
    mapped: Mapped::Rule(copied),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let own = args.tensor(0)?;
            let layout = like(own, args.optional_str(1))?;
            Ok(vec![Spec { layout, dtype: own.dtype(), device: own.device() }])
        },
        cpu: |args, results| crate::copy::copy(&results[0], args.tensor(0)?),
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)", "t(2, 3).t()", "t()"],
    reference: "np.array(self)",
    ..Row::BASE
};

/// Copies of all samples, in any order in which a batch of them has dimensions enough.
fn copied(batch: &Batch) -> Result<Option<crate::Output>> {
    let place = batch.args.row.schema().params.len() - 1;
    if !matches!(batch.args.optional_str(place), None | Some("preserve_format" | "contiguous_format")) {
        return Ok(None);
    }
    let mut args = batch.args.clone();
    args.values[0] = Value::Own(batch.tensor(0)?);
    crate::call(args).map(Some)
}

/// The layout of a copy: the order in memory that `format` names, or the tensor's own.
fn like(own: &Tensor, format: Option<&str>) -> Result<Layout> {
    let strides = strides(own.sizes(), format, Some(own.layout()))?;
    Ok(Layout { sizes: own.sizes().clone(), strides, offset: 0 })
}

/// Tells, once per process, that a conversion which a program asked for drops imaginary parts.
pub fn note_dropped(from: DType, to: DType) -> Result<()> {
    if from.is_complex() && !to.is_complex() && to != DType::Bool {
        crate::warn_once!(
            "Casting complex values to real discards the imaginary part\nx.real is a view of what stays.",
        )?;
    }
    Ok(())
}

/// The tensor in another dtype; itself if it already has it.
pub fn to_dtype(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    if tensor.dtype() == dtype {
        return Ok(tensor.clone());
    }
    crate::op!(TO_DTYPE, tensor, dtype)
}

/// The tensor on another device; itself if it is there.
pub fn to_device(tensor: &Tensor, device: Device) -> Result<Tensor> {
    if tensor.device() == device {
        return Ok(tensor.clone());
    }
    crate::op!(TO_DTYPE, tensor, Value::None, Value::Device(device))
}

/// The tensor in row-major memory; itself if it already is.
pub fn contiguous(tensor: &Tensor) -> Result<Tensor> {
    if tensor.layout().is_contiguous() {
        return Ok(tensor.clone());
    }
    crate::op!(CLONE, tensor, "contiguous_format")
}

/// The one element as a number.
pub fn item(tensor: &Tensor) -> Result<Scalar> {
    if tensor.numel() != 1 {
        return Err(Error::runtime(format!("a Tensor with {} elements cannot be converted to Scalar", tensor.numel()))
            .shapes([tensor.sizes().as_slice()])
            .hint("x.tolist() gives all elements."));
    }
    if tensor.device() != Device::Cpu {
        return Err(Error::runtime("Tensor.item() cannot be called on meta tensors"));
    }
    if tensor.is_mapped() {
        return Err(crate::mapped::no_item());
    }
    let tensor = &crate::copy::readable(tensor)?;
    let pin = tensor.storage().pin()?;
    Ok(dispatch!(tensor.dtype(), T in all => {
        // SAFETY: the layout lies within the pinned storage; foreign memory may be unaligned.
        unsafe { pin.as_ptr().cast::<T>().offset(tensor.layout().offset).read_unaligned() }.to_scalar()
    }))
}

/// The elements in row-major order.
pub fn to_vec<T: Element>(tensor: &Tensor) -> Result<Vec<T>> {
    if tensor.is_mapped() {
        return Err(crate::mapped::no_elements());
    }
    let flat = crate::create::empty(tensor.sizes(), T::DTYPE, Device::Cpu)?;
    crate::copy::copy(&flat, tensor)?;
    let pin = flat.storage().pin()?;
    let mut elements = rushlight_core::alloc::list(flat.numel())?;
    // SAFETY: the tensor is fresh, contiguous and of type T.
    elements.extend_from_slice(unsafe { std::slice::from_raw_parts(pin.as_ptr().cast::<T>(), flat.numel()) });
    Ok(elements)
}
