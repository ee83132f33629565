//! backward, grad and the modes, and what the engine asks of the interpreter.

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rushlight::Tensor;
use rushlight_autograd as engine;
use rushlight_autograd::engine::Options;

use crate::errors::{carry, raise};
use crate::{convert, object};

/// Releases the interpreter's lock around long work, if this thread holds it.
pub fn detach(work: &mut dyn FnMut()) {
    thread_local! { static DETACHED: Cell<bool> = const { Cell::new(false) }; }
    if DETACHED.get() {
        return work();
    }
    match Python::try_attach(|py| {
        struct Work<'a>(&'a mut dyn FnMut());
        // SAFETY: the work runs on this very thread; only the lock is released around it.
        unsafe impl Send for Work<'_> {}
        let work = Work(work);
        DETACHED.set(true);
        py.detach(move || {
            let work = work;
            (work.0)();
        });
        DETACHED.set(false);
    }) {
        Some(()) => {}
        None => {}
    }
}

/// Warns at the user's line.
pub fn warn(message: &str) -> rushlight::Result<()> {
    Python::attach(|py| {
        let text = std::ffi::CString::new(message).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), &text, 1).map_err(carry)
    })
}

fn tensors(list: &Bound<'_, PyTuple>) -> PyResult<Vec<Tensor>> {
    list.iter().map(|item| object::tensor(&item).cloned()).collect()
}

fn optional_tensors(list: &Bound<'_, PyTuple>) -> PyResult<Vec<Option<Tensor>>> {
    list.iter().map(|item| if item.is_none() { Ok(None) } else { object::tensor(&item).map(|t| Some(t.clone())) }).collect()
}

/// Collects the gradients of `outputs` in the leaves' `.grad`.
#[pyfunction]
fn _backward(
    py: Python<'_>,
    outputs: &Bound<'_, PyTuple>,
    grads: &Bound<'_, PyTuple>,
    retain_graph: bool,
    create_graph: bool,
    inputs: Option<&Bound<'_, PyTuple>>,
) -> PyResult<()> {
    let (outputs, grads) = (tensors(outputs)?, optional_tensors(grads)?);
    let inputs = inputs.map(tensors).transpose()?;
    let options = Options { retain_graph, create_graph };
    py.detach(|| engine::backward(&outputs, &grads, inputs.as_deref(), options)).map_err(raise)
}

/// The gradients of `outputs` with respect to `inputs`.
#[pyfunction]
fn _grad<'py>(
    py: Python<'py>,
    outputs: &Bound<'py, PyTuple>,
    inputs: &Bound<'py, PyTuple>,
    grads: &Bound<'py, PyTuple>,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> PyResult<Bound<'py, PyTuple>> {
    let (outputs, inputs, grads) = (tensors(outputs)?, tensors(inputs)?, optional_tensors(grads)?);
    let options = Options { retain_graph, create_graph };
    let found = py.detach(|| engine::grad(&outputs, &inputs, &grads, allow_unused, options)).map_err(raise)?;
    let objects = found.into_iter().map(|grad| match grad {
        Some(grad) => object::wrap_bound(py, grad),
        None => Ok(py.None().into_bound(py)),
    });
    PyTuple::new(py, objects.collect::<PyResult<Vec<_>>>()?)
}

#[pyfunction]
fn is_grad_enabled() -> bool {
    engine::modes::grad_enabled()
}

/// Sets the mode of this thread; returns the old one.
#[pyfunction]
fn _set_grad_enabled(enabled: bool) -> bool {
    engine::modes::set_grad_enabled(enabled)
}

/// Nested Python numbers as a new tensor; the part of `torch.tensor` that copies.
#[pyfunction]
fn _item<'py>(py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    convert::scalar_object(py, rushlight::item(object::tensor(tensor)?).map_err(raise)?)
}

#[pyfunction]
fn _zeros<'py>(py: Python<'py>, sizes: Vec<isize>, dtype: &Bound<'py, PyAny>, value: f64) -> PyResult<Bound<'py, PyAny>> {
    let dtype = crate::dtype::extract_dtype(dtype).unwrap_or(rushlight::DType::F32);
    let full = rushlight::create::full(&sizes, rushlight::Scalar::Float(value), dtype, rushlight::Device::Cpu);
    object::wrap_bound(py, full.map_err(raise)?)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_backward, module)?)?;
    module.add_function(wrap_pyfunction!(_grad, module)?)?;
    module.add_function(wrap_pyfunction!(is_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_item, module)?)?;
    module.add_function(wrap_pyfunction!(_zeros, module)?)
}
