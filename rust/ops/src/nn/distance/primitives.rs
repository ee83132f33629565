//! The kernels behind `cdist` and `pdist`, for the orders that need no powers, and their gradients.

use rushlight_autograd::{Tensor, modes};
use rushlight_core::{DType, Device, Dims, Error, Result, dispatch};
use rushlight_cpu::nn::distance::{self, Norm, Sizes};
use rushlight_cuda::distance as cuda;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::operator::{
    Args, BackwardContext, BatchRule, DTypes, Derivative, Implementation, Kernel, OnCuda, Operator, Saves, TensorSpec,
    Variants, formula, operator,
};
use rushlight_dispatch::value::Arg;

use crate::create::constant::TRIU_INDICES;
use crate::expr_ext::ExprExt;
use crate::held::Held;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};
use crate::view::narrow::SELECT;
use crate::view::squeeze::UNSQUEEZE;

const COMPUTED: DTypes = DTypes::of(&[DType::F32, DType::F64]);
const WITHOUT_DERIVATIVE: Derivative =
    Derivative::NonDifferentiable("a gradient that is recorded is made of other operators");

/// Whether the kernels compute distances of this order between rows of these tensors.
pub fn has_kernel(p: f64, operands: &[&Tensor]) -> bool {
    let computed = |input: &&Tensor| {
        let has_form = matches!(input.device(), Device::Cpu | Device::Cuda(_));
        input.is_plain() && has_form && COMPUTED.has(input.dtype()) && input.dtype() == operands[0].dtype()
    };
    Norm::of(p).is_some() && operands.iter().all(computed)
}

/// The operator that needs these pairs of rows.
fn norm(args: &Args, p: Arg) -> Result<Norm> {
    Norm::of(args.float(p)?).ok_or_else(|| Error::runtime("p must be 0, 1, 2 or infinity"))
}

/// The sizes of matrices of rows and of columns of the same batch.
fn sizes(rows: &Tensor, columns: &Tensor) -> Result<Sizes> {
    if let ([batch @ .., count, width], [same @ .., height, others]) =
        (rows.sizes().as_slice(), columns.sizes().as_slice())
        && batch == same
        && width == height
        && rows.dtype() == columns.dtype()
    {
        let batch = batch.iter().product::<isize>() as usize;
        return Ok(Sizes { batch, rows: *count as usize, others: *others as usize, width: *width as usize });
    }
    Err(Error::runtime("the rows of a matrix must be as long as the columns of the other, and of its dtype")
        .shapes([rows.sizes().as_slice(), columns.sizes().as_slice()]))
}

/// The rule and the sizes of the kernels for CUDA devices.
fn for_cuda(norm: Norm, sizes: Sizes) -> (cuda::Norm, cuda::PairSizes) {
    let rule = match norm {
        Norm::Count => cuda::Norm::Count,
        Norm::Sum => cuda::Norm::Sum,
        Norm::Euclid => cuda::Norm::Euclid,
        Norm::Greatest => cuda::Norm::Greatest,
    };
    let [batch, rows, others, width] = [sizes.batch, sizes.rows, sizes.others, sizes.width].map(|size| size as u64);
    (rule, cuda::PairSizes { batch, rows, others, width })
}

/// The distances of rows from columns, or with `paired` of each row from those after it.
fn between_on_cuda(
    norm: Norm,
    sizes: Sizes,
    [rows, columns]: [&Tensor; 2],
    result: &Tensor,
    paired: bool,
) -> Result<()> {
    if result.numel() == 0 {
        return Ok(());
    }
    let (norm, sizes) = for_cuda(norm, sizes);
    let (rows, columns) = (plain(rows, rows.dtype())?, plain(columns, rows.dtype())?);
    let mut held = Held::on(&rows)?;
    let operands = held.addresses([&rows, &columns, result])?;
    // SAFETY: row-major operands of checked sizes, held for the stream; the result is new.
    unsafe { cuda::between(held.card, held.stream, (norm, rows.dtype()), operands, sizes, paired) }
}

/// The gradients of rows from weights, rows, columns and distances.
fn gradient_on_cuda(norm: Norm, sizes: Sizes, operands: [&Tensor; 4], result: &Tensor, paired: bool) -> Result<()> {
    if result.numel() == 0 {
        return Ok(());
    }
    let (norm, sizes) = for_cuda(norm, sizes);
    let dtype = result.dtype();
    let [weights, rows, columns, distances] = operands.map(|operand| plain(operand, dtype));
    let own = [weights?, rows?, columns?, distances?];
    let mut held = Held::on(result)?;
    let (from, to) = (held.addresses(own.each_ref())?, held.address(result)?);
    // SAFETY: row-major operands of checked sizes, held for the stream; the result is new.
    unsafe { cuda::gradient(held.card, held.stream, (norm, dtype), from, to, sizes, paired) }
}

/// Operands in row-major memory, whose pointers are valid during the body.
macro_rules! pinned {
    ($dtype:expr, [$($name:ident = $tensor:expr),*], $T:ident => $body:expr) => {{
        let operands = [$(plain($tensor, $dtype)?),*];
        let pins = operands.iter().map(|operand| operand.storage().pin()).collect::<Result<Vec<_>>>()?;
        dispatch!($dtype, $T in [f32, f64] => {
            let mut pointers = operands.iter().zip(&pins).map(|(operand, pin)| {
                pin.as_ptr().cast::<$T>().wrapping_offset(operand.layout().offset).cast_const()
            });
            $(let Some($name) = pointers.next() else { return Ok(()) };)*
            $body
        }, else => return Err(Error::unsupported("cdist", $dtype)))
    }};
}

#[operator]
pub static CDIST_ROWS: Operator = Operator {
    name: "_cdist",
    variants: Variants::FUNCTION,
    signature: "(Tensor rows, Tensor columns, float p) -> Tensor",
    doc: "The distance of each row from each column of another matrix.

    >>> torch._cdist(torch.tensor([[0., 0.]]), torch.tensor([[3., 0.], [4., 2.]]), 2.0)
    tensor([[5., 2.]])",
    dtypes: COMPUTED,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            norm(args, P)?;
            sizes(rows, columns)?;
            let mut shape = rows.sizes().clone();
            shape[rows.rank() - 1] = columns.sizes()[rows.rank() - 1];
            Ok(vec![TensorSpec::new(&shape, rows.dtype(), rows)])
        },
        cpu: |args, results| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            let (norm, sizes, dtype) = (norm(args, P)?, sizes(rows, columns)?, rows.dtype());
            let out = results[0].storage().pin()?;
            pinned!(dtype, [rows = rows, columns = columns], T => {
                // SAFETY: row-major and pinned operands of checked sizes; the result is new.
                unsafe { distance::between::<T>(norm, sizes, rows, columns, out.as_ptr().cast()) }
            });
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            between_on_cuda(norm(args, P)?, sizes(rows, columns)?, [rows, columns], &results[0], false)
        }),
    }),
    derivative: Derivative::Formulas(&[
        formula(ROWS, Saves::input(ROWS).union(Saves::input(COLUMNS)).union(Saves::RESULT), |d| {
            cdist_gradient(d, d.input(ROWS), d.input(COLUMNS), d.grad(), d.result())
        }),
        formula(COLUMNS, Saves::input(ROWS).union(Saves::input(COLUMNS)).union(Saves::RESULT), |d| {
            let (rows, columns) = (d.input(COLUMNS).transposed(), d.input(ROWS).transposed());
            cdist_gradient(d, rows, columns, d.grad().transposed(), d.result().transposed()).transposed()
        }),
    ]),
    samples: &["t(2, 3), t(3, 4), 1.0", "t(2, 2, 3), t(2, 3, 40), 2.0", "t(2, 3), t(3, 100), float('inf')"],
    reference: "np.linalg.norm(rows[..., :, None, :] - np.swapaxes(columns, -1, -2)[..., None, :, :], p, -1)",
    ..Operator::BASE
};

#[operator]
pub static CDIST_GRADIENT: Operator = Operator {
    name: "_cdist_gradient",
    variants: Variants::FUNCTION,
    signature: "(Tensor weights, Tensor rows, Tensor columns, Tensor distances, float p) -> Tensor",
    doc: "The gradient of rows: for each the sum over the columns of a weight times the slope of the distance.

    >>> a, b = torch.tensor([[0., 0.]]), torch.tensor([[3.], [4.]])
    >>> torch._cdist_gradient(torch.tensor([[2.]]), a, b, torch._cdist(a, b, 1.0), 1.0)
    tensor([[-2., -2.]])",
    dtypes: COMPUTED,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            norm(args, P)?;
            sizes(rows, columns)?;
            let mut shape = rows.sizes().clone();
            shape[rows.rank() - 1] = columns.sizes()[rows.rank() - 1];
            for own in [args.tensor(WEIGHTS)?, args.tensor(DISTANCES)?] {
                if *own.sizes() != shape || own.dtype() != rows.dtype() {
                    return Err(Error::runtime("weights and distances must be those of each row and column"));
                }
            }
            Ok(vec![TensorSpec::new(rows.sizes(), rows.dtype(), rows)])
        },
        cpu: |args, results| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            let (weights, distances) = (args.tensor(WEIGHTS)?, args.tensor(DISTANCES)?);
            let (norm, sizes, dtype) = (norm(args, P)?, sizes(rows, columns)?, rows.dtype());
            let out = results[0].storage().pin()?;
            pinned!(dtype, [weights = weights, rows = rows, columns = columns, distances = distances], T => {
                // SAFETY: row-major and pinned operands of checked sizes; the result is new.
                unsafe {
                    distance::gradient::<T>(norm, sizes, [weights, rows, columns, distances], out.as_ptr().cast())
                }
            });
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let (rows, columns) = (args.tensor(ROWS)?, args.tensor(COLUMNS)?);
            let operands = [args.tensor(WEIGHTS)?, rows, columns, args.tensor(DISTANCES)?];
            gradient_on_cuda(norm(args, P)?, sizes(rows, columns)?, operands, &results[0], false)
        }),
    }),
    derivative: WITHOUT_DERIVATIVE,
    samples: &["pos(2, 4), t(2, 3), t(3, 4), pos(2, 4), 1.0", "pos(2, 40), t(2, 3), t(3, 40), pos(2, 40), 2.0"],
    ..Operator::BASE
};

#[operator]
pub static PDIST_ROWS: Operator = Operator {
    name: "_pdist",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, float p) -> Tensor",
    doc: "The distance of each row of a matrix from each row after it.

    >>> torch._pdist(torch.tensor([[0., 0.], [3., 4.], [0., 4.]]), 2.0)
    tensor([5., 4., 3.])",
    dtypes: COMPUTED,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            norm(args, P)?;
            Ok(vec![TensorSpec::new(&pair_sizes(input)?, input.dtype(), input)])
        },
        cpu: |args, results| {
            let input = args.tensor(INPUT)?;
            let turned = Expr::from(input.detach()).transposed().done()?;
            let (norm, sizes) = (norm(args, P)?, sizes(input, &turned)?);
            let out = results[0].storage().pin()?;
            pinned!(input.dtype(), [rows = input, columns = &turned], T => {
                // SAFETY: row-major and pinned operands of checked sizes; the result is new.
                unsafe { distance::within::<T>(norm, [sizes.batch, sizes.rows, sizes.width], rows, columns, out.as_ptr().cast()) }
            });
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            let turned = Expr::from(input.detach()).transposed().done()?;
            between_on_cuda(norm(args, P)?, sizes(input, &turned)?, [input, &turned], &results[0], true)
        }),
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::input(INPUT).union(Saves::RESULT), |d| {
        Expr::new(pdist_gradient(d))
    })]),
    samples: &["t(4, 3), 1.0", "t(2, 70, 2), 2.0", "t(3, 2), float('inf')"],
    reference: "np.linalg.norm(self[..., None, :] - self[..., None, :, :], p, -1)[(..., *np.triu_indices(self.shape[-2], 1))]",
    ..Operator::BASE
};

#[operator]
pub static PDIST_GRADIENT: Operator = Operator {
    name: "_pdist_gradient",
    variants: Variants::FUNCTION,
    signature: "(Tensor weights, Tensor self, Tensor distances, float p) -> Tensor",
    doc: "The gradient of rows: for each the sum over the others of a weight times the slope of the distance.

    >>> a = torch.tensor([[0., 0.], [3., 4.]])
    >>> torch._pdist_gradient(torch.tensor([2.]), a, torch._pdist(a, 1.0), 1.0)
    tensor([[-2., -2.],
            [ 2.,  2.]])",
    dtypes: COMPUTED,
    batch_rule: BatchRule::LeadingDims,
    implementation: Implementation::Kernel(Kernel {
        infer: |args| {
            let input = args.tensor(INPUT)?;
            norm(args, P)?;
            for other in [args.tensor(WEIGHTS)?, args.tensor(DISTANCES)?] {
                if *other.sizes() != pair_sizes(input)? || other.dtype() != input.dtype() {
                    return Err(Error::runtime("weights and distances must be those of each pair of rows"));
                }
            }
            Ok(vec![TensorSpec::new(input.sizes(), input.dtype(), input)])
        },
        cpu: |args, results| {
            let input = args.tensor(INPUT)?;
            let (weights, distances) = (args.tensor(WEIGHTS)?, args.tensor(DISTANCES)?);
            let turned = Expr::from(input.detach()).transposed().done()?;
            let (norm, sizes) = (norm(args, P)?, sizes(input, &turned)?);
            let out = results[0].storage().pin()?;
            pinned!(input.dtype(), [weights = weights, rows = input, columns = &turned, distances = distances], T => {
                // SAFETY: row-major and pinned operands of checked sizes; the result is new.
                unsafe {
                    let square = |values| distance::square::<T>(values, sizes.batch, sizes.rows);
                    let (weights, distances) = (square(weights)?, square(distances)?);
                    let operands = [weights.as_ptr(), rows, columns, distances.as_ptr()];
                    distance::gradient::<T>(norm, sizes, operands, out.as_ptr().cast());
                }
            });
            Ok(())
        },
        cuda: OnCuda::Own(|args, results| {
            let input = args.tensor(INPUT)?;
            let turned = Expr::from(input.detach()).transposed().done()?;
            let operands = [args.tensor(WEIGHTS)?, input, &turned, args.tensor(DISTANCES)?];
            gradient_on_cuda(norm(args, P)?, sizes(input, &turned)?, operands, &results[0], true)
        }),
    }),
    derivative: WITHOUT_DERIVATIVE,
    samples: &["pos(6), t(4, 3), pos(6), 1.0", "pos(2, 3), t(2, 3, 2), pos(2, 3), 2.0"],
    ..Operator::BASE
};

/// The sizes of a result for each pair of rows of each matrix.
fn pair_sizes(input: &Tensor) -> Result<Dims> {
    let [batch @ .., count, _] = input.sizes().as_slice() else {
        return Err(Error::runtime("the rows must be those of a matrix"));
    };
    let ordered = count.checked_mul((count - 1).max(0));
    let ordered = ordered.ok_or_else(|| Error::runtime("numel: integer multiplication overflow"))?;
    Ok(batch.iter().copied().chain([ordered / 2]).collect())
}

/// What the slopes are multiplied with: the gradients, divided by Euclid's distances; zero where rows meet.
fn weights(p: f64, grad: Expr, distances: Expr) -> Expr {
    if p != 2.0 {
        return grad;
    }
    let meet = distances.clone().equals(0i64);
    meet.clone().choose(0i64, grad / meet.choose(1i64, distances))
}

/// The weighted slopes of the distances, for each element of the differences of rows.
fn slopes(p: f64, difference: Expr, weights: Expr, distances: Expr) -> Expr {
    let wide = |input: Expr| input.call(&UNSQUEEZE, [(-1i64).into()]);
    match p {
        0.0 => difference.zeros_like(),
        1.0 => difference.sgn() * wide(weights),
        2.0 => difference * wide(weights),
        _ => difference.clone().abs().equals(wide(distances)).choose(difference.sgn() * wide(weights), 0i64),
    }
}

fn cdist_gradient(d: &BackwardContext, rows: Expr, columns: Expr, grad: Expr, distances: Expr) -> Expr {
    let p = d.scalar(CDIST_ROWS::P).f64();
    let weights = weights(p, grad, distances.clone());
    if modes::recording() {
        let beside = |input: Expr, dim: i64| input.call(&UNSQUEEZE, [dim.into()]);
        let difference = beside(rows, -2) - beside(columns.transposed(), -3);
        return slopes(p, difference, weights, distances).sum_over(-2);
    }
    let found = || op!(CDIST_GRADIENT, weights.done()?, rows.done()?, columns.done()?, distances.done()?, p);
    Expr::new(found())
}

fn pdist_gradient(d: &BackwardContext) -> Result<Tensor> {
    use PDIST_ROWS::*;

    let (input, p, distances) = (d.input(INPUT).done()?, d.scalar(P).f64(), d.result());
    let weights = weights(p, d.grad(), distances.clone());
    if !modes::recording() {
        return op!(PDIST_GRADIENT, weights.done()?, input, distances.done()?, p);
    }
    let count = input.sizes()[input.rank() - 2] as i64;
    let pairs = op!(TRIU_INDICES, count, count, 1i64)?;
    let [lesser, greater] = [0i64, 1].map(|side| op!(SELECT, &pairs, 0i64, side));
    let (lesser, greater) = (lesser?, greater?);
    let picked = |places: &Tensor| Ok::<_, Error>(Expr::from(op!(INDEX_SELECT, &input, -2i64, places)?));
    let each = slopes(p, picked(&lesser)? - picked(&greater)?, weights, distances).done()?;
    let zeros = Expr::from(&input).zeros_like().done()?;
    let sums = op!(INDEX_ADD, &zeros, -2i64, &lesser, &each)?;
    op!(INDEX_ADD, &sums, -2i64, &greater, &each, -1i64)
}
