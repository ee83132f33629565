//! Softmax along a dimension and its logarithm, as fused kernels with fused gradients.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Error, Result};
use rushlight_cpu::reduce::softmax::{backward, forward};
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{lines, plain, settle, workplace};
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Out,
    Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output};

use super::on_cuda;
use crate::expr_ext::ExprExt;

#[operator]
pub static SOFTMAX: Operator = Operator {
    name: "softmax",
    aliases: &["special.softmax"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "Exponentials that add up to one along `dim`.

    out = exp(self) / sum(exp(self), dim)

The largest element is subtracted first, so that nothing overflows.

    >>> torch.softmax(torch.tensor([0., 0., 0., 0.]), dim=0)
    tensor([0.2500, 0.2500, 0.2500, 0.2500])",
    out: Out::EXACT,
    kernel_name: "softmax_lastdim_kernel_impl",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: |args, results| run(args, &results[0], false),
        cuda: OnCuda::Own(|args, results| run_on_cuda(args, &results[0], false)),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| fused(d, &SOFTMAX_BACKWARD))]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3), -1", "t(), 0", "t(2, 3), 0, dtype=torch.float64"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "(lambda e: e / e.sum(axis=dim, keepdims=self.ndim > 0))(np.exp(self - self.max(axis=dim if self.ndim else None, keepdims=self.ndim > 0))) if self.ndim else np.ones_like(self)",
    ..Operator::BASE
};

#[operator]
pub static LOG_SOFTMAX: Operator = Operator {
    name: "log_softmax",
    aliases: &["special.log_softmax"],
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "The logarithm of softmax along `dim`, computed directly and so more accurately.

    out = self - log(sum(exp(self), dim))

    >>> torch.log_softmax(torch.tensor([0., 0.]), dim=0)
    tensor([-0.6931, -0.6931])",
    out: Out::EXACT,
    kernel_name: "log_softmax_lastdim_kernel_impl",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer,
        cpu: |args, results| run(args, &results[0], true),
        cuda: OnCuda::Own(|args, results| run_on_cuda(args, &results[0], true)),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::RESULT, |d| fused(d, &LOG_SOFTMAX_BACKWARD))]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3), 1", "t(2, 3, 4), 1", "t(3), -1", "t(), 0", "t(2, 3), 0, dtype=torch.float64"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "(lambda z: z - np.log(np.exp(z).sum(axis=dim, keepdims=True)))(self - self.max(axis=dim, keepdims=True)) if self.ndim else np.zeros_like(self)",
    ..Operator::BASE
};

#[operator]
pub static SOFTMAX_BACKWARD: Operator = Operator {
    name: "_softmax_backward_data",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    doc: "The gradient of softmax's operand.

    >>> torch._softmax_backward_data(torch.tensor([1., 0.]), torch.tensor([.5, .5]), 0, torch.float32)
    tensor([ 0.2500, -0.2500])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: infer_backward,
        cpu: |args, results| run_backward(args, &results[0], false),
        cuda: OnCuda::Own(|args, results| run_backward_on_cuda(args, &results[0], false)),
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(OUTPUT), |d| {
            let (u, y) = (d.grad(), d.input(OUTPUT));
            (u.clone() - total(d, u * y.clone())) * y
        }),
        formula(OUTPUT, Saves::input(GRAD_OUTPUT).union(Saves::input(OUTPUT)), |d| {
            let (u, g, y) = (d.grad(), d.input(GRAD_OUTPUT), d.input(OUTPUT));
            let own = total(d, g.clone() * y.clone());
            let mixed = total(d, u.clone() * y);
            u * (g.clone() - own) - g * mixed
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1, torch.float64"],
    ..Operator::BASE
};

#[operator]
pub static LOG_SOFTMAX_BACKWARD: Operator = Operator {
    name: "_log_softmax_backward_data",
    variants: Variants::FUNCTION,
    signature: "(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor",
    doc: "The gradient of log_softmax's operand.

    >>> torch._log_softmax_backward_data(torch.tensor([1., 0.]), torch.tensor([0., 0.]), 0, torch.float32)
    tensor([ 0., -1.])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Along(DIM),
    implementation: Implementation::Kernel(Kernel {
        infer: infer_backward,
        cpu: |args, results| run_backward(args, &results[0], true),
        cuda: OnCuda::Own(|args, results| run_backward_on_cuda(args, &results[0], true)),
    }),
    derivative: Derivative::Formulas(&[
        formula(GRAD_OUTPUT, Saves::input(OUTPUT), |d| {
            let u = d.grad();
            u.clone() - total(d, u * d.input(OUTPUT).exp())
        }),
        formula(OUTPUT, Saves::input(GRAD_OUTPUT).union(Saves::input(OUTPUT)), |d| {
            -(d.grad() * d.input(OUTPUT).exp() * total(d, d.input(GRAD_OUTPUT)))
        }),
    ]),
    samples: &["t(2, 3), t(2, 3), 1, torch.float64"],
    ..Operator::BASE
};

#[operator]
pub static SOFTMIN: Operator = Operator {
    name: "softmin",
    namespace: "nn.functional",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    doc: "Softmax of the negative.

    >>> torch.nn.functional.softmin(torch.tensor([0., 0.]), dim=0)
    tensor([0.5000, 0.5000])",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let dim = args.int(DIM)?;
        let dtype = args.dtype(DTYPE);
        (-Expr::from(args.tensor(INPUT)?)).call(&SOFTMAX, [dim.into(), dtype.into()]).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), 1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.exp(-self) / np.exp(-self).sum(dim, keepdims=True)",
    ..Operator::BASE
};

fn fused(d: &BackwardContext, op: &'static Operator) -> Expr {
    use SOFTMAX::*;

    let own = d.meta(INPUT).map_or(DType::F32, |meta| meta.dtype);
    match d.result().done() {
        Ok(result) => d.grad().call(op, [result.into(), d.int(DIM).into(), own.into()]),
        Err(error) => Expr::failed(error),
    }
}

/// The sum along the call's dimension, which is kept.
fn total(d: &BackwardContext, value: Expr) -> Expr {
    let dims = Ints::from_slice(&[d.int(SOFTMAX_BACKWARD::DIM)]);
    value.call(&super::sum::SUM_DIM, [dims.into(), true.into()])
}

fn infer(args: &Args) -> Result<Vec<TensorSpec>> {
    use SOFTMAX::*;

    let input = args.tensor(INPUT)?;
    let dim = super::one_dim(args, DIM)?;
    let dtype = args.dtype(DTYPE).unwrap_or(input.dtype());
    if !DTypes::FLOATS.has(dtype) {
        let place = if dim + 1 < input.rank() { "" } else { "_lastdim" };
        return Err(Error::unsupported(&format!("{}{place}_kernel_impl", args.op.python_name()), dtype)
            .hint("Use floats, or set dtype: softmax(x, dim, dtype=torch.float32)."));
    }
    crate::convert::note_dropped(input.dtype(), dtype)?;
    Ok(vec![TensorSpec::new(input.sizes(), dtype, input)])
}

fn infer_backward(args: &Args) -> Result<Vec<TensorSpec>> {
    use SOFTMAX_BACKWARD::*;

    let (own, output) = (args.tensor(GRAD_OUTPUT)?, args.tensor(OUTPUT)?);
    super::one_dim(args, DIM)?;
    if own.sizes() != output.sizes() {
        return Err(Error::runtime("a gradient and its output differ in shape")
            .shapes([own.sizes().as_slice(), output.sizes().as_slice()]));
    }
    Ok(vec![TensorSpec::new(own.sizes(), args.dtype(INPUT_DTYPE).unwrap_or(own.dtype()), own)])
}

fn run(args: &Args, result: &Tensor, log: bool) -> Result<()> {
    use SOFTMAX::*;

    let input = args.tensor(INPUT)?;
    let lines = lines(input, super::one_dim(args, DIM)?);
    let compute = result.dtype().compute();
    let (source, place) = (plain(input, compute)?, workplace(result, compute)?);
    let (from, to) = (source.storage().pin()?, place.storage().pin()?);
    let offset = source.layout().offset;
    // SAFETY: both are contiguous, of one shape and of the compute dtype.
    unsafe {
        match compute {
            DType::F64 => forward(lines, to.as_ptr().cast::<f64>(), from.as_ptr().cast::<f64>().offset(offset), log),
            DType::F32 => forward(lines, to.as_ptr().cast::<f32>(), from.as_ptr().cast::<f32>().offset(offset), log),
            _ => return Err(not_implemented(args.op, compute)),
        }
    }
    settle(&place, result)
}

fn run_backward(args: &Args, result: &Tensor, log: bool) -> Result<()> {
    use SOFTMAX_BACKWARD::*;

    let own = args.tensor(GRAD_OUTPUT)?;
    let lines = lines(own, super::one_dim(args, DIM)?);
    let compute = own.dtype().compute();
    let (grad, output, place) =
        (plain(own, compute)?, plain(args.tensor(OUTPUT)?, compute)?, workplace(result, compute)?);
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
            _ => return Err(not_implemented(args.op, compute)),
        }
    }
    settle(&place, result)
}

/// The same on a CUDA device.
fn run_on_cuda(args: &Args, result: &Tensor, logarithm: bool) -> Result<()> {
    use SOFTMAX::*;

    let input = args.tensor(INPUT)?;
    let dim = super::one_dim(args, DIM)?;
    on_cuda::softmax(false, logarithm, result, [input, input], dim, result.dtype().compute())
}

fn run_backward_on_cuda(args: &Args, result: &Tensor, logarithm: bool) -> Result<()> {
    use SOFTMAX_BACKWARD::*;

    let own = args.tensor(GRAD_OUTPUT)?;
    let dim = super::one_dim(args, DIM)?;
    on_cuda::softmax(true, logarithm, result, [own, args.tensor(OUTPUT)?], dim, own.dtype().compute())
}
