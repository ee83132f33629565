//! The fast path of a call: operands of one shape and dtype need no strides, no broadcasting and no conversion.
//!
//! The steps are the same, but their results are known beforehand. Everything else takes the general path
//! (`call` of the crate). `call` here has what the forms for the host (`on_host`) and for CUDA devices (`on_cuda`) share.

mod call;
mod on_cuda;
mod on_host;

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Result, Scalar};

use self::call::Call;
pub use self::call::GilHeld;
use crate::operator::{Args, Operator, Pointwise};
use crate::value::Operand;

/// Whether the operator's check accepts an operand without running. No check rejects an int or a float next to a
/// tensor; a call without tensors does not take the fast path.
#[inline]
pub fn is_unchecked(op: &Operator, operand: Operand) -> bool {
    match operand {
        Operand::Tensor(tensor) => !op.checked_dtypes.has(tensor.dtype()),
        Operand::Number(number) => number.is_floating() || number.is_integral(),
    }
}

/// The result of a pointwise operator, if all its tensors are row-major, on one device and of one shape and dtype, and small on the
/// host; else `None`. An in-place call passes its arguments as `over`, and its first tensor is the result.
#[inline]
pub fn attempt(
    op: &'static Operator,
    body: &Pointwise,
    operands: &[Operand],
    numbers: &[Scalar],
    over: Option<&Args>,
    gil: Option<GilHeld>,
) -> Result<Option<Tensor>> {
    let Some(model) = operands.iter().find_map(Operand::as_tensor) else { return Ok(None) };
    let call = Call { op, body, model, numbers, over, gil };
    match operands {
        [x] => attempt_n(call, [*x]),
        [x, y] => attempt_n(call, [*x, *y]),
        [x, y, z] => attempt_n(call, [*x, *y, *z]),
        _ => Ok(None),
    }
}

/// The same for a known number of operands, so that loops over them are unrolled.
#[inline]
fn attempt_n<const N: usize>(call: Call, operands: [Operand; N]) -> Result<Option<Tensor>> {
    match call.model.device() {
        Device::Cpu => on_host::attempt(call, operands),
        Device::Cuda(index) => on_cuda::attempt(call, index, &operands),
        _ => Ok(None),
    }
}
