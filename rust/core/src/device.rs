//! Devices: where a tensor's bytes are.

use std::cell::Cell;
use std::fmt;

use crate::error::{Error, Result};

/// A device: the host, a CUDA GPU by index, or `meta`, whose tensors have sizes and no data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    Cpu,
    Cuda(u8),
    Meta,
}

/// The device types that torch's message lists.
const KINDS: [&str; 20] = [
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
];

impl Device {
    /// Reads `"cpu"`, `"cuda"`, `"cuda:1"`, `"meta"`; the second value is the index if one was written.
    pub fn parse(text: &str) -> Result<(Device, Option<u8>)> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, digits)) => {
                let canonical = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
                match digits.parse::<u8>() {
                    Ok(index) if canonical && digits.bytes().all(|b| b.is_ascii_digit()) => (kind, Some(index)),
                    _ => return Err(Error::runtime(format!("Invalid device string: '{text}'"))),
                }
            }
            None => (text, None),
        };
        let device = match kind {
            "cpu" => Device::Cpu,
            "cuda" => Device::Cuda(index.unwrap_or(0)),
            "meta" => Device::Meta,
            "" => return Err(Error::runtime("Device string must not be empty")),
            _ if !kind.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') => {
                return Err(Error::runtime(format!("Invalid device string: '{text}'")));
            }
            _ if KINDS.contains(&kind) => {
                return Err(Error::runtime(format!("PyTorch is not linked with support for {kind} devices"))
                    .hint("rushlight runs on the CPU only at present: use device='cpu'."));
            }
            _ => {
                return Err(Error::runtime(format!(
                    "Expected one of {} device type at start of device string: {kind}",
                    KINDS.join(", ")
                )));
            }
        };
        Ok((device, index))
    }

    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Meta => "meta",
        }
    }
}

thread_local! {
    static DEFAULT: Cell<Option<Device>> = const { Cell::new(None) };
}

/// The device on which this thread creates tensors, if `torch.set_default_device` has set one.
#[inline]
pub fn default_device() -> Option<Device> {
    DEFAULT.get()
}

/// Sets the device on which this thread creates tensors; returns the previous setting.
pub fn set_default_device(device: Option<Device>) -> Option<Device> {
    DEFAULT.replace(device)
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            other => f.write_str(other.kind()),
        }
    }
}
