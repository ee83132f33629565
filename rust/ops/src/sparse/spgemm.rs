//! Products of two sparse matrices, row by row (Gustavson 1978): an element of the first scales a row of the second. The host
//! computes them for all devices.

use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::operator::{
    BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula, operator,
};
use std::ops::{Add, Mul};

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Element, Error, Result, dispatch};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::interpreter::while_detached;
use rushlight_dispatch::op;
use rushlight_dispatch::value::Output;

use super::convert::{COALESCE, MASKED};
use super::indices::{check_places, placed};
use super::parts::{build, parts};
use crate::convert::to_vec;
use crate::join::STACK;
use crate::pointwise::complex::CONJ_PHYSICAL;
use crate::view::transpose::T;

/// The product has an index for every matching pair, whether or not its sum is zero; gradients have the factors'
/// indices.
#[operator]
pub static SPARSE_SPARSE_MATMUL: Operator = Operator {
    name: "_sparse_sparse_matmul",
    signature: "(Tensor self, Tensor other) -> Tensor",
    dtypes: DTypes::of(&[DType::F32, DType::F64, DType::C64, DType::C128]),
    kernel_name: "sparse_matmul",
    sparse: Sparse::Supported,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let (input, other) = (args.tensor(INPUT)?, args.tensor(OTHER)?);
        check_factors(input, other)?;
        if input.dtype() != other.dtype() {
            return Err(Error::runtime(format!(
                "mat1 dtype {} does not match mat2 dtype {}",
                input.dtype().display_name(),
                other.dtype().display_name()
            ))
            .hint("Convert one of them: x.to(other.dtype)."));
        }
        let (a, b) = (Entries::of(input)?, Entries::of(other)?);
        let sizes = [input.sizes()[0], other.sizes()[1]];
        dispatch!(input.dtype(), T in [f32, f64, c64, c128] => a.times::<T>(&b, &sizes).map(Output::Tensor),
            else => Err(not_implemented(args.op, input.dtype())))
    })),
    derivative: Derivative::Formulas(&[
        formula(INPUT, Saves::input(INPUT).union(Saves::input(OTHER)).union(Saves::RESULT), |d| {
            Expr::new(gradient(d, |grad, _, b| op!(SPARSE_SPARSE_MATMUL, grad, &adjoint(b)?), 0))
        }),
        formula(OTHER, Saves::input(INPUT).union(Saves::input(OTHER)).union(Saves::RESULT), |d| {
            Expr::new(gradient(d, |grad, a, _| op!(SPARSE_SPARSE_MATMUL, &adjoint(a)?, grad), 1))
        }),
    ]),
    node: "SparseSparseMatmulBackward0",
    ..Operator::BASE
};

/// Checks that two matrices can be multiplied.
pub fn check_factors(input: &Tensor, other: &Tensor) -> Result<()> {
    for (matrix, name) in [(input, "self"), (other, "mat2")] {
        if matrix.rank() != 2 {
            return Err(Error::runtime(format!("{name} must be a matrix")));
        }
    }
    let (a, b) = (input.sizes(), other.sizes());
    if a[1] == b[0] {
        return Ok(());
    }
    Err(Error::runtime(format!("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", a[0], a[1], b[0], b[1])))
}

/// The gradient of one factor at its own indices; only the product's gradient at the product's indices counts.
fn gradient(
    d: &BackwardContext,
    of: impl Fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>,
    factor: usize,
) -> Result<Tensor> {
    use SPARSE_SPARSE_MATMUL::*;

    let grad = op!(MASKED, &d.grad().done()?, &d.result().done()?)?;
    let (a, b) = (d.input(INPUT).done()?, d.input(OTHER).done()?);
    let whole = of(&grad, &a, &b)?;
    op!(MASKED, &whole, &op!(COALESCE, if factor == 0 { &a } else { &b })?)
}

fn adjoint(matrix: &Tensor) -> Result<Tensor> {
    let turned = op!(T, matrix)?;
    if matrix.dtype().is_complex() { op!(CONJ_PHYSICAL, &turned) } else { Ok(turned) }
}

/// The elements of a matrix by rows, each once.
struct Entries {
    rows: Vec<i64>,
    columns: Vec<i64>,
    values: Tensor,
}

impl Entries {
    fn of(matrix: &Tensor) -> Result<Entries> {
        let places = parts(matrix, "sparse_sparse_matmul_cpu")?;
        if places.values.rank() != 1 || places.indices.sizes()[0] != 2 {
            return Err(Error::runtime(format!(
                "sparse_sparse_matmul_cpu: scalar values expected, got {}D values",
                places.values.rank()
            ))
            .shapes([places.values.sizes().as_slice()])
            .hint("Both dimensions of a factor must be sparse: use x.to_dense().to_sparse()."));
        }
        let places = super::coalesce::coalesced(&places, matrix.sizes())?;
        let mut rows = to_vec::<i64>(&places.indices)?;
        let columns = rows.split_off(rows.len() / 2);
        // The tensor may be marked as coalesced although a program has written to its indices since.
        check_places(&rows, 0, matrix.sizes()[0])?;
        check_places(&columns, 1, matrix.sizes()[1])?;
        if !rows.is_sorted() {
            return Err(Error::runtime("mm: the indices of a coalesced matrix are not in order")
                .shapes([matrix.sizes().as_slice()])
                .hint("x was coalesced when it was made, but its indices have been changed since."));
        }
        Ok(Entries { rows, columns, values: places.values.detach() })
    }

    /// The indices of the elements in a row.
    fn in_row(&self, row: i64) -> std::ops::Range<usize> {
        let first = self.rows.partition_point(|&at| at < row);
        first..first + self.rows[first..].partition_point(|&at| at == row)
    }

    fn times<T>(&self, other: &Entries, sizes: &[isize; 2]) -> Result<Tensor>
    where
        T: Element + Default + Add<Output = T> + Mul<Output = T>,
    {
        let (x, y) = (to_vec::<T>(&self.values)?, to_vec::<T>(&other.values)?);
        let met = collected(self.columns.iter().map(|&column| other.in_row(column)))?;
        // A sum for each column that occurs, however wide the matrix is.
        let mut columns = collected(other.columns.iter().copied())?;
        columns.sort_unstable();
        columns.dedup();
        let rank = |column: &i64| columns.partition_point(|at| at < column);
        let ranks = collected(other.columns.iter().map(rank))?;
        let mut row_of = filled(-1i64, columns.len())?;

        let terms = met.iter().map(std::ops::Range::len).sum();
        let mut count = 0;
        for (&row, others) in self.rows.iter().zip(&met) {
            for &rank in &ranks[others.clone()] {
                count += usize::from(std::mem::replace(&mut row_of[rank], row) != row);
            }
        }
        let (mut rows, mut ranked, mut values) = (list(count)?, list(count)?, list(count)?);
        let mut sums = filled(T::default(), columns.len())?;
        row_of.fill(-1);
        while_detached(terms, || {
            let mut at = 0;
            while let Some(&row) = self.rows.get(at) {
                let begin = ranked.len();
                while self.rows.get(at) == Some(&row) {
                    for (&rank, &factor) in ranks[met[at].clone()].iter().zip(&y[met[at].clone()]) {
                        let term = x[at] * factor;
                        if std::mem::replace(&mut row_of[rank], row) == row {
                            sums[rank] = sums[rank] + term;
                        } else {
                            sums[rank] = term;
                            ranked.push(rank);
                        }
                    }
                    at += 1;
                }
                ranked[begin..].sort_unstable();
                values.extend(ranked[begin..].iter().map(|&rank| sums[rank]));
                rows.resize(ranked.len(), row);
            }
            Ok(())
        })?;
        let columns = collected(ranked.iter().map(|&rank| columns[rank]))?;
        let device = self.values.device();
        let indices = op!(STACK, vec![placed(&rows, device)?, placed(&columns, device)?], 0i64)?;
        build(sizes, SparseParts { indices, values: placed(&values, device)?, coalesced: true })
    }
}
