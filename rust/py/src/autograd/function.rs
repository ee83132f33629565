//! `autograd.Function`: forward and backward written in Python.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rushlight::Tensor;
use rushlight_autograd as engine;
use rushlight_autograd::inplace::{check_history, record_change};
use rushlight_autograd::modes::{self, GradMode};
use rushlight_autograd::{Backward, Call, Gradients, Node, OutputMeta, SavedTensor, ViewKind};
use rushlight_core::Result;

use super::{carried, optional_object};
use crate::attach;
use crate::errors::{kind_of, raise};
use crate::object;
use crate::reclaim::Held;

/// What forward notes for backward: the `ctx` of a function is of a class derived from this one in Python, which gives it
/// attributes that the collector sees.
#[pyclass(frozen, subclass, weakref, name = "_FunctionBase", module = "rushlight._C")]
#[derive(Default)]
pub struct Context {
    noted: Mutex<Noted>,
    saved: Mutex<Vec<Option<SavedTensor>>>,
    node: OnceLock<Weak<Node>>,
}

struct Noted {
    to_save: Vec<Option<Tensor>>,
    dirty: Vec<Tensor>,
    non_differentiable: Vec<Tensor>,
    needs_input_grad: Vec<bool>,
    materialize: bool,
}

impl Default for Noted {
    fn default() -> Self {
        Noted {
            to_save: Vec::new(),
            dirty: Vec::new(),
            non_differentiable: Vec::new(),
            needs_input_grad: Vec::new(),
            materialize: true,
        }
    }
}

impl Context {
    fn noted(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn saved(&self) -> std::sync::MutexGuard<'_, Vec<Option<SavedTensor>>> {
        self.saved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn all_tensors(items: &Bound<'_, PyTuple>, method: &str) -> PyResult<Vec<Tensor>> {
    let read = |item: Bound<'_, PyAny>| {
        object::tensor(&item).cloned().map_err(|_| {
            let name = kind_of(&item);
            PyTypeError::new_err(format!("{method} only accepts variable arguments, but argument is of type {name}"))
        })
    };
    items.iter().map(read).collect()
}

#[pymethods]
impl Context {
    #[new]
    fn new() -> Self {
        Context::default()
    }

    /// Keeps tensors for backward; changing them in place before then is noticed.
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
        self.noted().to_save = kept;
        Ok(())
    }

    /// The tensors that `save_for_backward` kept.
    #[getter]
    fn saved_tensors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let unpacked = match self.node.get() {
            None => self.noted().to_save.clone(),
            Some(node) => {
                let gone = || PyRuntimeError::new_err("the graph that these tensors were saved for no longer exists");
                let node = node.upgrade().ok_or_else(gone)?;
                let call = Call::outside(&node);
                let saved = self.saved();
                let unpack = |saved: &Option<SavedTensor>| saved.as_ref().map(|saved| call.unpack(saved)).transpose();
                saved.iter().map(unpack).collect::<Result<Vec<_>>>().map_err(raise)?
            }
        };
        PyTuple::new(py, unpacked.into_iter().map(|tensor| optional_object(py, tensor)).collect::<PyResult<Vec<_>>>()?)
    }

    /// Says which inputs forward changed in place.
    #[pyo3(signature = (*tensors))]
    fn mark_dirty(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.noted().dirty = all_tensors(tensors, "mark_dirty")?;
        Ok(())
    }

    /// Says which outputs have no gradient.
    #[pyo3(signature = (*tensors))]
    fn mark_non_differentiable(&self, tensors: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.noted().non_differentiable = all_tensors(tensors, "mark_non_differentiable")?;
        Ok(())
    }

    /// Whether backward sees zeros (the default) or None for outputs that nobody used.
    fn set_materialize_grads(&self, value: bool) {
        self.noted().materialize = value;
    }

    #[getter]
    fn materialize_grads(&self) -> bool {
        self.noted().materialize
    }

    /// For each argument of forward: whether backward must give its gradient.
    #[getter]
    fn needs_input_grad<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.noted().needs_input_grad.clone())
    }
}

/// The node of one call of a Python function.
pub struct PythonFunction {
    class: Held,
    context: Held,
    name: String,
    /// For each argument of forward: whether it was a tensor, which has an edge.
    tensor_arguments: Vec<bool>,
}

impl PythonFunction {
    pub fn context<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.context.bind(py)
    }

    fn run(&self, py: Python<'_>, call: &Call<'_>, grads: Gradients) -> PyResult<Gradients> {
        let context = self.context.bind(py);
        let materialize = context.cast::<Context>()?.get().noted().materialize;
        let mut arguments = vec![context];
        for (output, grad) in grads.into_iter().enumerate() {
            let grad = match grad {
                None if materialize => Some(call.zeros(output).map_err(raise)?),
                grad => grad,
            };
            arguments.push(optional_object(py, grad)?);
        }
        let result = self.class.bind(py).getattr("backward")?.call1(PyTuple::new(py, arguments)?)?;
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

    fn apply(&self, call: &Call<'_>, grads: Gradients) -> Result<Gradients> {
        attach::acquire(|py| self.run(py, call, grads))
    }

    fn release(&self) {
        Python::attach(|py| {
            let context = self.context.bind(py);
            let Ok(context) = context.cast::<Context>() else { return };
            // A packed object's end may run Python code, which may look at the context: never under its lock.
            let saved = std::mem::take(&mut *context.get().saved());
            saved.iter().flatten().for_each(SavedTensor::release);
            *context.get().saved() = saved;
        });
    }

    fn objects(&self, visit: &mut dyn FnMut(*mut c_void)) {
        visit(self.class.as_ptr());
        visit(self.context.as_ptr());
    }

    /// Its backward may have more to do than to pass gradients on, and makes zeros of those that are missing.
    fn runs_without_gradients(&self) -> bool {
        true
    }
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
    let recording = modes::recording() && inputs.iter().flatten().any(Tensor::is_watched);
    let own = context.get();
    own.noted().needs_input_grad =
        inputs.iter().map(|input| input.as_ref().is_some_and(|input| recording && input.is_watched())).collect();
    let result = {
        let _off = GradMode::new(false);
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
    let noted = std::mem::take(&mut *own.noted());
    let outputs = carried(finish(class, context, &inputs, &items, &noted, recording)).map_err(raise)?;
    let mut kept = own.noted();
    // What the node saved would be kept twice here, and a saved result would keep itself alive.
    *kept = Noted {
        to_save: if own.node.get().is_some() { Vec::new() } else { noted.to_save },
        needs_input_grad: noted.needs_input_grad,
        materialize: noted.materialize,
        ..Noted::default()
    };
    drop(kept);
    let objects = items
        .into_iter()
        .zip(outputs)
        .map(|(item, output)| match output {
            Some(output) => object::wrap_bound(py, output),
            None => Ok(item),
        })
        .collect::<PyResult<Vec<_>>>()?;
    match (single, objects.as_slice()) {
        (true, [one]) => Ok(one.clone()),
        _ => Ok(PyTuple::new(py, objects)?.into_any()),
    }
}

/// Gives the results their history; nothing stands for results that are no tensors.
fn finish<'py>(
    class: &Bound<'py, PyAny>,
    context: &Bound<'py, Context>,
    inputs: &[Option<Tensor>],
    items: &[Bound<'py, PyAny>],
    noted: &Noted,
    recording: bool,
) -> PyResult<Vec<Option<Tensor>>> {
    let among = |list: &[Tensor], tensor: &Tensor| list.iter().any(|other| other.ptr_eq(tensor));
    let mut outputs: Vec<Option<Tensor>> = Vec::with_capacity(items.len());
    for item in items {
        let Ok(tensor) = object::tensor(item) else {
            outputs.push(None);
            continue;
        };
        let is_input = inputs.iter().flatten().any(|input| input.ptr_eq(tensor));
        let dirty = among(&noted.dirty, tensor);
        // An input that comes back unchanged gets a history of its own, as a view.
        let output = if is_input && !dirty { Tensor::view_of(tensor, tensor.layout().clone()) } else { tensor.clone() };
        outputs.push(Some(output));
    }
    for dirty in &noted.dirty {
        if !outputs.iter().flatten().any(|output| output.ptr_eq(dirty)) {
            return Err(PyRuntimeError::new_err(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified inplace must all be outputs of the Function.",
            ));
        }
        if recording && dirty.is_view() && items.len() > 1 {
            return Err(PyRuntimeError::new_err(
                "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot return more than one Tensor. This is not supported by the current autograd engine. You should either make sure the input is not a view (using .clone() for example) or make your Function only return one Tensor (potentially splitting it into two Functions: one doing the inplace that returns a single Tensor and a second one that does the other operations).",
            ));
        }
        if recording && dirty.requires_grad() && dirty.is_leaf() {
            return Err(PyRuntimeError::new_err(
                "a leaf Variable that requires grad has been used in an in-place operation.",
            ));
        }
        if recording && dirty.is_view() {
            check_history(dirty).map_err(raise)?;
        }
    }
    let differentiable = |item: &Bound<'py, PyAny>, output: &Tensor| {
        let named = object::tensor(item).is_ok_and(|tensor| among(&noted.non_differentiable, tensor));
        output.dtype().is_differentiable() && !named
    };
    if !recording {
        noted.dirty.iter().for_each(Tensor::bump_version);
        return Ok(outputs);
    }
    let recorded: Vec<usize> = (0..items.len())
        .filter(|&at| outputs[at].as_ref().is_some_and(|output| differentiable(&items[at], output)))
        .collect();
    let mut edges = engine::Edges::new();
    for input in inputs.iter().flatten() {
        // What changed with a view is its base.
        let changed = if among(&noted.dirty, input) { input.base().unwrap_or(input) } else { input };
        edges.push(changed.gradient_edge().map_err(raise)?);
    }
    noted.dirty.iter().for_each(Tensor::bump_version);
    // Results that are no differentiable tensors keep a place, so that backward gets an argument for each result.
    let placeholder =
        OutputMeta { sizes: Default::default(), dtype: rushlight::DType::F32, device: rushlight::Device::Cpu };
    let metas =
        outputs.iter().map(|output| output.as_ref().map_or_else(|| placeholder.clone(), OutputMeta::from)).collect();
    let saved = noted
        .to_save
        .iter()
        .map(|tensor| match tensor {
            None => Ok(None),
            Some(tensor) => {
                let output = recorded.iter().find(|&&at| {
                    object::tensor(&items[at]).is_ok_and(|item| item.ptr_eq(tensor))
                        && !inputs.iter().flatten().any(|input| input.ptr_eq(tensor) && !among(&noted.dirty, input))
                });
                match output {
                    Some(&at) => SavedTensor::output(tensor, at as u32).map(Some),
                    None => SavedTensor::input(tensor).map(Some),
                }
            }
        })
        .collect::<Result<Vec<_>>>()
        .map_err(raise)?;
    let function = PythonFunction {
        class: Held::new(class.clone().unbind()),
        context: Held::new(context.clone().into_any().unbind()),
        name: format!("{}Backward", class.getattr("__name__")?.extract::<String>()?),
        tensor_arguments: inputs.iter().map(Option::is_some).collect(),
    };
    let changed_view = |input: &&Tensor| input.is_view() && among(&noted.dirty, input);
    let changed_view = inputs.iter().flatten().enumerate().find(|(_, input)| changed_view(input));
    let node: Arc<Node> = match changed_view {
        Some((place, view)) => record_change(view, function, edges, place),
        None => Node::new(function, edges, metas),
    };
    let own = context.get();
    *own.saved() = saved;
    let _ = own.node.set(Arc::downgrade(&node));
    // In-place changes of a view would go around the function's own backward.
    let kind = if recorded.len() > 1 { ViewKind::MultiOutput } else { ViewKind::CustomFunction };
    for at in recorded {
        if let Some(output) = &outputs[at] {
            if changed_view.is_some() {
                // Its history follows from its base's.
            } else if among(&noted.dirty, output) {
                output.rebase_history(node.clone(), at as u32);
            } else {
                output.set_history(node.clone(), at as u32);
                output.set_view_kind(kind);
            }
        }
    }
    Ok(outputs)
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Context>()?;
    module.add_function(wrap_pyfunction!(_apply_function, module)?)
}
