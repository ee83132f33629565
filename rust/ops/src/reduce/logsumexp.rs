//! Sums of exponentials without overflow.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Device, Result};
use rushlight_cpu::reduce::log_sum_exp;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Value, sizes_value};
use rushlight_dispatch::{copy, op};

use super::extreme::AMAX;
use super::sum::SUM_DIM;
use super::{ReduceDims, restored};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::view::complex::REAL;
use crate::view::reshape::RESHAPE;

#[operator]
pub static LOGSUMEXP: Operator = Operator {
    name: "logsumexp",
    aliases: &["special.logsumexp"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    doc: "The logarithm of the sum of exponentials along one or several dimensions, computed without overflow.

    out = log(sum(exp(self), dim))

    >>> torch.logsumexp(torch.tensor([1000., 1000.]), 0)
    tensor(1000.6932)",
    out: Out::new(Accepts::Cast, &["logsumexp(): Expected floating point type for result tensor, but got: {Out}"]),
    dtypes: DTypes::COMPUTED,
    autocast: Autocast::Fp32.on_cuda_alone(),
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let over = ReduceDims::of(args, DIM, KEEPDIM)?;
            let dtype = result_dtype(args)?;
            if !args.op.dtypes.has(args.tensor(INPUT)?.dtype()) {
                return Err(not_implemented(args.op, args.tensor(INPUT)?.dtype()));
            }
            Ok(vec![over.spec(args, dtype)?])
        },
        |args, results| {
            let input = args.tensor(INPUT)?;
            if results[0].dtype().is_complex() || matches!(input.device(), Device::Cuda(_)) {
                return copy::copy(&results[0], &composed(args, results[0].dtype().compute())?);
            }
            super::run(
                args,
                ReduceDims::of(args, DIM, KEEPDIM)?,
                results,
                log_sum_exp,
                results[0].dtype().compute(),
                &[],
            )
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        restored(d, d.grad(), DIM, KEEPDIM) * (d.input(INPUT) - restored(d, d.result(), DIM, KEEPDIM)).exp().conj()
    })]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), (0, 2), True", "t(2, 3), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.log(np.sum(np.exp(self), axis=dim if self.ndim else None, keepdims=keepdim))",
    ..Operator::BASE
};

/// The largest real part is factored out of the sum, if it is finite.
fn composed(args: &Args, compute: DType) -> Result<Tensor> {
    use LOGSUMEXP::*;

    let input = to_dtype(&args.tensor(INPUT)?.detach(), compute)?;
    let dims = || Value::Ints(args.ints(DIM).unwrap_or_default().into());
    let keepdim = args.bool(KEEPDIM)?;
    let sum = |terms: Expr| terms.exp().call(&SUM_DIM, [dims(), keepdim.into()]).log();
    if input.numel() == 0 {
        return sum(Expr::from(&input)).done();
    }
    let real = if compute.is_complex() { op!(REAL, &input)? } else { input.clone() };
    let top = op!(AMAX, real, dims(), true)?;
    let top = Expr::from(&top).isfinite().choose(&top, 0.0).done()?;
    let sum = sum(Expr::from(&input) - &top).done()?;
    let top = op!(RESHAPE, top, sizes_value(sum.sizes()))?;
    (Expr::from(&sum) + &top).done()
}

fn result_dtype(args: &Args) -> Result<DType> {
    let dtype = args.tensor(LOGSUMEXP::INPUT)?.dtype();
    Ok(if dtype.is_differentiable() { dtype } else { default_dtype() })
}
