//! Normalisation on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result, Scalar};
use rushlight_cuda::normalize::{Gradients, Normalize, View};
use rushlight_dispatch::create;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};

use super::params::NormParams;
use crate::held::Held;

/// A parameter in row-major memory and in the dtype of the statistics.
fn in_dtype(tensor: Option<&Tensor>, compute: DType) -> Result<Option<Tensor>> {
    tensor.map(|tensor| plain(tensor, compute)).transpose()
}

impl NormParams {
    fn shown(&self) -> View {
        let [samples, groups, channels, run] = self.view.map(|size| size as u64);
        let (pooled, centred) = (u32::from(self.pooled), u32::from(self.centred));
        View { samples, groups, channels, run, pooled, centred }
    }
}

/// Writes the normalised elements, and mean and variance of each group. The parameters are scale and shift.
pub fn forward(params: &NormParams, own: &Tensor, parameters: [Option<&Tensor>; 2], results: &[Tensor]) -> Result<()> {
    let compute = results[1].dtype();
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|statistic| create::fill(statistic, Scalar::Int(0)));
    }
    let (input, out) = (plain(own, own.dtype())?, plain_workplace(&results[0], own.dtype())?);
    let (weight, bias) = (in_dtype(parameters[0], compute)?, in_dtype(parameters[1], compute)?);
    {
        let mut held = Held::on(own)?;
        let call = Normalize {
            view: params.shown(),
            eps: params.eps,
            dtype: own.dtype(),
            compute,
            input: held.address(&input)?,
            weight: held.optional(weight.as_ref())?,
            bias: held.optional(bias.as_ref())?,
            mean: held.address(&results[1])?,
            variance: held.address(&results[2])?,
            out: held.address(&out)?,
        };
        // SAFETY: row-major tensors of these dtypes, whose sizes `infer` has checked, held for the stream; the results are new.
        unsafe { call.forward(held.card, held.stream)? };
    }
    settle(&out, &results[0])
}

/// Writes the gradients of the elements and of both parameters. The operands are the gradient, the input, mean and variance.
pub fn backward(
    params: &NormParams,
    operands: [&Tensor; 4],
    weight: Option<&Tensor>,
    results: &[Tensor],
) -> Result<()> {
    let ([grad, own, mean, variance], compute) = (operands, results[1].dtype());
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|gradient| create::fill(gradient, Scalar::Int(0)));
    }
    let (grad, input) = (plain(grad, own.dtype())?, plain(own, own.dtype())?);
    let (mean, variance) = (plain(mean, compute)?, plain(variance, compute)?);
    let (weight, to_input) = (in_dtype(weight, compute)?, plain_workplace(&results[0], own.dtype())?);
    {
        let mut held = Held::on(own)?;
        let call = Normalize {
            view: params.shown(),
            eps: params.eps,
            dtype: own.dtype(),
            compute,
            input: held.address(&input)?,
            weight: held.optional(weight.as_ref())?,
            bias: 0,
            mean: held.address(&mean)?,
            variance: held.address(&variance)?,
            out: held.address(&to_input)?,
        };
        let [grad, to_weight, to_bias] = held.addresses([&grad, &results[1], &results[2]])?;
        // SAFETY: as above.
        unsafe { call.backward(held.card, held.stream, &Gradients { grad, to_weight, to_bias })? };
    }
    settle(&to_input, &results[0])
}
