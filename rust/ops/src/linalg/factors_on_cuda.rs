//! Factorisations on CUDA devices, by cuSOLVER. Each function is false if the library is missing or refuses; then the host has to
//! factorise.

use rushlight_autograd::Tensor;
use rushlight_core::storage::DevicePin;
use rushlight_core::{DType, Result};
use rushlight_cuda::card::Card;
use rushlight_cuda::solver::{self, Matrices, Triangle};
use rushlight_cuda::{card, stream};
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::value::Target;
use rushlight_dispatch::{copy, create};

use super::dense::{by_columns_copy, count, matrix_sizes};
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

/// Replaces matrices by their Cholesky factors.
pub fn cholesky(factor: &Tensor, infos: &Tensor, upper: bool) -> Result<bool> {
    let (card, stream) = place(factor)?;
    let (pf, pi) = (factor.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    // SAFETY: results are new and of the sizes from `infer`; both storages are pinned.
    unsafe { solver::cholesky(card, stream, upper, matrices(factor, &pf), address(infos, &pi)) }
}

/// Replaces matrices by their LU factors.
pub fn lu(lu: &Tensor, pivots: &Tensor, infos: &Tensor) -> Result<bool> {
    let (card, stream) = place(lu)?;
    let wide = create::empty(pivots.sizes(), DType::I64, pivots.device())?;
    let (pl, pp, pi) = (lu.storage().pin_on(stream)?, wide.storage().pin_on(stream)?, infos.storage().pin_on(stream)?);
    // SAFETY: results are new and of the sizes from `infer`; all storages are pinned.
    let done = unsafe { solver::lu(card, stream, matrices(lu, &pl), address(&wide, &pp), address(infos, &pi))? };
    if done {
        copy::copy(pivots, &wide)?;
    }
    Ok(done)
}

/// Replaces right-hand sides by solutions of systems with triangles of `a`, which has the batch of `b`.
pub fn solve_triangular(a: &Tensor, b: &Tensor, upper: bool, left: bool, unit: bool) -> Result<bool> {
    let (card, stream) = place(b)?;
    if !solver::solves_triangles() {
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
    // SAFETY: the result is new and does not overlap the triangle; sizes were checked, both storages are pinned.
    unsafe { solver::solve_triangular(card, stream, left, triangle, matrices(&a, &pa), matrices(b, &pb)) }
}
