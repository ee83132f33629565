//! `torch.Generator`: a handle on a stream of random numbers.

use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;
use rushlight::{DType, Device};
use rushlight_core::device_memory::StreamId;
use rushlight_cuda::{capture, replayed, stream};
use rushlight_dispatch::create;
use rushlight_dispatch::generator::{Counter, Generator};

use crate::dtype::{PyDevice, wanted_device};
use crate::errors::{kind_of, raise};
use crate::{object, scalars};

/// A stream of random numbers with a state of its own; the numbers are torch's for the same seed.
///
/// Args:
///     device: the CPU, or a CUDA device, by default the CPU. On a CUDA device the state is a seed and an offset.
///
/// Raises:
///     RuntimeError: another device, or there is no CUDA device.
///
/// >>> generator = torch.Generator().manual_seed(0)
/// >>> first = torch.rand(2, generator=generator)
/// >>> torch.equal(first, torch.rand(2, generator=generator.manual_seed(0)))
/// True
#[pyclass(frozen, name = "Generator", module = "rushlight", subclass, weakref)]
pub struct PyGenerator(pub Generator);

#[pymethods]
impl PyGenerator {
    #[new]
    #[pyo3(signature = (device=None))]
    fn new(device: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        match wanted_device("Generator", device)?.map(|device| device.placed()) {
            None | Some(Device::Cpu) => {}
            Some(device @ Device::Cuda(index)) => {
                if usize::from(index) >= rushlight_cuda::driver::initialize().map_err(raise)? {
                    return Err(PyRuntimeError::new_err("The device_index is invalid."));
                }
                return Ok(PyGenerator(Generator::fresh_on(device)));
            }
            Some(other) => return Err(PyRuntimeError::new_err(without_generators(other.kind()))),
        }
        Ok(PyGenerator(Generator::fresh()))
    }

    /// Restarts the stream from ``seed``, any integer of 64 bits (negative ones wrap around).
    ///
    /// Returns the generator.
    ///
    /// Raises:
    ///     RuntimeError: the seed is no integer.
    ///     ValueError: the seed needs more than 64 bits.
    ///
    /// >>> torch.manual_seed(0).initial_seed()
    /// 0
    fn manual_seed<'py>(slf: PyRef<'py, Self>, seed: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        if let Ok(None) = scalars::plain_int(seed) {
            let kind = kind_of(seed);
            return Err(PyRuntimeError::new_err(format!("manual_seed expected a long, but got {kind}")));
        }
        let seed = read_seed(seed)?;
        if !keeps_seed(&slf.0, seed)? {
            slf.0.manual_seed(seed);
        }
        Ok(slf)
    }

    /// Seeds from the system's randomness and returns the seed.
    ///
    /// >>> torch.Generator().seed() != torch.Generator().seed()
    /// True
    fn seed(&self) -> PyResult<u64> {
        refuse_captured(&self.0, "seed")?;
        Ok(self.0.seed())
    }

    /// The seed with which the stream began.
    ///
    /// >>> torch.Generator().manual_seed(3).initial_seed()
    /// 3
    fn initial_seed(&self) -> u64 {
        self.0.initial_seed()
    }

    /// The state as a tensor of bytes, interchangeable with torch's: 5056 for the CPU, 16 for a CUDA device. While work is recorded in a
    /// graph, the offset counts from where a run of the graph begins.
    ///
    /// >>> torch.Generator().get_state().shape
    /// torch.Size([5056])
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let state = match self.0.counter() {
            Some(counter) => {
                let captured = on_current_stream(&self.0, |device, stream| replayed::words(device, stream, &self.0))?;
                [counter.seed.to_le_bytes(), captured.unwrap_or(counter.offset).to_le_bytes()].concat()
            }
            None => self.0.draw(|stream| stream.state()),
        };
        object::wrap_bound(py, create::from_slice(&state).map_err(raise)?)
    }

    /// A new generator that continues from the same state.
    ///
    /// >>> generator = torch.Generator()
    /// >>> torch.equal(torch.rand(2, generator=generator.clone_state()), torch.rand(2, generator=generator))
    /// True
    fn clone_state(&self) -> PyResult<Self> {
        refuse_captured(&self.0, "clone_impl")?;
        let copy = Generator::fresh_on(self.0.device());
        match self.0.counter() {
            Some(counter) => copy.set_counter(counter),
            None => {
                let state = self.0.draw(|stream| stream.clone());
                copy.draw(|stream| *stream = state);
            }
        }
        Ok(PyGenerator(copy))
    }

    /// A generator that shares the state of this one: what either draws, the other does not draw again. Of a CUDA device only.
    ///
    /// Raises:
    ///     NotImplementedError: the generator is the CPU's.
    fn graphsafe_get_state(&self) -> PyResult<Self> {
        self.0.sharing_state().map(PyGenerator).ok_or_else(|| without_shared_state("graphsafe_get_state"))
    }

    /// Shares the state of another generator from now on; returns this generator. A graph that records work then draws from the shared
    /// state, if it was registered for the graph.
    ///
    /// Raises:
    ///     TypeError: the state is not a generator.
    ///     NotImplementedError: this generator is the CPU's.
    ///     RuntimeError: the other one is.
    fn graphsafe_set_state<'py>(slf: PyRef<'py, Self>, state: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        let Ok(other) = state.cast::<PyGenerator>() else {
            return Err(PyTypeError::new_err(format!("expected a Generator, but got {}", kind_of(state))));
        };
        if slf.0.device() == Device::Cpu {
            return Err(without_shared_state("graphsafe_set_state"));
        }
        if !slf.0.share_state(&other.get().0) {
            return Err(PyRuntimeError::new_err("Expected a CUDA Generator"));
        }
        Ok(slf)
    }

    /// Sets a state that `get_state` returned; returns the generator.
    ///
    /// Raises:
    ///     TypeError: the state is not a tensor of bytes.
    ///     RuntimeError: the bytes are not a state, or are not contiguous.
    fn set_state<'py>(slf: PyRef<'py, Self>, new_state: &Bound<'py, PyAny>) -> PyResult<PyRef<'py, Self>> {
        slf.restore(&state_bytes(new_state)?)?;
        Ok(slf)
    }

    /// The offset of a CUDA device's generator.
    ///
    /// Raises:
    ///     RuntimeError: the generator is the CPU's.
    fn get_offset(&self) -> PyResult<u64> {
        refuse_captured(&self.0, "get_offset")?;
        self.0.counter().map(|counter| counter.offset).ok_or_else(without_offset)
    }

    /// Sets the offset of a CUDA device's generator, a multiple of 4; returns the generator.
    ///
    /// Raises:
    ///     RuntimeError: the generator is the CPU's, or the offset is not a multiple of 4.
    fn set_offset(slf: PyRef<'_, Self>, offset: u64) -> PyResult<PyRef<'_, Self>> {
        refuse_captured(&slf.0, "set_offset")?;
        let counter = slf.0.counter().ok_or_else(without_offset)?;
        if !offset.is_multiple_of(4) {
            return Err(PyRuntimeError::new_err("offset must be a multiple of 4"));
        }
        slf.0.set_counter(Counter { offset, ..counter });
        Ok(slf)
    }

    fn __reduce__<'py>(slf: PyRef<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (PyDevice,), Bound<'py, PyAny>)> {
        let py = slf.py();
        Ok((py.get_type::<PyGenerator>().into_any(), (slf.0.device().into(),), slf.get_state(py)?))
    }

    fn __setstate__(&self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        self.restore(&state_bytes(state)?)
    }

    #[getter]
    fn device(&self) -> PyDevice {
        self.0.device().into()
    }
}

impl PyGenerator {
    fn restore(&self, bytes: &[u8]) -> PyResult<()> {
        if self.0.counter().is_none() {
            let set = self.0.draw(|stream| stream.set_state(bytes));
            return set.map_err(|error| PyRuntimeError::new_err(error.to_string()));
        }
        // torch also accepts a seed alone.
        let word = |at: usize| bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
        let (8 | 16, Some(seed), offset) = (bytes.len(), word(0), word(8).unwrap_or(0)) else {
            return Err(PyRuntimeError::new_err("RNG state is wrong size"));
        };
        if !keeps_seed(&self.0, seed)? {
            self.0.set_counter(Counter { seed, offset });
            return Ok(());
        }
        on_current_stream(&self.0, |device, stream| replayed::set_words(device, stream, &self.0, offset)).map(drop)
    }
}

/// What a function tells about the current stream of a generator's device; `None` for the CPU.
fn on_current_stream<T>(
    generator: &Generator,
    run: impl FnOnce(u8, StreamId) -> rushlight::Result<Option<T>>,
) -> PyResult<Option<T>> {
    match generator.device() {
        Device::Cuda(device) => run(device, stream::current(device)).map_err(raise),
        _ => Ok(None),
    }
}

/// Whether the numbers of a generator are being captured for a graph.
fn is_captured(generator: &Generator) -> bool {
    matches!(generator.device(), Device::Cuda(device) if capture::is_capturing(device, stream::current(device)))
}

/// Refuses what torch refuses while a generator's numbers are being captured.
fn refuse_captured(generator: &Generator, function: &str) -> PyResult<()> {
    if !is_captured(generator) {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "Cannot call CUDAGeneratorImpl::{function} during CUDA graph capture. If you need this call to be captured, please file an \
         issue. Current cudaStreamCaptureStatus: cudaStreamCaptureStatusActive"
    )))
}

/// Whether a generator must keep its seed, because its numbers are being captured for a graph. Another seed is refused then.
pub fn keeps_seed(generator: &Generator, seed: u64) -> PyResult<bool> {
    if !is_captured(generator) {
        return Ok(false);
    }
    if generator.initial_seed() == seed {
        return Ok(true);
    }
    Err(PyRuntimeError::new_err(
        "CUDAGeneratorImpl::set_current_seed can be called during stream capture only if new seed is the same as the original seed.",
    ))
}

fn without_shared_state(name: &str) -> PyErr {
    PyNotImplementedError::new_err(format!("{name} is not supported in this Generator"))
}

fn without_offset() -> PyErr {
    PyRuntimeError::new_err("CPU Generator does not use offset")
}

/// torch's sentence for a device type without generators.
fn without_generators(kind: &str) -> String {
    let upper = kind.to_ascii_uppercase();
    match kind {
        "mps" | "mtia" => format!("Cannot execute getNewGenerator() without {upper} backend."),
        "xpu" => "Cannot get XPU generator without ATen_xpu library.".into(),
        "xla" => "Cannot get XLA generator without torch_xla library.".into(),
        "hpu" | "hip" => "Backend doesn`t support getNewGenerator()".into(),
        "privateuseone" => {
            "Please register PrivateUse1HooksInterface by `RegisterPrivateUse1HooksInterface` first.".into()
        }
        _ => format!("{upper} device type not an accelerator."),
    }
}

fn state_bytes(state: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let other = |_| PyTypeError::new_err(format!("expected a torch.ByteTensor, but got {}", kind_of(state)));
    let tensor = object::tensor(state).map_err(other)?;
    if tensor.dtype() != DType::U8 {
        return Err(PyTypeError::new_err("RNG state must be a torch.ByteTensor"));
    }
    if !tensor.layout().is_contiguous() {
        return Err(PyRuntimeError::new_err("RNG state must be contiguous"));
    }
    rushlight::to_vec::<u8>(tensor).map_err(raise)
}

/// A seed as torch takes it: any integer of 64 bits; negative ones wrap around.
fn read_seed(seed: &Bound<'_, PyAny>) -> PyResult<u64> {
    let overflow = || PyValueError::new_err("Overflow when unpacking long long");
    let number = seed.py().get_type::<PyInt>().call1((seed,))?;
    number.extract::<u64>().or_else(|_| number.extract::<i64>().map(|n| n as u64)).map_err(|_| overflow())
}
