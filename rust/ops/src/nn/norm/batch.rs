//! Normalisation of channels: over the batch, or of each sample apart; with running statistics.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};

use super::kernel::{NORMALIZE_BATCH, Normal, Plan};
use super::{check_floating, check_mixed, product, statistic, wide};
use crate::convert::to_dtype;
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::op;
use crate::pointwise::ternary::ADDCMUL;
use crate::reduce::sum::MEAN_DIM;
use crate::row::{DTypes, Row, Run, Variants};
use crate::value::{Args, Ints, Output, Value};
use crate::view::reshape::sizes_value;
use crate::view::transpose::PERMUTE;

/// What the rows of this file share. The operands beside the input hold a number for each channel.
struct Channels<'a> {
    input: &'a Tensor,
    running: [Option<&'a Tensor>; 2],
    weight: Option<&'a Tensor>,
    bias: Option<&'a Tensor>,
    momentum: f64,
    eps: f64,
}

impl<'a> Channels<'a> {
    /// `running`, `weight` and `momentum` are the places of these arguments; each is followed by the one that belongs to it.
    fn read(args: &'a Args, [running, weight, momentum]: [usize; 3]) -> Result<Channels<'a>> {
        let pair = |place: usize| [args.optional_tensor(place), args.optional_tensor(place + 1)];
        let [weight, bias] = pair(weight);
        let (momentum, eps) = (args.float(momentum)?, args.float(momentum + 1)?);
        Ok(Channels { input: args.tensor(0)?, running: pair(running), weight, bias, momentum, eps })
    }

    /// Each operand holds a number for each channel; torch counts them for each sample where those are normalised apart.
    fn check(&self, samples: isize) -> Result<()> {
        let channels = self.input.sizes().get(1).copied().unwrap_or(0);
        let [mean, variance] = self.running;
        let named = [("running_mean", mean), ("running_var", variance), ("weight", self.weight), ("bias", self.bias)];
        for (name, operand) in named {
            if let Some(found) = operand.map(|tensor| tensor.numel() as isize)
                && found != channels
            {
                let (due, found) = (samples.saturating_mul(channels), samples.saturating_mul(found));
                return Err(Error::runtime(format!("{name} should contain {due} elements not {found}")));
            }
        }
        check_floating(self.input, "batch_norm")?;
        check_mixed(self.input, &[self.weight, self.bias])
    }

    /// As `check`, for a batch as a whole: its running statistics are parameters like the others.
    fn check_batch(&self) -> Result<()> {
        self.check(1)?;
        check_mixed(self.input, &[self.weight, self.bias, self.running[0], self.running[1]])
    }

    fn plan(&self, view: [isize; 4], pooled: bool) -> Plan {
        Plan { view, pooled, centred: true, eps: self.eps }
    }

    /// By the statistics of the whole batch, by which the running ones move.
    fn by_batch(&self) -> Result<Normal> {
        let (own, sizes) = (self.input, self.input.sizes());
        let [samples, channels, run] = [sizes[0], sizes[1], product(&sizes[2..])];
        let normal = match channels_last(own)? {
            // Lies as a matrix with a column for each channel, and stays so.
            Some(turned) => {
                let plan = self.plan([samples * run, channels, 1, 1], true);
                let normal = plan.run(&NORMALIZE_BATCH, &turned, self.weight, self.bias)?;
                let mut order: Ints = (0..own.rank() as i64 - 1).collect();
                order.insert(1, own.rank() as i64 - 1);
                Normal { out: op!(PERMUTE, &normal.out, order)?, ..normal }
            }
            None => {
                let plan = self.plan([samples, channels, 1, run], true);
                plan.run(&NORMALIZE_BATCH, own, self.weight, self.bias)?
            }
        };
        self.moved(&normal, samples * run)?;
        Ok(normal)
    }

    /// By the statistics of each sample; the running ones move by their mean.
    fn by_sample(&self) -> Result<Normal> {
        let sizes = self.input.sizes();
        let run = product(&sizes[2..]);
        let plan = self.plan([sizes[0], sizes[1], 1, run], false);
        let normal = plan.run(&NORMALIZE_BATCH, self.input, self.weight, self.bias)?;
        self.moved(&normal, run)?;
        Ok(normal)
    }

    /// Moves the running statistics by those of groups of `count` elements.
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
            let now = op!(MEAN_DIM, &apart, Ints::from_slice(&[0]))?;
            let now = op!(crate::view::RESHAPE, &now, sizes_value(running.sizes()))?;
            let next = Expr::from(running) * (1.0 - self.momentum) + Expr::from(now) * (factor * self.momentum);
            let next = next.done()?;
            if next.is_mapped() && !running.is_mapped() {
                return Err(Error::runtime(
                    "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated in place, were not batched.\nPlease see https://pytorch.org/functorch/stable/batch_norm.html for how to fix",
                )
                .hint("torch.func.replace_all_batch_norm_modules_(model) takes the running statistics away."));
            }
            crate::copy::copy(running, &next)?;
            running.bump_version();
        }
        Ok(())
    }

    /// By the running statistics: a scale and a shift of each channel.
    fn by_running(&self) -> Result<Tensor> {
        let [Some(mean), Some(variance)] = self.running else { return Err(Error::runtime("statistics are missing")) };
        let (own, mut shape) = (self.input, vec![1; self.input.rank()]);
        shape[1] = -1;
        let fitted = |tensor: &Tensor| -> Result<Expr> {
            let tensor = to_dtype(tensor, wide(tensor.dtype()))?;
            op!(crate::view::RESHAPE, &tensor, sizes_value(&shape)).map(Expr::from)
        };
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

/// The tensor with its channels as the last dimension, if it lies so in memory.
fn channels_last(own: &Tensor) -> Result<Option<Tensor>> {
    let rank = own.rank();
    let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
    if rank < 3 || own.layout().is_contiguous() || !own.layout().permute(&order).is_contiguous() {
        return Ok(None);
    }
    op!(PERMUTE, own, order.into_iter().map(|dim| dim as i64).collect::<Ints>()).map(Some)
}

pub static BATCH_NORM: Row = Row {
    name: "batch_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of `(N, C, *)` over the batch: in training with its own statistics, by which the running ones
move in place, else with the running ones.

    >>> torch.nn.functional.batch_norm(torch.tensor([[1.], [3.]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, training) = (args.tensor(0)?, args.bool(5)?);
        let sizes = own.sizes();
        if training && sizes.len() > 1 && sizes[0].wrapping_mul(product(&sizes[2..])) == 1 {
            return Err(Error::value(format!(
                "Expected more than 1 value per channel when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        let eps = args.float(7)?;
        if eps < 0.0 || (training && eps == 0.0) {
            let wanted = if training { "positive during training" } else { "non-negative" };
            return Err(Error::value(format!("batch_norm eps must be {wanted}, but got {eps:?}")));
        }
        if let (false, Some(name)) = (training, ["running_mean", "running_var"].iter().zip(1..).find(|(_, at)| !args.has(*at)))
        {
            return Err(Error::runtime(format!("{} must be defined in evaluation mode", name.0)));
        }
        let channels = Channels::read(args, [1, 3, 6])?;
        channels.check_batch()?;
        if own.rank() < 2 {
            if own.numel() == 0 {
                return op!(crate::convert::CLONE, own).map(Output::Tensor);
            }
            return Err(Error::runtime(format!("batch_norm expects at least 2 dimensions, but got {}", own.rank())));
        }
        let out = if training { channels.by_batch()?.out } else { channels.by_running()? };
        Ok(Output::Tensor(out))
    }),
    derivative: Derivative::Composed,
    samples: &["t(3, 2), None, None, training=True", "t(3, 2, 2), t(2), pos(2), pos(2), t(2)"],
    errors: &[
        ("t(2, 3), None, None", "RuntimeError", "running_mean must be defined in evaluation mode"),
        ("t(2, 3), t(2), t(3)", "RuntimeError", "running_mean should contain 3 elements not 2"),
        ("t(2, 3), None, None, training=True, eps=0.0", "ValueError", "batch_norm eps must be positive during training, but got 0.0"),
        ("t(2, 3), t(3), t(3), eps=-0.5", "ValueError", "batch_norm eps must be non-negative, but got -0.5"),
        ("t(1, 3), None, None, training=True", "ValueError", "Expected more than 1 value per channel when training, got input size torch.Size([1, 3])"),
    ],
    reference: "",
    ..Row::BASE
};

pub static NATIVE_BATCH_NORM: Row = Row {
    name: "native_batch_norm",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    doc: "`batch_norm`, with the batch's means and reciprocal deviations, which are empty outside training.

    >>> torch.native_batch_norm(torch.tensor([[1.], [3.]]), None, None, None, None, True, 0.1, 0.)
    (tensor([[-1.],
            [ 1.]]), tensor([2.]), tensor([1.]))",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        const PARAMETERS: [usize; 4] = [1, 2, 3, 4];
        let channels = Channels::read(args, [3, 1, 6])?;
        let own = channels.input;
        channels.check_batch()?;
        if own.rank() < 2 {
            return Err(Error::runtime(format!("batch_norm expects at least 2 dimensions, but got {}", own.rank())));
        }
        if !args.bool(5)? {
            let none = || statistic(args, &PARAMETERS, &crate::create::empty(&[0], own.dtype(), own.device())?);
            return Ok(Output::Tuple(vec![channels.by_running()?, none()?, none()?]));
        }
        let normal = channels.by_batch()?;
        let rstd = (Expr::from(&normal.variance) + channels.eps).rsqrt().done()?;
        let [mean, rstd] = [normal.mean, rstd].map(|found| statistic(args, &PARAMETERS, &found.detach()));
        Ok(Output::Tuple(vec![normal.out, mean?, rstd?]))
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

pub static INSTANCE_NORM: Row = Row {
    name: "instance_norm",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
    doc: "Normalises each channel of each sample of `(N, C, *)`; running statistics move by the batch's mean.

    >>> torch.nn.functional.instance_norm(torch.tensor([[[1., 3.]]]))
    tensor([[[-1.0000,  1.0000]]])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let (own, use_own) = (args.tensor(0)?, args.bool(5)?);
        let sizes = own.sizes();
        if use_own && (sizes.len() < 2 || product(&sizes[2..]) == 1) {
            return Err(Error::value(format!(
                "Expected more than 1 spatial element when training, got input size torch.Size({})",
                Shape(sizes)
            )));
        }
        if !use_own && (!args.has(1) || !args.has(2)) {
            return Err(Error::runtime(
                "Expected running_mean and running_var to be defined when use_input_stats is false",
            ));
        }
        check_floating(own, "batch_norm")?;
        if sizes.len() < 2 {
            return Err(Error::runtime(format!(
                "instance_norm expects at least 2 dimensions, but got {}",
                sizes.len()
            )));
        }
        let channels = Channels::read(args, [1, 3, 6])?;
        channels.check(sizes[0])?;
        let out = if use_own { channels.by_sample()?.out } else { channels.by_running()? };
        Ok(Output::Tensor(out))
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};
