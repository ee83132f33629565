//! Memory for tensors.

use rushlight_autograd::Tensor;
use rushlight_core::block::Block;
use rushlight_core::layout::checked_new;
use rushlight_core::{Device, Result, Storage};

use crate::operator::TensorSpec;

/// Memory on `device`; on `meta` only its size.
pub fn storage(device: Device, bytes: usize) -> Result<Storage> {
    match device {
        Device::Cpu => Storage::heap(bytes),
        Device::Meta => Ok(Storage::new(Block::meta(bytes))),
        Device::Cuda(index) => rushlight_cuda::storage::allocate(index, bytes),
        Device::Unsupported(unsupported) => Err(unsupported.refusal("empty.memory_format")),
    }
}

/// Uninitialised elements for a result.
pub fn allocate(spec: &TensorSpec) -> Result<Tensor> {
    checked_new(&spec.layout.sizes)?;
    let storage = storage(spec.device, spec.layout.checked_bytes(spec.dtype.size())?)?;
    Ok(Tensor::new(storage, spec.layout.clone(), spec.dtype, spec.device))
}
