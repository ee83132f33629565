//! Factorisations, by cuSOLVER. Each function enqueues one for every matrix; it is false if the library is missing or does not take
//! the matrices.
//!
//! In each function, `size` passes pointers to the sizes of its call, and `run` passes matrices that the caller holds, and
//! workspaces of the sizes that `size` asked for.

use std::ffi::c_int;

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use super::{Call, Matrices, Type, code, each, is_available};
use crate::card::Card;
use crate::storage::pointer;

/// Cholesky factors, in place. The other triangle keeps what it has.
///
/// # Safety
/// The matrices, and a code of 32 bits for each at `infos`, lie in memory that is held for the stream.
pub unsafe fn cholesky(card: &Card, stream: StreamId, upper: bool, a: Matrices, infos: u64) -> Result<bool> {
    let (triangle, rows, all) = (c_int::from(upper), a.rows, a.leading());
    let size = |call: &mut Call| {
        let Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = *call;
        let (device, host) = call.sizes();
        // SAFETY: see the head of the file.
        unsafe { (library.cholesky_size)(own, with, triangle, rows, data, a.first(), all, data, device, host) }
    };
    let run = |call: &Call, n| {
        let &Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = call;
        let &Call { device, device_bytes: room, host, host_bytes: space, .. } = call;
        let (at, info) = (a.get(n), code(infos, n));
        // SAFETY: see the head of the file.
        unsafe { (library.cholesky)(own, with, triangle, rows, data, at, all, data, device, room, host, space, info) }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXpotrf", a, size, run) }
}

/// LU factors, in place. The exchanged rows, counted from 1, are numbers of 64 bits at `pivots`.
///
/// # Safety
/// As `cholesky`; `pivots` has as many numbers for each matrix as its shorter side.
pub unsafe fn lu(card: &Card, stream: StreamId, a: Matrices, pivots: u64, infos: u64) -> Result<bool> {
    let (rows, columns, all) = (a.rows, a.columns, a.leading());
    let step = 8 * rows.min(columns) as u64;
    let size = |call: &mut Call| {
        let Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = *call;
        let (device, host) = call.sizes();
        // SAFETY: see the head of the file.
        unsafe { (library.lu_size)(own, with, rows, columns, data, a.first(), all, data, device, host) }
    };
    let run = |call: &Call, n| {
        let &Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = call;
        let &Call { device, device_bytes: room, host, host_bytes: space, .. } = call;
        let (at, to, info) = (a.get(n), pointer(pivots + n * step), code(infos, n));
        // SAFETY: see the head of the file.
        unsafe { (library.lu)(own, with, rows, columns, data, at, all, to, data, device, room, host, space, info) }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXgetrf", a, size, run) }
}

/// The reflections that make matrices upper triangular, in place: their vectors below the diagonal, their factors at `tau`.
///
/// # Safety
/// As `cholesky`; `tau` has as many numbers for each matrix as its shorter side.
pub unsafe fn reflections(card: &Card, stream: StreamId, a: Matrices, tau: u64, infos: u64) -> Result<bool> {
    let (rows, columns, all) = (a.rows, a.columns, a.leading());
    let step = rows.min(columns) as u64 * a.dtype.size() as u64;
    let size = |call: &mut Call| {
        let Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = *call;
        let ((device, host), at, tau) = (call.sizes(), a.first(), pointer(tau));
        // SAFETY: see the head of the file.
        unsafe { (library.reflections_size)(own, with, rows, columns, data, at, all, data, tau, data, device, host) }
    };
    let run = |call: &Call, n| {
        let &Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = call;
        let &Call { device, device_bytes: room, host, host_bytes: space, .. } = call;
        let (at, tau, info) = (a.get(n), pointer(tau + n * step), code(infos, n));
        // SAFETY: see the head of the file.
        unsafe {
            (library.reflections)(
                own, with, rows, columns, data, at, all, data, tau, data, device, room, host, space, info,
            )
        }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXgeqrf", a, size, run) }
}

/// The products of the first `steps` reflections of each matrix with `c`, from the left or from the right, in place.
///
/// # Safety
/// As `reflections`; `tau` has `steps` numbers for each matrix, and a code of 32 bits for each lies at `infos`.
pub unsafe fn reflect(
    card: &Card,
    stream: StreamId,
    [left, adjoint]: [bool; 2],
    steps: i64,
    a: Matrices,
    tau: u64,
    c: Matrices,
    infos: u64,
) -> Result<bool> {
    if steps == 0 {
        return Ok(is_available());
    }
    let step = steps as u64 * a.dtype.size() as u64;
    let sizes = [c.rows, c.columns, steps, a.leading(), c.leading()].map(|size| c_int::try_from(size).ok());
    let [Some(rows), Some(columns), Some(steps), Some(all), Some(apart)] = sizes else { return Ok(false) };
    let side = c_int::from(!left);
    let turned = match adjoint {
        false => 0,
        true if a.dtype.is_complex() => 2,
        true => 1,
    };
    let size = |call: &mut Call| {
        let (at, tau, to) = (a.first(), pointer(tau), c.first());
        call.in_elements(|call, elements| {
            let ask = call.library.reflect_size[call.dtype.index];
            // SAFETY: see the head of the file.
            unsafe { ask(call.handle, side, turned, rows, columns, steps, at, all, tau, to, apart, elements) }
        })
    };
    let run = |call: &Call, n| {
        let (run, own, work, room) =
            (call.library.reflect[call.dtype.index], call.handle, call.device, call.elements());
        let (at, tau, to, info) = (a.get(n), pointer(tau + n * step), c.get(n), code(infos, n));
        // SAFETY: see the head of the file.
        unsafe { run(own, side, turned, rows, columns, steps, at, all, tau, to, apart, work, room, info) }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXormqr", c, size, run) }
}

/// The eigenvalues of Hermitian matrices, ascending, of which the lower triangle is read. Eigenvectors replace the matrices.
///
/// # Safety
/// As `cholesky`; `values` has a real number for each row of each matrix.
pub unsafe fn eigen(
    card: &Card,
    stream: StreamId,
    vectors: bool,
    a: Matrices,
    values: u64,
    infos: u64,
) -> Result<bool> {
    let Some(Type { data: real, .. }) = Type::of(a.dtype.to_real()) else { return Ok(false) };
    let (wanted, lower, rows, all) = (c_int::from(vectors), 0, a.rows, a.leading());
    let step = rows as u64 * a.dtype.to_real().size() as u64;
    let size = |call: &mut Call| {
        let Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = *call;
        let ((device, host), at, to) = (call.sizes(), a.first(), pointer(values));
        // SAFETY: see the head of the file.
        unsafe { (library.eigen_size)(own, with, wanted, lower, rows, data, at, all, real, to, data, device, host) }
    };
    let run = |call: &Call, n| {
        let &Call { library, handle: own, parameters: with, dtype: Type { data, .. }, .. } = call;
        let &Call { device, device_bytes: room, host, host_bytes: space, .. } = call;
        let (at, to, info) = (a.get(n), pointer(values + n * step), code(infos, n));
        // SAFETY: see the head of the file.
        unsafe {
            (library.eigen)(
                own, with, wanted, lower, rows, data, at, all, real, to, data, device, room, host, space, info,
            )
        }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXsyevd", a, size, run) }
}

/// The results of singular value decompositions.
#[derive(Clone, Copy)]
pub struct Singular {
    /// Real numbers, as many for each matrix as its shorter side.
    pub values: u64,
    pub u: Matrices,
    /// Not its adjoint.
    pub v: Matrices,
}

/// Singular value decompositions by Jacobi's method. The matrices are overwritten; vectors are written only if `vectors` is true, and
/// those without a singular value only if `full` is true.
///
/// # Safety
/// As `cholesky`; the results have the sizes that go with the matrices.
pub unsafe fn singular(
    card: &Card,
    stream: StreamId,
    [vectors, full]: [bool; 2],
    a: Matrices,
    to: Singular,
    infos: u64,
) -> Result<bool> {
    // The library does not write the vectors without a singular value.
    if a.is_empty() {
        return Ok(false);
    }
    let step = a.rows.min(a.columns) as u64 * a.dtype.to_real().size() as u64;
    let (Ok(rows), Ok(columns)) = (c_int::try_from(a.rows), c_int::try_from(a.columns)) else { return Ok(false) };
    let (wanted, economic) = (c_int::from(vectors), c_int::from(!full));
    let size = |call: &mut Call| {
        let (at, s, u, v) = (a.first(), pointer(to.values), to.u.first(), to.v.first());
        call.in_elements(|call, room| {
            let (ask, own, sweeps) = (call.library.singular_size[call.dtype.index], call.handle, call.sweeps);
            // SAFETY: see the head of the file.
            unsafe { ask(own, wanted, economic, rows, columns, at, rows, s, u, rows, v, columns, room, sweeps) }
        })
    };
    let run = |call: &Call, n| {
        let (run, own, work) = (call.library.singular[call.dtype.index], call.handle, call.device);
        let (at, s, u, v) = (a.get(n), pointer(to.values + n * step), to.u.get(n), to.v.get(n));
        let (room, info, sweeps) = (call.elements(), code(infos, n), call.sweeps);
        // SAFETY: see the head of the file.
        unsafe { run(own, wanted, economic, rows, columns, at, rows, s, u, rows, v, columns, work, room, info, sweeps) }
    };
    // SAFETY: both closures call cuSOLVER with the handle of the call, on memory that the caller holds for the stream.
    unsafe { each(card, stream, "cusolverDnXgesvdj", a, size, run) }
}
