//! torch's deprecated signatures, in which a number precedes the tensor that it scales: `p.add_(-rate, grad)`.
//!
//! They are still accepted, with torch's warning. Arguments that are positional in a deprecated signature are keywords
//! in the present one, so such a call is reordered and tried again.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::signature::Kind;
use rushlight_dispatch::warn_once;
use smallvec::SmallVec;

use crate::errors::raise;
use crate::object;
use crate::parse::{Call, Raw};
use crate::scalars;

/// An argument of a deprecated signature: a tensor, or a number with its present keyword.
type OldArgument = Option<&'static str>;

const TENSOR: OldArgument = None;
const ALPHA: OldArgument = Some("alpha");
const BETA: OldArgument = Some("beta");
const VALUE: OldArgument = Some("value");

/// The deprecated orders of an operator's arguments, without a method's receiver.
fn orders(operator: &str, method: bool) -> &'static [&'static [OldArgument]] {
    match (operator, method) {
        ("add" | "sub", true) => &[&[ALPHA, TENSOR]],
        ("add" | "sub", false) => &[&[TENSOR, ALPHA, TENSOR]],
        ("addcmul" | "addcdiv", true) => &[&[VALUE, TENSOR, TENSOR]],
        ("addcmul" | "addcdiv", false) => &[&[TENSOR, VALUE, TENSOR, TENSOR]],
        ("addmm" | "addmv" | "addr" | "addbmm" | "baddbmm", true) => {
            &[&[BETA, TENSOR, TENSOR], &[BETA, ALPHA, TENSOR, TENSOR]]
        }
        ("addmm" | "addmv" | "addr" | "addbmm" | "baddbmm", false) => {
            &[&[BETA, TENSOR, TENSOR, TENSOR], &[BETA, TENSOR, ALPHA, TENSOR, TENSOR]]
        }
        _ => &[],
    }
}

/// A call in the present order.
pub struct Reordered<'py> {
    pub positional: SmallVec<[Raw; 8]>,
    pub names: Bound<'py, PyTuple>,
    pub values: SmallVec<[Raw; 8]>,
}

/// The call in the present order, if its arguments are in a deprecated one; warns once.
#[cold]
pub fn reordered<'py>(
    op: &Operator,
    name: &str,
    method: bool,
    call: &Call<'_, 'py>,
) -> PyResult<Option<Reordered<'py>>> {
    for order in orders(op.python_name(), method) {
        if fits(order, op, method, call) {
            warn_once!(&deprecation(op, name, method, order)).map_err(raise)?;
            return moved(order, call).map(Some);
        }
    }
    Ok(None)
}

/// Whether each argument of an order is given, at its position or by its keyword, and those for numbers are numbers.
fn fits(order: &[OldArgument], op: &Operator, method: bool, call: &Call<'_, '_>) -> bool {
    let given: Vec<_> = call.positional().collect();
    if given.len() > order.len() {
        return false;
    }
    let mut tensors = op.schema().params.iter().filter(|param| !param.keyword_only).skip(usize::from(method));
    for (at, place) in order.iter().enumerate() {
        let param = if place.is_none() { tensors.next() } else { None };
        let keyword = match (place, param) {
            (Some(keyword), _) => keyword,
            (None, Some(param)) if param.name != "self" => param.name,
            _ => "input",
        };
        let named = call.keywords().find(|(name, _)| name.to_str().is_ok_and(|name| name == keyword));
        let object = match (given.get(at), named) {
            (Some(object), None) => *object,
            (None, Some((_, value))) => value,
            _ => return false,
        };
        let fits = match param {
            Some(param) => param.kind != Kind::Tensor || object::is_tensor(&object),
            None => is_number(&object),
        };
        if !fits {
            return false;
        }
    }
    true
}

/// Whether an object is a number, or a tensor that may stand for one.
fn is_number(object: &Bound<'_, PyAny>) -> bool {
    match object::as_tensor(object.as_borrowed()) {
        Some(tensor) => tensor.rank() == 0 && !tensor.requires_grad(),
        None => matches!(scalars::number(object), Ok(Some(_))),
    }
}

fn moved<'py>(order: &[OldArgument], call: &Call<'_, 'py>) -> PyResult<Reordered<'py>> {
    let py = call.py;
    let (mut positional, mut names, mut values) = (SmallVec::new(), Vec::new(), SmallVec::new());
    for (place, object) in order.iter().zip(call.positional()) {
        match place {
            None => positional.push(object.as_ptr()),
            Some(keyword) => {
                names.push(PyString::intern(py, keyword));
                values.push(object.as_ptr());
            }
        }
    }
    for (keyword, value) in call.keywords() {
        names.push(keyword.to_owned());
        values.push(value.as_ptr());
    }
    Ok(Reordered { positional, names: PyTuple::new(py, names)?, values })
}

/// torch's sentence: the signature that was used, and the present one.
fn deprecation(op: &Operator, name: &str, method: bool, order: &[OldArgument]) -> String {
    let params = &op.schema().params;
    let tensors = || {
        let positional = params.iter().filter(|param| !param.keyword_only).skip(usize::from(method));
        positional
            .map(|param| if param.name == "self" { "Tensor input".into() } else { format!("Tensor {}", param.name) })
    };
    let mut left = tensors();
    let older: Vec<String> = order
        .iter()
        .map(|place| place.map_or_else(|| left.next().unwrap_or_default(), |keyword| format!("Number {keyword}")))
        .collect();
    let numbers = params.iter().filter(|param| param.keyword_only).map(|param| format!("Number {} = 1", param.name));
    let today: Vec<String> = tensors().chain(["*".into()]).chain(numbers).collect();
    let (out, only_out) = if method { ("", "") } else { (", Tensor out = None", ", *, Tensor out = None") };
    format!(
        "This overload of {name} is deprecated:\n\t{name}({}{only_out})\nConsider using one of the following signatures instead:\n\t{name}({}{out})",
        older.join(", "),
        today.join(", "),
    )
}
