//! Steps of optimizers on CUDA devices: the formulas of the host's kernels (`rushlight_cpu::fused`). One kernel computes a step if all
//! tensors lie in the same order without gaps, else other operators do. Both compute in the dtype of the arithmetic.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result};
use rushlight_cpu::fused::{Adam, Sgd};
use rushlight_cuda::optimizer::{self, Algorithm, Flags};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::promote::bits;
use rushlight_dispatch::{autocast, copy};

use crate::expr_ext::ExprExt;
use crate::held::Held;

fn wide(tensor: &Tensor) -> Result<Expr> {
    crate::convert::to_dtype(&tensor.detach(), tensor.dtype().compute()).map(Expr::from)
}

fn write(tensor: &Tensor, value: Expr) -> Result<()> {
    copy::copy(tensor, &value.done()?)?;
    tensor.bump_version();
    Ok(())
}

/// Enqueues a step as one kernel, unless the tensors lie in different orders. The second tensor is not written.
fn in_one_kernel<const N: usize>(
    algorithm: Algorithm,
    tensors: [Option<&Tensor>; N],
    numbers: &[f64],
    flags: Flags,
) -> Result<bool> {
    let Some(param) = tensors[0] else { return Ok(false) };
    let (dtype, layout) = (param.dtype(), param.layout());
    let alike = |tensor: &&Tensor| tensor.layout().strides == layout.strides && tensor.layout().is_dense();
    let given: Vec<&Tensor> = tensors.iter().copied().flatten().collect();
    let apart = (0..given.len()).all(|n| given[..n].iter().all(|other| !other.storage().same(given[n].storage())));
    let computes = matches!(dtype, DType::F16 | DType::BF16 | DType::F32 | DType::F64);
    if !computes || !apart || !given.iter().all(alike) {
        return Ok(false);
    }
    let mut held = Held::on(param)?;
    let mut addresses = [0; N];
    for (address, tensor) in addresses.iter_mut().zip(tensors) {
        *address = held.optional(tensor)?;
    }
    let numbers: Vec<[u64; 2]> = numbers.iter().map(|&number| bits(number.into(), dtype.compute())).collect();
    let count = param.numel() as u64;
    if count > 0 {
        // SAFETY: the tensors are those of the algorithm, have one shape, lie in one order without gaps in storages of their own, and are held for the stream.
        unsafe { optimizer::step(held.card, held.stream, algorithm, dtype, addresses, count, &numbers, flags)? };
    }
    for (place, tensor) in tensors.into_iter().enumerate() {
        tensor.filter(|_| place != 1).into_iter().for_each(Tensor::bump_version);
    }
    Ok(true)
}

/// A step of gradient descent, with a buffer if there is momentum.
pub fn sgd_step(param: &Tensor, grad: &Tensor, buffer: Option<&Tensor>, c: &Sgd) -> Result<()> {
    let numbers = [-c.lr, c.weight_decay, c.momentum, 1.0 - c.dampening];
    let flags = Flags { maximizes: c.maximize, decays: c.weight_decay != 0.0, first: c.first, nesterov: c.nesterov };
    if in_one_kernel(Algorithm::Sgd, [Some(param), Some(grad), buffer], &numbers, flags)? {
        return Ok(());
    }
    let _off = autocast::disable();
    let (own, grad) = (wide(param)?, wide(grad)?);
    let mut step = if c.maximize { -grad } else { grad };
    if c.weight_decay != 0.0 {
        step = step + own.clone() * c.weight_decay;
    }
    if let Some(buffer) = buffer {
        let direction = match c.first {
            true => step.clone(),
            false => wide(buffer)? * c.momentum + step.clone() * (1.0 - c.dampening),
        };
        write(buffer, direction.clone())?;
        step = if c.nesterov { step + direction * c.momentum } else { direction };
    }
    write(param, own + step * -c.lr)
}

/// A step of Adam, for parameter, gradient, mean and mean square; `largest` are the largest mean squares.
pub fn adam_step([param, grad, mean, square]: [&Tensor; 4], largest: Option<&Tensor>, c: &Adam) -> Result<()> {
    if param.dtype().is_complex() {
        let parts = [param, grad, mean, square].map(parts);
        let largest = largest.map(self::parts);
        adam_step(parts.each_ref(), largest.as_ref(), c)?;
        [param, mean, square].into_iter().for_each(Tensor::bump_version);
        return Ok(());
    }
    let rate = -(c.lr / (1.0 - c.beta1.powf(c.step)));
    let root = (1.0 - c.beta2.powf(c.step)).sqrt();
    let factor = if c.decoupled { 1.0 - c.lr * c.weight_decay } else { 1.0 };
    let numbers = [factor, c.weight_decay, c.beta1, 1.0 - c.beta1, c.beta2, 1.0 - c.beta2, root, c.eps, rate];
    let decays = c.weight_decay != 0.0 && !c.decoupled;
    let flags = Flags { maximizes: c.maximize, decays, ..Flags::default() };
    if in_one_kernel(Algorithm::Adam, [Some(param), Some(grad), Some(mean), Some(square), largest], &numbers, flags)? {
        return Ok(());
    }
    let _off = autocast::disable();
    let (own, grad) = (wide(param)?, wide(grad)?);
    let grad = if c.maximize { -grad } else { grad };
    let (own, grad) = match (c.weight_decay != 0.0, c.decoupled) {
        (true, true) => (own * (1.0 - c.lr * c.weight_decay), grad),
        (true, false) => (own.clone(), grad + own * c.weight_decay),
        _ => (own, grad),
    };
    let before = wide(mean)?;
    // torch's `lerp` starts from the nearer end.
    let average = match 1.0 - c.beta1 < 0.5 {
        true => before.clone() + (grad.clone() - before) * (1.0 - c.beta1),
        false => grad.clone() - (grad.clone() - before) * c.beta1,
    };
    let spread = wide(square)? * c.beta2 + grad.clone() * (1.0 - c.beta2) * grad;
    write(mean, average.clone())?;
    write(square, spread.clone())?;
    let spread = match largest {
        Some(largest) => {
            let most = wide(largest)?.with(&crate::pointwise::compare::MAXIMUM, spread);
            write(largest, most.clone())?;
            most
        }
        None => spread,
    };
    write(param, own + average / (spread.sqrt() / root + c.eps) * rate)
}

/// The parts of complex numbers, as a view.
fn parts(tensor: &Tensor) -> Tensor {
    let real = tensor.dtype().to_real();
    Tensor::new(tensor.storage().clone(), tensor.layout().pairs(), real, tensor.device())
}
