//! Functions of libraries that were compiled for torch's stable ABI (the crate `stable`): their arguments and results as
//! Python objects, by the types of their schemas, and the operators that they call.

use std::cell::Cell;
use std::path::PathBuf;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rushlight::{Error, Result};
use rushlight_stable::{
    Enumeration, Kernel, Registration, call, dtype_of, set_dispatch, take_last, take_registrations, values,
};

use crate::dtype::{
    MEMORY_FORMATS, PyLayout, PyMemoryFormat, device_object, dtype_object, extract_device, extract_dtype, layout_object,
};
use crate::errors::raise;
use crate::generator::PyGenerator;
use crate::{attach, object};

/// The type of an argument or a result in a schema.
enum Kind {
    Tensor,
    Int,
    /// A number that a library passes in floating point.
    Float,
    Bool,
    Text,
    DType,
    Layout,
    MemoryFormat,
    Device,
    Generator,
    Optional(Box<Kind>),
    List(Box<Kind>),
}

impl Kind {
    /// Reads torch's words for a type: `int[2]?`.
    fn read(text: &str) -> PyResult<Kind> {
        if let Some(inner) = text.strip_suffix('?') {
            return Ok(Kind::Optional(Box::new(Kind::read(inner)?)));
        }
        if let Some((inner, _)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
            return Ok(Kind::List(Box::new(Kind::read(inner)?)));
        }
        Ok(match text {
            "Tensor" => Kind::Tensor,
            "int" | "SymInt" | "DeviceIndex" => Kind::Int,
            "float" | "Scalar" => Kind::Float,
            "bool" | "SymBool" => Kind::Bool,
            "str" => Kind::Text,
            "ScalarType" => Kind::DType,
            "Layout" => Kind::Layout,
            "MemoryFormat" => Kind::MemoryFormat,
            "Device" => Kind::Device,
            "Generator" => Kind::Generator,
            _ => {
                return Err(PyRuntimeError::new_err(format!(
                    "a value of the type {text} cannot be passed to or from a compiled library"
                )));
            }
        })
    }

    fn read_all(texts: Vec<String>) -> PyResult<Vec<Kind>> {
        texts.iter().map(|text| Kind::read(text)).collect()
    }

    /// A Python object as a value, which its receiver owns.
    fn lower(&self, object: &Bound<'_, PyAny>) -> PyResult<u64> {
        Ok(match self {
            Kind::Tensor if object.is_none() => values::of_tensor(None),
            Kind::Tensor => values::of_tensor(Some(object::tensor(object)?)),
            Kind::Int => object.extract::<i64>()? as u64,
            Kind::Float => object.extract::<f64>()?.to_bits(),
            Kind::Bool => u64::from(object.extract::<bool>()?),
            Kind::Text => match object.cast::<PyBytes>() {
                Ok(bytes) => values::of_text(bytes.as_bytes()),
                Err(_) => values::of_text(object.cast::<PyString>()?.extract::<String>()?.as_bytes()),
            },
            Kind::DType => {
                let dtype = extract_dtype(object).ok_or_else(|| unlike("dtype", object))?;
                dtype as u64
            }
            Kind::Layout => Enumeration::LAYOUT.of(object.cast::<PyLayout>()?.get().0).map_err(raise)? as u64,
            Kind::MemoryFormat => {
                Enumeration::MEMORY_FORMAT.of(object.cast::<PyMemoryFormat>()?.get().0).map_err(raise)? as u64
            }
            Kind::Device => {
                let device = extract_device(object)?.ok_or_else(|| unlike("device", object))?;
                values::of_device(device).map_err(raise)?
            }
            Kind::Generator => values::of_generator(&object.cast::<PyGenerator>()?.get().0),
            Kind::Optional(_) if object.is_none() => values::of_optional(None),
            Kind::Optional(inner) => values::of_optional(Some(inner.lower(object)?)),
            Kind::List(inner) => {
                let mut list = Vec::new();
                // A single number stands for a list, as in torch.
                if object.extract::<i64>().is_ok() && matches!(**inner, Kind::Int) {
                    list.push(inner.lower(object)?);
                } else {
                    for element in object.try_iter()? {
                        let lowered = element.and_then(|element| inner.lower(&element));
                        list.push(lowered.inspect_err(|_| inner.drop_all(object.py(), &list))?);
                    }
                }
                values::of_list(list)
            }
        })
    }

    /// A value as a Python object.
    ///
    /// # Safety
    /// The value is one of this type, and belongs to the caller, who gives it away.
    unsafe fn lift<'py>(&self, py: Python<'py>, value: u64) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: guaranteed by the caller.
        unsafe {
            Ok(match self {
                Kind::Tensor => match values::take_tensor(value).map_err(raise)? {
                    Some(tensor) => object::wrap_bound(py, tensor)?,
                    None => py.None().into_bound(py),
                },
                Kind::Int => (value as i64).into_pyobject(py)?.into_any(),
                Kind::Float => f64::from_bits(value).into_pyobject(py)?.into_any(),
                Kind::Bool => (value & 0xff != 0).into_pyobject(py)?.to_owned().into_any(),
                Kind::Text => values::take_text(value).map_err(raise)?.into_pyobject(py)?.into_any(),
                Kind::DType => dtype_object(py, dtype_of(value as i32).map_err(raise)?)?.into_bound(py).into_any(),
                Kind::Layout => {
                    layout_object(py, Enumeration::LAYOUT.name(value as i32).map_err(raise)?)?.into_bound(py)
                }
                Kind::MemoryFormat => {
                    let name = Enumeration::MEMORY_FORMAT.name(value as i32).map_err(raise)?;
                    debug_assert!(MEMORY_FORMATS.contains(&name));
                    py.import("rushlight")?.getattr(name)?
                }
                Kind::Device => device_object(py, values::device_of(value).map_err(raise)?)?,
                Kind::Generator => {
                    let generator = values::take_generator(value).map_err(raise)?;
                    Bound::new(py, PyGenerator(generator))?.into_any()
                }
                Kind::Optional(inner) => match values::take_optional(value) {
                    Some(value) => inner.lift(py, value)?,
                    None => py.None().into_bound(py),
                },
                Kind::List(inner) => {
                    let list = values::take_list(value).map_err(raise)?;
                    // All values are taken, whether or not one of them is an error.
                    let lifted: Vec<_> = list.into_iter().map(|value| inner.lift(py, value)).collect();
                    PyList::new(py, lifted.into_iter().collect::<PyResult<Vec<_>>>()?)?.into_any()
                }
            })
        }
    }

    /// Frees values that nobody will receive.
    fn drop_all(&self, py: Python<'_>, list: &[u64]) {
        for value in list {
            // SAFETY: values of this type that were just made.
            let _ = unsafe { self.lift(py, *value) };
        }
    }
}

fn unlike(what: &str, object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("expected a {what}, but got {}", crate::errors::kind_of(object)))
}

thread_local! {
    /// How many functions of libraries run on this thread, one called by another.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The exception of the last operator that such a function called in vain. A function takes it as it ends, with the
    /// GIL held; nothing is kept on other threads.
    static CAUSE: Cell<Option<PyErr>> = const { Cell::new(None) };
}

/// A function of a library and the types of its schema.
#[pyclass(frozen, name = "_StableKernel", module = "rushlight._C")]
struct PyKernel {
    kernel: Kernel,
    arguments: Vec<Kind>,
    /// Whether the function changes an argument.
    mutated: Vec<bool>,
    results: Vec<Kind>,
}

#[pymethods]
impl PyKernel {
    /// Calls the function with one object for each parameter of its schema; returns a list of results.
    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        if arguments.len() != self.arguments.len() {
            return Err(PyTypeError::new_err(format!(
                "expected {} arguments of a compiled function, but got {}",
                self.arguments.len(),
                arguments.len()
            )));
        }
        let mut stack = Vec::with_capacity(self.arguments.len().max(self.results.len()));
        for (kind, object) in self.arguments.iter().zip(arguments) {
            match kind.lower(&object) {
                Ok(value) => stack.push(value),
                Err(error) => {
                    for (kind, value) in self.arguments.iter().zip(&stack) {
                        kind.drop_all(py, &[*value]);
                    }
                    return Err(error);
                }
            }
        }
        stack.resize(stack.capacity().max(self.results.len()), 0);
        CAUSE.take();
        take_last();
        DEPTH.set(DEPTH.get() + 1);
        let (given, wanted) = (self.arguments.len() as u64, self.results.len() as u64);
        let place = stack.as_mut_ptr();
        // SAFETY: the stack has the function's arguments and room for its results.
        let called = attach::release(py, || unsafe { call(self.kernel, place, given, wanted) });
        DEPTH.set(DEPTH.get() - 1);
        if let Err(thrown) = called {
            let exception = raise(thrown.into());
            let cause = CAUSE.take().or_else(|| take_last().map(raise));
            if cause.is_some() {
                exception.set_cause(py, cause);
            }
            return Err(exception);
        }
        for (object, _) in arguments.iter().zip(&self.mutated).filter(|(_, mutated)| **mutated) {
            if let Ok(tensor) = object::tensor(&object) {
                tensor.bump_version();
            }
        }
        let results = self.results.iter().zip(stack);
        // SAFETY: the function's results. All are taken, whether or not one of them is an error.
        let lifted: Vec<_> = results.map(|(kind, value)| unsafe { kind.lift(py, value) }).collect();
        lifted.into_iter().collect()
    }
}

/// Calls an operator for a library.
///
/// # Safety
/// The stack has the operator's arguments, which belong to this call, and room for its results.
unsafe fn dispatch(name: &str, overload: &str, stack: *mut u64) -> Result<()> {
    attach::attached(|py| {
        // SAFETY: guaranteed by the caller.
        unsafe { call_operator(py, name, overload, stack) }.map_err(|exception| {
            let text = exception.value(py).to_string();
            if DEPTH.get() > 0 {
                CAUSE.set(Some(exception));
            }
            Error::runtime(text)
        })
    })
}

/// # Safety
/// As for `dispatch`.
unsafe fn call_operator(py: Python<'_>, name: &str, overload: &str, stack: *mut u64) -> PyResult<()> {
    let module = py.import("rushlight._library.stable")?;
    let found = module.call_method1("operator_of", (name, overload))?;
    let (function, arguments, results): (Bound<'_, PyAny>, Vec<String>, Vec<String>) = found.extract()?;
    let (arguments, results) = (Kind::read_all(arguments)?, Kind::read_all(results)?);
    // SAFETY: the arguments are those of the operator. All are taken, whether or not one of them is an error. Without the
    // operator's schema none can be, and they are lost.
    let lifted: Vec<_> =
        arguments.iter().enumerate().map(|(place, kind)| unsafe { kind.lift(py, *stack.add(place)) }).collect();
    let lifted = lifted.into_iter().collect::<PyResult<Vec<_>>>()?;
    let returned = function.call1(PyTuple::new(py, lifted)?)?;
    let returned: Vec<Bound<'_, PyAny>> = returned.extract()?;
    if returned.len() != results.len() {
        return Err(PyRuntimeError::new_err(format!(
            "{name} returned {} results of {}",
            returned.len(),
            results.len()
        )));
    }
    let mut lowered = Vec::with_capacity(results.len());
    for (kind, object) in results.iter().zip(returned) {
        match kind.lower(&object) {
            Ok(value) => lowered.push(value),
            Err(error) => {
                results.iter().zip(&lowered).for_each(|(kind, value)| kind.drop_all(py, &[*value]));
                return Err(error);
            }
        }
    }
    // SAFETY: the stack has room for the results.
    unsafe { std::ptr::copy_nonoverlapping(lowered.as_ptr(), stack, lowered.len()) };
    Ok(())
}

/// A function that a library has registered, before the types of its arguments are known.
#[pyclass(frozen, name = "_StableFunction", module = "rushlight._C")]
struct PyFunction(Kernel);

#[pymethods]
impl PyFunction {
    /// The function with the types of its arguments and results, and with what it changes.
    fn with_types(&self, arguments: Vec<String>, mutated: Vec<bool>, results: Vec<String>) -> PyResult<PyKernel> {
        let (arguments, results) = (Kind::read_all(arguments)?, Kind::read_all(results)?);
        Ok(PyKernel { kernel: self.0, arguments, mutated, results })
    }
}

/// What a library registers: a namespace and a schema, or a namespace, a dispatch key, and a name with its function.
type Registered = (String, String, Option<(String, PyFunction)>);

/// Loads a library; returns what it has registered, and those that were loaded otherwise.
#[pyfunction]
fn _load_stable_library(py: Python<'_>, path: PathBuf) -> PyResult<Vec<Registered>> {
    attach::idle(py, || rushlight_stable::load(&path)).map(to_python).map_err(PyOSError::new_err)
}

/// What libraries have registered that were loaded otherwise.
#[pyfunction]
fn _stable_registrations() -> Vec<Registered> {
    to_python(take_registrations())
}

fn to_python(registered: Vec<Registration>) -> Vec<Registered> {
    let row = |one| match one {
        Registration::Define { namespace, schema } => (namespace, schema, None),
        Registration::Implement { namespace, key, name, kernel } => (namespace, key, Some((name, PyFunction(kernel)))),
    };
    registered.into_iter().map(row).collect()
}

pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    set_dispatch(dispatch);
    module.add_function(wrap_pyfunction!(_load_stable_library, module)?)?;
    module.add_function(wrap_pyfunction!(_stable_registrations, module)?)
}
