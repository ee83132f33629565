//! Batches of matrices in one call, by cuSOLVER and cuBLAS, which take a list of addresses.

use std::ffi::c_int;

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use super::triangles::{Triangle, one};
use super::{Borrowed, Library, Matrices, Solver, Type, check, with_blas};
use crate::card::Card;
use crate::launch::enqueue;
use crate::storage::pointer;

/// Matrices, and the address of a list of their addresses on the device.
#[derive(Clone, Copy)]
pub struct Listed {
    pub matrices: Matrices,
    pub addresses: u64,
}

impl Listed {
    /// Their sizes and their number, if the library's numbers are large enough.
    fn sizes(self) -> Option<[c_int; 3]> {
        let Matrices { rows, columns, count, .. } = self.matrices;
        Some([c_int::try_from(rows).ok()?, c_int::try_from(columns).ok()?, c_int::try_from(count).ok()?])
    }
}

/// As `factors::cholesky`.
///
/// # Safety
/// As there; the list has the addresses of the matrices when the work runs.
pub unsafe fn cholesky(card: &Card, stream: StreamId, upper: bool, a: Listed, infos: u64) -> Result<bool> {
    let (Some(library), Some(Type { index, .. }), Some([n, _, count])) =
        (Solver::found(), Type::of(a.matrices.dtype), a.sizes())
    else {
        return Ok(false);
    };
    let Some(borrowed) = Borrowed::take(Library::Solver, card, stream) else { return Ok(false) };
    let (list, infos) = (pointer(a.addresses), pointer(infos));
    let name = "cusolverDnXpotrfBatched";
    // SAFETY: guaranteed by the caller.
    let run =
        || unsafe { (library.cholesky_batched[index])(borrowed.0.handle, upper.into(), n, list, n, infos, count) };
    enqueue(card, name, stream, || check(run(), name))?;
    Ok(true)
}

/// As `factors::lu` for square matrices; the exchanged rows are numbers of 32 bits.
///
/// # Safety
/// As there; the list has the addresses of the matrices when the work runs.
pub unsafe fn lu(card: &Card, stream: StreamId, a: Listed, pivots: u64, infos: u64) -> Result<bool> {
    let (Some(Type { index, .. }), Some([n, _, count])) = (Type::of(a.matrices.dtype), a.sizes()) else {
        return Ok(false);
    };
    let (list, pivots, infos) = (pointer(a.addresses), pointer(pivots), pointer(infos));
    let name = "cublasXgetrfBatched";
    with_blas(card, stream, |library, handle| {
        // SAFETY: guaranteed by the caller.
        let run = || unsafe { (library.lu_batched[index])(handle, n, list, n, pivots, infos, count) };
        enqueue(card, name, stream, || check(run(), name))
    })
}

/// As `triangles::solve`.
///
/// # Safety
/// As there; the lists have the addresses of the matrices when the work runs.
pub unsafe fn solve(
    card: &Card,
    stream: StreamId,
    left: bool,
    triangle: Triangle,
    a: Listed,
    b: Listed,
) -> Result<bool> {
    let Some(Type { index, .. }) = Type::of(a.matrices.dtype) else { return Ok(false) };
    let one = one(a.matrices.dtype);
    let (list, sides, Matrices { rows, columns, count, .. }) = (pointer(a.addresses), pointer(b.addresses), b.matrices);
    let [side, upper, transposed, unit] = triangle.flags(left);
    let (leading, apart) = (a.matrices.leading(), b.matrices.leading());
    let name = "cublasXtrsmBatched";
    with_blas(card, stream, |library, handle| {
        let solve = library.triangular_batched[index];
        // SAFETY: guaranteed by the caller.
        let run = || unsafe {
            solve(
                handle,
                side,
                upper,
                transposed,
                unit,
                rows,
                columns,
                one.as_ptr(),
                list,
                leading,
                sides,
                apart,
                count as i64,
            )
        };
        enqueue(card, name, stream, || check(run(), name))
    })
}
