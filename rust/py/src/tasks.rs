//! `jit.fork` and `jit.wait`: Python callables as tasks of `rushlight-tasks`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rushlight_tasks::{Future, Progress};

use crate::attach::{attached, idle};
use crate::autograd::traverse;
use crate::reclaim::PyHandle;

/// How often a wait checks for signals, so that Ctrl-C works.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An object, until the garbage collector clears the future.
type Kept = Mutex<Option<PyHandle>>;

/// The result of a call: its value, or the exception that it raised.
type CallResult = Result<Kept, Kept>;

fn kept(object: &Kept) -> MutexGuard<'_, Option<PyHandle>> {
    object.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of a call on another thread: its value, or the exception that it raised. `torch.jit.fork` returns one.
///
/// >>> future = torch.jit.fork(max, 1, 2)
/// >>> future.wait(), future.done()
/// (2, True)
#[pyclass(name = "Future", module = "rushlight.jit", frozen, generic)]
struct PyFuture(Arc<Future<CallResult>>);

#[pymethods]
impl PyFuture {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let Some(Ok(Ok(object) | Err(object))) = self.0.get() else { return Ok(()) };
        // The thread that ran the call may still have its handle.
        if Arc::strong_count(&self.0) > 1 {
            return Ok(());
        }
        let address = kept(object).as_ref().map(PyHandle::as_ptr);
        traverse(&visit, |show| address.into_iter().for_each(show))
    }

    fn __clear__(&self) {
        if let Some(Ok(Ok(object) | Err(object))) = self.0.get() {
            let before = kept(object).take();
            drop(before);
        }
    }

    /// wait()
    /// --
    ///
    /// Waits for the call and returns its value. An exception of the call is raised here, with its traceback.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A call that has not begun runs here, so that nested waits end, however few threads there are.
        self.0.run();
        loop {
            match idle(py, || self.0.wait(POLL_INTERVAL)) {
                Progress::Done => return self.value(py),
                Progress::Waiting => py.check_signals()?,
                Progress::Elsewhere => {
                    return Err(PyRuntimeError::new_err(
                        "the call runs in the parent process, and its value is not available in a forked child.\n  \
                         Wait before the fork, or fork the call in the child.",
                    ));
                }
                Progress::Deadlock => {
                    return Err(PyRuntimeError::new_err(
                        "this call waits for a future that waits for this call.\n  This would never end.",
                    ));
                }
            }
        }
    }

    /// done()
    /// --
    ///
    /// Whether the call has returned or raised.
    fn done(&self) -> bool {
        self.0.get().is_some()
    }

    /// value()
    /// --
    ///
    /// The value of a finished call; RuntimeError before that.
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.0.get() {
            Some(Ok(Ok(value))) => Ok(kept(value).as_ref().map_or_else(|| py.None(), |value| value.get(py))),
            Some(Ok(Err(exception))) => {
                let exception = kept(exception).as_ref().map_or_else(|| py.None(), |exception| exception.get(py));
                Err(PyErr::from_value(exception.into_bound(py)))
            }
            Some(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                Err(pyo3::panic::PanicException::new_err(text.to_owned()))
            }
            None => Err(PyRuntimeError::new_err("Future is not completed yet.\n  Use wait() to wait for it.")),
        }
    }
}

/// _fork(func, args, kwargs)
/// --
///
/// Calls `func` on another thread; the Future has its value.
#[pyfunction]
#[pyo3(signature = (func, args, kwargs))]
fn _fork(func: Py<PyAny>, args: Py<PyTuple>, kwargs: Py<PyDict>) -> PyFuture {
    let call = (PyHandle::new(func), PyHandle::new(args.into_any()), PyHandle::new(kwargs.into_any()));
    PyFuture(rushlight_tasks::fork(move || {
        let (func, args, kwargs) = call;
        attached(|py| {
            let called = || {
                let args = args.bind(py).cast_into::<PyTuple>()?;
                let kwargs = kwargs.bind(py).cast_into::<PyDict>()?;
                func.bind(py).call(args, Some(&kwargs))
            };
            match called() {
                Ok(value) => Ok(Mutex::new(Some(PyHandle::new(value.unbind())))),
                Err(error) => Err(Mutex::new(Some(PyHandle::new(error.into_value(py).into_any())))),
            }
        })
    }))
}

/// _close(seconds)
/// --
///
/// Begins no more calls and waits for those that run, because the interpreter is about to exit; returns whether all have
/// returned.
#[pyfunction]
fn _close(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let patience = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(idle(py, || rushlight_tasks::close(patience)))
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_Future", module.py().get_type::<PyFuture>())?;
    module.add_function(wrap_pyfunction!(_fork, module)?)?;
    module.add_function(wrap_pyfunction!(_close, module)?)
}
