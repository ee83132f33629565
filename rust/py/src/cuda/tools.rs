//! Marks and ranges for NVIDIA's profilers, what its management library tells of devices, and functions of the CUDA runtime.

use std::ffi::CString;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use rushlight_core::device_memory::StreamId;
use rushlight_cuda::nvml::{self, Question};
use rushlight_cuda::{card, cusolver, nvtx, program, runtime, stream};
use rushlight_dispatch::{profile, waits};

use crate::attach;
use crate::errors::raise;

#[pyfunction]
fn _nvtx_mark(message: CString) {
    nvtx::mark(&message);
}

/// Begins a range; returns its depth.
#[pyfunction]
fn _nvtx_push(message: CString) -> i32 {
    nvtx::push(&message)
}

/// Ends this thread's last range; returns its depth.
#[pyfunction]
fn _nvtx_pop() -> i32 {
    nvtx::pop()
}

/// Begins a range that any thread may end; returns its number.
#[pyfunction]
fn _nvtx_start(message: CString) -> u64 {
    nvtx::start(&message)
}

#[pyfunction]
fn _nvtx_end(range: u64) {
    nvtx::end(range);
}

/// A range of a stream's work.
#[pyclass(frozen, name = "_NvtxDeviceRange", module = "rushlight._C")]
struct PyDeviceRange(nvtx::DeviceRange);

/// Begins a range once the work of a stream of the current device has run.
#[pyfunction]
fn _nvtx_device_start(message: CString, stream: usize) -> PyResult<PyDeviceRange> {
    nvtx::DeviceRange::start(message, card::current(), StreamId(stream)).map(PyDeviceRange).map_err(raise)
}

#[pyfunction]
fn _nvtx_device_end(range: &Bound<'_, PyDeviceRange>, stream: usize) -> PyResult<()> {
    range.get().0.end(card::current(), StreamId(stream)).map_err(raise)
}

/// Begins or ends to make a range of each operator.
#[pyfunction]
fn _nvtx_emit(begins: bool, shapes: bool) {
    profile::emit(begins, shapes);
}

/// Whether NVIDIA's management library can be used.
#[pyfunction]
fn _nvml_is_available(py: Python<'_>) -> bool {
    py.detach(nvml::is_available)
}

/// What the management library tells of a device.
#[pyfunction]
fn _nvml_ask(py: Python<'_>, device: u8, question: &str) -> PyResult<u64> {
    let question = match question {
        "utilization" => Question::Busy,
        "memory_usage" => Question::MemoryBusy,
        "temperature" => Question::Temperature,
        "power_draw" => Question::Power,
        "clock_rate" => Question::Clock,
        "device_memory_used" => Question::UsedMemory,
        other => return Err(PyValueError::new_err(format!("no such question: {other}"))),
    };
    py.detach(|| card::select(device).and_then(|card| nvml::ask(card, question))).map_err(raise)
}

/// The processes that compute on a device: their numbers, and the bytes that they have.
#[pyfunction]
fn _nvml_processes(py: Python<'_>, device: u8) -> PyResult<Vec<(u32, u64)>> {
    let found = py.detach(|| card::select(device).and_then(nvml::processes)).map_err(raise)?;
    Ok(found.into_iter().map(|process| (process.id, process.bytes)).collect())
}

/// The architectures for which kernels can be compiled, such as 90.
#[pyfunction]
fn _cuda_architectures(py: Python<'_>) -> Vec<i32> {
    py.detach(program::architectures)
}

#[pyfunction]
fn _cudart_host_register(address: usize, nbytes: usize, flags: u32) -> PyResult<u32> {
    runtime::host_register(address, nbytes, flags).map_err(raise)
}

#[pyfunction]
fn _cudart_host_unregister(address: usize) -> PyResult<u32> {
    runtime::host_unregister(address).map_err(raise)
}

/// Begins what a profiler collects, or ends it.
#[pyfunction]
fn _cudart_profile(begins: bool) -> PyResult<u32> {
    if begins { runtime::profiler_start() } else { runtime::profiler_stop() }.map_err(raise)
}

/// Stores the handle of a new stream at an address.
#[pyfunction]
fn _cudart_stream_create(address: usize) -> PyResult<u32> {
    // SAFETY: the program says that a handle can be written there.
    unsafe { runtime::stream_create(address) }.map_err(raise)
}

#[pyfunction]
fn _cudart_stream_destroy(stream: usize) -> PyResult<u32> {
    runtime::stream_destroy(stream).map_err(raise)
}

#[pyfunction]
fn _cudart_error_string(status: u32) -> PyResult<String> {
    runtime::error_string(status).map_err(raise)
}

/// The device whose memory an address is in.
#[pyfunction]
fn _cuda_device_of(address: usize) -> PyResult<u8> {
    runtime::device_of(address).map_err(raise)
}

/// Makes the current stream wait for the work of another one, by its handle.
#[pyfunction]
fn _cuda_wait_for(device: u8, handle: usize) -> PyResult<()> {
    let wait = || {
        card::select(device)?;
        stream::put_in_order(device, StreamId(handle), stream::current(device))
    };
    wait().map_err(raise)
}

/// The handle of cuSOLVER, or of cuBLAS, of the current stream; None if the library is not installed.
#[pyfunction]
fn _cuda_library_handle(py: Python<'_>, solver: bool) -> PyResult<Option<usize>> {
    let found = || {
        let card = card::select(card::current())?;
        Ok(cusolver::program_handle(solver, card, stream::current(card.index)))
    };
    py.detach(found).map_err(raise)
}

/// Sets what happens when a call waits for a device: nothing, a warning or an error.
#[pyfunction]
fn _cuda_set_sync_debug_mode(mode: u8) {
    waits::set_mode(mode);
}

#[pyfunction]
fn _cuda_get_sync_debug_mode() -> u8 {
    waits::mode()
}

/// Tells `cuda/_observer.py` of each wait for a stream, or not any more.
#[pyfunction]
fn _cuda_watch_waits(watch: bool) {
    waits::set_watcher(watch.then_some(tell));
}

fn tell(stream: StreamId) -> rushlight::Result<()> {
    attach::acquire(|py| {
        let waited = py.import(intern!(py, "rushlight.cuda._observer"))?.getattr(intern!(py, "waited"))?;
        waited.call1((stream.0,)).map(drop)
    })
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyDeviceRange>()?;
    for function in [
        wrap_pyfunction!(_nvtx_mark, module)?,
        wrap_pyfunction!(_nvtx_push, module)?,
        wrap_pyfunction!(_nvtx_pop, module)?,
        wrap_pyfunction!(_nvtx_start, module)?,
        wrap_pyfunction!(_nvtx_end, module)?,
        wrap_pyfunction!(_nvtx_device_start, module)?,
        wrap_pyfunction!(_nvtx_device_end, module)?,
        wrap_pyfunction!(_nvtx_emit, module)?,
        wrap_pyfunction!(_nvml_is_available, module)?,
        wrap_pyfunction!(_nvml_ask, module)?,
        wrap_pyfunction!(_nvml_processes, module)?,
        wrap_pyfunction!(_cuda_architectures, module)?,
        wrap_pyfunction!(_cudart_host_register, module)?,
        wrap_pyfunction!(_cudart_host_unregister, module)?,
        wrap_pyfunction!(_cudart_profile, module)?,
        wrap_pyfunction!(_cudart_stream_create, module)?,
        wrap_pyfunction!(_cudart_stream_destroy, module)?,
        wrap_pyfunction!(_cudart_error_string, module)?,
        wrap_pyfunction!(_cuda_device_of, module)?,
        wrap_pyfunction!(_cuda_wait_for, module)?,
        wrap_pyfunction!(_cuda_library_handle, module)?,
        wrap_pyfunction!(_cuda_set_sync_debug_mode, module)?,
        wrap_pyfunction!(_cuda_get_sync_debug_mode, module)?,
        wrap_pyfunction!(_cuda_watch_waits, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
