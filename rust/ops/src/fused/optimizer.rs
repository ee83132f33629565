//! Steps of optimizers over lists of parameters, in place and outside of the graph.
//!
//! The lists run in parallel: a parameter, its gradient and its state have one shape and dtype, while dtypes and shapes may
//! differ along the lists. Complex tensors count as pairs of real numbers.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::plan::Plan;
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar};
use rushlight_cpu::fused::rules::{self, rule_of_five, rule_of_four, rule_of_three};
use rushlight_cpu::fused::{Adam, Ends, Sgd, adam_step, amsgrad_step, sgd_momentum_step, sgd_step};

use crate::call::mirrored::resolved;
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Output};

pub static SGD: Row = Row {
    name: "_fused_sgd",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] params, Tensor[] grads, Tensor[] buffers, float lr, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool first) -> None",
    doc: "One step of stochastic gradient descent for each parameter, in place.

Without momentum `buffers` is empty; with `first` they hold nothing yet.

    >>> weight = torch.ones(2)
    >>> torch._fused_sgd([weight], [torch.ones(2)], [], 0.5, 0.0, 0.0, 0.0, False, False, True)
    >>> weight
    tensor([0.5000, 0.5000])",
    dtypes: DTypes::INEXACT,
    traits: Traits::SEES_MIRRORED,
    mapped: Mapped::Refused(|_| crate::mapped::no_elements()),
    run: Run::Body(sgd),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3), t(2, 2)], [t(3), t(2, 2)], [t(3), t(2, 2)], 0.1, 0.9, 0.0, 0.1, True, False, False"],
    reference: "",
    ..Row::BASE
};

pub static ADAM: Row = Row {
    name: "_fused_adam",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] params, Tensor[] grads, Tensor[] exp_avgs, Tensor[] exp_avg_sqs, Tensor[] max_exp_avg_sqs, Tensor[] state_steps, float lr, float beta1, float beta2, float eps, float weight_decay, bool amsgrad, bool maximize, bool decoupled) -> None",
    doc: "One step of Adam for each parameter, in place; `decoupled` makes it AdamW.

Without `amsgrad`, `max_exp_avg_sqs` is empty.

    >>> weight, mean, square, step = torch.ones(1), torch.zeros(1), torch.zeros(1), torch.zeros(())
    >>> torch._fused_adam([weight], [torch.ones(1)], [mean], [square], [], [step], 0.5, 0.9, 0.99, 0.0, 0.0, False, False, False)
    >>> weight, step
    (tensor([0.5000]), tensor(1.))",
    dtypes: DTypes::INEXACT,
    traits: Traits::SEES_MIRRORED,
    mapped: Mapped::Refused(|_| crate::mapped::no_elements()),
    run: Run::Body(adam),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3)], [t(3)], [t(3)], [pos(3)], [], [torch.zeros(())], 0.1, 0.9, 0.99, 1e-8, 0.1, False, False, True"],
    reference: "",
    ..Row::BASE
};

pub static STEP: Row = Row {
    name: "_fused_step",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] tensors, str rule, float[] numbers) -> None",
    doc: "One step of an optimizer by the rule of that name: `tensors` are a parameter, its gradient and its state, changed in place.

`numbers` are the gradient's sign, the share of the parameter that is added to it, the parameter's own factor, and the rule's.

    >>> weight, total = torch.ones(1), torch.zeros(1)
    >>> torch._fused_step([weight, torch.ones(1), total], 'adagrad', [1.0, 0.0, 1.0, 0.5, 0.0])
    >>> weight, total
    (tensor([0.5000]), tensor([1.]))",
    dtypes: DTypes::INEXACT,
    traits: Traits::SEES_MIRRORED,
    mapped: Mapped::Refused(|_| crate::mapped::no_elements()),
    run: Run::Body(step),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3), t(3), pos(3)], 'adagrad', [1.0, 0.1, 1.0, 0.5, 1e-8]"],
    reference: "",
    ..Row::BASE
};

/// The lists at `places`, side by side: what belongs to one parameter.
fn columns<'a, const N: usize>(args: &'a Args, places: [usize; N]) -> Result<Vec<[&'a Tensor; N]>> {
    let mut lists = Vec::with_capacity(N);
    for place in places {
        lists.push(args.tensors(place)?);
    }
    check_lengths(lists.iter().map(Vec::len))?;
    (0..lists[0].len()).map(|at| group(std::array::from_fn(|n| lists[n][at]))).collect()
}

fn check_lengths(lengths: impl IntoIterator<Item = usize>) -> Result<()> {
    let lengths: Vec<usize> = lengths.into_iter().collect();
    if lengths.iter().all(|&length| length == lengths[0]) {
        return Ok(());
    }
    let lengths: Vec<String> = lengths.iter().map(usize::to_string).collect();
    Err(Error::runtime(format!("lists of {} tensors do not belong together", lengths.join(", "))))
}

/// Checks that a parameter, its gradient (place 1) and its state fit each other and may be written.
fn group<const N: usize>(tensors: [&Tensor; N]) -> Result<[&Tensor; N]> {
    let first = tensors[0];
    if !first.dtype().is_differentiable() {
        return Err(Error::runtime(format!("parameters are floats or complex numbers, not {}", first.dtype())));
    }
    for (place, tensor) in tensors.iter().enumerate() {
        if tensor.sizes() != first.sizes() || tensor.dtype() != first.dtype() {
            return Err(Error::runtime(format!(
                "a parameter of {} {} has a gradient or state of {} {}",
                first.dtype(),
                Shape(first.sizes()),
                tensor.dtype(),
                Shape(tensor.sizes())
            )));
        }
        if place != 1 {
            crate::variants::check_writable(tensor)?;
            crate::variants::check_no_self_overlap(tensor)?;
        }
    }
    Ok(tensors)
}

/// The same memory as real numbers.
fn real(tensor: &Tensor) -> Layout {
    if tensor.dtype().is_complex() { tensor.layout().pairs() } else { tensor.layout().clone() }
}

/// Runs a kernel over the tensors of one parameter and counts the changes.
fn run<const N: usize>(tensors: [&Tensor; N], kernel: impl FnOnce(DType, &Plan<N>, Ends<u8, N>)) -> Result<()> {
    if tensors.iter().any(|tensor| tensor.is_mirrored()) {
        let plain = tensors.iter().map(|tensor| resolved(tensor)).collect::<Result<Vec<_>>>()?;
        run(std::array::from_fn(|n| &plain[n]), kernel)?;
        for (place, (tensor, plain)) in tensors.iter().zip(&plain).enumerate() {
            if place != 1 && tensor.is_mirrored() {
                crate::copy::copy(tensor, plain)?;
                tensor.bump_version();
            }
        }
        return Ok(());
    }
    let dtype = tensors[0].dtype().to_real();
    if tensors[0].device() == Device::Cpu && tensors[0].numel() > 0 {
        let layouts = tensors.map(real);
        let plan = Plan::new(layouts.each_ref(), [dtype.size(); N]);
        let shared = tensors[0].storage().is_shared();
        crate::host::while_detached(plan.numel(), || {
            let pins = pin_all(tensors.map(Tensor::storage))?;
            let places = std::array::from_fn(|n| pins[n].as_ptr());
            kernel(dtype, &plan, Ends::new(places, shared));
            Ok(())
        })?;
    }
    for (place, tensor) in tensors.iter().enumerate() {
        if place != 1 {
            tensor.bump_version();
        }
    }
    Ok(())
}

fn sgd(args: &Args) -> Result<Output> {
    let numbers = Sgd {
        lr: args.float(3)?,
        momentum: args.float(4)?,
        dampening: args.float(5)?,
        weight_decay: args.float(6)?,
        nesterov: args.bool(7)?,
        maximize: args.bool(8)?,
        first: args.bool(9)?,
    };
    // SAFETY: layouts stay within their pinned storages.
    unsafe {
        if numbers.momentum == 0.0 {
            for tensors in columns(args, [0, 1])? {
                run(tensors, |dtype, plan, ends| sgd_step(dtype, plan, ends, &numbers))?;
            }
        } else {
            for tensors in columns(args, [0, 1, 2])? {
                run(tensors, |dtype, plan, ends| sgd_momentum_step(dtype, plan, ends, &numbers))?;
            }
        }
    }
    Ok(Output::Nothing)
}

fn adam(args: &Args) -> Result<Output> {
    let amsgrad = args.bool(11)?;
    let steps = args.tensors(5)?;
    check_lengths([args.tensors(0)?.len(), steps.len()])?;
    // SAFETY: layouts stay within their pinned storages.
    unsafe {
        if amsgrad {
            for (tensors, step) in columns(args, [0, 1, 2, 3, 4])?.into_iter().zip(steps) {
                let numbers = next(args, step)?;
                run(tensors, |dtype, plan, ends| amsgrad_step(dtype, plan, ends, &numbers))?;
            }
        } else {
            for (tensors, step) in columns(args, [0, 1, 2, 3])?.into_iter().zip(steps) {
                let numbers = next(args, step)?;
                run(tensors, |dtype, plan, ends| adam_step(dtype, plan, ends, &numbers))?;
            }
        }
    }
    Ok(Output::Nothing)
}

/// Counts a step, and says the numbers for it.
fn next(args: &Args, step: &Tensor) -> Result<Adam> {
    // On `meta` nobody counts, and nothing reads the numbers.
    let before = if step.device() == Device::Meta { 0.0 } else { crate::convert::item(step)?.f64() };
    let count = before + 1.0;
    crate::variants::check_writable(step)?;
    crate::create::fill(step, Scalar::Float(count))?;
    step.bump_version();
    Ok(Adam {
        lr: args.float(6)?,
        beta1: args.float(7)?,
        beta2: args.float(8)?,
        eps: args.float(9)?,
        weight_decay: args.float(10)?,
        maximize: args.bool(12)?,
        decoupled: args.bool(13)?,
        step: count,
    })
}

fn step(args: &Args) -> Result<Output> {
    let (tensors, rule) = (args.tensors(0)?, args.str(1)?);
    let given = args.optional_floats(2).unwrap_or_default();
    let mut numbers = [0.0; rules::NUMBERS];
    if rules::counts(rule) != Some((tensors.len(), given.len())) {
        return Err(Error::runtime(format!(
            "there is no rule \"{rule}\" for {} tensors and {} numbers",
            tensors.len(),
            given.len()
        )));
    }
    numbers[..given.len()].copy_from_slice(given);
    let mismatch = |_| Error::runtime("tensors do not fit their rule");
    // SAFETY: layouts stay within their pinned storages.
    unsafe {
        match tensors.len() {
            3 => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, plan, ends| {
                rule_of_three(rule, dtype, plan, ends, &numbers)
            })?,
            4 => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, plan, ends| {
                rule_of_four(rule, dtype, plan, ends, &numbers)
            })?,
            _ => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, plan, ends| {
                rule_of_five(rule, dtype, plan, ends, &numbers)
            })?,
        }
    }
    Ok(Output::Nothing)
}
