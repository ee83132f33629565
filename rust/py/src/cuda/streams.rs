//! Streams and events.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rushlight_core::device_memory::StreamId;
use rushlight_cuda::card;
use rushlight_cuda::green::GreenContext;
use rushlight_cuda::interruptible::{wait_for_event, wait_for_stream};
use rushlight_cuda::stream::{Event, Stream};

use crate::attach::{idle, look};
use crate::errors::raise;
use crate::object;

/// Records that work on a stream uses the memory of a tensor.
#[pyfunction]
fn _cuda_record_stream(tensor: &Bound<'_, PyAny>, stream: &Bound<'_, PyStream>) -> PyResult<()> {
    object::tensor(tensor)?.storage().pin_on(stream.get().0.id()).map(drop).map_err(raise)
}

/// The lowest and the highest priority of a stream of the current device.
#[pyfunction]
fn _cuda_priority_range() -> PyResult<(i32, i32)> {
    rushlight_cuda::stream::priorities().map_err(raise)
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

/// A part of a device's multiprocessors, which `torch.cuda.GreenContext` wraps.
#[pyclass(frozen, name = "_GreenContext", module = "rushlight._C")]
struct PyGreenContext(GreenContext);

#[pymethods]
impl PyGreenContext {
    #[new]
    fn new(device: u8, multiprocessors: u32) -> PyResult<Self> {
        GreenContext::new(device, multiprocessors).map(PyGreenContext).map_err(raise)
    }

    #[getter]
    fn device(&self) -> u8 {
        self.0.device()
    }

    /// A stream whose work runs on these multiprocessors.
    fn stream(&self) -> PyResult<PyStream> {
        self.0.stream().map(PyStream).map_err(raise)
    }
}

/// A stream, in which `torch.cuda.Stream` is wrapped.
#[pyclass(frozen, name = "_CudaStream", module = "rushlight._C")]
pub struct PyStream(pub Stream);

#[pymethods]
impl PyStream {
    #[new]
    fn new(device: u8, priority: i32) -> PyResult<Self> {
        Stream::new(device, priority).map(PyStream).map_err(raise)
    }

    /// A stream that another library has made.
    #[staticmethod]
    fn external(device: u8, handle: usize) -> PyResult<Self> {
        card::select(device).map_err(raise)?;
        Ok(PyStream(Stream::of(device, StreamId(handle))))
    }

    #[getter]
    fn device(&self) -> u8 {
        self.0.device()
    }

    #[getter]
    fn handle(&self) -> usize {
        self.0.id().0
    }

    #[getter]
    fn priority(&self) -> PyResult<i32> {
        self.0.priority().map_err(raise)
    }

    #[getter]
    fn is_capturing(&self) -> bool {
        rushlight_cuda::capture::is_capturing(self.0.device(), self.0.id())
    }

    fn set_current(&self) {
        self.0.set_current();
    }

    fn query(&self) -> PyResult<bool> {
        self.0.query().map_err(raise)
    }

    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        idle(py, || wait_for_stream(self.0, look)).map_err(raise)
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
    fn new(device: u8, timed: bool, shared: bool) -> PyResult<Self> {
        let made = if shared { Event::shared(device, timed) } else { Event::new(device, timed) };
        made.map(PyEvent).map_err(raise)
    }

    /// The event of another process.
    #[staticmethod]
    fn open(device: u8, name: [u8; 64]) -> PyResult<Self> {
        Event::open(device, name).map(PyEvent).map_err(raise)
    }

    /// The name of the event for other processes.
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.name().map_err(raise)?))
    }

    #[getter]
    fn handle(&self) -> usize {
        self.0.handle()
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
        idle(py, || wait_for_event(&self.0, look)).map_err(raise)
    }

    fn elapsed_time(&self, later: &Bound<'_, PyEvent>) -> PyResult<f32> {
        self.0.elapsed_to(&later.get().0).map_err(raise)
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyStream>()?;
    module.add_class::<PyGreenContext>()?;
    module.add_class::<PyEvent>()?;
    for function in [
        wrap_pyfunction!(_cuda_record_stream, module)?,
        wrap_pyfunction!(_cuda_priority_range, module)?,
        wrap_pyfunction!(_cuda_current_stream, module)?,
        wrap_pyfunction!(_cuda_default_stream, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
