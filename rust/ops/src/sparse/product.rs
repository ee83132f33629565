//! Products of sparse matrices with dense ones; those of two sparse ones are in `spgemm`.

use rushlight_autograd::Tensor;
use rushlight_core::layout::Shape;
use rushlight_core::{Error, Result};
use rushlight_dispatch::create::zeros;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula,
    operator,
};
use rushlight_dispatch::sparse::{dense, unsupported};
use rushlight_dispatch::value::{Arg, Output, Value, sizes_value};

use super::compressed::convert::to_layout;
use super::convert::{FROM_PARTS, VALUES, sorted, with_recorded_values};
use super::layouts;
use super::parts::entries;
use super::spgemm::{SPARSE_SPARSE_MATMUL, check_factors};
use crate::convert::contiguous;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};
use crate::linalg::matrix::MV;
use crate::pointwise::arith::{ADD, MUL};
use crate::view::complex::conjugate;
use crate::view::narrow::SELECT;
use crate::view::reshape::RESHAPE;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::T;

/// A sparse matrix times a dense one; the gradient of the first has its indices, unless the whole is requested.
#[operator]
pub static SPARSE_DENSE_MM: Operator = Operator {
    name: "_sparse_dense_mm",
    signature: "(Tensor self, Tensor mat2, bool whole=False) -> Tensor",
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Supported,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        mm(args.tensor(INPUT)?, args.tensor(MAT2)?).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(MAT2)), |d| Expr::new(of_sparse(d))),
        formula(MAT2, Saves::input(INPUT), |d| {
            let gradient = || -> Result<Tensor> {
                let own = sorted(&d.input(INPUT).done()?)?;
                let values = conjugate(&flat_values(&own)?)?;
                spread(&d.grad().done()?, &entries(&own, "mm")?.indices, &values, (1, 0), own.sizes()[1])
            };
            Expr::new(gradient())
        }),
    ]),
    node: "SparseAddmmBackward0",
    ..Operator::BASE
};

fn mm(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    let places = entries(input, "mm")?;
    if places.indices.sizes()[0] != 2 || input.rank() != 2 {
        return Err(Error::runtime(format!("mm: expected a matrix of two sparse dimensions, got {}", input.rank())));
    }
    check_factors(input, other)?;
    if input.dtype() != other.dtype() {
        return Err(Error::runtime(format!(
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            input.dtype().c_name(),
            other.dtype().c_name()
        )));
    }
    spread(other, &places.indices, &places.values, (0, 1), input.sizes()[0])
}

/// Adds, at the indices in row `to`, the rows of a matrix at the indices in row `from`, each times its value.
fn spread(matrix: &Tensor, indices: &Tensor, values: &Tensor, (to, from): (i64, i64), count: isize) -> Result<Tensor> {
    let rows = op!(INDEX_SELECT, matrix, 0i64, &op!(SELECT, indices, 0i64, from)?)?;
    let rows = op!(MUL, &rows, &op!(UNSQUEEZE, values, 1i64)?)?;
    let none = zeros(&[count, matrix.sizes()[1]], matrix.dtype(), matrix.device())?;
    op!(INDEX_ADD, &none, 0i64, &op!(SELECT, indices, 0i64, to)?, &rows)
}

fn of_sparse(d: &BackwardContext) -> Result<Tensor> {
    use SPARSE_DENSE_MM::*;

    let (input, other, grad) = (d.input(INPUT).done()?, d.input(MAT2).done()?, d.grad().done()?);
    if d.flag(WHOLE) {
        return op!(crate::linalg::matrix::MM, &grad, &op!(crate::view::transpose::ADJOINT, &other)?);
    }
    // Repeated indices refer to one element, which has one gradient.
    let input = sorted(&input)?;
    let places = entries(&input, "mm")?;
    let rows = op!(INDEX_SELECT, &grad, 0i64, &op!(SELECT, &places.indices, 0i64, 0i64)?)?;
    let columns = op!(INDEX_SELECT, &conjugate(&other)?, 0i64, &op!(SELECT, &places.indices, 0i64, 1i64)?)?;
    let values = op!(crate::reduce::sum::SUM_DIM, &op!(MUL, &rows, &columns)?, &[1i64][..])?;
    with_recorded_values(&input, &places, &values)
}

/// The values of a coalesced tensor, one for each entry.
fn flat_values(input: &Tensor) -> Result<Tensor> {
    op!(RESHAPE, &op!(VALUES, input)?, &[-1i64][..])
}

/// The product of two matrices of which at least one is sparse; if the dense one comes first, both it and the result
/// are transposed.
pub fn times(input: &Tensor, other: &Tensor, whole: bool) -> Result<Tensor> {
    if input.is_sparse() && other.is_sparse() {
        return times_sparse(input, other);
    }
    if input.is_sparse() || !other.is_sparse() {
        return op!(SPARSE_DENSE_MM, input, other, whole);
    }
    check_factors(input, other)?;
    op!(T, &op!(SPARSE_DENSE_MM, &op!(T, other)?, &op!(T, input)?, whole)?)
}

/// The product of two sparse matrices: with coordinates, or by rows if the first is compressed.
fn times_sparse(input: &Tensor, other: &Tensor) -> Result<Tensor> {
    let with_coordinates = |tensor: &Tensor| to_layout(tensor, "to_sparse", "sparse_coo", None, None);
    let product = op!(SPARSE_SPARSE_MATMUL, &with_coordinates(input)?, &with_coordinates(other)?)?;
    if input.compressed_parts().is_some() {
        to_layout(&product, "to_sparse", "sparse_csr", None, None)
    } else {
        Ok(product)
    }
}

/// `mm`, `mv` and `matmul` of a sparse matrix and a dense matrix or vector.
pub fn matmul(args: &Args, second: Arg) -> Result<Output> {
    let (input, other) = (args.tensor(Arg::FIRST)?, args.tensor(second)?);
    let vectors = args.op.name != "mm";
    if vectors && other.rank() == 1 {
        let column = times(input, &op!(UNSQUEEZE, other, 1i64)?, true)?;
        return op!(SELECT, &column, 1i64, 0i64).map(Output::Tensor);
    }
    if vectors && input.rank() == 1 {
        let row = times(&op!(UNSQUEEZE, input, 0i64)?, other, true)?;
        return op!(SELECT, &row, 0i64, 0i64).map(Output::Tensor);
    }
    if vectors && !input.is_sparse() && input.rank() > 2 && other.rank() == 2 {
        // The rows of all matrices are those of one.
        let mut sizes = input.sizes().clone();
        let width = sizes.pop().unwrap_or(1);
        let rows = op!(RESHAPE, input, sizes_value(&[sizes.iter().product(), width]))?;
        sizes.push(other.sizes()[1]);
        return op!(RESHAPE, &times(&rows, other, true)?, sizes_value(&sizes)).map(Output::Tensor);
    }
    let result = if input.is_sparse() && other.is_sparse() { layouts::named(input) } else { "Strided" };
    check_factors(input, other)?;
    let product = layouts::in_words(result, input, other, times(input, other, true))?;
    let by_rows = !input.is_sparse() && other.compressed_parts().is_some();
    if by_rows { contiguous(&product) } else { Ok(product) }.map(Output::Tensor)
}

/// `bmm` of a sparse batch and a dense one: one product, of a matrix with the sparse ones along its diagonal.
pub fn bmm(args: &Args) -> Result<Output> {
    use crate::linalg::matrix::BMM::*;

    let (input, other) = (args.tensor(INPUT)?, args.tensor(MAT2)?);
    if input.compressed_parts().is_some() || other.compressed_parts().is_some() {
        return match layouts::named(other) {
            kind @ ("SparseBsr" | "SparseBsc") => Err(layouts::no_blocks("empty", kind)),
            _ => Err(unsupported("bmm", if input.compressed_parts().is_some() { input } else { other })),
        };
    }
    if !input.is_sparse() || other.is_sparse() {
        return Err(Error::runtime("bmm_sparse: Tensor 'mat2' must be dense"));
    }
    if input.rank() != 3 || other.rank() != 3 {
        let number = if input.rank() != 3 { 1 } else { 2 };
        return Err(Error::runtime(format!("batch{number} must be a 3D tensor")));
    }
    let (&[batch, rows, inner], &[batches, height, columns]) = (&input.sizes()[..], &other.sizes()[..]) else {
        return Err(Error::runtime("bmm_sparse: expected two batches of matrices"));
    };
    if batch != batches || inner != height {
        return Err(Error::runtime(format!(
            "bmm_sparse: sizes {} and {} cannot be multiplied",
            Shape(input.sizes()),
            Shape(other.sizes())
        )));
    }
    let input = sorted(input)?;
    let held = entries(&input, "bmm")?;
    if held.indices.sizes()[0] != 3 {
        return Err(Error::runtime("bmm_sparse: Tensor 'self' must have three sparse dimensions"));
    }
    let along = |dim: i64, size: isize| -> Result<Tensor> {
        let first = op!(MUL, &op!(SELECT, &held.indices, 0i64, 0i64)?, size as i64)?;
        op!(ADD, &first, &op!(SELECT, &held.indices, 0i64, dim)?)
    };
    let indices = op!(crate::join::STACK, vec![along(1, rows)?, along(2, inner)?], 0i64)?;
    let sizes = [batch * rows, batch * inner];
    let whole = op!(FROM_PARTS, &indices, &flat_values(&input)?, sizes_value(&sizes))?;
    let flat = op!(RESHAPE, other, sizes_value(&[batch * inner, columns]))?;
    let product = op!(SPARSE_DENSE_MM, &whole, &flat)?;
    op!(RESHAPE, &product, sizes_value(&[batch, rows, columns])).map(Output::Tensor)
}

/// `addmm` with a sparse matrix among the operands. The result has the layout of the first.
pub fn addmm(args: &Args) -> Result<Output> {
    use crate::linalg::addmm::ADDMM::*;

    let (input, mat1, mat2) = (args.tensor(INPUT)?, args.tensor(MAT1)?, args.tensor(MAT2)?);
    check_factors(mat1, mat2)?;
    crate::linalg::addmm::check_addend(input, &[mat1.sizes()[0], mat2.sizes()[1]])?;
    layouts::in_words(layouts::named(input), mat1, mat2, added_to(input, times(mat1, mat2, true), args, (BETA, ALPHA)))
        .map(Output::Tensor)
}

/// `addmv` of a compressed matrix.
pub fn addmv(args: &Args) -> Result<Output> {
    use crate::linalg::addmm::ADDMV::*;

    let (input, matrix, vector) = (args.tensor(INPUT)?, args.tensor(MAT)?, args.tensor(VEC)?);
    let Some(parts) = matrix.compressed_parts().filter(|_| !input.is_sparse() && !vector.is_sparse()) else {
        return Err(unsupported("addmv", input));
    };
    if parts.format.columns && parts.format.blocks {
        return Err(Error::runtime("torch.addmv: operation not supported for mat with SparseBsc layout"));
    }
    let product = MV.tensor([matrix.into(), vector.into()]);
    if let Ok(product) = &product
        && input.numel() != 1
        && input.numel() != product.numel()
    {
        crate::linalg::addmm::check_addend(input, product.sizes())?;
    }
    added_to(input, product, args, (BETA, ALPHA)).map(Output::Tensor)
}

/// `triangular_solve` of a matrix that is compressed by rows. torch returns nothing in the second place.
pub fn triangular_solve(args: &Args) -> Result<Output> {
    use crate::linalg::triangular::TRIANGULAR_SOLVE::*;

    let (input, matrix) = (args.tensor(INPUT)?, args.tensor(A)?);
    let Some(parts) = matrix.compressed_parts().filter(|_| !input.is_sparse()) else {
        return Err(unsupported("triangular_solve", input));
    };
    if parts.format.columns {
        return Err(Error::value("triangular_solve: unsupported sparse layout."));
    }
    let mut call = args.clone();
    call.set(A, Value::Own(dense(matrix)?));
    let solution = call.call()?.into_tensors().into_iter().next();
    let solution = solution.ok_or_else(|| Error::runtime("triangular_solve gave nothing"))?;
    let none = zeros(&[0], input.dtype(), input.device())?;
    Ok(Output::Tuple(vec![contiguous(&solution)?, none]))
}

/// `beta * own + alpha * product`. A sparse product is added to a dense tensor at its indices.
fn added_to(input: &Tensor, product: Result<Tensor>, args: &Args, (beta, alpha): (Arg, Arg)) -> Result<Tensor> {
    let (product, beta, alpha) = (product?, args.scalar(beta)?, args.scalar(alpha)?);
    let product = if input.is_sparse() { product } else { dense(&product)? };
    let product = if alpha.is_one() { product } else { op!(MUL, &product, alpha)? };
    if beta.is_zero() && !input.is_sparse() {
        return Ok(product);
    }
    let input = if beta.is_one() { input.clone() } else { op!(MUL, input, beta)? };
    op!(ADD, &input, &product)
}
