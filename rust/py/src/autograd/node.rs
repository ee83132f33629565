//! `grad_fn`: the graph's nodes as Python objects, each of a class with torch's name.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyIndexError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use rushlight::Tensor;
use rushlight_autograd as engine;
use rushlight_autograd::graph::Attachment;
use rushlight_autograd::{AccumulateGrad, Gradients, OutputMeta};
use rushlight_dispatch::create;

use super::function::PythonFunction;
use super::hooks::{Callee, HookHandle, replacement, traverse};
use super::saved;
use crate::dtype::{PyDType, device_object, dtype_object};
use crate::errors::{kind_of, raise};
use crate::reclaim::PyHandle;
use crate::{attach, object};

/// A node of the graph, which a recorded operator has made, such as ``tensor.grad_fn``.
///
/// A class derived in Python adds attributes, which the garbage collector sees.
///
/// >>> x = torch.ones(1, requires_grad=True)
/// >>> (x * 2).grad_fn.name()
/// 'MulBackward0'
#[pyclass(frozen, subclass, weakref, name = "Node", module = "rushlight.autograd.graph")]
pub struct PyNode(Arc<engine::Node>);

thread_local! {
    /// The node of the object under construction: classes are called by name, and only this file sets the node.
    static COMING: RefCell<Option<Arc<engine::Node>>> = const { RefCell::new(None) };
}

static CLASSES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();

/// The living objects by the address of their node, a `WeakValueDictionary`: a node has at most one object.
static ALIVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The Python object of a node.
pub fn wrap(py: Python<'_>, node: Arc<engine::Node>) -> PyResult<Bound<'_, PyAny>> {
    let found = || py.import("weakref")?.getattr("WeakValueDictionary")?.call0().map(Bound::unbind);
    let alive = ALIVE.get_or_try_init(py, found)?.bind(py);
    // No other node has this address while the object lives, because the object owns the node.
    let address = Arc::as_ptr(&node).cast::<u8>() as usize;
    let known = alive.call_method1(intern!(py, "get"), (address,))?;
    if !known.is_none() {
        return Ok(known);
    }
    alive.call_method1(intern!(py, "setdefault"), (address, made(py, node)?))
}

/// A new object, of the class with the node's name.
fn made(py: Python<'_>, node: Arc<engine::Node>) -> PyResult<Bound<'_, PyAny>> {
    let classes = CLASSES.get_or_init(py, || PyDict::new(py).unbind()).bind(py);
    // torch's full name of a leaf's node contains a C++ namespace; its class is the last part.
    let name = node.short_name().to_owned();
    let class = match classes.get_item(&name)? {
        Some(class) => class,
        None => {
            let body = PyDict::new(py);
            body.set_item("__module__", "")?;
            let bases = (py.get_type::<PyNode>(),);
            let class = py.get_type::<pyo3::types::PyType>().call1((&name, bases, body))?;
            classes.set_item(&name, &class)?;
            class
        }
    };
    COMING.set(Some(node));
    let made = class.call0();
    COMING.set(None);
    made
}

fn gradients(py: Python<'_>, grads: &Gradients) -> PyResult<Py<PyTuple>> {
    let objects = grads.iter().map(|grad| object::optional_object(py, grad.clone())).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, objects).map(Bound::unbind)
}

/// The result of a node's hook: gradients that replace the given ones, or None.
fn replaced(result: &Bound<'_, PyAny>) -> PyResult<Option<Gradients>> {
    if result.is_none() {
        return Ok(None);
    }
    let Ok(values) = result.cast::<PyTuple>() else {
        return Err(PyTypeError::new_err(format!("expected tuple, but hook returned '{}'", kind_of(result))));
    };
    values.iter().map(|value| replacement(&value)).collect::<PyResult<Gradients>>().map(Some)
}

/// The shape, dtype and device of a gradient that a node accepts.
#[pyclass(frozen, name = "_InputMetadata", module = "rushlight.autograd.graph")]
struct InputMetadata(OutputMeta);

#[pymethods]
impl InputMetadata {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        crate::size::make(py, &self.0.sizes)
    }

    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDType>> {
        dtype_object(py, self.0.dtype)
    }

    #[getter]
    fn device<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        device_object(py, self.0.device)
    }

    /// Nested tensors do not exist.
    #[getter]
    fn is_nested_tensor(&self) -> bool {
        false
    }
}

#[pymethods]
impl PyNode {
    #[new]
    fn new() -> PyResult<Self> {
        COMING.take().map(PyNode).ok_or_else(|| PyTypeError::new_err("nodes are made by recorded operators only"))
    }

    /// torch's name of the node.
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The edges: a pair of node and input number for each input.
    #[getter]
    fn next_functions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let tangents_visible = engine::modes::current().tangents_visible;
        let pair = |edge: &Option<engine::Edge>| match edge.as_ref().filter(|edge| edge.is_followed(tangents_visible)) {
            Some(edge) => Ok((wrap(py, edge.node().clone())?, edge.output).into_pyobject(py)?.into_any()),
            None => Ok((py.None(), 0).into_pyobject(py)?.into_any()),
        };
        PyTuple::new(py, self.0.edges().iter().map(pair).collect::<PyResult<Vec<_>>>()?)
    }

    /// The leaf into which this node accumulates.
    #[getter]
    fn variable<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.0.function_as::<AccumulateGrad>() {
            Some(leaf) => object::wrap_bound(py, leaf.variable().clone()),
            None => Err(PyAttributeError::new_err(format!("'{}' object has no attribute 'variable'", self.0.name()))),
        }
    }

    /// The user's line of the forward call.
    #[getter]
    fn source_location(&self) -> Option<String> {
        self.0.source_location().describe()
    }

    /// The metadata of each result of the forward call.
    #[getter]
    fn _input_metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.0.outputs().iter().cloned().map(InputMetadata))
    }

    fn _sequence_nr(&self) -> u64 {
        self.0.sequence()
    }

    /// Calls `hook(grad_inputs, grad_outputs)` after the node ran; its result replaces the former.
    fn register_hook(&self, hook: Bound<'_, PyAny>) -> HookHandle {
        let (hook, callee) = Callee::of(hook);
        let call = move |results: &Gradients, grads: &Gradients| {
            attach::acquire(|py| replaced(&hook.bind(py).call1((gradients(py, results)?, gradients(py, grads)?))?))
        };
        callee.handle(self.0.hooks().post.add(Arc::new(call)))
    }

    /// Calls `hook(grad_outputs)` before the node runs; its result replaces them.
    fn register_prehook(&self, hook: Bound<'_, PyAny>) -> HookHandle {
        let (hook, callee) = Callee::of(hook);
        let call =
            move |grads: &Gradients| attach::acquire(|py| replaced(&hook.bind(py).call1((gradients(py, grads)?,))?));
        callee.handle(self.0.hooks().pre.add(Arc::new(call)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // What the node holds belongs to this object only while there is no other handle on the node.
        if Arc::strong_count(&self.0) == 1 { traverse(&visit, |show| self.0.objects(show)) } else { Ok(()) }
    }

    fn __clear__(&self) {
        if Arc::strong_count(&self.0) == 1 {
            self.0.forget_objects();
        }
    }

    /// A dictionary for the user's own data, which lives as long as the node.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let metadata = &self.0.hooks().metadata;
        let mut known = None;
        let look = |attached: &Attachment| {
            known = attached.downcast_ref::<PyHandle>().map(|dictionary| dictionary.bind(py));
            Ok(())
        };
        metadata.each(look).map_err(raise)?;
        Ok(known.unwrap_or_else(|| {
            let made = PyDict::new(py).into_any();
            let attached = PyHandle::new(made.clone().unbind());
            let object = attached.as_ptr();
            metadata.add(Arc::new(attached)).owning(object, "metadata");
            made
        }))
    }

    /// A tensor that represents the node's result, or the leaf: a backward pass may begin or end there. Its elements
    /// are unspecified.
    fn _result<'py>(&self, py: Python<'py>, output: usize) -> PyResult<Bound<'py, PyAny>> {
        if let Some(leaf) = self.0.function_as::<AccumulateGrad>() {
            return object::wrap_bound(py, leaf.variable().clone());
        }
        let Some(meta) = self.0.outputs().get(output) else {
            return Err(PyIndexError::new_err(format!("{} has no result {output}", self.0.name())));
        };
        let one = create::zeros(&[], meta.dtype, meta.device).map_err(raise)?;
        let layout = one.layout().broadcast_to(&meta.sizes).map_err(raise)?;
        let tensor = Tensor::new(one.storage().clone(), layout, meta.dtype, meta.device);
        tensor.set_history(self.0.clone(), output as u32);
        object::wrap_bound(py, tensor)
    }

    /// Gradients pass through every node.
    #[getter]
    fn requires_grad(&self) -> bool {
        true
    }

    /// The node's own step of a backward pass: the gradients of its inputs, computed from those of its results. Hooks
    /// do not run.
    #[pyo3(signature = (*grads))]
    fn __call__<'py>(&self, py: Python<'py>, grads: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let (expected, got) = (self.0.outputs().len(), grads.len());
        if got != expected {
            return Err(PyTypeError::new_err(format!("expected {expected} arguments, got {got} instead")));
        }
        let read = |(place, grad): (usize, Bound<'py, PyAny>)| {
            replacement(&grad).map_err(|_| PyTypeError::new_err(format!("argument {place} is not a Variable")))
        };
        let grads = grads.iter().enumerate().map(read).collect::<PyResult<Gradients>>()?;
        let found = attach::release(py, || self.0.run(grads)).map_err(raise)?;
        let found = gradients(py, &found)?.into_bound(py);
        if found.len() == 1 { found.get_item(0) } else { Ok(found.into_any()) }
    }

    fn __dir__<'py>(slf: &Bound<'py, Self>) -> PyResult<Vec<String>> {
        let py = slf.py();
        let plain = py.get_type::<PyAny>().call_method1(intern!(py, "__dir__"), (slf,))?;
        let mut all: Vec<String> = plain.extract()?;
        all.extend(saved::names(&slf.get().0));
        Ok(all)
    }

    /// The saved values of the node's call, and the attributes that a user's function has set on its context.
    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        if let Some(kept) = saved::attribute(py, &self.0, name)? {
            return Ok(kept);
        }
        match self.0.function_as::<PythonFunction>() {
            Some(function) => function.context(py).getattr(name),
            None => Err(PyAttributeError::new_err(format!("'{}' object has no attribute '{name}'", self.0.name()))),
        }
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let address = Arc::as_ptr(&slf.get().0).cast::<u8>() as usize;
        Ok(format!("<{} object at {address:#x}>", slf.get_type().name()?))
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    saved::add(module)?;
    module.add_class::<PyNode>()
}
