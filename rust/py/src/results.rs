//! The named tuples that operators with several results return: `torch.return_types.max` and its kin.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use rushlight::Row;

static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The class for a row's results, made on first use.
pub fn class<'py>(py: Python<'py>, row: &'static Row, fields: &[&str]) -> PyResult<Bound<'py, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    let name = row.python_name();
    let key = (name, fields.to_vec());
    if let Some(class) = classes.get_item(&key)? {
        return Ok(class);
    }
    let maker = py.import("rushlight._results")?.getattr("make")?;
    let class = maker.call1((name, fields.to_vec()))?;
    classes.set_item(key, &class)?;
    Ok(class)
}

/// Every row with named results, for `torch.return_types`.
pub fn all() -> HashMap<&'static str, Vec<&'static str>> {
    let named = |row: &&'static Row| match row.schema().returns {
        rushlight::signature::Returns::Named(fields) => Some((row.python_name(), fields.to_vec())),
        _ => None,
    };
    rushlight::table::ROWS.iter().filter_map(named).collect()
}
