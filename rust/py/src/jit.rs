//! `jit.fork` and `jit.wait`: Python callables as tasks of `rushlight-jit`.

use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rushlight_jit::{Future, Progress};

use crate::attach::{attached, idle};
use crate::reclaim::Held;

/// How long a wait sleeps before it looks for signals, so that Ctrl-C is heard.
const NAP: Duration = Duration::from_millis(50);

/// What a call gave: its value, or the exception that it raised.
type Answer = Result<Held, Held>;

/// What a call gave: its value, or the exception that it raised; `torch.jit.fork` makes one.
///
/// >>> future = torch.jit.fork(max, 1, 2)
/// >>> future.wait(), future.done()
/// (2, True)
#[pyclass(name = "Future", module = "rushlight.jit", frozen, generic)]
struct PyFuture(Arc<Future<Answer>>);

#[pymethods]
impl PyFuture {
    /// wait()
    /// --
    ///
    /// The value of the call, as soon as there is one. What the call raised is raised here, with its traceback.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // A call that nobody has begun is made here: so nested waits end, however few threads there are.
        self.0.run();
        loop {
            match idle(py, || self.0.wait(NAP)) {
                Progress::Done => return self.value(py),
                Progress::Waiting => py.check_signals()?,
                Progress::Elsewhere => {
                    return Err(PyRuntimeError::new_err(
                        "the call runs in the process from which this one was forked, and its value never comes here.\n  \
                         Wait before the fork, or fork the call in the child.",
                    ));
                }
                Progress::Circular => {
                    return Err(PyRuntimeError::new_err(
                        "this call waits for a future that waits for this call.\n  Neither would ever end.",
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
    /// The value of a call that is done; RuntimeError while it is not.
    fn value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.0.get() {
            Some(Ok(Ok(value))) => Ok(value.get(py)),
            Some(Ok(Err(exception))) => Err(PyErr::from_value(exception.get(py).into_bound(py))),
            Some(Err(panic)) => {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                Err(pyo3::panic::PanicException::new_err(text.to_owned()))
            }
            None => Err(PyRuntimeError::new_err("Future is not completed yet.\n  wait() waits for it.")),
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
    let call = (Held::new(func), Held::new(args.into_any()), Held::new(kwargs.into_any()));
    PyFuture(rushlight_jit::fork(move || {
        let (func, args, kwargs) = call;
        attached(|py| {
            let called = || {
                let args = args.bind(py).cast_into::<PyTuple>()?;
                let kwargs = kwargs.bind(py).cast_into::<PyDict>()?;
                func.bind(py).call(args, Some(&kwargs))
            };
            match called() {
                Ok(value) => Ok(Held::new(value.unbind())),
                Err(error) => Err(Held::new(error.into_value(py).into_any())),
            }
        })
    }))
}

/// _close()
/// --
///
/// Begins no more calls and waits for those that run: the interpreter ends.
#[pyfunction]
fn _close(py: Python<'_>) {
    idle(py, rushlight_jit::close);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("_Future", module.py().get_type::<PyFuture>())?;
    module.add_function(wrap_pyfunction!(_fork, module)?)?;
    module.add_function(wrap_pyfunction!(_close, module)?)
}
