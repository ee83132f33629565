//! Normalisation on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::device_memory::StreamId;
use rushlight_core::storage::DevicePin;
use rushlight_core::{DType, Result, Scalar};
use rushlight_cuda::card::{self, Card};
use rushlight_cuda::normalize::{Gradients, Normalize, View};
use rushlight_cuda::stream;
use rushlight_dispatch::create;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::operator::Args;

use super::primitives::{NORMALIZE_BACKWARD, NORMALIZE_LAYER, NormParams};

/// The device of a tensor, and its current stream.
fn place_of(tensor: &Tensor) -> Result<(&'static Card, StreamId)> {
    let card = card::of(tensor.device())?;
    Ok((card, stream::current(card.index)))
}

type Held<'a> = Option<(DevicePin<'a>, u64)>;

/// Holds the tensors that are there for a stream, each with the address of its first element.
fn pins_of<const N: usize>(tensors: [Option<&Tensor>; N], stream: StreamId) -> Result<[Held<'_>; N]> {
    let mut pins = [const { None }; N];
    for (pin, tensor) in pins.iter_mut().zip(tensors) {
        if let Some(tensor) = tensor {
            let held = tensor.storage().pin_on(stream)?;
            let offset = tensor.layout().offset * tensor.dtype().size() as isize;
            let address = held.address().wrapping_add_signed(offset) as u64;
            *pin = Some((held, address));
        }
    }
    Ok(pins)
}

fn addresses_of<const N: usize>(pins: &[Held; N]) -> [u64; N] {
    pins.each_ref().map(|pin| pin.as_ref().map_or(0, |(_, address)| *address))
}

/// The normalisation with the addresses of input, weight, bias, mean, variance and result.
fn normalization(params: &NormParams, dtype: DType, compute: DType, addresses: [u64; 6]) -> Normalize {
    let [input, weight, bias, mean, variance, out] = addresses;
    let [samples, groups, channels, run] = params.view.map(|size| size as u64);
    let (pooled, centred) = (u32::from(params.pooled), u32::from(params.centred));
    let view = View { samples, groups, channels, run, pooled, centred };
    Normalize { view, eps: params.eps, dtype, compute, input, weight, bias, mean, variance, out }
}

/// Writes the result, and mean and variance of each group.
pub fn forward(args: &Args, results: &[Tensor]) -> Result<()> {
    use NORMALIZE_LAYER::*;

    let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
    let (own, compute) = (args.tensor(INPUT)?, results[1].dtype());
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|statistic| create::fill(statistic, Scalar::Int(0)));
    }
    let (input, out) = (plain(own, own.dtype())?, plain_workplace(&results[0], own.dtype())?);
    let [weight, bias] = [WEIGHT, BIAS].map(|arg| args.optional_tensor(arg).map(|tensor| plain(tensor, compute)));
    let (weight, bias) = (weight.transpose()?, bias.transpose()?);
    let held = [Some(&input), weight.as_ref(), bias.as_ref(), Some(&results[1]), Some(&results[2]), Some(&out)];
    let (card, stream) = place_of(own)?;
    let pins = pins_of(held, stream)?;
    let addresses = addresses_of(&pins);
    // SAFETY: row-major tensors of these dtypes, whose sizes `infer` has checked, pinned on the stream; the results are new.
    unsafe { normalization(&params, own.dtype(), compute, addresses).forward(card, stream)? };
    settle(&out, &results[0])
}

/// Writes the gradients of the operand and of both parameters.
pub fn backward(args: &Args, results: &[Tensor]) -> Result<()> {
    use NORMALIZE_BACKWARD::*;

    let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
    let (own, compute) = (args.tensor(INPUT)?, results[1].dtype());
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|gradient| create::fill(gradient, Scalar::Int(0)));
    }
    let (grad, input) = (plain(args.tensor(GRAD)?, own.dtype())?, plain(own, own.dtype())?);
    let weight = args.optional_tensor(WEIGHT).map(|tensor| plain(tensor, compute)).transpose()?;
    let (mean, variance) = (plain(args.tensor(MEAN)?, compute)?, plain(args.tensor(VARIANCE)?, compute)?);
    let to_input = plain_workplace(&results[0], own.dtype())?;
    let (card, stream) = place_of(own)?;
    let held = [Some(&input), weight.as_ref(), None, Some(&mean), Some(&variance), Some(&to_input)];
    let pins = pins_of(held, stream)?;
    let others = pins_of([Some(&grad), Some(&results[1]), Some(&results[2])], stream)?;
    let [grad, to_weight, to_bias] = addresses_of(&others);
    let gradients = Gradients { grad, to_weight, to_bias };
    // SAFETY: as above.
    unsafe {
        normalization(&params, own.dtype(), compute, addresses_of(&pins)).backward(card, stream, &gradients)?;
    }
    settle(&to_input, &results[0])
}
