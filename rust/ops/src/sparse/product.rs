//! Products of sparse matrices with dense ones; those of two sparse ones are in `spgemm`.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::create::zeros;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula,
    operator,
};
use rushlight_dispatch::value::{Arg, Output, sizes_value};

use super::convert::{COALESCE, FROM_PARTS, VALUES};
use super::parts::parts;
use super::spgemm::check_factors;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};
use crate::pointwise::arith::{ADD, MUL};
use crate::view::complex::conjugate;
use crate::view::narrow::SELECT;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::T;

/// A sparse matrix times a dense one; the gradient of the first has its indices, unless the whole is requested.
#[operator]
pub static PRODUCT: Operator = Operator {
    name: "_sparse_mm",
    signature: "(Tensor self, Tensor mat2, bool whole=False) -> Tensor",
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Supported,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::cpu(|args| {
        product(args.tensor(INPUT)?, args.tensor(MAT2)?).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(MAT2)), |d| Expr::new(of_sparse(d))),
        formula(MAT2, Saves::input(INPUT), |d| {
            let gradient = || -> Result<Tensor> {
                let own = op!(COALESCE, &d.input(INPUT).done()?)?;
                let values = conjugate(&op!(VALUES, &own)?)?;
                spread(&d.grad().done()?, &parts(&own, "mm")?.indices, &values, (1, 0), own.sizes()[1])
            };
            Expr::new(gradient())
        }),
    ]),
    node: "SparseAddmmBackward0",
    ..Operator::BASE
};

fn product(own: &Tensor, other: &Tensor) -> Result<Tensor> {
    let places = parts(own, "mm")?;
    if places.indices.sizes()[0] != 2 || own.rank() != 2 {
        return Err(Error::runtime(format!("mm: expected a matrix of two sparse dimensions, got {}", own.rank())));
    }
    check_factors(own, other)?;
    if own.dtype() != other.dtype() {
        return Err(Error::runtime(format!(
            "expected m1 and m2 to have the same dtype, but got: {} != {}",
            own.dtype().c_name(),
            other.dtype().c_name()
        )));
    }
    spread(other, &places.indices, &places.values, (0, 1), own.sizes()[0])
}

/// Adds, at the indices in row `to`, the rows of a matrix at the indices in row `from`, each times its value.
fn spread(matrix: &Tensor, indices: &Tensor, values: &Tensor, (to, from): (i64, i64), count: isize) -> Result<Tensor> {
    let rows = op!(INDEX_SELECT, matrix, 0i64, &op!(SELECT, indices, 0i64, from)?)?;
    let rows = op!(MUL, &rows, &op!(UNSQUEEZE, values, 1i64)?)?;
    let none = zeros(&[count, matrix.sizes()[1]], matrix.dtype(), matrix.device())?;
    op!(INDEX_ADD, &none, 0i64, &op!(SELECT, indices, 0i64, to)?, &rows)
}

fn of_sparse(d: &BackwardContext) -> Result<Tensor> {
    use PRODUCT::*;

    let (own, other, grad) = (d.input(INPUT).done()?, d.input(MAT2).done()?, d.grad().done()?);
    if d.flag(WHOLE) {
        return op!(crate::linalg::matrix::MM, &grad, &op!(crate::view::transpose::ADJOINT, &other)?);
    }
    // Repeated indices refer to one element, which has one gradient.
    let own = op!(COALESCE, &own)?;
    let places = parts(&own, "mm")?;
    let rows = op!(INDEX_SELECT, &grad, 0i64, &op!(SELECT, &places.indices, 0i64, 0i64)?)?;
    let columns = op!(INDEX_SELECT, &conjugate(&other)?, 0i64, &op!(SELECT, &places.indices, 0i64, 1i64)?)?;
    let values = op!(crate::reduce::sum::SUM_DIM, &op!(MUL, &rows, &columns)?, &[1i64][..])?;
    op!(FROM_PARTS, &places.indices, &values, sizes_value(own.sizes()), places.coalesced)
}

/// The product of two matrices of which at least one is sparse; if the dense one comes first, both it and the result
/// are transposed.
pub fn times(own: &Tensor, other: &Tensor, whole: bool) -> Result<Tensor> {
    if own.is_sparse() && other.is_sparse() {
        return op!(super::spgemm::SPARSE_SPARSE_MATMUL, own, other);
    }
    if own.is_sparse() || !other.is_sparse() {
        return op!(PRODUCT, own, other, whole);
    }
    check_factors(own, other)?;
    op!(T, &op!(PRODUCT, &op!(T, other)?, &op!(T, own)?, whole)?)
}

/// `mm`, `mv` and `matmul` of a sparse matrix and a dense matrix or vector.
pub fn matmul(args: &Args, second: Arg) -> Result<Output> {
    let (own, other) = (args.tensor(Arg::FIRST)?, args.tensor(second)?);
    let vectors = args.op.name != "mm";
    if vectors && other.rank() == 1 {
        let column = times(own, &op!(UNSQUEEZE, other, 1i64)?, true)?;
        return op!(SELECT, &column, 1i64, 0i64).map(Output::Tensor);
    }
    if vectors && own.rank() == 1 {
        let op = times(&op!(UNSQUEEZE, own, 0i64)?, other, true)?;
        return op!(SELECT, &op, 0i64, 0i64).map(Output::Tensor);
    }
    times(own, other, true).map(Output::Tensor)
}

/// `addmm` with a sparse matrix among the factors.
pub fn addmm(args: &Args) -> Result<Output> {
    use crate::linalg::addmm::ADDMM::*;

    let (own, beta, alpha) = (args.tensor(INPUT)?, args.scalar(BETA)?, args.scalar(ALPHA)?);
    let product = times(args.tensor(MAT1)?, args.tensor(MAT2)?, true)?;
    let product = if alpha.is_one() { product } else { op!(MUL, &product, alpha)? };
    crate::linalg::addmm::check_addend(own, product.sizes())?;
    if beta.is_zero() {
        return Ok(Output::Tensor(product));
    }
    let own = if beta.is_one() { own.clone() } else { op!(MUL, own, beta)? };
    op!(ADD, &own, &product).map(Output::Tensor)
}
