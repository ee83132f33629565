//! Temporary tensors that replace operands before a loop runs.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Result};
use smallvec::SmallVec;

use super::destination::Destination;
use crate::operator::{Operator, Tags};
use crate::primitives::primitives;
use crate::value::{Operand, Operands};

/// Replacements of operands, each at its operand's index.
pub(super) type Temporaries = SmallVec<[Option<Tensor>; 4]>;

/// The operands, with the replacements in their positions.
pub(super) fn substituted<'a, 'b: 'a>(operands: Operands<'b>, temporaries: &'a [Option<Tensor>]) -> Operands<'a> {
    let temporaries = temporaries.iter().map(Option::as_ref).chain(std::iter::repeat(None));
    operands
        .iter()
        .zip(temporaries)
        .map(|(operand, temporaries)| temporaries.map_or(*operand, Operand::Tensor))
        .collect()
}

/// Copies of the operands that the loop would overwrite while it reads them; empty if there are none.
pub(super) fn copied(written: &Destination, operands: &Operands) -> Result<Temporaries> {
    if let Destination::Fresh(_) = written {
        return Ok(Temporaries::new());
    }
    let copy = |operand: &Operand| match operand {
        Operand::Tensor(tensor) if crate::overlap::must_be_copied(written.tensor(), tensor)? => {
            crate::copy::clone(tensor).map(Some)
        }
        _ => Ok(None),
    };
    let copies = operands.iter().map(copy).collect::<Result<Temporaries>>()?;
    Ok(if copies.iter().any(Option::is_some) { copies } else { Temporaries::new() })
}

/// The operands of a call in a narrow type, which computes in a wider one: those of another dtype are rounded to it first, as in torch. Otherwise a half
/// made from 0.1 would not equal 0.1. Empty for other dtypes.
pub(super) fn in_half(op: &Operator, operands: &Operands, dtype: DType, device: Device) -> Result<Temporaries> {
    if dtype.compute() == dtype {
        return Ok(Temporaries::new());
    }
    // Only the half types have such operators.
    let unrounded = dtype.is_half() && op.tags.has(Tags::UNROUNDED_NUMBERS);
    let rounded = |(at, operand): (usize, &Operand)| match operand {
        Operand::Number(_) if at > 0 && unrounded => Ok(None),
        Operand::Tensor(tensor) if tensor.dtype() == dtype || at > 0 && tensor.rank() == 0 && unrounded => Ok(None),
        Operand::Number(number) => crate::create::scalar_of(*number, dtype, device).map(Some),
        Operand::Tensor(tensor) => (primitives()?.cast)(&tensor.detach(), dtype).map(Some),
    };
    operands.iter().enumerate().map(rounded).collect()
}
