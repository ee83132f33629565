//! Differentiation for Python: backward passes, the graph's nodes, hooks, user functions, and the user's line of each
//! call.

mod call_cache;
mod function;
mod handled;
mod hooks;
mod node;
mod reentrant;
mod saved;
mod source_location;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rushlight_autograd as engine;
use rushlight_autograd::engine::Options;

use crate::errors::raise;
use crate::{attach, object};
use rushlight::Tensor;
use rushlight_dispatch::interpreter::Warning;
use rushlight_dispatch::operator::GradientFormat;
use rushlight_dispatch::subgraph::{UnarySubgraph, undifferentiable};

pub use hooks::{hooks_of, register_hook, register_post_hook, set_hooks, traverse};
pub use node::wrap as node_object;

/// Warns at the user's line.
pub fn warn(message: &str, about: Warning) -> rushlight::Result<()> {
    let function = match about {
        Warning::General => "warn",
        Warning::AmbiguousReduction => "warn_of_reduction",
    };
    attach::acquire(|py| py.import("rushlight._warnings")?.call_method1(function, (message,)).map(drop))
}

/// Warns at the user's line, or writes to `sys.stderr` where warnings are errors.
fn announce(message: &str) {
    attach::attached(|py| {
        let announced =
            py.import("rushlight._warnings").and_then(|warnings| warnings.call_method1("announce", (message,)));
        // It stands beside another error, which one of a closed stream does not replace.
        drop(announced);
    });
}

fn tensors(list: &Bound<'_, PyTuple>) -> PyResult<Vec<Tensor>> {
    list.iter().map(|item| object::tensor(&item).cloned()).collect()
}

fn optional_tensors(list: &Bound<'_, PyTuple>) -> PyResult<Vec<Option<Tensor>>> {
    let read = |item: Bound<'_, PyAny>| {
        if item.is_none() { Ok(None) } else { object::tensor(&item).map(|tensor| Some(tensor.clone())) }
    };
    list.iter().map(read).collect()
}

/// Accumulates the gradients of `outputs` in the leaves' `.grad`.
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
    reentrant::run(py, || engine::backward(&outputs, &grads, inputs.as_deref(), options))?.map_err(raise)
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
    let found =
        reentrant::run(py, || engine::grad(&outputs, &inputs, &grads, allow_unused, options))?.map_err(raise)?;
    PyTuple::new(py, found.into_iter().map(|grad| object::optional_object(py, grad)).collect::<PyResult<Vec<_>>>()?)
}

/// Runs `callback` when the current backward pass has ended.
#[pyfunction]
fn _queue_callback(callback: Py<PyAny>) -> PyResult<()> {
    let run = move || attach::acquire(|py| callback.call0(py).map(drop));
    engine::queue_callback(Box::new(run)).map_err(raise)
}

/// Whether this thread records operators for backward; see `no_grad`.
///
/// >>> with torch.no_grad():
/// ...     torch.is_grad_enabled()
/// False
#[pyfunction]
fn is_grad_enabled() -> bool {
    engine::modes::grad_enabled()
}

/// Sets the mode of this thread; returns the old one.
#[pyfunction]
fn _set_grad_enabled(enabled: bool) -> bool {
    engine::modes::set_grad_enabled(enabled)
}

/// Sets whether tangents may be requested on this thread, so that `no_grad` does not lose them; returns the old state.
#[pyfunction]
fn _set_tangents_enabled(enabled: bool) -> bool {
    engine::modes::set_tangents_enabled(enabled)
}

/// Sets whether records for tangents only are visible to this thread; returns the old state.
#[pyfunction]
fn _set_tangents_visible(shown: bool) -> bool {
    engine::modes::set_tangents_visible(shown)
}

/// Whether tangents may be requested on this thread.
#[pyfunction]
fn _are_tangents_enabled() -> bool {
    engine::modes::current().tangents
}

/// Whether calls are recorded on this thread, for gradients or for tangents.
#[pyfunction]
fn _is_recording() -> bool {
    engine::modes::recording()
}

/// Begins or ends the function of a transform; returns how many were running.
#[pyfunction]
fn _set_transforms(running: u8) -> u8 {
    engine::modes::set_transforms(running)
}

/// How many functions of transforms are running, one inside the other.
#[pyfunction]
fn _transforms() -> u8 {
    engine::modes::current().transforms
}

/// Makes a new tensor one of the function of the transform that is about to begin, which may change it in place.
#[pyfunction]
fn _enter_transform(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    object::tensor(tensor).map(Tensor::enter_transform)
}

/// A leaf with a tensor's memory, at which tangents begin.
#[pyfunction]
fn _tangent_leaf<'py>(py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let leaf = object::tensor(tensor)?.detach();
    leaf.track_tangents();
    object::wrap_bound(py, leaf)
}

/// Sets whether a tensor requires gradients, inside of transforms too. Returns the tensor.
#[pyfunction]
#[pyo3(signature = (tensor, requires_grad=true))]
fn _requiring_grad<'py>(tensor: &Bound<'py, PyAny>, requires_grad: bool) -> PyResult<Bound<'py, PyAny>> {
    object::tensor(tensor)?.set_requires_grad(requires_grad).map_err(raise)?;
    Ok(tensor.clone())
}

/// A view's elements and history without its base: changes of the base do not change the history.
#[pyfunction]
fn _without_base<'py>(tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object::wrap_bound(tensor.py(), object::tensor(tensor)?.without_base().map_err(raise)?)
}

/// Calls a function of one tensor, which is linear or not, and records it as one node of this name. `follows` says that
/// the gradient is channels last if that of the result is.
#[pyfunction]
fn _as_one_node<'py>(
    name: &str,
    function: &Bound<'py, PyAny>,
    tensor: &Bound<'py, PyAny>,
    linear: bool,
    follows: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = tensor.py();
    let Some(node) = UnarySubgraph::begin(object::tensor(tensor)?).map_err(raise)? else {
        return function.call1((tensor,));
    };
    let found = function.call1((object::wrap_bound(py, node.input().clone())?,))?;
    let format = if follows { GradientFormat::OfResult } else { GradientFormat::OfParts };
    object::wrap_bound(py, node.finish(name, object::tensor(&found)?, linear, format).map_err(raise)?)
}

/// The same elements; backward through them is this error.
#[pyfunction]
fn _undifferentiable<'py>(py: Python<'py>, tensor: &Bound<'py, PyAny>, message: String) -> PyResult<Bound<'py, PyAny>> {
    let result = undifferentiable(object::tensor(tensor)?.clone(), message).map_err(raise)?;
    object::wrap_bound(py, result)
}

/// Whether this thread is in inference mode.
///
/// >>> with torch.inference_mode():
/// ...     torch.is_inference_mode_enabled()
/// True
#[pyfunction]
fn is_inference_mode_enabled() -> bool {
    engine::modes::inference_enabled()
}

/// Sets inference mode of this thread; returns the old one.
#[pyfunction]
fn _set_inference_enabled(enabled: bool) -> bool {
    engine::modes::set_inference_enabled(enabled)
}

/// Whether anomaly detection is on; see `autograd.detect_anomaly`.
///
/// >>> torch.is_anomaly_enabled()
/// False
#[pyfunction]
fn is_anomaly_enabled() -> bool {
    engine::modes::anomaly_enabled()
}

/// Whether anomaly detection also checks gradients for NaN, besides recording where operators were called.
///
/// >>> torch.is_anomaly_check_nan_enabled()
/// True
#[pyfunction]
fn is_anomaly_check_nan_enabled() -> bool {
    engine::modes::anomaly_checks_nan()
}

#[pyfunction]
#[pyo3(signature = (enabled, check_nan=true))]
fn _set_anomaly_enabled(enabled: bool, check_nan: bool) {
    engine::modes::set_anomaly(enabled, check_nan);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    source_location::find_package_dir(module.py())?;
    engine::source_location::set_source_locator(engine::source_location::SourceLocator {
        here: source_location::here,
        describe: source_location::describe,
        trace: source_location::trace,
        announce,
    });
    engine::saved::set_parameter_names(source_location::parameter);
    module.add_function(wrap_pyfunction!(_backward, module)?)?;
    module.add_function(wrap_pyfunction!(_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_queue_callback, module)?)?;
    module.add_function(wrap_pyfunction!(is_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_grad_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_tangents_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_tangents_visible, module)?)?;
    module.add_function(wrap_pyfunction!(_are_tangents_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_is_recording, module)?)?;
    module.add_function(wrap_pyfunction!(_tangent_leaf, module)?)?;
    module.add_function(wrap_pyfunction!(_requiring_grad, module)?)?;
    module.add_function(wrap_pyfunction!(_without_base, module)?)?;
    module.add_function(wrap_pyfunction!(_set_transforms, module)?)?;
    module.add_function(wrap_pyfunction!(_transforms, module)?)?;
    module.add_function(wrap_pyfunction!(_enter_transform, module)?)?;
    module.add_function(wrap_pyfunction!(_as_one_node, module)?)?;
    module.add_function(wrap_pyfunction!(_undifferentiable, module)?)?;
    module.add_function(wrap_pyfunction!(is_inference_mode_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_inference_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(is_anomaly_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(is_anomaly_check_nan_enabled, module)?)?;
    module.add_function(wrap_pyfunction!(_set_anomaly_enabled, module)?)?;
    hooks::add(module)?;
    call_cache::add(module)?;
    handled::add(module)?;
    node::add(module)?;
    function::add(module)
}
