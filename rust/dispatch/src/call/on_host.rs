//! The CPU's form of an operator for tensors of a CUDA device: it gets copies of the operands on the host, and what it
//! writes is copied back. Such an operator waits for the device, and is correct rather than fast.

use crate::value::{Output, Value};
use rushlight_autograd::Tensor;
use rushlight_core::{Device, Layout, Result};

use crate::allocate::allocate;
use crate::copy::copy;
use crate::operator::{Args, ExplicitFn, KernelFn, TensorSpec, UpdateFn};

/// New memory of the host for a tensor, with its order of dimensions.
fn room(tensor: &Tensor) -> Result<Tensor> {
    let strides = tensor.layout().preserved_strides();
    let layout = Layout { sizes: tensor.sizes().clone(), strides, offset: 0 };
    allocate(&TensorSpec { layout, dtype: tensor.dtype(), device: Device::Cpu })
}

/// The tensor itself, or its copy on the host.
fn copied(tensor: &Tensor) -> Result<Tensor> {
    if !matches!(tensor.device(), Device::Cuda(_)) {
        return Ok(tensor.clone());
    }
    let room = room(tensor)?;
    copy(&room, tensor)?;
    Ok(room)
}

/// The arguments on the host.
fn arguments<'a>(args: &Args<'a>) -> Result<Args<'a>> {
    let mut args = args.replaced(copied)?;
    for value in &mut args.values {
        if let Value::Device(device @ Device::Cuda(_)) = value {
            *device = Device::Cpu;
        }
    }
    Ok(args)
}

/// Runs a kernel that fills results.
pub fn fill(kernel: KernelFn, args: &Args, results: &[Tensor]) -> Result<()> {
    let rooms = results.iter().map(room).collect::<Result<Vec<_>>>()?;
    kernel(&arguments(args)?, &rooms)?;
    results.iter().zip(&rooms).try_for_each(|(result, room)| copy(result, room))
}

/// Runs a function that changes a tensor.
pub fn change(function: UpdateFn, args: &Args, tensor: &Tensor) -> Result<()> {
    let changed = copied(tensor)?;
    function(&arguments(args)?, &changed)?;
    copy(tensor, &changed)
}

/// Runs a body that makes its results.
pub fn compute(body: ExplicitFn, args: &Args, device: Device) -> Result<Output> {
    body(&arguments(args)?)?.map(|result| {
        let layout = Layout { offset: 0, ..result.layout().clone() };
        let layout = if layout.is_dense() { layout } else { Layout::contiguous(result.sizes()) };
        let there = allocate(&TensorSpec { layout, dtype: result.dtype(), device })?;
        copy(&there, &result)?;
        Ok(there)
    })
}
