//! The affine map of a layer.

use rushlight_autograd::Tensor;
use rushlight_core::broadcast::expands;
use rushlight_core::layout::Shape;
use rushlight_core::{Dims, Error, Result, Scalar};

use crate::autocast::Autocast;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::linalg::added::ADDMM;
use crate::linalg::matrix::{DOT, MM, fold, matmul, misfit};
use crate::linalg::{Matrix, check_dtype, product};
use crate::mapped::Mapped;
use crate::node::is_watched;
use crate::op;
use crate::pointwise::arith::ADD;
use crate::row::{DTypes, Kernel, Out, Row, Run, Spec, Variants};
use crate::value::{Args, Output, Value};
use crate::view::reshape::{VIEW, sizes_value};
use crate::view::transpose::across;

pub static LINEAR: Row = Row {
    name: "linear",
    namespace: "nn.functional",
    variants: Variants::FUNCTION.union(Variants::OUT),
    signature: "(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
    doc: "Applies an affine map to the last dimension.

    out = input @ weight.T + bias

Shapes: input `(*, in)`, weight `(out, in)`, bias `(out)`, result `(*, out)`; a weight `(in)` gives `(*)`.

    >>> torch.nn.functional.linear(torch.tensor([1., 2.]), torch.tensor([[1., 1.], [0., 3.]]), torch.tensor([0.5, 0.5]))
    tensor([3.5000, 6.5000])",
    out: Out::EXACT,
    dtypes: DTypes::NUMBERS,
    autocast: Autocast::Lower,
    run: Run::Compose(|args| {
        let (input, weight) = (args.tensor(0)?, args.tensor(1)?);
        if input.rank() == 0 || weight.rank() == 0 {
            return Err(Error::runtime(format!(
                "both arguments to linear need to be at least 1D, but they are {}D and {}D",
                input.rank(),
                weight.rank()
            )));
        }
        match (weight.rank(), args.optional_tensor(2)) {
            (2, bias) if is_in_parts(args) && fits(input, weight, bias) => {
                parts(input, weight, bias).map(Output::Tensor)
            }
            (2, None) => PLAIN.call([input.into(), weight.into()]),
            (2, Some(bias)) => AFFINE.call([bias.into(), input.into(), weight.into()]),
            (1, None) => matmul(input, &across(weight)?).map(Output::Tensor),
            (1, Some(bias)) if input.rank() == 1 => {
                let product = op!(DOT, input, across(weight)?)?;
                op!(ADD, &product, bias).map(Output::Tensor)
            }
            (rank, _) => Err(Error::runtime(format!("mat2 must be a matrix, got {rank}-D tensor"))),
        }
    }),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

/// Whether the call becomes that of several operators: they are what torch's graph shows, and what it does with sequences
/// that do not lie row by row.
fn is_in_parts(args: &Args) -> bool {
    let lies_apart = |input: &Tensor| input.rank() > 2 && !input.layout().is_contiguous();
    (is_watched(args) || args.tensor(0).is_ok_and(lies_apart)) && args.all_tensors(|tensor| !tensor.is_mapped())
}

/// Whether the operands go together; what is wrong with others the single row says.
fn fits(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> bool {
    let (own, shape) = (input.sizes(), weight.sizes());
    let spreads = |bias: &Tensor| {
        let rows = own[..own.len() - 1].iter().product::<isize>();
        bias.dtype() == weight.dtype()
            && (bias.sizes()[..] == shape[..1] || bias.layout().broadcast_to(&[rows, shape[0]]).is_ok())
    };
    own.last() == shape.get(1) && input.dtype() == weight.dtype() && bias.is_none_or(spreads)
}

fn parts(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let across = across(weight)?;
    let Some(bias) = bias else { return matmul(input, &across) };
    if input.rank() == 2 {
        return op!(ADDMM, bias, input, &across);
    }
    if !input.layout().is_contiguous() {
        return op!(ADD, matmul(input, &across)?, bias);
    }
    let mut sizes = input.sizes().clone();
    let (last, outer) = (sizes.len() - 1, sizes[..sizes.len() - 1].iter().product());
    let rows = VIEW.tensor([input.into(), sizes_value(&[outer, sizes[last]])])?;
    sizes[last] = weight.sizes()[0];
    VIEW.tensor([Value::Own(op!(ADDMM, bias, &rows, &across)?), sizes_value(&sizes)])
}

/// The affine map as one node; torch's node adds the bias first, so the bias is its first input.
pub static AFFINE: Row = Row {
    name: "_affine",
    variants: Variants::FUNCTION,
    signature: "(Tensor bias, Tensor input, Tensor weight) -> Tensor",
    doc: "`input @ weight.T + bias`.

    >>> torch._affine(torch.ones(1), torch.tensor([1., 2.]), torch.tensor([[1., 1.]]))
    tensor([4.])",
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::affine),
    run: Run::Kernel(Kernel {
        infer: |args| infer(args, 1, Some(args.tensor(0)?)),
        cpu: |args, results| run(args, 1, Some(args.tensor(0)?), results),
    }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::NOTHING, |d| d.grad()),
        formula(1, Saves::input(2), |d| d.grad().matmul(d.input(2).conj())),
        formula(2, Saves::input(1), |d| weight_gradient(d, 1)),
    ]),
    node: "AddmmBackward0",
    samples: &["t(4), t(2, 3), t(4, 3)", "t(4), t(3), t(4, 3)", "t(4), t(2, 5, 3), t(4, 3)"],
    reference: "np.matmul(input, weight.T) + bias",
    ..Row::BASE
};

pub static PLAIN: Row = Row {
    name: "_linear",
    variants: Variants::FUNCTION,
    signature: "(Tensor input, Tensor weight) -> Tensor",
    doc: "`input @ weight.T`.

    >>> torch._linear(torch.tensor([1., 2.]), torch.tensor([[1., 1.]]))
    tensor([3.])",
    dtypes: DTypes::NUMBERS,
    mapped: Mapped::Rule(super::mapped::plain),
    run: Run::Kernel(Kernel { infer: |args| infer(args, 0, None), cpu: |args, results| run(args, 0, None, results) }),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(1), |d| d.grad().matmul(d.input(1).conj())),
        formula(1, Saves::input(0), |d| weight_gradient(d, 0)),
    ]),
    node: "MmBackward0",
    samples: &["t(2, 3), t(4, 3)", "t(3), t(4, 3)", "t(2, 5, 3), t(4, 3)"],
    reference: "np.matmul(input, weight.T)",
    ..Row::BASE
};

/// Over all rows of the input at once: one product.
fn weight_gradient(d: &Derive, input: usize) -> Expr {
    let gradient = || {
        let (grad, input) = (d.grad().done()?, d.input(input).conj().done()?);
        if input.rank() == 1 {
            return op!(crate::linalg::contract::OUTER, &grad, &input);
        }
        op!(MM, Expr::from(fold(&grad)?).transposed().done()?, fold(&input)?)
    };
    Expr::new(gradient())
}

fn infer(args: &Args, at: usize, bias: Option<&Tensor>) -> Result<Vec<Spec>> {
    let (input, weight) = (args.tensor(at)?, args.tensor(at + 1)?);
    let (own, shape) = (input.sizes(), weight.sizes());
    if own.is_empty() || shape.len() != 2 {
        return Err(Error::runtime(format!("{} is no matrix for an input of {}", Shape(shape), Shape(own))));
    }
    let last = input.rank() - 1;
    let rows = own[..last].iter().product::<isize>();
    if own[last] != shape[1] {
        let error = misfit(&[rows, own[last]], &[shape[1], shape[0]]).shapes([own.as_slice(), shape.as_slice()]);
        if own[last] == shape[0] && bias.is_none_or(|bias| expands(bias.sizes(), &[rows, shape[1]])) {
            return Err(error.fit("They would fit after weight.t()."));
        }
        return Err(error.hint(format!(
            "The weight {} takes inputs with {} features in the last dimension; the input is {}.",
            Shape(shape),
            shape[1],
            Shape(own)
        )));
    }
    if let Some(bias) = bias
        && bias.layout().broadcast_to(&[rows, shape[0]]).is_err()
    {
        let size = bias.sizes().last().copied().unwrap_or(1);
        return Err(Error::runtime(format!(
            "The expanded size of the tensor ({}) must match the existing size ({size}) at non-singleton dimension 1.  Target sizes: {}.  Tensor sizes: {}",
            shape[0],
            Shape(&[rows, shape[0]]),
            Shape(bias.sizes())
        )));
    }
    check_dtypes(input, weight, bias)?;
    let mut sizes = Dims::from_slice(&own[..last]);
    sizes.push(shape[0]);
    Ok(vec![Spec::new(&sizes, input.dtype(), input)])
}

fn check_dtypes(input: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<()> {
    let titles = |x: &str, y: &str, a: &Tensor, b: &Tensor| {
        Error::runtime(format!(
            "{x} and {y} must have the same dtype, but got {} and {}",
            a.dtype().title(),
            b.dtype().title()
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
        _ => check_dtype("addmm_impl_cpu_", input.dtype()),
    }
}

fn run(args: &Args, at: usize, bias: Option<&Tensor>, results: &[Tensor]) -> Result<()> {
    let weight = Matrix::of(args.tensor(at + 1)?).transposed();
    let bias = bias.map(|bias| (Scalar::ONE, Matrix::of(bias)));
    product(Matrix::row(&results[0]), Scalar::ONE, Matrix::row(args.tensor(at)?), weight, bias)
}
