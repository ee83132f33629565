//! `rushlight._C`: the engine as Python sees it. Only translation happens here, no mathematics.
//!
//! `class`, `object` and `body` make `Tensor`, `reclaim` frees it; `attributes`, `methods`, `protocol`, `number` and `index` are
//! what it answers to, `sparse` what only sparse ones do, `mapped` the doors of `vmap`, `print` its text. `entry` turns the operator table into functions and methods; `parse` and `convert`
//! bring arguments in and results out (`size`, `results`, `nested` lists), `errors` exceptions, and `overrides` asks classes of
//! arguments that answer for themselves; `older` reads calls of torch's first years. `to` is `Tensor.to` and its like;
//! `numpy`, `buffer` and `dlpack` share memory with others, `storage`, `files`, `io` and `group` with files and processes. `attach`
//! is the interpreter's lock. The rest are the classes of a crate each: `autograd`, `dist`, `dtype`, `generator`, `jit`, `profile`;
//! `functions` are those of the module, `table` is what tests read.

#![allow(non_snake_case, reason = "Python knows the module by this name")]

mod attach;
mod attributes;
mod autograd;
mod body;
mod buffer;
mod class;
mod convert;
mod dist;
mod dlpack;
mod dtype;
mod entry;
mod errors;
mod files;
mod functions;
mod generator;
mod group;
mod index;
mod io;
mod jit;
mod mapped;
mod methods;
mod nested;
mod number;
mod numpy;
mod object;
mod older;
mod overrides;
mod parse;
mod print;
mod profile;
mod protocol;
mod reclaim;
mod results;
mod size;
mod sparse;
mod storage;
mod table;
mod to;

use pyo3::prelude::*;

#[global_allocator]
static ALLOCATOR: rushlight_core::reserve::Reserved = rushlight_core::reserve::Reserved;

#[pymodule(name = "_C")]
fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    rushlight::install();
    rushlight::host::set_detach(attach::while_detached);
    rushlight::host::set_wait(attach::wait_until_alone);
    attach::IN_CHILD.enrol();
    rushlight::host::set_warn(autograd::warn);
    let class = class::make(py)?;
    // SAFETY: the class was just made and lives for ever.
    module.add("Tensor", unsafe { Bound::from_borrowed_ptr(py, class.cast()) })?;
    dtype::add(module)?;
    module.add_class::<generator::PyGenerator>()?;
    module.add("default_generator", Py::new(py, generator::PyGenerator(rushlight::Generator::default()))?)?;
    autograd::add(module)?;
    functions::add(module)?;
    overrides::add(module)?;
    sparse::add(module)?;
    mapped::add(module)?;
    storage::add(module)?;
    files::add(module)?;
    table::add(module)?;
    io::add(module)?;
    group::add(module)?;
    jit::add(module)?;
    profile::add(module)?;
    dist::add(module)?;
    body::add(module, class)?;
    entry::install(module, class)?;
    // What `from _C import *` brings is what has no underscore.
    module.delattr("__all__")
}
