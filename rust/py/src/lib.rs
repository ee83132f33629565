//! `rushlight._C`: the Python interface of the engine. It only translates and has no mathematics.
//!
//! - `class` and `object` make `Tensor`, `reclaim` frees it.
//! - `attributes`, `methods` (geometry, values, history), `tensor_methods` (storage, hooks, class), `protocol`,
//!   `number_slots` and `index` are its interface; `sparse` and `quantized` have the methods of sparse and quantised
//!   tensors, `vmap` the entry points of `vmap`, `print` the text.
//! - `entry` turns the operator table into functions and methods, and `help` into their texts; `parse` and `convert` convert arguments and results
//!   (`size`, `return_types`, nested `sequences`), `errors` exceptions (`hash_order` orders names as torch does); `overrides` calls `__torch_function__`;
//!   `deprecated` accepts torch's deprecated signatures.
//! - `to` is `Tensor.to` and its variants; `numpy`, `buffer` and `dlpack` share memory with other libraries
//!   (`numpy_types` names dtypes, `foreign_buffer` and `device_share` own memory, `memory_access` gives out addresses),
//!   `storage`, `file_map`, `serialization` and `multiprocessing` with files and processes. `scalars` reads Python numbers.
//! - `attach` releases and acquires the GIL, `without_gil` counts the threads that work without it; `exit` ends those that
//!   outlive the interpreter, and `panics` makes exceptions of panics.
//! - `autograd`, `store`, `process_group`, `dtype`, `generator`, `tasks`, `profile`, `stable` and `cuda` wrap one crate or module
//!   each; `functions` are the module's functions, and `table` exposes the operator table to tests.

#![allow(non_snake_case, reason = "the name of the module in Python")]

mod attach;
mod attributes;
mod autograd;
mod buffer;
mod class;
mod convert;
mod cuda;
mod deprecated;
mod device_share;
mod dlpack;
mod dtype;
mod entry;
mod errors;
mod exit;
mod file_map;
mod foreign_buffer;
mod functions;
mod generator;
mod hash_order;
mod help;
mod index;
mod memory_access;
mod methods;
mod multiprocessing;
mod number_slots;
mod numpy;
mod numpy_types;
mod object;
mod overrides;
mod panics;
mod parse;
mod print;
mod process_group;
mod profile;
mod protocol;
mod quantized;
mod reclaim;
mod return_types;
mod scalars;
mod sequences;
mod serialization;
mod size;
mod sparse;
mod stable;
mod storage;
mod store;
mod table;
mod tasks;
mod tensor_methods;
mod to;
mod vmap;
mod without_gil;

use pyo3::prelude::*;
use rushlight_dispatch::generator::Generator;
use rushlight_dispatch::interpreter;

#[global_allocator]
static ALLOCATOR: rushlight_core::reserve::Reserved = rushlight_core::reserve::Reserved;

#[pymodule(name = "_C")]
fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    rushlight::install();
    interpreter::set_detach(attach::while_detached);
    interpreter::set_wait(attach::wait_until_alone);
    attach::IN_CHILD.register();
    interpreter::set_warn(autograd::warn);
    let class = class::make(py)?;
    // SAFETY: the class was just made and is never freed.
    module.add("Tensor", unsafe { Bound::from_borrowed_ptr(py, class.cast()) })?;
    dtype::add(module)?;
    module.add_class::<generator::PyGenerator>()?;
    module.add("default_generator", Py::new(py, generator::PyGenerator(Generator::default()))?)?;
    autograd::add(module)?;
    functions::add(module)?;
    overrides::add(module)?;
    module.add_class::<parse::compiled::PySignatures>()?;
    sparse::add(module)?;
    quantized::add(module)?;
    vmap::add(module)?;
    storage::add(module)?;
    file_map::add(module)?;
    table::add(module)?;
    serialization::add(module)?;
    cuda::add(module)?;
    multiprocessing::add(module)?;
    tasks::add(module)?;
    profile::add(module)?;
    store::add(module)?;
    stable::add(module)?;
    process_group::add(module)?;
    panics::install(py)?;
    tensor_methods::add(module, class)?;
    entry::install(module, class)?;
    // `from _C import *` imports the names without an underscore.
    module.delattr("__all__")
}
