//! The entry points of cuSOLVER, and of cuBLAS for triangular systems, that rushlight calls. NVIDIA's documentation describes them.
//!
//! Every call is checked: the handle and its stream, sizes, dtypes, ranges of memory, alignments and both workspaces, which are
//! overwritten.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use crate::cusolver_calls::{Batch, Decomposed, Reflected, are_known, factorise, place, solve};
use crate::driver::current;
use crate::dtype::DType;
use crate::factors::{Dense, Place, conjugate};
use crate::library::{Enqueued, enqueue};
use crate::status::SUCCESS;
use crate::streams::Library;

type Status = c_int;
const NOT_INITIALIZED: Status = 1;
const INVALID_VALUE: Status = 3;
const EXECUTION_FAILED: Status = 6;

/// A handle of cuSOLVER or of cuBLAS.
pub struct Handle {
    device: c_int,
    stream: usize,
    /// The first byte of cuBLAS's workspace and its size.
    space: (usize, usize),
}

impl Handle {
    /// The part of the workspace that calls overwrite.
    fn space(&self) -> (usize, u64) {
        (self.space.0, self.space.1.min(64) as u64)
    }
}

/// # Safety
/// A pointer can be written to `handle`.
unsafe fn create(handle: *mut *mut Handle) -> Status {
    let Ok(device) = current() else { return NOT_INITIALIZED };
    // SAFETY: guaranteed by the caller.
    unsafe { *handle = Box::into_raw(Box::new(Handle { device, stream: 0, space: (0, 0) })) };
    SUCCESS
}

/// Enqueues a computation on matrices; `others` are ranges that it also uses.
fn submit(
    handle: &Handle,
    matrices: &[Place],
    others: &[(usize, u64)],
    run: impl Fn() + Send + Sync + 'static,
) -> Status {
    let Some(mut ranges) = matrices.iter().map(Place::range).collect::<Option<Vec<_>>>() else { return INVALID_VALUE };
    ranges.extend_from_slice(others);
    if current() != Ok(handle.device) {
        return INVALID_VALUE;
    }
    match enqueue(handle.device, handle.stream, &ranges, Library::Factorisations, run) {
        Enqueued::Done => SUCCESS,
        Enqueued::Invalid => INVALID_VALUE,
        Enqueued::Stopped => EXECUTION_FAILED,
    }
}

/// The workspaces of a call.
struct Spaces {
    device: (usize, usize),
    host: (*mut c_void, usize),
}

/// The bytes of the workspaces for matrices of this size.
fn sizes(rows: i64, columns: i64) -> (usize, usize) {
    (64 + 8 * (rows + columns) as usize, 24)
}

impl Spaces {
    /// The range of the one on the device, if both are large enough. The one on the host is overwritten.
    ///
    /// # Safety
    /// The workspace on the host is null or has as many bytes as it says.
    unsafe fn check(&self, rows: i64, columns: i64) -> Option<(usize, u64)> {
        let (device, host) = sizes(rows, columns);
        if self.device.1 < device || !self.device.0.is_multiple_of(16) || self.host.1 < host || self.host.0.is_null() {
            return None;
        }
        // SAFETY: guaranteed by the caller.
        unsafe { self.host.0.cast::<u8>().write_bytes(0xff, self.host.1) };
        Some((self.device.0, device as u64))
    }
}

/// Overwrites a workspace on the device.
///
/// # Safety
/// The range lies in memory.
unsafe fn spoil((at, bytes): (usize, u64)) {
    // SAFETY: guaranteed by the caller.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(at).write_bytes(0xff, bytes as usize) };
}

/// Writes numbers.
///
/// # Safety
/// They have room at the address.
unsafe fn write<T: Copy>(at: usize, values: &[T]) {
    // SAFETY: guaranteed by the caller.
    unsafe { std::ptr::with_exposed_provenance_mut::<T>(at).copy_from_nonoverlapping(values.as_ptr(), values.len()) };
}

entries! {
    cusolverGetVersion(version: *mut c_int) { *version = 12_000; SUCCESS }

    cusolverDnCreate(handle: *mut *mut Handle) { create(handle) }

    cusolverDnCreateParams(made: *mut *mut u8) { *made = Box::into_raw(Box::new(7)); SUCCESS }

    cusolverDnSetStream(handle: *mut Handle, stream: usize) { (*handle).stream = stream; SUCCESS }

    cusolverDnXpotrf_bufferSize(
        handle: *const Handle, parameters: *const u8, triangle: c_int, n: i64, data: c_int, a: usize, leading: i64,
        computed: c_int, device: *mut usize, host: *mut usize
    ) {
        let Some(a) = place(a, n, n, leading, data) else { return INVALID_VALUE };
        if handle.is_null() || *parameters != 7 || triangle > 1 || data != computed || a.range().is_none() { return INVALID_VALUE; }
        (*device, *host) = sizes(n, n);
        SUCCESS
    }

    cusolverDnXpotrf(
        handle: *const Handle, parameters: *const u8, triangle: c_int, n: i64, data: c_int, a: usize, leading: i64,
        computed: c_int, device: usize, device_bytes: usize, host: *mut c_void, host_bytes: usize, info: usize
    ) {
        let Some(a) = place(a, n, n, leading, data) else { return INVALID_VALUE };
        let spaces = Spaces { device: (device, device_bytes), host: (host, host_bytes) };
        let Some(space) = spaces.check(n, n) else { return INVALID_VALUE };
        if *parameters != 7 || !(0..=1).contains(&triangle) || data != computed || !info.is_multiple_of(4) { return INVALID_VALUE; }
        let upper = triangle == 1;
        submit(&*handle, &[a], &[space, (info, 4)], move || {
            // SAFETY: ranges are checked when the work is enqueued, and freeing memory waits for its device.
            unsafe {
                spoil(space);
                write(info, &[factorise(a, upper)]);
            }
        })
    }

    cusolverDnXgetrf_bufferSize(
        handle: *const Handle, parameters: *const u8, rows: i64, columns: i64, data: c_int, a: usize, leading: i64,
        computed: c_int, device: *mut usize, host: *mut usize
    ) {
        let Some(a) = place(a, rows, columns, leading, data) else { return INVALID_VALUE };
        if handle.is_null() || *parameters != 7 || data != computed || a.range().is_none() { return INVALID_VALUE; }
        (*device, *host) = sizes(rows, columns);
        SUCCESS
    }

    cusolverDnXgetrf(
        handle: *const Handle, parameters: *const u8, rows: i64, columns: i64, data: c_int, a: usize, leading: i64,
        pivots: usize, computed: c_int, device: usize, device_bytes: usize, host: *mut c_void, host_bytes: usize, info: usize
    ) {
        let Some(a) = place(a, rows, columns, leading, data) else { return INVALID_VALUE };
        let spaces = Spaces { device: (device, device_bytes), host: (host, host_bytes) };
        let Some(space) = spaces.check(rows, columns) else { return INVALID_VALUE };
        let aligned = info.is_multiple_of(4) && pivots.is_multiple_of(8);
        if *parameters != 7 || data != computed || !aligned { return INVALID_VALUE; }
        let others = [space, (info, 4), (pivots, 8 * rows.min(columns) as u64)];
        submit(&*handle, &[a], &others, move || {
            // SAFETY: as above.
            unsafe {
                spoil(space);
                let mut matrix = a.load();
                let (steps, code) = matrix.lu();
                a.store(&matrix, |_, _| true);
                write(pivots, &steps);
                write(info, &[code]);
            }
        })
    }

    cusolverDnXgeqrf_bufferSize(
        handle: *const Handle, parameters: *const u8, rows: i64, columns: i64, data: c_int, a: usize, leading: i64,
        tau_data: c_int, tau: usize, computed: c_int, device: *mut usize, host: *mut usize
    ) {
        let Some(a) = place(a, rows, columns, leading, data) else { return INVALID_VALUE };
        if handle.is_null() || *parameters != 7 || data != computed || data != tau_data || tau == 0 || a.range().is_none() { return INVALID_VALUE; }
        (*device, *host) = sizes(rows, columns);
        SUCCESS
    }

    cusolverDnXgeqrf(
        handle: *const Handle, parameters: *const u8, rows: i64, columns: i64, data: c_int, a: usize, leading: i64,
        tau_data: c_int, tau: usize, computed: c_int, device: usize, device_bytes: usize, host: *mut c_void,
        host_bytes: usize, info: usize
    ) {
        let Some(a) = place(a, rows, columns, leading, data) else { return INVALID_VALUE };
        let Some(factors) = place(tau, rows.min(columns), 1, rows.min(columns), tau_data) else { return INVALID_VALUE };
        let spaces = Spaces { device: (device, device_bytes), host: (host, host_bytes) };
        let Some(space) = spaces.check(rows, columns) else { return INVALID_VALUE };
        if *parameters != 7 || data != computed || data != tau_data || !info.is_multiple_of(4) { return INVALID_VALUE; }
        submit(&*handle, &[a, factors], &[space, (info, 4)], move || {
            // SAFETY: as above.
            unsafe {
                spoil(space);
                let mut matrix = a.load();
                let own = matrix.reflections();
                a.store(&matrix, |_, _| true);
                factors.store(&Dense::of(own.len(), 1, |row, _| own[row]), |_, _| true);
                write(info, &[0]);
            }
        })
    }

    cusolverDnXsyevd_bufferSize(
        handle: *const Handle, parameters: *const u8, vectors: c_int, triangle: c_int, n: i64, data: c_int, a: usize,
        leading: i64, values_data: c_int, values: usize, computed: c_int, device: *mut usize, host: *mut usize
    ) {
        let Some(a) = place(a, n, n, leading, data) else { return INVALID_VALUE };
        let known = (0..=1).contains(&vectors) && triangle == 0 && values_data == a.data.real().code() as c_int;
        if handle.is_null() || *parameters != 7 || data != computed || !known || values == 0 || a.range().is_none() { return INVALID_VALUE; }
        (*device, *host) = sizes(n, n);
        SUCCESS
    }

    cusolverDnXsyevd(
        handle: *const Handle, parameters: *const u8, vectors: c_int, triangle: c_int, n: i64, data: c_int, a: usize,
        leading: i64, values_data: c_int, values: usize, computed: c_int, device: usize, device_bytes: usize,
        host: *mut c_void, host_bytes: usize, info: usize
    ) {
        let Some(a) = place(a, n, n, leading, data) else { return INVALID_VALUE };
        let Some(values) = place(values, n, 1, n, values_data) else { return INVALID_VALUE };
        let spaces = Spaces { device: (device, device_bytes), host: (host, host_bytes) };
        let Some(space) = spaces.check(n, n) else { return INVALID_VALUE };
        let known = (0..=1).contains(&vectors) && triangle == 0 && values.data == a.data.real();
        if *parameters != 7 || data != computed || !known || !info.is_multiple_of(4) { return INVALID_VALUE; }
        submit(&*handle, &[a, values], &[space, (info, 4)], move || {
            // SAFETY: as above.
            unsafe {
                spoil(space);
                let own = a.load();
                let half = Dense::of(own.rows, own.rows, |row, column| match row.cmp(&column) {
                    Ordering::Less => conjugate(own.get(column, row)),
                    Ordering::Equal => [own.get(row, row)[0], 0.0],
                    Ordering::Greater => own.get(row, column),
                });
                let (found, mut columns) = half.eigen();
                if vectors == 0 { columns = Dense::of(own.rows, own.rows, |_, _| [f64::NAN; 2]); }
                a.store(&columns, |_, _| true);
                values.store(&Dense::of(found.len(), 1, |row, _| [found[row], 0.0]), |_, _| true);
                write(info, &[0]);
            }
        })
    }

    cusolverDnCreateGesvdjInfo(made: *mut *mut u8) { *made = Box::into_raw(Box::new(11)); SUCCESS }

    cusolverDnXgesvdjSetMaxSweeps(info: *const u8, sweeps: c_int) { if *info == 11 && sweeps > 0 { SUCCESS } else { INVALID_VALUE } }

    cublasCreate_v2(handle: *mut *mut Handle) { create(handle) }

    cublasSetStream_v2(handle: *mut Handle, stream: usize) { (*handle).stream = stream; SUCCESS }

    cublasSetWorkspace_v2(handle: *mut Handle, space: usize, bytes: usize) {
        if !space.is_multiple_of(256) { return INVALID_VALUE; }
        (*handle).space = (space, bytes);
        SUCCESS
    }

    cublasStrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const f32, a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), DType::R32) }

    cublasDtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const f64, a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), DType::R64) }

    cublasCtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const [f32; 2], a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), DType::C32) }

    cublasZtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const [f64; 2], a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), DType::C64) }
}

/// Defines the entry points of a dtype.
macro_rules! typed {
    ($($data:ident: $reflect_size:ident $reflect:ident $singular_size:ident $singular:ident $cholesky:ident $lu:ident
       $solve:ident;)*) => {
        entries! {
            $($reflect_size(
                handle: *const Handle, side: c_int, turned: c_int, rows: c_int, columns: c_int, steps: c_int, a: usize,
                a_leading: c_int, tau: usize, c: usize, c_leading: c_int, elements: *mut c_int
            ) {
                let sizes = [rows, columns, steps];
                let known = Reflected::of([side, turned], sizes, (a, a_leading), tau, (c, c_leading), DType::$data).is_some();
                *elements = 8 + rows + columns;
                if known && !handle.is_null() { SUCCESS } else { INVALID_VALUE }
            }

            $reflect(
                handle: *const Handle, side: c_int, turned: c_int, rows: c_int, columns: c_int, steps: c_int, a: usize,
                a_leading: c_int, tau: usize, c: usize, c_leading: c_int, work: usize, elements: c_int, info: usize
            ) {
                let sizes = [rows, columns, steps];
                let call = Reflected::of([side, turned], sizes, (a, a_leading), tau, (c, c_leading), DType::$data);
                let Some(call) = call.filter(|_| elements >= 8 + rows + columns) else { return INVALID_VALUE };
                let space = (work, elements as u64 * DType::$data.bytes() as u64);
                if !work.is_multiple_of(16) || !info.is_multiple_of(4) { return INVALID_VALUE; }
                submit(&*handle, &[call.a, call.tau, call.c], &[space, (info, 4)], move || {
                    // SAFETY: ranges are checked when the work is enqueued, and freeing memory waits for its device.
                    unsafe { spoil(space); call.run(); write(info, &[0]); }
                })
            }

            $singular_size(
                handle: *const Handle, vectors: c_int, economic: c_int, rows: c_int, columns: c_int, a: usize, leading: c_int,
                s: usize, u: usize, u_leading: c_int, v: usize, v_leading: c_int, elements: *mut c_int, sweeps: *const u8
            ) {
                let places = [(a, leading), (s, 1), (u, u_leading), (v, v_leading)];
                let known = Decomposed::of([vectors, economic], [rows, columns], places, DType::$data).is_some();
                *elements = 8 + rows + columns;
                if known && !handle.is_null() && *sweeps == 11 { SUCCESS } else { INVALID_VALUE }
            }

            $singular(
                handle: *const Handle, vectors: c_int, economic: c_int, rows: c_int, columns: c_int, a: usize, leading: c_int,
                s: usize, u: usize, u_leading: c_int, v: usize, v_leading: c_int, work: usize, elements: c_int, info: usize,
                sweeps: *const u8
            ) {
                let places = [(a, leading), (s, 1), (u, u_leading), (v, v_leading)];
                let call = Decomposed::of([vectors, economic], [rows, columns], places, DType::$data);
                let Some(call) = call.filter(|_| elements >= 8 + rows + columns && *sweeps == 11) else { return INVALID_VALUE };
                let space = (work, elements as u64 * DType::$data.bytes() as u64);
                if !work.is_multiple_of(16) || !info.is_multiple_of(4) { return INVALID_VALUE; }
                submit(&*handle, &[call.a, call.s, call.u, call.v], &[space, (info, 4)], move || {
                    // SAFETY: as above.
                    unsafe { spoil(space); call.run(); write(info, &[0]); }
                })
            }

            $cholesky(
                handle: *const Handle, triangle: c_int, n: c_int, list: usize, leading: c_int, infos: usize, count: c_int
            ) {
                let batch = Batch::of(list, [n, n, leading, count], DType::$data);
                let Some(batch) = batch.filter(|_| (0..=1).contains(&triangle) && infos.is_multiple_of(4)) else { return INVALID_VALUE };
                submit(&*handle, &[], &[batch.range(), (infos, 4 * count as u64)], move || {
                    // SAFETY: as above.
                    unsafe { batch.each(|n, a| write(infos + 4 * n, &[factorise(a, triangle == 1)])); }
                })
            }

            $lu(handle: *const Handle, n: c_int, list: usize, leading: c_int, pivots: usize, infos: usize, count: c_int) {
                let Some(batch) = Batch::of(list, [n, n, leading, count], DType::$data) else { return INVALID_VALUE };
                if !infos.is_multiple_of(4) || !pivots.is_multiple_of(4) { return INVALID_VALUE; }
                let space = (*handle).space();
                let others = [batch.range(), (infos, 4 * count as u64), (pivots, 4 * count as u64 * n as u64), space];
                submit(&*handle, &[], &others, move || {
                    // SAFETY: as above.
                    unsafe {
                        spoil(space);
                        batch.each(|place, a| {
                            let mut matrix = a.load();
                            let (steps, code) = matrix.lu();
                            a.store(&matrix, |_, _| true);
                            let steps: Vec<i32> = steps.iter().map(|&step| step as i32).collect();
                            write(pivots + 4 * place * steps.len(), &steps);
                            write(infos + 4 * place, &[code]);
                        });
                    }
                })
            }

            $solve(
                handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
                factor: *const u8, a: usize, a_leading: i64, b: usize, b_leading: i64, count: i64
            ) {
                let n = if side == 0 { rows } else { columns };
                let flags = [side, upper, transposed, unit];
                let small = |sizes: [i64; 4]| sizes.map(|size| size as c_int);
                let a = Batch::of(a, small([n, n, a_leading, count]), DType::$data);
                let b = Batch::of(b, small([rows, columns, b_leading, count]), DType::$data);
                let (Some(a), Some(b)) = (a, b) else { return INVALID_VALUE };
                if !are_known(&flags, factor, DType::$data) { return INVALID_VALUE; }
                let space = (*handle).space();
                submit(&*handle, &[], &[a.range(), b.range(), space], move || {
                    // SAFETY: as above.
                    unsafe {
                        spoil(space);
                        a.each(|n, a| solve(flags, a, b.get(n)));
                    }
                })
            })*
        }
    };
}

typed! {
    R32: cusolverDnSormqr_bufferSize cusolverDnSormqr cusolverDnSgesvdj_bufferSize cusolverDnSgesvdj
        cusolverDnSpotrfBatched cublasSgetrfBatched cublasStrsmBatched_64;
    R64: cusolverDnDormqr_bufferSize cusolverDnDormqr cusolverDnDgesvdj_bufferSize cusolverDnDgesvdj
        cusolverDnDpotrfBatched cublasDgetrfBatched cublasDtrsmBatched_64;
    C32: cusolverDnCunmqr_bufferSize cusolverDnCunmqr cusolverDnCgesvdj_bufferSize cusolverDnCgesvdj
        cusolverDnCpotrfBatched cublasCgetrfBatched cublasCtrsmBatched_64;
    C64: cusolverDnZunmqr_bufferSize cusolverDnZunmqr cusolverDnZgesvdj_bufferSize cusolverDnZgesvdj
        cusolverDnZpotrfBatched cublasZgetrfBatched cublasZtrsmBatched_64;
}

/// `cublas<t>trsm`. The workspace belongs to the call that set it.
///
/// # Safety
/// `factor` is the address of a number of the dtype.
unsafe fn triangular(
    handle: &Handle,
    [side, upper, transposed, unit]: [c_int; 4],
    [rows, columns]: [i64; 2],
    factor: *const u8,
    a: (usize, i64),
    b: (usize, i64),
    data: DType,
) -> Status {
    let n = if side == 0 { rows } else { columns };
    let code = data.code() as c_int;
    let (Some(a), Some(b)) = (place(a.0, n, n, a.1, code), place(b.0, rows, columns, b.1, code)) else {
        return INVALID_VALUE;
    };
    // SAFETY: guaranteed by the caller.
    if !unsafe { are_known(&[side, upper, transposed, unit], factor, data) } {
        return INVALID_VALUE;
    }
    let space = handle.space();
    submit(handle, &[a, b], &[space], move || {
        // SAFETY: ranges are checked when the work is enqueued, and freeing memory waits for its device.
        unsafe {
            spoil(space);
            solve([side, upper, transposed, unit], a, b);
        }
    })
}
