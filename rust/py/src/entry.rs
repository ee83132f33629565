//! A pool of C functions, one for each index in the list of callables, and the methods and functions made of them.
//!
//! CPython calls a C function without passing the name under which it was found. So each callable gets a function of
//! its own, with its index as a constant, and all of them do the same: bind the arguments and call the operator.

use std::ffi::CString;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::impl_::trampoline::{MethodDef, fastcall_cfunction_with_keywords};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rushlight::names::{self, CallForm};
use rushlight_dispatch::operator::{Args, Operator, Variants};
use rushlight_dispatch::signature::Returns;
use rushlight_dispatch::value::{Target, Values};

use crate::errors::raise;
use crate::help::{self, Shown};
use crate::overrides::{self, Public};
use crate::parse::{
    BindError, Call, Overload, Raw, Signatures, bind, fits_none, no_match, out_tensors, overload, written_in_python,
};
use crate::{convert, deprecated};

type Method = fastcall_cfunction_with_keywords::Func;
type CFunction = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    ffi::Py_ssize_t,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Something that Python can call: a name with its overloads.
pub struct Callable {
    pub name: String,
    pub namespace: &'static str,
    pub method: bool,
    in_place: bool,
    overloads: Vec<Overload>,
    /// torch's signatures, made when a call is first refused.
    signatures: OnceLock<Signatures>,
}

impl Callable {
    /// The callable in its public form.
    fn public(&self) -> Public<'_> {
        if self.method {
            Public::Method(&self.name)
        } else {
            Public::Function { namespace: self.namespace, name: &self.name }
        }
    }

    /// The callable as `help()` shows it.
    fn shown(&self) -> Shown<'_> {
        Shown { namespace: self.namespace, name: &self.name, is_method: self.method, is_in_place: self.in_place }
    }

    fn signatures(&self) -> &Signatures {
        self.signatures.get_or_init(|| Signatures::new(&self.overloads, self.method))
    }

    /// Whether every keyword of a call names a parameter.
    fn knows_keywords(&self, call: &Call) -> bool {
        call.keywords().all(|(keyword, _)| {
            self.overloads.iter().any(|overload| overload.has_name(keyword)) || self.signatures().have_name(keyword)
        })
    }

    /// The error of a call that no overload takes.
    #[cold]
    fn refusal(&self, call: &Call) -> PyErr {
        no_match(&self.display_name(), &self.overloads, self.signatures(), call)
    }

    /// The name with its namespace: `nn.functional.pad`, `Tensor.norm`.
    fn full_name(&self) -> String {
        match (self.method, self.namespace) {
            (true, _) => format!("Tensor.{}", self.name),
            (false, "") => self.name.clone(),
            (false, namespace) => format!("{namespace}.{}", self.name),
        }
    }

    /// The name in torch's error messages about arguments: `linalg_cholesky`.
    fn display_name(&self) -> String {
        match self.namespace {
            "linalg" | "fft" | "special" => format!("{}_{}", self.namespace, self.name),
            _ if self.name == "logsigmoid" => "log_sigmoid".to_owned(),
            // The operator of `torch.unique`, under torch's own name.
            _ if self.name == "_unique2" => self.name.clone(),
            _ => self.name.strip_prefix('_').unwrap_or(&self.name).to_owned(),
        }
    }
}

const POOL: usize = 1536;
static CALLABLES: OnceLock<Vec<Callable>> = OnceLock::new();

struct Entry<const PLACE: usize>;

impl<const PLACE: usize> MethodDef<Method> for Entry<PLACE> {
    const METH: Method = enter::<PLACE>;
}

/// # Safety
/// Only the interpreter calls it, by its convention for fast calls.
unsafe fn enter<const PLACE: usize>(
    py: Python<'_>,
    receiver: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: arguments in the form of CPython's protocol.
    unsafe { run(py, PLACE, receiver, args, count, names) }
}

macro_rules! pool {
    ($($block:literal)*) => { [$(
        pool!(@row $block 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31),
    )*] };
    (@row $block:literal $($offset:literal)*) => {
        [$(fastcall_cfunction_with_keywords::<Entry<{ $block * 32 + $offset }>> as CFunction),*]
    };
}

static ENTRIES: [[CFunction; 32]; POOL / 32] = pool!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);

/// # Safety
/// Same as for `enter`.
unsafe fn run(
    py: Python<'_>,
    place: usize,
    receiver: *mut ffi::PyObject,
    args: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> PyResult<*mut ffi::PyObject> {
    let Some(callable) = CALLABLES.get().and_then(|list| list.get(place)) else {
        return Err(pyo3::exceptions::PySystemError::new_err("a function without an operator was called"));
    };
    let receiver = callable.method.then_some(receiver);
    // SAFETY: CPython passes these arguments and keeps them alive during the call.
    let call = unsafe { Call::fastcall(py, receiver, args, count, names) };
    // A keyword that no signature has is an error before anyone is asked.
    let answer =
        || if callable.knows_keywords(&call) { overrides::answer(&callable.public(), &call) } else { Ok(None) };
    if overrides::ever_overridden()
        && let Some(answer) = answer()?
    {
        return Ok(answer);
    }
    let mismatch = match attempt(py, callable, &call) {
        Ok(result) => return Ok(result),
        Err(mismatch) => mismatch,
    };
    // An argument that is not a tensor but overrides functions fits no signature.
    if let Some(answer) = answer()? {
        return Ok(answer);
    }
    let refused = match &mismatch {
        BindError::Raised(error) => Some(error),
        BindError::Mismatch => None,
    };
    if callable.overloads.iter().any(Overload::is_in_python)
        && let Some(answer) = written_in_python::answer(&callable.full_name(), &call, refused)?
    {
        return Ok(answer);
    }
    if let BindError::Raised(error) = mismatch {
        return Err(error);
    }
    let op = callable.overloads[0].op;
    if let Some(reordered) = deprecated::reordered(op, &callable.name, callable.method, &call)? {
        // SAFETY: as above; the names of the numbers live in `reordered`.
        let present = unsafe {
            Call::with_keywords(py, receiver, &reordered.positional, reordered.names.as_ptr(), &reordered.values)
        };
        return attempt(py, callable, &present).map_err(|mismatch| match mismatch {
            BindError::Raised(error) => error,
            BindError::Mismatch => callable.refusal(&call),
        });
    }
    Err(callable.refusal(&call))
}

/// Calls the first overload that takes the arguments.
fn attempt(py: Python<'_>, callable: &Callable, call: &Call) -> Result<Raw, BindError> {
    for overload in &callable.overloads {
        let mut args = Args { op: overload.op, values: Values::new() };
        let out = match bind(overload, call, &mut args) {
            Err(BindError::Mismatch) => continue,
            bound => bound?,
        };
        if fits_none(overload, || callable.signatures(), call) {
            continue;
        }
        if let Some(out) = out {
            let outs = match out_tensors(&out, &overload.op.schema().returns) {
                Err(BindError::Mismatch) => continue,
                found => found?,
            };
            let result = args.call_into(Target::Out(&outs)).map_err(raise)?;
            if overload.op.schema().returns == Returns::List {
                return Ok(py.None().into_ptr());
            }
            if outs.len() > 1 {
                return Ok(convert::written(py, overload.op, result)?);
            }
            return Ok(out.to_owned().into_ptr());
        }
        let target = if callable.in_place { Target::InPlace } else { Target::Fresh };
        let result = args.call_into(target).map_err(raise)?;
        return Ok(convert::output(py, overload.op, result)?);
    }
    Err(BindError::Mismatch)
}

/// Everything that Python can call.
fn collect() -> Vec<Callable> {
    let callable = |((namespace, name, form), ops): ((&'static str, String, CallForm), Vec<&'static Operator>)| {
        let takes_out = |op: &Operator| form == CallForm::Function && op.variants.has(Variants::OUT);
        let with_dim = ops.iter().any(|op| op.schema().place("dim").is_some());
        let in_python = written_in_python::home(namespace, &name, form.is_method()).map(|_| form.is_method());
        let overloads = ops
            .into_iter()
            .map(|op| overload(op, names::params(op, namespace, form), takes_out(op), with_dim, in_python))
            .collect();
        let (method, in_place) = (form.is_method(), form.is_in_place());
        Callable { name, namespace, method, in_place, overloads, signatures: OnceLock::new() }
    };
    names::collect().into_iter().map(callable).collect()
}

/// Installs every operator: methods on `class`, functions in the dictionary of their namespace.
pub fn install(module: &Bound<'_, PyModule>, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let py = module.py();
    let callables = CALLABLES.get_or_init(collect);
    let namespaces = pyo3::types::PyDict::new(py);
    for (place, callable) in callables.iter().enumerate() {
        let Some(&entry) = ENTRIES.get(place / 32).and_then(|row| row.get(place % 32)) else {
            return Err(pyo3::exceptions::PySystemError::new_err("the pool of entry points is too small"));
        };
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: leak(callable.name.as_str()),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: leak(help::text(&callable.shown(), &callable.overloads)),
        }));
        // SAFETY: the definition is leaked, class and module are alive.
        unsafe {
            if callable.method {
                let descriptor = Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class, definition))?;
                let class = Bound::from_borrowed_ptr(py, class.cast());
                class.setattr(callable.name.as_str(), descriptor)?;
            } else {
                let public_module = PyString::new(py, &public_module(callable));
                let function = ffi::PyCFunction_NewEx(definition, std::ptr::null_mut(), public_module.as_ptr());
                let function = Bound::from_owned_ptr_or_err(py, function)?;
                let space = match namespaces.get_item(callable.namespace)? {
                    Some(space) => space,
                    None => {
                        let space = pyo3::types::PyDict::new(py).into_any();
                        namespaces.set_item(callable.namespace, &space)?;
                        space
                    }
                };
                if callable.namespace.is_empty() && callable.name.starts_with('_') {
                    module.add(callable.name.as_str(), &function)?;
                }
                space.set_item(callable.name.as_str(), function)?;
            }
        }
    }
    module.add("_functions", namespaces)
}

/// The public module of a function, which users and pickles use.
fn public_module(callable: &Callable) -> String {
    match callable.namespace {
        "" if callable.name.starts_with('_') => "rushlight._C".into(),
        "" => "rushlight".into(),
        namespace => format!("rushlight.{namespace}"),
    }
}

fn leak(text: impl Into<Vec<u8>>) -> *const std::ffi::c_char {
    CString::new(text).map_or(c"".as_ptr(), |text| text.into_raw().cast_const())
}
