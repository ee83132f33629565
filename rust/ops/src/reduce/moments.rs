//! Variance and standard deviation, alone or with the mean.

use rushlight_autograd::Tensor;
use rushlight_core::layout::DimSet;
use rushlight_core::{DType, Device, Error, Result, Scalar};
use rushlight_cpu::reduce::moments;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::Value;
use rushlight_dispatch::{copy, create, interpreter, op};

use super::{ReduceDims, derived_count, expand};
use crate::convert::to_dtype;
use crate::expr_ext::ExprExt;
use crate::pointwise::compare::EQ;

/// Three overloads of one function: over all elements, along dimensions with `unbiased`, and with any correction. The
/// first two delegate to the third.
macro_rules! family {
    ($all:ident $dim:ident $correction:ident, $name:literal, $node:literal, $root:expr, $mean:expr, $returns:literal,
     $sentence:literal, $value:literal, $of_rows:literal, $reference:literal, $gradient:expr) => {
        #[operator]
        pub static $all: Operator = Operator {
            name: $name,
            signature: concat!("(Tensor self, bool unbiased=True) -> ", $returns),
            doc: concat!(
                $sentence,
                " of all elements.\n\n    >>> torch.",
                $name,
                "(torch.tensor([1., 2., 3., 4.]))\n    ",
                $value
            ),
            dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
            implementation: Implementation::Delegate(|args| deferred(args, &$correction, false)),
            derivative: Derivative::CompositeImplicit,
            node: $node,
            samples: &["t(2, 3)", "t(2, 3), False", "t(3, 2).t()"],
            reference: concat!("(lambda dim, ddof, keepdim: ", $reference, ")(None, int(unbiased), False)"),
            ..Operator::BASE
        };

        #[operator]
        pub static $dim: Operator = Operator {
            name: concat!($name, ".dim"),
            variants: if $mean { Variants::BOTH } else { Variants::BOTH.union(Variants::OUT) },
            signature: concat!("(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> ", $returns),
            doc: concat!(
                $sentence,
                " along `dim`, one dimension or several.\n\n    >>> torch.",
                $name,
                "(torch.tensor([[1., 2.], [3., 6.]]), 1)\n    ",
                $of_rows
            ),
            dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
            implementation: Implementation::Delegate(|args| deferred(args, &$correction, true)),
            derivative: Derivative::CompositeImplicit,
            node: $node,
            samples: &["t(2, 3), 1", "t(2, 3, 4), (0, 2), False, True"],
            errors: &[(
                "t(2, 3), 2",
                "IndexError",
                "Dimension out of range (expected to be in range of [-2, 1], but got 2)",
            )],
            reference: concat!("(lambda dim, ddof, keepdim: ", $reference, ")(dim, int(unbiased), keepdim)"),
            ..Operator::BASE
        };

        #[operator]
        pub static $correction: Operator = Operator {
            name: concat!($name, ".correction"),
            variants: if $mean { Variants::BOTH } else { Variants::BOTH.union(Variants::OUT) },
            signature: concat!(
                "(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> ",
                $returns
            ),
            doc: concat!(
                $sentence,
                " along `dim`, with `correction` taken away from the count (1 by default).\n\n    >>> torch.",
                $name,
                "(torch.tensor([1., 2., 3., 4.]), dim=0, correction=1)\n    ",
                $value
            ),
            dtypes: DTypes::INEXACT.union(DTypes::COMPLEX32),
            implementation: Implementation::Kernel(Kernel::on_any_device(
                |args| infer(args, $mean),
                |args, results| run(args, results, $root),
            )),
            derivative: $gradient,
            batch_rule: BatchRule::Over(DIM),
            node: $node,
            samples: &["t(2, 3), 1, correction=0", "t(2, 3, 4), (0, 2), keepdim=True"],
            reference: concat!(
                "(lambda dim, ddof, keepdim: ",
                $reference,
                ")(dim, 1 if correction is None else correction, keepdim)"
            ),
            ..Operator::BASE
        };
    };
}

family!(VAR VAR_DIM VAR_CORRECTION, "var", "VarBackward0", false, false, "Tensor",
    "The variance", "tensor(1.6667)", "tensor([0.5000, 4.5000])",
    "np.var(self, axis=dim, ddof=ddof, keepdims=keepdim)",
    Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| spread(d, d.grad()))]));

family!(STD STD_DIM STD_CORRECTION, "std", "StdBackward0", true, false, "Tensor",
    "The standard deviation", "tensor(1.2910)", "tensor([0.7071, 2.1213])",
    "np.std(self, axis=dim, ddof=ddof, keepdims=keepdim)",
    Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), rooted)]));

family!(VAR_MEAN VAR_MEAN_DIM VAR_MEAN_CORRECTION, "var_mean", "VarMeanBackward0", false, true, "(Tensor, Tensor)",
"The variance and the mean", "(tensor(1.6667), tensor(2.5000))", "(tensor([0.5000, 4.5000]), tensor([1.5000, 4.5000]))",
"(np.var(self, axis=dim, ddof=ddof, keepdims=keepdim), np.mean(self, axis=dim, keepdims=keepdim))",
Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT), |d| {
    with_mean(d, |d| spread(d, d.grad()))
})]));

family!(STD_MEAN STD_MEAN_DIM STD_MEAN_CORRECTION, "std_mean", "StdMeanBackward0", true, true, "(Tensor, Tensor)",
"The standard deviation and the mean", "(tensor(1.2910), tensor(2.5000))", "(tensor([0.7071, 2.1213]), tensor([1.5000, 4.5000]))",
"(np.std(self, axis=dim, ddof=ddof, keepdims=keepdim), np.mean(self, axis=dim, keepdims=keepdim))",
Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
    with_mean(d, rooted)
})]));

/// `var(x, unbiased)` and `var(x, dim, unbiased, keepdim)`, expressed with `correction`.
fn deferred<'a>(args: Args<'a>, op: &'static Operator, with_dim: bool) -> Result<Args<'a>> {
    let unbiased = args.bool(if with_dim { VAR_DIM::UNBIASED } else { VAR::UNBIASED })?;
    let keepdim = if with_dim { args.bool(VAR_DIM::KEEPDIM)? } else { false };
    let mut values = args.values.into_iter();
    let own = values.next().unwrap_or(Value::None);
    let dim = if with_dim { values.next().unwrap_or(Value::None) } else { Value::None };
    Ok(Args::new(op, [own, dim, Value::Scalar(Scalar::Int(i64::from(unbiased))), Value::Bool(keepdim)]))
}

fn over(args: &Args) -> Result<ReduceDims> {
    ReduceDims::of(args, VAR_CORRECTION::DIM, VAR_CORRECTION::KEEPDIM)
}

fn correction(args: &Args) -> f64 {
    args.optional_scalar(VAR_CORRECTION::CORRECTION).map_or(1.0, Scalar::f64)
}

fn infer(args: &Args, with_mean: bool) -> Result<Vec<TensorSpec>> {
    let input = args.tensor(VAR_CORRECTION::INPUT)?;
    let name = args.op.python_name();
    if !input.dtype().is_differentiable() {
        let who = if with_mean { name } else { "std and var" };
        return Err(Error::runtime(format!("{who} only support floating point and complex dtypes"))
            .hint("Use x.float() to convert integers to floats."));
    }
    let over = over(args)?;
    if let Some(correction) = args.optional_scalar(VAR_CORRECTION::CORRECTION) {
        create::check_fits(correction, DType::F64)?;
    }
    if (input.numel() > 0 || over.sizes(input.sizes()).iter().product::<isize>() > 0)
        && over.count(input.sizes()) as f64 <= correction(args)
    {
        interpreter::warn(&format!(
            "{name}(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel divided by output numel)."
        ))?;
    }
    let mut specs = vec![over.spec(args, input.dtype().to_real())?];
    if with_mean {
        specs.push(over.spec(args, input.dtype())?);
    }
    Ok(specs)
}

fn run(args: &Args, results: &[Tensor], root: bool) -> Result<()> {
    let input = args.tensor(VAR_CORRECTION::INPUT)?;
    let dims = over(args)?.dims;
    let numbers = [correction(args), f64::from(u8::from(root)), 1.0];
    let with_mean = results.len() == 2;
    let compute = input.dtype().compute();
    if let Device::Cuda(_) = input.device() {
        return compose(args, results, root);
    }
    let Some(fold) = moments(compute.to_real(), with_mean) else {
        return Err(not_implemented(args.op, input.dtype()));
    };
    let numbers = &numbers[..if with_mean { 3 } else { 2 }];
    if !input.dtype().is_complex() {
        return super::reduce(input, dims, results, fold, numbers);
    }
    run_complex(input, dims, results, numbers)
}

/// `run` from other operators: the mean, and then the squares of the distances from it.
fn compose(args: &Args, results: &[Tensor], root: bool) -> Result<()> {
    use VAR_CORRECTION::*;

    let _off = rushlight_autograd::modes::GradMode::new(false);
    let input = to_dtype(&args.tensor(INPUT)?.detach(), args.tensor(INPUT)?.dtype().compute())?;
    let (dims, over) = (super::dims(args, DIM), over(args)?);
    let mean = op!(super::sum::MEAN_DIM, &input, dims.clone(), true)?;
    let distance = Expr::from(&input) - &mean;
    let squares = match input.dtype().is_complex() {
        true => {
            let size = distance.call(&crate::pointwise::sign::ABS, []);
            size.clone() * size
        }
        false => distance.clone() * distance,
    };
    let sum = squares.call(&super::sum::SUM_DIM, [dims.into(), args.bool(KEEPDIM)?.into()]);
    let variance = sum / (over.count(input.sizes()) as f64 - correction(args)).max(0.0);
    copy::copy(&results[0], &if root { variance.sqrt() } else { variance }.done()?)?;
    match results.get(1) {
        Some(result) => {
            let mean = op!(crate::view::RESHAPE, &mean, rushlight_dispatch::value::sizes_value(result.sizes()))?;
            copy::copy(result, &mean)
        }
        None => Ok(()),
    }
}

/// The variance of complex numbers is the sum of those of their real and of their imaginary parts.
fn run_complex(input: &Tensor, dims: DimSet, results: &[Tensor], numbers: &[f64]) -> Result<()> {
    let real = input.dtype().to_real();
    let Some(fold) = moments(real.compute(), false) else { return Ok(()) };
    let part = |at: isize| -> Result<Tensor> {
        let mut half = input.layout().parts(2);
        half.offset += at;
        let out = create::empty(results[0].sizes(), real, input.device())?;
        super::reduce_layout(input, &half, real, dims, std::slice::from_ref(&out), fold, &[numbers[0], 0.0])?;
        Ok(out)
    };
    let _off = rushlight_autograd::modes::GradMode::new(false);
    let sum = Expr::from(part(0)?) + part(1)?;
    let spread = if numbers[1] != 0.0 { sum.sqrt() } else { sum };
    copy::copy(&results[0], &spread.done()?)?;
    match (results.get(1), (super::sum::MEANS.cpu)(input.dtype().compute())) {
        (Some(mean), Some(fold)) => super::reduce(input, dims, std::slice::from_ref(mean), fold, &[]),
        _ => Ok(()),
    }
}

/// A gradient of the call, with the reduced dimensions restored with size one.
fn back(d: &BackwardContext, value: Expr) -> Expr {
    use VAR_CORRECTION::*;

    value.unreduce(&super::derived_dims(d, DIM), d.flag(KEEPDIM), d.rank(INPUT))
}

/// The gradient of the variance: twice the distance from the mean.
fn spread(d: &BackwardContext, grad: Expr) -> Expr {
    use VAR_CORRECTION::*;

    let dims = super::derived_dims(d, DIM);
    let mean = d.input(INPUT).call(&super::sum::MEAN_DIM, [dims.into(), true.into()]);
    let freedom = (derived_count(d, DIM) - correction(d.args)).max(0.0);
    back(d, grad) * (2.0 / freedom) * (d.input(INPUT) - mean)
}

/// The gradient of the standard deviation; zero where the deviation is zero.
fn rooted(d: &BackwardContext) -> Expr {
    let zero = d.result().with(&EQ, 0i64);
    spread(d, zero.choose(0i64, d.grad() / (d.result() * 2.0)))
}

/// Adds the gradient of the mean.
fn with_mean(d: &BackwardContext, own: fn(&BackwardContext) -> Expr) -> Expr {
    let mean = || expand(d, back(d, d.grad_of(1))) / derived_count(d, VAR_CORRECTION::DIM);
    match (d.has_grad(0), d.has_grad(1)) {
        (true, true) => own(d) + mean(),
        (true, false) => own(d),
        _ => mean(),
    }
}
