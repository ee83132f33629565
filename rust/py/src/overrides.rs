//! `__torch_function__`: calls that the class of an argument, or a mode, answers in the operator's place.
//!
//! `rushlight.overrides` finds the override and calls it. This file decides whether there may be one, which costs one
//! load as long as only the library's own classes derive from `Tensor`. Classes that are not tensors are considered
//! only if a call would fail.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple, PyType};
use pyo3::{ffi, intern};

use crate::exit;
use crate::object;
use crate::parse::{Call, Raw, written_in_python};

/// Set permanently by the first mode, or class of tensors, that may override calls.
static EVER_OVERRIDDEN: AtomicBool = AtomicBool::new(false);
/// The `__torch_function__` of classes whose tensors are treated as plain ones, such as parameters.
static DISABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Which overrides are considered on this thread.
#[derive(Clone, Copy, PartialEq)]
enum TorchFunctionState {
    Enabled,
    /// Inside the override of a class, which calls the operator itself.
    SubclassesDisabled,
    AllDisabled,
}

impl TorchFunctionState {
    /// A nested context never enables more overrides than the one around it.
    fn at_most(self, inner: TorchFunctionState) -> TorchFunctionState {
        if self == TorchFunctionState::AllDisabled { self } else { inner }
    }
}

thread_local! {
    static STATE: Cell<TorchFunctionState> = const { Cell::new(TorchFunctionState::Enabled) };
    static MODES: Cell<usize> = const { Cell::new(0) };
}

macro_rules! guard {
    ($name:ident, $state:expr, $doc:literal) => {
        #[doc = $doc]
        pub struct $name(TorchFunctionState);

        impl $name {
            pub fn begin() -> Self {
                $name(STATE.replace($state))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                STATE.set(self.0);
            }
        }
    };
}

guard!(Enabled, TorchFunctionState::Enabled, "Overrides are considered again until it is dropped.");
guard!(Disabled, TorchFunctionState::AllDisabled, "No override is considered until it is dropped.");

/// A public function, method or attribute, as an override gets it.
pub enum Public<'a> {
    Function {
        namespace: &'a str,
        name: &'a str,
    },
    Method(&'a str),
    /// An attribute of tensors, and `__get__` or `__set__`.
    Attribute(&'a str, &'a str),
}

impl Public<'_> {
    fn object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the class is never freed.
        let class = || unsafe { Bound::from_borrowed_ptr(py, object::class().cast()) };
        match self {
            Public::Function { namespace, name } => {
                py.import("rushlight._C")?.getattr("_functions")?.get_item(*namespace)?.get_item(*name)
            }
            Public::Method(name) => class().getattr(*name),
            Public::Attribute(name, access) => class().getattr(*name)?.getattr(*access),
        }
    }
}

/// Whether any mode or class of tensors may override calls; false in most programs.
#[inline]
pub fn ever_overridden() -> bool {
    EVER_OVERRIDDEN.load(Ordering::Relaxed)
}

/// The answer to this call of `public`, as a new reference; `None` if there is no override.
#[cold]
pub fn answer(public: &Public<'_>, call: &Call) -> PyResult<Option<Raw>> {
    // SAFETY: a call's arguments are alive.
    if !unsafe {
        any_overrides(
            call.py,
            call.all_positional().map(|argument| argument.as_ptr()).chain(call.values.iter().copied()),
        )
    } {
        return Ok(None);
    }
    let py = call.py;
    let args = PyTuple::new(py, call.all_positional().collect::<Vec<_>>())?;
    let names = PyDict::new(py);
    for (keyword, value) in call.keywords() {
        names.set_item(keyword, value)?;
    }
    let kwargs = (!names.is_empty()).then_some(names);
    let call_override = py.import("rushlight.overrides")?.getattr("_call_override")?;
    let operands = (public.object(py)?, args, kwargs);
    exit::keep_frames();
    Ok(Some(call_override.call1(operands)?.into_ptr()))
}

/// The same for Python's operators of one operand, whose errors are raised: there is no other operand to ask.
///
/// # Safety
/// A living object.
#[cold]
pub unsafe fn unary_operator(py: Python<'_>, name: &str, own: Raw) -> PyResult<Option<Raw>> {
    let operands = [own];
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let call = unsafe { Call::new(py, &operands) };
    answer(&Public::Method(name), &call)
}

/// The same for Python's operators of two operands: NotImplemented leaves the call to the other operand.
///
/// # Safety
/// All are living objects.
#[cold]
pub unsafe fn operator(py: Python<'_>, name: &str, operands: &[Raw]) -> PyResult<Option<Raw>> {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    let call = unsafe { Call::new(py, operands) };
    match answer(&Public::Method(name), &call) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(Some(py.NotImplemented().into_ptr())),
        answer => answer,
    }
}

/// The result of this thread's mode for a function of this module that makes a tensor from data, if there is a mode.
pub fn mode_answer<'py, const N: usize>(
    name: &str,
    data: &Bound<'py, PyAny>,
    keywords: [(&str, Option<Bound<'py, PyAny>>); N],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if MODES.get() == 0 || STATE.get() == TorchFunctionState::AllDisabled {
        return Ok(None);
    }
    let (py, names) = (data.py(), PyDict::new(data.py()));
    for (keyword, value) in keywords {
        if let Some(value) = value {
            names.set_item(keyword, value)?;
        }
    }
    let kwargs = (!names.is_empty()).then_some(names);
    let function = py.import("rushlight._C")?.getattr(name)?;
    let call_overrides = py.import("rushlight.overrides")?.getattr("_call_overrides_or_decompose")?;
    exit::keep_frames();
    call_overrides.call1((function, PyList::empty(py), (data,), kwargs)).map(Some)
}

/// Whether a mode or this object's class overrides the call.
///
/// # Safety
/// `raw` is a living object.
pub unsafe fn is_overridden(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { any_overrides(py, std::iter::once(raw)) }
}

/// Whether a mode or the class of one of these arguments overrides the call.
///
/// # Safety
/// All are living objects.
unsafe fn any_overrides(py: Python<'_>, mut arguments: impl Iterator<Item = Raw>) -> bool {
    match STATE.get() {
        TorchFunctionState::AllDisabled => false,
        _ if MODES.get() > 0 => true,
        // An override that calls the function leaves its operators to the class.
        TorchFunctionState::SubclassesDisabled => {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            arguments.any(|raw| unsafe { any_item_has(py, raw, handles_operators) })
        }
        // SAFETY: guaranteed by the caller (see `# Safety`).
        TorchFunctionState::Enabled => arguments.any(|raw| unsafe { any_item_has(py, raw, overrides_functions) }),
    }
}

/// Whether `has` is true of an argument, or of an element of a list or tuple.
///
/// # Safety
/// `raw` is a living object, and `has` asks for nothing else.
unsafe fn any_item_has(py: Python<'_>, raw: Raw, has: unsafe fn(Python<'_>, Raw) -> bool) -> bool {
    // SAFETY: a living object; the items of a list are read with the GIL.
    unsafe {
        if ffi::PyTuple_Check(raw) != 0 || ffi::PyList_Check(raw) != 0 {
            let items = Bound::from_borrowed_ptr(py, raw);
            return items.try_iter().is_ok_and(|items| items.flatten().any(|item| has(py, item.as_ptr())));
        }
        has(py, raw)
    }
}

/// Whether an object is a tensor whose class has a `__torch_dispatch__` of its own.
///
/// # Safety
/// `raw` is a living object.
unsafe fn handles_operators(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: a living object has a living type.
    unsafe { class_handles_operators(py, ffi::Py_TYPE(raw)) }
}

/// The same for a class, which may be one of other objects.
///
/// # Safety
/// `class` is a living type.
unsafe fn class_handles_operators(py: Python<'_>, class: *mut ffi::PyTypeObject) -> bool {
    // SAFETY: guaranteed by the caller (see `# Safety`), and the class of tensors is never freed.
    let (class, own) = unsafe {
        if class == object::class() || ffi::PyType_IsSubtype(class, object::class()) == 0 {
            return false;
        }
        (Bound::from_borrowed_ptr(py, class.cast()), Bound::from_borrowed_ptr(py, object::class().cast()))
    };
    matches!((operator_handler(&class), operator_handler(&own)), (Ok(handler), Ok(own)) if !handler.is(&own))
}

/// The function behind the `__torch_dispatch__` of a class, which is bound to each class anew.
fn operator_handler<'py>(class: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let found = class.getattr(intern!(class.py(), "__torch_dispatch__"))?;
    found.getattr(intern!(class.py(), "__func__")).or(Ok(found))
}

/// Whether an object's class has a `__torch_function__` of its own.
///
/// # Safety
/// `raw` is a living object.
unsafe fn overrides_functions(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: a living object has a living type.
    unsafe {
        let class = ffi::Py_TYPE(raw);
        // Built-in classes, such as numbers, have none.
        if class == object::class() || ffi::PyType_GetFlags(class) & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
            return false;
        }
        let class = Bound::from_borrowed_ptr(py, class.cast());
        let Ok(function) = class.getattr(intern!(py, "__torch_function__")) else { return false };
        DISABLED.get(py).is_none_or(|disabled| !function.is(disabled))
    }
}

/// Whether an object's class has a `__torch_function__` that is not disabled, whether or not overrides are enabled here.
pub fn has_override(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object.
    unsafe { overrides_functions(object.py(), object.as_ptr()) }
}

/// _overrides(object)
/// --
///
/// Whether the class of an object has a `__torch_function__` of its own, and overrides of classes are enabled here.
#[pyfunction]
fn _overrides(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object.
    STATE.get() == TorchFunctionState::Enabled && unsafe { overrides_functions(object.py(), object.as_ptr()) }
}

/// _handles_operators(kind)
/// --
///
/// Whether a class of tensors has a `__torch_dispatch__` of its own.
#[pyfunction]
fn _handles_operators(kind: &Bound<'_, PyType>) -> bool {
    // SAFETY: a living type.
    unsafe { class_handles_operators(kind.py(), kind.as_type_ptr()) }
}

/// _overridden(arguments)
/// --
///
/// Whether a mode or the class of one of these arguments, or of an element of a list among them, overrides calls here.
#[pyfunction]
fn _overridden(arguments: &Bound<'_, PyTuple>) -> bool {
    let raw: Vec<Raw> = arguments.iter_borrowed().map(|argument| argument.as_ptr()).collect();
    // SAFETY: the tuple keeps them alive.
    unsafe { any_overrides(arguments.py(), raw.iter().copied()) }
}

/// _has_mode()
/// --
///
/// Whether this thread has a mode that is asked here.
#[pyfunction]
fn _has_mode() -> bool {
    MODES.get() > 0 && STATE.get() != TorchFunctionState::AllDisabled
}

/// _home_in_python(namespace, name, is_method)
/// --
///
/// torch's module, without ``torch.``, of a function or method that torch writes in Python; None for another one.
#[pyfunction]
fn _home_in_python(namespace: &str, name: &str, is_method: bool) -> Option<&'static str> {
    written_in_python::home(namespace, name, is_method)
}

/// _expect_overrides(modes=None)
/// --
///
/// Enables overrides of classes and modes from now on; this thread has so many modes. Returns whether they were enabled
/// before.
#[pyfunction]
#[pyo3(signature = (modes=None))]
fn _expect_overrides(modes: Option<usize>) -> bool {
    if let Some(modes) = modes {
        MODES.set(modes);
    }
    EVER_OVERRIDDEN.swap(true, Ordering::Relaxed)
}

/// _disabled_torch_function_impl(func, types, args, kwargs)
/// --
///
/// Used as a class's `__torch_function__`, makes its tensors behave like plain ones.
///
/// >>> class Quiet(torch.Tensor):
/// ...     __torch_function__ = torch._C._disabled_torch_function_impl
/// >>> torch.ones(2).as_subclass(Quiet) + 1
/// tensor([2., 2.])
#[pyfunction]
#[pyo3(signature = (func, types, args=None, kwargs=None))]
fn _disabled_torch_function_impl<'py>(
    func: &Bound<'py, PyAny>,
    types: &Bound<'py, PyAny>,
    args: Option<Bound<'py, PyTuple>>,
    kwargs: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = types;
    let before = STATE.get();
    STATE.set(before.at_most(TorchFunctionState::SubclassesDisabled));
    let result = func.call(args.unwrap_or_else(|| PyTuple::empty(func.py())), kwargs.as_ref());
    STATE.set(before);
    result
}

macro_rules! silencer {
    ($class:ident, $asked:expr, $doc:literal) => {
        #[doc = $doc]
        #[pyclass(module = "rushlight._C")]
        struct $class(Vec<TorchFunctionState>);

        #[pymethods]
        impl $class {
            #[new]
            fn new() -> Self {
                $class(Vec::new())
            }

            fn __enter__(&mut self) {
                let before = STATE.get();
                STATE.set(before.at_most($asked));
                self.0.push(before);
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
                if let Some(before) = self.0.pop() {
                    STATE.set(before);
                }
            }
        }
    };
}

silencer!(
    DisableTorchFunctionSubclass,
    TorchFunctionState::SubclassesDisabled,
    "A context in which no class of an argument answers in an operator's place; modes do.

>>> class Named(torch.Tensor):
...     pass
>>> x = torch.ones(2).as_subclass(Named)
>>> with torch._C.DisableTorchFunctionSubclass():
...     x + 1
tensor([2., 2.])
"
);
silencer!(
    DisableTorchFunction,
    TorchFunctionState::AllDisabled,
    "A context in which neither a class of an argument nor a mode answers in an operator's place.

>>> with torch.overrides.TorchFunctionMode(), torch._C.DisableTorchFunction():
...     torch.ones(1)
tensor([1.])
"
);

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DisableTorchFunctionSubclass>()?;
    module.add_class::<DisableTorchFunction>()?;
    module.add_function(wrap_pyfunction!(_overrides, module)?)?;
    module.add_function(wrap_pyfunction!(_handles_operators, module)?)?;
    module.add_function(wrap_pyfunction!(_overridden, module)?)?;
    module.add_function(wrap_pyfunction!(_has_mode, module)?)?;
    module.add_function(wrap_pyfunction!(_home_in_python, module)?)?;
    module.add_function(wrap_pyfunction!(_expect_overrides, module)?)?;
    let disabled = wrap_pyfunction!(_disabled_torch_function_impl, module)?;
    DISABLED.get_or_init(module.py(), || disabled.clone().into_any().unbind());
    module.add_function(disabled)
}
