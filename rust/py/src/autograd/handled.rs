//! Passes the calls of derivatives to modes of `__torch_dispatch__`, in Python (`rushlight._derivatives`).

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use rushlight::Tensor;
use rushlight_autograd::Gradients;
use rushlight_dispatch::handled::{self, Handler};
use rushlight_dispatch::operator::{Args, BackwardContext};

use super::call_cache::given;
use super::saved::object_of;
use crate::{attach, object};

struct PyHandler;

/// The operators whose gradients torch computes together, by one operator.
const TOGETHER: [&str; 2] = ["_conv", "_conv_input"];

impl Handler for PyHandler {
    fn call(&self, args: &Args, in_place: bool) -> rushlight::Result<Vec<Tensor>> {
        attach::acquire(|py| {
            let (positional, keywords) = (PyList::empty(py), PyDict::new(py));
            let params = &args.op.schema().params;
            let last = (0..args.values.len()).rev().find(|&at| !params[at].keyword_only && !args.is_default(at));
            for (at, (param, value)) in params.iter().zip(&args.values).enumerate() {
                if param.keyword_only && !args.is_default(at) {
                    keywords.set_item(param.name, given(py, value)?)?;
                } else if !param.keyword_only && last.is_some_and(|last| at <= last) {
                    positional.append(given(py, value)?)?;
                }
            }
            let told = (args.op.namespace, args.op.python_name(), positional.to_tuple(), keywords, in_place);
            let found = py.import("rushlight._derivatives")?.call_method1("call", told)?;
            if object::is_tensor(&found) {
                return Ok(vec![object::tensor(&found)?.clone()]);
            }
            found.try_iter()?.map(|one| object::tensor(&one?).cloned()).collect()
        })
    }

    fn gradients(&self, derive: &BackwardContext) -> rushlight::Result<Option<Gradients>> {
        if !TOGETHER.contains(&derive.args.op.name) {
            return Ok(None);
        }
        attach::acquire(|py| {
            let values = PyDict::new(py);
            let params = &derive.args.op.schema().params;
            for (param, value) in params.iter().zip(&derive.args.values) {
                values.set_item(param.name, object_of(py, value)?)?;
            }
            let tensors = PyDict::new(py);
            for (meta, saved) in derive.inputs.iter().zip(&derive.saved_inputs) {
                let sizes = PyTuple::new(py, meta.sizes.iter())?;
                let saved = object::optional_object(py, saved.clone())?;
                tensors.set_item(params[meta.place].name, (saved, sizes))?;
            }
            let grad = object::optional_object(py, derive.grads.first().cloned().flatten())?;
            let told = (derive.args.op.python_name(), grad, tensors, values, PyTuple::new(py, derive.wanted)?);
            let found = py.import("rushlight._derivatives")?.call_method1("gradients", told)?;
            if found.is_none() {
                return Ok(None);
            }
            let read = |one: PyResult<Bound<'_, PyAny>>| {
                let one = one?;
                if one.is_none() { Ok(None) } else { object::tensor(&one).map(|tensor| Some(tensor.clone())) }
            };
            found.try_iter()?.map(read).collect::<PyResult<_>>().map(Some)
        })
    }
}

/// _expect_derivatives(has_mode)
/// --
///
/// Says whether a mode of this thread handles the operators that derivatives call.
#[pyfunction]
fn _expect_derivatives(has_mode: bool) {
    handled::set_mode(has_mode);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    handled::install(Box::new(PyHandler));
    module.add_function(wrap_pyfunction!(_expect_derivatives, module)?)
}
