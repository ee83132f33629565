//! Normalisation of channels: over the batch, or of each sample separately; with running statistics.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::memory_format::{has_channels_last, is_channels_last_2d};
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Variants, operator};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::variants::check_writable;
use rushlight_dispatch::{copy, create, op};

use super::params::{NormParams, Normal};
use super::primitives::NORMALIZE_BATCH;
use super::{check_floating, check_mixed, product, statistic, wide};
use crate::convert::copy::CONTIGUOUS;
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::pointwise::arith::ADD;
use crate::pointwise::ternary::ADDCMUL;
use crate::reduce::sum::MEAN_DIM;
use crate::view::transpose::PERMUTE;

/// Shared by the operators of this file. The operands besides the input hold a number for each channel.
struct Channels<'a> {
    input: &'a Tensor,
    running: [Option<&'a Tensor>; 2],
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    momentum: f64,
    eps: f64,
}

impl<'a> Channels<'a> {
    fn read(args: &'a Args, [mean, variance, weight, bias, momentum, eps]: [Arg; 6]) -> Result<Channels<'a>> {
        Ok(Channels {
            input: args.tensor(Arg::FIRST)?,
            running: [mean, variance].map(|arg| args.optional_tensor(arg)),
            weight: args.optional_tensor(weight),
            bias: args.optional_tensor(bias),
            momentum: args.float(momentum)?,
            eps: args.float(eps)?,
        })
    }

    /// Checks that each operand holds a number for each channel; torch counts channels of all samples if those are
    /// normalised separately.
    fn check(&self, samples: isize) -> Result<()> {
        let [mean, variance] = self.running;
        let named = [("running_mean", mean), ("running_var", variance), ("weight", self.weight), ("bias", self.bias)];
        for (name, operand) in named {
            self.check_size(name, operand, samples)?;
        }
        if self.input.numel() > 0 {
            check_floating(self.input, "batch_norm")?;
        }
        self.check_dtypes(&[self.weight, self.bias])?;
        self.check_running()
    }

    fn check_size(&self, name: &str, operand: Option<&Tensor>, samples: isize) -> Result<()> {
        let channels = self.input.sizes().get(1).copied().unwrap_or(0);
        match operand.map(|tensor| tensor.numel() as isize) {
            Some(found) if found != channels => {
                let (due, found) = (samples.saturating_mul(channels), samples.saturating_mul(found));
                Err(Error::runtime(format!("{name} should contain {due} elements not {found}")))
            }
            _ => Ok(()),
        }
    }

    /// torch does not compare the dtypes if there is nothing to normalise.
    fn check_dtypes(&self, parameters: &[Option<&Tensor>]) -> Result<()> {
        if self.input.numel() == 0 { Ok(()) } else { check_mixed(self.input, parameters) }
    }

    /// The running statistics are not part of the graph, neither backward nor forward.
    fn check_running(&self) -> Result<()> {
        let operands = [Some(self.input), self.weight, self.bias];
        let has_tangent = operands.into_iter().flatten().any(Tensor::is_tracked);
        for (name, running) in ["running_mean", "running_var"].into_iter().zip(self.running) {
            let Some(running) = running.filter(|running| running.is_tracked()) else { continue };
            if running.requires_grad() && rushlight_autograd::modes::grad_enabled() {
                return Err(Error::runtime(format!(
                    "The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad True."
                ))
                .hint(format!("Use {name}.detach().")));
            }
            if !running.requires_grad() && has_tangent {
                return Err(Error::runtime(
                    "batch_norm is not differentiable wrt running_mean and running_var, they cannot have forward grad defined",
                ));
            }
        }
        Ok(())
    }

    /// As `check`, for a batch as a whole: its running statistics are parameters like the others.
    fn check_batch(&self) -> Result<()> {
        self.check(1)?;
        self.check_dtypes(&[self.weight, self.bias, self.running[0], self.running[1]])
    }

    /// The result of an empty batch: empty, but it depends on the parameters, and may have any dtype.
    fn of_nothing(&self) -> Result<Tensor> {
        let mut out = Expr::from(&op!(crate::convert::CLONE, self.input)?);
        let first = |parameter: &Tensor| op!(crate::view::narrow::SELECT, parameter, 0i64, 0i64);
        if let Some(weight) = self.weight {
            out = out * Expr::from(first(weight)?);
        }
        if let Some(bias) = self.bias {
            out = out + Expr::from(first(bias)?);
        }
        out.done()
    }

    fn params(&self, view: [isize; 4], pooled: bool) -> NormParams {
        NormParams { view, pooled, centred: true, eps: self.eps }
    }

    /// Running statistics are updated together, and in place.
    fn check_update(&self) -> Result<()> {
        let [mean, variance] = self.running;
        if mean.is_some() != variance.is_some() {
            return Err(Error::value("running_mean and running_var must either both be None or neither be None"));
        }
        self.running.into_iter().flatten().try_for_each(check_writable)
    }

    /// Normalises with the statistics of the whole batch, and updates the running ones with them.
    fn by_batch(&self) -> Result<Normal> {
        self.check_update()?;
        let (own, sizes) = (self.input, self.input.sizes());
        let [samples, channels, run] = [sizes[0], sizes[1], product(&sizes[2..])];
        let normal = match channels_last(own)? {
            // The memory is a matrix with a column for each channel, and stays one.
            Some(turned) => {
                let params = self.params([samples * run, channels, 1, 1], true);
                let normal = params.run(&NORMALIZE_BATCH, &turned, self.weight, self.bias)?;
                let mut order: Ints = (0..own.rank() as i64 - 1).collect();
                order.insert(1, own.rank() as i64 - 1);
                Normal { out: op!(PERMUTE, &normal.out, order)?, ..normal }
            }
            None => {
                let params = self.params([samples, channels, 1, run], true);
                params.run(&NORMALIZE_BATCH, own, self.weight, self.bias)?
            }
        };
        self.moved(&normal, samples * run)?;
        Ok(normal)
    }

    /// Normalises with the statistics of each sample; updates the running ones with their mean.
    fn by_sample(&self) -> Result<Normal> {
        self.check_update()?;
        let sizes = self.input.sizes();
        let run = product(&sizes[2..]);
        let params = self.params([sizes[0], sizes[1], 1, run], false);
        let normal = params.run(&NORMALIZE_BATCH, self.input, self.weight, self.bias)?;
        self.moved(&normal, run)?;
        Ok(normal)
    }

    /// Updates the running statistics with those of groups of `count` elements.
    fn moved(&self, normal: &Normal, count: isize) -> Result<()> {
        if self.input.numel() == 0 {
            return Ok(());
        }
        let _off = rushlight_autograd::modes::GradMode::new(false);
        let unbiased = count as f64 / (count - 1) as f64;
        for (running, now, factor) in
            [(self.running[0], &normal.mean, 1.0), (self.running[1], &normal.variance, unbiased)]
        {
            let Some(running) = running else { continue };
            let apart = op!(crate::view::RESHAPE, now, sizes_value(&[-1, running.numel() as isize]))?;
            // Those of a whole batch are one row.
            let now = if apart.sizes()[0] == 1 { apart } else { op!(MEAN_DIM, &apart, Ints::from_slice(&[0]))? };
            let now = op!(crate::view::RESHAPE, &now, sizes_value(running.sizes()))?;
            let kept = (Expr::from(running) * (1.0 - self.momentum)).done()?;
            let next = op!(ADD, &kept, &now, factor * self.momentum)?;
            if next.is_batched() && !running.is_batched() {
                return Err(Error::runtime(
                    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not batched.\nPlease see https://pytorch.org/functorch/stable/batch_norm.html for how to fix",
                )
                .hint("Use torch.func.replace_all_batch_norm_modules_(model) to remove the running statistics."));
            }
            copy::copy(running, &next)?;
            running.bump_version();
        }
        Ok(())
    }

    /// Normalises with the running statistics: a scale and a shift of each channel.
    ///
    /// The result is row-major, unless `keeps_order` and the channels come last.
    fn by_running(&self, keeps_order: bool) -> Result<Tensor> {
        let [Some(mean), Some(variance)] = self.running else { return Err(Error::runtime("statistics are missing")) };
        let layout = self.input.layout();
        let last = has_channels_last(layout) || is_channels_last_2d(layout);
        let own = &if keeps_order && last { self.input.clone() } else { op!(CONTIGUOUS, self.input)? };
        let mut shape = vec![1; own.rank()];
        shape[1] = -1;
        let fitted = |tensor: &Tensor| -> Result<Expr> {
            let tensor = to_dtype(tensor, wide(tensor.dtype()))?;
            op!(crate::view::RESHAPE, &tensor, sizes_value(&shape)).map(Expr::from)
        };
        let (mean, variance) = (&mean.detach(), &variance.detach());
        let mut scale = (fitted(variance)? + self.eps).rsqrt();
        if let Some(weight) = self.weight {
            scale = scale * fitted(weight)?;
        }
        let mut shift = -(fitted(mean)? * scale.clone());
        if let Some(bias) = self.bias {
            shift = shift + fitted(bias)?;
        }
        let input = Value::from(to_dtype(own, wide(own.dtype()))?);
        let out = shift.call(&ADDCMUL, [input, Value::from(scale.done()?)]);
        to_dtype(&out.done()?, own.dtype())
    }
}

/// The tensor with its channels as the last dimension, if its strides say that order.
fn channels_last(input: &Tensor) -> Result<Option<Tensor>> {
    let rank = input.rank();
    let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    let layout = input.layout();
    let last = has_channels_last(layout) || (!layout.is_contiguous() && layout.permute(&order).is_contiguous());
    if !last || !matches!(rank, 4 | 5) {
        return Ok(None);
    }
    op!(PERMUTE, input, order.into_iter().map(|dim| dim as i64).collect::<Ints>()).map(Some)
}

#[operator]
pub static BATCH_NORM: Operator = Operator {
    name: "batch_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of `(N, C, *)` over the batch: in training with its own statistics, with which the running
ones are updated in place, else with the running ones.

    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, training) = (args.tensor(INPUT)?, args.bool(TRAINING)?);
        let sizes = input.sizes();
        if training && sizes.len() > 1 && sizes[0].wrapping_mul(product(&sizes[2..])) == 1 {
            return Err(Error::value(format!(
                "Expected more than 1 value per channel when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        let eps = args.float(EPS)?;
        if eps < 0.0 || (training && eps == 0.0) {
            let wanted = if training { "positive during training" } else { "non-negative" };
            return Err(Error::value(format!("batch_norm eps must be {wanted}, but got {eps:?}")));
        }
        let channels = Channels::read(args, [RUNNING_MEAN, RUNNING_VAR, WEIGHT, BIAS, MOMENTUM, EPS])?;
        for (arg, found) in [RUNNING_MEAN, RUNNING_VAR].into_iter().zip(channels.running) {
            match found {
                None if !training => {
                    let name = args.param(arg).name;
                    return Err(Error::runtime(format!("{name} must be defined in evaluation mode")));
                }
                _ => channels.check_size(args.param(arg).name, found, 1)?,
            }
        }
        channels.check_batch()?;
        if input.numel() == 0 {
            return channels.of_nothing().map(Output::Tensor);
        }
        if input.rank() < 2 {
            wrap_dim(1, input.rank())?;
        }
        let out = if training { channels.by_batch()?.out } else { channels.by_running(true)? };
        Ok(Output::Tensor(out))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 2), None, None, training=True", "t(3, 2, 2), t(2), pos(2), pos(2), t(2)"],
    errors: &[
        ("t(2, 3), None, None", "RuntimeError", "running_mean must be defined in evaluation mode"),
        ("t(2, 3), t(2), t(3)", "RuntimeError", "running_mean should contain 3 elements not 2"),
        ("t(2, 3), None, None, training=True, eps=0.0", "ValueError", "batch_norm eps must be positive during training, but got 0.0"),
        ("t(2, 3), t(3), t(3), eps=-0.5", "ValueError", "batch_norm eps must be non-negative, but got -0.5"),
        ("t(1, 3), None, None, training=True", "ValueError", "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"),
    ],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static NATIVE_BATCH_NORM: Operator = Operator {
    name: "native_batch_norm",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`batch_norm`, with the batch's means and reciprocal deviations, which are empty outside training.

    >>> torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.)
    (tensor([[-1.],
            [ 1.]]), tensor([2.]), tensor([1.]))",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        const PARAMETERS: [Arg; 4] = [WEIGHT, BIAS, RUNNING_MEAN, RUNNING_VAR];
        let channels = Channels::read(args, [RUNNING_MEAN, RUNNING_VAR, WEIGHT, BIAS, MOMENTUM, EPS])?;
        let own = channels.input;
        wrap_dim(1, own.rank().max(1))?;
        if args.bool(TRAINING)? {
            channels.check_update()?;
        }
        channels.check_batch()?;
        check_floating(own, "batch_norm")?;
        if !args.bool(TRAINING)? {
            let none = || statistic(args, &PARAMETERS, &create::empty(&[0], own.dtype(), own.device())?);
            let out = if own.numel() == 0 { op!(crate::convert::CLONE, own)? } else { channels.by_running(true)? };
            return Ok(Output::Tuple(vec![out, none()?, none()?]));
        }
        if own.numel() == 0 {
            return Err(Error::runtime(format!(
                "input tensor must have at least one element, but got input_sizes = {}",
                Shape(own.sizes())
            )));
        }
        let normal = channels.by_batch()?;
        let rstd = (Expr::from(&normal.variance) + channels.eps).rsqrt().done()?;
        let [mean, rstd] = [normal.mean, rstd].map(|found| statistic(args, &PARAMETERS, &found.detach()));
        Ok(Output::Tuple(vec![normal.out, mean?, rstd?]))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(3, 2), None, None, None, None, True, 0.1, 0.1",
        "t(3, 2, 2), pos(2), t(2), None, None, True, 0.1, 0.1",
        "t(3, 2, 2), pos(2), t(2), t(2), pos(2), False, 0.1, 0.1",
    ],
    errors: &[(
        "t(2, 3), None, None, t(2), t(3), True, 0.1, 0.1",
        "RuntimeError",
        "running_mean should contain 3 elements not 2",
    )],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static INSTANCE_NORM: Operator = Operator {
    name: "instance_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of each sample of `(N, C, *)`; running statistics are updated with the batch's mean.

    >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.]]]))
    tensor([[[-1.0000,  1.0000]]])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, use_own) = (args.tensor(INPUT)?, args.bool(USE_INPUT_STATS)?);
        let sizes = input.sizes();
        if use_own && (sizes.len() < 2 || product(&sizes[2..]) == 1) {
            return Err(Error::value(format!(
                "Expected more than 1 spatial element when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        if !use_own && (!args.has(RUNNING_MEAN) || !args.has(RUNNING_VAR)) {
            return Err(Error::runtime(
                "Expected running_mean and running_var to be defined when use_input_stats is false",
            ));
        }
        if sizes.len() < 2 {
            return Err(Error::runtime(format!(
                "instance_norm expects at least 2 dimensions, but got {}",
                sizes.len()
            )));
        }
        let channels = Channels::read(args, [RUNNING_MEAN, RUNNING_VAR, WEIGHT, BIAS, MOMENTUM, EPS])?;
        // torch repeats them for each sample.
        let repeated = channels.running.into_iter().chain([channels.weight, channels.bias]);
        if repeated.flatten().any(|operand| operand.rank() > 1) {
            return Err(Error::runtime(
                "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
            ));
        }
        channels.check(sizes[0])?;
        check_floating(input, "batch_norm")?;
        let out = if use_own { channels.by_sample()?.out } else { channels.by_running(false)? };
        Ok(Output::Tensor(out))
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3, 4)", "t(2, 3, 2, 2), None, None, pos(3), t(3)"],
    errors: &[
        (
            "t(2, 3)",
            "ValueError",
            "Expected more than 1 spatial element when training, got input size torch.Size([2, 3])",
        ),
        ("t(2, 3, 2), t(2)", "RuntimeError", "running_mean should contain 6 elements not 4"),
        ("t(2, 3, 2), None, t()", "RuntimeError", "running_var should contain 6 elements not 2"),
        (
            "t(2, 3, 2), use_input_stats=False",
            "RuntimeError",
            "Expected running_mean and running_var to be defined when use_input_stats is false",
        ),
    ],
    reference: "",
    ..Operator::BASE
};
