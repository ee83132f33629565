//! Binds the arguments of a call to a signature: positional ones first, then keywords, by the address of their interned
//! name or else by their text and torch's synonyms. `call` has both sides of a call. If nothing fits, `refusal` finds
//! torch's error with torch's `signatures` and the sentences of `messages`, and `written_in_python` what CPython says about calls of
//! functions that torch writes in Python, and `inside` what happens inside of these. `compiled` checks the arguments of functions that are written in Python here alone.

use std::ffi::CStr;

use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use rushlight::Tensor;
use rushlight_dispatch::backcompat;
use rushlight_dispatch::backcompat::OmittedArguments;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::signature::{Kind, Param, Returns};
use rushlight_dispatch::value::{Ints, Value};
use smallvec::SmallVec;

use crate::errors::raise;
use crate::{convert, object, scalars};

mod call;
pub mod compiled;
mod inside;
mod messages;
mod refusal;
mod signatures;
pub mod written_in_python;

pub use call::{Call, Overload, Raw};
use call::{Object, says, shown};
use messages::{items_of, takes_fewer, twice, unexpected, unpacking};
pub use messages::{missing, takes_none};
pub use refusal::fits_none;
use refusal::refusal;
pub use signatures::Signatures;

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

/// An overload of a name of torch's. `method_in_python` is given if torch writes it in Python, as a method or a function.
pub fn overload(
    op: &'static Operator,
    params: &[Param],
    takes_out: bool,
    with_dim: bool,
    method_in_python: Option<bool>,
) -> Overload {
    let (takes_pairs, needs_tensor) = (inside::takes_pairs(op), signatures::needs_tensor(op, params));
    let compares_words = method_in_python.is_some() && inside::compares_words(op);
    let overload = Overload::new(op, params, takes_out, with_dim).refusing(takes_pairs, needs_tensor, compares_words);
    match method_in_python {
        Some(is_method) => overload.in_python(is_method),
        None => overload,
    }
}

/// Why a call was not bound to an overload.
pub enum BindError {
    /// The arguments fit another one, or none.
    Mismatch,
    Raised(PyErr),
}

impl From<PyErr> for BindError {
    fn from(error: PyErr) -> Self {
        BindError::Raised(error)
    }
}

/// Binds a call to an overload: fills `args`, which must be empty, and returns the value of `out=`.
pub fn bind<'a, 'py>(
    overload: &Overload,
    call: &Call<'a, 'py>,
    args: &mut Args<'a>,
) -> Result<Option<Object<'a, 'py>>, BindError> {
    let schema = overload.op.schema();
    let given = call.given();
    let variadic = variadic(overload, call)?;
    if given > overload.positional() && variadic.is_none() {
        return Err(BindError::Mismatch);
    }
    let (places, out) = places_of_keywords(overload, call)?;
    let is_left_out = |place: usize| place >= given && !places.contains(&place);
    if signatures::skips(overload.op, overload.positional(), is_left_out) {
        return Err(BindError::Mismatch);
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
                return Err(BindError::Mismatch);
            }
            args.values.push(param.default_value());
            continue;
        };
        match value_of(overload, param, object)? {
            Read::Value(value) => args.values.push(value),
            Read::TooWide(error) => {
                too_wide.get_or_insert(error);
                args.values.push(Value::None);
            }
        }
    }
    if overload.needs_tensor && args.values.iter().all(|value| value.as_tensor().is_none()) {
        return Err(BindError::Mismatch);
    }
    let is_named = |name: &CStr| call.keywords().any(|(keyword, _)| says(keyword, name));
    if signatures::is_misnamed(args, is_named)
        || signatures::is_mixed(args)
        || out.is_some() && signatures::lacks_out(args)
    {
        return Err(BindError::Mismatch);
    }
    if let Some(error) = too_wide {
        if let Some(out) = out {
            out_tensors(&out, &schema.returns)?;
        }
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

/// The index of each keyword's parameter, and the value of `out=`.
#[inline]
fn places_of_keywords<'a, 'py>(
    overload: &Overload,
    call: &Call<'a, 'py>,
) -> Result<(SmallVec<[usize; 8]>, Option<Object<'a, 'py>>), BindError> {
    let (given, params) = (call.given(), &overload.op.schema().params);
    let (mut places, mut out) = (SmallVec::<[usize; 8]>::new(), None);
    for (keyword, value) in call.keywords() {
        // A method's object has no name.
        match overload.place(keyword).filter(|place| *place > 0 || call.receiver.is_none()) {
            Some(place) if places.contains(&place) || (place < given && !params[place].keyword_only) => {
                return Err(BindError::Mismatch);
            }
            Some(place) => places.push(place),
            None if overload.takes_out && says(keyword, c"out") => {
                out = Some(value).filter(|value| !value.is_none());
                places.push(usize::MAX);
            }
            None => return Err(BindError::Mismatch),
        }
    }
    Ok((places, out))
}

/// An argument that fits its parameter.
enum Read<'a> {
    Value(Value<'a>),
    /// It does, but for an int of too many bits.
    TooWide(PyErr),
}

/// Reads an argument as a value of its parameter.
#[inline]
fn value_of<'a>(overload: &Overload, param: &Param, object: Object<'a, '_>) -> Result<Read<'a>, BindError> {
    if overload.compares_words && param.kind == Kind::Str && !object.is_instance_of::<PyString>() {
        // Anything may be a reduction until the function looks at it, after the shapes.
        if inside::takes_any_reduction(overload.op, param.name) {
            return Ok(Read::Value(Value::Text(inside::reduction_text(&object)?.into())));
        }
        if object.is_instance_of::<PyBytes>() {
            return Err(BindError::Mismatch);
        }
    }
    if inside::measures_length(overload, param, &object) {
        return Err(BindError::Mismatch);
    }
    match convert::value(object, param.kind, param.optional || param.default == Some("None")) {
        Ok(Some(_)) if overload.takes_pairs && param.kind == Kind::IntOrInts && inside::is_single_item(&object) => {
            Err(BindError::Raised(inside::single_item(overload.op, shown(param))))
        }
        Ok(Some(value)) => Ok(Read::Value(value)),
        Ok(None) => Err(BindError::Mismatch),
        Err(error) => Ok(Read::TooWide(too_wide_for(overload, param, &object).unwrap_or(error))),
    }
}

/// torch's error for a list with an int of too many bits; it names the function that the list is passed to.
#[cold]
fn too_wide_for(overload: &Overload, param: &Param, object: &Bound<'_, PyAny>) -> Option<PyErr> {
    let flat_name = overload.op.flat_name();
    let name = if overload.in_python { inside::inner(&flat_name, param.name) } else { &flat_name };
    if flat_name == "split" && param.kind == Kind::Ints {
        return unpacking("split_with_sizes", "split_sizes", &items_of(object)).map(PyTypeError::new_err);
    }
    let becomes_list = name == "linalg_vector_norm" || overload.takes_pairs && !name.starts_with("adaptive");
    let items = match items_of(object) {
        items if items.is_empty() && becomes_list => vec![object.clone()],
        items => items,
    };
    let is_list = becomes_list || matches!(param.kind, Kind::Ints | Kind::IntOrInts);
    is_list.then(|| unpacking(name, shown(param), &items)).flatten().map(PyTypeError::new_err)
}

/// `x.view(2, 3)`, `meshgrid(a, b)`: separate numbers or tensors that together are the last positional parameter, a
/// list of them.
#[inline]
fn variadic(overload: &Overload, call: &Call) -> Result<Option<(usize, Value<'static>)>, BindError> {
    let schema = overload.op.schema();
    let last = schema.positional.checked_sub(1).filter(|last| call.given() >= *last);
    let Some(last) = last.filter(|_| schema.takes_variadic(call.receiver.is_some())) else { return Ok(None) };
    let param = &schema.params[last];
    let value = match param.kind {
        Kind::Ints if call.given() == last => None,
        // Python's `*tensors` has no name, so that it is empty here.
        Kind::Tensors
            if !overload.in_python && !param.separate && call.keywords().next().is_some() && call.given() == last =>
        {
            None
        }
        Kind::Ints => read_variadic_ints(last, call).map(Value::Ints),
        Kind::Tensors => read_variadic_tensors(last, call).map(Value::Tensors),
        _ => None,
    };
    match value {
        None if param.separate => Err(BindError::Mismatch),
        value => Ok(value.map(|value| (last, value))),
    }
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

/// The error if no overload fits.
#[cold]
pub fn no_match(name: &str, overloads: &[Overload], signatures: &Signatures, call: &Call) -> PyErr {
    written_in_python::refusal(name, overloads, signatures, call).unwrap_or_else(|| refusal(name, signatures, call))
}

/// The tensors at `out=`: one, or a tuple or list of as many as there are results.
pub fn out_tensors(object: &Bound<'_, PyAny>, returns: &Returns) -> Result<Vec<Tensor>, BindError> {
    let several = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    if several && *returns != Returns::Tensor {
        let outs: Option<Vec<Tensor>> =
            items_of(object).iter().map(|item| object::as_tensor(item.as_borrowed()).cloned()).collect();
        let outs = outs.ok_or(BindError::Mismatch)?;
        if let Returns::Named(names) = returns
            && outs.len() != names.len()
        {
            let (wanted, got) = (names.len(), outs.len());
            return Err(PyTypeError::new_err(format!("expected tuple of {wanted} elements but got {got}")).into());
        }
        return Ok(outs);
    }
    match object::as_tensor(object.as_borrowed()) {
        Some(tensor) if !matches!(returns, Returns::Named(_) | Returns::List) => Ok(vec![tensor.clone()]),
        _ => Err(BindError::Mismatch),
    }
}

#[cfg(test)]
mod tests;
