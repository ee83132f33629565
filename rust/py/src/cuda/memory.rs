//! Memory of devices, page-locked memory of the host, and memory that several processes use.

use std::ffi::{c_int, c_void};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3::{ffi, intern};
use rushlight_core::Storage;
use rushlight_core::layout::Layout;
use rushlight_cuda::allocator::{PoolId, PoolOptions};
use rushlight_cuda::card::{self, Card};
use rushlight_cuda::history::{self, Action, Entry, Frame, Frames, Settings};
use rushlight_cuda::mem_pool::MemPool;
use rushlight_cuda::statistics::Count;
use rushlight_cuda::user_allocator::{self, UserAllocator};
use rushlight_cuda::{ipc, memory, pinned, sent, settings, trace};
use rushlight_dispatch::create;

use crate::errors::raise;
use crate::reclaim::DeferredDrop;
use crate::without_gil::is_detached;
use crate::{device_share, object, storage};

/// Has the main thread call `_tell` of `torch.cuda._gpu_trace` after blocks of memory were taken or given back.
#[pyfunction]
fn _cuda_trace_memory() {
    trace::begin(|| {
        // SAFETY: any thread may ask, with or without the GIL. Where too many functions wait to be called, this one is not added.
        unsafe { ffi::Py_AddPendingCall(Some(tell_of_memory), std::ptr::null_mut()) == 0 }
    });
}

extern "C" fn tell_of_memory(_: *mut c_void) -> c_int {
    // SAFETY: Python calls this function with the GIL.
    let py = unsafe { Python::assume_attached() };
    let told = py.import("rushlight.cuda._gpu_trace").and_then(|module| module.call_method0("_tell"));
    if let Err(error) = told {
        error.write_unraisable(py, None);
    }
    0
}

/// The blocks that were taken (true) and given back since the last call: where they begin.
#[pyfunction]
fn _cuda_traced_memory() -> Vec<(bool, usize)> {
    trace::take()
}

/// The free and the whole memory of a device, in bytes.
#[pyfunction]
fn _cuda_memory_info(device: u8) -> PyResult<(usize, usize)> {
    card::select(device).and_then(Card::memory_info).map_err(raise)
}

fn numbers(count: Count) -> (usize, usize, usize, usize) {
    (count.current, count.peak, count.allocated, count.freed)
}

/// The statistics of a device's allocator: now, the peak, and the sums of increases and decreases, by their names in torch.
#[pyfunction]
fn _cuda_memory_statistics(py: Python<'_>, device: u8) -> PyResult<Bound<'_, PyDict>> {
    let all = memory::statistics(device);
    let dict = PyDict::new(py);
    for (kind, amounts) in ["all", "small_pool", "large_pool"].into_iter().zip(all.kinds) {
        for (name, count) in amounts.named() {
            dict.set_item(format!("{name}.{kind}"), numbers(count))?;
        }
    }
    dict.set_item("oversize_allocations", numbers(all.oversize_allocations))?;
    dict.set_item("oversize_segments", numbers(all.oversize_segments))?;
    dict.set_item("num_alloc_retries", all.retries)?;
    dict.set_item("num_ooms", all.out_of_memory)?;
    dict.set_item("num_sync_all_streams", all.waits)?;
    dict.set_item("num_device_alloc", all.device_allocations)?;
    dict.set_item("num_device_free", all.device_frees)?;
    Ok(dict)
}

#[pyfunction]
fn _cuda_reset_memory_peaks(device: u8) {
    memory::reset_peaks(device);
}

#[pyfunction]
fn _cuda_reset_memory_sums(device: u8) {
    memory::reset_sums(device);
}

#[pyfunction]
fn _cuda_empty_cache(py: Python<'_>) {
    py.detach(memory::empty_cache);
}

/// The most bytes that a device's allocator takes from the driver; None if there is no limit.
#[pyfunction]
fn _cuda_memory_limit(device: u8) -> Option<usize> {
    memory::limit(device)
}

#[pyfunction]
fn _cuda_set_memory_limit(device: u8, nbytes: Option<usize>) {
    memory::set_limit(device, nbytes);
}

/// The lines that led to an action, each with its file, number and function, the innermost first.
type FrameRows = Vec<(String, u32, String)>;

type BlockRow = (usize, usize, usize, usize, usize, &'static str, bool, u64, FrameRows);

fn frame_rows(frames: &Frames) -> FrameRows {
    let row = |frame: &Frame| (frame.file.clone(), frame.line, frame.function.clone());
    frames.iter().flat_map(|frames| frames.iter().map(row)).collect()
}

/// The blocks of a device: address, size, requested size, segment, stream, state, whether its segment is for small blocks, the
/// number of its pool, and the lines that asked for it.
#[pyfunction]
fn _cuda_memory_blocks(device: u8) -> Vec<BlockRow> {
    use rushlight_cuda::allocator::{Piece, State};
    let row = |(piece, frames): (Piece, Frames)| {
        let state = match piece.state {
            State::Free => "inactive",
            State::Used => "active_allocated",
            State::Waiting => "active_pending_free",
        };
        let Piece { address, size, requested, segment, stream, small, pool, .. } = piece;
        (address, size, requested, segment, stream.0, state, small, pool.0, frame_rows(&frames))
    };
    memory::snapshot(device).into_iter().map(row).collect()
}

/// The lines of Python that this thread runs; none if it works without the GIL, or is not one of Python's.
fn lines() -> Frames {
    // SAFETY: may be called by any thread.
    if is_detached() || unsafe { ffi::PyGILState_GetThisThreadState() }.is_null() {
        return None;
    }
    // SAFETY: a thread of Python that is not detached holds the GIL.
    let py = unsafe { Python::assume_attached() };
    // Memory is freed while errors are raised, too.
    let pending = PyErr::take(py);
    let found = frames_of(py);
    if let Some(pending) = pending {
        pending.restore(py);
    }
    found.ok().map(Into::into)
}

fn frames_of(py: Python<'_>) -> PyResult<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut next = py.import(intern!(py, "sys"))?.call_method0(intern!(py, "_getframe"))?;
    while !next.is_none() {
        let code = next.getattr(intern!(py, "f_code"))?;
        frames.push(Frame {
            file: code.getattr(intern!(py, "co_filename"))?.extract()?,
            // A frame that runs no line has no number.
            line: next.getattr(intern!(py, "f_lineno"))?.extract::<Option<u32>>()?.unwrap_or(0),
            function: code.getattr(intern!(py, "co_name"))?.extract()?,
        });
        next = next.getattr(intern!(py, "f_back"))?;
    }
    Ok(frames)
}

/// Begins to record what allocators do: whether actions are kept, whether lines of blocks, of allocations and of all actions are,
/// how many actions, and which are not. None ends it.
#[pyfunction]
fn _cuda_record_history(settings: Option<(bool, [bool; 3], usize, Vec<String>)>, clear: bool) {
    let settings = settings.map(|(actions, frames, most, skipped)| {
        let skipped = Action::ALL.into_iter().filter(|action| skipped.iter().any(|name| name == action.name()));
        Settings { actions, frames, most, skipped: skipped.collect(), metadata: "".into() }
    });
    history::set(settings, lines);
    if clear {
        memory::clear_history();
    }
}

#[pyfunction]
fn _cuda_set_history_metadata(text: &str) {
    history::set_metadata(text);
}

#[pyfunction]
fn _cuda_history_metadata() -> String {
    history::metadata()
}

type ActionRow = (&'static str, usize, usize, usize, u64, i64, FrameRows, String);

/// What a device's allocator has done: action, address, size, stream, number of the pool, microseconds since 1970, lines, metadata.
#[pyfunction]
fn _cuda_history(device: u8) -> Vec<ActionRow> {
    let row = |entry: Entry| {
        let Entry { action, address, bytes, stream, pool, time, frames, metadata } = entry;
        (action.name(), address, bytes, stream.0, pool, time, frame_rows(&frames), metadata.to_string())
    };
    memory::history(device).into_iter().map(row).collect()
}

/// Makes two functions, given by their addresses, the allocator of all memory.
#[pyfunction]
fn _cuda_choose_allocator(allocate: usize, free: usize) -> PyResult<()> {
    // SAFETY: the program says that these are such functions.
    user_allocator::choose(unsafe { UserAllocator::new(allocate, free) }).map_err(raise)
}

/// Takes over what a text in the grammar of `PYTORCH_ALLOC_CONF` says, up to its first mistake.
#[pyfunction]
fn _cuda_set_allocator_settings(text: &str) -> PyResult<()> {
    memory::read_settings(text).map_err(raise)
}

/// The text that was read last, of the variable or of a program.
#[pyfunction]
fn _cuda_allocator_settings_text() -> String {
    settings::text()
}

/// An error if the variable has a mistake.
#[pyfunction]
fn _cuda_check_allocator_settings() -> PyResult<()> {
    settings::check().map_err(raise)
}

/// The settings by their names in torch's snapshots; sizes are bytes, and -1 without a limit.
#[pyfunction]
fn _cuda_allocator_settings(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = settings::current();
    let dict = PyDict::new(py);
    dict.set_item("max_split_size", i64::try_from(all.max_split).unwrap_or(-1))?;
    dict.set_item("garbage_collection_threshold", all.collection_threshold)?;
    dict.set_item("expandable_segments", all.expandable_segments)?;
    dict.set_item("pinned_num_register_threads", all.pinned_threads)?;
    dict.set_item("release_lock_on_cudamalloc", all.releases_lock)?;
    dict.set_item("pinned_use_cuda_host_register", all.pinned_registers)?;
    let divisions = PyDict::new(py);
    for (range, divided) in all.divisions.into_iter().enumerate() {
        divisions.set_item((1u64 << range).to_string(), divided)?;
    }
    dict.set_item("roundup_power2_divisions", divisions)?;
    Ok(dict)
}

/// Sets whether freed memory is kept.
#[pyfunction]
fn _cuda_set_caching(caches: bool) {
    memory::set_caching(caches);
}

#[pyfunction]
fn _cuda_is_caching() -> bool {
    memory::is_caching()
}

/// Whether functions of the program give out all memory.
#[pyfunction]
fn _cuda_has_chosen_allocator() -> bool {
    user_allocator::current().is_some()
}

/// A storage over memory of a device that another library has, and that an object keeps.
#[pyfunction]
fn _cuda_borrow<'py>(
    py: Python<'py>,
    owner: Py<PyAny>,
    address: usize,
    nbytes: usize,
    device: u8,
) -> PyResult<Bound<'py, PyAny>> {
    let block = device_share::borrowed(device, address, nbytes, DeferredDrop::new(owner));
    storage::wrap(py, Storage::new(block))
}

/// A pool of the current device, which `torch.cuda.MemPool` wraps.
#[pyclass(frozen, name = "_CudaMemPool", module = "rushlight._C")]
pub struct PyMemPool(MemPool);

#[pymethods]
impl PyMemPool {
    #[new]
    fn new(use_on_oom: bool, no_split: bool, allocator: Option<(usize, usize)>) -> PyResult<Self> {
        // SAFETY: the program says that the addresses are those of such functions.
        let user = allocator.map(|(allocate, free)| unsafe { UserAllocator::new(allocate, free) });
        MemPool::new(PoolOptions { on_oom: use_on_oom, no_split }, user).map(PyMemPool).map_err(raise)
    }

    /// The number of the pool.
    #[getter]
    fn number(&self) -> u64 {
        self.0.id.0
    }

    fn use_count(&self) -> usize {
        self.0.use_count()
    }
}

/// Lets this thread take memory of a device from a pool.
#[pyfunction]
fn _cuda_enter_pool(device: u8, pool: u64) -> PyResult<()> {
    memory::enter_pool(device, PoolId(pool)).map_err(raise)
}

#[pyfunction]
fn _cuda_leave_pool(device: u8, pool: u64) {
    memory::leave_pool(device, PoolId(pool));
}

/// The statistics of page-locked memory, by their names in torch.
#[pyfunction]
fn _cuda_host_statistics(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = pinned::statistics();
    let dict = PyDict::new(py);
    dict.set_item("allocations", numbers(all.allocations))?;
    dict.set_item("allocated_bytes", numbers(all.allocated_bytes))?;
    dict.set_item("active_requests", numbers(all.active_requests))?;
    dict.set_item("active_bytes", numbers(all.active_bytes))?;
    dict.set_item("num_host_alloc", all.driver_allocations)?;
    dict.set_item("num_host_free", all.driver_frees)?;
    Ok(dict)
}

#[pyfunction]
fn _cuda_reset_host_peaks() {
    pinned::reset_peaks();
}

#[pyfunction]
fn _cuda_reset_host_sums() {
    pinned::reset_sums();
}

#[pyfunction]
fn _cuda_empty_host_cache(py: Python<'_>) {
    py.detach(pinned::empty_cache);
}

/// A copy of a tensor in page-locked memory; gradients flow through it.
#[pyfunction]
fn _cuda_pin<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let own = object::tensor(tensor)?;
    let layout = Layout { sizes: own.sizes().clone(), strides: own.layout().preserved_strides(), offset: 0 };
    let copy = create::page_locked(layout, own.dtype()).map_err(raise)?;
    rushlight::convert::copy::copy_(&copy, own).map_err(raise)?;
    object::wrap_bound(tensor.py(), copy)
}

/// Page-locked memory of a size.
#[pyfunction]
fn _cuda_pinned_storage(py: Python<'_>, nbytes: usize) -> PyResult<Bound<'_, PyAny>> {
    storage::wrap(py, pinned::allocate(nbytes).map_err(raise)?)
}

/// What another process needs to reach a storage: device, handle, offset, size, and a descriptor to hold meanwhile.
#[pyfunction]
fn _cuda_send<'py>(
    py: Python<'py>,
    own: &Bound<'py, PyAny>,
) -> PyResult<(u8, Bound<'py, PyBytes>, usize, usize, RawFd)> {
    let own = storage::of(own)?;
    let sent = py.detach(|| ipc::export(&own)).map_err(raise)?;
    Ok((sent.device, PyBytes::new(py, &sent.handle), sent.offset, sent.bytes, sent.held.into_raw_fd()))
}

/// The storage of another process, which owns the descriptor from now on.
#[pyfunction]
fn _cuda_receive(
    py: Python<'_>,
    device: u8,
    handle: Vec<u8>,
    offset: usize,
    nbytes: usize,
    descriptor: RawFd,
) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the caller passes a descriptor that nothing else owns.
    let held = unsafe { OwnedFd::from_raw_fd(descriptor) };
    let handle = handle.try_into().map_err(|_| PyValueError::new_err("a handle has 64 bytes"))?;
    storage::wrap(py, ipc::receive(device, handle, offset, nbytes, held).map_err(raise)?)
}

/// Gives up the storages that no other process uses any more; returns how many others use.
#[pyfunction]
fn _cuda_ipc_collect(py: Python<'_>) -> usize {
    py.detach(|| {
        sent::collect();
        sent::count()
    })
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(_cuda_memory_info, module)?,
        wrap_pyfunction!(_cuda_trace_memory, module)?,
        wrap_pyfunction!(_cuda_traced_memory, module)?,
        wrap_pyfunction!(_cuda_memory_statistics, module)?,
        wrap_pyfunction!(_cuda_reset_memory_peaks, module)?,
        wrap_pyfunction!(_cuda_reset_memory_sums, module)?,
        wrap_pyfunction!(_cuda_empty_cache, module)?,
        wrap_pyfunction!(_cuda_memory_limit, module)?,
        wrap_pyfunction!(_cuda_set_memory_limit, module)?,
        wrap_pyfunction!(_cuda_memory_blocks, module)?,
        wrap_pyfunction!(_cuda_record_history, module)?,
        wrap_pyfunction!(_cuda_set_history_metadata, module)?,
        wrap_pyfunction!(_cuda_history_metadata, module)?,
        wrap_pyfunction!(_cuda_history, module)?,
        wrap_pyfunction!(_cuda_choose_allocator, module)?,
        wrap_pyfunction!(_cuda_set_allocator_settings, module)?,
        wrap_pyfunction!(_cuda_allocator_settings_text, module)?,
        wrap_pyfunction!(_cuda_check_allocator_settings, module)?,
        wrap_pyfunction!(_cuda_allocator_settings, module)?,
        wrap_pyfunction!(_cuda_set_caching, module)?,
        wrap_pyfunction!(_cuda_is_caching, module)?,
        wrap_pyfunction!(_cuda_has_chosen_allocator, module)?,
        wrap_pyfunction!(_cuda_borrow, module)?,
        wrap_pyfunction!(_cuda_enter_pool, module)?,
        wrap_pyfunction!(_cuda_leave_pool, module)?,
        wrap_pyfunction!(_cuda_host_statistics, module)?,
        wrap_pyfunction!(_cuda_reset_host_peaks, module)?,
        wrap_pyfunction!(_cuda_reset_host_sums, module)?,
        wrap_pyfunction!(_cuda_empty_host_cache, module)?,
        wrap_pyfunction!(_cuda_pin, module)?,
        wrap_pyfunction!(_cuda_pinned_storage, module)?,
        wrap_pyfunction!(_cuda_send, module)?,
        wrap_pyfunction!(_cuda_receive, module)?,
        wrap_pyfunction!(_cuda_ipc_collect, module)?,
    ] {
        module.add_function(function)?;
    }
    module.add_class::<PyMemPool>()
}
