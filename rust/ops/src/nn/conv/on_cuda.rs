//! Convolutions on CUDA devices that cuDNN does not compute, as products of matrices: the windows of the input are a strided view, which is copied into
//! columns. The gradient of the input is a convolution of the gradient, with zeros between its elements, by the turned weight.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Dims, Layout, Result};
use rushlight_cpu::nn::conv::Target;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::value::{Ints, Value, sizes_value};
use rushlight_dispatch::{autocast, copy, create, op};

use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::join::pad::CONSTANT_PAD;
use crate::view::RESHAPE;

/// The groups of channels, and the geometry of the spatial dimensions. The padding is that before all of them, and then that
/// after, which follows from the sizes.
pub struct Space<'a> {
    pub groups: isize,
    pub strides: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
}

/// A tensor with other dimensions before its spatial ones.
fn shaped(tensor: &Tensor, leading: &[isize], from: usize) -> Result<Tensor> {
    let sizes = [leading, &tensor.sizes()[from..]].concat();
    op!(RESHAPE, tensor, sizes_value(&sizes))
}

fn reshaped(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    op!(RESHAPE, tensor, sizes_value(sizes))
}

/// The input with its widths of zeros, which may be negative.
pub fn padded(input: &Tensor, before: &[i64], after: &[i64]) -> Result<Tensor> {
    let widths: Ints = before.iter().zip(after).rev().flat_map(|(&before, &after)| [before, after]).collect();
    match widths.iter().all(|&width| width == 0) {
        true => Ok(input.clone()),
        false => op!(CONSTANT_PAD, input, Value::Ints(widths)),
    }
}

/// The windows of an input: `(N, groups, channels, *output, *kernel)`, a view.
fn windows(input: &Tensor, kernel: &[isize], output: &[isize], space: &Space) -> Result<Tensor> {
    let dims = kernel.len();
    // Windows end before the padding does, or an element after it.
    let needed = |dim: usize| {
        (output[dim] as i64 - 1) * space.strides[dim] + (kernel[dim] as i64 - 1) * space.dilation[dim] + 1
            - input.sizes()[2 + dim] as i64
            - space.padding[dim]
    };
    let after: Vec<i64> = (0..dims).map(needed).collect();
    let whole = padded(input, &space.padding[..dims], &after)?;
    let layout = whole.layout();
    let channels = layout.sizes[1] / space.groups;
    let step = |dim: usize, by: &[i64]| layout.strides[2 + dim] * by[dim] as isize;
    let sizes = [&[layout.sizes[0], space.groups, channels][..], output, kernel].concat();
    let mut strides = vec![layout.strides[0], layout.strides[1] * channels, layout.strides[1]];
    strides.extend((0..dims).map(|dim| step(dim, space.strides)));
    strides.extend((0..dims).map(|dim| step(dim, space.dilation)));
    let view = Layout { sizes: Dims::from_slice(&sizes), strides: Dims::from_slice(&strides), offset: layout.offset };
    Ok(Tensor::view_of(&whole, view))
}

/// Windows in another order of dimensions.
fn ordered(windows: &Tensor, order: &[usize]) -> Tensor {
    Tensor::view_of(windows, windows.layout().permute(order))
}

/// The dimensions of the outputs and of the kernel in windows.
fn spatial(dims: usize) -> [Vec<usize>; 2] {
    [(3..3 + dims).collect(), (3 + dims..3 + 2 * dims).collect()]
}

/// The output for an input and a weight.
fn forward(input: &Tensor, weight: &Tensor, output: &[isize], space: &Space) -> Result<Tensor> {
    let kernel = &weight.sizes()[2..];
    let windows = windows(input, kernel, output, space)?;
    let [of_output, of_kernel] = spatial(kernel.len());
    let order = [&[0, 1, 2][..], &of_kernel, &of_output].concat();
    let (samples, features) = (input.sizes()[0], weight.sizes()[0] / space.groups);
    let (depth, spots) = (weight.sizes()[1] * kernel.iter().product::<isize>(), output.iter().product::<isize>());
    let columns = reshaped(&ordered(&windows, &order), &[samples, space.groups, depth, spots])?;
    let rows = reshaped(weight, &[1, space.groups, features, depth])?;
    let sizes = [&[samples, weight.sizes()[0]][..], output].concat();
    reshaped(&Expr::from(rows).matmul(columns).done()?, &sizes)
}

/// The gradient of the weight.
fn of_weight(input: &Tensor, grad: &Tensor, sizes: &[isize], space: &Space) -> Result<Tensor> {
    let (kernel, output) = (&sizes[2..], &grad.sizes()[2..]);
    let windows = windows(input, kernel, output, space)?;
    let [of_output, of_kernel] = spatial(kernel.len());
    let order = [&[1, 0][..], &of_output, &[2], &of_kernel].concat();
    let (samples, features) = (input.sizes()[0], sizes[0] / space.groups);
    let (depth, spots) = (sizes[1] * kernel.iter().product::<isize>(), output.iter().product::<isize>());
    let columns = reshaped(&ordered(&windows, &order), &[space.groups, samples * spots, depth])?;
    let grads = reshaped(grad, &[samples, space.groups, features, spots])?;
    let rows = reshaped(&ordered(&grads, &[1, 2, 0, 3]), &[space.groups, features, samples * spots])?;
    reshaped(&Expr::from(rows).matmul(columns).done()?, sizes)
}

/// The gradient of the input.
fn of_input(grad: &Tensor, weight: &Tensor, sizes: &[isize], space: &Space) -> Result<Tensor> {
    let (kernel, input) = (&weight.sizes()[2..], &sizes[2..]);
    let dims = kernel.len();
    let spread = |dim: usize| (grad.sizes()[2 + dim] - 1) * space.strides[dim] as isize + 1;
    let apart: Vec<isize> = grad.sizes()[..2].iter().copied().chain((0..dims).map(spread)).collect();
    let zeros = create::zeros(&apart, grad.dtype(), grad.device())?;
    let mut places = zeros.layout().clone();
    for dim in 0..dims {
        places = places.slice(2 + dim, 0, grad.sizes()[2 + dim], space.strides[dim] as isize);
    }
    copy::copy_views(&zeros, &places, grad, grad.layout())?;
    // The weight with its features and channels exchanged, from its end.
    let (features, channels) = (weight.sizes()[0] / space.groups, weight.sizes()[1]);
    let grouped = shaped(weight, &[space.groups, features, channels], 2)?;
    let mut layout = grouped.layout().transpose(1, 2);
    for dim in 0..dims {
        layout = layout.flip(3 + dim);
    }
    let turned = shaped(&Tensor::view_of(&grouped, layout), &[space.groups * channels, features], 3)?;
    let before: Vec<i64> =
        (0..dims).map(|dim| (kernel[dim] as i64 - 1) * space.dilation[dim] - space.padding[dim]).collect();
    let ones = vec![1; dims];
    let space = Space { groups: space.groups, strides: &ones, padding: &before, dilation: space.dilation };
    forward(&zeros, &turned, input, &space)
}

/// Computes the target from the other two of input, weight and output, in a dtype.
pub fn run(
    target: Target,
    space: &Space,
    [input, weight, output]: [&Tensor; 3],
    bias: Option<&Tensor>,
    dtype: DType,
) -> Result<()> {
    let _off = autocast::disable();
    let wide = |tensor: &Tensor| to_dtype(&tensor.detach(), dtype);
    let (result, mut found) = match target {
        Target::Output => (output, forward(&wide(input)?, &wide(weight)?, &output.sizes()[2..], space)?),
        Target::Weight => (weight, of_weight(&wide(input)?, &wide(output)?, weight.sizes(), space)?),
        Target::Input => (input, of_input(&wide(output)?, &wide(weight)?, input.sizes(), space)?),
    };
    if let Some(bias) = bias {
        let mut sizes = vec![1; result.rank() - 1];
        sizes[0] = bias.numel() as isize;
        found = (Expr::from(found) + reshaped(&wide(bias)?, &sizes)?).done()?;
    }
    copy::copy(result, &found)
}
