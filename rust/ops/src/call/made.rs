//! Tensors that take operands' places before a loop runs.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Result};
use smallvec::SmallVec;

use super::Written;
use crate::short::{Operand, Operands};

/// What was made from operands, each at its operand's place.
pub(super) type Made = SmallVec<[Option<Tensor>; 4]>;

/// The operands, with those that were made from them in their places.
pub(super) fn instead<'a, 'b: 'a>(operands: Operands<'b>, made: &'a [Option<Tensor>]) -> Operands<'a> {
    let made = made.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    operands.iter().zip(made).map(|(operand, made)| made.map_or(*operand, Operand::Tensor)).collect()
}

/// Copies of the operands that the loop would change while it reads them; nothing where there are none.
pub(super) fn copied(written: &Written, operands: &Operands) -> Result<Made> {
    if let Written::Fresh(_) = written {
        return Ok(Made::new());
    }
    let copy = |operand: &Operand| match operand {
        Operand::Tensor(tensor) if crate::variants::must_be_copied(written.tensor(), tensor)? => {
            crate::copy::clone(tensor).map(Some)
        }
        _ => Ok(None),
    };
    let copies = operands.iter().map(copy).collect::<Result<Made>>()?;
    Ok(if copies.iter().any(Option::is_some) { copies } else { Made::new() })
}

/// What a question in a half type asks about: operands of another dtype are rounded to it before they are compared, or a
/// half that was made from 0.1 would not equal 0.1. Nothing in other dtypes.
pub(super) fn in_half(operands: &Operands, dtype: DType, device: Device) -> Result<Made> {
    if !dtype.is_half() {
        return Ok(Made::new());
    }
    let rounded = |operand: &Operand| match operand {
        Operand::Number(number) => crate::create::scalar_of(*number, dtype, device).map(Some),
        Operand::Tensor(tensor) if tensor.dtype() != dtype => {
            crate::convert::to_dtype(&tensor.detach(), dtype).map(Some)
        }
        Operand::Tensor(_) => Ok(None),
    };
    operands.iter().map(rounded).collect()
}
