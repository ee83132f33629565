//! Copies on one device.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Layout, Result};
use rushlight_cpu::pointwise::RawOperand;

use crate::device_loops;
use crate::interpreter::while_detached;

/// Overwrites the view `target` of one storage with the view `source`, of the same sizes, of another on the same device.
pub fn copy(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout) -> Result<()> {
    if let Device::Cuda(_) = to.device() {
        return device_loops::convert(to, target, from, source);
    }
    while_detached(target.numel(), || {
        let (out, input) = (to.storage().pin()?, from.storage().pin()?);
        let operands = [
            RawOperand { pointer: out.as_ptr(), dtype: to.dtype() },
            RawOperand { pointer: input.as_ptr(), dtype: from.dtype() },
        ];
        // SAFETY: layouts stay within their pinned storages.
        unsafe { rushlight_cpu::convert::copy::copy(target, source, operands) };
        Ok(())
    })
}
