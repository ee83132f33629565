//! Factorisations of matrices by NVIDIA's cuSOLVER, and triangular systems by cuBLAS, which it brings. What they do not take is
//! computed by the host.
//!
//! A handle has a stream and memory of its own. A call takes one of its stream out of a list and puts it back, so that neither
//! threads nor streams share one at a time. `factors` has the factorisations,
//! `triangles` the triangular systems, `batches` what takes a whole batch at once, and `pivots` the rows that were exchanged.

pub mod batches;
pub mod factors;
pub mod pivots;
pub mod triangles;

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use rushlight_core::alloc::collected;
use rushlight_core::device_memory::StreamId;
use rushlight_core::fork::{ForkMutex, Rank};
use rushlight_core::{DType, Error, Result};

use crate::card::Card;
use crate::launch::enqueue;
use crate::library::functions;
use crate::memory::pointer;
use crate::workspace::Workspace;
use crate::{capture, cublaslt, stream};

/// A handle, and cuSOLVER's parameters, which all calls share.
type Pointer = *mut c_void;

functions! {
    /// The functions of cuSOLVER that are called.
    struct Solver from &["libcusolver.so.12", "libcusolver.so.11"];
    version = c"cusolverGetVersion" (*mut c_int);
    create = c"cusolverDnCreate" (*mut Pointer);
    create_parameters = c"cusolverDnCreateParams" (*mut Pointer);
    set_stream = c"cusolverDnSetStream" (Pointer, Pointer);
    cholesky_size = c"cusolverDnXpotrf_bufferSize" (
        Pointer, Pointer, c_int, i64, c_int, Pointer, i64, c_int, *mut usize, *mut usize,
    );
    cholesky = c"cusolverDnXpotrf" (
        Pointer, Pointer, c_int, i64, c_int, Pointer, i64, c_int, Pointer, usize, Pointer, usize, Pointer,
    );
    lu_size = c"cusolverDnXgetrf_bufferSize" (
        Pointer, Pointer, i64, i64, c_int, Pointer, i64, c_int, *mut usize, *mut usize,
    );
    lu = c"cusolverDnXgetrf" (
        Pointer, Pointer, i64, i64, c_int, Pointer, i64, Pointer, c_int, Pointer, usize, Pointer, usize, Pointer,
    );
    reflections_size = c"cusolverDnXgeqrf_bufferSize" (
        Pointer, Pointer, i64, i64, c_int, Pointer, i64, c_int, Pointer, c_int, *mut usize, *mut usize,
    );
    reflections = c"cusolverDnXgeqrf" (
        Pointer, Pointer, i64, i64, c_int, Pointer, i64, c_int, Pointer, c_int, Pointer, usize, Pointer, usize, Pointer,
    );
    eigen_size = c"cusolverDnXsyevd_bufferSize" (
        Pointer, Pointer, c_int, c_int, i64, c_int, Pointer, i64, c_int, Pointer, c_int, *mut usize, *mut usize,
    );
    eigen = c"cusolverDnXsyevd" (
        Pointer, Pointer, c_int, c_int, i64, c_int, Pointer, i64, c_int, Pointer, c_int, Pointer, usize, Pointer, usize,
        Pointer,
    );
    create_sweeps = c"cusolverDnCreateGesvdjInfo" (*mut Pointer);
    limit_sweeps = c"cusolverDnXgesvdjSetMaxSweeps" (Pointer, c_int);
    [
        c"cusolverDnSormqr_bufferSize", c"cusolverDnDormqr_bufferSize", c"cusolverDnCunmqr_bufferSize",
        c"cusolverDnZunmqr_bufferSize"
    ] as reflect_size (
        Pointer, c_int, c_int, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, *mut c_int,
    );
    [c"cusolverDnSormqr", c"cusolverDnDormqr", c"cusolverDnCunmqr", c"cusolverDnZunmqr"] as reflect (
        Pointer, c_int, c_int, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer, c_int, Pointer,
    );
    [
        c"cusolverDnSgesvdj_bufferSize", c"cusolverDnDgesvdj_bufferSize", c"cusolverDnCgesvdj_bufferSize",
        c"cusolverDnZgesvdj_bufferSize"
    ] as singular_size (
        Pointer, c_int, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer, c_int, *mut c_int, Pointer,
    );
    [
        c"cusolverDnSpotrfBatched", c"cusolverDnDpotrfBatched", c"cusolverDnCpotrfBatched", c"cusolverDnZpotrfBatched"
    ] as cholesky_batched (Pointer, c_int, c_int, Pointer, c_int, Pointer, c_int);
    [c"cusolverDnSgesvdj", c"cusolverDnDgesvdj", c"cusolverDnCgesvdj", c"cusolverDnZgesvdj"] as singular (
        Pointer, c_int, c_int, c_int, c_int, Pointer, c_int, Pointer, Pointer, c_int, Pointer, c_int, Pointer, c_int,
        Pointer, Pointer,
    );
}

functions! {
    /// The functions of cuBLAS that are called.
    struct Blas from &["libcublas.so.13", "libcublas.so.12"];
    create = c"cublasCreate_v2" (*mut Pointer);
    set_stream = c"cublasSetStream_v2" (Pointer, Pointer);
    set_workspace = c"cublasSetWorkspace_v2" (Pointer, Pointer, usize);
    [c"cublasStrsm_v2_64", c"cublasDtrsm_v2_64", c"cublasCtrsm_v2_64", c"cublasZtrsm_v2_64"] as triangular (
        Pointer, c_int, c_int, c_int, c_int, i64, i64, *const f64, Pointer, i64, Pointer, i64,
    );
    [
        c"cublasStrsmBatched_64", c"cublasDtrsmBatched_64", c"cublasCtrsmBatched_64", c"cublasZtrsmBatched_64"
    ] as triangular_batched (
        Pointer, c_int, c_int, c_int, c_int, i64, i64, *const f64, Pointer, i64, Pointer, i64, i64,
    );
    [c"cublasSgetrfBatched", c"cublasDgetrfBatched", c"cublasCgetrfBatched", c"cublasZgetrfBatched"] as lu_batched (
        Pointer, c_int, Pointer, c_int, Pointer, Pointer, c_int,
    );
}

const SUCCESS: c_int = 0;

/// Whether factorisations are given to cuSOLVER.
pub fn is_available() -> bool {
    Solver::found().is_some()
}

/// Whether triangular systems are given to cuBLAS.
pub fn solves_triangles() -> bool {
    Blas::found().is_some()
}

/// The version in words, for `python -m rushlight doctor`; `None` if the library is not installed.
pub fn describe() -> Option<String> {
    let mut version = 0;
    // SAFETY: the pointer is that of a local variable.
    let status = unsafe { (Solver::found()?.version)(&raw mut version) };
    (status == SUCCESS).then(|| format!("{}.{}", version / 1000, version % 1000 / 100))
}

/// A dtype in cuSOLVER: its number in `cudaDataType_t`, and its index in lists of functions.
#[derive(Clone, Copy)]
struct Type {
    data: c_int,
    index: usize,
}

impl Type {
    fn of(dtype: DType) -> Option<Type> {
        let (data, index) = match dtype {
            DType::F32 => (0, 0),
            DType::F64 => (1, 1),
            DType::C64 => (4, 2),
            DType::C128 => (5, 3),
            _ => return None,
        };
        Some(Type { data, index })
    }
}

#[cold]
fn failure(status: c_int, call: &str) -> Error {
    let library = if call.starts_with("cublas") { "cublas" } else { "cusolver" };
    Error::runtime(format!("{library} error: status {status}, when calling `{call}`"))
}

fn check(status: c_int, call: &str) -> Result<()> {
    if status == SUCCESS { Ok(()) } else { Err(failure(status, call)) }
}

/// The library of a handle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Library {
    Solver,
    Blas,
}

/// A handle, with the parameters of cuSOLVER.
#[derive(Clone, Copy)]
struct Handle {
    key: (Library, u8, usize),
    handle: Pointer,
    parameters: Pointer,
    /// The parameters of Jacobi's method.
    sweeps: Pointer,
}

/// The most sweeps of Jacobi's method, as in torch.
const SWEEPS: c_int = 400;

// SAFETY: handles may be used by any thread, one at a time.
unsafe impl Send for Handle {}

/// The handles that no call uses. They are never destroyed, because captured graphs may use their memory.
static IDLE: ForkMutex<BTreeMap<(Library, u8, usize), Vec<Handle>>> = ForkMutex::new(Rank::Tables, BTreeMap::new());

/// A handle that a call uses alone, and that goes back to the list.
struct Borrowed(Handle);

impl Drop for Borrowed {
    fn drop(&mut self) {
        IDLE.lock().entry(self.0.key).or_default().push(self.0);
    }
}

impl Borrowed {
    /// A handle for a stream of the current device; `None` if the library cannot make one.
    fn take(library: Library, card: &Card, stream: StreamId) -> Option<Borrowed> {
        let key = (library, card.index, stream.0);
        let idle = IDLE.lock().get_mut(&key).and_then(Vec::pop);
        idle.or_else(|| Handle::new(key, stream)).map(Borrowed)
    }
}

/// The handle of cuSOLVER, or of cuBLAS, that a program uses on a stream of a device: always the same one, which calls of tensors do
/// not use. `None` if the library is missing.
pub fn program_handle(solver: bool, card: &Card, stream: StreamId) -> Option<usize> {
    static LENT: ForkMutex<BTreeMap<(Library, u8, usize), usize>> = ForkMutex::new(Rank::Tables, BTreeMap::new());
    let library = if solver { Library::Solver } else { Library::Blas };
    let mut lent = LENT.lock();
    let key = (library, card.index, stream.0);
    if let Some(known) = lent.get(&key) {
        return Some(*known);
    }
    let made = Handle::new(key, stream)?.handle.expose_provenance();
    lent.insert(key, made);
    Some(made)
}

impl Handle {
    fn new(key: (Library, u8, usize), stream: StreamId) -> Option<Handle> {
        let _relaxed = capture::Relaxed::begin();
        let mut made = Handle { key, handle: null_mut(), parameters: null_mut(), sweeps: null_mut() };
        let queue = stream::handle(stream).cast();
        // SAFETY: a context is current, the pointers are those of local variables, and streams are never destroyed.
        unsafe {
            match key.0 {
                Library::Solver => {
                    let library = Solver::found()?;
                    succeeded((library.create)(&raw mut made.handle))?;
                    succeeded((library.create_parameters)(&raw mut made.parameters))?;
                    succeeded((library.create_sweeps)(&raw mut made.sweeps))?;
                    succeeded((library.limit_sweeps)(made.sweeps, SWEEPS))?;
                    succeeded((library.set_stream)(made.handle, queue))?;
                }
                Library::Blas => {
                    let library = Blas::found()?;
                    succeeded((library.create)(&raw mut made.handle))?;
                    succeeded((library.set_stream)(made.handle, queue))?;
                }
            }
        }
        Some(made)
    }
}

fn succeeded(status: c_int) -> Option<()> {
    (status == SUCCESS).then_some(())
}

/// Matrices of one size, each by columns, behind each other.
#[derive(Clone, Copy)]
pub struct Matrices {
    /// The first byte.
    pub at: u64,
    pub rows: i64,
    pub columns: i64,
    pub count: u64,
    pub dtype: DType,
}

impl Matrices {
    fn leading(self) -> i64 {
        self.rows.max(1)
    }

    fn first(self) -> Pointer {
        pointer(self.at)
    }

    /// The n-th matrix.
    fn get(self, n: u64) -> Pointer {
        pointer(self.at + n * (self.rows * self.columns) as u64 * self.dtype.size() as u64)
    }

    /// Whether there are not several matrices with elements.
    pub fn is_single(self) -> bool {
        self.count == 1 || self.is_empty()
    }

    fn is_empty(self) -> bool {
        self.rows == 0 || self.columns == 0 || self.count == 0
    }
}

/// The n-th code of a list of results, which are 0 for success (`info` of LAPACK).
fn code(infos: u64, n: u64) -> Pointer {
    pointer(infos + 4 * n)
}

/// What the calls for several matrices have in common: the library, a handle with its parameters, how it names the matrices' dtype,
/// and the workspaces, on the device and on the host.
struct Call<'a> {
    library: &'a Solver,
    handle: Pointer,
    parameters: Pointer,
    sweeps: Pointer,
    dtype: Type,
    /// The bytes of an element.
    element: usize,
    device: Pointer,
    device_bytes: usize,
    host: Pointer,
    host_bytes: usize,
}

impl Call<'_> {
    /// Where the library writes the bytes of both workspaces.
    fn sizes(&mut self) -> (*mut usize, *mut usize) {
        (&raw mut self.device_bytes, &raw mut self.host_bytes)
    }

    /// Asks for the size of the device's workspace in elements.
    fn in_elements(&mut self, ask: impl FnOnce(&Self, *mut c_int) -> c_int) -> c_int {
        let mut elements = 0;
        let status = ask(self, &raw mut elements);
        self.device_bytes = usize::try_from(elements).unwrap_or(0) * self.element;
        status
    }

    /// The size of the device's workspace in elements.
    fn elements(&self) -> c_int {
        (self.device_bytes / self.element) as c_int
    }
}

/// Enqueues a factorisation of each matrix. `size` asks for the sizes of the workspaces. False if cuSOLVER does not take the
/// matrices; then nothing was enqueued.
///
/// # Safety
/// Both functions call cuSOLVER with the handle, on memory that is held for the stream.
unsafe fn each(
    card: &Card,
    stream: StreamId,
    name: &'static str,
    a: Matrices,
    size: impl FnOnce(&mut Call) -> c_int,
    run: impl Fn(&Call, u64) -> c_int,
) -> Result<bool> {
    let Some(dtype) = Type::of(a.dtype) else { return Ok(false) };
    let Some(library) = Solver::found() else { return Ok(false) };
    if a.is_empty() {
        return Ok(true);
    }
    let Some(borrowed) = Borrowed::take(Library::Solver, card, stream) else { return Ok(false) };
    let Handle { handle, parameters, sweeps, .. } = borrowed.0;
    let (element, none) = (a.dtype.size(), null_mut());
    let mut call = Call {
        library,
        handle,
        parameters,
        sweeps,
        dtype,
        element,
        device: none,
        device_bytes: 0,
        host: none,
        host_bytes: 0,
    };
    if size(&mut call) != SUCCESS {
        return Ok(false);
    }
    let workspace = Workspace::new(card.index, stream, call.device_bytes)?;
    let mut host = collected((0..call.host_bytes.div_ceil(size_of::<u128>())).map(|_| 0u128))?;
    (call.device, call.host) = (workspace.pointer(), host.as_mut_ptr().cast());
    for n in 0..a.count {
        enqueue(card, name, stream, || check(run(&call, n), name))?;
    }
    Ok(true)
}

/// Runs a function with a handle of cuBLAS that has a workspace. False if there is none; then the function was not called.
fn with_blas(card: &Card, stream: StreamId, run: impl FnOnce(&Blas, Pointer) -> Result<()>) -> Result<bool> {
    let Some(library) = Blas::found() else { return Ok(false) };
    let Some(borrowed) = Borrowed::take(Library::Blas, card, stream) else { return Ok(false) };
    let workspace = Workspace::new(card.index, stream, cublaslt::workspace_limit(card) as usize)?;
    // SAFETY: the workspace is held for the stream.
    let status = unsafe { (library.set_workspace)(borrowed.0.handle, workspace.pointer(), workspace.bytes()) };
    if status != SUCCESS {
        return Ok(false);
    }
    run(library, borrowed.0.handle)?;
    Ok(true)
}
