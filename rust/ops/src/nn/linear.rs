//! The affine map of a layer.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::can_expand;
use rushlight_core::layout::{Shape, checked_numel};
use rushlight_core::{Dims, Error, Result, Scalar};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::node::is_tracked;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, Autocast, BackwardContext, BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Out,
    Saves, TensorSpec, Variants, formula, operator,
};
use rushlight_dispatch::value::{Arg, Output, Target, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, merge_batch, one_result, unsqueeze_to_rank};

use crate::expr_ext::ExprExt;
use crate::linalg::addmm::{ADDMM, check_addend};
use crate::linalg::matrix::{BMM, DOT, MM, fold, matmul, ranks, shape_error};
use crate::linalg::{Matrix, PRODUCT_KERNEL, PRODUCTS, check_product_dtype, product};
use crate::pointwise::arith::ADD;
use crate::view::RESHAPE;
use crate::view::reshape::VIEW;
use crate::view::transpose::{MOVEDIM, TRANSPOSE, across};

#[operator]
pub static LINEAR: Operator = Operator {
    name: "linear",
    namespace: "nn.functional",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    doc: "Applies an affine map to the last dimension.

    out = input @ weight.T + bias

Shapes: input `(*, in)`, weight `(out, in)`, bias `(out)`, result `(*, out)`; a weight `(in)` gives `(*)`.

    >>> torch.nn.functional.linear(torch.tensor([1., 2.]), torch.tensor([[1., 1.], [0., 3.]]), torch.tensor([0.5, 0.5]))
    tensor([3.5000, 6.5000])",
    out: Out::EXACT.row_if(|args| matches!(ranks(args, [INPUT, WEIGHT]), (1, 2))),
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::LowerPrecision.everywhere(),
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, weight) = (args.tensor(INPUT)?, args.tensor(WEIGHT)?);
        if input.rank() == 0 || weight.rank() == 0 {
            return Err(Error::runtime(format!(
                "both arguments to linear need to be at least 1D, but they are {}D and {}D",
                input.rank(),
                weight.rank()
            )));
        }
        match (weight.rank(), args.optional_tensor(BIAS)) {
            (2, bias) if needs_decomposition(args, input, bias) || is_decomposed(args) && fits(input, weight, bias) => {
                parts(input, weight, bias).map(Output::Tensor)
            }
            (2, None) => PLAIN.call([input.into(), weight.into()]),
            (2, Some(bias)) => AFFINE.call([bias.into(), input.into(), weight.into()]),
            (1, None) => matmul(input, &across(weight)?).map(Output::Tensor),
            (1, Some(bias)) if input.rank() == 1 && bias.rank() == 0 => {
                let product = op!(DOT, input, across(weight)?)?;
                op!(ADD, &product, bias).map(Output::Tensor)
            }
            (1, Some(bias)) if input.rank() > 2 && bias.rank() != 1 => {
                op!(ADD, &matmul(input, &across(weight)?)?, bias).map(Output::Tensor)
            }
            (1, Some(_)) => Err(Error::runtime("mat2 must be a matrix, got 1-D tensor")),
            (rank, _) => Err(Error::runtime(format!("t() expects a tensor with <= 2 dimensions, but self is {rank}D"))),
        }
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(2, 3), t(4, 3), t(4)",
        "t(2, 3), t(4, 3)",
        "t(3), t(4, 3), t(4)",
        "t(2, 5, 3), t(4, 3), t(4)",
        "t(2, 5, 3), t(3)",
        "t(3), t(3), t()",
    ],
    errors: &[
        ("t(2, 3), t(4, 5)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)"),
        ("t(2, 3, 3), t(4, 5), t(4)", "RuntimeError", "mat1 and mat2 shapes cannot be multiplied (6x3 and 5x4)"),
        ("t(), t(3)", "RuntimeError", "both arguments to linear need to be at least 1D, but they are 0D and 1D"),
    ],
    reference: "np.matmul(input, weight.T) + (0 if bias is None else bias)",
    ..Operator::BASE
};

/// Whether the call is carried out as several operators: these appear in torch's graph.
fn is_decomposed(args: &Args) -> bool {
    let is_sparse = || !args.all_tensors(|tensor| !tensor.is_sparse());
    (is_tracked(args) || is_sparse()) && args.all_tensors(|tensor| !tensor.is_batched())
}

/// Whether it is in any case: torch spreads a bias that is no vector over the rows of all sequences, and adds that of
/// sequences that are not row-major to the product.
fn needs_decomposition(args: &Args, input: &Tensor, bias: Option<&Tensor>) -> bool {
    let lies_apart = input.rank() > 2 && !input.layout().is_contiguous();
    (lies_apart || input.rank() != 2 && bias.is_some_and(|bias| bias.rank() != 1))
        && args.all_tensors(|tensor| !tensor.is_batched())
}

/// Whether the operands match; the single operator raises the error for others.
fn fits(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let (own, shape) = (input.sizes(), weight.sizes());
    let spreads = |bias: &Tensor| {
        let spread = |rows: usize| bias.layout().broadcast_to(&[rows as isize, shape[0]]).is_ok();
        bias.dtype() == weight.dtype()
            && (bias.sizes()[..] == shape[..1] || checked_numel(&own[..own.len() - 1]).is_ok_and(spread))
    };
    own.last() == shape.get(1) && input.dtype() == weight.dtype() && bias.is_none_or(spreads)
}

/// torch multiplies sequences that are not row-major as batches of matrices, with other errors.
fn check_batches(input: &Tensor, weight: &Tensor) -> Result<()> {
    if input.dtype() != weight.dtype() {
        let (own, other) = (input.dtype().display_name(), weight.dtype().display_name());
        return Err(Error::runtime(format!("expected scalar type {own} but found {other}")));
    }
    let last = input.rank() - 1;
    let (features, wanted) = (input.sizes()[last], weight.sizes()[1]);
    if features != wanted {
        let count = checked_numel(&input.sizes()[..last - 1])?;
        return Err(Error::runtime(format!(
            "Expected size for first two dimensions of batch2 tensor to be: [{count}, {features}] but got: [{count}, {wanted}]."
        ))
        .shapes([input.sizes().as_slice(), weight.sizes().as_slice()]));
    }
    if input.dtype().is_wide_unsigned() {
        return Err(Error::unsupported("bmm", input.dtype()));
    }
    Ok(())
}

fn parts(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    if input.rank() > 2 && !input.layout().is_contiguous() {
        check_batches(input, weight)?;
    }
    let across = across(weight)?;
    let Some(bias) = bias else { return matmul(input, &across) };
    if input.rank() == 2 {
        return op!(ADDMM, bias, input, &across);
    }
    if !input.layout().is_contiguous() {
        let product = matmul(input, &across)?;
        return Args::new(&ADD, [Value::from(&product), bias.into()]).call_into(Target::InPlace)?.into_tensor();
    }
    let mut sizes = input.sizes().clone();
    let last = sizes.len() - 1;
    let outer = checked_numel(&sizes[..last])? as isize;
    let rows = VIEW.tensor([input.into(), sizes_value(&[outer, sizes[last]])])?;
    sizes[last] = weight.sizes()[0];
    VIEW.tensor([Value::Own(op!(ADDMM, bias, &rows, &across)?), sizes_value(&sizes)])
}

/// The affine map as one node; torch's node adds the bias first, so the bias is its first input.
#[operator]
pub static AFFINE: Operator = Operator {
    name: "_affine",
    variants: Variants::FUNCTION,
    signature: "(Tensor bias, Tensor input, Tensor weight) -> Tensor",
    doc: "`input @ weight.T + bias`.

    >>> torch._affine(torch.ones(1), torch.tensor([1., 2.]), torch.tensor([[1., 1.]]))
    tensor([4.])",
    dtypes: PRODUCTS,
    batch_rule: BatchRule::Custom(batched_affine),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, [INPUT, WEIGHT], Some(args.tensor(BIAS)?)),
        |args, results| run(args, [INPUT, WEIGHT], Some(args.tensor(BIAS)?), results),
    )),
    derivative: Derivative::Formulas(&[
        formula(BIAS, Saves::NOTHING, |d| d.grad()),
        formula(INPUT, Saves::input(WEIGHT), |d| d.grad().matmul(d.input(WEIGHT).conj())),
        formula(WEIGHT, Saves::input(INPUT), |d| weight_gradient(d, INPUT)),
    ]),
    node: "AddmmBackward0",
    samples: &["t(4), t(2, 3), t(4, 3)", "t(4), t(3), t(4, 3)", "t(4), t(2, 5, 3), t(4, 3)"],
    reference: "np.matmul(input, weight.T) + bias",
    kernel_name: PRODUCT_KERNEL,
    ..Operator::BASE
};

#[operator]
pub static PLAIN: Operator = Operator {
    name: "_linear",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor weight) -> Tensor",
    doc: "`input @ weight.T`.

    >>> torch._linear(torch.tensor([1., 2.]), torch.tensor([[1., 1.]]))
    tensor([3.])",
    dtypes: PRODUCTS,
    batch_rule: BatchRule::Custom(batched_plain),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| infer(args, [INPUT, WEIGHT], None),
        |args, results| run(args, [INPUT, WEIGHT], None, results),
    )),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(WEIGHT), |d| d.grad().matmul(d.input(WEIGHT).conj())),
        formula(WEIGHT, Saves::input(INPUT), |d| weight_gradient(d, INPUT)),
    ]),
    node: "MmBackward0",
    samples: &["t(2, 3), t(4, 3)", "t(3), t(4, 3)", "t(2, 5, 3), t(4, 3)"],
    reference: "np.matmul(input, weight.T)",
    kernel_name: PRODUCT_KERNEL,
    ..Operator::BASE
};

/// One product over all rows of the input.
fn weight_gradient(d: &BackwardContext, input: Arg) -> Expr {
    let gradient = || {
        let (grad, input) = (d.grad().done()?, d.input(input).conj().done()?);
        if input.rank() == 1 {
            return op!(crate::linalg::contract::OUTER, &grad, &input);
        }
        op!(MM, Expr::from(fold(&grad)?).transposed().done()?, fold(&input)?)
    };
    Expr::new(gradient())
}

fn infer(args: &Args, [input, weight]: [Arg; 2], bias: Option<&Tensor>) -> Result<Vec<TensorSpec>> {
    let (input, weight) = (args.tensor(input)?, args.tensor(weight)?);
    let (own, shape) = (input.sizes(), weight.sizes());
    if own.is_empty() || shape.len() != 2 {
        return Err(Error::runtime(format!("{} is no matrix for an input of {}", Shape(shape), Shape(own))));
    }
    // With a bias, torch compares the dtypes before the sizes.
    if bias.is_some() {
        check_alike(input, weight, bias)?;
    }
    let last = input.rank() - 1;
    let rows = checked_numel(&own[..last])? as isize;
    if own[last] != shape[1] {
        let error = shape_error(&[rows, own[last]], &[shape[1], shape[0]]).shapes([own.as_slice(), shape.as_slice()]);
        if own[last] == shape[0] && bias.is_none_or(|bias| can_expand(bias.sizes(), &[rows, shape[1]])) {
            return Err(error.fit("They would fit after weight.t()."));
        }
        return Err(error.hint(format!(
            "The weight has shape {} and needs inputs with {} features in the last dimension; the input has shape {}.",
            Shape(shape),
            shape[1],
            Shape(own)
        )));
    }
    if let Some(bias) = bias {
        check_addend(bias, &[rows, shape[0]])?;
    }
    check_alike(input, weight, bias)?;
    check_product_dtype(input.dtype())?;
    let mut sizes = Dims::from_slice(&own[..last]);
    sizes.push(shape[0]);
    Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
}

fn check_alike(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let titles = |x: &str, y: &str, a: &Tensor, b: &Tensor| {
        Error::runtime(format!(
            "{x} and {y} must have the same dtype, but got {} and {}",
            a.dtype().display_name(),
            b.dtype().display_name()
        ))
        .hint("Convert one of them: x.to(weight.dtype).")
    };
    match bias {
        Some(bias) if bias.dtype() != weight.dtype() => Err(titles("self", "mat2", bias, weight)),
        Some(_) if input.dtype() != weight.dtype() => Err(titles("mat1", "mat2", input, weight)),
        None if input.dtype() != weight.dtype() => Err(Error::runtime(format!(
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            input.dtype().c_name(),
            weight.dtype().c_name()
        ))),
        _ => Ok(()),
    }
}

fn run(args: &Args, [input, weight]: [Arg; 2], bias: Option<&Tensor>, results: &[Tensor]) -> Result<()> {
    let weight = Matrix::of(args.tensor(weight)?).transposed();
    let bias = bias.map(|bias| (Scalar::ONE, Matrix::of(bias)));
    product(Matrix::row(&results[0]), Scalar::ONE, Matrix::row(args.tensor(input)?), weight, bias)
}

/// `input @ weight.T` for the tensors at these positions.
fn batched_product(batch: &BatchedCall, input: Arg, weight: Arg) -> Result<Tensor> {
    let sizes = batch.args.tensor(input)?.sizes();
    let (outer, inner) = sizes.split_at(sizes.len().saturating_sub(1));
    let inner = inner.first().copied().unwrap_or(1);
    let outputs = batch.args.tensor(weight)?.sizes()[0];
    if !batch.differs_at(weight) {
        return op!(PLAIN, batch.tensor(input)?, batch.one(weight)?);
    }
    if !batch.differs_at(input) {
        let all = op!(PLAIN, batch.one(input)?, merge_batch(&batch.tensor(weight)?)?)?;
        let mut apart = outer.to_vec();
        apart.extend([batch.size, outputs]);
        return op!(MOVEDIM, op!(RESHAPE, all, sizes_value(&apart))?, &[outer.len() as i64][..], &[0i64][..]);
    }
    let rows = checked_numel(outer)? as isize;
    let lines = op!(RESHAPE, batch.tensor(input)?, sizes_value(&[batch.size, rows, inner]))?;
    let whole = op!(BMM, lines, op!(TRANSPOSE, batch.tensor(weight)?, 1i64, 2i64)?)?;
    let mut apart = vec![batch.size];
    apart.extend_from_slice(outer);
    apart.push(outputs);
    op!(RESHAPE, whole, sizes_value(&apart))
}

fn batched_plain(batch: &BatchedCall) -> RuleResult {
    use PLAIN::*;

    one_result(batched_product(batch, INPUT, WEIGHT))
}

fn batched_affine(batch: &BatchedCall) -> RuleResult {
    use AFFINE::*;

    if !batch.differs_at(BIAS) && !batch.differs_at(WEIGHT) {
        return one_result(op!(AFFINE, batch.one(BIAS)?, batch.tensor(INPUT)?, batch.one(WEIGHT)?));
    }
    let whole = batched_product(batch, INPUT, WEIGHT)?;
    let bias = unsqueeze_to_rank(&batch.tensor(BIAS)?, whole.rank() - 1);
    one_result(op!(ADD, whole, bias))
}
