//! Devices: where a tensor's bytes are.

use std::cell::Cell;
use std::fmt;

use crate::error::{Class, Error, Result};

/// A device: the host, a CUDA GPU by index, or `meta`, whose tensors have sizes and no data. Programs may name and compare
/// devices of types that rushlight does not support; no tensor is on them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Device {
    Cpu,
    Cuda(u8),
    Meta,
    Unsupported(Unsupported),
}

/// A device type that rushlight does not support: its place in `KINDS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Unsupported(u8);

impl Unsupported {
    pub fn kind(self) -> &'static str {
        KINDS[usize::from(self.0)]
    }

    /// Whether torch looks for the module of the device type before it allocates.
    pub fn needs_module(self) -> bool {
        matches!(self.kind(), "xpu" | "mtia" | "hpu" | "privateuseone")
    }

    /// The error for a new tensor on such a device, in torch's words; `function` is the one of torch that allocates.
    #[cold]
    pub fn refusal(self, function: &str) -> Error {
        let kind = self.kind();
        let error = match kind {
            "xpu" => Error::new(Class::Assertion, "Torch not compiled with XPU enabled"),
            "mtia" => Error::new(
                Class::Assertion,
                "Torch not compiled with MTIA enabled. Ensure you have `import mtia.host_runtime.torch_mtia.dynamic_library` in \
                 your python src file and include `//mtia/host_runtime/torch_mtia:torch_mtia` as your target dependency!",
            ),
            "hpu" | "privateuseone" => Error::new(Class::ModuleNotFound, format!("No module named 'torch.{kind}'")),
            _ if NAMES_ALONE.contains(&kind) => Error::runtime(format!(
                "This is a grandfathered Caffe2 device type {kind}, it shouldn't ever convert to a DispatchKey."
            )),
            _ => {
                let backend = match kind {
                    "vulkan" => "Vulkan".to_string(),
                    "lazy" => "Lazy".to_string(),
                    _ => kind.to_ascii_uppercase(),
                };
                Error::not_implemented(format!(
                    "Could not run 'aten::{function}' with arguments from the '{backend}' backend."
                ))
            }
        };
        error.hint(SUPPORTED)
    }

    /// The error for moving a tensor to such a device, which may have been given with a number.
    #[cold]
    pub fn refusal_of_move(self, numbered: bool) -> Error {
        match self.kind() {
            _ if self.needs_module() => self.refusal(""),
            "lazy" => self.refusal("empty.memory_format"),
            _ if numbered => self.refusal("empty_strided"),
            kind => Error::runtime(format!("PyTorch is not linked with support for {kind} devices")).hint(SUPPORTED),
        }
    }
}

const SUPPORTED: &str = "rushlight has the devices 'cpu', 'cuda' and 'meta'.";

/// Device types of which torch has the name alone.
const NAMES_ALONE: [&str; 4] = ["mkldnn", "opengl", "opencl", "ideep"];

/// torch's device types, in the order in which its message lists them.
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
    /// Reads `"cpu"`, `"cuda"`, `"cuda:1"`, `"mps"`; the second value is the index if one was written.
    pub fn parse(text: &str) -> Result<(Device, Option<u8>)> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, digits)) => {
                let canonical = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
                if !canonical || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(Error::runtime(format!("Invalid device string: '{text}'")));
                }
                let Ok(index) = digits.parse::<i32>() else {
                    return Err(Error::runtime(format!(
                        "Could not parse device index '{digits}' in device string '{text}'"
                    )));
                };
                (kind, Some(u8::try_from(index).map_err(|_| Error::runtime("Device index is out of range"))?))
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
            _ => match KINDS.iter().position(|known| *known == kind) {
                Some(place) => Device::Unsupported(Unsupported(place as u8)),
                None => {
                    return Err(Error::runtime(format!(
                        "Expected one of {} device type at start of device string: {kind}",
                        KINDS.join(", ")
                    )));
                }
            },
        };
        Ok((device, index))
    }

    pub fn kind(self) -> &'static str {
        match self {
            Device::Cpu => "cpu",
            Device::Cuda(_) => "cuda",
            Device::Meta => "meta",
            Device::Unsupported(unsupported) => unsupported.kind(),
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
