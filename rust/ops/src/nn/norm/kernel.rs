//! The rows behind normalisation: groups of elements, their statistics, and the fused gradient.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_cpu::float::Float;
use rushlight_cpu::nn::norm::{Backward, Forward, Groups};

use super::wide;
use crate::convert::to_dtype;
use crate::derive::{Derivative, Derive, Joint, Saves};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::{plain, settle, workplace};
use crate::reduce::sum::{MEAN_DIM, SUM_DIM};
use crate::row::{DTypes, Kernel, Row, Run, Spec, Variants};
use crate::value::{Args, Ints, Value};
use crate::view::reshape::sizes_value;

/// What a group is: the operand seen as `[samples, groups, channels, run]`, and what is done with it.
#[derive(Clone, Copy)]
pub struct Plan {
    pub view: [isize; 4],
    pub pooled: bool,
    pub centred: bool,
    pub eps: f64,
}

/// What normalisation gives: the result, and mean and variance of each group.
pub struct Normal {
    pub out: Tensor,
    pub mean: Tensor,
    pub variance: Tensor,
}

impl Plan {
    pub fn run(
        self,
        row: &'static Row,
        input: &Tensor,
        weight: Option<&Tensor>,
        bias: Option<&Tensor>,
    ) -> Result<Normal> {
        let values = [input.into(), weight.into(), bias.into()].into_iter().chain(self.values());
        let results = crate::call::call(Args::new(row, values))?.into_tensors();
        let [out, mean, variance] =
            <[Tensor; 3]>::try_from(results).map_err(|_| Error::runtime("a normalisation without statistics"))?;
        Ok(Normal { out, mean, variance })
    }

    fn values(self) -> [Value<'static>; 4] {
        [sizes_value(&self.view), self.pooled.into(), self.centred.into(), self.eps.into()]
    }

    /// Reads the plan of a call from `place` on, and checks that it is one of its input, at `input`.
    fn read(args: &Args, input: usize, place: usize) -> Result<Plan> {
        let (own, view) = (args.tensor(input)?, args.ints(place)?);
        let plan = Plan::of(view, args.bool(place + 1)?, args.bool(place + 2)?, args.float(place + 3)?);
        let counts = view.iter().try_fold(1i64, |count, &size| count.checked_mul(size).filter(|&count| count >= 0));
        if view.len() != 4 || counts != Some(own.numel() as i64) || (plan.pooled && plan.view[2] != 1) {
            let sizes: Vec<isize> = view.iter().map(|&size| size as isize).collect();
            return Err(Error::runtime(format!(
                "groups of {} do not fit an input of size {}",
                Shape(&sizes),
                Shape(own.sizes())
            )));
        }
        Ok(plan)
    }

    fn of(view: &[i64], pooled: bool, centred: bool, eps: f64) -> Plan {
        let size = |at: usize| view.get(at).map_or(1, |&size| size as isize);
        Plan { view: std::array::from_fn(size), pooled, centred, eps }
    }

    fn groups(self) -> Groups {
        let [samples, groups, channels, run] = self.view.map(|size| size as usize);
        Groups { samples, groups, channels, run, pooled: self.pooled, centred: self.centred, eps: self.eps }
    }

    fn statistics(&self) -> &[isize] {
        if self.pooled { &self.view[1..2] } else { &self.view[..2] }
    }

    fn parameters(&self) -> isize {
        self.view[1] * self.view[2]
    }

    /// The dimensions of the view over which a group stretches.
    fn dims(&self) -> Ints {
        if self.pooled { Ints::from_slice(&[0, 2, 3]) } else { Ints::from_slice(&[2, 3]) }
    }

    /// The sizes of a parameter that meets the view.
    fn broad(&self) -> [isize; 4] {
        [1, self.view[1], self.view[2], 1]
    }
}

fn check_parameters(args: &Args, places: &[usize], plan: &Plan) -> Result<()> {
    for &place in places {
        if let Some(tensor) = args.optional_tensor(place)
            && tensor.numel() as isize != plan.parameters()
        {
            return Err(Error::runtime(format!(
                "parameters of size {} do not fit groups of {}",
                Shape(tensor.sizes()),
                Shape(&plan.view)
            )));
        }
    }
    Ok(())
}

const NORMALIZE: Row = Row {
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? weight, Tensor? bias, int[] view, bool pooled, bool centred, float eps) -> (Tensor, Tensor, Tensor)",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Rule(crate::nn::mapped::normalize),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (own, plan) = (args.tensor(0)?, Plan::read(args, 0, 3)?);
            check_parameters(args, &[1, 2], &plan)?;
            let statistic = Spec::new(plan.statistics(), wide(own.dtype()), own);
            Ok(vec![Spec::new(own.sizes(), own.dtype(), own), statistic.clone(), statistic])
        },
        cpu: |args, results| match wide(args.tensor(0)?.dtype()) {
            DType::F32 => forward::<f32>(args, results),
            DType::F64 => forward::<f64>(args, results),
            dtype => Err(Error::unsupported("normalize", dtype)),
        },
    }),
    derivative: Derivative::Joint(Joint {
        inputs: &[0, 1, 2],
        saves: Saves::input(0).union(Saves::input(1)).union(Saves::result(1)).union(Saves::result(2)),
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
    ..Row::BASE
};

pub static NORMALIZE_LAYER: Row = Row {
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

pub static NORMALIZE_GROUP: Row = Row {
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

pub static NORMALIZE_BATCH: Row = Row {
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

pub static NORMALIZE_BACKWARD: Row = Row {
    name: "_normalize_backward",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad, Tensor input, Tensor mean, Tensor variance, Tensor? weight, int[] view, bool pooled, bool centred, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "The gradients of the operand and of both parameters of `_normalize_layer`, out of its result's.

    >>> ones = torch.ones(1, 1)
    >>> torch._normalize_backward(torch.tensor([[1., 0.]]), torch.tensor([[1., 3.]]), 2 * ones, ones, None, (1, 1, 2, 1), False, True, 0.)
    (tensor([[0., 0.]]), tensor([-1.,  0.]), tensor([1., 0.]))",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Rule(crate::nn::mapped::normalize_backward),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let (grad, own, plan) = (args.tensor(0)?, args.tensor(1)?, Plan::read(args, 1, 5)?);
            check_parameters(args, &[4], &plan)?;
            let statistics = [args.tensor(2)?, args.tensor(3)?];
            if grad.sizes() != own.sizes() || statistics.iter().any(|one| one.sizes().as_slice() != plan.statistics()) {
                return Err(Error::runtime("a gradient or statistics do not fit their input")
                    .shapes([grad.sizes().as_slice(), own.sizes().as_slice()]));
            }
            let parameter = Spec::new(&[plan.parameters()], wide(own.dtype()), own);
            Ok(vec![Spec::new(own.sizes(), own.dtype(), own), parameter.clone(), parameter])
        },
        cpu: |args, results| match wide(args.tensor(1)?.dtype()) {
            DType::F32 => backward::<f32>(args, results),
            DType::F64 => backward::<f64>(args, results),
            dtype => Err(Error::unsupported("normalize", dtype)),
        },
    }),
    derivative: Derivative::NonDifferentiable("where gradients are recorded, the gradient of normalisation is composed"),
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
    ..Row::BASE
};

/// A parameter in the compute dtype; of one that is missing, what changes nothing.
fn parameter(tensor: Option<&Tensor>, missing: i64, like: &Tensor, plan: &Plan, dtype: DType) -> Result<Tensor> {
    match tensor {
        Some(tensor) => plain(tensor, dtype),
        None => crate::create::full(&[plan.parameters()], Scalar::Int(missing), dtype, like.device()),
    }
}

fn first<T>(pin: &rushlight_core::storage::Pin, tensor: &Tensor) -> *mut T {
    pin.as_ptr().cast::<T>().wrapping_offset(tensor.layout().offset)
}

fn forward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    let plan = Plan::read(args, 0, 3)?;
    let own = args.tensor(0)?;
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|statistic| crate::create::fill(statistic, Scalar::Int(0)));
    }
    let input = plain(own, T::DTYPE)?;
    let weight = parameter(args.optional_tensor(1), 1, own, &plan, T::DTYPE)?;
    let bias = parameter(args.optional_tensor(2), 0, own, &plan, T::DTYPE)?;
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
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are fresh.
        unsafe { plan.groups().forward(&operands)? };
    }
    settle(&out, &results[0])
}

fn backward<T: Float>(args: &Args, results: &[Tensor]) -> Result<()> {
    let plan = Plan::read(args, 1, 5)?;
    let own = args.tensor(1)?;
    if own.numel() == 0 {
        return results[1..].iter().try_for_each(|gradient| crate::create::fill(gradient, Scalar::Int(0)));
    }
    let (grad, input) = (plain(args.tensor(0)?, T::DTYPE)?, plain(own, T::DTYPE)?);
    let (mean, variance) = (plain(args.tensor(2)?, T::DTYPE)?, plain(args.tensor(3)?, T::DTYPE)?);
    let weight = parameter(args.optional_tensor(4), 1, own, &plan, T::DTYPE)?;
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
        // SAFETY: row-major tensors of the compute dtype, whose sizes `infer` has checked; the results are fresh.
        unsafe { plan.groups().backward(&operands)? };
    }
    settle(&to_input, &results[0])
}

fn reshaped(tensor: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    crate::op!(crate::view::RESHAPE, tensor, sizes_value(sizes))
}

/// Of the operand and of the parameters that there are: fused, unless the gradient is recorded itself or statistics have one.
fn gradients(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    if rushlight_autograd::modes::recording() || d.has_grad(1) || d.has_grad(2) {
        return composed(d);
    }
    let plan = Plan::of(d.ints(3), d.flag(4), d.flag(5), d.scalar(6).f64());
    let weight = if d.is_tensor(1) { Some(d.input(1).done()?) } else { None };
    let tensors = [d.grad().done()?, d.input(0).done()?, d.result_of(1).done()?, d.result_of(2).done()?];
    let values = tensors.into_iter().map(Value::from).chain([weight.into()]).chain(plan.values());
    let mut found = crate::call::call(Args::new(&NORMALIZE_BACKWARD, values))?.into_tensors().into_iter();
    let mut gradients = vec![found.next()];
    for place in [1, 2] {
        let gradient = found.next();
        if d.is_tensor(place) {
            gradients.push(gradient.map(|tensor| reshaped(&tensor, d.sizes(place))).transpose()?);
        }
    }
    Ok(gradients)
}

/// The same out of operators. With x the normal elements and r the reciprocal deviation, the operand's gradient is
/// r (v - mean(v) - x mean(v x)), where v is the gradient times the weight.
fn composed(d: &Derive) -> Result<Vec<Option<Tensor>>> {
    let plan = Plan::of(d.ints(3), d.flag(4), d.flag(5), d.scalar(6).f64());
    let seen = |expr: Expr, sizes: &[isize]| -> Result<Expr> {
        let tensor = expr.done()?;
        Ok(Expr::from(reshaped(&to_dtype(&tensor, wide(tensor.dtype()))?, sizes)?))
    };
    let mean = |expr: Expr| expr.call(&MEAN_DIM, [plan.dims().into(), true.into()]);
    let centre = |expr: Expr| {
        if plan.centred { expr.clone() - mean(expr) } else { expr }
    };
    let [samples, groups, channels, run] = plan.view;
    let (size, statistic) = match plan.pooled {
        true => (samples * run, [1, groups, 1, 1]),
        false => (channels * run, [samples, groups, 1, 1]),
    };
    // What the forward found, and not what would be found again: the same numbers as in a gradient that nobody records.
    let (middle, variance) = (seen(d.result_of(1), &statistic)?, seen(d.result_of(2), &statistic)?);
    let input = seen(d.input(0), &plan.view)?;
    let centred = if plan.centred { input - middle } else { input };
    let rstd = (variance + plan.eps).rsqrt();
    let normal = centred.clone() * rstd.clone();

    let grad = seen(d.grad(), &plan.view)?;
    let weight = if d.is_tensor(1) { seen(d.input(1), &plan.broad())? } else { Expr::from(1.0) };
    let weighted = grad.clone() * weight;
    let mut input = (centre(weighted.clone()) - normal.clone() * mean(weighted * normal.clone())) * rstd;
    if d.has_grad(1) && plan.centred {
        input = input + seen(d.grad_of(1), &statistic)? * (1.0 / size as f64);
    }
    if d.has_grad(2) {
        input = input + seen(d.grad_of(2), &statistic)? * centred * (2.0 / size as f64);
    }
    let mut gradients = vec![Some(reshaped(&input.done()?, d.sizes(0))?)];
    for (place, each) in [(1, grad.clone() * normal), (2, grad)] {
        if d.is_tensor(place) {
            let sums = each.call(&SUM_DIM, [Ints::from_slice(&[0, 3]).into(), false.into()]);
            gradients.push(Some(reshaped(&sums.done()?, d.sizes(place))?));
        }
    }
    Ok(gradients)
}
