//! `__torch_function__`: calls that the class of an argument, or a mode, answers in the operator's place.
//!
//! `rushlight.overrides` finds who answers and asks. Here stands whether anybody might, which costs one load as long as no
//! class derives from `Tensor` but the library's own. Classes that are no tensors are asked where a call would fail.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::object;

type Raw = *mut ffi::PyObject;

/// Set for ever by the first mode, or class of tensors, that may answer.
static EXPECTED: AtomicBool = AtomicBool::new(false);
/// What a class has as `__torch_function__` whose tensors are treated as plain ones: parameters, for one.
static DISABLED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// Who is asked on this thread.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Everyone,
    /// Inside the answer of a class, which calls the operator itself.
    Modes,
    Nobody,
}

impl Asked {
    /// A context never asks more than the one around it.
    fn at_most(self, inner: Asked) -> Asked {
        if self == Asked::Nobody { self } else { inner }
    }
}

thread_local! {
    static ASKED: Cell<Asked> = const { Cell::new(Asked::Everyone) };
    static MODES: Cell<usize> = const { Cell::new(0) };
}

/// Something that Python programs call or read, as a handler gets it.
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
        // SAFETY: the class lives for ever.
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

/// Whether a mode or a class of tensors may ever answer; false in most programs.
#[inline]
pub fn expected() -> bool {
    EXPECTED.load(Ordering::Relaxed)
}

/// What whoever overrides `public` says to this call, as a new reference; nothing where nobody does.
///
/// # Safety
/// All are living objects; `keywords` are strings, and `values` has as many.
#[cold]
pub unsafe fn answer(
    py: Python<'_>,
    public: &Public<'_>,
    args: &[Raw],
    keywords: &[Raw],
    values: &[Raw],
) -> PyResult<Option<Raw>> {
    // SAFETY: living objects, by the caller's word.
    if !unsafe { someone(py, args.iter().chain(values)) } {
        return Ok(None);
    }
    // SAFETY: as above.
    let (args, names) = unsafe {
        let args = PyTuple::new(py, args.iter().map(|&raw| Bound::from_borrowed_ptr(py, raw)))?;
        let names = PyDict::new(py);
        for (&keyword, &value) in keywords.iter().zip(values) {
            names.set_item(Bound::from_borrowed_ptr(py, keyword), Bound::from_borrowed_ptr(py, value))?;
        }
        (args, names)
    };
    let kwargs = (!names.is_empty()).then_some(names);
    let handler = py.import("rushlight.overrides")?.getattr("_answer")?;
    Ok(Some(handler.call1((public.object(py)?, args, kwargs))?.into_ptr()))
}

/// What a mode says to a call of a function of this module that makes a tensor of data, if this thread has a mode.
pub fn mode_answer<'py, const N: usize>(
    name: &str,
    data: &Bound<'py, PyAny>,
    keywords: [(&str, Option<Bound<'py, PyAny>>); N],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if MODES.get() == 0 || ASKED.get() == Asked::Nobody {
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
    let handler = py.import("rushlight.overrides")?.getattr("_first")?;
    handler.call1((function, PyList::empty(py), (data,), kwargs)).map(Some)
}

/// The same for Python's operators: a refusal leaves the call to the other operand.
///
/// # Safety
/// As for `answer`.
#[cold]
pub unsafe fn operator(py: Python<'_>, name: &str, operands: &[Raw]) -> PyResult<Option<Raw>> {
    // SAFETY: by the caller's word.
    match unsafe { answer(py, &Public::Method(name), operands, &[], &[]) } {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => Ok(Some(py.NotImplemented().into_ptr())),
        answer => answer,
    }
}

/// Whether a mode or this object answers.
///
/// # Safety
/// `raw` is a living object.
pub unsafe fn answers(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: by the caller's word.
    unsafe { someone(py, std::iter::once(&raw)) }
}

/// Whether a mode or one of these arguments answers.
///
/// # Safety
/// All are living objects.
unsafe fn someone<'a>(py: Python<'_>, mut arguments: impl Iterator<Item = &'a Raw>) -> bool {
    match ASKED.get() {
        Asked::Nobody => false,
        _ if MODES.get() > 0 => true,
        Asked::Modes => false,
        // SAFETY: by the caller's word.
        Asked::Everyone => arguments.any(|&raw| unsafe { anyone(py, raw) }),
    }
}

/// Whether an argument answers for itself, or a list has an element that does.
///
/// # Safety
/// `raw` is a living object.
unsafe fn anyone(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: a living object; the items of a list are read under the interpreter's lock.
    unsafe {
        if ffi::PyTuple_Check(raw) != 0 || ffi::PyList_Check(raw) != 0 {
            let items = Bound::from_borrowed_ptr(py, raw);
            return items.try_iter().is_ok_and(|items| items.flatten().any(|item| overrides(py, item.as_ptr())));
        }
        overrides(py, raw)
    }
}

/// Whether an object's class has a `__torch_function__` of its own.
///
/// # Safety
/// `raw` is a living object.
unsafe fn overrides(py: Python<'_>, raw: Raw) -> bool {
    // SAFETY: a living object has a living type.
    unsafe {
        let class = ffi::Py_TYPE(raw);
        // Classes of the interpreter's own, such as numbers, have none.
        if class == object::class() || ffi::PyType_GetFlags(class) & ffi::Py_TPFLAGS_HEAPTYPE == 0 {
            return false;
        }
        let class = Bound::from_borrowed_ptr(py, class.cast());
        let Ok(handler) = class.getattr(intern!(py, "__torch_function__")) else { return false };
        DISABLED.get(py).is_none_or(|disabled| !handler.is(disabled))
    }
}

/// _overrides(object)
/// --
///
/// Whether the class of an object has a `__torch_function__` of its own, and classes are asked here and now.
#[pyfunction]
fn _overrides(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a living object.
    ASKED.get() == Asked::Everyone && unsafe { overrides(object.py(), object.as_ptr()) }
}

/// _overridden(arguments)
/// --
///
/// Whether a mode or the class of one of these arguments, or of an element of a list among them, answers here and now.
#[pyfunction]
fn _overridden(arguments: &Bound<'_, PyTuple>) -> bool {
    let raw: Vec<Raw> = arguments.iter_borrowed().map(|argument| argument.as_ptr()).collect();
    // SAFETY: the tuple keeps them alive.
    unsafe { someone(arguments.py(), raw.iter()) }
}

/// _expect_overrides(modes=None)
/// --
///
/// From now on classes and modes are asked; this thread has so many modes. Gives whether they were asked before.
#[pyfunction]
#[pyo3(signature = (modes=None))]
fn _expect_overrides(modes: Option<usize>) -> bool {
    if let Some(modes) = modes {
        MODES.set(modes);
    }
    EXPECTED.swap(true, Ordering::Relaxed)
}

/// _disabled_torch_function_impl(func, types, args, kwargs)
/// --
///
/// As a class's `__torch_function__`: its tensors are treated as plain ones.
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
    let before = ASKED.get();
    ASKED.set(before.at_most(Asked::Modes));
    let result = func.call(args.unwrap_or_else(|| PyTuple::empty(func.py())), kwargs.as_ref());
    ASKED.set(before);
    result
}

macro_rules! silencer {
    ($class:ident, $asked:expr, $doc:literal) => {
        #[doc = $doc]
        #[pyclass(module = "rushlight._C")]
        struct $class(Vec<Asked>);

        #[pymethods]
        impl $class {
            #[new]
            fn new() -> Self {
                $class(Vec::new())
            }

            fn __enter__(&mut self) {
                let before = ASKED.get();
                ASKED.set(before.at_most($asked));
                self.0.push(before);
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(&mut self, _exception: &Bound<'_, PyTuple>) {
                if let Some(before) = self.0.pop() {
                    ASKED.set(before);
                }
            }
        }
    };
}

silencer!(
    DisableTorchFunctionSubclass,
    Asked::Modes,
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
    Asked::Nobody,
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
    module.add_function(wrap_pyfunction!(_overridden, module)?)?;
    module.add_function(wrap_pyfunction!(_expect_overrides, module)?)?;
    let disabled = wrap_pyfunction!(_disabled_torch_function_impl, module)?;
    DISABLED.get_or_init(module.py(), || disabled.clone().into_any().unbind());
    module.add_function(disabled)
}
