//! Factorisations on CUDA devices, by cuSOLVER. Each function is false if the library is missing or refuses; then the host has to
//! factorise.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Device, Result};
use rushlight_cuda::cusolver::batches::{self, Listed};
use rushlight_cuda::cusolver::factors::{self, Singular};
use rushlight_cuda::cusolver::pivots;
use rushlight_cuda::cusolver::triangles::{self, Triangle};
use rushlight_cuda::cusolver::{Matrices, is_available, solves_triangles};
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::Target;
use rushlight_dispatch::{copy, create};

use super::dense::{batch_sizes, by_columns_copy, count, matrix_sizes};
use crate::create::range::integers;
use crate::held::Held;
use crate::index::on_cuda::Report;
use crate::join::tril::{TRIL, TRIU};

/// The matrices of a dense tensor that stores them by columns.
fn matrices<'a>(held: &mut Held<'a>, tensor: &'a Tensor) -> Result<Matrices> {
    let [rows, columns] = matrix_sizes(tensor);
    Ok(Matrices {
        at: held.address(tensor)?,
        rows: rows as i64,
        columns: columns as i64,
        count: count(tensor) as u64,
        dtype: tensor.dtype(),
    })
}

/// Sets what lies outside of a triangle to zero.
pub fn keep_triangle(tensor: &Tensor, upper: bool) -> Result<()> {
    let part: &'static Operator = if upper { &TRIU } else { &TRIL };
    Args::new(part, [tensor.into(), 0i64.into()]).call_into(Target::InPlace).map(drop)
}

/// Whether all codes are those of success and all values are finite. It waits for the device.
pub fn is_exact(infos: &Tensor, values: &Tensor) -> Result<bool> {
    let converged = crate::convert::to_vec::<i32>(infos)?.iter().all(|&info| info == 0);
    Ok(converged && crate::convert::to_vec::<f64>(values)?.iter().all(|value| value.is_finite()))
}

/// The addresses of matrices, on their device.
fn addresses(of: &Matrices, device: Device) -> Result<Tensor> {
    let step = of.rows * of.columns * of.dtype.size() as i64;
    let first = of.at as i64;
    integers([first, first + step * of.count as i64, step], DType::I64, device)
}

/// Replaces matrices by their Cholesky factors.
pub fn cholesky(factor: &Tensor, infos: &Tensor, upper: bool) -> Result<bool> {
    let list;
    let mut held = Held::on(factor)?;
    let (own, infos) = (matrices(&mut held, factor)?, held.address(infos)?);
    if own.is_single() || !is_available() {
        // SAFETY: results are new and of the sizes from `infer`; both storages are held for the stream.
        return unsafe { factors::cholesky(held.card, held.stream, upper, own, infos) };
    }
    list = addresses(&own, factor.device())?;
    let listed = Listed { matrices: own, addresses: held.address(&list)? };
    // SAFETY: as above; the list is held too.
    unsafe { batches::cholesky(held.card, held.stream, upper, listed, infos) }
}

/// The largest square matrices whose batches cuBLAS factorises, as in torch; cuSOLVER takes larger ones one after the other.
const MOST_ROWS: i64 = 511;

/// Replaces matrices by their LU factors.
pub fn lu(lu: &Tensor, pivots: &Tensor, infos: &Tensor) -> Result<bool> {
    let (list, wide);
    let mut held = Held::on(lu)?;
    let (own, infos) = (matrices(&mut held, lu)?, held.address(infos)?);
    if !own.is_single() && own.rows == own.columns && own.rows <= MOST_ROWS && solves_triangles() {
        list = addresses(&own, lu.device())?;
        let listed = Listed { matrices: own, addresses: held.address(&list)? };
        // SAFETY: results are new and of the sizes from `infer`; all storages are held for the stream.
        return unsafe { batches::lu(held.card, held.stream, listed, held.address(pivots)?, infos) };
    }
    wide = create::empty(pivots.sizes(), DType::I64, pivots.device())?;
    // SAFETY: as above.
    let done = unsafe { factors::lu(held.card, held.stream, own, held.address(&wide)?, infos)? };
    if done {
        copy::copy(pivots, &wide)?;
    }
    Ok(done)
}

/// The orders of rows from row-major pivots. Returns whether all pivots are those of rows.
pub fn orders(exchanges: &Tensor, to: &Tensor, inverse: bool) -> Result<bool> {
    let sizes = |tensor: &Tensor| tensor.sizes().last().map_or(0, |&size| size as usize);
    let (steps, size) = (sizes(exchanges), sizes(to));
    let Some(matrices) = to.numel().checked_div(size) else { return Ok(true) };
    let mut held = Held::on(to)?;
    let report = Report::new(held.card)?;
    let operands = held.addresses([exchanges, to])?;
    {
        let mut reporting = Held::on(to)?;
        let outside = report.address(&mut reporting)?;
        // SAFETY: the result is new and has `size` numbers for each matrix; both are row-major and held for the stream, as the
        // report is.
        unsafe { pivots::orders(held.card, held.stream, operands, [matrices, steps, size], inverse, outside)? };
    }
    Ok(report.read()?.is_none())
}

/// Replaces right-hand sides by solutions of systems with triangles of `a`, which has the batch of `b`.
pub fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<bool> {
    if !solves_triangles() {
        return Ok(false);
    }
    let rank = a.rank();
    // Matrices by rows are transposed ones by columns, with the other triangle.
    let transposed = a.layout().is_contiguous();
    let a = match transposed || a.layout().transpose(rank - 2, rank - 1).is_contiguous() {
        true => a.clone(),
        false => by_columns_copy(a)?,
    };
    let lists;
    let mut held = Held::on(b)?;
    let triangle = Triangle { upper: upper != transposed, transposed, unit };
    let (own, sides) = (matrices(&mut held, &a)?, matrices(&mut held, b)?);
    // As in torch: a few large ones are faster one after the other.
    if sides.is_single() || (sides.count <= 8 && own.rows >= 64) {
        // SAFETY: the result is new and does not overlap the triangle; sizes were checked, both storages are held for the
        // stream.
        return unsafe { triangles::solve(held.card, held.stream, left, triangle, own, sides) };
    }
    lists = (addresses(&own, b.device())?, addresses(&sides, b.device())?);
    let own = Listed { matrices: own, addresses: held.address(&lists.0)? };
    let sides = Listed { matrices: sides, addresses: held.address(&lists.1)? };
    // SAFETY: as above; the lists are held too.
    unsafe { batches::solve(held.card, held.stream, left, triangle, own, sides) }
}

/// Whether there are many small matrices. cuSOLVER would take them one after the other, in several kernels each, which the host does
/// in less time.
fn are_for_host(a: &Tensor) -> bool {
    let [rows, columns] = matrix_sizes(a);
    count(a) > 8 && rows.max(columns) <= 32
}

/// Replaces matrices by the reflections that make them upper triangular.
pub fn reflections(a: &Tensor, tau: &Tensor) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let infos = create::empty(batch_sizes(a), DType::I32, a.device())?;
    let mut held = Held::on(a)?;
    let (own, [tau, infos]) = (matrices(&mut held, a)?, held.addresses([tau, &infos])?);
    // SAFETY: the matrices are a result or a copy, `tau` has the size that goes with them; all storages are held for the stream.
    unsafe { factors::reflections(held.card, held.stream, own, tau, infos) }
}

/// Replaces matrices by their products with reflections, whose factors are row-major.
pub fn reflect(a: &Tensor, tau: &Tensor, to: &Tensor, left: bool, adjoint: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let by_columns = a.layout().transpose(a.rank() - 2, a.rank() - 1).is_contiguous();
    let a = if by_columns { a.clone() } else { by_columns_copy(a)? };
    let infos = create::empty(batch_sizes(to), DType::I32, to.device())?;
    let steps = tau.sizes().last().map_or(0, |&n| n as i64);
    let mut held = Held::on(to)?;
    let (on, sides) = (matrices(&mut held, &a)?, matrices(&mut held, to)?);
    let [tau, infos] = held.addresses([tau, &infos])?;
    // SAFETY: the result is new, sizes were checked, all storages are held for the stream.
    unsafe { factors::reflect(held.card, held.stream, [left, adjoint], steps, on, tau, sides, infos) }
}

/// The eigenvalues of Hermitian matrices, of which the lower triangle is read. The matrices are replaced by eigenvectors.
pub fn eigen(a: &Tensor, values: &Tensor, infos: &Tensor, vectors: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let mut held = Held::on(a)?;
    let (own, [values, infos]) = (matrices(&mut held, a)?, held.addresses([values, infos])?);
    // SAFETY: the matrices are a result or a copy, the values a result of the size that goes with them; all storages are held for
    // the stream.
    unsafe { factors::eigen(held.card, held.stream, vectors, own, values, infos) }
}

/// Singular values, and vectors if they are wanted. The matrices are overwritten; `v` is not the adjoint.
pub fn singular(a: &Tensor, [u, values, v]: [&Tensor; 3], infos: &Tensor, vectors: bool, full: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let mut held = Held::on(a)?;
    let (own, [values, infos]) = (matrices(&mut held, a)?, held.addresses([values, infos])?);
    let to = Singular { values, u: matrices(&mut held, u)?, v: matrices(&mut held, v)? };
    // SAFETY: the matrices are a copy, the results have the sizes that go with them; all storages are held for the stream.
    unsafe { factors::singular(held.card, held.stream, [vectors, full], own, to, infos) }
}
