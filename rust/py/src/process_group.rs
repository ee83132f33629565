//! The groups of `rushlight-dist` for `distributed/`, which translates torch's interface into their calls.

use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rushlight::{Device, Tensor};
use rushlight_core::Error;
use rushlight_dist::companion::{self, Settings};
use rushlight_dist::group::{self, Collective, Group, Outcome, Places, Reduction, Span, Work};

use crate::attach::{idle, look};
use crate::errors::raise;
use crate::memory_access::with_memory;
use crate::object;
use crate::storage::PyStorage;

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The bytes of a contiguous tensor on the CPU.
fn span(tensor: &Tensor, written: bool) -> PyResult<Span> {
    with_memory(tensor)?;
    if tensor.device() != Device::Cpu {
        return Err(raise(Error::runtime(format!("No backend type associated with device type {}", tensor.device()))));
    }
    if !tensor.layout().is_contiguous() || tensor.is_lazy_conj() {
        return Err(raise(Error::value("Tensors must be contiguous")));
    }
    let storage = tensor.storage().clone();
    if written && storage.is_read_only() {
        return Err(raise(Error::runtime("a collective call cannot write to read-only memory")));
    }
    let bytes = tensor.numel() * tensor.dtype().size();
    let offset = if bytes == 0 { 0 } else { tensor.layout().offset.cast_unsigned() * tensor.dtype().size() };
    Ok(Span { storage, offset, bytes })
}

fn spans(tensors: &[Bound<'_, PyAny>], written: bool) -> PyResult<Vec<Span>> {
    tensors.iter().map(|tensor| span(object::tensor(tensor)?, written)).collect()
}

/// What is under way in a group.
#[pyclass(name = "_GroupWork", module = "rushlight._C", frozen)]
struct PyWork {
    group: Arc<Group>,
    work: Arc<Work>,
}

#[pymethods]
impl PyWork {
    /// Waits, and returns the rank that sent a received message.
    #[pyo3(signature = (timeout=None, /))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<usize>> {
        let patience = timeout.map(seconds).transpose()?;
        let outcome: Outcome = idle(py, || self.group.wait(&self.work, patience, &mut look));
        outcome.map_err(raise)
    }

    /// Whether it is over, with or without success.
    fn is_completed(&self) -> bool {
        self.group.poll(&self.work).is_some()
    }

    /// Whether it is over and has not failed.
    fn is_success(&self) -> bool {
        matches!(self.group.poll(&self.work), Some(Ok(_)))
    }

    /// The exception of what failed.
    fn exception(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self.group.poll(&self.work) {
            Some(Err(error)) => Some(raise(error).into_value(py).into_any()),
            _ => None,
        }
    }
}

/// This process's part of a group whose shared memory is a storage. `machines` has the number of each rank's machine.
#[pyclass(name = "_ProcessGroup", module = "rushlight._C", frozen)]
struct PyGroup(Arc<Group>);

#[pymethods]
impl PyGroup {
    #[new]
    fn new(storage: &Bound<'_, PyStorage>, rank: usize, machines: Vec<usize>) -> PyResult<Self> {
        let own = machines.get(rank).copied();
        let own = own.ok_or_else(|| PyValueError::new_err(format!("rank {rank} of {}", machines.len())))?;
        let places = Places::new(machines, own).map_err(raise)?;
        Ok(PyGroup(Arc::new(Group::join(storage.get().storage.clone(), rank, places).map_err(raise)?)))
    }

    /// Makes a collective call of all ranks; begins it only, and returns its work, if `asynchronous`.
    #[pyo3(signature = (name, inputs, outputs, root, reduction, timeout, asynchronous, /))]
    fn call(
        &self,
        py: Python<'_>,
        name: &str,
        inputs: Vec<Bound<'_, PyAny>>,
        outputs: Vec<Bound<'_, PyAny>>,
        root: usize,
        reduction: Option<usize>,
        timeout: f64,
        asynchronous: bool,
    ) -> PyResult<Option<PyWork>> {
        let timeout = seconds(timeout)?;
        let collective = self.collective(name, &inputs, &outputs, root, reduction)?;
        if asynchronous {
            let work = self.0.begin(collective, timeout).map_err(raise)?;
            return Ok(Some(PyWork { group: self.0.clone(), work }));
        }
        idle(py, || self.0.call(&collective, timeout, &mut look)).map_err(raise)?;
        Ok(None)
    }

    /// Begins to send a tensor. `background` if the caller does not wait at once.
    #[pyo3(signature = (tensor, to, tag, timeout, background, /))]
    fn send(&self, tensor: &Bound<'_, PyAny>, to: usize, tag: u32, timeout: f64, background: bool) -> PyResult<PyWork> {
        let span = span(object::tensor(tensor)?, false)?;
        let work = self.0.send(span, to, tag, seconds(timeout)?).map_err(raise)?;
        self.begun(work, background)
    }

    /// Begins to receive a tensor, from any rank if `from_` is None.
    #[pyo3(signature = (tensor, from_, tag, timeout, background, /))]
    fn receive(
        &self,
        tensor: &Bound<'_, PyAny>,
        from_: Option<usize>,
        tag: u32,
        timeout: f64,
        background: bool,
    ) -> PyResult<PyWork> {
        let span = span(object::tensor(tensor)?, true)?;
        let work = self.0.receive(span, from_, tag, seconds(timeout)?).map_err(raise)?;
        self.begun(work, background)
    }

    /// Leaves the group.
    fn leave(&self, py: Python<'_>) {
        idle(py, || self.0.leave());
    }
}

impl PyGroup {
    fn begun(&self, work: Arc<Work>, background: bool) -> PyResult<PyWork> {
        if background {
            self.0.move_messages().map_err(raise)?;
        }
        Ok(PyWork { group: self.0.clone(), work })
    }

    fn collective(
        &self,
        name: &str,
        inputs: &[Bound<'_, PyAny>],
        outputs: &[Bound<'_, PyAny>],
        root: usize,
        reduction: Option<usize>,
    ) -> PyResult<Collective> {
        let ranks = self.0.ranks();
        if root >= ranks {
            return Err(PyValueError::new_err(format!("rank {root} is not in a group of {ranks}")));
        }
        if inputs.len() > ranks || outputs.len() > ranks {
            return Err(PyValueError::new_err(format!("more tensors than the {ranks} ranks of the group")));
        }
        let taken = match inputs.first().or(outputs.first()) {
            Some(tensor) => Some(object::tensor(tensor)?.dtype()),
            None => None,
        };
        let reduced = || -> PyResult<_> {
            let dtype = taken.ok_or_else(|| PyValueError::new_err(format!("{name} needs a tensor")))?;
            let reduction = reduction.and_then(|index| Reduction::ALL.get(index));
            let reduction = reduction.ok_or_else(|| PyValueError::new_err(format!("{name} needs a reduction")))?;
            group::check(*reduction, dtype).map_err(raise)?;
            Ok((dtype, *reduction))
        };
        let whole = |spans: &[Span]| match spans.len() {
            count if count == ranks => Ok(()),
            count => Err(PyValueError::new_err(format!("{name}: {count} tensors for {ranks} ranks"))),
        };
        let (mut given, mut got) = (spans(inputs, false)?, spans(outputs, true)?);
        Ok(match (name, given.len(), got.len()) {
            ("all_reduce", 0, 1) => {
                let (dtype, reduction) = reduced()?;
                Collective::AllReduce { span: got.remove(0), dtype, reduction }
            }
            ("reduce", 0, 1) => {
                let (dtype, reduction) = reduced()?;
                Collective::Reduce { span: got.remove(0), dtype, reduction, root }
            }
            ("broadcast", 0, 1) => Collective::Broadcast { span: got.remove(0), root },
            ("all_gather", 1, _) => {
                whole(&got)?;
                Collective::AllGather { input: given.remove(0), outputs: got }
            }
            ("gather", 1, count) if count == 0 || count == ranks => {
                Collective::Gather { input: given.remove(0), outputs: got, root }
            }
            ("scatter", count, 1) if count == 0 || count == ranks => {
                Collective::Scatter { inputs: given, output: got.remove(0), root }
            }
            ("reduce_scatter", _, 1) => {
                let (dtype, reduction) = reduced()?;
                whole(&given)?;
                Collective::ReduceScatter { inputs: given, output: got.remove(0), dtype, reduction }
            }
            ("all_to_all", ..) => {
                whole(&given)?;
                whole(&got)?;
                Collective::AllToAll { inputs: given, outputs: got }
            }
            ("barrier", 0, 0) => Collective::Barrier,
            (_, given, got) => {
                let problem = format!("no collective call {name} has {given} inputs and {got} outputs");
                return Err(PyValueError::new_err(problem));
            }
        })
    }
}

/// The bytes of shared memory that a group needs on a machine. `machines` has the number of each rank's machine.
#[pyfunction]
fn _group_bytes(machines: Vec<usize>, own: usize) -> PyResult<usize> {
    Ok(group::size(&Places::new(machines, own).map_err(raise)?))
}

/// Serves the ranks of a machine as the companion of a group, until they are gone.
#[pyfunction]
#[pyo3(signature = (storage, machines, own, addresses, secret, name, library, timeout, listener, /))]
fn _serve_companion(
    storage: &Bound<'_, PyStorage>,
    machines: Vec<usize>,
    own: usize,
    addresses: Vec<(String, u16)>,
    secret: String,
    name: String,
    library: String,
    timeout: f64,
    listener: Option<i32>,
) -> PyResult<()> {
    let places = Places::new(machines, own).map_err(raise)?;
    let settings = Settings { addresses, secret, name, library, timeout: seconds(timeout)? };
    // SAFETY: the caller gives a descriptor that nothing else closes.
    let listener = listener.map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) });
    companion::run(storage.get().storage.clone(), places, &settings, listener).map_err(raise)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyWork>()?;
    module.add_class::<PyGroup>()?;
    module.add_function(wrap_pyfunction!(_serve_companion, module)?)?;
    module.add_function(wrap_pyfunction!(_group_bytes, module)?)
}
