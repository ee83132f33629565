//! Copies inside of CUDA graphs.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Error, Result};
use rushlight_cuda::{capture, stream};

/// torch's error for a copy inside of a graph from or to memory of the host that may be elsewhere when the graph runs.
pub fn check(to: &Tensor, from: &Tensor) -> Result<()> {
    let (device, host) = match (to.device(), from.device()) {
        (Device::Cuda(device), Device::Cpu) => (device, from),
        (Device::Cpu, Device::Cuda(device)) => (device, to),
        _ => return Ok(()),
    };
    if !capture::is_capturing(device, stream::current(device)) || host.storage().is_page_locked() {
        return Ok(());
    }
    Err(Error::runtime(
        "Cannot copy between CPU and CUDA tensors during CUDA graph capture unless the CPU tensor is pinned. Please use \
         tensor.pin_memory() or allocate the tensor with pin_memory=True.",
    ))
}
