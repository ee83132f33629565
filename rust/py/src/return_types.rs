//! The named tuples that operators with several results return: `torch.return_types.max` and so on.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rushlight_dispatch::operator::{Operator, Variants};
use rushlight_dispatch::signature::Returns;

static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The class for an operator's results, made on first use; results of `out=` have another one.
pub fn class<'py>(py: Python<'py>, op: &'static Operator, fields: &[&str], out: bool) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = op.flat_name() + if out { "_out" } else { "" };
    let key = (&name, PyTuple::new(py, fields)?);
    if let Some(class) = classes.get_item(&key)? {
        return Ok(class);
    }
    let maker = py.import("rushlight._results")?.getattr("make")?;
    let class = maker.call1((&name, fields.to_vec()))?;
    classes.set_item(key, &class)?;
    Ok(class)
}

/// The classes of all operators with named results, by name: `torch.return_types`.
#[pyfunction]
pub fn _return_types(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for op in rushlight::table::OPERATORS {
        if let Returns::Named(fields) = op.schema().returns
            && fields.iter().all(|field| !field.is_empty())
        {
            all.set_item(op.flat_name(), class(py, op, fields, false)?)?;
            if op.variants.has(Variants::OUT) {
                all.set_item(op.flat_name() + "_out", class(py, op, fields, true)?)?;
            }
        }
    }
    Ok(all)
}
