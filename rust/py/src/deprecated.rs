//! torch's deprecated signatures, in which a number precedes the tensor that it scales: `p.add_(-rate, grad)`.
//!
//! They are still accepted, with torch's warning. Arguments that are positional in a deprecated signature are keywords
//! in the present one, so such a call is reordered and tried again.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::warn_once;
use smallvec::SmallVec;

use crate::errors::raise;
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
    let py = call.py;
    let fitting = |order: &&&[OldArgument]| order.len() == call.positional.len();
    let Some(order) = orders(op.python_name(), method).iter().find(fitting) else { return Ok(None) };
    let (mut positional, mut names, mut values) = (SmallVec::new(), Vec::new(), SmallVec::new());
    for (place, object) in order.iter().zip(call.positional()) {
        match place {
            None => positional.push(object.as_ptr()),
            Some(keyword) => {
                if scalars::number(&object)?.is_none() {
                    return Ok(None);
                }
                names.push(PyString::intern(py, keyword));
                values.push(object.as_ptr());
            }
        }
    }
    for (keyword, value) in call.keywords() {
        names.push(keyword.to_owned());
        values.push(value.as_ptr());
    }
    warn_once!(&deprecation(op, name, method, order)).map_err(raise)?;
    Ok(Some(Reordered { positional, names: PyTuple::new(py, names)?, values }))
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
