//! Saved-call hooks of `rushlight.utils.checkpoint`, which store the results of calls, in Python.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight::Tensor;
use rushlight_dispatch::call_cache;
use rushlight_dispatch::call_cache::CallCache;
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::value::Value;

use super::saved::object_of;
use crate::reclaim::PyHandle;
use crate::{attach, object};

/// An object with `lookup(namespace, name)` and `store(namespace, name, args, results)`.
struct PyCallCache(PyHandle);

impl CallCache for PyCallCache {
    fn lookup(&self, args: &Args) -> rushlight::Result<Option<Vec<Tensor>>> {
        attach::acquire(|py| {
            let found = self.0.bind(py).call_method1(intern!(py, "lookup"), (args.op.namespace, args.op.name))?;
            if found.is_none() {
                return Ok(None);
            }
            let own =
                |found: PyResult<Bound<'_, PyAny>>| found.and_then(|one| object::tensor(&one).map(Tensor::detach));
            found.try_iter()?.map(own).collect::<PyResult<_>>().map(Some)
        })
    }

    fn store(&self, args: &Args, results: &[Tensor]) -> rushlight::Result<()> {
        attach::acquire(|py| {
            let given: Vec<Bound<'_, PyAny>> =
                args.values.iter().map(|value| given(py, value)).collect::<PyResult<_>>()?;
            let results = results.iter().map(|result| object::wrap_bound(py, result.detach()));
            let results = PyList::new(py, results.collect::<PyResult<Vec<_>>>()?)?;
            let entry = (args.op.namespace, args.op.name, PyTuple::new(py, given)?, results);
            self.0.bind(py).call_method1(intern!(py, "store"), entry).map(drop)
        })
    }
}

/// An argument in the form in which Python code gets it.
pub(super) fn given<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Value::Tensor(tensor) => object::wrap_bound(py, (*tensor).clone()),
        Value::Own(tensor) => object::wrap_bound(py, tensor.clone()),
        Value::Tensors(list) => {
            let each = |tensor: &Option<Tensor>| match tensor {
                Some(tensor) => object::wrap_bound(py, tensor.clone()),
                None => Ok(py.None().into_bound(py)),
            };
            Ok(PyList::new(py, list.iter().map(each).collect::<PyResult<Vec<_>>>()?)?.into_any())
        }
        other => object_of(py, other),
    }
}

/// Passes this thread's calls and their results to `cache` from now on; None removes it.
#[pyfunction]
fn _set_call_cache(cache: Option<Py<PyAny>>) {
    let before = call_cache::set(cache.map(|cache| Arc::new(PyCallCache(PyHandle::new(cache))) as Arc<dyn CallCache>));
    drop(before);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_set_call_cache, module)?)
}
