//! `torch.cuda`: devices, their memory, streams and events.

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rushlight_cuda::allocator::Count;
use rushlight_cuda::card::{self, Card};
use rushlight_cuda::stream::{Event, Stream};
use rushlight_cuda::{driver, memory};

use crate::errors::raise;
use crate::object;

/// The number of CUDA devices; zero if there is no driver.
#[pyfunction]
fn _cuda_device_count() -> usize {
    driver::device_count()
}

/// Whether this process was forked from one that had loaded the driver.
#[pyfunction]
fn _cuda_is_in_bad_fork() -> bool {
    driver::is_in_forked_child()
}

#[pyfunction]
fn _cuda_is_initialized() -> bool {
    driver::is_initialized()
}

#[pyfunction]
fn _cuda_init() -> PyResult<()> {
    driver::initialize().map(drop).map_err(raise)
}

/// The error for what rushlight does not have on CUDA devices: torch's for a machine without a driver, if there is none.
#[pyfunction]
fn _refuse_cuda() -> PyResult<()> {
    driver::initialize().map_err(raise)?;
    Err(PyNotImplementedError::new_err("rushlight does not have this for CUDA yet"))
}

#[pyfunction]
fn _cuda_current_device() -> PyResult<u8> {
    driver::initialize().map_err(raise)?;
    Ok(card::current())
}

/// Makes a device current; returns the previous one.
#[pyfunction]
fn _cuda_set_device(device: u8) -> PyResult<u8> {
    card::set_current(device).map_err(raise)
}

#[pyfunction]
fn _cuda_synchronize(py: Python<'_>, device: u8) -> PyResult<()> {
    py.detach(|| card::select(device).and_then(Card::synchronize)).map_err(raise)
}

/// The properties of a device, by their names in torch.
#[pyfunction]
fn _cuda_properties(py: Python<'_>, device: u8) -> PyResult<Bound<'_, PyDict>> {
    let known = &card::select(device).map_err(raise)?.properties;
    let dict = PyDict::new(py);
    dict.set_item("name", &known.name)?;
    dict.set_item("major", known.major)?;
    dict.set_item("minor", known.minor)?;
    dict.set_item("total_memory", known.total_memory)?;
    dict.set_item("multi_processor_count", known.multiprocessors)?;
    dict.set_item("max_threads_per_multi_processor", known.threads_per_multiprocessor)?;
    dict.set_item("max_threads_per_block", known.threads_per_block)?;
    dict.set_item("warp_size", known.warp_size)?;
    dict.set_item("shared_memory_per_block", known.shared_memory_per_block)?;
    dict.set_item("regs_per_multiprocessor", known.registers_per_multiprocessor)?;
    dict.set_item("L2_cache_size", known.second_level_cache)?;
    dict.set_item("uuid", known.uuid)?;
    Ok(dict)
}

/// The free and the whole memory of a device, in bytes.
#[pyfunction]
fn _cuda_memory_info(device: u8) -> PyResult<(usize, usize)> {
    card::select(device).and_then(Card::memory_info).map_err(raise)
}

/// The statistics of a device's allocator: now, the peak, and the sums of increases and decreases.
#[pyfunction]
fn _cuda_memory_statistics(py: Python<'_>, device: u8) -> PyResult<Bound<'_, PyDict>> {
    let all = memory::statistics(device);
    let numbers = |count: Count| (count.current, count.peak, count.allocated, count.freed);
    let dict = PyDict::new(py);
    dict.set_item("allocation", numbers(all.blocks))?;
    dict.set_item("allocated_bytes", numbers(all.bytes))?;
    dict.set_item("requested_bytes", numbers(all.requested))?;
    dict.set_item("segment", numbers(all.segments))?;
    dict.set_item("reserved_bytes", numbers(all.reserved))?;
    dict.set_item("num_alloc_retries", all.retries)?;
    dict.set_item("num_ooms", all.out_of_memory)?;
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

/// The blocks of a device: address, size, requested size, segment, stream, and whether it is free.
#[pyfunction]
fn _cuda_memory_blocks(device: u8) -> Vec<(usize, usize, usize, usize, usize, bool)> {
    let blocks = memory::snapshot(device).into_iter();
    blocks
        .map(|piece| (piece.address, piece.size, piece.requested, piece.segment, piece.stream.0, piece.free))
        .collect()
}

/// Records that work on a stream uses the memory of a tensor.
#[pyfunction]
fn _cuda_record_stream(tensor: &Bound<'_, PyAny>, stream: &Bound<'_, PyStream>) -> PyResult<()> {
    object::tensor(tensor)?.storage().pin_on(stream.get().0.id()).map(drop).map_err(raise)
}

/// This thread's current stream of a device.
#[pyfunction]
fn _cuda_current_stream(device: u8) -> PyResult<PyStream> {
    card::select(device).map_err(raise)?;
    Ok(PyStream(Stream::current(device)))
}

#[pyfunction]
fn _cuda_default_stream(device: u8) -> PyResult<PyStream> {
    card::select(device).map_err(raise)?;
    Ok(PyStream(Stream::default_of(device)))
}

/// A stream, in which `torch.cuda.Stream` is wrapped.
#[pyclass(frozen, name = "_CudaStream", module = "rushlight._C")]
pub struct PyStream(Stream);

#[pymethods]
impl PyStream {
    #[new]
    fn new(device: u8, priority: i32) -> PyResult<Self> {
        Stream::new(device, priority).map(PyStream).map_err(raise)
    }

    #[getter]
    fn device(&self) -> u8 {
        self.0.device()
    }

    #[getter]
    fn handle(&self) -> usize {
        self.0.id().0
    }

    fn set_current(&self) {
        self.0.set_current();
    }

    fn query(&self) -> PyResult<bool> {
        self.0.query().map_err(raise)
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(raise)
    }

    fn wait_event(&self, event: &Bound<'_, PyEvent>) -> PyResult<()> {
        self.0.wait(&event.get().0).map_err(raise)
    }
}

/// An event, in which `torch.cuda.Event` is wrapped.
#[pyclass(frozen, name = "_CudaEvent", module = "rushlight._C")]
pub struct PyEvent(Event);

#[pymethods]
impl PyEvent {
    #[new]
    fn new(device: u8, timed: bool) -> PyResult<Self> {
        Event::new(device, timed).map(PyEvent).map_err(raise)
    }

    #[getter]
    fn device(&self) -> u8 {
        self.0.device()
    }

    fn record(&self, stream: &Bound<'_, PyStream>) -> PyResult<()> {
        self.0.record(stream.get().0.id()).map_err(raise)
    }

    fn query(&self) -> PyResult<bool> {
        self.0.query().map_err(raise)
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.synchronize()).map_err(raise)
    }

    fn elapsed_time(&self, later: &Bound<'_, PyEvent>) -> PyResult<f32> {
        self.0.elapsed_to(&later.get().0).map_err(raise)
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStream>()?;
    module.add_class::<PyEvent>()?;
    for function in [
        wrap_pyfunction!(_cuda_device_count, module)?,
        wrap_pyfunction!(_cuda_is_in_bad_fork, module)?,
        wrap_pyfunction!(_cuda_is_initialized, module)?,
        wrap_pyfunction!(_cuda_init, module)?,
        wrap_pyfunction!(_refuse_cuda, module)?,
        wrap_pyfunction!(_cuda_current_device, module)?,
        wrap_pyfunction!(_cuda_set_device, module)?,
        wrap_pyfunction!(_cuda_synchronize, module)?,
        wrap_pyfunction!(_cuda_properties, module)?,
        wrap_pyfunction!(_cuda_memory_info, module)?,
        wrap_pyfunction!(_cuda_memory_statistics, module)?,
        wrap_pyfunction!(_cuda_reset_memory_peaks, module)?,
        wrap_pyfunction!(_cuda_reset_memory_sums, module)?,
        wrap_pyfunction!(_cuda_empty_cache, module)?,
        wrap_pyfunction!(_cuda_memory_blocks, module)?,
        wrap_pyfunction!(_cuda_record_stream, module)?,
        wrap_pyfunction!(_cuda_current_stream, module)?,
        wrap_pyfunction!(_cuda_default_stream, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
