//! `vmap` for Python: where a map begins and ends, and the doors into it and out of it.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rushlight::mapped::levels::{self, Randomness};
use rushlight::mapped::{each, hide, show};

use crate::errors::raise;
use crate::object;

/// Begins a map over so many samples; its number.
#[pyfunction]
fn _vmap_enter(size: isize, randomness: &str) -> PyResult<i64> {
    let randomness = match randomness {
        "error" => Randomness::Error,
        "different" => Randomness::Different,
        "same" => Randomness::Same,
        other => {
            return Err(PyRuntimeError::new_err(format!(
                "Only allowed values for randomness are 'error', 'different', or 'same'. Got {other}"
            )));
        }
    };
    Ok(levels::enter(size, randomness))
}

/// Ends a map.
#[pyfunction]
fn _vmap_leave(level: i64) {
    levels::leave(level);
}

/// The maps that this thread is inside of, the outermost first: their numbers and sizes, and what random operators do.
#[pyfunction]
fn _vmap_levels() -> Vec<(i64, isize, &'static str)> {
    let randomness = |level: &levels::Level| match level.randomness {
        Randomness::Error => "error",
        Randomness::Different => "different",
        Randomness::Same => "same",
    };
    levels::current().iter().map(|level| (level.number, level.size, randomness(level))).collect()
}

/// Calls a function as if outside of one map.
#[pyfunction]
fn _vmap_without<'py>(level: i64, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    levels::without(level, || function.call0())
}

/// Hides a dimension of a tensor, or makes one of equal samples.
#[pyfunction]
fn _vmap_hide<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
    dim: Option<usize>,
    level: i64,
    size: isize,
) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, hide(object::tensor(tensor)?, dim, level, size).map_err(raise)?)
}

/// Shows a hidden dimension.
#[pyfunction]
fn _vmap_show<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
    dim: usize,
    level: i64,
    size: isize,
) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, show(object::tensor(tensor)?, dim, level, size).map_err(raise)?)
}

/// The numbers of the maps that a tensor has samples of.
#[pyfunction]
fn _vmap_levels_of(tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    Ok(object::tensor(tensor)?.axes().iter().map(|axis| axis.level).collect())
}

/// How many calls of this process ran once for each sample, for lack of a rule, and the operator of the last one.
#[pyfunction]
fn _vmap_loops() -> (u64, &'static str) {
    each::loops()
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_vmap_enter, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_leave, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_levels, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_levels_of, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_loops, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_without, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_hide, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_show, module)?)
}
