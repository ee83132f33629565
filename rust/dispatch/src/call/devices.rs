//! The device of a call's tensors, and the implementation for that device.

use rushlight_core::{Device, Result};

use super::errors::not_on_cuda;
use super::two_devices;
use crate::operator::{Args, OnCuda, Operator, Tags};

/// Checks that all tensors are on one device; a 0-d tensor on the CPU may be combined with any.
#[inline]
pub fn check_devices(args: &Args) -> Result<Device> {
    if args.all_tensors(|tensor| tensor.device() == Device::Cpu) {
        return Ok(Device::Cpu);
    }
    if args.op.tags.has(Tags::MIXED_DEVICES) {
        return Ok(args.each_tensor().next().map_or(Device::Cpu, |(_, first)| first.device()));
    }
    // The device so far, and whether all tensors so far are numbers on the CPU.
    let mut device = None;
    for (_, tensor) in args.each_tensor() {
        let own = tensor.device();
        let is_number = own == Device::Cpu && tensor.layout().rank() == 0;
        device = match device {
            None => Some((own, is_number)),
            Some((first, numbers)) if first == own => Some((own, numbers && is_number)),
            Some((_, true)) => Some((own, false)),
            kept if is_number => kept,
            Some((first, false)) => return Err(two_devices::refuse(args, first, own)),
        };
    }
    Ok(device.map_or(Device::Cpu, |(device, _)| device))
}

/// The implementation for tensors on a device, and where it runs.
pub enum Chosen<F> {
    /// On the tensors themselves.
    Here(F),
    /// On copies of the tensors on the host; see `on_host`.
    OnHost(F),
    /// Nowhere: on `meta` there is nothing to compute.
    Nowhere,
}

/// Chooses the implementation for tensors on `device`.
#[inline]
pub fn select_kernel<F>(op: &Operator, device: Device, cpu: F, cuda: OnCuda<F>) -> Result<Chosen<F>> {
    match (device, cuda) {
        (Device::Cpu, _) => Ok(Chosen::Here(cpu)),
        (Device::Meta, _) => Ok(Chosen::Nowhere),
        (Device::Cuda(_), OnCuda::Own(own)) => Ok(Chosen::Here(own)),
        (Device::Cuda(_), OnCuda::Host) => Ok(Chosen::OnHost(cpu)),
        (Device::Cuda(_), OnCuda::Refused(reason)) => Err(not_on_cuda(op).hint(reason)),
        (Device::Unsupported(unsupported), _) => Err(unsupported.refusal(op.name)),
    }
}
