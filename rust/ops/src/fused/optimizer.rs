//! Steps of optimizers over lists of parameters, in place and outside of the graph.
//!
//! The lists correspond: a parameter, its gradient and its state have one shape and dtype, while dtypes and shapes may
//! differ along the lists. Complex tensors are treated as pairs of real numbers.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar};
use rushlight_cpu::fused::rules::{self, rule_of_five, rule_of_four, rule_of_three};
use rushlight_cpu::fused::{Adam, Sgd, StepOperands, adam_step, amsgrad_step, sgd_momentum_step, sgd_step};
use rushlight_dispatch::call::resolve_conj::resolve;
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Arg, Output};
use rushlight_dispatch::{copy, create, interpreter, overlap, variants, vmap};

use super::on_cuda;

#[operator]
pub static SGD: Operator = Operator {
    name: "_fused_sgd",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] params, Tensor[] grads, Tensor[] buffers, float lr, float momentum, float dampening, float weight_decay, bool nesterov, bool maximize, bool first) -> None",
    doc: "One step of stochastic gradient descent for each parameter, in place.

Without momentum `buffers` is empty; with `first` they are uninitialised.

    >>> weight = torch.ones(2)
    >>> torch._fused_sgd([weight], [torch.ones(2)], [], 0.5, 0.0, 0.0, 0.0, False, False, True)
    >>> weight
    tensor([0.5000, 0.5000])",
    dtypes: DTypes::INEXACT,
    tags: Tags::LAZY_CONJ,
    batch_rule: BatchRule::Unsupported(|_| vmap::data_error()),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(sgd)),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3), t(2, 2)], [t(3), t(2, 2)], [t(3), t(2, 2)], 0.1, 0.9, 0.0, 0.1, True, False, False"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static ADAM: Operator = Operator {
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
    tags: Tags::LAZY_CONJ,
    batch_rule: BatchRule::Unsupported(|_| vmap::data_error()),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(adam)),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3)], [t(3)], [t(3)], [pos(3)], [], [torch.zeros(())], 0.1, 0.9, 0.99, 1e-8, 0.1, False, False, True"],
    reference: "",
    ..Operator::BASE
};

#[operator]
pub static STEP: Operator = Operator {
    name: "_fused_step",
    variants: Variants::FUNCTION,
    signature: "(Tensor[] tensors, str rule, float[] numbers) -> None",
    doc: "One step of an optimizer by the rule of that name: `tensors` are a parameter, its gradient and its state, changed in place.

`numbers` are the gradient's sign, the weight decay that is added to it, the parameter's own factor, and the rule's own numbers.

    >>> weight, total = torch.ones(1), torch.zeros(1)
    >>> torch._fused_step([weight, torch.ones(1), total], 'adagrad', [1.0, 0.0, 1.0, 0.5, 0.0])
    >>> weight, total
    (tensor([0.5000]), tensor([1.]))",
    dtypes: DTypes::INEXACT,
    tags: Tags::LAZY_CONJ,
    batch_rule: BatchRule::Unsupported(|_| vmap::data_error()),
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_cpu_alone("optimizers compose these steps from other operators", step)),
    derivative: Derivative::NonDifferentiable("it changes its arguments, outside of the graph"),
    samples: &["[t(3), t(3), pos(3)], 'adagrad', [1.0, 0.1, 1.0, 0.5, 1e-8]"],
    reference: "",
    ..Operator::BASE
};

/// Transposes lists of tensors: each item has the tensors of one parameter.
fn columns<'a, const N: usize>(args: &'a Args, each: [Arg; N]) -> Result<Vec<[&'a Tensor; N]>> {
    let mut lists = Vec::with_capacity(N);
    for arg in each {
        lists.push(args.tensors(arg)?);
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

/// Checks that a parameter, its gradient (position 1) and its state match and are writable.
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
            variants::check_writable(tensor)?;
            overlap::check_no_self_overlap(tensor)?;
        }
    }
    Ok(tensors)
}

/// The same memory as real numbers.
fn real(tensor: &Tensor) -> Layout {
    if tensor.dtype().is_complex() { tensor.layout().pairs() } else { tensor.layout().clone() }
}

/// Runs a kernel over the tensors of one parameter and counts the changes.
fn run<const N: usize>(
    tensors: [&Tensor; N],
    kernel: impl FnOnce(DType, &LoopNest<N>, StepOperands<u8, N>),
) -> Result<()> {
    if tensors.iter().any(|tensor| tensor.is_lazy_conj()) {
        let plain = tensors.iter().map(|tensor| resolve(tensor)).collect::<Result<Vec<_>>>()?;
        run(std::array::from_fn(|n| &plain[n]), kernel)?;
        for (place, (tensor, plain)) in tensors.iter().zip(&plain).enumerate() {
            if place != 1 && tensor.is_lazy_conj() {
                copy::copy(tensor, plain)?;
                tensor.bump_version();
            }
        }
        return Ok(());
    }
    let dtype = tensors[0].dtype().to_real();
    if tensors[0].device() != Device::Meta && tensors[0].numel() > 0 {
        let layouts = tensors.map(real);
        let nest = LoopNest::new(layouts.each_ref(), [dtype.size(); N]);
        let shared = tensors[0].storage().is_shared();
        interpreter::while_detached(nest.numel(), || {
            let pins = pin_all(tensors.map(Tensor::storage))?;
            let places = std::array::from_fn(|n| pins[n].as_ptr());
            kernel(dtype, &nest, StepOperands::new(places, shared));
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

fn is_on_cuda(tensor: &Tensor) -> bool {
    matches!(tensor.device(), Device::Cuda(_))
}

/// The numbers of a call of `SGD`.
fn numbers_of_sgd(args: &Args) -> Result<Sgd> {
    use SGD::*;

    Ok(Sgd {
        lr: args.float(LR)?,
        momentum: args.float(MOMENTUM)?,
        dampening: args.float(DAMPENING)?,
        weight_decay: args.float(WEIGHT_DECAY)?,
        nesterov: args.bool(NESTEROV)?,
        maximize: args.bool(MAXIMIZE)?,
        first: args.bool(FIRST)?,
    })
}

fn sgd(args: &Args) -> Result<Output> {
    use SGD::*;

    let numbers = numbers_of_sgd(args)?;
    // SAFETY: layouts stay within their pinned storages.
    unsafe {
        if numbers.momentum == 0.0 {
            for tensors in columns(args, [PARAMS, GRADS])? {
                if is_on_cuda(tensors[0]) {
                    on_cuda::sgd_step(tensors[0], tensors[1], None, &numbers)?;
                    continue;
                }
                run(tensors, |dtype, nest, ends| sgd_step(dtype, nest, ends, &numbers))?;
            }
        } else {
            for tensors in columns(args, [PARAMS, GRADS, BUFFERS])? {
                if is_on_cuda(tensors[0]) {
                    on_cuda::sgd_step(tensors[0], tensors[1], Some(tensors[2]), &numbers)?;
                    continue;
                }
                run(tensors, |dtype, nest, ends| sgd_momentum_step(dtype, nest, ends, &numbers))?;
            }
        }
    }
    Ok(Output::Nothing)
}

fn adam(args: &Args) -> Result<Output> {
    use ADAM::*;

    let amsgrad = args.bool(AMSGRAD)?;
    let steps = args.tensors(STATE_STEPS)?;
    check_lengths([args.tensors(PARAMS)?.len(), steps.len()])?;
    // SAFETY: layouts stay within their pinned storages.
    unsafe {
        if amsgrad {
            for (tensors, step) in
                columns(args, [PARAMS, GRADS, EXP_AVGS, EXP_AVG_SQS, MAX_EXP_AVG_SQS])?.into_iter().zip(steps)
            {
                let numbers = next(args, step)?;
                if is_on_cuda(tensors[0]) {
                    let [param, grad, mean, square, largest] = tensors;
                    on_cuda::adam_step([param, grad, mean, square], Some(largest), &numbers)?;
                    continue;
                }
                run(tensors, |dtype, nest, ends| amsgrad_step(dtype, nest, ends, &numbers))?;
            }
        } else {
            for (tensors, step) in columns(args, [PARAMS, GRADS, EXP_AVGS, EXP_AVG_SQS])?.into_iter().zip(steps) {
                let numbers = next(args, step)?;
                if is_on_cuda(tensors[0]) {
                    on_cuda::adam_step(tensors, None, &numbers)?;
                    continue;
                }
                run(tensors, |dtype, nest, ends| adam_step(dtype, nest, ends, &numbers))?;
            }
        }
    }
    Ok(Output::Nothing)
}

/// Counts a step, and returns its parameters.
fn next(args: &Args, step: &Tensor) -> Result<Adam> {
    use ADAM::*;

    // On `meta` there is no count, and the numbers are not used.
    let before = if step.device() == Device::Meta { 0.0 } else { crate::convert::item(step)?.f64() };
    let count = before + 1.0;
    variants::check_writable(step)?;
    create::fill(step, Scalar::Float(count))?;
    step.bump_version();
    Ok(Adam {
        lr: args.float(LR)?,
        beta1: args.float(BETA1)?,
        beta2: args.float(BETA2)?,
        eps: args.float(EPS)?,
        weight_decay: args.float(WEIGHT_DECAY)?,
        maximize: args.bool(MAXIMIZE)?,
        decoupled: args.bool(DECOUPLED)?,
        step: count,
    })
}

fn step(args: &Args) -> Result<Output> {
    let (tensors, rule) = (args.tensors(STEP::TENSORS)?, args.str(STEP::RULE)?);
    let given = args.optional_floats(STEP::NUMBERS).unwrap_or_default();
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
            3 => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, nest, ends| {
                rule_of_three(rule, dtype, nest, ends, &numbers)
            })?,
            4 => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, nest, ends| {
                rule_of_four(rule, dtype, nest, ends, &numbers)
            })?,
            _ => run(group(tensors.try_into().map_err(mismatch)?)?, |dtype, nest, ends| {
                rule_of_five(rule, dtype, nest, ends, &numbers)
            })?,
        }
    }
    Ok(Output::Nothing)
}
