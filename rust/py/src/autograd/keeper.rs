//! What keeps the results of calls for `rushlight.utils.checkpoint`, in Python.

use std::sync::Arc;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight::keeper::{self, Keeper};
use rushlight::{Args, Tensor, Value};

use super::saved::object_of;
use crate::attach;
use crate::object;
use crate::reclaim::Held;

/// An object with `known(namespace, name)` and `computed(namespace, name, args, results)`.
struct Kept(Held);

impl Keeper for Kept {
    fn known(&self, args: &Args) -> rushlight::Result<Option<Vec<Tensor>>> {
        attach::acquire(|py| {
            let found = self.0.bind(py).call_method1(intern!(py, "known"), (args.row.namespace, args.row.name))?;
            if found.is_none() {
                return Ok(None);
            }
            let own =
                |found: PyResult<Bound<'_, PyAny>>| found.and_then(|one| object::tensor(&one).map(Tensor::detach));
            found.try_iter()?.map(own).collect::<PyResult<_>>().map(Some)
        })
    }

    fn computed(&self, args: &Args, results: &[Tensor]) -> rushlight::Result<()> {
        attach::acquire(|py| {
            let given: Vec<Bound<'_, PyAny>> =
                args.values.iter().map(|value| given(py, value)).collect::<PyResult<_>>()?;
            let results = results.iter().map(|result| object::wrap_bound(py, result.detach()));
            let results = PyList::new(py, results.collect::<PyResult<Vec<_>>>()?)?;
            let told = (args.row.namespace, args.row.name, PyTuple::new(py, given)?, results);
            self.0.bind(py).call_method1(intern!(py, "computed"), told).map(drop)
        })
    }
}

/// An argument as the policy sees it.
fn given<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
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

/// From here on `keeper` is told of this thread's calls, and asked for their results; nobody if None.
#[pyfunction]
fn _set_keeper(keeper: Option<Py<PyAny>>) {
    let before = keeper::set(keeper.map(|keeper| Arc::new(Kept(Held::new(keeper))) as Arc<dyn Keeper>));
    drop(before);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_set_keeper, module)?)
}
