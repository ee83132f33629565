//! Python callables as hooks.

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::intern;
use pyo3::prelude::*;
use rushlight::Tensor;
use rushlight_autograd as engine;

use crate::errors::{kind_of, raise};
use crate::reclaim::PyHandle;
use crate::{attach, object};

/// Removes a hook.
#[pyclass(frozen, module = "rushlight._C")]
pub struct HookHandle(pub engine::HookHandle);

#[pymethods]
impl HookHandle {
    fn remove(&self) {
        self.0.remove();
    }
}

/// The Python callable of a hook, as the engine stores it.
pub(super) struct Callee {
    object: *mut c_void,
    name: String,
}

impl Callee {
    /// The callable for the hook to keep, and its description for the engine.
    pub(super) fn of(hook: Bound<'_, PyAny>) -> (PyHandle, Callee) {
        let name = hook.getattr(intern!(hook.py(), "__name__")).and_then(|name| name.extract());
        let hook = PyHandle::new(hook.unbind());
        let callee = Callee { object: hook.as_ptr(), name: name.unwrap_or_else(|_| "<unknown>".into()) };
        (hook, callee)
    }

    pub(super) fn handle(self, added: engine::HookHandle) -> HookHandle {
        HookHandle(added.owning(self.object, &self.name))
    }
}

/// The result of a hook: a tensor that replaces the gradient, or None.
pub(super) fn replacement(result: &Bound<'_, PyAny>) -> PyResult<Option<Tensor>> {
    if result.is_none() {
        return Ok(None);
    }
    object::tensor(result).map(|tensor| Some(tensor.clone())).map_err(|_| {
        let name = kind_of(result);
        pyo3::exceptions::PyTypeError::new_err(format!("expected Variable, but hook returned '{name}'"))
    })
}

/// The hooks on a tensor's gradient by number, as torch keeps them; None without hooks. The dictionary is a copy.
pub fn hooks_of<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let mut hooks: Vec<Bound<'py, PyAny>> = Vec::new();
    tensor
        // SAFETY: the hook keeps the object alive during the visit.
        .hook_objects(&mut |object| hooks.push(unsafe { Bound::from_borrowed_ptr(py, object.cast()) }))
        .map_err(raise)?;
    if hooks.is_empty() {
        return Ok(py.None().into_bound(py));
    }
    py.import("collections")?.getattr("OrderedDict")?.call1((hooks.into_iter().enumerate().collect::<Vec<_>>(),))
}

/// Replaces the hooks on a tensor's gradient by those of a dictionary; None removes them.
pub fn set_hooks(value: &Bound<'_, PyAny>, tensor: &Tensor) -> PyResult<()> {
    let hooks: Vec<Bound<'_, PyAny>> = match value.is_none() {
        true => Vec::new(),
        false => value.call_method0("values")?.try_iter()?.collect::<PyResult<_>>()?,
    };
    tensor.clear_hooks().map_err(raise)?;
    hooks.into_iter().try_for_each(|hook| register_hook(tensor, hook).map(drop))
}

/// Calls `hook` with the tensor's gradient whenever a backward pass reaches its node: None if no gradient arrived.
pub fn register_hook(tensor: &Tensor, hook: Bound<'_, PyAny>) -> PyResult<HookHandle> {
    let (hook, callee) = Callee::of(hook);
    let call = move |grad: Option<&Tensor>| {
        attach::acquire(|py| {
            let grad = object::optional_object(py, grad.cloned())?;
            replacement(&hook.bind(py).call1((grad,))?)
        })
    };
    tensor.register_hook(Arc::new(call)).map(|added| callee.handle(added)).map_err(raise)
}

/// Calls `hook` with the leaf after a gradient was added to its `.grad`.
pub fn register_post_hook(tensor: &Tensor, hook: Bound<'_, PyAny>) -> PyResult<HookHandle> {
    let (hook, callee) = Callee::of(hook);
    let call = move |leaf: &Tensor| {
        attach::acquire(|py| {
            let leaf = object::wrap_bound(py, leaf.clone())?;
            match replacement(&hook.bind(py).call1((leaf,))?)? {
                None => Ok(()),
                Some(_) => Err(PyRuntimeError::new_err("Tensor post accumulate grad hooks should return None.")),
            }
        })
    };
    let added = tensor.register_post_accumulate_grad_hook(Arc::new(call));
    added.map(|added| callee.handle(added)).map_err(raise)
}

/// Packs saved tensors with two Python functions.
pub(super) struct SavedHooks {
    pack: PyHandle,
    unpack: PyHandle,
}

impl SavedHooks {
    pub(super) fn new(pack: Py<PyAny>, unpack: Py<PyAny>) -> SavedHooks {
        SavedHooks { pack: PyHandle::new(pack), unpack: PyHandle::new(unpack) }
    }
}

impl engine::saved::SavedTensorHooks for SavedHooks {
    fn pack(&self, tensor: Tensor) -> rushlight::Result<engine::saved::Packed> {
        attach::acquire(|py| {
            let tensor = object::wrap_bound(py, tensor)?;
            let _off = engine::modes::GradMode::new(false);
            Ok(Box::new(PyHandle::new(self.pack.bind(py).call1((tensor,))?.unbind())) as engine::saved::Packed)
        })
    }

    fn unpack(&self, packed: &engine::saved::Packed) -> rushlight::Result<Tensor> {
        attach::acquire(|py| {
            let packed = packed.downcast_ref::<PyHandle>().map_or_else(|| py.None(), |packed| packed.get(py));
            let found = self.unpack.bind(py).call1((packed,))?;
            object::tensor(&found).cloned().map_err(|_| {
                let kind = kind_of(&found);
                pyo3::exceptions::PyTypeError::new_err(format!(
                    "Output of saved tensor unpack_hook expected to be a Tensor but got result of type {kind}"
                ))
            })
        })
    }

    fn objects(&self, packed: &engine::saved::Packed, visit: &mut dyn FnMut(*mut c_void)) {
        if let Some(packed) = packed.downcast_ref::<PyHandle>() {
            visit(packed.as_ptr());
        }
    }

    fn own_objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        visit(self.pack.as_ptr());
        visit(self.unpack.as_ptr());
    }
}

/// Shows the collector the objects that a walk visits.
pub fn traverse(visit: &PyVisit<'_>, walk: impl FnOnce(&mut dyn FnMut(*mut c_void))) -> Result<(), PyTraverseError> {
    let mut shown = Ok(());
    walk(&mut |object| {
        if shown.is_ok() && !object.is_null() {
            // SAFETY: the collector runs with the GIL. What is visited is alive, and the reference is not dropped.
            let object = unsafe { Bound::from_owned_ptr(Python::assume_attached(), object.cast()) };
            shown = visit.call(&*ManuallyDrop::new(object.unbind()));
        }
    });
    shown
}

#[pyfunction]
fn _push_saved_tensors_hooks(pack: Py<PyAny>, unpack: Py<PyAny>) {
    engine::saved::push_hooks(Arc::new(SavedHooks::new(pack, unpack)));
}

/// Calls `hook(tensor)` before each in-place change of a tensor on this thread; None removes the hook.
#[pyfunction]
fn _set_mutation_hook(hook: Option<Py<PyAny>>) {
    let mutation_hook = |hook: PyHandle| -> engine::mutation_hook::MutationHook {
        Arc::new(move |tensor: &Tensor| {
            attach::acquire(|py| {
                let tensor = object::wrap_bound(py, tensor.clone())?;
                hook.bind(py).call1((tensor,)).map(drop)
            })
        })
    };
    engine::mutation_hook::set_mutation_hook(hook.map(|hook| mutation_hook(PyHandle::new(hook))));
}

#[pyfunction]
fn _pop_saved_tensors_hooks() {
    engine::saved::pop_hooks();
}

/// Counts a change of a tensor that was not made by an operator.
#[pyfunction]
fn _increment_version(tensor: &Bound<'_, PyAny>) -> PyResult<()> {
    object::tensor(tensor).map(Tensor::bump_version).map_err(|_| {
        pyo3::exceptions::PyRuntimeError::new_err(
            "increment_version expects each element of the iterable to be a tensor",
        )
    })
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HookHandle>()?;
    module.add_function(wrap_pyfunction!(_increment_version, module)?)?;
    module.add_function(wrap_pyfunction!(_set_mutation_hook, module)?)?;
    module.add_function(wrap_pyfunction!(_push_saved_tensors_hooks, module)?)?;
    module.add_function(wrap_pyfunction!(_pop_saved_tensors_hooks, module)?)
}
