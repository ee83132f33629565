//! `autograd.Function`: forward and backward written in Python.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rushlight::Tensor;
use rushlight_autograd::custom::{CustomCall, Notes, Recorded, plain_view};
use rushlight_autograd::modes::{self, GradMode};
use rushlight_autograd::{Backward, BackwardCall, Gradients, Node, SavedTensor, engine};
use rushlight_core::Result;

use super::hooks::traverse;
use crate::errors::{kind_of, raise};
use crate::reclaim::PyHandle;
use crate::{attach, object, overrides};

/// State that forward stores for backward. A function's `ctx` is of a class derived from this one in Python, which adds
/// attributes that the garbage collector sees.
#[pyclass(frozen, subclass, weakref, name = "_FunctionBase", module = "rushlight._C")]
#[derive(Default)]
pub struct Context {
    noted: Mutex<Noted>,
    saved: Mutex<Arc<[Option<SavedTensor>]>>,
    node: OnceLock<Weak<Node>>,
}

struct Noted {
    notes: Notes,
    needs_input_grad: Vec<bool>,
    materialize: bool,
}

impl Default for Noted {
    fn default() -> Self {
        Noted { notes: Notes::default(), needs_input_grad: Vec::new(), materialize: true }
    }
}

/// These locks are held for single reads and exchanges only: Python code, such as a hook that unpacks a tensor, may use the
/// same context.
impl Context {
    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the notes by exchanging them, so that the old ones are dropped after the lock is released.
    fn note<T>(&self, part: impl FnOnce(&mut Noted) -> &mut T, new: T) {
        let old = std::mem::replace(part(&mut self.noted()), new);
        drop(old);
    }

    fn saved(&self) -> Arc<[Option<SavedTensor>]> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn save(&self, saved: Vec<Option<SavedTensor>>) {
        let old = std::mem::replace(&mut *self.saved.lock().unwrap_or_else(PoisonError::into_inner), saved.into());
        drop(old);
    }
}

fn all_tensors(items: &Bound<'_, PyTuple>, sentence: &str) -> PyResult<Vec<Tensor>> {
    let read = |(place, item): (usize, Bound<'_, PyAny>)| {
        object::tensor(&item).cloned().map_err(|_| {
            let name = kind_of(&item);
            PyRuntimeError::new_err(format!("{sentence} argument {place} of type {name}"))
        })
    };
    items.iter().enumerate().map(read).collect()
}

/// The name under which an assigned `needs_input_grad` is kept among the attributes, where the garbage collector sees it.
const ASSIGNED: &str = "needs_input_grad";

fn attributes<'py>(own: &Bound<'py, Context>) -> PyResult<Bound<'py, PyDict>> {
    Ok(own.getattr(pyo3::intern!(own.py(), "__dict__"))?.cast_into()?)
}

#[pymethods]
impl Context {
    #[new]
    fn new() -> Self {
        Context::default()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        // The lock is free unless another thread, which waits for the GIL, is about to exchange the content.
        let Ok(saved) = self.saved.try_lock() else { return Ok(()) };
        let alone = Arc::strong_count(&saved) == 1;
        traverse(&visit, |show| saved.iter().flatten().filter(|_| alone).for_each(|saved| saved.objects(show)))
    }

    fn __clear__(&self) {
        self.saved().iter().flatten().for_each(SavedTensor::release);
    }

    /// Saves tensors for backward; changing them in place before then is an error.
    #[pyo3(signature = (*tensors))]
    fn save_for_backward(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        let read = |(place, item): (usize, Bound<'_, PyAny>)| {
            if item.is_none() {
                return Ok(None);
            }
            object::tensor(&item).map(|tensor| Some(tensor.clone())).map_err(|_| {
                let name = kind_of(&item);
                PyTypeError::new_err(format!(
                    "save_for_backward can only save variables, but argument {place} is of type {name}"
                ))
            })
        };
        let kept = tensors.iter().enumerate().map(read).collect::<PyResult<Vec<_>>>()?;
        self.note(|noted| &mut noted.notes.to_save, kept);
        Ok(())
    }

    /// The tensors saved by `save_for_backward`.
    #[getter]
    fn saved_tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let unpacked = match self.node.get() {
            None => self.noted().notes.to_save.clone(),
            Some(node) => {
                let gone = || PyRuntimeError::new_err("the graph that these tensors were saved for no longer exists");
                let node = node.upgrade().ok_or_else(gone)?;
                let call = BackwardCall::outside(&node);
                let saved = self.saved();
                let unpack = |saved: &Option<SavedTensor>| saved.as_ref().map(|saved| call.unpack(saved)).transpose();
                let unpacked = saved.iter().map(unpack).collect::<Result<Vec<_>>>();
                unpacked.map_err(|error| raise(engine::note(error, &node)))?
            }
        };
        PyTuple::new(
            py,
            unpacked.into_iter().map(|tensor| object::optional_object(py, tensor)).collect::<PyResult<Vec<_>>>()?,
        )
    }

    /// Marks inputs that forward changed in place.
    #[pyo3(signature = (*tensors))]
    fn mark_dirty(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.note(
            |noted| &mut noted.notes.dirty,
            all_tensors(tensors, "mark_dirty can only accept variables, but argument \nIt got")?,
        );
        Ok(())
    }

    /// Marks outputs that have no gradient.
    #[pyo3(signature = (*tensors))]
    fn mark_non_differentiable(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        let sentence = "mark_non_differentiable only accepts variable arguments, but got \nIt got";
        self.note(|noted| &mut noted.notes.non_differentiable, all_tensors(tensors, sentence)?);
        Ok(())
    }

    /// Sets whether backward gets zeros (the default) or None for outputs without a gradient.
    fn set_materialize_grads(&self, value: bool) {
        self.noted().materialize = value;
    }

    #[getter]
    fn materialize_grads(&self) -> bool {
        self.noted().materialize
    }

    /// For each argument of forward: whether backward must return its gradient. What a function assigns is given back, and
    /// changes nothing else.
    #[getter]
    fn needs_input_grad<'py>(own: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if let Some(assigned) = attributes(own)?.get_item(ASSIGNED)? {
            return Ok(assigned);
        }
        let needs = own.get().noted().needs_input_grad.clone();
        Ok(PyTuple::new(own.py(), needs)?.into_any())
    }

    #[setter]
    fn set_needs_input_grad(own: &Bound<'_, Self>, value: Bound<'_, PyAny>) -> PyResult<()> {
        attributes(own)?.set_item(ASSIGNED, value)
    }
}

/// The node of one call of a Python function.
pub struct PythonFunction {
    class: PyHandle,
    context: PyHandle,
    name: String,
    /// For each argument of forward: whether it was a tensor, which has an edge.
    tensor_arguments: Vec<bool>,
    /// For each result of forward: whether it was a tensor.
    tensor_results: Vec<bool>,
}

impl PythonFunction {
    fn new(
        class: &Bound<'_, PyAny>,
        context: &Bound<'_, Context>,
        inputs: &[Option<Tensor>],
        results: &[Option<Tensor>],
    ) -> PyResult<Self> {
        Ok(PythonFunction {
            class: PyHandle::new(class.clone().unbind()),
            context: PyHandle::new(context.clone().into_any().unbind()),
            name: format!("{}Backward", class.getattr("__name__")?.extract::<String>()?),
            tensor_arguments: inputs.iter().map(Option::is_some).collect(),
            tensor_results: results.iter().map(Option::is_some).collect(),
        })
    }

    pub fn context<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.context.bind(py)
    }

    fn run(&self, py: Python<'_>, call: &BackwardCall<'_>, grads: Gradients) -> PyResult<Gradients> {
        let context = self.context.bind(py);
        let materialize = context.cast::<Context>()?.get().noted().materialize;
        let mut arguments = vec![context];
        for (output, grad) in grads.into_iter().enumerate() {
            let grad = match grad {
                None if materialize && self.tensor_results.get(output) != Some(&false) => {
                    Some(call.zeros(output).map_err(raise)?)
                }
                grad => grad,
            };
            arguments.push(object::optional_object(py, grad)?);
        }
        let (backward, arguments) = (self.class.bind(py).getattr("backward")?, PyTuple::new(py, arguments)?);
        let result = backward.call1(arguments)?;
        let results: Vec<Bound<'_, PyAny>> = match result.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => vec![result],
        };
        let expected = self.tensor_arguments.len();
        if results.len() < expected || results.iter().skip(expected).any(|extra| !extra.is_none()) {
            return Err(PyRuntimeError::new_err(format!(
                "function {} returned an incorrect number of gradients (expected {expected}, got {})",
                self.name,
                results.len()
            )));
        }
        let mut gradients = Gradients::new();
        for (place, (result, is_tensor)) in results.iter().zip(&self.tensor_arguments).enumerate() {
            match (is_tensor, result.is_none()) {
                (true, true) => gradients.push(None),
                (true, false) => gradients.push(Some(
                    object::tensor(result)
                        .map_err(|_| {
                            let name = kind_of(result);
                            PyRuntimeError::new_err(format!("expected Variable or None (got {name})"))
                        })?
                        .clone(),
                )),
                (false, true) => {}
                (false, false) => {
                    return Err(PyRuntimeError::new_err(format!(
                        "function {} returned a gradient different from None at position {}, but the corresponding forward input was not a Variable",
                        self.name,
                        place + 1
                    )));
                }
            }
        }
        Ok(gradients)
    }
}

impl Backward for PythonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn apply(&self, call: &BackwardCall<'_>, grads: Gradients) -> Result<Gradients> {
        attach::acquire(|py| self.run(py, call, grads))
    }

    fn release(&self) {
        attach::attached(|py| {
            let context = self.context.bind(py);
            let Ok(context) = context.cast::<Context>() else { return };
            context.get().saved().iter().flatten().for_each(SavedTensor::release);
        });
    }

    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        visit(self.class.as_ptr());
        visit(self.context.as_ptr());
    }

    /// Its backward may have side effects, and it makes zeros for missing gradients.
    fn runs_without_gradients(&self) -> bool {
        true
    }
}

/// The part of a call that runs outside of all transforms, as torch runs a function's `forward`: it may make leaves of its own.
struct BelowTransforms(u8);

impl BelowTransforms {
    fn begin() -> BelowTransforms {
        BelowTransforms(modes::set_transforms(0))
    }
}

impl Drop for BelowTransforms {
    fn drop(&mut self) {
        modes::set_transforms(self.0);
    }
}

/// The view of a tensor that its class makes, as torch asks for it.
fn view_by_class(item: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let _off = GradMode::new(false);
    object::tensor(&item.call_method1("view_as", (item,))?).cloned()
}

/// Runs `class.forward` and records its results: what `Function.apply` does.
#[pyfunction]
fn _apply_function<'py>(
    class: &Bound<'py, PyAny>,
    context: &Bound<'py, Context>,
    arguments: &Bound<'py, PyTuple>,
    split_setup: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let tensor = |item: &Bound<'py, PyAny>| object::tensor(item).ok().cloned();
    let inputs: Vec<Option<Tensor>> = arguments.iter().map(|item| tensor(&item)).collect();
    let recording = modes::recording() && inputs.iter().flatten().any(Tensor::is_tracked);
    let own = context.get();
    own.noted().needs_input_grad =
        inputs.iter().map(|input| input.as_ref().is_some_and(|input| recording && input.is_tracked())).collect();
    let result = {
        let _off = GradMode::new(false);
        let _below = BelowTransforms::begin();
        if split_setup {
            let result = class.getattr("forward")?.call1(arguments.clone())?;
            class.getattr("setup_context")?.call1((context, arguments, &result))?;
            result
        } else {
            let with_context: Vec<_> = std::iter::once(context.clone().into_any()).chain(arguments.iter()).collect();
            class.getattr("forward")?.call1(PyTuple::new(py, with_context)?)?
        }
    };
    let single = result.cast::<PyTuple>().is_err();
    let items: Vec<Bound<'py, PyAny>> = match result.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => vec![result.clone()],
    };
    let results: Vec<Option<Tensor>> = items.iter().map(tensor).collect();
    // The notes are taken out of the context, because recording may run Python code that uses the context.
    let noted = std::mem::take(&mut *own.noted());
    let function = recording.then(|| PythonFunction::new(class, context, &inputs, &results)).transpose()?;
    let view = |input: &Tensor| match items.iter().find(|item| tensor(item).is_some_and(|own| own.ptr_eq(input))) {
        Some(item) if overrides::has_override(item) => attach::acquire(|_| view_by_class(item)),
        _ => plain_view(input),
    };
    let call = CustomCall { inputs: &inputs, results: &results, notes: &noted.notes, view: &view };
    let (outputs, recorded) = call.finish(function).map_err(raise)?;
    // What the node saved would be stored twice here, and a saved result would keep itself alive.
    let to_save = if recorded.is_some() { Vec::new() } else { noted.notes.to_save };
    if let Some(Recorded { node, saved }) = recorded {
        own.save(saved);
        let _ = own.node.set(Arc::downgrade(&node));
    }
    own.note(|own| own, Noted { notes: Notes { to_save, ..Notes::default() }, ..noted });
    let objects = items
        .into_iter()
        .zip(outputs)
        .map(|(item, output)| match output {
            // An argument that is returned as it is keeps its class, unless the class has opted out of that.
            Some(output) if output.python().is_null() && overrides::has_override(&item) => {
                object::wrap_as(item.get_type().as_any(), output)
            }
            Some(output) => object::wrap_bound(py, output),
            None => Ok(item),
        })
        .collect::<PyResult<Vec<_>>>()?;
    match (single, objects.as_slice()) {
        (true, [one]) => Ok(one.clone()),
        _ => Ok(PyTuple::new(py, objects)?.into_any()),
    }
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Context>()?;
    module.add_function(wrap_pyfunction!(_apply_function, module)?)
}
