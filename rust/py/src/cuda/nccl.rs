//! Communicators of NCCL, for `distributed/_nccl.py`, which makes groups of them.

use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rushlight::{DType, Device, Tensor};
use rushlight_core::Error;
use rushlight_cuda::nccl::communicator::{Communicator, Description, Exchange, Reduction, Values, Work};
use rushlight_cuda::nccl::functions::{self, Settings, UniqueId, code_of};

use crate::attach::{idle, look};
use crate::errors::raise;
use crate::object;

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A call of NCCL in Python: its name, what is read, what is written, a rank, a reduction by torch's number.
type Call<'py> = (String, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, c_int, Option<usize>);

/// What errors say of calls, as `Description` has it.
type DescriptionParts = (String, usize, u64, String, [usize; 2], Option<(usize, i64)>);

/// What a program chooses for a communicator, as `Settings` has it.
type SettingParts = (i32, Option<c_int>, Option<c_int>, Option<c_int>, Option<CString>);

/// The calls that were enqueued together.
#[pyclass(name = "_NcclWork", module = "rushlight._C", frozen)]
struct PyWork(Arc<Work>);

#[pymethods]
impl PyWork {
    /// Makes the current stream wait; with a timeout the host waits too.
    #[pyo3(signature = (timeout=None, /))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        if let Some(timeout) = timeout.map(seconds).transpose()? {
            idle(py, || self.0.wait_on_host(timeout, &mut look)).map_err(raise)?;
        }
        self.0.wait().map_err(raise)
    }

    /// Whether the calls are over, with or without success.
    fn is_completed(&self) -> bool {
        self.0.is_over()
    }

    /// Whether the calls are over and have not failed.
    fn is_success(&self) -> bool {
        self.0.is_over() && self.0.failure().is_none()
    }

    /// The exception of what failed.
    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.0.failure().map(|error| raise(error.clone()).into_value(py).into_any())
    }
}

/// One rank's part of some ranks, each with a device.
#[pyclass(name = "_NcclCommunicator", module = "rushlight._C", frozen)]
struct PyCommunicator(Arc<Communicator>);

#[pymethods]
impl PyCommunicator {
    #[new]
    #[pyo3(signature = (id, rank, size, device, timeout, settings=None))]
    fn new(
        py: Python<'_>,
        id: [u8; 128],
        rank: c_int,
        size: c_int,
        device: u8,
        timeout: f64,
        settings: Option<SettingParts>,
    ) -> PyResult<Self> {
        let timeout = seconds(timeout)?;
        let (priority, group_size, fewest_blocks, most_blocks, network) = settings.unwrap_or_default();
        let settings = Settings { priority, group_size, fewest_blocks, most_blocks, network };
        let made = idle(py, || Communicator::join(device, UniqueId(id), rank, size, &settings, timeout, &mut look));
        Ok(PyCommunicator(Arc::new(made.map_err(raise)?)))
    }

    /// The priority of the communicator's stream.
    fn priority(&self) -> PyResult<i32> {
        self.0.stream().priority().map_err(raise)
    }

    /// Enqueues calls as one, after the work of the current stream. Errors say of them to which group and rank they belong, how many
    /// the group has made, torch's name of the operation, how many elements are read and written, and the peer and tag of a message.
    fn call(&self, py: Python<'_>, calls: Vec<Call<'_>>, what: DescriptionParts, timeout: f64) -> PyResult<PyWork> {
        let timeout = seconds(timeout)?;
        let (group, rank, number, operation, elements, message) = what;
        let what = Description { group, rank, number, operation, elements, message };
        let calls = calls.iter().map(|call| self.exchange(call)).collect::<PyResult<Vec<_>>>()?;
        // SAFETY: `exchange` has found the values on the device and recorded the communicator's stream as their user.
        let work = idle(py, || unsafe { self.0.call(&calls, what, timeout, &mut look) });
        work.map(PyWork).map_err(raise)
    }

    /// Ends the communicator at once.
    fn abort(&self, py: Python<'_>) {
        idle(py, || self.0.abort());
    }

    /// Ends the communicator once its calls have run.
    fn end(&self, py: Python<'_>, timeout: f64) -> PyResult<()> {
        let timeout = seconds(timeout)?;
        idle(py, || self.0.end(timeout, &mut look)).map_err(raise)
    }
}

impl PyCommunicator {
    fn exchange(&self, (name, input, output, rank, reduction): &Call<'_>) -> PyResult<Exchange> {
        let lacking = || PyValueError::new_err(format!("{name} lacks a tensor"));
        let tensor = |given: &Option<Bound<'_, PyAny>>, written| match given {
            Some(given) => self.values(object::tensor(given)?, written),
            None => Err(lacking()),
        };
        let read = || tensor(input, false);
        let write = || tensor(output, true);
        let root = *rank;
        let reduced = || match output {
            Some(output) => reduction_of(*reduction, object::tensor(output)?.dtype()),
            None => Err(lacking()),
        };
        Ok(match name.as_str() {
            "all_reduce" => Exchange::AllReduce { from: read()?, to: write()?, reduction: reduced()? },
            "broadcast" => Exchange::Broadcast { values: write()?, root },
            "reduce" => Exchange::Reduce { from: read()?, to: write()?, reduction: reduced()?, root },
            "all_gather" => Exchange::AllGather { from: read()?, to: write()? },
            "reduce_scatter" => Exchange::ReduceScatter { from: read()?, to: write()?, reduction: reduced()? },
            "send" => Exchange::Send { values: read()?, peer: root },
            "receive" => Exchange::Receive { values: write()?, peer: root },
            _ => return Err(PyValueError::new_err(format!("NCCL has no call {name}"))),
        })
    }

    /// The elements of a contiguous tensor on the communicator's device, whose memory is held for its stream.
    fn values(&self, tensor: &Tensor, written: bool) -> PyResult<Values> {
        let device = self.0.device();
        if tensor.device() != Device::Cuda(device) {
            return Err(raise(Error::runtime(format!(
                "a call of tensors on cuda:{device} has one on {}",
                tensor.device()
            ))));
        }
        if !tensor.layout().is_contiguous() || tensor.is_lazy_conj() {
            return Err(PyValueError::new_err("Tensors must be contiguous"));
        }
        let dtype = tensor.dtype();
        let Some((code, each)) = code_of(dtype) else {
            return Err(PyTypeError::new_err(format!(
                "Input tensor data type is not supported for NCCL process group: {}\n  Its bytes can be sent: tensor.view(torch.uint8).",
                dtype.display_name()
            )));
        };
        let storage = tensor.storage();
        if written && storage.is_read_only() {
            return Err(raise(Error::runtime("a collective call cannot write to read-only memory")));
        }
        let count = tensor.numel();
        let start = storage.pin_on(self.0.stream().id()).map_err(raise)?.address();
        let offset = if count == 0 { 0 } else { tensor.layout().offset.cast_unsigned() * dtype.size() };
        Ok(Values { address: start + offset, count: count * each, code })
    }
}

/// How NCCL makes a reduction, by torch's number, of a dtype.
fn reduction_of(number: Option<usize>, dtype: DType) -> PyResult<Reduction> {
    let float8 = DType::FLOAT8.contains(&dtype);
    if float8 {
        return Err(raise(Error::runtime("Unsupported Float8 type for NCCL reduction")));
    }
    let refuse = |name: &str, why: &str| Err(PyValueError::new_err(format!("Cannot use ReduceOp.{name} with {why}")));
    let complex = dtype.is_complex();
    Ok(match (number, dtype) {
        // The sum of truth values is true if one of them is.
        (Some(0), DType::Bool) => Reduction::Max,
        (Some(2), DType::Bool) => Reduction::Min,
        (Some(1), DType::Bool) => return Err(PyTypeError::new_err("Cannot use ReduceOp.AVG with boolean inputs")),
        (Some(0), _) => Reduction::Sum,
        (Some(1), _) => Reduction::Average,
        (Some(number @ 2..=4), _) if complex => {
            return refuse(["PRODUCT", "MIN", "MAX"][number - 2], "complex tensors and NCCL");
        }
        (Some(2), _) => Reduction::Product,
        (Some(3), _) => Reduction::Min,
        (Some(4), _) => Reduction::Max,
        (Some(5), _) => return refuse("BAND", "NCCL"),
        (Some(6), _) => return refuse("BOR", "NCCL"),
        (Some(7), _) => return refuse("BXOR", "NCCL"),
        _ => return Err(PyValueError::new_err("Unhandled ReduceOp")),
    })
}

/// Whether NCCL can be used.
#[pyfunction]
fn _nccl_is_available(py: Python<'_>) -> bool {
    py.detach(functions::is_available)
}

/// The version of NCCL: 22703 is 2.27.3.
#[pyfunction]
fn _nccl_version(py: Python<'_>) -> Option<i32> {
    py.detach(functions::version)
}

/// A new id, for the ranks of one communicator; an error that names the package if NCCL is not installed.
#[pyfunction]
fn _nccl_unique_id(py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    Ok(PyBytes::new(py, &py.detach(functions::new_id).map_err(raise)?.0))
}

/// Raises an error that names the package if NCCL is not installed.
#[pyfunction]
fn _nccl_check(py: Python<'_>) -> PyResult<()> {
    py.detach(|| functions::functions().map(drop)).map_err(raise)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyWork>()?;
    module.add_class::<PyCommunicator>()?;
    for function in [
        wrap_pyfunction!(_nccl_is_available, module)?,
        wrap_pyfunction!(_nccl_version, module)?,
        wrap_pyfunction!(_nccl_unique_id, module)?,
        wrap_pyfunction!(_nccl_check, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
