//! Binds the arguments of a call to a signature: positional ones first, then keywords, by the address of their interned
//! name or else by their text and torch's synonyms. `call` has both sides of a call, `messages` the sentences about
//! arguments that do not fit, `python` what CPython says about calls of functions that torch
//! writes in Python.

use std::ffi::CString;

use pyo3::Borrowed;
use pyo3::exceptions::{PyAttributeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use rushlight::Tensor;
use rushlight_dispatch::backcompat;
use rushlight_dispatch::backcompat::OmittedArguments;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::signature::{Kind, Param, Returns, Schema};
use rushlight_dispatch::value::{Ints, Value};
use smallvec::SmallVec;

use crate::errors::{kind_of, raise};
use crate::{convert, errors, object, scalars};

mod call;
mod messages;
pub mod python;

pub use call::{Call, Overload, Raw};
use call::{Object, says, shown};
use messages::{is_list_of_ints, items_of, takes_fewer, takes_no_keywords, twice, unexpected, wrong, wrong_item};
pub use messages::{missing, takes_none};

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

#[cfg(test)]
mod tests;
