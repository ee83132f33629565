//! Factorisations on CUDA devices, by cuSOLVER. Each function is false if the library is missing or refuses; then the host has to
//! factorise.

use rushlight_autograd::Tensor;
use rushlight_core::storage::DevicePin;
use rushlight_core::{DType, Device, Result, Scalar};
use rushlight_cuda::card::Card;
use rushlight_cuda::solver::batches::{self, Listed};
use rushlight_cuda::solver::factors::{self, Singular};
use rushlight_cuda::solver::triangles::{self, Triangle};
use rushlight_cuda::solver::{Matrices, is_available, solves_triangles};
use rushlight_cuda::{card, stream};
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::{Target, Value};
use rushlight_dispatch::{copy, create};

use super::dense::{batch_sizes, by_columns_copy, count, matrix_sizes};
use crate::create::range::ARANGE_START;
use crate::join::tril::{TRIL, TRIU};

/// The device of a tensor, and the stream for its work.
fn place(tensor: &Tensor) -> Result<(&'static Card, rushlight_core::device_memory::StreamId)> {
    let card = card::of(tensor.device())?;
    Ok((card, stream::current(card.index)))
}

/// The first byte of a tensor's elements.
fn address(tensor: &Tensor, pin: &DevicePin) -> u64 {
    let bytes = tensor.layout().offset * tensor.dtype().size() as isize;
    (pin.address() as u64).wrapping_add_signed(bytes as i64)
}

/// The matrices of a dense tensor that stores them by columns.
fn matrices(tensor: &Tensor, pin: &DevicePin) -> Matrices {
    let [rows, columns] = matrix_sizes(tensor);
    Matrices {
        at: address(tensor, pin),
        rows: rows as i64,
        columns: columns as i64,
        count: count(tensor) as u64,
        dtype: tensor.dtype(),
    }
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
    let range = [first, first + step * of.count as i64, step].map(|number| Value::Scalar(Scalar::Int(number)));
    let options = [Value::DType(DType::I64), Value::None, Value::Device(device), Value::None, Value::None];
    Args { op: &ARANGE_START, values: range.into_iter().chain(options).collect() }.call()?.into_tensor()
}

/// Replaces matrices by their Cholesky factors.
pub fn cholesky(factor: &Tensor, infos: &Tensor, upper: bool) -> Result<bool> {
    let (card, stream) = place(factor)?;
    let (pf, pi) = (factor.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    let (own, infos) = (matrices(factor, &pf), address(infos, &pi));
    if own.is_single() || !is_available() {
        // SAFETY: results are new and of the sizes from `infer`; both storages are pinned.
        return unsafe { factors::cholesky(card, stream, upper, own, infos) };
    }
    let list = addresses(&own, factor.device())?;
    let pin = list.storage().pin_on(stream)?;
    let listed = Listed { matrices: own, addresses: address(&list, &pin) };
    // SAFETY: as above; the list is pinned too.
    unsafe { batches::cholesky(card, stream, upper, listed, infos) }
}

/// The largest square matrices whose batches cuBLAS factorises, as in torch; cuSOLVER takes larger ones one after the other.
const MOST_ROWS: i64 = 512;

/// Replaces matrices by their LU factors.
pub fn lu(lu: &Tensor, pivots: &Tensor, infos: &Tensor) -> Result<bool> {
    let (card, stream) = place(lu)?;
    let (pl, pi) = (lu.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    let (own, infos) = (matrices(lu, &pl), address(infos, &pi));
    if !own.is_single() && own.rows == own.columns && own.rows < MOST_ROWS && solves_triangles() {
        let list = addresses(&own, lu.device())?;
        let (pp, pin) = (pivots.storage().pin_on(stream)?, list.storage().pin_on(stream)?);
        let listed = Listed { matrices: own, addresses: address(&list, &pin) };
        // SAFETY: results are new and of the sizes from `infer`; all storages are pinned.
        return unsafe { batches::lu(card, stream, listed, address(pivots, &pp), infos) };
    }
    let wide = create::empty(pivots.sizes(), DType::I64, pivots.device())?;
    let pp = wide.storage().pin_on(stream)?;
    // SAFETY: as above.
    let done = unsafe { factors::lu(card, stream, own, address(&wide, &pp), infos)? };
    if done {
        copy::copy(pivots, &wide)?;
    }
    Ok(done)
}

/// Replaces right-hand sides by solutions of systems with triangles of `a`, which has the batch of `b`.
pub fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<bool> {
    let (card, stream) = place(b)?;
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
    let (pa, pb) = (a.storage().pin_on(stream)?, b.storage().pin_on(stream)?);
    let triangle = Triangle { upper: upper != transposed, transposed, unit };
    let (own, sides) = (matrices(&a, &pa), matrices(b, &pb));
    // As in torch: a few large ones are faster one after the other.
    if sides.is_single() || (sides.count <= 8 && own.rows >= 64) {
        // SAFETY: the result is new and does not overlap the triangle; sizes were checked, both storages are pinned.
        return unsafe { triangles::solve(card, stream, left, triangle, own, sides) };
    }
    let lists = (addresses(&own, b.device())?, addresses(&sides, b.device())?);
    let (pins, others) = (lists.0.storage().pin_on(stream)?, lists.1.storage().pin_on(stream)?);
    let own = Listed { matrices: own, addresses: address(&lists.0, &pins) };
    let sides = Listed { matrices: sides, addresses: address(&lists.1, &others) };
    // SAFETY: as above; the lists are pinned too.
    unsafe { batches::solve(card, stream, left, triangle, own, sides) }
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
    let (card, stream) = place(a)?;
    let infos = create::empty(batch_sizes(a), DType::I32, a.device())?;
    let (pa, pt, pi) = (a.storage().pin_on(stream)?, tau.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    // SAFETY: the matrices are a result or a copy, `tau` has the size that goes with them; all storages are pinned.
    unsafe { factors::reflections(card, stream, matrices(a, &pa), address(tau, &pt), address(&infos, &pi)) }
}

/// Replaces matrices by their products with reflections, whose factors are row-major.
pub fn reflect(a: &Tensor, tau: &Tensor, to: &Tensor, left: bool, adjoint: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let (card, stream) = place(to)?;
    let by_columns = a.layout().transpose(a.rank() - 2, a.rank() - 1).is_contiguous();
    let a = if by_columns { a.clone() } else { by_columns_copy(a)? };
    let infos = create::empty(batch_sizes(to), DType::I32, to.device())?;
    let steps = tau.sizes().last().map_or(0, |&n| n as i64);
    let pins = [&a, tau, to, &infos].map(|tensor| tensor.storage().pin_on(stream));
    let [pa, pt, po, pi] = pins;
    let (pa, pt, po, pi) = (pa?, pt?, po?, pi?);
    let (on, sides) = (matrices(&a, &pa), matrices(to, &po));
    let (tau, infos) = (address(tau, &pt), address(&infos, &pi));
    // SAFETY: the result is new, sizes were checked, all storages are pinned.
    unsafe { factors::reflect(card, stream, [left, adjoint], steps, on, tau, sides, infos) }
}

/// The eigenvalues of Hermitian matrices, of which the lower triangle is read. The matrices are replaced by eigenvectors.
pub fn eigen(a: &Tensor, values: &Tensor, infos: &Tensor, vectors: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let (card, stream) = place(a)?;
    let (pa, pv, pi) = (a.storage().pin_on(stream)?, values.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    // SAFETY: the matrices are a result or a copy, the values a result of the size that goes with them; all storages are pinned.
    unsafe { factors::eigen(card, stream, vectors, matrices(a, &pa), address(values, &pv), address(infos, &pi)) }
}

/// Singular values, and vectors if they are wanted. The matrices are overwritten; `v` is not the adjoint.
pub fn singular(a: &Tensor, [u, values, v]: [&Tensor; 3], infos: &Tensor, vectors: bool, full: bool) -> Result<bool> {
    if are_for_host(a) {
        return Ok(false);
    }
    let (card, stream) = place(a)?;
    let [pa, pu, ps, pv, pi] = [a, u, values, v, infos].map(|tensor| tensor.storage().pin_on(stream));
    let (pa, pu, ps, pv, pi) = (pa?, pu?, ps?, pv?, pi?);
    let to = Singular { values: address(values, &ps), u: matrices(u, &pu), v: matrices(v, &pv) };
    // SAFETY: the matrices are a copy, the results have the sizes that go with them; all storages are pinned.
    unsafe { factors::singular(card, stream, [vectors, full], matrices(a, &pa), to, address(infos, &pi)) }
}
