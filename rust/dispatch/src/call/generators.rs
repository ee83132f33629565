//! The generator of a call that draws random numbers: that of its device, if none was given.

use rushlight_core::{Device, Error, Result};

use crate::generator::Generator;
use crate::operator::Args;
use crate::value::Value;

/// The arguments of a call that draws random numbers on a device, with the device's default generator if none was given; `None`
/// if nothing is missing.
pub fn completed<'a>(args: &Args<'a>) -> Result<Option<Args<'a>>> {
    let schema = args.op.schema();
    let Some(place) = schema.arg("generator") else { return Ok(None) };
    let placed = schema.options.and_then(|[_, _, device, ..]| args.device(device));
    let device = placed.or_else(|| args.each_tensor().next().map(|(_, tensor)| tensor.device()));
    let device = device.or_else(rushlight_core::device::default_device).unwrap_or(Device::Cpu);
    match args.generator(place) {
        Some(_) if device == Device::Meta => Ok(None),
        Some(generator) => fits(args, device, generator.device()).map(|()| None),
        None if matches!(device, Device::Cuda(_)) => {
            let mut args = args.clone();
            args.set(place, Value::Generator(Generator::default_of(device)));
            Ok(Some(args))
        }
        None => Ok(None),
    }
}

/// Returns torch's error for a generator that cannot draw the numbers of a device. One of another GPU can, as in torch, except for
/// `randperm`.
fn fits(args: &Args, device: Device, own: Device) -> Result<()> {
    let expected = match args.op.python_name() {
        _ if own == device => return Ok(()),
        "randperm" => format!("Expected a '{device}' generator device but found '{own}'"),
        _ if own.kind() == device.kind() => return Ok(()),
        _ => format!("Expected a '{}' device type for generator but found '{}'", device.kind(), own.kind()),
    };
    Err(Error::runtime(expected).hint(format!("The numbers are for {device}, and the generator is on {own}.")))
}
