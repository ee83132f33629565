//! Sums of exponentials without overflow.

use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Result};
use rushlight_cpu::reduce::log_sum_exp;

use super::extreme::AMAX;
use super::sum::SUM_DIM;
use super::{Over, restored};
use crate::derive::{Derivative, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::row::{Accepts, DTypes, Kernel, Out, Row, Run, Variants};
use crate::value::{Args, Value};
use crate::view::complex::REAL;
use crate::view::reshape::{RESHAPE, sizes_value};
use crate::{Tensor, op};

pub static LOGSUMEXP: Row = Row {
    name: "logsumexp",
    aliases: &["special.logsumexp"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    doc: "The logarithm of the sum of exponentials along one or several dimensions, taken so that nothing overflows.

    out = log(sum(exp(self), dim))

    >>> torch.logsumexp(torch.tensor([1000., 1000.]), 0)
    tensor(1000.6932)",
    out: Out::new(Accepts::Cast, &["logsumexp(): Expected floating point type for result tensor, but got: {Out}"]),
    dtypes: DTypes::ALL,
    mapped: Mapped::Over(1),
    run: Run::Kernel(Kernel {
        infer: |args| {
            let over = Over::of(args, 1)?;
            let dtype = result_dtype(args)?;
            if !args.row.dtypes.has(args.tensor(0)?.dtype()) {
                return Err(crate::call::not_implemented(args.row, args.tensor(0)?.dtype()));
            }
            Ok(vec![over.spec(args, dtype)?])
        },
        cpu: |args, results| {
            if results[0].dtype().is_complex() {
                return crate::copy::copy(&results[0], &complex(args)?);
            }
            super::run(args, Over::of(args, 1)?, results, log_sum_exp, results[0].dtype().compute(), &[])
        },
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::input(0).union(Saves::RESULT), |d| {
        restored(d, d.grad(), 1) * (d.input(0) - restored(d, d.result(), 1)).exp().conj()
    })]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), (0, 2), True", "t(2, 3), 0", "t(), 0"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.log(np.sum(np.exp(self), axis=dim if self.ndim else None, keepdims=keepdim))",
    ..Row::BASE
};

/// The largest real part is taken out of the sum, where there is a finite one.
fn complex(args: &Args) -> Result<Tensor> {
    let own = args.tensor(0)?.detach();
    let dims = || Value::Ints(args.ints(1).unwrap_or_default().into());
    let keepdim = args.bool(2)?;
    let sum = |terms: Expr| terms.exp().call(&SUM_DIM, [dims(), keepdim.into()]).log();
    if own.numel() == 0 {
        return sum(Expr::from(&own)).done();
    }
    let top = op!(AMAX, op!(REAL, &own)?, dims(), true)?;
    let top = Expr::from(&top).isfinite().choose(&top, 0.0).done()?;
    let sum = sum(Expr::from(&own) - &top).done()?;
    let top = op!(RESHAPE, top, sizes_value(sum.sizes()))?;
    (Expr::from(&sum) + &top).done()
}

fn result_dtype(args: &Args) -> Result<DType> {
    let own = args.tensor(0)?.dtype();
    Ok(if own.is_differentiable() { own } else { default_dtype() })
}
