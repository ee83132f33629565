//! Sums over all elements or over some dimensions.

use rushlight_autograd::Tensor;
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{Bool, DType, Error, Result};
use rushlight_cpu::folds;
use rushlight_cpu::folds::Folds;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Accepts, Args, Autocast, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Out, Saves, Sparse, Tags,
    TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Ints, Output, Value, sizes_value};
use rushlight_dispatch::{handled, op};

use super::{ReduceDims, expand, restored};
use crate::expr_ext::ExprExt;

#[operator]
pub static SUM: Operator = Operator {
    name: "sum",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    variants: Variants::BOTH,
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sum of all elements.

Integers and bool are summed in int64. Floats are summed in a fixed tree, so that the error grows with the logarithm of the count
and the bits do not depend on the number of threads.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]))
    tensor(10.)",
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::FullReduction(&SUM_DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::ALL, DTYPE),
        |args, results| run(args, ReduceDims::ALL, results, SUMS),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| expand(d, d.grad()))]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &["t(2, 3)", "t(0)", "t()", "t(2, 3).t()", "t(2, 3), dtype=torch.float64"],
    reference: "np.sum(self) if dtype is None else np.sum(self, dtype=dtype)",
    ..Operator::BASE
};

#[operator]
pub static SUM_DIM: Operator = Operator {
    name: "sum.dim",
    tags: Tags::ANY_DTYPE_WITHOUT_ELEMENTS,
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sums along `dim`, one dimension or several; these are removed unless `keepdim`.

    >>> torch.sum(torch.tensor([[1., 2.], [3., 4.]]), dim=1)
    tensor([3., 7.])",
    out: Out::REQUESTED_DTYPE,
    dtypes: DTypes::COMPUTED,
    sparse: Sparse::ExplicitAutograd,
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, ReduceDims::of(args, DIM, KEEPDIM)?, DTYPE),
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, SUMS),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        expand(d, restored(d, d.grad(), DIM, KEEPDIM))
    })]),
    autocast: Autocast::Fp32.on_cuda_alone(),
    samples: &[
        "t(2, 3), 1",
        "t(2, 3), dim=(0, 1)",
        "t(2, 3, 4), (0, 2), True",
        "t(0, 3), 0",
        "t(2, 3, 4).transpose(0, 2), 1",
    ],
    errors: &[
        ("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)"),
        ("t(2, 3), (0, -2)", "RuntimeError", "dim 0 appears multiple times in the list of dims"),
    ],
    reference: "np.sum(self, axis=dim, keepdims=keepdim)",
    ..Operator::BASE
};

#[operator]
pub static NANSUM: Operator = Operator {
    name: "nansum",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The sums along `dim` (all dimensions by default), in which NaN counts as zero.

    >>> torch.nansum(torch.tensor([1., float('nan'), 2.]))
    tensor(3.)",
    out: Out { accepts: Accepts::RequestedIf(floats_for_floats), ..Out::REQUESTED_DTYPE },
    dtypes: DTypes::REAL.union(DTypes::BOOL),
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let dtype = args.tensor(INPUT)?.dtype();
            if dtype.is_complex() {
                return Err(Error::runtime("nansum on CPU does not support complex inputs"));
            }
            if let Some(asked) = args.dtype(DTYPE).filter(|asked| dtype.is_floating() && asked.is_complex()) {
                return Err(not_implemented(args.op, asked));
            }
            infer(args, ReduceDims::of(args, DIM, KEEPDIM)?, DTYPE)
        },
        |args, results| {
            let (input, over) = (args.tensor(INPUT)?, ReduceDims::of(args, DIM, KEEPDIM)?);
            if results[0].dtype().is_floating() && input.dtype().is_floating() {
                return run(args, over, results, NAN_SUMS);
            }
            // No other dtype has NaN, so it is replaced before the elements are converted.
            let mut args = args.clone();
            if input.dtype().is_floating() {
                let lost = Expr::from(input).call(&crate::pointwise::compare::ISNAN, []);
                args.set(INPUT, Value::Own(lost.choose(0.0, Expr::from(input)).done()?));
            }
            run(&args, over, results, SUMS)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
        let real = d
            .input(INPUT)
            .call(&crate::pointwise::compare::ISNAN, [])
            .call(&crate::pointwise::logical::LOGICAL_NOT, []);
        restored(d, d.grad(), DIM, KEEPDIM) * real
    })]),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.nansum(self, axis=dim, keepdims=keepdim)",
    ..Operator::BASE
};

/// Returns an error for an `out=` of integers, unless the call asks for its dtype: the kernel sums floats alone.
fn floats_for_floats(args: &Args, out: DType) -> Result<()> {
    if args.tensor(NANSUM::INPUT)?.dtype().is_floating() && !out.is_floating() {
        return Err(not_implemented(args.op, out));
    }
    Ok(())
}

#[operator]
pub static MEAN: Operator = Operator {
    name: "mean",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    doc: "The mean of all elements, which must be floats or complex numbers; NaN if there are none.

    >>> torch.mean(torch.tensor([1., 2., 6.]))
    tensor(3.)",
    out: Out::new(Accepts::Cast, &["{name}.dtype_out(): input types can't be cast to the desired output type {Out}"]),
    dtypes: DTypes::INEXACT,
    batch_rule: BatchRule::FullReduction(&MEAN_DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| Ok(vec![ReduceDims::ALL.spec(args, mean_dtype(args, DTYPE)?)?]),
        |args, results| run(args, ReduceDims::ALL, results, MEANS),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let count: isize = d.sizes(INPUT).iter().product();
        expand(d, d.grad()) / count as f64
    })]),
    samples: &["t(2, 3)", "t()", "t(2, 3).t()"],
    errors: &[(
        "i(3, 2)",
        "RuntimeError",
        "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: Long",
    )],
    reference: "np.mean(self)",
    kernel_name: "sum_cpu",
    ..Operator::BASE
};

#[operator]
pub static MEAN_DIM: Operator = Operator {
    name: "mean.dim",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The means along `dim`, one dimension or several.

    >>> torch.mean(torch.tensor([[1., 2.], [3., 4.]]), 0)
    tensor([2., 3.])",
    dtypes: DTypes::INEXACT,
    batch_rule: BatchRule::Over(DIM),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let dtype = mean_dtype(args, DTYPE)?;
            Ok(vec![ReduceDims::of(args, DIM, KEEPDIM)?.spec(args, dtype)?])
        },
        |args, results| run(args, ReduceDims::of(args, DIM, KEEPDIM)?, results, MEANS),
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        expand(d, restored(d, d.grad(), DIM, KEEPDIM)) / super::derived_count(d, DIM)
    })]),
    samples: &["t(2, 3), 1", "t(2, 3), (0, 1)", "t(2, 3, 4), (0, 2), True", "t(2, 3, 4).transpose(0, 2), 1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.mean(self, axis=dim, keepdims=keepdim)",
    ..Operator::BASE
};

#[operator]
pub static NANMEAN: Operator = Operator {
    name: "nanmean",
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    doc: "The means along `dim` (all dimensions by default) of the elements that are not NaN.

    >>> torch.nanmean(torch.tensor([1., float('nan'), 2.]))
    tensor(1.5000)",
    dtypes: DTypes::FLOATS,
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if !input.dtype().is_differentiable() {
            return Err(Error::runtime(format!(
                "nanmean(): expected input to have floating point or complex dtype but got {}",
                input.dtype().display_name()
            )));
        }
        if let Some(asked) = args.dtype(DTYPE).filter(|asked| !asked.is_differentiable()) {
            return Err(Error::runtime(format!(
                "nanmean(): could not infer output dtype. Optional dtype must be either a floating point or complex dtype. Got: {}",
                asked.display_name()
            )));
        }
        let keepdim = args.bool(KEEPDIM)?;
        let real = Expr::new(handled::detach(input)).call(&crate::pointwise::compare::ISNAN, []);
        let count = real
            .call(&crate::pointwise::logical::LOGICAL_NOT, [])
            .call(&SUM_DIM, [super::dims(args, DIM).into(), keepdim.into()]);
        let total = op!(NANSUM, input, super::dims(args, DIM), keepdim, args.dtype(DTYPE))?;
        (Expr::from(total) / count).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3, 4), (0, 2), True"],
    errors: &[(
        "i(3, 2)",
        "RuntimeError",
        "nanmean(): expected input to have floating point or complex dtype but got Long",
    )],
    reference: "np.nanmean(self, axis=dim, keepdims=keepdim)",
    ..Operator::BASE
};

#[operator]
pub static TRACE: Operator = Operator {
    name: "trace",
    node: "TraceBackward0",
    signature: "(Tensor self) -> Tensor",
    doc: "The sum of a matrix's diagonal.

    >>> torch.trace(torch.tensor([[1, 2], [3, 4]]))
    tensor(5)",
    dtypes: DTypes::COMMON,
    autocast: Autocast::Fp32.on_cpu_alone(),
    implementation: Implementation::CompositeImplicit(|args| {
        let input = args.tensor(INPUT)?;
        if input.rank() != 2 {
            return Err(Error::runtime(format!("trace: expected a matrix, but got tensor with dim {}", input.rank())));
        }
        if !args.op.dtypes.has(input.dtype()) {
            return Err(Error::unsupported("trace", input.dtype()));
        }
        Expr::from(input).call(&crate::view::diagonal::DIAGONAL, []).call(&SUM, []).done().map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(3, 3)", "t(2, 4)"],
    errors: &[("t(2)", "RuntimeError", "trace: expected a matrix, but got tensor with dim 1")],
    reference: "np.trace(self)",
    ..Operator::BASE
};

/// Sums by compute dtype; for bool the sum is "or".
pub const SUMS: Folds = folds! {
    "sum";
    for<S> [u8, i8, i16, i32, i64] (0; |a, x| a.wrapping_add(x); |a, b| a.wrapping_add(b); |a, _n| a);
    for<S> [f32, f64, c64, c128] (T::default(); |a, x| a + x; |a, b| a + b; |a, _n| a);
    for<S> [Bool] (Bool(0); |a, x| Bool(a.0 | x.0); |a, b| Bool(a.0 | b.0); |a, _n| a)
};

/// Sums of what is not NaN.
pub const NAN_SUMS: Folds = folds! {
    "nansum";
    for<S> [f32, f64] (0.0; |a, x| if x.is_nan() { a } else { a + x }; |a, b| a + b; |a, _n| a)
};

/// Means by compute dtype. torch multiplies complex sums by a complex number, so that an infinite part makes the other NaN.
pub const MEANS: Folds = folds! {
    "mean";
    for<S> [f32, f64] (0.0; |a, x| a + x; |a, b| a + b; |a, n| a / n as T);
    for<S> [c64] (T::default(); |a, x| a + x; |a, b| a + b; |a, n| a * T::new(1.0 / n as f32, 0.0));
    for<S> [c128] (T::default(); |a, x| a + x; |a, b| a + b; |a, n| a * T::new(1.0 / n as f64, 0.0))
};

/// The dtype of a sum: the requested one, int64 for integers, else the operand's.
pub fn result_dtype(args: &Args, arg: Arg) -> Result<DType> {
    use SUM::*;

    let input = args.tensor(INPUT)?.dtype();
    let exact = input.is_integral() || input == DType::Bool;
    let dtype = args.dtype(arg).unwrap_or(if exact { DType::I64 } else { input });
    if !dtype.is_differentiable() && args.tensor(INPUT)?.requires_grad() && rushlight_autograd::modes::grad_enabled() {
        return Err(Error::runtime(format!("Autograd not support dtype: {}", dtype.display_name()))
            .hint("Integers have no gradient: use x.detach() to remove the history."));
    }
    Ok(dtype)
}

fn mean_dtype(args: &Args, arg: Arg) -> Result<DType> {
    let (asked, given) = (args.dtype(arg), args.tensor(MEAN::INPUT)?.dtype());
    let dtype = asked.unwrap_or(given);
    if !dtype.is_differentiable() {
        let which = if asked.is_some() { "Optional" } else { "Input" };
        return Err(Error::runtime(format!(
            "mean(): could not infer output dtype. {which} dtype must be either a floating point or complex dtype. Got: {}",
            dtype.display_name()
        ))
        .hint("Use x.float().mean() or x.mean(dtype=torch.float32) for the mean of integers."));
    }
    Ok(dtype)
}

fn infer(args: &Args, over: ReduceDims, dtype: Arg) -> Result<Vec<TensorSpec>> {
    Ok(vec![over.spec(args, result_dtype(args, dtype)?)?])
}

fn run(args: &Args, over: ReduceDims, results: &[rushlight_autograd::Tensor], folds: Folds) -> Result<()> {
    super::fold(args, over, results, folds, results[0].dtype().compute(), &[])
}

/// Sums a broadcast result's gradient back to the operand's shape.
pub fn sum_to(grad: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    // A private operator's result may have fewer dimensions than its gradient; then only the shape changes.
    let extra = grad.rank().saturating_sub(sizes.len());
    let dims: Ints = (0..grad.rank())
        .filter(|&dim| dim < extra || (sizes[dim - extra] == 1 && grad.sizes()[dim] != 1))
        .map(|dim| dim as i64)
        .collect();
    let summed = if dims.is_empty() { grad.clone() } else { op!(SUM_DIM, grad, dims, true)? };
    if summed.sizes().as_slice() == sizes {
        return Ok(summed);
    }
    crate::view::RESHAPE.tensor([(&summed).into(), sizes_value(sizes)])
}
