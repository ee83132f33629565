//! The named tuples that operators with several results return: `torch.return_types.max` and its kin.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rushlight::Row;
use rushlight::row::Variants;
use rushlight::signature::Returns;

static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The class for a row's results, made on first use; those of `out=` have one of their own.
pub fn class<'py>(py: Python<'py>, row: &'static Row, fields: &[&str], out: bool) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = row.flat_name() + if out { "_out" } else { "" };
    let key = (&name, PyTuple::new(py, fields)?);
    if let Some(class) = classes.get_item(&key)? {
        return Ok(class);
    }
    let maker = py.import("rushlight._results")?.getattr("make")?;
    let class = maker.call1((&name, fields.to_vec()))?;
    classes.set_item(key, &class)?;
    Ok(class)
}

/// The classes of all rows with named results, by name: `torch.return_types`.
#[pyfunction]
pub fn _return_types(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let all = PyDict::new(py);
    for row in rushlight::table::ROWS {
        if let Returns::Named(fields) = row.schema().returns
            && fields.iter().all(|field| !field.is_empty())
        {
            all.set_item(row.flat_name(), class(py, row, fields, false)?)?;
            if row.variants.has(Variants::OUT) {
                all.set_item(row.flat_name() + "_out", class(py, row, fields, true)?)?;
            }
        }
    }
    Ok(all)
}
