//! `torch.cuda`: devices, their memory, streams and events.

use std::sync::atomic::Ordering;

use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rushlight::nn::recurrent::by_cudnn;
use rushlight::{DType, Device};
use rushlight_cuda::card;
use rushlight_cuda::interruptible::wait_for_device;
use rushlight_cuda::{cudnn, driver, library};
use rushlight_dispatch::generator::Generator;

use crate::attach::{idle, look};
use crate::errors::raise;
use crate::generator::{PyGenerator, keeps_seed};
use crate::object;

mod graph;
mod kernels;
mod memory;
mod nccl;
mod streams;
mod tools;
mod tunable;

/// The number of CUDA devices; zero if there is no driver.
#[pyfunction]
fn _cuda_device_count() -> usize {
    driver::device_count()
}

/// Whether this process was forked from one that had loaded the driver.
#[pyfunction]
fn _cuda_is_in_bad_fork() -> bool {
    driver::is_in_forked_child()
}

#[pyfunction]
fn _cuda_is_initialized() -> bool {
    driver::is_initialized()
}

#[pyfunction]
fn _cuda_init() -> PyResult<()> {
    driver::initialize().map(drop).map_err(raise)
}

/// The error for what rushlight does not have on CUDA devices: torch's for a machine without a driver, if there is none.
#[pyfunction]
fn _refuse_cuda() -> PyResult<()> {
    driver::initialize().map_err(raise)?;
    Err(PyNotImplementedError::new_err("rushlight does not have this for CUDA yet"))
}

#[pyfunction]
fn _cuda_current_device() -> PyResult<u8> {
    driver::initialize().map_err(raise)?;
    Ok(card::current())
}

/// Makes a device current; returns the previous one.
#[pyfunction]
fn _cuda_set_device(device: u8) -> PyResult<u8> {
    card::set_current(device).map_err(raise)
}

#[pyfunction]
fn _cuda_synchronize(py: Python<'_>, device: u8) -> PyResult<()> {
    idle(py, || card::select(device).and_then(|card| wait_for_device(card, look))).map_err(raise)
}

/// The properties of a device, by their names in torch.
#[pyfunction]
fn _cuda_properties(py: Python<'_>, device: u8) -> PyResult<Bound<'_, PyDict>> {
    let known = &card::select(device).map_err(raise)?.properties;
    let dict = PyDict::new(py);
    dict.set_item("name", &known.name)?;
    dict.set_item("major", known.major)?;
    dict.set_item("minor", known.minor)?;
    dict.set_item("total_memory", known.total_memory)?;
    dict.set_item("multi_processor_count", known.multiprocessors)?;
    dict.set_item("max_threads_per_multi_processor", known.threads_per_multiprocessor)?;
    dict.set_item("max_threads_per_block", known.threads_per_block)?;
    dict.set_item("warp_size", known.warp_size)?;
    dict.set_item("shared_memory_per_block", known.shared_memory_per_block)?;
    dict.set_item("regs_per_multiprocessor", known.registers_per_multiprocessor)?;
    dict.set_item("L2_cache_size", known.second_level_cache)?;
    dict.set_item("clock_rate", known.clock_rate)?;
    dict.set_item("memory_clock_rate", known.memory_clock_rate)?;
    dict.set_item("memory_bus_width", known.memory_bus_width)?;
    dict.set_item("uuid", known.uuid)?;
    Ok(dict)
}

/// Whether a device can read and write the memory of another one.
#[pyfunction]
fn _cuda_can_access(device: u8, peer: u8) -> PyResult<bool> {
    card::select(device).and_then(|card| card.can_access(peer)).map_err(raise)
}

/// Whether there is a driver that can be used, and what was found, as a sentence.
#[pyfunction]
fn _cuda_describe() -> (bool, String) {
    driver::describe()
}

/// NVIDIA's libraries that rushlight uses, each with where it was found, or None.
#[pyfunction]
fn _cuda_libraries(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let compiler = py.detach(rushlight_cuda::program::compiler_version);
    let file =
        rushlight_cuda::program::compiler_file().map_or_else(String::new, |file| format!(", from {}", file.display()));
    dict.set_item("nvrtc", compiler.map(|(major, minor)| format!("{major}.{minor}{file}")))?;
    let cublaslt = py.detach(rushlight_cuda::cublaslt::describe);
    dict.set_item("cublaslt", cublaslt.map(|version| (version, rushlight_cuda::cublaslt::is_available())))?;
    let cudnn = py.detach(rushlight_cuda::cudnn::describe);
    dict.set_item("cudnn", cudnn.map(|version| (version, rushlight_cuda::cudnn::is_available())))?;
    dict.set_item("cufft", py.detach(rushlight_cuda::cufft::describe))?;
    dict.set_item("cusolver", py.detach(rushlight_cuda::cusolver::describe))?;
    dict.set_item("nccl", py.detach(rushlight_cuda::nccl::functions::describe))?;
    dict.set_item("kernel cache", rushlight_cuda::program::cache_folder().map(|folder| folder.display().to_string()))?;
    Ok(dict)
}

/// Sets whether products of float32 may round their operands to TF32.
#[pyfunction]
fn _cuda_allow_tf32(allowed: bool) {
    rushlight_cuda::cublaslt::allow_tf32(allowed);
}

/// Sets whether sums of products in float16 or bfloat16 may be divided, and whether their parts may be rounded to this dtype.
#[pyfunction]
fn _cuda_allow_reductions(bfloat16: bool, rounded: bool, divided: bool) {
    let dtype = if bfloat16 { DType::BF16 } else { DType::F16 };
    rushlight_cuda::cublaslt::allow_reductions(dtype, rounded, divided);
}

/// The version of cuDNN, if it can be used.
#[pyfunction]
fn _cudnn_version(py: Python<'_>) -> Option<usize> {
    py.detach(|| cudnn::version().filter(|_| cudnn::is_available()))
}

/// Sets a setting of `torch.backends.cudnn` by its name.
#[pyfunction]
fn _cudnn_set(name: &str, value: bool) {
    let settings = &cudnn::SETTINGS;
    let setting = match name {
        "enabled" => &settings.enabled,
        "benchmark" => &settings.benchmark,
        "deterministic" => &settings.deterministic,
        _ => &settings.tf32,
    };
    setting.store(value, Ordering::Relaxed);
}

/// The parameters of recurrent layers as views of one buffer, as cuDNN has them; None if they stay where they are.
#[pyfunction]
fn _cudnn_flatten<'py>(
    py: Python<'py>,
    params: &Bound<'py, PyTuple>,
    mode: &str,
    has_biases: bool,
    num_layers: usize,
    bidirectional: bool,
    projected: bool,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let params = params.iter().map(|item| object::tensor(&item).cloned()).collect::<PyResult<Vec<_>>>()?;
    let flattened = || by_cudnn::flattened(&params, mode, has_biases, num_layers, bidirectional, projected);
    let Some(found) = py.detach(flattened).map_err(raise)? else { return Ok(None) };
    let found = found.into_iter().map(|tensor| object::wrap_bound(py, tensor)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, found).map(Some)
}

/// The number of plans for transforms on a device, and the largest number of them.
#[pyfunction]
fn _cuda_plans(device: u8) -> (usize, usize) {
    rushlight_cuda::cufft::plans(device)
}

/// Sets the largest number of plans.
#[pyfunction]
fn _cuda_limit_plans(py: Python<'_>, device: u8, most: usize) -> PyResult<()> {
    py.detach(|| card::select(device).map(|card| rushlight_cuda::cufft::limit_plans(card, most))).map_err(raise)
}

/// Removes all plans.
#[pyfunction]
fn _cuda_clear_plans(py: Python<'_>, device: u8) -> PyResult<()> {
    py.detach(|| card::select(device).map(rushlight_cuda::cufft::clear_plans)).map_err(raise)
}

/// The default generator of a device, which need not exist.
#[pyfunction]
fn _cuda_default_generator(device: u8) -> PyGenerator {
    PyGenerator(Generator::default_of(Device::Cuda(device)))
}

/// Seeds the default generators of all devices.
#[pyfunction]
fn _cuda_seed_devices(seed: u64) -> PyResult<()> {
    if !keeps_seed(&Generator::default_of(Device::Cuda(card::current())), seed)? {
        Generator::seed_devices(seed);
    }
    Ok(())
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    library::set_folders(module.py().import("sys")?.getattr("path")?.extract().unwrap_or_default());
    graph::add(module)?;
    kernels::add(module)?;
    memory::add(module)?;
    nccl::add(module)?;
    streams::add(module)?;
    tools::add(module)?;
    tunable::add(module)?;
    for function in [
        wrap_pyfunction!(_cuda_device_count, module)?,
        wrap_pyfunction!(_cuda_is_in_bad_fork, module)?,
        wrap_pyfunction!(_cuda_is_initialized, module)?,
        wrap_pyfunction!(_cuda_init, module)?,
        wrap_pyfunction!(_refuse_cuda, module)?,
        wrap_pyfunction!(_cuda_current_device, module)?,
        wrap_pyfunction!(_cuda_set_device, module)?,
        wrap_pyfunction!(_cuda_synchronize, module)?,
        wrap_pyfunction!(_cuda_properties, module)?,
        wrap_pyfunction!(_cuda_can_access, module)?,
        wrap_pyfunction!(_cuda_describe, module)?,
        wrap_pyfunction!(_cuda_libraries, module)?,
        wrap_pyfunction!(_cuda_allow_tf32, module)?,
        wrap_pyfunction!(_cuda_allow_reductions, module)?,
        wrap_pyfunction!(_cudnn_version, module)?,
        wrap_pyfunction!(_cudnn_set, module)?,
        wrap_pyfunction!(_cudnn_flatten, module)?,
        wrap_pyfunction!(_cuda_plans, module)?,
        wrap_pyfunction!(_cuda_limit_plans, module)?,
        wrap_pyfunction!(_cuda_clear_plans, module)?,
        wrap_pyfunction!(_cuda_default_generator, module)?,
        wrap_pyfunction!(_cuda_seed_devices, module)?,
    ] {
        module.add_function(function)?;
    }
    Ok(())
}
