//! Convolutions on CUDA devices that cuDNN does not compute: operands are read where they lie, and the result is written where it
//! belongs. Only a few long sums need memory, for those of their pieces.

use rushlight_autograd::Tensor;
use rushlight_core::convolution::Computed;
use rushlight_core::{Dims, Error, Result};
use rushlight_cuda::convolution::{Convolution, Operand};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operator::TensorSpec;

use super::space::Space;
use crate::convert::to_dtype;
use crate::held::Held;

/// Distances in bytes, with those of missing dimensions of space before the others.
fn strides(tensor: &Tensor) -> [i64; 5] {
    let (given, missing) = (&tensor.layout().strides, 5 - tensor.rank());
    std::array::from_fn(|dim| match dim {
        0 | 1 => given[dim],
        _ if dim < 2 + missing => 0,
        _ => given[dim - missing],
    })
    .map(|stride| (stride * tensor.dtype().size() as isize) as i64)
}

/// Computes one tensor from the other two of input, weight and output, and adds the bias to the channels of the result.
pub fn run(computed: Computed, space: &Space, operands: [&Tensor; 3], bias: Option<&Tensor>) -> Result<()> {
    let result = operands[computed.position()];
    let dtype = result.dtype();
    let ready = |tensor: &Tensor| to_dtype(&tensor.detach(), dtype);
    let [input, weight, output] = operands;
    let tensors = [ready(input)?, ready(weight)?, ready(output)?];
    let bias = bias.map(ready).transpose()?;
    let geometry = space.geometry(operands.map(|tensor| tensor.sizes().as_slice()));
    let mut held = Held::on(result)?;
    let addresses = held.addresses(tensors.each_ref())?;
    let operands = std::array::from_fn(|n| Operand { first_byte: addresses[n], strides: strides(&tensors[n]) });
    let step = |bias: &Tensor| (bias.layout().strides[0] * dtype.size() as isize) as i64;
    let bias = bias.as_ref().map(|bias| Ok::<_, Error>((held.address(bias)?, step(bias)))).transpose()?;
    let mut convolution = Convolution::new(computed, dtype, &geometry, operands, bias);
    let sums = match convolution.workspace() {
        0 => None,
        count => Some(allocate(&TensorSpec::new(&Dims::from_slice(&[count as isize]), dtype.compute(), result))?),
    };
    let mut room = Held::on(result)?;
    let workspace = room.optional(sums.as_ref())?;
    // SAFETY: the tensors have the sizes of the geometry, and their storages are held for the stream.
    unsafe { convolution.run(held.card, held.stream, workspace) }
}
