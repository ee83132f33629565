//! The sentences of torch and CPython about arguments that do not fit.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight_dispatch::signature::{Kind, Param};

use super::call::shown;
use crate::errors::kind_of;
use crate::{object, scalars};

/// torch's message for a parameter that gets two values.
pub(super) fn twice(name: &str, param: &str) -> String {
    format!("{name}() got multiple values for argument '{param}'")
}

/// torch's message for a keyword that is not a parameter.
pub(super) fn unexpected(name: &str, keyword: &str) -> String {
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
pub(super) fn takes_no_keywords(name: &str) -> String {
    format!("TensorBase.{name}() takes no keyword arguments")
}

/// Whether an object is a list or tuple of integers.
pub(super) fn is_list_of_ints(object: &Bound<'_, PyAny>) -> bool {
    let is_list = object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>();
    is_list && items_of(object).iter().all(|item| matches!(scalars::int(item), Ok(Some(_))))
}

/// The sentence of torch and CPython about more arguments than a function takes, of which it needs some.
pub(super) fn takes_fewer(name: &str, needed: usize, takes: usize, given: usize) -> String {
    let were = if given == 1 && needed == takes { "was" } else { "were" };
    let takes = match takes {
        _ if needed != takes => format!("from {needed} to {takes} positional arguments"),
        1 => "1 positional argument".to_owned(),
        _ => format!("{takes} positional arguments"),
    };
    format!("{name}() takes {takes} but {given} {were} given")
}

/// The items of a tuple or list; empty for other objects.
pub(super) fn items_of<'py>(object: &Bound<'py, PyAny>) -> Vec<Bound<'py, PyAny>> {
    match object.cast::<PyTuple>() {
        Ok(tuple) => tuple.iter().collect(),
        Err(_) => object.cast::<PyList>().map(|list| list.iter().collect()).unwrap_or_default(),
    }
}

/// Describes the fault of an argument; `position` counts from one, as in torch, and is `None` for a keyword.
pub(super) fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Param, position: Option<usize>) -> PyResult<String> {
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
pub(super) fn wrong_item(
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

pub(super) fn at(position: Option<usize>) -> String {
    position.map_or_else(String::new, |position| format!(" (position {position})"))
}
