//! Convolutions by cuDNN: what it takes, and in which layout.

use std::ffi::c_int;

use rushlight_autograd::Tensor;
use rushlight_core::convolution::Computed;
use rushlight_core::memory_format::has_channels_last;
use rushlight_core::{DType, Result, window};
use rushlight_cuda::cudnn;
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::operands::settle;
use rushlight_dispatch::operator::TensorSpec;
use rushlight_dispatch::value::{Ints, Value};
use rushlight_dispatch::{autocast, copy, deterministic, op};

use super::space::Space;
use crate::held::Held;
use crate::join::pad::CONSTANT_PAD;
use crate::nn::cudnn::ready;

/// A sequence as an image of one row.
fn image(tensor: &Tensor) -> Tensor {
    let layout = tensor.layout();
    match layout.rank() {
        3 => Tensor::view_of(tensor, layout.unsqueeze(2)),
        _ => tensor.clone(),
    }
}

/// Numbers of cuDNN, if they are not too large.
fn numbers(list: &[isize]) -> Option<Vec<c_int>> {
    list.iter().map(|&number| c_int::try_from(number).ok()).collect()
}

/// A list of one number for each dimension of space, as one of an image's.
fn spatial(list: &[i64], of_row: i64) -> Option<Vec<c_int>> {
    let row = (list.len() == 1).then_some(of_row);
    row.into_iter().chain(list.iter().copied()).map(|number| c_int::try_from(number).ok()).collect()
}

/// The number of elements that windows reach, along a dimension.
fn reached(dim: usize, output: &[isize], kernel: &[isize], space: &Space) -> i64 {
    (output[dim] as i64 - 1) * space.strides[dim] + (kernel[dim] as i64 - 1) * space.dilation[dim] + 1
}

/// Whether as many windows fit with the padding before the elements also after them.
fn is_even([input, weight, output]: [&Tensor; 3], space: &Space) -> bool {
    let [input, kernel, output] = [input, weight, output].map(|tensor| &tensor.sizes()[2..]);
    (0..input.len()).all(|dim| {
        let whole = input[dim] as i128 + 2 * i128::from(space.padding[dim]);
        window::count(whole, kernel[dim] as i64, space.dilation[dim], space.strides[dim]) == output[dim] as i128
    })
}

/// The description of a call, unless a number is too large.
fn described(
    computed: Computed,
    space: &Space,
    sizes: [&[isize]; 3],
    dtype: DType,
    last: bool,
) -> Option<cudnn::Convolution> {
    let few = |sizes: &[isize]| sizes.iter().try_fold(1, |all: c_int, &size| all.checked_mul(size.try_into().ok()?));
    let [input, weight, output] = sizes;
    few(input).and(few(weight)).and(few(output))?;
    let dims = space.strides.len();
    Some(cudnn::Convolution {
        computed,
        dtype,
        channels_last: last,
        input: numbers(input)?,
        weight: numbers(weight)?,
        output: numbers(output)?,
        strides: spatial(space.strides, 1)?,
        padding: spatial(&space.padding[..dims], 0)?,
        dilation: spatial(space.dilation, 1)?,
        groups: c_int::try_from(space.groups).ok()?,
        deterministic: deterministic::is_enabled(),
    })
}

/// The input with its widths of zeros, which may be negative.
fn padded(input: &Tensor, before: &[i64], after: &[i64]) -> Result<Tensor> {
    let widths: Ints = before.iter().zip(after).rev().flat_map(|(&before, &after)| [before, after]).collect();
    match widths.iter().all(|&width| width == 0) {
        true => Ok(input.clone()),
        false => op!(CONSTANT_PAD, input, Value::Ints(widths)),
    }
}

/// Computes one tensor from the other two of input, weight and output. False if cuDNN does not take it.
pub fn run(computed: Computed, space: &Space, operands: [&Tensor; 3]) -> Result<bool> {
    let dtype = operands[0].dtype();
    if !cudnn::takes(dtype) || operands.iter().any(|tensor| tensor.dtype() != dtype) {
        return Ok(false);
    }
    let _off = autocast::disable();
    let [input, weight, output] = operands.map(Tensor::detach);
    if is_even([&input, &weight, &output], space) {
        return convolve(computed, space, [&input, &weight, &output]);
    }
    // With uneven padding, the convolution of a padded input.
    let dims = space.strides.len();
    let before = &space.padding[..dims];
    let after = |dim: usize| {
        reached(dim, &output.sizes()[2..], &weight.sizes()[2..], space) - input.sizes()[2 + dim] as i64 - before[dim]
    };
    let after: Vec<i64> = (0..dims).map(after).collect();
    let zeros = vec![0; 2 * dims];
    let space = Space { groups: space.groups, strides: space.strides, padding: &zeros, dilation: space.dilation };
    if computed != Computed::Input {
        return convolve(computed, &space, [&padded(&input, before, &after)?, &weight, &output]);
    }
    let mut sizes = input.sizes().clone();
    (0..dims).for_each(|dim| sizes[2 + dim] += (before[dim] + after[dim]) as isize);
    let spec = TensorSpec::new(&sizes, dtype, &input).formatted(input.layout());
    let whole = allocate(&spec)?;
    let done = convolve(computed, &space, [&whole, &weight, &output])?;
    if done {
        let negative = |list: &[i64]| list.iter().map(|width| -width).collect::<Vec<_>>();
        copy::copy(&input, &padded(&whole, &negative(before), &negative(&after))?)?;
    }
    Ok(done)
}

/// The same with the same padding before and after the elements.
fn convolve(computed: Computed, space: &Space, operands: [&Tensor; 3]) -> Result<bool> {
    let at = computed.position();
    let [input, weight, output] = operands.map(image);
    let images = [&input, &weight, &output];
    let dtype = input.dtype();
    // cuDNN has no kernels for channels-last in float64.
    let last = dtype != DType::F64 && has_channels_last(images[at].layout());
    let sizes = images.map(|tensor| tensor.sizes().as_slice());
    let Some(call) = described(computed, space, sizes, dtype, last) else { return Ok(false) };
    let format = match (last, input.rank()) {
        (false, _) => None,
        (true, 4) => Some("channels_last"),
        (true, _) => Some("channels_last_3d"),
    };
    let usable = |place: usize| ready(images[place], format, place != at);
    let tensors = [usable(0)?, usable(1)?, usable(2)?];
    let mut held = Held::on(&input)?;
    let addresses = held.addresses(tensors.each_ref())?;
    // SAFETY: the tensors are dense and have these sizes, and their storages are held for the stream.
    let done = unsafe { cudnn::convolve(held.card, held.stream, &call, addresses)? };
    drop(held);
    if done {
        settle(&tensors[at], images[at])?;
    }
    Ok(done)
}
