//! Passes calls inside the engine to handlers of `__torch_dispatch__`, in Python (`rushlight._engine_calls`), and the results of
//! handlers to the engine, which records them.

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use rushlight::{Scalar, Storage, Tensor};
use rushlight_autograd::{Form, Gradients, TensorMeta, modes};
use rushlight_core::block::Block;
use rushlight_dispatch::handled::{self, Handler};
use rushlight_dispatch::operator::{Args, BackwardContext, Variants};

use super::call_cache::given;
use super::saved::object_of;
use crate::dtype::PyDevice;
use crate::errors::{kind_of, raise};
use crate::overrides::{self, Enabled};
use crate::{attach, convert, object};

struct PyHandler;

/// The names in `rushlight._engine_calls._GRADIENTS`: the operators whose gradients torch computes together, by one operator.
static TOGETHER: PyOnceLock<Vec<String>> = PyOnceLock::new();

fn has_gradients_together(py: Python<'_>, name: &str) -> PyResult<bool> {
    let names = TOGETHER.get_or_try_init(py, || {
        py.import("rushlight._engine_calls")?
            .getattr("_GRADIENTS")?
            .try_iter()?
            .map(|name| name?.extract())
            .collect::<PyResult<_>>()
    })?;
    Ok(names.iter().any(|known| known == name))
}

impl Handler for PyHandler {
    fn has_class(&self, tensor: &Tensor) -> bool {
        let raw = tensor.python().cast::<ffi::PyObject>();
        // SAFETY: a tensor's object lives as long as the tensor has a pointer to it, and its type is only compared.
        !raw.is_null() && unsafe { ffi::Py_TYPE(raw) } != object::class()
    }

    fn call(&self, args: &Args, in_place: bool) -> rushlight::Result<Vec<Tensor>> {
        attach::acquire(|py| {
            let _enabled = Enabled::begin();
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
            let is_function = args.op.variants.has(Variants::FUNCTION);
            let name = args.op.python_name();
            let arguments = (args.op.namespace, name, positional.to_tuple(), keywords, in_place, is_function);
            let found = py.import("rushlight._engine_calls")?.call_method1("call", arguments)?;
            tensors(&found)
        })
    }

    fn gradients(&self, context: &BackwardContext) -> rushlight::Result<Option<Gradients>> {
        attach::acquire(|py| {
            if !has_gradients_together(py, context.args.op.name)? {
                return Ok(None);
            }
            let _enabled = Enabled::begin();
            let values = PyDict::new(py);
            let params = &context.args.op.schema().params;
            for (param, value) in params.iter().zip(&context.args.values) {
                values.set_item(param.name, object_of(py, value)?)?;
            }
            let tensors = PyDict::new(py);
            for (meta, saved) in context.inputs.iter().zip(&context.saved_inputs) {
                let sizes = PyTuple::new(py, meta.sizes.iter())?;
                let saved = object::optional_object(py, saved.clone())?;
                tensors.set_item(params[meta.place].name, (saved, sizes))?;
            }
            let grad = object::optional_object(py, context.grads.first().cloned().flatten())?;
            let arguments = (context.args.op.python_name(), grad, tensors, values, PyTuple::new(py, context.wanted)?);
            let found = py.import("rushlight._engine_calls")?.call_method1("gradients", arguments)?;
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

    fn detach(&self, tensor: &Tensor) -> rushlight::Result<Tensor> {
        attach::acquire(|py| {
            let _enabled = Enabled::begin();
            let own = object::wrap_bound(py, tensor.clone())?;
            let found = py.import("rushlight._engine_calls")?.call_method1("detach", (own,))?;
            object::tensor(&found).cloned()
        })
    }

    fn item(&self, tensor: &Tensor) -> rushlight::Result<Scalar> {
        attach::acquire(|py| {
            let _enabled = Enabled::begin();
            let own = object::wrap_bound(py, tensor.clone())?;
            number(&py.import("rushlight._engine_calls")?.call_method1("item", (own,))?)
        })
    }

    fn elements(&self, tensor: &Tensor) -> rushlight::Result<Vec<Scalar>> {
        attach::acquire(|py| {
            let _enabled = Enabled::begin();
            let own = object::wrap_bound(py, tensor.clone())?;
            let found = py.import("rushlight._engine_calls")?.call_method1("elements", (own,))?;
            found.try_iter()?.map(|one| number(&one?)).collect::<PyResult<_>>()
        })
    }
}

/// A number that a handler returned.
fn number(found: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    convert::scalar(found)?.ok_or_else(|| PyTypeError::new_err(format!("expected a number, got {}", kind_of(found))))
}

/// The tensors that a handler returned.
fn tensors(found: &Bound<'_, PyAny>) -> PyResult<Vec<Tensor>> {
    if found.is_none() {
        return Ok(Vec::new());
    }
    if object::is_tensor(found) {
        return Ok(vec![object::tensor(found)?.clone()]);
    }
    found.try_iter()?.map(|one| object::tensor(&one?).cloned()).collect()
}

/// _with_supplier(function, operand, args, kwargs, supplier)
/// --
///
/// The result of a function of the engine, whose first operator with this operand has the results of `supplier`. That runs below
/// autograd, and the operator is recorded.
#[pyfunction]
fn _with_supplier<'py>(
    function: &Bound<'py, PyAny>,
    operand: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
    supplier: Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let operand = object::tensor(operand)?.clone();
    let own = supplier.clone().unbind();
    let supply = Box::new(move || {
        attach::acquire(|py| {
            let _enabled = Enabled::begin();
            tensors(&own.bind(py).call0()?)
        })
    });
    let call = || {
        let _disabled = overrides::Disabled::begin();
        function.call(args, Some(kwargs))
    };
    match handled::with_supplier(supply, operand, call) {
        (result, None) => result,
        (Err(error), Some(_)) => Err(error),
        (Ok(_), Some(_)) => handled::below_autograd(|| supplier.call0()),
    }
}

/// _is_wrapper(tensor)
/// --
///
/// Whether the class of a tensor without elements handles the operators that are called with it.
#[pyfunction]
fn _is_wrapper(tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
    object::tensor(tensor).map(Tensor::is_wrapper)
}

/// _is_recorded(operands)
/// --
///
/// Whether a call with these tensors is recorded.
#[pyfunction]
fn _is_recorded(operands: Vec<Bound<'_, PyAny>>) -> PyResult<bool> {
    for operand in &operands {
        if object::tensor(operand)?.is_tracked() {
            return Ok(modes::recording());
        }
    }
    Ok(false)
}

/// _as_views(operands, result)
/// --
///
/// What a handler returned, in which tensors that share an operand's memory are views of it.
#[pyfunction]
fn _as_views<'py>(operands: Vec<Bound<'py, PyAny>>, result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = result.py();
    if let Ok(list) = result.cast_exact::<PyTuple>() {
        let each = list.iter().map(|one| as_view(&operands, one)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyTuple::new(py, each)?.into_any());
    }
    if let Ok(list) = result.cast_exact::<PyList>() {
        let each = list.iter().map(|one| as_view(&operands, one)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyList::new(py, each)?.into_any());
    }
    as_view(&operands, result)
}

fn as_view<'py>(operands: &[Bound<'py, PyAny>], result: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    // A view of a class of its own would lose the class.
    if !object::is_exact(&result) {
        return Ok(result);
    }
    for operand in operands {
        if let Some(view) = handled::view_of(object::tensor(operand)?, object::tensor(&result)?) {
            return object::wrap_bound(result.py(), view);
        }
    }
    Ok(result)
}

/// _below_autograd(function, args, kwargs)
/// --
///
/// The result of a function whose operators are not recorded.
#[pyfunction]
fn _below_autograd<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    handled::below_autograd(|| function.call(args, Some(kwargs)))
}

/// _handling_parts(function, args, kwargs)
/// --
///
/// The result of a function whose operators of the engine are handled one by one.
#[pyfunction]
fn _handling_parts<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let _disabled = overrides::Disabled::begin();
    handled::handling_parts(|| function.call(args, Some(kwargs)))
}

/// _without_class_handlers(function, args, kwargs)
/// --
///
/// The result of a function that no handler of a class sees.
#[pyfunction]
fn _without_class_handlers<'py>(
    function: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let _disabled = overrides::Disabled::begin();
    handled::without_class_handlers(|| function.call(args, Some(kwargs)))
}

/// _make_wrapper(cls, data, device, requires_grad)
/// --
///
/// A leaf of a class that handles operators, with the form of `data`, which has no elements either, whose `device` attribute is `device`.
#[pyfunction]
fn _make_wrapper<'py>(
    cls: &Bound<'py, PyAny>,
    data: &Bound<'py, PyAny>,
    device: PyRef<'py, PyDevice>,
    requires_grad: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let data = object::tensor(data)?;
    let storage = Storage::new(Block::wrapper(data.storage().len()));
    let meta = TensorMeta { storage, form: Form::Wrapper, device: device.device, ..data.meta().clone() };
    let leaf = Tensor::with_meta(meta);
    if requires_grad {
        leaf.set_requires_grad(true).map_err(raise)?;
    }
    object::wrap_as(cls, leaf)
}

/// _expect_handlers(has_mode)
/// --
///
/// Says whether a mode of this thread handles the operators that derivatives call.
#[pyfunction]
fn _expect_handlers(has_mode: bool) {
    handled::set_mode(has_mode);
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    handled::install(Box::new(PyHandler));
    module.add_function(wrap_pyfunction!(_with_supplier, module)?)?;
    module.add_function(wrap_pyfunction!(_is_wrapper, module)?)?;
    module.add_function(wrap_pyfunction!(_is_recorded, module)?)?;
    module.add_function(wrap_pyfunction!(_as_views, module)?)?;
    module.add_function(wrap_pyfunction!(_below_autograd, module)?)?;
    module.add_function(wrap_pyfunction!(_handling_parts, module)?)?;
    module.add_function(wrap_pyfunction!(_without_class_handlers, module)?)?;
    module.add_function(wrap_pyfunction!(_make_wrapper, module)?)?;
    module.add_function(wrap_pyfunction!(_expect_handlers, module)?)
}
