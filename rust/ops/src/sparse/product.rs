//! Products of sparse matrices with dense ones; those of two sparse ones are in `spgemm`.

use rushlight_core::{Error, Result};

use super::{COALESCE, MADE, Sparse, VALUES, parts};
use crate::create::zeros;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::index::along::{INDEX_ADD, INDEX_SELECT};
use crate::pointwise::arith::{ADD, MUL};
use crate::row::{DTypes, Row, Run};
use crate::value::{Args, Output};
use crate::view::complex::conjugate;
use crate::view::narrow::SELECT;
use crate::view::reshape::sizes_value;
use crate::view::squeeze::UNSQUEEZE;
use crate::view::transpose::T;
use crate::{Tensor, op};

/// A sparse matrix times a dense one; the gradient of the first has its places, unless it is asked for whole.
pub static PRODUCT: Row = Row {
    name: "_sparse_mm",
    signature: "(Tensor self, Tensor mat2, bool whole=False) -> Tensor",
    dtypes: DTypes::NUMBERS,
    sparse: Sparse::Known,
    run: Run::Body(|args| product(args.tensor(0)?, args.tensor(1)?).map(Output::Tensor)),
    derivative: Derivative::Formulas(&[
        formula(0, Saves::input(0).union(Saves::input(1)), |d| Expr::new(of_sparse(d))),
        formula(1, Saves::input(0), |d| {
            let gradient = || -> Result<Tensor> {
                let own = op!(COALESCE, &d.input(0).done()?)?;
                let values = conjugate(&op!(VALUES, &own)?)?;
                spread(&d.grad().done()?, &parts(&own, "mm")?.indices, &values, (1, 0), own.sizes()[1])
            };
            Expr::new(gradient())
        }),
    ]),
    node: "SparseAddmmBackward0",
    ..Row::BASE
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

/// Two matrices that fit.
pub fn check_factors(own: &Tensor, other: &Tensor) -> Result<()> {
    for (matrix, name) in [(own, "self"), (other, "mat2")] {
        if matrix.rank() != 2 {
            return Err(Error::runtime(format!("{name} must be a matrix")));
        }
    }
    let (a, b) = (own.sizes(), other.sizes());
    if a[1] == b[0] {
        return Ok(());
    }
    Err(Error::runtime(format!("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a[0], a[1], b[0], b[1])))
}

/// Adds up, at the places in row `to` of the indices, the rows of a matrix at those in row `from`, each times its value.
fn spread(matrix: &Tensor, indices: &Tensor, values: &Tensor, (to, from): (i64, i64), count: isize) -> Result<Tensor> {
    let rows = op!(INDEX_SELECT, matrix, 0i64, &op!(SELECT, indices, 0i64, from)?)?;
    let rows = op!(MUL, &rows, &op!(UNSQUEEZE, values, 1i64)?)?;
    let none = zeros(&[count, matrix.sizes()[1]], matrix.dtype(), matrix.device())?;
    op!(INDEX_ADD, &none, 0i64, &op!(SELECT, indices, 0i64, to)?, &rows)
}

fn of_sparse(d: &Derive) -> Result<Tensor> {
    let (own, other, grad) = (d.input(0).done()?, d.input(1).done()?, d.grad().done()?);
    if d.flag(2) {
        return op!(crate::linalg::matrix::MM, &grad, &op!(crate::view::transpose::ADJOINT, &other)?);
    }
    // A place that comes twice is one element, and has one gradient.
    let own = op!(COALESCE, &own)?;
    let places = parts(&own, "mm")?;
    let rows = op!(INDEX_SELECT, &grad, 0i64, &op!(SELECT, &places.indices, 0i64, 0i64)?)?;
    let columns = op!(INDEX_SELECT, &conjugate(&other)?, 0i64, &op!(SELECT, &places.indices, 0i64, 1i64)?)?;
    let values = op!(crate::reduce::sum::SUM_DIM, &op!(MUL, &rows, &columns)?, &[1i64][..])?;
    op!(MADE, &places.indices, &values, sizes_value(own.sizes()), places.coalesced)
}

/// The product of two matrices of which one is sparse, or both; a dense one that stands first is turned, and so is the result.
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
pub fn matmul(args: &Args) -> Result<Output> {
    let (own, other) = (args.tensor(0)?, args.tensor(1)?);
    let vectors = args.row.name != "mm";
    if vectors && other.rank() == 1 {
        let column = times(own, &op!(UNSQUEEZE, other, 1i64)?, true)?;
        return op!(SELECT, &column, 1i64, 0i64).map(Output::Tensor);
    }
    if vectors && own.rank() == 1 {
        let row = times(&op!(UNSQUEEZE, own, 0i64)?, other, true)?;
        return op!(SELECT, &row, 0i64, 0i64).map(Output::Tensor);
    }
    times(own, other, true).map(Output::Tensor)
}

/// `addmm` with a sparse matrix among the factors.
pub fn addmm(args: &Args) -> Result<Output> {
    let (own, beta, alpha) = (args.tensor(0)?, args.scalar(3)?, args.scalar(4)?);
    let product = times(args.tensor(1)?, args.tensor(2)?, true)?;
    let product = if alpha.is_one() { product } else { op!(MUL, &product, alpha)? };
    crate::linalg::added::check_addend(own, product.sizes())?;
    if beta.is_zero() {
        return Ok(Output::Tensor(product));
    }
    let own = if beta.is_one() { own.clone() } else { op!(MUL, own, beta)? };
    op!(ADD, &own, &product).map(Output::Tensor)
}
