//! A pool of C functions, one for each place in the list of callables, and the methods and functions made of them.
//!
//! CPython calls a C function without telling it under which name it was found. So each callable gets a function of its
//! own, which knows its place by a constant, and all of them do the same: bind the arguments and call the row.

use std::ffi::CString;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::impl_::trampoline::{MethodDef, fastcall_cfunction_with_keywords};
use pyo3::prelude::*;
use pyo3::types::PyString;
use rushlight::call::{Target, call_into};
use rushlight::names::{self, Form, of_function};
use rushlight::row::Variants;
use rushlight::signature::Returns;
use rushlight::value::Values;
use rushlight::{Args, Row};
use smallvec::SmallVec;

use crate::convert;
use crate::errors::raise;
use crate::older;
use crate::overrides::{self, Public};
use crate::parse::{Call, Misfit, Overload, Raw, bind, no_match, out_tensors};

type Fastcall = fastcall_cfunction_with_keywords::Func;
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
}

impl Callable {
    /// The callable as Python finds it.
    fn public(&self) -> Public<'_> {
        if self.method {
            Public::Method(&self.name)
        } else {
            Public::Function { namespace: self.namespace, name: &self.name }
        }
    }

    /// The name in torch's sentences about arguments: `linalg_cholesky`.
    fn title(&self) -> String {
        match self.namespace {
            "linalg" | "fft" | "special" => format!("{}_{}", self.namespace, self.name),
            _ => self.name.strip_prefix('_').unwrap_or(&self.name).to_owned(),
        }
    }
}

const POOL: usize = 1536;
static CALLABLES: OnceLock<Vec<Callable>> = OnceLock::new();

struct Entry<const PLACE: usize>;

impl<const PLACE: usize> MethodDef<Fastcall> for Entry<PLACE> {
    const METH: Fastcall = enter::<PLACE>;
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
    // SAFETY: arguments as CPython's protocol gives them.
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
/// As for `enter`.
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
    let count = count as usize;
    let mut keywords: SmallVec<[*mut ffi::PyObject; 8]> = SmallVec::new();
    // SAFETY: CPython gives `count` positional arguments and one value for each name after them.
    let (positional, values) = unsafe {
        let positional = if count == 0 { &[] } else { std::slice::from_raw_parts(args, count) };
        if names.is_null() {
            (positional, &[][..])
        } else {
            let n = ffi::PyTuple_Size(names);
            keywords.extend((0..n).map(|i| ffi::PyTuple_GetItem(names, i)));
            (positional, std::slice::from_raw_parts(args.add(count), n as usize))
        }
    };
    let receiver = callable.method.then_some(receiver);
    let answer = || {
        let args: SmallVec<[_; 8]> = receiver.iter().chain(positional).copied().collect();
        // SAFETY: CPython keeps the arguments alive during the call, and gives each name a value.
        unsafe { overrides::answer(py, &callable.public(), &args, &keywords, values) }
    };
    if overrides::expected()
        && let Some(answer) = answer()?
    {
        return Ok(answer);
    }
    // SAFETY: CPython keeps the arguments alive during the call.
    let call = unsafe { Call::new(py, receiver, positional, &keywords, values) };
    let misfit = match attempt(py, callable, &call) {
        Ok(result) => return Ok(result),
        Err(misfit) => misfit,
    };
    // Something that is no tensor and answers for itself fits no signature.
    if let Some(answer) = answer()? {
        return Ok(answer);
    }
    if let Misfit::Raised(error) = misfit {
        return Err(error);
    }
    let row = callable.overloads[0].row;
    // SAFETY: CPython keeps the arguments alive during the call.
    if let Some(older) = unsafe { older::reordered(py, row, &callable.name, callable.method, positional)? } {
        let named = older.keywords.iter().map(|keyword| keyword.as_ptr());
        let keywords: SmallVec<[_; 8]> = named.chain(keywords.iter().copied()).collect();
        let values: SmallVec<[_; 8]> = older.values.iter().chain(values).copied().collect();
        // SAFETY: as above; the names of the numbers live in `older`.
        let call = unsafe { Call::new(py, receiver, &older.positional, &keywords, &values) };
        return attempt(py, callable, &call)
            .map_err(|misfit| no_match(&callable.title(), &callable.overloads, &call, misfit));
    }
    Err(no_match(&callable.title(), &callable.overloads, &call, misfit))
}

/// Calls the first overload that takes the arguments.
fn attempt<'a, 'py>(py: Python<'py>, callable: &Callable, call: &Call<'a, 'py>) -> Result<Raw, Misfit<'a, 'py>> {
    let mut last = Misfit::TooMany;
    for overload in &callable.overloads {
        let mut args = Args { row: overload.row, values: Values::new() };
        let out = match bind(overload, call, &mut args, callable.overloads.len() > 1) {
            Ok(out) => out,
            Err(Misfit::Raised(error)) => return Err(Misfit::Raised(error)),
            Err(misfit) => {
                last = misfit;
                continue;
            }
        };
        if let Some(out) = out {
            let outs = out_tensors(&callable.title(), &out, &overload.row.schema().returns)?;
            let result = call_into(args, Target::Out(&outs)).map_err(raise)?;
            if overload.row.schema().returns == Returns::List {
                return Ok(py.None().into_ptr());
            }
            if outs.len() > 1 {
                return Ok(convert::written(py, overload.row, result)?);
            }
            return Ok(out.to_owned().into_ptr());
        }
        let target = if callable.in_place { Target::InPlace } else { Target::Fresh };
        let result = call_into(args, target).map_err(raise)?;
        return Ok(convert::output(py, overload.row, result)?);
    }
    Err(last)
}

/// Everything that Python can call.
fn collect() -> Vec<Callable> {
    let callable = |((namespace, name, form), rows): ((&'static str, String, Form), Vec<&'static Row>)| {
        let takes_out = |row: &Row| form == Form::Function && row.variants.has(Variants::OUT);
        let with_dim = rows.iter().any(|row| row.schema().place("dim").is_some());
        let overloads = rows
            .into_iter()
            .map(|row| Overload::new(row, names::params(row, namespace, form), takes_out(row), with_dim))
            .collect();
        Callable { name, namespace, method: form.is_method(), in_place: form.is_in_place(), overloads }
    };
    names::collect().into_iter().map(callable).collect()
}

/// Puts every operator where Python finds it: methods on `class`, functions in the dictionary of their namespace.
pub fn install(module: &Bound<'_, PyModule>, class: *mut ffi::PyTypeObject) -> PyResult<()> {
    let py = module.py();
    let callables = CALLABLES.get_or_init(collect);
    let namespaces = pyo3::types::PyDict::new(py);
    for (place, callable) in callables.iter().enumerate() {
        let Some(&entry) = ENTRIES.get(place / 32).and_then(|row| row.get(place % 32)) else {
            return Err(pyo3::exceptions::PySystemError::new_err("the pool of entry points is too small"));
        };
        let definition = Box::leak(Box::new(ffi::PyMethodDef {
            ml_name: leak(&callable.name),
            ml_meth: ffi::PyMethodDefPointer { PyCFunctionFastWithKeywords: entry },
            ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
            ml_doc: leak(&doc(callable)),
        }));
        // SAFETY: the definition is leaked, class and module are alive.
        unsafe {
            if callable.method {
                let descriptor = Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(class, definition))?;
                let class = Bound::from_borrowed_ptr(py, class.cast());
                class.setattr(callable.name.as_str(), descriptor)?;
            } else {
                let home = PyString::new(py, &home(callable));
                let function = ffi::PyCFunction_NewEx(definition, std::ptr::null_mut(), home.as_ptr());
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

/// The module in which users and pickles find a function.
fn home(callable: &Callable) -> String {
    match callable.namespace {
        "" if callable.name.starts_with('_') => "rushlight._C".into(),
        "" => "rushlight".into(),
        namespace => format!("rushlight.{namespace}"),
    }
}

/// The text for `help()`: with the signature in the form that `inspect` reads, or with those of all overloads.
fn doc(callable: &Callable) -> String {
    let [overload] = &callable.overloads[..] else {
        let each = callable.overloads.iter().map(|overload| {
            let signature = overload.row.signature.replace("Tensor self", "Tensor input");
            format!("{}{signature}\n\n{}", callable.name, described(overload.row, callable.method))
        });
        return each.collect::<Vec<_>>().join("\n\n");
    };
    let schema = overload.row.schema();
    let mut parameters: Vec<String> = Vec::new();
    let mut starred = false;
    for (place, param) in overload.params().iter().enumerate() {
        let name = match (place, param.name, callable.method) {
            (0, _, true) => "$self",
            (_, "self", false) => "input",
            (_, name, _) => name,
        };
        if place + 1 == schema.positional && schema.takes_loose(callable.method) {
            parameters.push(format!("*{name}"));
            starred = true;
            continue;
        }
        if param.keyword_only && !starred {
            parameters.push("*".into());
            starred = true;
        }
        parameters.push(match param.default {
            Some(default) => format!("{name}={}", default.replace('[', "(").replace(']', ",)")),
            None => name.into(),
        });
    }
    if overload.takes_out {
        if !starred {
            parameters.push("*".into());
        }
        parameters.push("out=None".into());
    }
    format!("{}({})\n--\n\n{}", callable.name, parameters.join(", "), described(overload.row, callable.method))
}

fn described(row: &Row, method: bool) -> String {
    let broadcasting = row.broadcasting().join(", ");
    let doc = row.doc.trim();
    let doc = if method { doc.to_owned() } else { of_function(doc) };
    if broadcasting.is_empty() { doc } else { format!("{doc}\n\nBroadcast together: {broadcasting}.") }
}

fn leak(text: &str) -> *const std::ffi::c_char {
    CString::new(text.replace('\0', "")).map_or(c"".as_ptr(), |text| text.into_raw().cast_const())
}
