//! Step 1 of a call: where its tensors live.

use rushlight_core::{Device, Error, Result};

use crate::row::Traits;
use crate::value::Args;

/// All tensors live on one device; a 0-d tensor of the host goes with any.
#[inline]
pub fn check_devices(args: &Args) -> Result<Device> {
    if args.all_tensors(|tensor| tensor.device() == Device::Cpu) {
        return Ok(Device::Cpu);
    }
    if args.row.traits.has(Traits::ACROSS_DEVICES) {
        return Ok(args.tensor(0)?.device());
    }
    let mut device = None;
    for (_, tensor) in args.each_tensor() {
        let own = tensor.device();
        match device {
            None => device = Some((own, tensor.layout().rank())),
            Some((first, rank)) if first != own => {
                if first == Device::Cpu && rank == 0 {
                    device = Some((own, tensor.layout().rank()));
                } else if own != Device::Cpu || tensor.layout().rank() != 0 {
                    return Err(Error::runtime(format!(
                        "Expected all tensors to be on the same device, but found at least two devices, {first} and {own}!"
                    ))
                    .hint("Move one of them: x.to(y.device)."));
                }
            }
            _ => {}
        }
    }
    Ok(device.map_or(Device::Cpu, |(device, _)| device))
}
