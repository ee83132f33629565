//! Arguments of a call against a signature: positional first, then keywords by the address of their interned name.

use std::ffi::CString;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rushlight::signature::{Kind, Param};
use rushlight::{Args, Ints, Row, Tensor, Value};

use crate::convert;

/// One overload as the parser wants it: interned names beside the parameters.
pub struct Overload {
    pub row: &'static Row,
    names: Vec<*mut ffi::PyObject>,
    /// `out=`, which no signature states.
    pub takes_out: bool,
}

// SAFETY: the names are interned strings that live as long as the interpreter.
unsafe impl Send for Overload {}
// SAFETY: see above.
unsafe impl Sync for Overload {}

fn intern(text: &str) -> *mut ffi::PyObject {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: a null-terminated string; the reference is kept for ever.
    unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) }
}

/// torch's other spellings of a parameter's name.
fn synonyms(name: &str) -> &'static [&'static str] {
    match name {
        "self" => &["input", "x", "x1"],
        "dim" => &["axis"],
        "keepdim" => &["keepdims"],
        "other" => &["x2"],
        "dims" => &["axis"],
        _ => &[],
    }
}

impl Overload {
    pub fn new(row: &'static Row, takes_out: bool) -> Overload {
        let names = row.schema().params.iter().map(|param| intern(param.name)).collect();
        Overload { row, names, takes_out }
    }

    /// The parameter that a keyword names.
    fn place(&self, keyword: *mut ffi::PyObject) -> Option<usize> {
        if let Some(place) = self.names.iter().position(|name| *name == keyword) {
            return Some(place);
        }
        // SAFETY: keywords are strings.
        let same = |text: &str| unsafe {
            CString::new(text).is_ok_and(|text| ffi::PyUnicode_CompareWithASCIIString(keyword, text.as_ptr()) == 0)
        };
        let params = &self.row.schema().params;
        params.iter().position(|p| same(p.name)).or_else(|| params.iter().position(|p| synonyms(p.name).iter().any(|s| same(s))))
    }
}

/// The raw arguments of a vectorcall.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The object before the dot, for a method.
    pub receiver: Option<*mut ffi::PyObject>,
    pub positional: &'a [*mut ffi::PyObject],
    pub keywords: &'a [*mut ffi::PyObject],
    pub values: &'a [*mut ffi::PyObject],
}

pub struct Bindings<'a> {
    pub args: Args<'a>,
    /// What stood at `out=`.
    pub out: Option<*mut ffi::PyObject>,
}

/// Why arguments do not fit an overload.
pub enum Misfit {
    Sentence(String),
    Raised(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Misfit::Raised(error)
    }
}

/// Binds a call to an overload.
///
/// # Safety
/// The call's objects live as long as the bindings are used.
pub unsafe fn bind<'a>(py: Python<'_>, overload: &Overload, call: Call<'a>) -> Result<Bindings<'a>, Misfit> {
    let schema = overload.row.schema();
    let name = overload.row.python_name();
    let mut args = Args::new(overload.row, []);
    let mut out = None;
    let given = call.positional.len() + usize::from(call.receiver.is_some());
    let loose = loose(schema.positional, &schema.params, call, given);
    if given > schema.positional && loose.is_none() {
        return Err(Misfit::Sentence(format!(
            "{name}() takes {} positional argument{} but {given} {} given",
            schema.positional,
            if schema.positional == 1 { "" } else { "s" },
            if given == 1 { "was" } else { "were" }
        )));
    }
    let positional = |place: usize| match call.receiver {
        Some(receiver) if place == 0 => Some(receiver),
        Some(_) => call.positional.get(place - 1).copied(),
        None => call.positional.get(place).copied(),
    };
    let mut named: [*mut ffi::PyObject; 24] = [std::ptr::null_mut(); 24];
    for (&keyword, &value) in call.keywords.iter().zip(call.values) {
        match overload.place(keyword) {
            Some(place) if place < named.len() => {
                if !named[place].is_null() || (place < given && !schema.params[place].keyword_only) {
                    return Err(Misfit::Sentence(format!(
                        "{name}() got multiple values for argument '{}'",
                        schema.params[place].name
                    )));
                }
                named[place] = value;
            }
            _ => {
                // SAFETY: keywords are strings.
                let text = unsafe { Bound::from_borrowed_ptr(py, keyword) }.to_string();
                if text == "out" && overload.takes_out {
                    out = Some(value).filter(|value| *value != unsafe { ffi::Py_None() });
                    continue;
                }
                return Err(Misfit::Sentence(format!("{name}() got an unexpected keyword argument '{text}'")));
            }
        }
    }
    for (place, param) in schema.params.iter().enumerate() {
        if let Some((at, list)) = &loose
            && *at == place
        {
            args.values.push(list.clone());
            continue;
        }
        let object = if param.keyword_only { None } else { positional(place) };
        let object = object.or(Some(named[place]).filter(|object| !object.is_null()));
        let Some(object) = object else {
            if param.default.is_none() {
                return Err(Misfit::Sentence(missing(name, schema.params.iter().map(|p| p.name), place)));
            }
            args.values.push(param.default_value());
            continue;
        };
        // SAFETY: by the caller's word.
        let bound = unsafe { Bound::from_borrowed_ptr(py, object) };
        // SAFETY: by the caller's word.
        match unsafe { convert::value(&bound, param.kind, param.optional || param.default == Some("None")) }? {
            Some(value) => args.values.push(value),
            None => return Err(Misfit::Sentence(wrong(&bound, name, param, place, place < given)?)),
        }
    }
    Ok(Bindings { args, out })
}

fn missing<'a>(name: &str, params: impl Iterator<Item = &'a str>, place: usize) -> String {
    let wanted = params.map(|name| if name == "self" { "input" } else { name }).nth(place).unwrap_or("?");
    format!("{name}() missing 1 required positional arguments: \"{wanted}\"")
}

fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Param, place: usize, positional: bool) -> PyResult<String> {
    let kind = object.get_type().name()?;
    let param_name = if param.name == "self" { "input" } else { param.name };
    let position = if positional { format!(" (position {})", place + 1) } else { String::new() };
    let element = match (param.kind, object.cast::<PyTuple>()) {
        (Kind::Ints | Kind::Tensors, Ok(tuple)) if !tuple.is_empty() => {
            let bad = tuple.iter().position(|item| match param.kind {
                Kind::Ints => convert::int(&item).ok().flatten().is_none(),
                _ => !crate::object::is_tensor(item.as_ptr()),
            });
            match bad {
                Some(at) => {
                    let item = tuple.get_item(at)?.get_type().name()?.to_string();
                    return Ok(format!(
                        "{name}(): argument '{param_name}'{position} must be {}, but found element of type {item} at pos {at}",
                        param.kind.title()
                    ));
                }
                None => kind.to_string(),
            }
        }
        _ => kind.to_string(),
    };
    Ok(format!("{name}(): argument '{param_name}'{position} must be {}, not {element}", param.kind.title()))
}

/// `x.view(2, 3)`, `meshgrid(a, b)`: loose numbers or tensors that fill the last positional parameter, a list of them.
fn loose(positional: usize, params: &[Param], call: Call, given: usize) -> Option<(usize, Value<'static>)> {
    let last = positional.checked_sub(1)?;
    let kind = params.get(last)?.kind;
    if !matches!(kind, Kind::Ints | Kind::Tensors) || given <= last {
        return None;
    }
    let first = last - usize::from(call.receiver.is_some() && last > 0);
    let rest = call.positional.get(first..)?;
    if kind == Kind::Tensors {
        // SAFETY: the call's objects are alive.
        let read = |object: &*mut ffi::PyObject| unsafe { crate::object::tensor_of(*object) }.map(|tensor| Some(tensor.clone()));
        return rest.iter().map(read).collect::<Option<Vec<_>>>().map(|tensors| (last, Value::Tensors(tensors)));
    }
    if rest.len() < 2 && given <= positional {
        return None;
    }
    Python::attach(|py| {
        let read = |object: &*mut ffi::PyObject| {
            // SAFETY: the call's objects are alive.
            convert::int(&unsafe { Bound::from_borrowed_ptr(py, *object) }).ok().flatten()
        };
        rest.iter().map(read).collect::<Option<Ints>>().map(|ints| (last, Value::Ints(ints)))
    })
}

/// The error when no overload fits: the parser's own sentence for one, torch's list for several.
#[cold]
pub fn no_match(py: Python<'_>, name: &str, overloads: &[Overload], call: Call, misfits: Vec<String>) -> PyErr {
    if let [sentence] = misfits.as_slice() {
        return PyTypeError::new_err(sentence.clone());
    }
    let kind = |object: &*mut ffi::PyObject| {
        // SAFETY: the call's objects are alive.
        let bound = unsafe { Bound::from_borrowed_ptr(py, *object) };
        bound.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string())
    };
    let mut got: Vec<String> = call.positional.iter().map(kind).collect();
    for (keyword, value) in call.keywords.iter().zip(call.values) {
        // SAFETY: keywords are strings.
        got.push(format!("{}={}", unsafe { Bound::from_borrowed_ptr(py, *keyword) }, kind(value)));
    }
    let mut sentence = format!("{name}() received an invalid combination of arguments - got ({}), but expected one of:", got.join(", "));
    for overload in overloads {
        let signature = overload.row.signature.split(") -> ").next().unwrap_or("").replace("Tensor self", "Tensor input");
        sentence.push_str(&format!("\n * {signature})"));
    }
    PyTypeError::new_err(sentence)
}

/// The tensors that stand at `out=`.
pub fn out_tensors(py: Python<'_>, name: &str, object: *mut ffi::PyObject) -> PyResult<Vec<Tensor>> {
    // SAFETY: the call's objects are alive.
    let bound = unsafe { Bound::from_borrowed_ptr(py, object) };
    if let Ok(tuple) = bound.cast::<PyTuple>() {
        return tuple.iter().map(|item| crate::object::tensor(&item).cloned()).collect();
    }
    if let Ok(list) = bound.cast::<pyo3::types::PyList>() {
        return list.iter().map(|item| crate::object::tensor(&item).cloned()).collect();
    }
    crate::object::tensor(&bound).map(|tensor| vec![tensor.clone()]).map_err(|_| {
        let kind = bound.get_type().name().map_or_else(|_| "object".into(), |name| name.to_string());
        PyTypeError::new_err(format!("{name}(): argument 'out' must be Tensor, not {kind}"))
    })
}
