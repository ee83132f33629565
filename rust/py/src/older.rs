//! Calls of torch's first years, in which a number stands before the tensor that it scales: `p.add_(-rate, grad)`.
//!
//! They are still understood, with torch's warning. What an older signature names by its place, today's names by keyword,
//! so such a call is put in today's order and tried again.

use pyo3::prelude::*;
use pyo3::types::PyString;
use rushlight::Row;
use smallvec::SmallVec;

use crate::convert;
use crate::errors::raise;
use crate::parse::Raw;

/// What stands at a place: a tensor, or the number that today has this keyword.
type Place = Option<&'static str>;

const TENSOR: Place = None;
const ALPHA: Place = Some("alpha");
const BETA: Place = Some("beta");
const VALUE: Place = Some("value");

/// The older orders of an operator's arguments, the receiver of a method left out.
fn orders(operator: &str, method: bool) -> &'static [&'static [Place]] {
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

/// A call in today's order.
pub struct Reordered<'py> {
    pub positional: SmallVec<[Raw; 8]>,
    /// What the numbers are called, and after them the numbers.
    pub keywords: SmallVec<[Bound<'py, PyString>; 2]>,
    pub values: SmallVec<[Raw; 2]>,
}

/// The call in today's order, if its arguments stand in an older one; that is told once.
///
/// # Safety
/// `positional` are living objects.
#[cold]
pub unsafe fn reordered<'py>(
    py: Python<'py>,
    row: &Row,
    name: &str,
    method: bool,
    positional: &[Raw],
) -> PyResult<Option<Reordered<'py>>> {
    let fitting = |order: &&&[Place]| order.len() == positional.len();
    let Some(order) = orders(row.python_name(), method).iter().find(fitting) else { return Ok(None) };
    let mut found = Reordered { positional: SmallVec::new(), keywords: SmallVec::new(), values: SmallVec::new() };
    for (place, raw) in order.iter().zip(positional) {
        match place {
            None => found.positional.push(*raw),
            Some(keyword) => {
                // SAFETY: by the caller's word.
                let object = unsafe { pyo3::Borrowed::from_ptr(py, *raw) };
                if convert::number(&object)?.is_none() {
                    return Ok(None);
                }
                found.keywords.push(PyString::intern(py, keyword));
                found.values.push(*raw);
            }
        }
    }
    rushlight::warn_once!(&deprecation(row, name, method, order)).map_err(raise)?;
    Ok(Some(found))
}

/// torch's sentence: the signature that was used, and today's.
fn deprecation(row: &Row, name: &str, method: bool, order: &[Place]) -> String {
    let params = &row.schema().params;
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
