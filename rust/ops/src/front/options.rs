//! The dtype, the device and the gradient of a new tensor.

use rushlight_core::{DType, Device};
use rushlight_dispatch::value::Value;

/// What a factory makes. Each part has torch's default: float32, the CPU, no gradient.
///
/// ```
/// # use rushlight::{DType, Result};
/// # fn main() -> Result<()> {
/// let x = rushlight::zeros(&[2], rushlight::dtype(DType::F64).requires_grad(true))?;
/// assert!(x.dtype() == DType::F64 && x.requires_grad());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default)]
pub struct TensorOptions {
    dtype: Option<DType>,
    device: Option<Device>,
    requires_grad: bool,
}

impl TensorOptions {
    pub fn dtype(self, dtype: DType) -> Self {
        TensorOptions { dtype: Some(dtype), ..self }
    }

    pub fn device(self, device: Device) -> Self {
        TensorOptions { device: Some(device), ..self }
    }

    pub fn requires_grad(self, requires_grad: bool) -> Self {
        TensorOptions { requires_grad, ..self }
    }

    /// The keywords of every factory, in the order of its signature: dtype, layout, device, pin_memory, requires_grad.
    pub(super) fn values(self) -> [Value<'static>; 5] {
        [
            self.dtype.into(),
            Value::None,
            self.device.map_or(Value::None, Value::Device),
            Value::None,
            self.requires_grad.into(),
        ]
    }
}

/// The defaults.
impl From<()> for TensorOptions {
    fn from(_: ()) -> Self {
        TensorOptions::default()
    }
}

/// The options of a tensor of this dtype.
pub fn dtype(dtype: DType) -> TensorOptions {
    TensorOptions::default().dtype(dtype)
}

/// The options of a tensor on this device.
pub fn device(device: Device) -> TensorOptions {
    TensorOptions::default().device(device)
}

/// The options of a tensor that requires a gradient.
pub fn requires_grad() -> TensorOptions {
    TensorOptions::default().requires_grad(true)
}
