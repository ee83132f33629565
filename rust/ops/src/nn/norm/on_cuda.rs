//! Normalisation on CUDA devices: of whole batches by kernels, of other groups from other operators.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result, Scalar};
use rushlight_cuda::batch_norm::{Backward, Forward, Groups};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::value::Ints;
use rushlight_dispatch::{autocast, copy, create};

use super::params::{NormParams, reshaped};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::held::Held;
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};

impl NormParams {
    /// The elements of each channel of a batch.
    fn channels(&self) -> Groups {
        let [samples, groups, _, run] = self.view.map(|size| size as usize);
        Groups::new(samples, groups, run)
    }
}

/// The address of a parameter, 0 for a missing one.
fn parameter<'a>(held: &mut Held<'a>, tensor: Option<&'a Tensor>) -> Result<u64> {
    tensor.map_or(Ok(0), |tensor| held.address(tensor))
}

/// The normalised elements, and mean and variance of each group.
pub fn forward(params: &NormParams, own: &Tensor, parameters: [Option<&Tensor>; 2], results: &[Tensor]) -> Result<()> {
    let sum = results[1].dtype();
    if own.numel() == 0 || !params.pooled {
        return compose(params, own, parameters, results);
    }
    let input = plain(own, own.dtype())?;
    let [weight, bias] = parameters.map(|own| own.map(|tensor| plain(tensor, sum)).transpose());
    let (weight, bias) = (weight?, bias?);
    let mut held = Held::on(own)?;
    let [out, input, mean, variance] = held.addresses([&results[0], &input, &results[1], &results[2]])?;
    let (weight, bias) = (parameter(&mut held, weight.as_ref())?, parameter(&mut held, bias.as_ref())?);
    let operands = Forward { out, input, weight, bias, mean, variance };
    let (card, stream, dtypes) = (held.card, held.stream, [own.dtype(), sum]);
    // SAFETY: row-major tensors, whose sizes `infer` has checked, in memory that is held for the stream; the results are new.
    unsafe { params.channels().normalise(card, stream, dtypes, operands, params.centred, params.eps) }
}

/// The gradients of the elements and of both parameters.
pub fn backward(
    params: &NormParams,
    operands: [&Tensor; 4],
    weight: Option<&Tensor>,
    results: &[Tensor],
) -> Result<()> {
    let ([grad, own, mean, variance], sum) = (operands, results[1].dtype());
    if own.numel() == 0 || !params.pooled {
        return compose_backward(params, operands, weight, results);
    }
    let (grad, input) = (plain(grad, own.dtype())?, plain(own, own.dtype())?);
    let (mean, variance) = (plain(mean, sum)?, plain(variance, sum)?);
    let weight = weight.map(|tensor| plain(tensor, sum)).transpose()?;
    let mut held = Held::on(own)?;
    let [grad, input, mean, variance] = held.addresses([&grad, &input, &mean, &variance])?;
    let [to_input, to_weight, to_bias] = held.addresses([&results[0], &results[1], &results[2]])?;
    let weight = parameter(&mut held, weight.as_ref())?;
    let operands = Backward { to_input, grad, input, mean, variance, weight, to_weight, to_bias };
    let (card, stream, dtypes) = (held.card, held.stream, [own.dtype(), sum]);
    // SAFETY: as above.
    unsafe { params.channels().gradients(card, stream, dtypes, operands, params.centred, params.eps) }
}

/// An operand in the dtype of the statistics and in another shape.
fn seen(tensor: &Tensor, dtype: DType, sizes: &[isize]) -> Result<Expr> {
    Ok(Expr::from(reshaped(&to_dtype(&tensor.detach(), dtype)?, sizes)?))
}

/// `forward` from other operators.
fn compose(params: &NormParams, own: &Tensor, parameters: [Option<&Tensor>; 2], results: &[Tensor]) -> Result<()> {
    let dtype = results[1].dtype();
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|statistic| create::fill(statistic, Scalar::Int(0)));
    }
    let _off = autocast::disable();
    let mean = |expr: Expr| expr.call(&MEAN_DIM, [params.dims().into(), true.into()]);
    let input = seen(own, dtype, &params.view)?;
    let middle = match params.centred {
        true => mean(input.clone()).done()?,
        false => create::zeros(results[1].sizes(), dtype, own.device())?,
    };
    let centred = if params.centred { input - &middle } else { input };
    let variance = mean(centred.clone() * centred.clone()).done()?;
    let mut normal = centred * (Expr::from(&variance) + params.eps).rsqrt();
    if let Some(weight) = parameters[0] {
        normal = normal * seen(weight, dtype, &params.broad())?;
    }
    if let Some(bias) = parameters[1] {
        normal = normal + seen(bias, dtype, &params.broad())?;
    }
    for (result, found) in results.iter().zip([&normal.done()?, &middle, &variance]) {
        copy::copy(result, &reshaped(found, result.sizes())?)?;
    }
    Ok(())
}

/// `backward` from other operators; `backward_decomposition` has the formula.
fn compose_backward(
    params: &NormParams,
    operands: [&Tensor; 4],
    weight: Option<&Tensor>,
    results: &[Tensor],
) -> Result<()> {
    let ([grad, own, means, variances], dtype) = (operands, results[1].dtype());
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|gradient| create::fill(gradient, Scalar::Int(0)));
    }
    let _off = autocast::disable();
    let [samples, groups, ..] = params.view;
    let statistic = [if params.pooled { 1 } else { samples }, groups, 1, 1];
    let mean = |expr: Expr| expr.call(&MEAN_DIM, [params.dims().into(), true.into()]);
    let input = seen(own, dtype, &params.view)?;
    let centred = if params.centred { input - seen(means, dtype, &statistic)? } else { input };
    let rstd = (seen(variances, dtype, &statistic)? + params.eps).rsqrt();
    let normal = (centred * rstd.clone()).done()?;
    let grad = seen(grad, dtype, &params.view)?.done()?;
    let mut weighted = Expr::from(&grad);
    if let Some(weight) = weight {
        weighted = weighted * seen(weight, dtype, &params.broad())?;
    }
    let along = Expr::from(&normal) * mean(weighted.clone() * &normal);
    let rest = if params.centred { weighted.clone() - mean(weighted) } else { weighted };
    let sums = |expr: Expr| expr.call(&SUM_DIM, [Ints::from_slice(&[0, 3]).into(), false.into()]);
    let found = [(rest - along) * rstd, sums(Expr::from(&grad) * &normal), sums(Expr::from(&grad))];
    for (result, found) in results.iter().zip(found) {
        copy::copy(result, &reshaped(&found.done()?, result.sizes())?)?;
    }
    Ok(())
}
