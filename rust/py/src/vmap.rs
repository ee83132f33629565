//! `vmap` for Python: beginning and end of a call, and the entry points that add and remove its batch dimension.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rushlight_dispatch::vmap::levels::Randomness;
use rushlight_dispatch::vmap::{self, add_batch_dim, levels, remove_batch_dim};

use crate::errors::raise;
use crate::object;

/// Begins a `vmap` over `size` samples; returns its level.
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

/// Ends a `vmap`.
#[pyfunction]
fn _vmap_leave(level: i64) {
    levels::leave(level);
}

/// The active `vmap`s of this thread, the outermost first: their levels and sizes, and the behaviour of random
/// operators.
#[pyfunction]
fn _vmap_levels() -> Vec<(i64, isize, &'static str)> {
    let randomness = |level: &levels::Level| match level.randomness {
        Randomness::Error => "error",
        Randomness::Different => "different",
        Randomness::Same => "same",
    };
    levels::current().iter().map(|level| (level.number, level.size, randomness(level))).collect()
}

/// Calls a function as if outside of one `vmap`.
#[pyfunction]
fn _vmap_outside<'py>(level: i64, function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    levels::without(level, || function.call0())
}

/// Hides a dimension of a tensor, or makes one of equal samples.
#[pyfunction]
fn _add_batch_dim<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
    dim: Option<usize>,
    level: i64,
    size: isize,
) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, add_batch_dim(object::tensor(tensor)?, dim, level, size).map_err(raise)?)
}

/// Shows a hidden dimension.
#[pyfunction]
fn _remove_batch_dim<'py>(
    py: Python<'py>,
    tensor: &Bound<'py, PyAny>,
    dim: usize,
    level: i64,
    size: isize,
) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(py, remove_batch_dim(object::tensor(tensor)?, dim, level, size).map_err(raise)?)
}

/// The levels at which a tensor is batched.
#[pyfunction]
fn _vmap_levels_of(tensor: &Bound<'_, PyAny>) -> PyResult<Vec<i64>> {
    Ok(object::tensor(tensor)?.batch_dims().iter().map(|batch_dim| batch_dim.level).collect())
}

/// How many calls of this process ran once for each sample, because there is no batching rule, and the operator of the
/// last one.
#[pyfunction]
fn _vmap_fallbacks() -> (u64, &'static str) {
    vmap::fallbacks()
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_vmap_enter, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_leave, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_levels, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_levels_of, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_fallbacks, module)?)?;
    module.add_function(wrap_pyfunction!(_vmap_outside, module)?)?;
    module.add_function(wrap_pyfunction!(_add_batch_dim, module)?)?;
    module.add_function(wrap_pyfunction!(_remove_batch_dim, module)?)
}
