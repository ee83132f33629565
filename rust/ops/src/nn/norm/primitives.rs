//! The operators behind normalisation: groups of elements, their statistics, and the fused gradient.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::float::Float;
use rushlight_cpu::nn::norm::{Backward, Forward};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Joint, Kernel, OnCuda, Operator,
    Saves, TensorSpec, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, split_batch};
use rushlight_dispatch::{create, op};

use super::params::{NormParams, reshaped};
use super::{on_cuda, wide};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};
use crate::view::RESHAPE;
use crate::view::transpose::TRANSPOSE;

fn check_parameters(args: &Args, parameters: &[Arg], params: &NormParams) -> Result<()> {
    for &arg in parameters {
        if let Some(tensor) = args.optional_tensor(arg)
            && tensor.numel() as isize != params.parameters()
        {
            return Err(Error::runtime(format!(
                "parameters of size {} do not fit groups of {}",
                Shape(tensor.sizes()),
                Shape(&params.view)
            )));
        }
    }
    Ok(())
}

#[operator]
const NORMALIZE: Operator = Operator {
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? weight, Tensor? bias, int[] view, bool pooled, bool centred, float eps) -> (Tensor, Tensor, Tensor)",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_normalize),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (input, params) = (args.tensor(INPUT)?, NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?);
            check_parameters(args, &[WEIGHT, BIAS], &params)?;
            let statistic = TensorSpec::new(params.statistics(), wide(input.dtype()), input);
            Ok(vec![TensorSpec::new(input.sizes(), input.dtype(), input), statistic.clone(), statistic])
        },
        cpu: |args, results| match wide(args.tensor(INPUT)?.dtype()) {
            DType::F32 => forward::<f32>(args, results),
            DType::F64 => forward::<f64>(args, results),
            dtype => Err(Error::unsupported("normalize", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
            let parameters = [args.optional_tensor(WEIGHT), args.optional_tensor(BIAS)];
            on_cuda::forward(&params, args.tensor(INPUT)?, parameters, results)
        }),
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[INPUT, WEIGHT, BIAS],
        saves: Saves::input(INPUT).union(Saves::input(WEIGHT)).union(Saves::result(1)).union(Saves::result(2)),
        gradients,
    }),
    errors: &[
        (
            "t(2, 3), None, None, (2, 2, 1, 1), False, True, 0.1",
            "RuntimeError",
            "groups of [2, 2, 1, 1] do not fit an input of size [2, 3]",
        ),
        (
            "t(2, 3), t(2), None, (2, 1, 3, 1), False, True, 0.1",
            "RuntimeError",
            "parameters of size [2] do not fit groups of [2, 1, 3, 1]",
        ),
    ],
    reference: "(lambda x, axes: (lambda mean: (lambda variance: ((((x - mean) / np.sqrt(variance + eps)) * (1 if weight is None else weight.reshape(1, view[1], view[2], 1)) + (0 if bias is None else bias.reshape(1, view[1], view[2], 1))).reshape(input.shape), mean.reshape(-1, view[1])[0 if pooled else slice(None)], variance.reshape(-1, view[1])[0 if pooled else slice(None)]))(((x - mean) ** 2).mean(axes, keepdims=True)))(x.mean(axes, keepdims=True) * centred))(input.reshape(view), (0, 2, 3) if pooled else (2, 3))",
    ..Operator::BASE
};

#[operator]
pub static NORMALIZE_LAYER: Operator = Operator {
    name: "_normalize_layer",
    doc: "Normalises groups of elements: the result, and mean and variance of each group.

`view` is the shape `(samples, groups, channels, run)` in which the input is seen. A group is one of each sample, or where
samples are `pooled` one of all. Scale and shift have a number for each channel of each group. Without `centred` the mean
counts as zero.

    >>> torch._normalize_layer(torch.tensor([[1., 3.]]), None, None, (1, 1, 2, 1), False, True, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    node: "NativeLayerNormBackward0",
    samples: &[
        "t(2, 3), None, None, (2, 1, 3, 1), False, True, 0.1",
        "t(2, 3, 4), pos(3, 4), t(3, 4), (2, 1, 12, 1), False, True, 0.1",
        "t(2, 3), pos(3), None, (2, 1, 3, 1), False, False, 0.1",
    ],
    ..NORMALIZE
};

#[operator]
pub static NORMALIZE_GROUP: Operator = Operator {
    name: "_normalize_group",
    doc: "`_normalize_layer` for groups of channels.

    >>> torch._normalize_group(torch.tensor([[1., 3.]]), None, None, (1, 1, 2, 1), False, True, 0.)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))",
    node: "NativeGroupNormBackward0",
    samples: &[
        "t(2, 4), pos(4), t(4), (2, 2, 2, 1), False, True, 0.1",
        "t(2, 4, 3), pos(4), t(4), (2, 2, 2, 3), False, True, 0.1",
    ],
    ..NORMALIZE
};

#[operator]
pub static NORMALIZE_BATCH: Operator = Operator {
    name: "_normalize_batch",
    doc: "`_normalize_layer` for channels of whole batches.

    >>> torch._normalize_batch(torch.tensor([[1.], [3.]]), None, None, (2, 1, 1, 1), True, True, 0.)
    (tensor([[-1.],
            [ 1.]]), tensor([2.]), tensor([1.]))",
    node: "NativeBatchNormBackward0",
    samples: &[
        "t(3, 2), pos(2), t(2), (3, 2, 1, 1), True, True, 0.1",
        "t(2, 2, 3), pos(2), None, (2, 2, 1, 3), True, True, 0.1",
        "t(2, 2, 3), pos(2), t(2), (2, 2, 1, 3), False, True, 0.1",
    ],
    ..NORMALIZE
};

#[operator]
pub static NORMALIZE_BACKWARD: Operator = Operator {
    name: "_normalize_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor input, Tensor mean, Tensor variance, Tensor? weight, int[] view, bool pooled, bool centred, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "The gradients of the operand and of both parameters of `_normalize_layer`, computed from its result's.

    >>> ones = torch.ones(1, 1)
    >>> torch._normalize_backward(torch.tensor([[1., 0.]]), torch.tensor([[1., 3.]]), 2 * ones, ones, None, (1, 1, 2, 1), False, True, 0.)
    (tensor([[0., 0.]]), tensor([-1.,  0.]), tensor([1., 0.]))",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Custom(batched_normalize_backward),
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (grad, own, params) = (args.tensor(GRAD)?, args.tensor(INPUT)?, NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?);
            check_parameters(args, &[WEIGHT], &params)?;
            let statistics = [args.tensor(MEAN)?, args.tensor(VARIANCE)?];
            if grad.sizes() != own.sizes() || statistics.iter().any(|one| one.sizes().as_slice() != params.statistics()) {
                return Err(Error::runtime("a gradient or statistics do not fit their input")
                    .shapes([grad.sizes().as_slice(), own.sizes().as_slice()]));
            }
            let parameter = TensorSpec::new(&[params.parameters()], wide(own.dtype()), own);
            Ok(vec![TensorSpec::new(own.sizes(), own.dtype(), own), parameter.clone(), parameter])
        },
        cpu: |args, results| match wide(args.tensor(INPUT)?.dtype()) {
            DType::F32 => backward::<f32>(args, results),
            DType::F64 => backward::<f64>(args, results),
            dtype => Err(Error::unsupported("normalize", dtype)),
        },
        cuda: OnCuda::Own(|args, results| {
            let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
            let operands = [args.tensor(GRAD)?, args.tensor(INPUT)?, args.tensor(MEAN)?, args.tensor(VARIANCE)?];
            on_cuda::backward(&params, operands, args.optional_tensor(WEIGHT), results)
        }),
    }),
    derivative: Derivative::NonDifferentiable("if gradients are recorded, the gradient of normalisation is composed"),
    samples: &[
        "t(2, 3), t(2, 3), t(2, 1), pos(2, 1), pos(3), (2, 1, 3, 1), False, True, 0.1",
        "t(2, 4, 3), t(2, 4, 3), t(2, 2), pos(2, 2), None, (2, 2, 2, 3), False, True, 0.1",
        "t(3, 2), t(3, 2), t(2), pos(2), pos(2), (3, 2, 1, 1), True, True, 0.1",
    ],
    errors: &[(
        "t(2, 3), t(2, 4), t(2, 1), pos(2, 1), None, (2, 1, 4, 1), False, True, 0.1",
        "RuntimeError",
        "a gradient or statistics do not fit their input",
    )],
    ..Operator::BASE
};

/// A parameter in the compute dtype; a missing one is replaced by its neutral value.
fn parameter(
    tensor: Option<&Tensor>,
    missing: i64,
    like: &Tensor,
    params: &NormParams,
    dtype: DType,
) -> Result<Tensor> {
    match tensor {
        Some(tensor) => plain(tensor, dtype),
        None => create::full(&[params.parameters()], Scalar::Int(missing), dtype, like.device()),
    }
}

fn first<T>(pin: &rushlight_core::storage::Pin, tensor: &Tensor) -> *mut T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset)
}

fn forward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use NORMALIZE::*;

    let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
    let given = args.tensor(INPUT)?;
    if given.numel() == 0 {
        return results[1..].iter().try_for_each(|statistic| create::fill(statistic, Scalar::Int(0)));
    }
    let input = plain(given, T::DTYPE)?;
    let weight = parameter(args.optional_tensor(WEIGHT), 1, given, &params, T::DTYPE)?;
    let bias = parameter(args.optional_tensor(BIAS), 0, given, &params, T::DTYPE)?;
    let out = workplace(&results[0], T::DTYPE)?;
    {
        let pins = (input.storage().pin()?, weight.storage().pin()?, bias.storage().pin()?);
        let to = (out.storage().pin()?, results[1].storage().pin()?, results[2].storage().pin()?);
        let operands = Forward::<T> {
            input: first(&pins.0, &input),
            weight: first(&pins.1, &weight),
            bias: first(&pins.2, &bias),
            out: first(&to.0, &out),
            mean: first(&to.1, &results[1]),
            variance: first(&to.2, &results[2]),
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are new.
        unsafe { params.groups().forward(&operands)? };
    }
    settle(&out, &results[0])
}

fn backward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    use NORMALIZE_BACKWARD::*;

    let params = NormParams::read(args, INPUT, [VIEW, POOLED, CENTRED, EPS])?;
    let given = args.tensor(INPUT)?;
    if given.numel() == 0 {
        return results[1..].iter().try_for_each(|gradient| create::fill(gradient, Scalar::Int(0)));
    }
    let (grad, input) = (plain(args.tensor(GRAD)?, T::DTYPE)?, plain(given, T::DTYPE)?);
    let (mean, variance) = (plain(args.tensor(MEAN)?, T::DTYPE)?, plain(args.tensor(VARIANCE)?, T::DTYPE)?);
    let weight = parameter(args.optional_tensor(WEIGHT), 1, given, &params, T::DTYPE)?;
    let to_input = workplace(&results[0], T::DTYPE)?;
    {
        let pins = [&grad, &input, &mean, &variance, &weight, &to_input, &results[1], &results[2]];
        let pins = pins.map(|tensor| tensor.storage().pin().map(|pin| (first::<T>(&pin, tensor), pin)));
        let [grad, input, mean, variance, weight, to_input, to_weight, to_bias] = pins;
        let (grad, input, mean, variance) = (grad?, input?, mean?, variance?);
        let (weight, to_input, to_weight, to_bias) = (weight?, to_input?, to_weight?, to_bias?);
        let operands = Backward::<T> {
            grad: grad.0,
            input: input.0,
            mean: mean.0,
            variance: variance.0,
            weight: weight.0,
            to_input: to_input.0,
            to_weight: to_weight.0,
            to_bias: to_bias.0,
        };
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are new.
        unsafe { params.groups().backward(&operands)? };
    }
    settle(&to_input, &results[0])
}

/// The gradients of the operand and of the given parameters: fused, unless the gradient itself is recorded or the
/// statistics have one.
fn gradients(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use NORMALIZE::*;

    if rushlight_autograd::modes::recording() || d.has_grad(1) || d.has_grad(2) {
        return backward_decomposition(d);
    }
    let params = NormParams::of(d.ints(VIEW), d.flag(POOLED), d.flag(CENTRED), d.scalar(EPS).f64());
    let weight = if d.is_tensor(WEIGHT) { Some(d.input(WEIGHT).done()?) } else { None };
    let tensors = [d.grad().done()?, d.input(INPUT).done()?, d.result_of(1).done()?, d.result_of(2).done()?];
    let values = tensors.into_iter().map(Value::from).chain([weight.into()]).chain(params.values());
    let mut found = Args::new(&NORMALIZE_BACKWARD, values).call()?.into_tensors().into_iter();
    let of_group = std::ptr::eq(d.args.op, &NORMALIZE_GROUP);
    let mut gradients = vec![match found.next() {
        Some(gradient) if of_group => Some(crate::convert::in_format_of(&gradient, &d.input(INPUT).done()?)?),
        gradient => gradient,
    }];
    for arg in [WEIGHT, BIAS] {
        let gradient = found.next();
        if d.is_tensor(arg) {
            gradients.push(gradient.map(|tensor| reshaped(&tensor, d.sizes(arg))).transpose()?);
        }
    }
    Ok(gradients)
}

/// The same with operators. With x the normalised elements and r the reciprocal deviation, the operand's gradient is r
/// (v - mean(v) - x mean(v x)), where v is the gradient times the weight.
fn backward_decomposition(d: &BackwardContext) -> Result<Vec<Option<Tensor>>> {
    use NORMALIZE::*;

    let params = NormParams::of(d.ints(VIEW), d.flag(POOLED), d.flag(CENTRED), d.scalar(EPS).f64());
    let seen = |expr: Expr, sizes: &[isize]| -> Result<Expr> {
        let tensor = expr.done()?;
        Ok(Expr::from(reshaped(&to_dtype(&tensor, wide(tensor.dtype()))?, sizes)?))
    };
    let mean = |expr: Expr| expr.call(&MEAN_DIM, [params.dims().into(), true.into()]);
    let centre = |expr: Expr| {
        if params.centred { expr.clone() - mean(expr) } else { expr }
    };
    let [samples, groups, channels, run] = params.view;
    let (size, statistic) = match params.pooled {
        true => (samples * run, [1, groups, 1, 1]),
        false => (channels * run, [samples, groups, 1, 1]),
    };
    // The statistics of the forward, not recomputed ones: this gives the same numbers as a gradient that is not
    // recorded.
    let (middle, variance) = (seen(d.result_of(1), &statistic)?, seen(d.result_of(2), &statistic)?);
    let input = seen(d.input(INPUT), &params.view)?;
    let centred = if params.centred { input - middle } else { input };
    let rstd = (variance + params.eps).rsqrt();
    let normal = centred.clone() * rstd.clone();

    let grad = seen(d.grad(), &params.view)?;
    let weight = if d.is_tensor(WEIGHT) { seen(d.input(WEIGHT), &params.broad())? } else { Expr::from(1.0) };
    let weighted = grad.clone() * weight;
    let mut input = (centre(weighted.clone()) - normal.clone() * mean(weighted * normal.clone())) * rstd;
    if d.has_grad(1) && params.centred {
        input = input + seen(d.grad_of(1), &statistic)? * (1.0 / size as f64);
    }
    if d.has_grad(2) {
        input = input + seen(d.grad_of(2), &statistic)? * centred * (2.0 / size as f64);
    }
    let mut gradients = vec![Some(reshaped(&input.done()?, d.sizes(INPUT))?)];
    for (arg, each) in [(WEIGHT, grad.clone() * normal), (BIAS, grad)] {
        if d.is_tensor(arg) {
            let sums = each.call(&SUM_DIM, [Ints::from_slice(&[0, 3]).into(), false.into()]);
            gradients.push(Some(reshaped(&sums.done()?, d.sizes(arg))?));
        }
    }
    Ok(gradients)
}

/// The sizes of a normalisation.
struct Seen {
    view: [isize; 4],
    pooled: bool,
    centred: bool,
    eps: f64,
}

impl Seen {
    fn read(batch: &BatchedCall, [view, pooled, centred, eps]: [Arg; 4]) -> Result<Option<Seen>> {
        let args = batch.args;
        let view = args.ints(view)?;
        let &[n, groups, channels, run] = view else { return Ok(None) };
        let (pooled, centred) = (args.bool(pooled)?, args.bool(centred)?);
        let view = [n, groups, channels, run].map(|size| size as isize);
        let empty = batch.size == 0 || view.contains(&0);
        Ok((!empty).then_some(Seen { view, pooled, centred, eps: args.float(eps)? }))
    }

    fn rest(&self) -> isize {
        self.view[1] * self.view[2] * self.view[3]
    }

    /// The last arguments of a call, with the items and the groups multiplied.
    fn values(&self, items: isize, groups: isize) -> [Value<'static>; 4] {
        let [n, own, channels, run] = self.view;
        let view = sizes_value(&[n * items, own * groups, channels, run]);
        [view, self.pooled.into(), self.centred.into(), self.eps.into()]
    }
}

/// For `n` items each, turns samples into more groups: `[B, ..]` becomes `[N, B, ..]`.
fn as_groups(shown: &Tensor, n: isize, rest: isize) -> Result<Tensor> {
    let apart = op!(RESHAPE, shown, sizes_value(&[shown.sizes()[0], n, rest]))?;
    op!(TRANSPOSE, apart, 0i64, 1i64)
}

/// The inverse of `as_groups`, for samples of these sizes.
fn from_groups(whole: &Tensor, size: isize, sizes: &[isize]) -> Result<Tensor> {
    let n = whole.sizes()[0];
    let apart = op!(RESHAPE, whole, sizes_value(&[n, size, whole.numel() as isize / (n * size).max(1)]))?;
    let mut own = vec![size];
    own.extend_from_slice(sizes);
    op!(RESHAPE, op!(TRANSPOSE, apart, 0i64, 1i64)?, sizes_value(&own))
}

/// The parameters of all groups of all samples, if there are any.
fn parameters(batch: &BatchedCall, arg: Arg) -> Result<Value<'static>> {
    let Some(own) = batch.args.optional_tensor(arg) else { return Ok(Value::None) };
    let shown = batch.physical(own);
    Ok(op!(RESHAPE, &shown, sizes_value(&[shown.numel() as isize]))?.into())
}

/// Normalisation: samples become more items if they share the parameters and have their own statistics, else more
/// groups.
fn batched_normalize(batch: &BatchedCall) -> RuleResult {
    use NORMALIZE_LAYER::*;

    let Some(seen) = Seen::read(batch, [VIEW, POOLED, CENTRED, EPS])? else { return Ok(None) };
    let (op, size) = (batch.args.op, batch.size);
    let [n, groups, ..] = seen.view;
    let sizes = batch.args.tensor(INPUT)?.sizes();
    let run = |operands: [Value<'static>; 3], last: [Value<'static>; 4]| -> Result<[Tensor; 3]> {
        let results = Args::new(op, operands.into_iter().chain(last)).call()?.into_tensors();
        <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a normalisation without statistics"))
    };
    if !seen.pooled && !batch.differs_at(WEIGHT) && !batch.differs_at(BIAS) {
        let shared = |arg| match batch.args.has_tensor(arg) {
            true => batch.one(arg).map(Value::from),
            false => Ok(Value::None),
        };
        let operands = [batch.tensor(INPUT)?.into(), shared(WEIGHT)?, shared(BIAS)?];
        let [out, mean, variance] = run(operands, seen.values(size, 1))?;
        return Ok(Some(Output::Tuple(vec![out, split_batch(&mean, size)?, split_batch(&variance, size)?])));
    }
    let input = as_groups(&batch.tensor(INPUT)?, n, seen.rest())?;
    let operands = [input.into(), parameters(batch, WEIGHT)?, parameters(batch, BIAS)?];
    let [out, mean, variance] = run(operands, seen.values(1, size))?;
    let statistic = |of: Tensor| match seen.pooled {
        true => split_batch(&of, size),
        false => from_groups(&of, size, &[n, groups]),
    };
    Ok(Some(Output::Tuple(vec![from_groups(&out, size, sizes)?, statistic(mean)?, statistic(variance)?])))
}

/// Its gradient: samples become more groups, so that parameters have a gradient for each.
fn batched_normalize_backward(batch: &BatchedCall) -> RuleResult {
    use NORMALIZE_BACKWARD::*;

    let Some(seen) = Seen::read(batch, [VIEW, POOLED, CENTRED, EPS])? else { return Ok(None) };
    let (size, n) = (batch.size, seen.view[0]);
    let grouped = |arg| as_groups(&batch.tensor(arg)?, n, seen.rest());
    let statistic = |arg| match seen.pooled {
        true => merge_batch(&batch.tensor(arg)?),
        false => {
            let apart = as_groups(&batch.tensor(arg)?, n, seen.view[1])?;
            op!(RESHAPE, apart, sizes_value(&[n, size * seen.view[1]]))
        }
    };
    let operands = [
        grouped(GRAD)?.into(),
        grouped(INPUT)?.into(),
        statistic(MEAN)?.into(),
        statistic(VARIANCE)?.into(),
        parameters(batch, WEIGHT)?,
    ];
    let results = Args::new(batch.args.op, operands.into_iter().chain(seen.values(1, size))).call()?;
    let [input, weight, bias] = <[Tensor; 3]>::try_from(results.into_tensors())
        .map_err(|_| Error::runtime("a normalisation without gradients"))?;
    let input = from_groups(&input, size, batch.args.tensor(INPUT)?.sizes())?;
    Ok(Some(Output::Tuple(vec![input, split_batch(&weight, size)?, split_batch(&bias, size)?])))
}
