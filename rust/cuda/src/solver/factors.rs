//! Factorisations, by cuSOLVER.

use std::ffi::c_int;

use rushlight_core::Result;
use rushlight_core::device_memory::StreamId;

use super::{Matrices, Spaces, Type, code, each, is_available};
use crate::card::Card;
use crate::memory::pointer;

/// Enqueues the Cholesky factorisation of matrices in place. The other triangle keeps what it has.
///
/// # Safety
/// The matrices, and a code of 32 bits for each at `infos`, lie in memory that is held for the stream.
pub unsafe fn cholesky(card: &Card, stream: StreamId, upper: bool, a: Matrices, infos: u64) -> Result<bool> {
    let Some(Type { data, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if a.is_empty() {
        return Ok(is_available());
    }
    let triangle = c_int::from(upper);
    // SAFETY: guaranteed by the caller; `each` passes workspaces of the sizes that were asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXpotrf",
            a.count,
            |library, handle, device, host| {
                let (handle, parameters) = (handle.handle, handle.parameters);
                (library.cholesky_size)(
                    handle,
                    parameters,
                    triangle,
                    a.rows,
                    data,
                    a.first(),
                    a.leading(),
                    data,
                    device,
                    host,
                )
            },
            |library, handle, spaces, n| {
                let (handle, parameters) = (handle.handle, handle.parameters);
                let &Spaces { device, device_bytes, host, host_bytes } = spaces;
                (library.cholesky)(
                    handle,
                    parameters,
                    triangle,
                    a.rows,
                    data,
                    a.get(n),
                    a.leading(),
                    data,
                    device,
                    device_bytes,
                    host,
                    host_bytes,
                    code(infos, n),
                )
            },
        )
    }
}

/// Enqueues the LU factorisation of matrices in place. The exchanged rows, counted from 1, are numbers of 64 bits at `pivots`.
///
/// # Safety
/// As `cholesky`; `pivots` has as many numbers for each matrix as its shorter side.
pub unsafe fn lu(card: &Card, stream: StreamId, a: Matrices, pivots: u64, infos: u64) -> Result<bool> {
    let Some(Type { data, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if a.is_empty() {
        return Ok(is_available());
    }
    let steps = a.rows.min(a.columns) as u64;
    // SAFETY: guaranteed by the caller; `each` passes workspaces of the sizes that were asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXgetrf",
            a.count,
            |library, handle, device, host| {
                let (handle, parameters) = (handle.handle, handle.parameters);
                (library.lu_size)(
                    handle,
                    parameters,
                    a.rows,
                    a.columns,
                    data,
                    a.first(),
                    a.leading(),
                    data,
                    device,
                    host,
                )
            },
            |library, handle, spaces, n| {
                let (handle, parameters) = (handle.handle, handle.parameters);
                let &Spaces { device, device_bytes, host, host_bytes } = spaces;
                (library.lu)(
                    handle,
                    parameters,
                    a.rows,
                    a.columns,
                    data,
                    a.get(n),
                    a.leading(),
                    pointer(pivots + 8 * n * steps),
                    data,
                    device,
                    device_bytes,
                    host,
                    host_bytes,
                    code(infos, n),
                )
            },
        )
    }
}

/// Enqueues the reflections that make matrices upper triangular, in place: their vectors below the diagonal, their factors at `tau`.
///
/// # Safety
/// As `cholesky`; `tau` has as many numbers for each matrix as its shorter side.
pub unsafe fn reflections(card: &Card, stream: StreamId, a: Matrices, tau: u64, infos: u64) -> Result<bool> {
    let Some(Type { data, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if a.is_empty() {
        return Ok(is_available());
    }
    let bytes = a.rows.min(a.columns) as u64 * a.dtype.size() as u64;
    // SAFETY: guaranteed by the caller; `each` passes workspaces of the sizes that were asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXgeqrf",
            a.count,
            |library, handle, device, host| {
                let (at, tau, all) = (a.first(), pointer(tau), a.leading());
                let (handle, parameters) = (handle.handle, handle.parameters);
                (library.reflections_size)(
                    handle, parameters, a.rows, a.columns, data, at, all, data, tau, data, device, host,
                )
            },
            |library, handle, spaces, n| {
                let (at, tau, all, info) = (a.get(n), pointer(tau + n * bytes), a.leading(), code(infos, n));
                let (handle, parameters) = (handle.handle, handle.parameters);
                let &Spaces { device, device_bytes, host, host_bytes } = spaces;
                (library.reflections)(
                    handle,
                    parameters,
                    a.rows,
                    a.columns,
                    data,
                    at,
                    all,
                    data,
                    tau,
                    data,
                    device,
                    device_bytes,
                    host,
                    host_bytes,
                    info,
                )
            },
        )
    }
}

/// Enqueues the product of the first `steps` reflections of each matrix with `c`, from the left or from the right, in place.
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
    let Some(Type { place, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if c.is_empty() || steps == 0 {
        return Ok(is_available());
    }
    let bytes = a.dtype.size();
    let sizes = [c.rows, c.columns, steps, a.leading(), c.leading()].map(|size| c_int::try_from(size).ok());
    let [Some(rows), Some(columns), Some(steps), Some(a_leading), Some(c_leading)] = sizes else { return Ok(false) };
    let side = c_int::from(!left);
    let turned = match adjoint {
        false => 0,
        true if a.dtype.is_complex() => 2,
        true => 1,
    };
    // SAFETY: guaranteed by the caller; `each` passes a workspace of the size that was asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXormqr",
            c.count,
            |library, handle, device, _| {
                let (handle, at, tau, to) = (handle.handle, a.first(), pointer(tau), c.first());
                in_elements(device, bytes, |elements| {
                    (library.reflect_size[place])(
                        handle, side, turned, rows, columns, steps, at, a_leading, tau, to, c_leading, elements,
                    )
                })
            },
            |library, handle, spaces, n| {
                let (handle, at, to, info) = (handle.handle, a.get(n), c.get(n), code(infos, n));
                let tau = pointer(tau + n * steps as u64 * bytes as u64);
                let (work, elements) = (spaces.device, (spaces.device_bytes / bytes) as c_int);
                (library.reflect[place])(
                    handle, side, turned, rows, columns, steps, at, a_leading, tau, to, c_leading, work, elements, info,
                )
            },
        )
    }
}

/// Enqueues the eigenvalues of Hermitian matrices, ascending, of which the lower triangle is read. Eigenvectors replace the matrices.
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
    let types = Type::of(a.dtype).zip(Type::of(a.dtype.to_real()));
    let Some((Type { data, .. }, Type { data: real, .. })) = types else { return Ok(false) };
    if a.is_empty() {
        return Ok(is_available());
    }
    let (wanted, lower) = (c_int::from(vectors), 0);
    let bytes = a.rows as u64 * a.dtype.to_real().size() as u64;
    // SAFETY: guaranteed by the caller; `each` passes workspaces of the sizes that were asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXsyevd",
            a.count,
            |library, handle, device, host| {
                let (at, values, all) = (a.first(), pointer(values), a.leading());
                let (handle, parameters) = (handle.handle, handle.parameters);
                (library.eigen_size)(
                    handle, parameters, wanted, lower, a.rows, data, at, all, real, values, data, device, host,
                )
            },
            |library, handle, spaces, n| {
                let (at, values, all, info) = (a.get(n), pointer(values + n * bytes), a.leading(), code(infos, n));
                let (handle, parameters) = (handle.handle, handle.parameters);
                let &Spaces { device, device_bytes, host, host_bytes } = spaces;
                (library.eigen)(
                    handle,
                    parameters,
                    wanted,
                    lower,
                    a.rows,
                    data,
                    at,
                    all,
                    real,
                    values,
                    data,
                    device,
                    device_bytes,
                    host,
                    host_bytes,
                    info,
                )
            },
        )
    }
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

/// Enqueues singular value decompositions by Jacobi's method. The matrices are overwritten; vectors are written only if `vectors` is
/// true, and those without a singular value only if `full` is true.
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
    let Some(Type { place, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if a.is_empty() {
        return Ok(false);
    }
    let bytes = a.dtype.size();
    let step = a.rows.min(a.columns) as u64 * a.dtype.to_real().size() as u64;
    let (Ok(rows), Ok(columns)) = (c_int::try_from(a.rows), c_int::try_from(a.columns)) else { return Ok(false) };
    let (wanted, economic) = (c_int::from(vectors), c_int::from(!full));
    // SAFETY: guaranteed by the caller; `each` passes a workspace of the size that was asked for.
    unsafe {
        each(
            card,
            stream,
            "cusolverDnXgesvdj",
            a.count,
            |library, own, device, _| {
                let (at, values, u, v) = (a.first(), pointer(to.values), to.u.first(), to.v.first());
                in_elements(device, bytes, |elements| {
                    (library.singular_size[place])(
                        own.handle, wanted, economic, rows, columns, at, rows, values, u, rows, v, columns, elements,
                        own.sweeps,
                    )
                })
            },
            |library, own, spaces, n| {
                let (at, values, u, v) = (a.get(n), pointer(to.values + n * step), to.u.get(n), to.v.get(n));
                let (work, elements) = (spaces.device, (spaces.device_bytes / bytes) as c_int);
                let info = code(infos, n);
                (library.singular[place])(
                    own.handle, wanted, economic, rows, columns, at, rows, values, u, rows, v, columns, work, elements,
                    info, own.sweeps,
                )
            },
        )
    }
}

/// Asks for a size in elements, and gives it in bytes.
fn in_elements(bytes: &mut usize, size: usize, ask: impl FnOnce(*mut c_int) -> c_int) -> c_int {
    let mut elements = 0;
    let status = ask(&raw mut elements);
    *bytes = usize::try_from(elements).unwrap_or(0) * size;
    status
}
