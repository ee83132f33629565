//! The saved values of a node, as its attributes `_saved_*` and `_raw_saved_*`.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rushlight_autograd::{BackwardCall, Node};
use rushlight_dispatch::node::{OperatorNode, SavedIndex, SavedValue};
use rushlight_dispatch::value::Value;

use super::hooks::{SavedHooks, traverse};
use crate::convert::scalar_object;
use crate::dtype::{device_object, dtype_object};
use crate::errors::{kind_of, raise};
use crate::object;

/// A tensor that a node has saved for its derivative, in packed form.
///
/// >>> x = torch.ones(1, requires_grad=True)
/// >>> y = x.exp()
/// >>> y.grad_fn._raw_saved_result.register_hooks(lambda t: t.numpy(), torch.from_numpy)
/// >>> y.grad_fn._saved_result
/// tensor([2.7183], grad_fn=<ExpBackward0>)
#[pyclass(frozen, name = "SavedTensor", module = "rushlight.autograd")]
pub struct PySavedTensor {
    node: Arc<Node>,
    place: SavedIndex,
}

#[pymethods]
impl PySavedTensor {
    #[new]
    fn new() -> PyResult<Self> {
        Err(PyRuntimeError::new_err("Trying to create a SavedTensor object from Python is forbidden."))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        if Arc::strong_count(&self.node) == 1 { traverse(&visit, |show| self.node.objects(show)) } else { Ok(()) }
    }

    fn __clear__(&self) {
        if Arc::strong_count(&self.node) == 1 {
            self.node.forget_objects();
        }
    }

    /// Saves `pack_hook(tensor)` instead; `unpack_hook` restores the tensor from it.
    fn register_hooks(&self, pack_hook: Bound<'_, PyAny>, unpack_hook: Bound<'_, PyAny>) -> PyResult<()> {
        for hook in [&pack_hook, &unpack_hook] {
            if !hook.is_callable() {
                return Err(PyTypeError::new_err(format!(
                    "register_hooks(): a hook must be callable, not {}",
                    kind_of(hook)
                )));
            }
        }
        let Some(saved) = self.node.function_as::<OperatorNode>().and_then(|node| node.saved(self.place)) else {
            return Err(PyRuntimeError::new_err(
                "Calling register_hooks on a saved tensor with value None is forbidden",
            ));
        };
        let hooks = SavedHooks::new(pack_hook.unbind(), unpack_hook.unbind());
        saved.set_hooks(Arc::new(hooks)).map_err(raise)
    }
}

/// The names of a node's attributes for saved values.
pub fn names(node: &Node) -> Vec<String> {
    let values = node.function_as::<OperatorNode>().map(OperatorNode::saved_values).unwrap_or_default();
    let mut names = Vec::new();
    for (name, value) in values {
        if matches!(value, SavedValue::Tensor(_)) {
            names.push(format!("_raw_saved_{name}"));
        }
        names.push(format!("_saved_{name}"));
    }
    names
}

/// The attribute `_saved_*` or `_raw_saved_*`, if the node has it.
pub fn attribute<'py>(py: Python<'py>, node: &Arc<Node>, attribute: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
    let raw = attribute.strip_prefix("_raw_saved_");
    let Some(wanted) = raw.or_else(|| attribute.strip_prefix("_saved_")) else { return Ok(None) };
    let Some(operator_node) = node.function_as::<OperatorNode>() else { return Ok(None) };
    let Some((_, value)) = operator_node.saved_values().into_iter().find(|(name, _)| name == wanted) else {
        return Ok(None);
    };
    match (value, raw) {
        (SavedValue::Tensor(place), Some(_)) => {
            Bound::new(py, PySavedTensor { node: node.clone(), place }).map(|saved| Some(saved.into_any()))
        }
        (_, Some(_)) => Ok(None),
        (SavedValue::Tensor(place), None) => {
            let saved = operator_node.saved(place).map(|saved| BackwardCall::outside(node).unpack(saved));
            object::optional_object(py, saved.transpose().map_err(raise)?).map(Some)
        }
        (SavedValue::Sizes(sizes), None) => Ok(Some(PyTuple::new(py, sizes)?.into_any())),
        (SavedValue::Value(value), None) => object_of(py, &value).map(Some),
    }
}

pub fn object_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Scalar(scalar) => scalar_object(py, *scalar)?,
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => number.into_pyobject(py)?.into_any(),
        Value::Ints(numbers) => PyTuple::new(py, numbers)?.into_any(),
        Value::Floats(numbers) => PyTuple::new(py, numbers)?.into_any(),
        Value::DType(dtype) => dtype_object(py, *dtype)?.into_bound(py).into_any(),
        Value::Device(device) => device_object(py, *device)?,
        Value::Str(text) => text.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::None | Value::Tensor(_) | Value::Own(_) | Value::Tensors(_) | Value::Generator(_) => {
            py.None().into_bound(py)
        }
    })
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PySavedTensor>()
}
