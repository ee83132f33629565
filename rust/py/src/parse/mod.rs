//! Binds the arguments of a call to a signature: positional ones first, then keywords, by the address of their interned
//! name or else by their text and torch's synonyms. `python` has what CPython says about calls of functions that torch
//! writes in Python.

use std::ffi::{CStr, CString};

use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use pyo3::{Borrowed, ffi};
use rushlight::Tensor;
use rushlight_dispatch::backcompat;
use rushlight_dispatch::backcompat::OmittedArguments;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::signature::{Kind, Param, Returns, Schema};
use rushlight_dispatch::value::{Ints, Value};
use smallvec::SmallVec;

use crate::errors::{kind_of, raise};
use crate::{convert, errors, object, scalars};

/// One overload in the parser's form: the parameters with interned names.
pub struct Overload {
    pub op: &'static Operator,
    /// The number of visible parameters: only functions of `torch.nn.functional` have `inplace`.
    shown: usize,
    names: Vec<Raw>,
    /// Whether it accepts `out=`, which signatures do not list.
    pub takes_out: bool,
    /// Whether some overload of the name takes a `dim`.
    is_one_with_dim: bool,
    /// Whether torch writes the function in Python.
    in_python: bool,
}

// SAFETY: the names are interned strings that live as long as the interpreter.
unsafe impl Send for Overload {}
// SAFETY: see above.
unsafe impl Sync for Overload {}

fn intern(text: &str) -> Raw {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: a null-terminated string; the reference is kept forever.
    unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) }
}

/// torch's other spellings of a parameter's name. A function written in Python has none.
fn synonyms(overload: &Overload, name: &str) -> &'static [&'static str] {
    match name {
        // The function `torch.split` has other names than the method.
        "self" if overload.op.python_name() == "split" => &["tensor", "input"],
        "split_size" => &["split_size_or_sections"],
        _ if overload.in_python => &[],
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
    pub fn new(op: &'static Operator, params: &[Param], takes_out: bool, is_one_with_dim: bool) -> Overload {
        let names = params.iter().map(|param| intern(shown(param))).collect();
        Overload { op, shown: params.len(), names, takes_out, is_one_with_dim, in_python: false }
    }

    /// The overload of a function that torch writes in Python.
    pub fn in_python(self, in_python: bool) -> Overload {
        Overload { in_python, ..self }
    }

    /// Whether it takes as many arguments as the call has.
    fn may_mean(&self, call: &Call) -> bool {
        let given = call.given() + call.values.len();
        let needed = self.params().iter().filter(|param| param.default.is_none()).count();
        (needed..=self.shown + usize::from(self.takes_out)).contains(&given)
    }

    /// Whether torch has several overloads that take as many arguments as the call has, where this is the only one: for
    /// a number beside a tensor (arithmetic operators accept either in one), for a generator, for another dtype.
    fn stands_for_several(&self, call: &Call) -> bool {
        let given = call.given() + call.values.len();
        match self.op.python_name() {
            "add" | "sub" | "mul" | "copy" => false,
            "bmm" | "mm" | "div" | "floor_divide" => given != 2,
            "count_nonzero" => given != 1,
            "eye" | "rand" | "randn" | "rand_like" | "randint_like" | "randperm" | "movedim" | "view_copy" => true,
            name if name.ends_with("_window") => true,
            _ => self.params().iter().skip(1).any(|param| param.kind == Kind::Operand),
        }
    }

    /// The visible parameters.
    pub fn params(&self) -> &'static [Param] {
        &self.op.schema().params[..self.shown]
    }

    /// How many of them are positional.
    fn positional(&self) -> usize {
        self.op.schema().positional.min(self.shown)
    }

    /// The index of the parameter with a keyword's name.
    fn place(&self, keyword: Borrowed<'_, '_, PyString>) -> Option<usize> {
        let params = self.params();
        let is_unnamed = |param: &Param| param.separate || (self.in_python && param.kind == Kind::Tensors);
        if let Some(place) = self.names.iter().position(|name| *name == keyword.as_ptr()) {
            return (!is_unnamed(&params[place])).then_some(place);
        }
        let same = |text: &str| CString::new(text).is_ok_and(|text| says(keyword, &text));
        params
            .iter()
            .position(|p| !is_unnamed(p) && same(shown(p)))
            .or_else(|| params.iter().position(|p| synonyms(self, p.name).iter().any(|s| same(s))))
    }
}

/// Whether a string equals this text.
fn says(string: Borrowed<'_, '_, PyString>, text: &CStr) -> bool {
    // SAFETY: a living string and a terminated text.
    unsafe { ffi::PyUnicode_CompareWithASCIIString(string.as_ptr(), text.as_ptr()) == 0 }
}

pub type Raw = *mut ffi::PyObject;
type Object<'a, 'py> = Borrowed<'a, 'py, PyAny>;

/// The arguments of a vectorcall, alive for `'a`.
#[derive(Clone, Copy)]
pub struct Call<'a, 'py> {
    pub py: Python<'py>,
    /// The object before the dot, for a method.
    receiver: Option<Raw>,
    pub positional: &'a [Raw],
    /// A tuple of the keywords, or null.
    names: Raw,
    /// A value for each keyword.
    pub values: &'a [Raw],
}

impl<'a, 'py> Call<'a, 'py> {
    /// A call without keywords.
    ///
    /// # Safety
    /// All are living objects, and stay so for `'a`.
    #[inline]
    pub unsafe fn new(py: Python<'py>, positional: &'a [Raw]) -> Call<'a, 'py> {
        Call { py, receiver: None, positional, names: std::ptr::null_mut(), values: &[] }
    }

    /// # Safety
    /// All are living objects, and stay so for `'a`; `names` is a tuple of strings, with as many as there are values.
    #[inline]
    pub unsafe fn with_keywords(
        py: Python<'py>,
        receiver: Option<Raw>,
        positional: &'a [Raw],
        names: Raw,
        values: &'a [Raw],
    ) -> Call<'a, 'py> {
        Call { py, receiver, positional, names, values }
    }

    /// The arguments in the form of CPython's protocol: `count` positional ones, then a value for each name.
    ///
    /// # Safety
    /// CPython passed the arguments and keeps them alive for `'a`.
    #[inline]
    pub unsafe fn fastcall(
        py: Python<'py>,
        receiver: Option<Raw>,
        args: *const Raw,
        count: ffi::Py_ssize_t,
        names: Raw,
    ) -> Call<'a, 'py> {
        let count = count as usize;
        // SAFETY: guaranteed by the caller.
        unsafe {
            let positional = if count == 0 { &[] } else { std::slice::from_raw_parts(args, count) };
            let values = if names.is_null() {
                &[]
            } else {
                std::slice::from_raw_parts(args.add(count), ffi::PyTuple_Size(names) as usize)
            };
            Call { py, receiver, positional, names, values }
        }
    }

    /// The number of positional arguments, including the receiver.
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
        // SAFETY: guaranteed by the caller of `new`.
        raw.map(|raw| unsafe { Borrowed::from_ptr(self.py, raw) })
    }

    /// The positional arguments after the receiver.
    #[inline]
    pub fn positional(&self) -> impl ExactSizeIterator<Item = Object<'a, 'py>> + use<'a, 'py> {
        let py = self.py;
        // SAFETY: guaranteed by the caller of `new`.
        self.positional.iter().map(move |raw| unsafe { Borrowed::from_ptr(py, *raw) })
    }

    /// All positional arguments, including the receiver.
    pub fn all_positional(&self) -> impl Iterator<Item = Object<'a, 'py>> + use<'a, 'py> {
        let call = *self;
        (0..self.given()).filter_map(move |place| call.at(place))
    }

    #[inline]
    pub fn keywords(
        &self,
    ) -> impl DoubleEndedIterator<Item = (Borrowed<'a, 'py, PyString>, Object<'a, 'py>)> + use<'a, 'py> {
        let (py, names) = (self.py, self.names);
        self.values.iter().enumerate().map(move |(at, value)| {
            // SAFETY: guaranteed by the caller of `new`; the tuple keeps its strings alive.
            unsafe {
                let keyword = ffi::PyTuple_GetItem(names, at as ffi::Py_ssize_t);
                (Borrowed::from_ptr(py, keyword).cast_unchecked(), Borrowed::from_ptr(py, *value))
            }
        })
    }
}

/// Assigns the arguments after the receiver to parameters by name. All parameters are optional here.
pub fn sort<'py, const N: usize>(
    name: &str,
    params: [&str; N],
    call: &Call<'_, 'py>,
) -> PyResult<[Option<Bound<'py, PyAny>>; N]> {
    let given = call.positional.len();
    if given > N {
        return Err(PyTypeError::new_err(if N == 0 {
            takes_none(name, given)
        } else {
            takes_fewer(name, 0, N, given)
        }));
    }
    let mut positional = call.positional();
    let mut sorted = std::array::from_fn(|_| positional.next().map(Borrowed::to_owned));
    for (keyword, value) in call.keywords() {
        let keyword = keyword.to_cow()?;
        let Some(place) = params.iter().position(|param| *param == keyword) else {
            return Err(PyTypeError::new_err(unexpected(name, &keyword)));
        };
        if sorted[place].is_some() {
            return Err(PyTypeError::new_err(twice(name, &keyword)));
        }
        sorted[place] = Some(value.to_owned());
    }
    Ok(sorted)
}

/// Why arguments do not fit an overload. It is formatted only if no other overload fits either.
pub enum BindError<'a, 'py> {
    TooMany,
    Twice(usize),
    Unknown(Borrowed<'a, 'py, PyString>),
    Missing(usize),
    Wrong(usize, Object<'a, 'py>),
    /// An `out=` of a wrong kind.
    Out(PyErr),
    Raised(PyErr),
}

impl From<PyErr> for BindError<'_, '_> {
    fn from(error: PyErr) -> Self {
        BindError::Raised(error)
    }
}

/// Binds a call to an overload: fills `args`, which must be empty, and returns the value of `out=`. If it `has_others`,
/// details of a mismatch are not needed.
pub fn bind<'a, 'py>(
    overload: &Overload,
    call: &Call<'a, 'py>,
    args: &mut Args<'a>,
    has_others: bool,
) -> Result<Option<Object<'a, 'py>>, BindError<'a, 'py>> {
    let schema = overload.op.schema();
    let given = call.given();
    let variadic = variadic(schema, call)?;
    if given > overload.positional() && variadic.is_none() {
        return Err(BindError::TooMany);
    }
    let mut out = None;
    // The index of each keyword's parameter; unknown keywords are reported last, as in torch.
    let mut places: SmallVec<[usize; 8]> = SmallVec::new();
    let mut surplus = None;
    for (keyword, value) in call.keywords() {
        // A method's object has no name.
        match overload.place(keyword).filter(|place| *place > 0 || call.receiver.is_none()) {
            Some(place) if places.contains(&place) || (place < given && !schema.params[place].keyword_only) => {
                let by_its_name = says(keyword, &CString::new(shown(&schema.params[place])).unwrap_or_default());
                surplus =
                    surplus.or(Some(if by_its_name { BindError::Twice(place) } else { BindError::Unknown(keyword) }));
                places.push(usize::MAX);
            }
            Some(place) => places.push(place),
            None if overload.takes_out && says(keyword, c"out") => {
                out = Some(value).filter(|value| !value.is_none());
                places.push(usize::MAX);
            }
            // Another overload may have it and is tried next.
            None if has_others => return Err(BindError::Unknown(keyword)),
            None => {
                surplus = surplus.or(Some(BindError::Unknown(keyword)));
                places.push(usize::MAX);
            }
        }
    }
    // An int of too many bits is an error only if everything else fits.
    let mut too_wide = None;
    for (place, param) in schema.params.iter().enumerate() {
        if let Some((at, list)) = &variadic
            && *at == place
        {
            args.values.push(list.clone());
            continue;
        }
        let by_position = if param.keyword_only { None } else { call.at(place) };
        let by_name = || call.keywords().zip(&places).find(|(_, named)| **named == place).map(|((_, value), _)| value);
        let Some(object) = by_position.or_else(by_name) else {
            if param.default.is_none() {
                return Err(BindError::Missing(place));
            }
            args.values.push(param.default_value());
            continue;
        };
        match convert::value(object, param.kind, param.optional || param.default == Some("None")) {
            Ok(Some(value)) => args.values.push(value),
            Ok(None) => return Err(BindError::Wrong(place, object)),
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
        return Err(BindError::Raised(error));
    }
    backcompat::warn_of_omitted(args, || {
        let is_given = |name| schema.place(name).map(|place| place < given || places.contains(&place));
        let no_dim = || schema.place("dim").is_none_or(|place| matches!(args.values[place], Value::None));
        OmittedArguments {
            keepdim: is_given("keepdim") == Some(false) && is_given("dim") == Some(true),
            dim: overload.is_one_with_dim && no_dim(),
        }
    })
    .map_err(raise)?;
    Ok(out)
}

/// An int of more than 64 bits in a list: torch's message names the list and the position there.
#[cold]
fn unpacking(error: PyErr, overload: &Overload, param: &Param, object: Object) -> PyErr {
    let bad = items_of(&object).iter().position(|item| scalars::int(item).is_err());
    match (param.kind, bad) {
        (Kind::Ints | Kind::IntOrInts, Some(place)) => PyTypeError::new_err(format!(
            "{}(): argument '{}' failed to unpack the object at pos {} with error \"{}",
            overload.op.flat_name(),
            shown(param),
            place + 1,
            error.value(object.py())
        )),
        _ => error,
    }
}

impl BindError<'_, '_> {
    /// torch's sentence for the mismatch.
    #[cold]
    fn into_error(self, name: &str, overload: &Overload, call: &Call) -> PyErr {
        let (schema, params, given) = (overload.op.schema(), overload.params(), call.given());
        let own = usize::from(call.receiver.is_some());
        let sentence = match self {
            BindError::Raised(error) | BindError::Out(error) => return error,
            BindError::TooMany if schema.takes_variadic(call.receiver.is_some()) => {
                let items: Vec<_> = call.positional().map(Borrowed::to_owned).collect();
                if items.first().is_some_and(|first| is_list_of_ints(first)) {
                    return PyTypeError::new_err(takes_fewer(name, 1, 1, items.len()));
                }
                match wrong_item(&items, name, &schema.params[schema.positional - 1], Some(1)) {
                    Ok(sentence) => sentence.unwrap_or_default(),
                    Err(error) => return error,
                }
            }
            _ if own == 1 && params.len() == 1 && call.keywords().next().is_some() => takes_no_keywords(name),
            BindError::TooMany if own == 1 && params.len() == 1 => takes_none(name, given - 1),
            BindError::TooMany => {
                let takes = overload.positional();
                // As in torch, also those that can be passed by name alone.
                let needed = params.iter().filter(|param| param.default.is_none()).count();
                takes_fewer(name, needed.saturating_sub(own), takes - own, given - own)
            }
            BindError::Twice(place) => twice(name, shown(&schema.params[place])),
            BindError::Unknown(keyword) => {
                let known: Vec<&str> = params.iter().map(|param| param.name).collect();
                let known = known.join(", ").replacen("self", "input", 1);
                format!("{}\nIts arguments are: {known}.", unexpected(name, &keyword.to_string()))
            }
            BindError::Missing(first) => {
                // As in torch, parameters behind it that were given by name count too.
                let is_missing = |place: &usize| params[*place].default.is_none();
                let names: Vec<&str> = (first..params.len()).filter(is_missing).map(|at| shown(&params[at])).collect();
                missing(name, &names)
            }
            BindError::Wrong(place, object) => {
                let position = (place < given).then(|| place + 1 - usize::from(call.receiver.is_some()));
                if let Some(error) = of_a_loss(overload.op, &params[place], &object) {
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

/// torch's losses are written in Python: they read the operands' sizes, and look up the reduction.
fn of_a_loss(op: &Operator, param: &Param, object: &Bound<'_, PyAny>) -> Option<PyErr> {
    let name = op.python_name();
    let joins_texts = matches!(name, "poisson_nll_loss" | "gaussian_nll_loss" | "multilabel_soft_margin_loss");
    let asks_sizes = matches!(name, "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss")
        || name.starts_with("binary_cross_entropy");
    match shown(param) {
        "reduction" if joins_texts => {
            let kind = kind_of(object);
            Some(PyTypeError::new_err(format!("unsupported operand type(s) for +: '{kind}' and 'str'")))
        }
        "reduction" if op.namespace == "nn.functional" => {
            let text = object.str().map(|text| text.to_string()).unwrap_or_default();
            Some(PyValueError::new_err(format!("{text} is not a valid value for reduction")))
        }
        "input" | "target" if asks_sizes => {
            Some(PyAttributeError::new_err(format!("'{}' object has no attribute 'size'", kind_of(object))))
        }
        _ => None,
    }
}

/// The name of a function in torch's messages about an argument: that of the inner one.
fn inner(name: &str) -> &str {
    match name {
        "cross_entropy" => "cross_entropy_loss",
        "nll_loss" => "nll_loss_nd",
        own => own,
    }
}

/// torch's message for a parameter that gets two values.
fn twice(name: &str, param: &str) -> String {
    format!("{name}() got multiple values for argument '{param}'")
}

/// torch's message for a keyword that is not a parameter.
fn unexpected(name: &str, keyword: &str) -> String {
    format!("{name}() got an unexpected keyword argument '{keyword}'")
}

/// torch's sentence about missing arguments; for a single one it uses the plural.
pub fn missing(name: &str, wanted: &[&str]) -> String {
    let plural = if wanted.len() == 1 { "s" } else { "" };
    format!("{name}() missing {} required positional argument{plural}: \"{}\"", wanted.len(), wanted.join("\", \""))
}

/// torch's sentence about arguments of a method that takes none.
pub fn takes_none(name: &str, given: usize) -> String {
    format!("TensorBase.{name}() takes no arguments ({given} given)")
}

/// torch's sentence about keywords of a method that takes no arguments.
fn takes_no_keywords(name: &str) -> String {
    format!("TensorBase.{name}() takes no keyword arguments")
}

/// Whether an object is a list or tuple of integers.
fn is_list_of_ints(object: &Bound<'_, PyAny>) -> bool {
    let is_list = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    is_list && items_of(object).iter().all(|item| matches!(scalars::int(item), Ok(Some(_))))
}

/// The sentence of torch and CPython about more arguments than a function takes, of which it needs some.
fn takes_fewer(name: &str, needed: usize, takes: usize, given: usize) -> String {
    let were = if given == 1 && needed == takes { "was" } else { "were" };
    let takes = match takes {
        _ if needed != takes => format!("from {needed} to {takes} positional arguments"),
        1 => "1 positional argument".to_owned(),
        _ => format!("{takes} positional arguments"),
    };
    format!("{name}() takes {takes} but {given} {were} given")
}

/// The items of a tuple or list; empty for other objects.
fn items_of<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => object.cast::<PyList>().map(|list| list.iter().collect()).unwrap_or_default(),
    }
}

/// Describes the fault of an argument; `position` counts from one, as in torch, and is `None` for a keyword.
fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Param, position: Option<usize>) -> PyResult<String> {
    if let Some(sentence) = wrong_item(&items_of(object), name, param, position)? {
        return Ok(sentence);
    }
    if matches!(param.kind, Kind::Ints | Kind::IntOrInts)
        && let Err(error) = scalars::int(object)
    {
        let (param, error) = (shown(param), error.value(object.py()));
        return Ok(format!("{name}(): argument '{param}' failed to unpack the object at pos 1 with error \"{error}"));
    }
    let (kind, display_name) = (kind_of(object), param.kind.display_name());
    Ok(format!("{name}(): argument '{}'{} must be {display_name}, not {kind}", shown(param), at(position)))
}

/// Describes the fault of the first bad item of a list.
fn wrong_item(
    items: &[Bound<'_, PyAny>],
    name: &str,
    param: &Param,
    position: Option<usize>,
) -> PyResult<Option<String>> {
    let bad = items.iter().position(|item| match param.kind {
        Kind::Ints | Kind::IntOrInts => scalars::int(item).ok().flatten().is_none(),
        Kind::Tensors => !object::is_tensor(item),
        _ => false,
    });
    let Some(place) = bad else { return Ok(None) };
    let (kind, display_name, param_name) = (kind_of(&items[place]), param.kind.display_name(), shown(param));
    if param.kind != Kind::Tensors
        && let Err(error) = scalars::int(&items[place])
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
            "{name}(): argument '{param_name}'{} must be {display_name}, but found element of type {kind} at pos 0",
            at(position)
        ),
        _ => format!(
            "{name}(): argument '{param_name}' failed to unpack the object at pos {} with error \"type must be {display_name},but got {kind}\"",
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

/// `x.view(2, 3)`, `meshgrid(a, b)`: separate numbers or tensors that together are the last positional parameter, a
/// list of them.
#[inline]
fn variadic(schema: &Schema, call: &Call) -> PyResult<Option<(usize, Value<'static>)>> {
    let last = schema.positional.checked_sub(1).filter(|last| call.given() >= *last);
    let Some(last) = last.filter(|_| schema.takes_variadic(call.receiver.is_some())) else { return Ok(None) };
    let param = &schema.params[last];
    let value = match param.kind {
        Kind::Ints if call.given() == last => None,
        Kind::Tensors if !param.separate && call.keywords().next().is_some() && call.given() == last => None,
        Kind::Ints => read_variadic_ints(last, call).map(Value::Ints),
        Kind::Tensors => read_variadic_tensors(last, call).map(Value::Tensors),
        _ => None,
    };
    match value {
        None if param.separate => Err(not_separate(call)),
        value => Ok(value.map(|value| (last, value))),
    }
}

/// The error of a call with an argument that is not a tensor, a list for example.
#[cold]
fn not_separate(call: &Call) -> PyErr {
    let bad = call.positional().enumerate().find(|(_, object)| object::as_tensor(*object).is_none());
    let sentence = bad.map(|(place, object)| {
        format!("expected Tensor as element {place} in argument 0, but got {}", kind_of(&object))
    });
    PyTypeError::new_err(sentence.unwrap_or_default())
}

/// The index of the first such argument among the positional ones.
fn first_variadic(last: usize, call: &Call) -> Option<usize> {
    let first = last - usize::from(call.receiver.is_some() && last > 0);
    (first <= call.positional.len()).then_some(first)
}

fn read_variadic_tensors(last: usize, call: &Call) -> Option<Vec<Option<Tensor>>> {
    call.positional()
        .skip(first_variadic(last, call)?)
        .map(|object| Some(Some(object::as_tensor(object)?.clone())))
        .collect()
}

fn read_variadic_ints(last: usize, call: &Call) -> Option<Ints> {
    scalars::each_int(call.positional().skip(first_variadic(last, call)?).map(Borrowed::to_owned)).ok().flatten()
}

/// The error if no overload fits: what is wrong with the only one, or torch's list of several.
#[cold]
pub fn no_match<'a, 'py>(name: &str, overloads: &[Overload], call: &Call<'a, 'py>, last: BindError<'a, 'py>) -> PyErr {
    if let Some(sentence) = python::refusal(name, overloads, call) {
        return PyTypeError::new_err(sentence);
    }
    let mut fitting = overloads.iter().filter(|overload| overload.may_mean(call));
    let only = match (overloads, fitting.next(), fitting.next()) {
        ([overload], ..) => {
            let is_alone = overload.op.namespace == "nn.functional" || !overload.stands_for_several(call);
            is_alone.then_some((overload, last))
        }
        // If there are several, the one with the same number of arguments is used.
        (_, Some(overload), None) if !overload.stands_for_several(call) => {
            let mut args = Args { op: overload.op, values: Default::default() };
            Some((overload, bind(overload, call, &mut args, false).err().unwrap_or(last)))
        }
        _ => None,
    };
    if let Some((overload, mismatch)) = only {
        return mismatch.into_error(name, overload, call);
    }
    let got = call.positional().map(|object| kind_of(&object));
    let named = call.keywords().map(|(keyword, value)| format!("{}={}", &*keyword, kind_of(&value)));
    let mut sentence = errors::invalid_combination(name, got, named);
    for overload in overloads {
        let signature =
            overload.op.signature.split(") -> ").next().unwrap_or("").replace("Tensor self", "Tensor input");
        sentence.push_str(&format!("\n * {signature})"));
    }
    PyTypeError::new_err(sentence)
}

/// The tensors at `out=`: one, or a tuple or list of as many as there are results.
pub fn out_tensors<'a, 'py>(
    name: &str,
    object: &Bound<'py, PyAny>,
    returns: &Returns,
) -> Result<Vec<Tensor>, BindError<'a, 'py>> {
    let several = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    if several && *returns != Returns::Tensor {
        let outs: Vec<Tensor> =
            items_of(object).iter().map(|item| object::tensor(item).cloned()).collect::<PyResult<_>>()?;
        if let Returns::Named(names) = returns
            && outs.len() != names.len()
        {
            let (wanted, got) = (names.len(), outs.len());
            return Err(PyTypeError::new_err(format!("expected tuple of {wanted} elements but got {got}")).into());
        }
        return Ok(outs);
    }
    let display_name = if matches!(returns, Returns::Named(_) | Returns::List) { "tuple of Tensors" } else { "Tensor" };
    match object::tensor(object) {
        Ok(tensor) if display_name == "Tensor" => Ok(vec![tensor.clone()]),
        _ => Err(BindError::Out(PyTypeError::new_err(format!(
            "{name}(): argument 'out' must be {display_name}, not {}",
            kind_of(object)
        )))),
    }
}

pub mod python;
#[cfg(test)]
mod tests;
