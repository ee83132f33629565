//! Tensors made without a call: uninitialised, filled with one value, or from a slice. Nothing here is recorded.

use rushlight_autograd::Tensor;
use rushlight_core::device::default_device;
use rushlight_core::layout::checked_new;
use rushlight_core::{DType, Device, Element, Error, Layout, Result, Scalar, dispatch};

use crate::allocate::allocate;
use crate::device_loops;
use crate::operator::{Args, TensorSpec};
use crate::promote::number_dtype;
use crate::value::Output;

/// Uninitialised elements, row-major.
pub fn empty(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    allocate(&TensorSpec { layout: Layout::contiguous(sizes), dtype, device })
}

/// A tensor filled with one value.
pub fn full(sizes: &[isize], value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(sizes, dtype, device)?;
    fill(&tensor, value)?;
    Ok(tensor)
}

pub fn zeros(sizes: &[isize], dtype: DType, device: Device) -> Result<Tensor> {
    full(sizes, Scalar::ZERO, dtype, device)
}

/// Overwrites every element with `value`; not recorded.
pub fn fill(tensor: &Tensor, value: Scalar) -> Result<()> {
    let (layout, dtype) = (tensor.layout(), tensor.dtype());
    let Some((low, _)) = layout.span() else { return Ok(()) };
    match tensor.device() {
        Device::Cpu => {}
        Device::Meta | Device::Unsupported(_) => return Ok(()),
        Device::Cuda(_) if tensor.is_plain() => return device_loops::fill(tensor, value),
        Device::Cuda(_) => return crate::copy::copy(tensor, &scalar_of(value, dtype, tensor.device())?),
    }
    if !layout.is_dense() || !tensor.is_plain() {
        return crate::copy::copy(tensor, &scalar_of(value, dtype, tensor.device())?);
    }
    let bits = crate::promote::bits(value, dtype);
    crate::interpreter::while_detached(layout.numel(), || {
        let pin = tensor.storage().pin()?;
        // SAFETY: a dense layout is one contiguous range of the pinned storage that begins at its lowest element.
        unsafe {
            let first = pin.as_ptr().offset(low * dtype.size() as isize);
            rushlight_cpu::create::fill(first, layout.numel(), dtype.size(), bits);
        }
        Ok(())
    })
}

/// A 0-d tensor of a dtype.
pub fn scalar_of(value: Scalar, dtype: DType, device: Device) -> Result<Tensor> {
    let tensor = empty(&[], dtype, device)?;
    match device {
        Device::Cpu => {
            let pin = tensor.storage().pin()?;
            dispatch!(dtype, T in all => {
                // SAFETY: the storage is new and holds one element.
                unsafe { pin.as_ptr().cast::<T>().write(T::from_scalar(value)) }
            });
        }
        Device::Cuda(_) => device_loops::fill(&tensor, value)?,
        Device::Meta | Device::Unsupported(_) => {}
    }
    Ok(tensor)
}

/// A 0-d tensor of a number's own dtype.
pub fn scalar_tensor(value: Scalar) -> Result<Tensor> {
    scalar_of(value, number_dtype(value), Device::Cpu)
}

/// Returns an error for a number that a dtype cannot hold: it would wrap around, or become infinite.
pub fn check_fits(value: Scalar, dtype: DType) -> Result<()> {
    if value.fits(dtype) {
        return Ok(());
    }
    let name = match dtype {
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I64 => "int64_t",
        DType::U16 => "uint16_t",
        DType::U32 => "uint32_t",
        DType::U64 => "uint64_t",
        DType::F16 => "c10::Half",
        DType::BF16 => "c10::BFloat16",
        other => other.c_name(),
    };
    let about = if dtype.is_floating() || dtype.is_complex() { "finfo" } else { "iinfo" };
    Err(Error::runtime(format!("value cannot be converted to type {name} without overflow"))
        .hint(format!("torch.{about}(torch.{}) shows the range of the dtype.", dtype.name())))
}

/// Returns an error for a number that a new tensor's dtype cannot hold. Half types are made of a number in double precision.
pub fn check_number(value: Scalar, dtype: DType) -> Result<()> {
    check_fits(value, if value.is_complex() && dtype.is_half() { DType::F64 } else { dtype })
}

/// A one-dimensional tensor with these elements.
pub fn from_slice<T: Element>(elements: &[T]) -> Result<Tensor> {
    let tensor = empty(&[elements.len() as isize], T::DTYPE, Device::Cpu)?;
    let pin = tensor.storage().pin()?;
    // SAFETY: the storage is new and as long as the slice.
    unsafe { std::ptr::copy_nonoverlapping(elements.as_ptr(), pin.as_ptr().cast(), elements.len()) };
    drop(pin);
    Ok(tensor)
}

/// Uninitialised elements in page-locked memory of the host.
pub fn page_locked(layout: Layout, dtype: DType) -> Result<Tensor> {
    checked_new(&layout.sizes)?;
    let bytes = layout.checked_bytes(dtype.size())?;
    Ok(Tensor::new(rushlight_cuda::pinned::allocate(bytes)?, layout, dtype, Device::Cpu))
}

/// Whether `pin_memory=True` of a factory has an effect. It has none on `meta`, and without a device that could use the memory.
pub fn wants_page_locked(wanted: bool, device: Device) -> Result<bool> {
    match device {
        _ if !wanted => Ok(false),
        Device::Cpu if rushlight_cuda::device_count() > 0 => Ok(true),
        Device::Cpu => crate::interpreter::warn(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        )
        .map(|()| false),
        Device::Cuda(_) => Err(Error::runtime("Only dense CPU tensors can be pinned")
            .hint(format!("Memory on {device} is not the host's: leave pin_memory out."))),
        Device::Meta | Device::Unsupported(_) => Ok(false),
    }
}

/// A new tensor of the host moved to page-locked memory.
pub fn moved_to_page_locked(tensor: &Tensor) -> Result<Tensor> {
    let strides = tensor.layout().preserved_strides();
    let moved = page_locked(Layout { sizes: tensor.sizes().clone(), strides, offset: 0 }, tensor.dtype())?;
    crate::copy::copy(&moved, tensor)?;
    moved.set_requires_grad(tensor.requires_grad())?;
    Ok(moved)
}

/// `pin_memory=` of a factory whose result a kernel has filled.
#[inline]
pub fn in_asked_memory(args: &Args, output: Output) -> Result<Output> {
    let Some([_, _, device, pinned, _]) = args.op.schema().options else { return Ok(output) };
    let device = args.device(device).or_else(default_device).unwrap_or(Device::Cpu);
    match wants_page_locked(args.optional_bool(pinned).unwrap_or(false), device)? {
        true => output.map(|tensor| moved_to_page_locked(&tensor)),
        false => Ok(output),
    }
}

/// `requires_grad=` of a factory.
pub fn ask_gradient(tensor: &Tensor, wanted: bool) -> Result<()> {
    if !wanted {
        return Ok(());
    }
    if !tensor.dtype().is_differentiable() {
        return Err(Error::runtime("Only Tensors of floating point and complex dtype can require gradients"));
    }
    tensor.set_requires_grad(true)
}
