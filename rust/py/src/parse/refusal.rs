//! Why torch refuses a call: it tries its signatures one after the other, and then looks for the one that was meant.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rushlight_dispatch::signature::Kind;

use super::call::{Call, Overload, synonyms};
use super::inside;
use super::messages::{
    items_of, missing, takes_fewer, takes_no_keywords, takes_none, twice, unexpected, unpacking, wrong,
};
use super::signatures::{Expected, Signature, Signatures};
use crate::errors::kind_of;
use crate::hash_order::in_hash_order;
use crate::{convert, dtype, errors, object, scalars};

/// Why arguments do not fit a signature.
enum Misfit<'py> {
    TooMany,
    Missing(usize),
    /// An argument of the wrong kind, and its position if it has one.
    Wrong(usize, Bound<'py, PyAny>, Option<usize>),
    /// Keywords that no parameter takes.
    Surplus,
    /// An error that ends the search.
    Raised(PyErr),
}

/// The error of a call that no overload takes.
#[cold]
pub fn refusal(name: &str, signatures: &Signatures, call: &Call) -> PyErr {
    let listed = &signatures.listed;
    if let [only] = &listed[..]
        && !signatures.has_deprecated
    {
        return match fit(only, call) {
            Err(misfit) => only.sentence(misfit, name, call),
            Ok(read) => unread(name, &read).unwrap_or_else(|| invalid(name, signatures, call)),
        };
    }
    for signature in listed {
        match fit(signature, call) {
            Ok(read) => return unread(name, &read).unwrap_or_else(|| invalid(name, signatures, call)),
            Err(Misfit::Raised(error)) => return error,
            Err(_) => {}
        }
    }
    let given = call.positional.len() + call.values.len();
    let mut meant = listed.iter().filter(|one| (one.needed()..=one.params.len()).contains(&given));
    if let (Some(only), None) = (meant.next(), meant.next())
        && let Err(misfit) = fit(only, call)
    {
        return only.sentence(misfit, name, call);
    }
    invalid(name, signatures, call)
}

/// Functions with several signatures of torch's that one signature covers here: a call has to fit one of torch's.
const COVERED: &[&str] = &["hamming_window", "embedding_bag", "matrix_rank", "pinv"];

/// Whether a call that is bound fits none of torch's signatures.
pub fn fits_none<'s>(overload: &Overload, signatures: impl FnOnce() -> &'s Signatures, call: &Call) -> bool {
    let (name, namespace) = (overload.op.python_name(), overload.op.namespace);
    COVERED.contains(&name) && namespace != "nn.functional" && check_call(name, signatures(), call).is_err()
}

/// Whether some signature takes the arguments of a call; the error if none does.
pub(super) fn check_call(name: &str, signatures: &Signatures, call: &Call) -> PyResult<()> {
    let fitting = signatures.listed.iter().find_map(|signature| fit(signature, call).ok());
    match fitting {
        Some(read) => unread(name, &read).map_or(Ok(()), Err),
        None => Err(refusal(name, signatures, call)),
    }
}

/// The first argument of a wrong kind, and the place of its parameter.
pub(super) fn first_wrong<'py>(signature: &Signature, call: &Call<'_, 'py>) -> Option<(usize, Bound<'py, PyAny>)> {
    match fit(signature, call) {
        Err(Misfit::Wrong(place, object, _)) => Some((place, object)),
        _ => None,
    }
}

type Read<'s, 'py> = Vec<(&'s Expected, Bound<'py, PyAny>)>;

/// Assigns the arguments to the parameters of a signature, in its order.
fn fit<'s, 'py>(signature: &'s Signature, call: &Call<'_, 'py>) -> Result<Read<'s, 'py>, Misfit<'py>> {
    let positional: Vec<Bound<'py, PyAny>> = call.positional().map(|object| object.to_owned()).collect();
    let (given, takes) = (positional.len(), signature.positional());
    let takes_separate =
        takes == 1 && signature.params.first().is_some_and(|param| param.kind == Kind::Ints && !param.allows_none);
    if given > takes && !takes_separate {
        return Err(Misfit::TooMany);
    }
    let (mut at, mut named) = (0, 0);
    let mut read = Vec::new();
    for (place, param) in signature.params.iter().enumerate() {
        let (object, position) = if at < given {
            if param.keyword_only {
                return Err(Misfit::TooMany);
            }
            (Some(positional[at].clone()), Some(at + 1))
        } else {
            (by_name(param, call), None)
        };
        let Some(object) = object else {
            if param.default.is_none() {
                return Err(Misfit::Missing(place));
            }
            continue;
        };
        if position.is_none() {
            named += 1;
        }
        match check(param, &object, place) {
            _ if object.is_none() && param.allows_none => {}
            Err(error) => return Err(Misfit::Raised(error)),
            Ok(true) => read.push((param, object)),
            Ok(false) if takes_separate && at == 0 && position.is_some() && !is_list(&object) => {
                if !is_first_int(&positional) {
                    return Err(if given > takes { Misfit::TooMany } else { Misfit::Wrong(place, object, position) });
                }
                let all = PyTuple::new(call.py, &positional).map_err(Misfit::Raised)?.into_any();
                read.push((param, all));
                at = given;
                continue;
            }
            Ok(false) if given > takes => return Err(Misfit::TooMany),
            Ok(false) => return Err(Misfit::Wrong(place, object, position)),
        }
        at += usize::from(position.is_some());
    }
    match (at < given, named < call.values.len()) {
        (true, _) => Err(Misfit::TooMany),
        (false, true) => Err(Misfit::Surplus),
        (false, false) => Ok(read),
    }
}

fn is_list(object: &Bound<'_, PyAny>) -> bool {
    object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>()
}

/// The argument with the name of a parameter, or with one of torch's synonyms.
fn by_name<'py>(param: &Expected, call: &Call<'_, 'py>) -> Option<Bound<'py, PyAny>> {
    let named = |name: &str| call.keywords().find(|(keyword, _)| keyword.to_str().is_ok_and(|text| text == name));
    let found = named(param.name).or_else(|| synonyms(param.name).iter().find_map(|name| named(name)));
    found.map(|(_, value)| value.to_owned())
}

/// Whether torch's parser takes an object for a parameter; of a list of ints it looks at the first item alone.
fn check(param: &Expected, object: &Bound<'_, PyAny>, place: usize) -> PyResult<bool> {
    Ok(match param.kind {
        Kind::Ints | Kind::IntOrInts if is_list(object) => is_first_int(&items_of(object)),
        Kind::IntOrInts => !matches!(scalars::int(object), Ok(None)),
        Kind::Ints => false,
        Kind::Object => true,
        Kind::Scalars => is_list(object) && are_numbers(&items_of(object))?,
        Kind::DType if dtype::extract_dtype(object).is_some() || dtype::extract_quantized(object).is_some() => true,
        Kind::DType => dtype::refused_dtype(object).map_or(Ok(false), Err)?,
        Kind::Tensors if is_list(object) => {
            let items = items_of(object);
            let bad = items.iter().position(|item| !object::is_tensor(item) && !item.is_none());
            if let Some(bad) = bad {
                let kind = kind_of(&items[bad]);
                let sentence = format!("expected Tensor as element {bad} in argument {place}, but got {kind}");
                return Err(PyTypeError::new_err(sentence));
            }
            true
        }
        kind => !matches!(convert::value(object.as_borrowed(), kind, false), Ok(None)),
    })
}

fn are_numbers(items: &[Bound<'_, PyAny>]) -> PyResult<bool> {
    for item in items {
        if convert::scalar(item)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_first_int(items: &[Bound<'_, PyAny>]) -> bool {
    items.first().is_none_or(|first| !matches!(scalars::int(first), Ok(None)))
}

/// The error of arguments that fit a signature but have no value: an int of too many bits, or an item of a list.
fn unread(name: &str, read: &Read) -> Option<PyErr> {
    read.iter().find_map(|(param, object)| match param.kind {
        Kind::Ints | Kind::IntOrInts if is_list(object) => {
            unpacking(inside::inner(name, param.name), param.name, &items_of(object)).map(PyTypeError::new_err)
        }
        Kind::DType | Kind::Scalars | Kind::Object => None,
        kind => convert::value(object.as_borrowed(), kind, false).err(),
    })
}

/// torch's sentence about arguments that fit none of its signatures.
fn invalid(name: &str, signatures: &Signatures, call: &Call) -> PyErr {
    let positional: Vec<String> = call.positional().map(|object| kind_of(&object)).collect();
    let keywords: Vec<String> = call.keywords().map(|(keyword, _)| keyword.to_string()).collect();
    if let [only] = &signatures.listed[..] {
        let text = only.text();
        let parts: Vec<&str> = text.split(", ").collect();
        let known: Vec<&str> = parts.iter().map(|part| part.rsplit(' ').next().unwrap_or(part)).collect();
        let last = &known[known.len().saturating_sub(keywords.len())..];
        let unknown: Vec<String> =
            in_hash_order(keywords).into_iter().filter(|name| !last.contains(&name.as_str())).collect();
        let got = if !unknown.is_empty() {
            format!("unrecognized keyword arguments: {}", unknown.join(", "))
        } else if positional.len() == parts.len() {
            let marked = positional.iter().zip(&parts).map(|(kind, part)| {
                if part.rsplit_once(' ').is_some_and(|(wanted, _)| wanted == kind) {
                    kind.clone()
                } else {
                    format!("!{kind}!")
                }
            });
            format!("({}), but expected ({text})", marked.collect::<Vec<_>>().join(", "))
        } else {
            let named = call.keywords().map(|(keyword, value)| format!("{}={}", &*keyword, kind_of(&value)));
            let got = errors::listed(positional.into_iter(), named);
            format!("({got}), but expected ({text})")
        };
        return PyTypeError::new_err(format!("{name}() received an invalid combination of arguments - got {got}"));
    }
    let named = call.keywords().map(|(keyword, value)| format!("{}={}", &*keyword, kind_of(&value)));
    let mut sentence = errors::invalid_combination(name, positional.into_iter(), named);
    for signature in &signatures.listed {
        sentence.push_str(&format!("\n * ({})", signature.text()));
    }
    PyTypeError::new_err(sentence)
}

impl Signature {
    /// torch's sentence about arguments that do not fit this signature, which was meant.
    fn sentence(&self, misfit: Misfit, name: &str, call: &Call) -> PyErr {
        let given = call.positional.len();
        let is_method = call.receiver.is_some();
        PyTypeError::new_err(match misfit {
            Misfit::Raised(error) => return error,
            _ if is_method && self.params.is_empty() && !call.values.is_empty() => takes_no_keywords(name),
            Misfit::TooMany if is_method && self.params.is_empty() => takes_none(name, given),
            Misfit::TooMany => takes_fewer(name, self.needed(), self.positional(), given),
            Misfit::Missing(first) => {
                let lacking = self.params[first..].iter().filter(|param| param.default.is_none());
                missing(name, &lacking.map(|param| param.name).collect::<Vec<_>>())
            }
            Misfit::Wrong(place, object, position) => wrong(&object, name, &self.params[place], position),
            Misfit::Surplus => {
                let place = |keyword: &str| self.params.iter().position(|param| param.name == keyword);
                let bad = call.keywords().find_map(|(keyword, _)| {
                    let keyword = keyword.to_string();
                    match place(&keyword) {
                        None => {
                            let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
                            Some(format!("{}\nIts arguments are: {}.", unexpected(name, &keyword), known.join(", ")))
                        }
                        Some(place) => (place < given).then(|| twice(name, &keyword)),
                    }
                });
                bad.unwrap_or_else(|| format!("{name}(): invalid keyword arguments"))
            }
        })
    }
}
