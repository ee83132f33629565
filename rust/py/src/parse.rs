//! Arguments of a call against a signature: positional first, then keywords by the address of their interned name.

use std::ffi::CString;

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight::signature::{Kind, Param, Schema};
use rushlight::{Args, Ints, Row, Tensor, Value};
use smallvec::SmallVec;

use crate::convert;
use crate::errors::{kind_of, raise};

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
        params
            .iter()
            .position(|p| same(p.name))
            .or_else(|| params.iter().position(|p| synonyms(p.name).iter().any(|s| same(s))))
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

impl Call<'_> {
    /// How many arguments stand without a name, the receiver counted.
    #[inline]
    fn given(&self) -> usize {
        self.positional.len() + usize::from(self.receiver.is_some())
    }

    #[inline]
    fn at(&self, place: usize) -> Option<*mut ffi::PyObject> {
        match self.receiver {
            Some(receiver) if place == 0 => Some(receiver),
            Some(_) => self.positional.get(place - 1).copied(),
            None => self.positional.get(place).copied(),
        }
    }
}

/// Why arguments do not fit an overload. It is put in words only if no other overload fits either.
pub enum Misfit {
    TooMany,
    Twice(usize),
    Unknown(*mut ffi::PyObject),
    Missing(usize),
    Wrong(usize, *mut ffi::PyObject),
    Raised(PyErr),
}

impl From<PyErr> for Misfit {
    fn from(error: PyErr) -> Self {
        Misfit::Raised(error)
    }
}

/// Binds a call to an overload: fills `args`, which must be empty, and gives what stood at `out=`.
///
/// # Safety
/// The call's objects live as long as the arguments are used.
pub unsafe fn bind<'a>(
    py: Python<'_>,
    overload: &Overload,
    call: &Call<'a>,
    args: &mut Args<'a>,
) -> Result<Option<*mut ffi::PyObject>, Misfit> {
    let schema = overload.row.schema();
    let given = call.given();
    let loose = loose(py, schema, call);
    if given > schema.positional && loose.is_none() {
        return Err(Misfit::TooMany);
    }
    let mut out = None;
    // Where each keyword's value goes.
    let mut places: SmallVec<[usize; 8]> = SmallVec::new();
    for (&keyword, &value) in call.keywords.iter().zip(call.values) {
        match overload.place(keyword) {
            Some(place) if places.contains(&place) || (place < given && !schema.params[place].keyword_only) => {
                return Err(Misfit::Twice(place));
            }
            Some(place) => places.push(place),
            // SAFETY: keywords are strings.
            None if overload.takes_out && unsafe { is_out(keyword) } => {
                // SAFETY: None is always there.
                out = Some(value).filter(|value| *value != unsafe { ffi::Py_None() });
                places.push(usize::MAX);
            }
            None => return Err(Misfit::Unknown(keyword)),
        }
    }
    for (place, param) in schema.params.iter().enumerate() {
        if let Some((at, list)) = &loose
            && *at == place
        {
            args.values.push(list.clone());
            continue;
        }
        let by_position = if param.keyword_only { None } else { call.at(place) };
        let by_name = || places.iter().position(|&named| named == place).map(|at| call.values[at]);
        let Some(object) = by_position.or_else(by_name) else {
            if param.default.is_none() {
                return Err(Misfit::Missing(place));
            }
            args.values.push(param.default_value());
            continue;
        };
        // SAFETY: by the caller's word.
        let value = unsafe {
            let bound = Borrowed::from_ptr(py, object);
            convert::value(&bound, param.kind, param.optional || param.default == Some("None"))
        };
        match value? {
            Some(value) => args.values.push(value),
            None => return Err(Misfit::Wrong(place, object)),
        }
    }
    rushlight::backcompat::note_default_keepdim(|| {
        let given = |name| schema.place(name).map(|place| place < given || places.contains(&place));
        given("keepdim") != Some(false) || given("dim") != Some(true)
    })
    .map_err(raise)?;
    Ok(out)
}

/// # Safety
/// A living string.
unsafe fn is_out(keyword: *mut ffi::PyObject) -> bool {
    // SAFETY: by the caller's word.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(keyword, c"out".as_ptr()) == 0 }
}

impl Misfit {
    /// torch's sentence about it.
    #[cold]
    fn into_error(self, py: Python<'_>, overload: &Overload, call: &Call) -> PyErr {
        let (row, schema, given) = (overload.row, overload.row.schema(), call.given());
        let name = row.python_name();
        let sentence = match self {
            Misfit::Raised(error) => return error,
            Misfit::TooMany if schema.takes_loose(call.receiver.is_some()) => {
                // SAFETY: the call's objects are alive.
                let item = |object: &*mut ffi::PyObject| unsafe { Bound::from_borrowed_ptr(py, *object) };
                let items: Vec<_> = call.positional.iter().map(item).collect();
                match wrong_item(&items, name, &schema.params[schema.positional - 1], Some(1)) {
                    Ok(sentence) => sentence.unwrap_or_default(),
                    Err(error) => return error,
                }
            }
            Misfit::TooMany => format!(
                "{name}() takes {} positional argument{} but {given} {} given",
                schema.positional,
                if schema.positional == 1 { "" } else { "s" },
                if given == 1 { "was" } else { "were" }
            ),
            Misfit::Twice(place) => {
                format!("{name}() got multiple values for argument '{}'", schema.params[place].name)
            }
            Misfit::Unknown(keyword) => {
                // SAFETY: the call's objects are alive.
                let keyword = unsafe { Bound::from_borrowed_ptr(py, keyword) };
                let known: Vec<&str> = schema.params.iter().map(|param| param.name).collect();
                let known = known.join(", ").replacen("self", "input", 1);
                format!("{name}() got an unexpected keyword argument '{keyword}'\nIts arguments are: {known}.")
            }
            Misfit::Missing(place) => missing(name, schema.params.iter().map(|p| p.name), place),
            Misfit::Wrong(place, object) => {
                // SAFETY: the call's objects are alive.
                let object = unsafe { Bound::from_borrowed_ptr(py, object) };
                let position = (place < given).then(|| place + 1 - usize::from(call.receiver.is_some()));
                match wrong(&object, name, &schema.params[place], position) {
                    Ok(sentence) => sentence,
                    Err(error) => return error,
                }
            }
        };
        PyTypeError::new_err(sentence)
    }
}

fn missing<'a>(name: &str, params: impl Iterator<Item = &'a str>, place: usize) -> String {
    let wanted = params.map(|name| if name == "self" { "input" } else { name }).nth(place).unwrap_or("?");
    format!("{name}() missing 1 required positional arguments: \"{wanted}\"")
}

/// What is wrong with an argument; `position` counts from one, as torch does it, and is nothing for a keyword.
fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Param, position: Option<usize>) -> PyResult<String> {
    let items: Option<Vec<Bound<'_, PyAny>>> = match object.cast::<PyTuple>() {
        Ok(tuple) => Some(tuple.iter().collect()),
        Err(_) => object.cast::<PyList>().ok().map(|list| list.iter().collect()),
    };
    if let Some(sentence) = wrong_item(&items.unwrap_or_default(), name, param, position)? {
        return Ok(sentence);
    }
    let (kind, title) = (kind_of(object), param.kind.title());
    Ok(format!("{name}(): argument '{}'{} must be {title}, not {kind}", shown(param), at(position)))
}

/// What is wrong with the first bad item of a list.
fn wrong_item(
    items: &[Bound<'_, PyAny>],
    name: &str,
    param: &Param,
    position: Option<usize>,
) -> PyResult<Option<String>> {
    let bad = items.iter().position(|item| match param.kind {
        Kind::Ints | Kind::IntOrInts => convert::int(item).ok().flatten().is_none(),
        Kind::Tensors => !crate::object::is_tensor(item.as_ptr()),
        _ => false,
    });
    let Some(place) = bad else { return Ok(None) };
    let (kind, title, param_name) = (kind_of(&items[place]), param.kind.title(), shown(param));
    Ok(Some(match (param.kind, place) {
        (Kind::Tensors, _) => {
            format!("expected Tensor as element {place} in argument {}, but got {kind}", position.unwrap_or(1) - 1)
        }
        (_, 0) => format!(
            "{name}(): argument '{param_name}'{} must be {title}, but found element of type {kind} at pos 0",
            at(position)
        ),
        _ => format!(
            "{name}(): argument '{param_name}' failed to unpack the object at pos {} with error \"type must be {title},but got {kind}\"",
            place + 1
        ),
    }))
}

fn shown(param: &Param) -> &str {
    if param.name == "self" { "input" } else { param.name }
}

fn at(position: Option<usize>) -> String {
    position.map_or_else(String::new, |position| format!(" (position {position})"))
}

/// `x.view(2, 3)`, `meshgrid(a, b)`: loose numbers or tensors that fill the last positional parameter, a list of them.
#[inline]
fn loose(py: Python<'_>, schema: &Schema, call: &Call) -> Option<(usize, Value<'static>)> {
    let last = schema.positional.checked_sub(1).filter(|last| call.given() > *last)?;
    if !schema.takes_loose(call.receiver.is_some()) {
        return None;
    }
    match schema.params[last].kind {
        Kind::Ints => read_loose_ints(py, last, call).map(|ints| (last, Value::Ints(ints))),
        Kind::Tensors => read_loose_tensors(last, call).map(|tensors| (last, Value::Tensors(tensors))),
        _ => None,
    }
}

fn read_loose_tensors(last: usize, call: &Call) -> Option<Vec<Option<rushlight::Tensor>>> {
    let first = last - usize::from(call.receiver.is_some() && last > 0);
    // SAFETY: the call's objects are alive.
    let read =
        |object: &*mut ffi::PyObject| unsafe { crate::object::tensor_of(*object) }.map(|tensor| Some(tensor.clone()));
    call.positional.get(first..)?.iter().map(read).collect()
}

fn read_loose_ints(py: Python<'_>, last: usize, call: &Call) -> Option<Ints> {
    let first = last - usize::from(call.receiver.is_some() && last > 0);
    // SAFETY: the call's objects are alive.
    let items = call.positional.get(first..)?.iter().map(|object| unsafe { Bound::from_borrowed_ptr(py, *object) });
    convert::each_int(items).ok().flatten()
}

/// The error when no overload fits: what is wrong with the only one, or torch's list of several.
#[cold]
pub fn no_match(py: Python<'_>, name: &str, overloads: &[Overload], call: &Call, last: Misfit) -> PyErr {
    if let [overload] = overloads {
        return last.into_error(py, overload, call);
    }
    let kind = |object: &*mut ffi::PyObject| {
        // SAFETY: the call's objects are alive.
        let bound = unsafe { Bound::from_borrowed_ptr(py, *object) };
        kind_of(&bound)
    };
    let mut got: Vec<String> = call.positional.iter().map(kind).collect();
    for (keyword, value) in call.keywords.iter().zip(call.values) {
        // SAFETY: keywords are strings.
        got.push(format!("{}={}", unsafe { Bound::from_borrowed_ptr(py, *keyword) }, kind(value)));
    }
    let mut sentence = format!(
        "{name}() received an invalid combination of arguments - got ({}), but expected one of:",
        got.join(", ")
    );
    for overload in overloads {
        let signature =
            overload.row.signature.split(") -> ").next().unwrap_or("").replace("Tensor self", "Tensor input");
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
        let kind = kind_of(&bound);
        PyTypeError::new_err(format!("{name}(): argument 'out' must be Tensor, not {kind}"))
    })
}
