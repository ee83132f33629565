//! Convolutions on CUDA devices that cuDNN does not compute: operands are read where they lie, and the result is written where it
//! belongs. Only a few long sums need memory, for those of their pieces.

use rushlight_autograd::Tensor;
use rushlight_core::window::WindowDim;
use rushlight_core::{Dims, Error, Result};
use rushlight_cpu::nn::conv::Target;
use rushlight_cuda::convolution::{Convolution, Geometry, Operand};
use rushlight_cuda::dnn;
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::TensorSpec;
use rushlight_dispatch::value::{Ints, Value};

use crate::convert::to_dtype;
use crate::held::Held;
use crate::join::pad::CONSTANT_PAD;

/// The groups of channels, and the geometry of the spatial dimensions. The padding is that before all of them, and then that
/// after, which follows from the sizes.
pub struct Space<'a> {
    pub groups: isize,
    pub strides: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
}

/// The input with its widths of zeros, which may be negative.
pub fn padded(input: &Tensor, before: &[i64], after: &[i64]) -> Result<Tensor> {
    let widths: Ints = before.iter().zip(after).rev().flat_map(|(&before, &after)| [before, after]).collect();
    match widths.iter().all(|&width| width == 0) {
        true => Ok(input.clone()),
        false => op!(CONSTANT_PAD, input, Value::Ints(widths)),
    }
}

/// The target of the crate for CUDA.
pub fn target_of(target: Target) -> dnn::Target {
    match target {
        Target::Output => dnn::Target::Output,
        Target::Input => dnn::Target::Input,
        Target::Weight => dnn::Target::Weight,
    }
}

/// Distances in bytes, with those of missing dimensions of space before the others.
fn strides(tensor: &Tensor) -> [i64; 5] {
    let (own, missing) = (&tensor.layout().strides, 5 - tensor.rank());
    std::array::from_fn(|dim| match dim {
        0 | 1 => own[dim],
        _ if dim < 2 + missing => 0,
        _ => own[dim - missing],
    })
    .map(|stride| (stride * tensor.dtype().size() as isize) as i64)
}

/// Computes the target from the other two of input, weight and output, and adds the bias to the channels of the result.
pub fn run(target: Target, space: &Space, operands: [&Tensor; 3], bias: Option<&Tensor>) -> Result<()> {
    let [input, weight, output] = operands;
    let result = match target {
        Target::Output => output,
        Target::Weight => weight,
        Target::Input => input,
    };
    let dtype = result.dtype();
    let ready = |tensor: &Tensor| to_dtype(&tensor.detach(), dtype);
    let tensors = [ready(input)?, ready(weight)?, ready(output)?];
    let bias = bias.map(ready).transpose()?;
    let kernel: Ints = weight.sizes()[2..].iter().map(|&size| size as i64).collect();
    let lists = [&kernel, space.strides, &space.padding[..kernel.len()], space.dilation];
    let geometry = Geometry {
        batch: input.sizes()[0] as usize,
        groups: space.groups as usize,
        channels: weight.sizes()[1] as usize,
        features: (weight.sizes()[0] / space.groups) as usize,
        space: WindowDim::space(&input.sizes()[2..], &output.sizes()[2..], lists),
    };
    let mut held = Held::on(result)?;
    let addresses = held.addresses(tensors.each_ref())?;
    let operands = std::array::from_fn(|n| Operand { at: addresses[n], strides: strides(&tensors[n]) });
    let step = |bias: &Tensor| (bias.layout().strides[0] * dtype.size() as isize) as i64;
    let bias = bias.as_ref().map(|bias| Ok::<_, Error>((held.address(bias)?, step(bias)))).transpose()?;
    let mut convolution = Convolution::new(target_of(target), dtype, &geometry, operands, bias);
    let sums = match convolution.workspace() {
        0 => None,
        count => Some(allocate(&TensorSpec::new(&Dims::from_slice(&[count as isize]), dtype.compute(), result))?),
    };
    let mut room = Held::on(result)?;
    let workspace = room.optional(sums.as_ref())?;
    // SAFETY: the tensors have the sizes of the geometry, and their storages are held for the stream.
    unsafe { convolution.run(held.card, held.stream, workspace) }
}
