//! The sentences of torch and CPython about arguments that do not fit.

use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight_dispatch::signature::Kind;

use super::signatures::Expected;
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
pub(super) fn wrong(object: &Bound<'_, PyAny>, name: &str, param: &Expected, position: Option<usize>) -> String {
    if position.is_some()
        && let Some(sentence) = wrong_item(&items_of(object), name, param, position)
    {
        return sentence;
    }
    let (kind, display_name) = (kind_of(object), param.kind.display_name());
    format!("{name}(): argument '{}'{} must be {display_name}, not {kind}", param.name, at(position))
}

/// Describes the fault of the first bad item of a list.
pub(super) fn wrong_item(
    items: &[Bound<'_, PyAny>],
    name: &str,
    param: &Expected,
    position: Option<usize>,
) -> Option<String> {
    match param.kind {
        Kind::Tensors => {
            let place = items.iter().position(|item| !object::is_tensor(item))?;
            let (kind, argument) = (kind_of(&items[place]), position.unwrap_or(1) - 1);
            Some(format!("expected Tensor as element {place} in argument {argument}, but got {kind}"))
        }
        Kind::Ints | Kind::IntOrInts if matches!(scalars::int(items.first()?), Ok(None)) => Some(format!(
            "{name}(): argument '{}'{} must be {}, but found element of type {} at pos 0",
            param.name,
            at(position),
            param.kind.display_name(),
            kind_of(&items[0])
        )),
        Kind::Floats => {
            let is_real = |item| matches!(scalars::number(item), Ok(Some(number)) if !number.is_complex());
            let place = items.iter().position(|item| !is_real(item))?;
            Some(format!(
                "{name}(): argument '{}'{} must be {}, but found element of type {} at pos {}",
                param.name,
                at(position),
                param.kind.display_name(),
                kind_of(&items[place]),
                place + 1
            ))
        }
        _ => None,
    }
}

/// Describes the first item of a list of ints that is none, or has too many bits; torch looks at them last.
pub(super) fn unpacking(name: &str, param: &str, items: &[Bound<'_, PyAny>]) -> Option<String> {
    let (place, error) = items.iter().enumerate().find_map(|(place, item)| {
        let error = match scalars::index(item) {
            Ok(Some(_)) => return None,
            Ok(None) => format!("type must be tuple of ints,but got {}\"", kind_of(item)),
            Err(error) => error.value(item.py()).to_string(),
        };
        Some((place, error))
    })?;
    Some(format!("{name}(): argument '{param}' failed to unpack the object at pos {} with error \"{error}", place + 1))
}

pub(super) fn at(position: Option<usize>) -> String {
    position.map_or_else(String::new, |position| format!(" (position {position})"))
}
