//! The entry points of cuSOLVER, and of cuBLAS for triangular systems, that rushlight calls. NVIDIA's documentation describes them.
//!
//! Every call is checked: the handle and its stream, sizes, dtypes, ranges of memory, alignments and both workspaces, which are
//! overwritten.
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_int, c_void};

use crate::driver::current;
use crate::factors::Place;
use crate::library::{Enqueued, Library, enqueue};
use crate::machine::number;
use crate::products::Type;
use crate::status::SUCCESS;

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

fn create(handle: *mut *mut Handle) -> Status {
    let Ok(device) = current() else { return NOT_INITIALIZED };
    // SAFETY: callers pass valid pointers.
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
    fn check(&self, rows: i64, columns: i64) -> Option<(usize, u64)> {
        let (device, host) = sizes(rows, columns);
        if self.device.1 < device || !self.device.0.is_multiple_of(16) || self.host.1 < host || self.host.0.is_null() {
            return None;
        }
        // SAFETY: callers pass a valid workspace.
        unsafe { self.host.0.cast::<u8>().write_bytes(0xff, self.host.1) };
        Some((self.device.0, device as u64))
    }
}

/// Overwrites a workspace on the device.
unsafe fn spoil((at, bytes): (usize, u64)) {
    // SAFETY: the range was checked when the work was enqueued.
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

fn place(at: usize, rows: i64, columns: i64, leading: i64, data: c_int) -> Option<Place> {
    let size = |number: i64| usize::try_from(number).ok();
    let data = Type::of(data as u32).filter(|data| !matches!(data, Type::R16 | Type::B16))?;
    Some(Place { at, rows: size(rows)?, columns: size(columns)?, leading: size(leading)?, data })
}

entries! {
    cusolverGetVersion(version: *mut c_int) { *version = number("SOFTCUDA_SOLVER_VERSION").unwrap_or(12_000) as c_int; SUCCESS }

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
                let mut matrix = if upper { a.load().adjoint() } else { a.load() };
                let code = matrix.cholesky();
                let matrix = if upper { matrix.adjoint() } else { matrix };
                a.store(&matrix, |row, column| if upper { row <= column } else { row >= column });
                write(info, &[code]);
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
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), Type::R32) }

    cublasDtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const f64, a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), Type::R64) }

    cublasCtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const [f32; 2], a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), Type::C32) }

    cublasZtrsm_v2_64(
        handle: *const Handle, side: c_int, upper: c_int, transposed: c_int, unit: c_int, rows: i64, columns: i64,
        factor: *const [f64; 2], a: usize, a_leading: i64, b: usize, b_leading: i64
    ) { triangular(&*handle, [side, upper, transposed, unit], [rows, columns], factor.cast(), (a, a_leading), (b, b_leading), Type::C64) }
}

/// `cublas<t>trsm`. The workspace belongs to the call that set it.
fn triangular(
    handle: &Handle,
    [side, upper, transposed, unit]: [c_int; 4],
    [rows, columns]: [i64; 2],
    factor: *const u8,
    a: (usize, i64),
    b: (usize, i64),
    data: Type,
) -> Status {
    let n = if side == 0 { rows } else { columns };
    let code = data.code() as c_int;
    let (Some(a), Some(b)) = (place(a.0, n, n, a.1, code), place(b.0, rows, columns, b.1, code)) else {
        return INVALID_VALUE;
    };
    let known = [side, upper, transposed, unit].iter().all(|flag| (0..=1).contains(flag));
    // SAFETY: callers pass a number of the dtype.
    let one = unsafe { data.load(factor.expose_provenance()) } == [1.0, 0.0];
    if !known || !one {
        return INVALID_VALUE;
    }
    let space = (handle.space.0, handle.space.1 as u64);
    submit(handle, &[a, b], &[space], move || {
        // SAFETY: ranges are checked when the work is enqueued, and freeing memory waits for its device.
        unsafe {
            spoil((space.0, space.1.min(64)));
            let (mut triangle, mut sides) = (a.load(), b.load());
            let mut upper = upper == 1;
            if transposed == 1 {
                (triangle, upper) = (triangle.transposed(), !upper);
            }
            if side == 1 {
                (triangle, sides, upper) = (triangle.transposed(), sides.transposed(), !upper);
            }
            triangle.solve(&mut sides, upper, unit == 1);
            let sides = if side == 1 { sides.transposed() } else { sides };
            b.store(&sides, |_, _| true);
        }
    })
}
