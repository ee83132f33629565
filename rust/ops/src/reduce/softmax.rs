//! Softmax along a dimension and its logarithm, as fused kernels with fused gradients.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::reduce::softmax::{backward, forward};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::operands::{lines, plain, settle, workplace};
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::Args;

pub static SOFTMAX: Row = Row {
    name: "softmax",
    aliases: &["special.softmax"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "Exponentials that add up to one along `dim`.

    out = exp(self) / sum(exp(self), dim)

The largest element is taken away first, so that nothing overflows.

    >>> torch.softmax(torch.tensor([0., 0., 0., 0.]), dim=0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])",
    out: Out::EXACT,
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer, cpu: |args, results| run(args, &results[0], false) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| fused(d, &SOFTMAX_BACKWARD))]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3), -1", "t(), 0", "t(2, 3), 0, dtype=torch.float64"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "(lambda e: e / e.sum(axis=dim, keepdims=self.ndim > 0))(np.exp(self - self.max(axis=dim if self.ndim else None, keepdims=self.ndim > 0))) if self.ndim else np.ones_like(self)",
    ..Row::BASE
};

pub static LOG_SOFTMAX: Row = Row {
    name: "log_softmax",
    aliases: &["special.log_softmax"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "The logarithm of softmax along `dim`, without its rounding.

    out = self - log(sum(exp(self), dim))

    >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])",
    out: Out::EXACT,
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Along(1),
    run: Run::Kernel(Kernel { infer, cpu: |args, results| run(args, &results[0], true) }),
    derivative: Derivative::Formulas(&[formula(0, Saves::RESULT, |d| fused(d, &LOG_SOFTMAX_BACKWARD))]),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3), -1", "t(), 0", "t(2, 3), 0, dtype=torch.float64"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "(lambda z: z - np.log(np.exp(z).sum(axis=dim, keepdims=True)))(self - self.max(axis=dim, keepdims=True)) if self.ndim else np.zeros_like(self)",
    ..Row::BASE
};

pub static SOFTMAX_BACKWARD: Row = Row {
    name: "_softmax_backward_data",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    doc: "The gradient of softmax's operand.

    >>> torch._softmax_backward_data(torch.tensor([1., 0.]), torch.tensor([.5, .5]), 0, torch.float32)
    tensor([ 0.2500, -0.2500])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel { infer: infer_backward, cpu: |args, results| run_backward(args, &results[0], false) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            let (u, y) = (d.grad(), d.input(1));
            (u.clone() - total(d, u * y.clone())) * y
        }),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| {
            let (u, g, y) = (d.grad(), d.input(0), d.input(1));
            let own = total(d, g.clone() * y.clone());
            let mixed = total(d, u.clone() * y);
            u * (g.clone() - own) - g * mixed
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1, torch.float64"],
    ..Row::BASE
};

pub static LOG_SOFTMAX_BACKWARD: Row = Row {
    name: "_log_softmax_backward_data",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    doc: "The gradient of log_softmax's operand.

    >>> torch._log_softmax_backward_data(torch.tensor([1., 0.]), torch.tensor([0., 0.]), 0, torch.float32)
    tensor([ 0., -1.])",
    dtypes: DTypes::FLOATS,
    mapped: Mapped::Along(2),
    run: Run::Kernel(Kernel { infer: infer_backward, cpu: |args, results| run_backward(args, &results[0], true) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| {
            let u = d.grad();
            u.clone() - total(d, u * d.input(1).exp())
        }),
        formula(1, Saves::input(0).union(Saves::input(1)), |d| -(d.grad() * d.input(1).exp() * total(d, d.input(0)))),
    ]),
    samples: &["t(2, 3), t(2, 3), 1, torch.float64"],
    ..Row::BASE
};

pub static SOFTMIN: Row = Row {
    name: "softmin",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "Softmax of the negative.

    >>> torch.nn.functional.softmin(torch.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])",
    dtypes: DTypes::FLOATS,
    run: Run::Compose(|args| {
        let dim = args.int(1)?;
        let dtype = args.dtype(2);
        (-Expr::from(args.tensor(0)?))
            .call(&SOFTMAX, [dim.into(), dtype.into()])
            .done()
            .map(crate::value::Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(2, 3), 1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.exp(-self) / np.exp(-self).sum(dim, keepdims=True)",
    ..Row::BASE
};

fn fused(d: &Derive, row: &'static Row) -> Expr {
    let own = d.facts(0).map_or(DType::F32, |facts| facts.dtype);
    match d.result().done() {
        Ok(result) => d.grad().call(row, [result.into(), d.int(1).into(), own.into()]),
        Err(error) => Expr::failed(error),
    }
}

/// The sum along the call's dimension, which stays.
fn total(d: &Derive, value: Expr) -> Expr {
    let dims = crate::value::Ints::from_slice(&[d.int(2)]);
    value.call(&super::sum::SUM_DIM, [dims.into(), true.into()])
}

fn infer(args: &Args) -> Result<Vec<Spec>> {
    let own = args.tensor(0)?;
    let dim = super::one_dim(args, 1)?;
    let dtype = args.dtype(2).unwrap_or(own.dtype());
    if !dtype.is_floating() {
        let place = if dim + 1 < own.rank() { "" } else { "_lastdim" };
        return Err(Error::unsupported(&format!("{}{place}_kernel_impl", args.row.python_name()), dtype)
            .hint("Give floats, or a dtype: softmax(x, dim, dtype=torch.float32)."));
    }
    crate::convert::note_dropped(own.dtype(), dtype)?;
    Ok(vec![Spec::new(own.sizes(), dtype, own)])
}

fn infer_backward(args: &Args) -> Result<Vec<Spec>> {
    let (own, output) = (args.tensor(0)?, args.tensor(1)?);
    super::one_dim(args, 2)?;
    if own.sizes() != output.sizes() {
        return Err(Error::runtime("a gradient and its output differ in shape")
            .shapes([own.sizes().as_slice(), output.sizes().as_slice()]));
    }
    Ok(vec![Spec::new(own.sizes(), args.dtype(3).unwrap_or(own.dtype()), own)])
}

fn run(args: &Args, result: &Tensor, log: bool) -> Result<()> {
    let own = args.tensor(0)?;
    let lines = lines(own, super::one_dim(args, 1)?);
    let compute = result.dtype().compute();
    let (source, place) = (plain(own, compute)?, workplace(result, compute)?);
    let (from, to) = (source.storage().pin()?, place.storage().pin()?);
    let offset = source.layout().offset;
    // SAFETY: both are contiguous, of one shape and of the compute dtype.
    unsafe {
        match compute {
            DType::F64 => forward(lines, to.as_ptr().cast::<f64>(), from.as_ptr().cast::<f64>().offset(offset), log),
            DType::F32 => forward(lines, to.as_ptr().cast::<f32>(), from.as_ptr().cast::<f32>().offset(offset), log),
            _ => return Err(crate::call::not_implemented(args.row, compute)),
        }
    }
    settle(&place, result)
}

fn run_backward(args: &Args, result: &Tensor, log: bool) -> Result<()> {
    let own = args.tensor(0)?;
    let lines = lines(own, super::one_dim(args, 2)?);
    let compute = own.dtype().compute();
    let (grad, output, place) = (plain(own, compute)?, plain(args.tensor(1)?, compute)?, workplace(result, compute)?);
    let (g, y, to) = (grad.storage().pin()?, output.storage().pin()?, place.storage().pin()?);
    let (go, yo) = (grad.layout().offset, output.layout().offset);
    // SAFETY: all are contiguous, of one shape and of the compute dtype.
    unsafe {
        match compute {
            DType::F64 => backward(
                lines,
                to.as_ptr().cast::<f64>(),
                g.as_ptr().cast::<f64>().offset(go),
                y.as_ptr().cast::<f64>().offset(yo),
                log,
            ),
            DType::F32 => backward(
                lines,
                to.as_ptr().cast::<f32>(),
                g.as_ptr().cast::<f32>().offset(go),
                y.as_ptr().cast::<f32>().offset(yo),
                log,
            ),
            _ => return Err(crate::call::not_implemented(args.row, compute)),
        }
    }
    settle(&place, result)
}
