//! Counts on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result, Scalar};
use rushlight_cuda::counts::{self, Bins};
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::value::sizes_value;
use rushlight_dispatch::{create, op};

use crate::held::Held;
use crate::nn::mix::SPREAD;
use crate::view::RESHAPE;

/// How often each number from zero on occurs, of fewer than `bins`; or the sums of the numbers' weights, which are floats.
pub fn counted(numbers: &Tensor, weights: Option<&Tensor>, bins: isize) -> Result<Tensor> {
    let Some(weights) = weights else {
        let counts = create::zeros(&[bins], DType::I64, numbers.device())?;
        let numbers = plain(numbers, DType::I64)?;
        let mut held = Held::on(&counts)?;
        let operands = held.addresses([&numbers, &counts])?;
        // SAFETY: there is a count for each number, and both are held for the stream.
        unsafe { counts::count_numbers(held.card, held.stream, operands, numbers.numel())? };
        drop(held);
        return Ok(counts);
    };
    // Every number is a point of one channel, to which its weight belongs.
    let count = numbers.numel() as isize;
    let point = |tensor: &Tensor| op!(RESHAPE, &tensor.detach(), sizes_value(&[1, count, 1]));
    let ones = create::full(&[1, count, 1], Scalar::Int(1), weights.dtype(), weights.device())?;
    let values = op!(RESHAPE, &weights.detach(), sizes_value(&[1, 1, count]))?;
    let sums = op!(SPREAD, values, point(&plain(numbers, DType::I64)?)?, ones, bins as i64)?;
    op!(RESHAPE, sums, sizes_value(&[bins]))
}

/// Adds the elements of each bin to counts, which are integers of 64 bits.
pub fn count_bins(values: &Tensor, counts: &Tensor, bins: Bins) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let values = plain(&values.detach(), values.dtype())?;
    let mut held = Held::on(&values)?;
    let operands = held.addresses([&values, counts])?;
    // SAFETY: dense operands, with a count for each bin, held for the stream.
    unsafe { counts::count_bins(held.card, held.stream, values.dtype(), operands, values.numel(), bins) }
}
