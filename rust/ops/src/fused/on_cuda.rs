//! Steps of optimizers on CUDA devices: the formulas of the host's kernels (`rushlight_cpu::fused`), from other operators. They
//! compute in the dtype of the arithmetic and write the results into parameters and states.

use rushlight_autograd::Tensor;
use rushlight_core::Result;
use rushlight_cpu::fused::{Adam, Sgd};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::{autocast, copy};

use crate::expr_ext::ExprExt;

fn wide(tensor: &Tensor) -> Result<Expr> {
    crate::convert::to_dtype(&tensor.detach(), tensor.dtype().compute()).map(Expr::from)
}

fn write(tensor: &Tensor, value: Expr) -> Result<()> {
    copy::copy(tensor, &value.done()?)?;
    tensor.bump_version();
    Ok(())
}

/// A step of gradient descent, with a buffer if there is momentum.
pub fn sgd_step(param: &Tensor, grad: &Tensor, buffer: Option<&Tensor>, c: &Sgd) -> Result<()> {
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
    let rate = -(c.lr / (1.0 - c.beta1.powf(c.step)));
    let root = (1.0 - c.beta2.powf(c.step)).sqrt();
    write(param, own + average / (spread.sqrt() / root + c.eps) * rate)
}

/// The parts of complex numbers, as a view.
fn parts(tensor: &Tensor) -> Tensor {
    let real = tensor.dtype().to_real();
    Tensor::new(tensor.storage().clone(), tensor.layout().pairs(), real, tensor.device())
}
