//! `torch.cuda.tunable`: its settings, and what was measured.

use pyo3::prelude::*;
use rushlight_core::Result;
use rushlight_cuda::card::{self, Card};
use rushlight_cuda::cublaslt::validators;
use rushlight_cuda::driver;
use rushlight_cuda::tunable::{self, Check, Setting};

use crate::errors::raise;

fn setting(name: &str) -> Setting {
    match name {
        "enable" => Setting::Enabled,
        "tuning_enable" => Setting::Tuning,
        "record_untuned_enable" => Setting::RecordUntuned,
        "max_tuning_duration" => Setting::Duration,
        "max_tuning_iterations" => Setting::Iterations,
        _ => Setting::RotatingBuffer,
    }
}

/// The current device; `None` without a driver.
fn current() -> Result<Option<&'static Card>> {
    if driver::device_count() == 0 { Ok(None) } else { card::select(card::current()).map(Some) }
}

/// A setting by its name; switches are 0 or 1.
#[pyfunction]
fn _tunable_get(name: &str) -> PyResult<i64> {
    tunable::get(setting(name)).map_err(raise)
}

#[pyfunction]
fn _tunable_set(name: &str, value: i64) {
    tunable::set(setting(name), value);
}

/// The bytes of operands that runs take in turns.
#[pyfunction]
fn _tunable_rotating_bytes() -> PyResult<usize> {
    let found = || -> Result<usize> {
        driver::initialize()?;
        let cache = card::select(card::current())?.properties.second_level_cache;
        tunable::rotating_bytes(cache as usize)
    };
    found().map_err(raise)
}

#[pyfunction]
fn _tunable_set_check(enabled: bool, atol: f64, rtol: f64) -> PyResult<()> {
    tunable::set_check(Check { enabled, atol, rtol }).map_err(raise)
}

#[pyfunction]
fn _tunable_file() -> String {
    tunable::file()
}

/// Sets the file of results, with the number of the current device in its name or without.
#[pyfunction]
fn _tunable_set_file(name: &str, with_device: bool) -> PyResult<()> {
    if with_device && !name.is_empty() {
        driver::initialize().map_err(raise)?;
    }
    tunable::set_file(name, with_device.then(card::current));
    Ok(())
}

/// The results: operator, parameters, algorithm, milliseconds.
#[pyfunction]
fn _tunable_results(py: Python<'_>) -> PyResult<Vec<(String, String, String, f64)>> {
    let found = || py.detach(|| tunable::all(card::current(), &validators(current()?)));
    let row = |entry: tunable::Entry| (entry.operator, entry.parameters, entry.solution, entry.milliseconds);
    Ok(found().map_err(raise)?.into_iter().map(row).collect())
}

#[pyfunction]
fn _tunable_validators() -> PyResult<Vec<(String, String)>> {
    current().map(validators).map_err(raise)
}

/// Reads a file, by default that of results; whether it has results for this place.
#[pyfunction]
fn _tunable_read(py: Python<'_>, name: Option<&str>) -> PyResult<bool> {
    let validators = current().map(validators).map_err(raise)?;
    Ok(py.detach(|| tunable::read(name, &validators)))
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    for function in [
        wrap_pyfunction!(_tunable_get, module)?,
        wrap_pyfunction!(_tunable_set, module)?,
        wrap_pyfunction!(_tunable_rotating_bytes, module)?,
        wrap_pyfunction!(_tunable_set_check, module)?,
        wrap_pyfunction!(_tunable_file, module)?,
        wrap_pyfunction!(_tunable_set_file, module)?,
        wrap_pyfunction!(_tunable_results, module)?,
        wrap_pyfunction!(_tunable_validators, module)?,
        wrap_pyfunction!(_tunable_read, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
