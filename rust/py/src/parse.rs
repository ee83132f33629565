//! Arguments of a call against a signature: positional first, then keywords by the address of their interned name.

use std::ffi::{CStr, CString};

use pyo3::Borrowed;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rushlight::backcompat::LeftOut;
use rushlight::signature::{Kind, Param, Returns, Schema};
use rushlight::{Args, Ints, Row, Tensor, Value};
use smallvec::SmallVec;

use crate::errors::{kind_of, raise};
use crate::{convert, object};

/// One overload as the parser wants it: interned names beside the parameters.
pub struct Overload {
    pub row: &'static Row,
    /// How many parameters a call sees: `inplace` is one of `torch.nn.functional` alone.
    shown: usize,
    names: Vec<Raw>,
    /// `out=`, which no signature states.
    pub takes_out: bool,
    /// Whether some overload of the name takes a `dim`.
    is_one_with_dim: bool,
}

// SAFETY: the names are interned strings that live as long as the interpreter.
unsafe impl Send for Overload {}
// SAFETY: see above.
unsafe impl Sync for Overload {}

fn intern(text: &str) -> Raw {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: a null-terminated string; the reference is kept for ever.
    unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) }
}

/// torch's other spellings of a parameter's name.
fn synonyms(name: &str) -> &'static [&'static str] {
    match name {
        "self" => &["input", "x", "a", "x1"],
        "input" => &["x", "a", "x1"],
        "dim" => &["axis"],
        "keepdim" => &["keepdims"],
        "other" => &["x2"],
        "dims" => &["axis"],
        _ => &[],
    }
}

impl Overload {
    pub fn new(row: &'static Row, params: &[Param], takes_out: bool, is_one_with_dim: bool) -> Overload {
        let names = params.iter().map(|param| intern(shown(param))).collect();
        Overload { row, shown: params.len(), names, takes_out, is_one_with_dim }
    }

    /// Whether it takes as many arguments as a call has.
    fn may_mean(&self, call: &Call) -> bool {
        let given = call.given() + call.keywords.len();
        let needed = self.params().iter().filter(|param| param.default.is_none()).count();
        (needed..=self.shown + usize::from(self.takes_out)).contains(&given)
    }

    /// Whether torch has an overload for a number beside the one for a tensor; its arithmetic takes either in one.
    fn is_two(&self) -> bool {
        let takes_either = self.params().iter().skip(1).any(|param| param.kind == Kind::Operand);
        takes_either && !matches!(self.row.python_name(), "add" | "sub" | "mul" | "div" | "floor_divide" | "copy")
    }

    /// The parameters that a call sees.
    pub fn params(&self) -> &'static [Param] {
        &self.row.schema().params[..self.shown]
    }

    /// How many of them may be given by position.
    fn positional(&self) -> usize {
        self.row.schema().positional.min(self.shown)
    }

    /// The parameter that a keyword names.
    fn place(&self, keyword: Borrowed<'_, '_, PyString>) -> Option<usize> {
        if let Some(place) = self.names.iter().position(|name| *name == keyword.as_ptr()) {
            return Some(place);
        }
        let same = |text: &str| CString::new(text).is_ok_and(|text| says(keyword, &text));
        let params = self.params();
        params
            .iter()
            .position(|p| same(shown(p)))
            .or_else(|| params.iter().position(|p| synonyms(p.name).iter().any(|s| same(s))))
    }
}

/// Whether a string is this text.
fn says(string: Borrowed<'_, '_, PyString>, text: &CStr) -> bool {
    // SAFETY: a living string and a terminated text.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(string.as_ptr(), text.as_ptr()) == 0 }
}

pub type Raw = *mut ffi::PyObject;
type Object<'a, 'py> = Borrowed<'a, 'py, PyAny>;

/// The arguments of a vectorcall, alive for `'a`.
#[derive(Clone, Copy)]
pub struct Call<'a, 'py> {
    py: Python<'py>,
    /// The object before the dot, for a method.
    receiver: Option<Raw>,
    positional: &'a [Raw],
    keywords: &'a [Raw],
    values: &'a [Raw],
}

impl<'a, 'py> Call<'a, 'py> {
    /// # Safety
    /// All are living objects, and stay so for `'a`; `keywords` are strings, and each has its value.
    #[inline]
    pub unsafe fn new(
        py: Python<'py>,
        receiver: Option<Raw>,
        positional: &'a [Raw],
        keywords: &'a [Raw],
        values: &'a [Raw],
    ) -> Call<'a, 'py> {
        Call { py, receiver, positional, keywords, values }
    }

    /// How many arguments stand without a name, the receiver counted.
    #[inline]
    fn given(&self) -> usize {
        self.positional.len() + usize::from(self.receiver.is_some())
    }

    #[inline]
    fn at(&self, place: usize) -> Option<Object<'a, 'py>> {
        let raw = match self.receiver {
            Some(receiver) if place == 0 => Some(receiver),
            Some(_) => self.positional.get(place - 1).copied(),
            None => self.positional.get(place).copied(),
        };
        // SAFETY: by the word of who called `new`.
        raw.map(|raw| unsafe { Borrowed::from_ptr(self.py, raw) })
    }

    /// What stands without a name after the receiver.
    #[inline]
    fn positional(&self) -> impl ExactSizeIterator<Item = Object<'a, 'py>> + use<'a, 'py> {
        let py = self.py;
        // SAFETY: by the word of who called `new`.
        self.positional.iter().map(move |raw| unsafe { Borrowed::from_ptr(py, *raw) })
    }

    #[inline]
    fn keywords(&self) -> impl Iterator<Item = (Borrowed<'a, 'py, PyString>, Object<'a, 'py>)> + use<'a, 'py> {
        let py = self.py;
        self.keywords.iter().zip(self.values).map(move |(keyword, value)| {
            // SAFETY: by the word of who called `new`.
            unsafe { (Borrowed::from_ptr(py, *keyword).cast_unchecked(), Borrowed::from_ptr(py, *value)) }
        })
    }
}

/// Why arguments do not fit an overload. It is put in words only if no other overload fits either.
pub enum Misfit<'a, 'py> {
    TooMany,
    Twice(usize),
    Unknown(Borrowed<'a, 'py, PyString>),
    Missing(usize),
    Wrong(usize, Object<'a, 'py>),
    Raised(PyErr),
}

impl From<PyErr> for Misfit<'_, '_> {
    fn from(error: PyErr) -> Self {
        Misfit::Raised(error)
    }
}

/// Binds a call to an overload: fills `args`, which must be empty, and gives what stood at `out=`. Where it `has_others`, nobody
/// is told what does not fit this one.
pub fn bind<'a, 'py>(
    overload: &Overload,
    call: &Call<'a, 'py>,
    args: &mut Args<'a>,
    has_others: bool,
) -> Result<Option<Object<'a, 'py>>, Misfit<'a, 'py>> {
    let schema = overload.row.schema();
    let given = call.given();
    let loose = loose(schema, call);
    if given > overload.positional() && loose.is_none() {
        return Err(Misfit::TooMany);
    }
    let mut out = None;
    // Where each keyword's value goes; what is too much is told last, as in torch.
    let mut places: SmallVec<[usize; 8]> = SmallVec::new();
    let mut surplus = None;
    for (keyword, value) in call.keywords() {
        match overload.place(keyword) {
            Some(place) if places.contains(&place) || (place < given && !schema.params[place].keyword_only) => {
                let by_its_name = says(keyword, &CString::new(shown(&schema.params[place])).unwrap_or_default());
                surplus = surplus.or(Some(if by_its_name { Misfit::Twice(place) } else { Misfit::Unknown(keyword) }));
                places.push(usize::MAX);
            }
            Some(place) => places.push(place),
            None if overload.takes_out && says(keyword, c"out") => {
                out = Some(value).filter(|value| !value.is_none());
                places.push(usize::MAX);
            }
            // Another overload may know it: that is asked soon.
            None if has_others => return Err(Misfit::Unknown(keyword)),
            None => {
                surplus = surplus.or(Some(Misfit::Unknown(keyword)));
                places.push(usize::MAX);
            }
        }
    }
    // An int of too many bits is an error only where all else fits.
    let mut too_wide = None;
    for (place, param) in schema.params.iter().enumerate() {
        if let Some((at, list)) = &loose
            && *at == place
        {
            args.values.push(list.clone());
            continue;
        }
        let by_position = if param.keyword_only { None } else { call.at(place) };
        let by_name = || call.keywords().zip(&places).find(|(_, named)| **named == place).map(|((_, value), _)| value);
        let Some(object) = by_position.or_else(by_name) else {
            if param.default.is_none() {
                return Err(Misfit::Missing(place));
            }
            args.values.push(param.default_value());
            continue;
        };
        match convert::value(object, param.kind, param.optional || param.default == Some("None")) {
            Ok(Some(value)) => args.values.push(value),
            Ok(None) => return Err(Misfit::Wrong(place, object)),
            Err(error) => {
                too_wide.get_or_insert(unpacking(error, overload, param, object));
                args.values.push(Value::None);
            }
        }
    }
    if let Some(surplus) = surplus {
        return Err(surplus);
    }
    if let Some(error) = too_wide {
        return Err(Misfit::Raised(error));
    }
    rushlight::backcompat::note_left_out(args, || {
        let is_given = |name| schema.place(name).map(|place| place < given || places.contains(&place));
        let no_dim = || schema.place("dim").is_none_or(|place| matches!(args.values[place], Value::None));
        LeftOut {
            keepdim: is_given("keepdim") == Some(false) && is_given("dim") == Some(true),
            dim: overload.is_one_with_dim && no_dim(),
        }
    })
    .map_err(raise)?;
    Ok(out)
}

/// An int of more than 64 bits, where it is one of a list: torch names the list and its place there.
#[cold]
fn unpacking(error: PyErr, overload: &Overload, param: &Param, object: Object) -> PyErr {
    let bad = items_of(&object).iter().position(|item| convert::int(item).is_err());
    match (param.kind, bad) {
        (Kind::Ints | Kind::IntOrInts, Some(place)) => PyTypeError::new_err(format!(
            "{}(): argument '{}' failed to unpack the object at pos {} with error \"{}",
            overload.row.python_name(),
            shown(param),
            place + 1,
            error.value(object.py())
        )),
        _ => error,
    }
}

impl Misfit<'_, '_> {
    /// torch's sentence about it.
    #[cold]
    fn into_error(self, name: &str, overload: &Overload, call: &Call) -> PyErr {
        let (schema, params, given) = (overload.row.schema(), overload.params(), call.given());
        let own = usize::from(call.receiver.is_some());
        let sentence = match self {
            Misfit::Raised(error) => return error,
            Misfit::TooMany if schema.takes_loose(call.receiver.is_some()) => {
                let items: Vec<_> = call.positional().map(Borrowed::to_owned).collect();
                match wrong_item(&items, name, &schema.params[schema.positional - 1], Some(1)) {
                    Ok(sentence) => sentence.unwrap_or_default(),
                    Err(error) => return error,
                }
            }
            Misfit::TooMany if own == 1 && params.len() == 1 => takes_none(name, given - 1),
            Misfit::TooMany => takes_fewer(name, overload.positional() - own, given - own),
            Misfit::Twice(place) => {
                format!("{name}() got multiple values for argument '{}'", shown(&schema.params[place]))
            }
            Misfit::Unknown(keyword) => {
                let (keyword, known): (_, Vec<&str>) = (&*keyword, params.iter().map(|param| param.name).collect());
                let known = known.join(", ").replacen("self", "input", 1);
                format!("{name}() got an unexpected keyword argument '{keyword}'\nIts arguments are: {known}.")
            }
            Misfit::Missing(first) => {
                // As in torch also those behind it that were given by name.
                let is_missing = |place: &usize| params[*place].default.is_none();
                let names: Vec<&str> = (first..params.len()).filter(is_missing).map(|at| shown(&params[at])).collect();
                missing(name, &names)
            }
            Misfit::Wrong(place, object) => {
                let position = (place < given).then(|| place + 1 - usize::from(call.receiver.is_some()));
                if let Some(error) = of_a_loss(overload.row, &params[place], &object) {
                    return error;
                }
                match wrong(&object, inner(name), &schema.params[place], position) {
                    Ok(sentence) => sentence,
                    Err(error) => return error,
                }
            }
        };
        PyTypeError::new_err(sentence)
    }
}

/// torch's losses are written in Python: they ask operands for their sizes, and look the reduction up.
fn of_a_loss(row: &Row, param: &Param, object: &Bound<'_, PyAny>) -> Option<PyErr> {
    let name = row.python_name();
    let joins_texts = matches!(name, "poisson_nll_loss" | "gaussian_nll_loss" | "multilabel_soft_margin_loss");
    let asks_sizes = matches!(name, "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss")
        || name.starts_with("binary_cross_entropy");
    match shown(param) {
        "reduction" if joins_texts => {
            let kind = kind_of(object);
            Some(PyTypeError::new_err(format!("unsupported operand type(s) for +: '{kind}' and 'str'")))
        }
        "reduction" if row.namespace == "nn.functional" => {
            let text = object.str().map(|text| text.to_string()).unwrap_or_default();
            Some(PyValueError::new_err(format!("{text} is not a valid value for reduction")))
        }
        "input" | "target" if asks_sizes => {
            Some(PyAttributeError::new_err(format!("'{}' object has no attribute 'size'", kind_of(object))))
        }
        _ => None,
    }
}

/// What torch calls a function where it speaks of an argument: the one behind it.
fn inner(name: &str) -> &str {
    match name {
        "cross_entropy" => "cross_entropy_loss",
        "nll_loss" => "nll_loss_nd",
        "logsigmoid" => "log_sigmoid",
        own => own,
    }
}

/// torch's sentence about arguments that are missing; of one it speaks in the plural.
pub fn missing(name: &str, wanted: &[&str]) -> String {
    let plural = if wanted.len() == 1 { "s" } else { "" };
    format!("{name}() missing {} required positional argument{plural}: \"{}\"", wanted.len(), wanted.join("\", \""))
}

/// torch's sentence about arguments of a method that has none.
pub fn takes_none(name: &str, given: usize) -> String {
    format!("TensorBase.{name}() takes no arguments ({given} given)")
}

/// torch's sentence about more arguments than a function takes.
pub fn takes_fewer(name: &str, takes: usize, given: usize) -> String {
    let plural = if takes == 1 { "" } else { "s" };
    let were = if given == 1 { "was" } else { "were" };
    format!("{name}() takes {takes} positional argument{plural} but {given} {were} given")
}

/// What a tuple or list holds; nothing of other objects.
fn items_of<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => object.cast::<PyList>().map(|list| list.iter().collect()).unwrap_or_default(),
    }
}

/// What is wrong with an argument; `position` counts from one, as torch does it, and is nothing for a keyword.
fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Param, position: Option<usize>) -> PyResult<String> {
    if let Some(sentence) = wrong_item(&items_of(object), name, param, position)? {
        return Ok(sentence);
    }
    if matches!(param.kind, Kind::Ints | Kind::IntOrInts)
        && let Err(error) = convert::int(object)
    {
        let (param, error) = (shown(param), error.value(object.py()));
        return Ok(format!("{name}(): argument '{param}' failed to unpack the object at pos 1 with error \"{error}"));
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
        Kind::Tensors => !object::is_tensor(item),
        _ => false,
    });
    let Some(place) = bad else { return Ok(None) };
    let (kind, title, param_name) = (kind_of(&items[place]), param.kind.title(), shown(param));
    if param.kind != Kind::Tensors
        && let Err(error) = convert::int(&items[place])
    {
        return Ok(Some(format!(
            "{name}(): argument '{param_name}' failed to unpack the object at pos {} with error \"{}",
            place + 1,
            error.value(items[place].py())
        )));
    }
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
fn loose(schema: &Schema, call: &Call) -> Option<(usize, Value<'static>)> {
    let last = schema.positional.checked_sub(1).filter(|last| call.given() >= *last)?;
    if !schema.takes_loose(call.receiver.is_some()) {
        return None;
    }
    match schema.params[last].kind {
        Kind::Ints if call.given() == last => None,
        Kind::Tensors if call.keywords().next().is_some() && call.given() == last => None,
        Kind::Ints => read_loose_ints(last, call).map(|ints| (last, Value::Ints(ints))),
        Kind::Tensors => read_loose_tensors(last, call).map(|tensors| (last, Value::Tensors(tensors))),
        _ => None,
    }
}

/// Where the loose arguments begin among those without a name.
fn first_loose(last: usize, call: &Call) -> Option<usize> {
    let first = last - usize::from(call.receiver.is_some() && last > 0);
    (first <= call.positional.len()).then_some(first)
}

fn read_loose_tensors(last: usize, call: &Call) -> Option<Vec<Option<Tensor>>> {
    call.positional()
        .skip(first_loose(last, call)?)
        .map(|object| Some(Some(object::as_tensor(object)?.clone())))
        .collect()
}

fn read_loose_ints(last: usize, call: &Call) -> Option<Ints> {
    convert::each_int(call.positional().skip(first_loose(last, call)?).map(Borrowed::to_owned)).ok().flatten()
}

/// The error when no overload fits: what is wrong with the only one, or torch's list of several.
#[cold]
pub fn no_match<'a, 'py>(name: &str, overloads: &[Overload], call: &Call<'a, 'py>, last: Misfit<'a, 'py>) -> PyErr {
    let mut fitting = overloads.iter().filter(|overload| overload.may_mean(call));
    let only = match (overloads, fitting.next(), fitting.next()) {
        ([overload], ..) => {
            (!overload.is_two() || overload.row.namespace == "nn.functional").then_some((overload, last))
        }
        // Of several, the one that takes as many arguments.
        (_, Some(overload), None) if !overload.is_two() => {
            let mut args = Args { row: overload.row, values: Default::default() };
            bind(overload, call, &mut args, false).err().map(|misfit| (overload, misfit))
        }
        _ => None,
    };
    if let Some((overload, misfit)) = only {
        return misfit.into_error(name, overload, call);
    }
    let got = call.positional().map(|object| kind_of(&object));
    let named = call.keywords().map(|(keyword, value)| format!("{}={}", &*keyword, kind_of(&value)));
    let mut sentence = invalid_combination(name, got, named);
    for overload in overloads {
        let signature =
            overload.row.signature.split(") -> ").next().unwrap_or("").replace("Tensor self", "Tensor input");
        sentence.push_str(&format!("\n * {signature})"));
    }
    PyTypeError::new_err(sentence)
}

/// torch's sentence about arguments that fit no overload, which follow it; keywords alone end in a comma.
pub fn invalid_combination(
    name: &str,
    positional: impl Iterator<Item = String>,
    named: impl Iterator<Item = String>,
) -> String {
    let positional: Vec<String> = positional.collect();
    let end = if positional.is_empty() { ", " } else { "" };
    let named: Vec<String> = named.collect();
    let end = if named.is_empty() { "" } else { end };
    let got = [positional, named].concat().join(", ");
    format!("{name}() received an invalid combination of arguments - got ({got}{end}), but expected one of:")
}

/// The tensors that stand at `out=`: one, or as many as there are results in a tuple or list.
pub fn out_tensors(name: &str, object: &Bound<'_, PyAny>, returns: &Returns) -> PyResult<Vec<Tensor>> {
    let several = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    if several && *returns != Returns::Tensor {
        let outs: Vec<Tensor> =
            items_of(object).iter().map(|item| object::tensor(item).cloned()).collect::<PyResult<_>>()?;
        if let Returns::Named(names) = returns
            && outs.len() != names.len()
        {
            let (wanted, got) = (names.len(), outs.len());
            return Err(PyTypeError::new_err(format!("expected tuple of {wanted} elements but got {got}")));
        }
        return Ok(outs);
    }
    let title = if matches!(returns, Returns::Named(_)) { "tuple of Tensors" } else { "Tensor" };
    match object::tensor(object) {
        Ok(tensor) if title == "Tensor" => Ok(vec![tensor.clone()]),
        _ => Err(PyTypeError::new_err(format!("{name}(): argument 'out' must be {title}, not {}", kind_of(object)))),
    }
}
