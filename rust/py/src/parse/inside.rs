//! What happens inside a function that torch writes in Python when an argument has a wrong kind, if `_in_python.py` has no form
//! of the function, or its form leaves the refusal to the operator: an operation that the argument does not have, or an error of the operator that the function calls.

use pyo3::class::basic::CompareOp;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString, PyTuple};
use rushlight_dispatch::operator::Operator;
use rushlight_dispatch::signature::{Kind, Param};

use super::call::Overload;
use super::messages::{items_of, unpacking, wrong};
use super::signatures::{Expected, Signature};
use crate::errors::{self, kind_of};
use crate::{object, scalars};

/// The attribute that a function asks an argument for, before anything else uses it.
fn attribute(function: &str, param: &str) -> Option<&'static str> {
    Some(match (function, param) {
        ("softsign", "input") => "abs",
        ("tanhshrink", "input") => "tanh",
        ("glu", "input") => "dim",
        ("l1_loss" | "mse_loss", "input" | "target" | "weight") => "size",
        ("huber_loss", "input" | "target") => "size",
        _ => return None,
    })
}

/// The error of using an attribute: of asking for it, or of calling a method. An array's `size` is a number.
fn used(object: &Bound<'_, PyAny>, attribute: &str) -> Option<PyErr> {
    match object.getattr(attribute) {
        Ok(found) if matches!(attribute, "size" | "dim") => found.call0().err(),
        Ok(_) => None,
        Err(error) => Some(error),
    }
}

/// Python's sentence about the first operation that an argument does not have, with `_` for its kind.
fn operation(function: &str, param: &str) -> Option<&'static str> {
    Some(match (function, param) {
        ("softmin", "input") => "bad operand type for unary -: '_'",
        ("poisson_nll_loss" | "gaussian_nll_loss" | "multilabel_soft_margin_loss", "reduction") => {
            "unsupported operand type(s) for +: '_' and 'str'"
        }
        _ => return None,
    })
}

/// The operator that a function calls, if it has another name.
pub(super) fn inner<'n>(function: &'n str, param: &str) -> &'n str {
    match (function, param) {
        ("nll_loss", _) => "nll_loss_nd",
        ("cross_entropy", _) => "cross_entropy_loss",
        ("multilabel_soft_margin_loss", "input") => "log_sigmoid",
        ("softmin", "dim") => "softmax",
        ("unfold", _) => "im2col",
        ("fold", _) => "col2im",
        ("grid_sample", _) => "grid_sampler",
        (name, _) => name.strip_suffix("_with_indices").unwrap_or(name),
    }
}

/// The error of the operator to which `split` passes an argument at this position, one of several by the kinds of the other
/// arguments.
fn passed_on(signature: &Signature, param: &Expected, position: usize, object: &Bound<'_, PyAny>) -> Option<PyErr> {
    let has = |kind: Kind| signature.params.iter().any(|param| param.kind == kind && !param.keyword_only);
    let inner = "split_with_sizes";
    let (renamed, kind) = match param.name {
        "split_size" | "sections" => ("split_sizes", Kind::Ints),
        _ if has(Kind::Int) && !has(Kind::Ints) => {
            let kinds = ["Tensor".to_owned(), "int".to_owned(), kind_of(object)];
            let sentence = errors::invalid_combination("split", kinds.into_iter(), std::iter::empty());
            return Some(PyTypeError::new_err(sentence));
        }
        other => (other, param.kind),
    };
    let expected = Expected { name: renamed, kind, ..param.clone() };
    let items = items_of(object);
    if kind == Kind::Ints
        && items.first().is_some_and(|first| matches!(scalars::int(first), Ok(Some(_))))
        && let Some(sentence) = unpacking(inner, renamed, &items)
    {
        return Some(PyTypeError::new_err(sentence));
    }
    Some(PyTypeError::new_err(wrong(object, inner, &expected, Some(position))))
}

/// Whether sizes are a number or a list of full length: `adaptive_avg_pool2d(x, 3)` means `[3, 3]`, and `[3]` is an error. Other
/// functions take `[3]` for `3`.
pub(super) fn takes_pairs(op: &Operator) -> bool {
    let sized = op.python_name().starts_with("adaptive") && !op.python_name().contains("1d");
    op.namespace == "nn.functional" && (sized || matches!(op.python_name(), "fold" | "unfold"))
}

/// Whether a function written in Python asks such an argument for its length or items, which a number of another class than
/// `int` does not have.
pub(super) fn measures_length(overload: &Overload, param: &Param, object: &Bound<'_, PyAny>) -> bool {
    let asks = match overload.op.python_name() {
        "norm" => overload.op.namespace.is_empty() && param.name == "dim",
        "split" => matches!(param.name, "split_size" | "sections"),
        _ => overload.takes_pairs,
    };
    let is_known = || {
        object.is_none()
            || object.is_instance_of::<PyInt>()
            || object.is_instance_of::<PyTuple>()
            || object.is_instance_of::<PyList>()
            || overload.op.python_name() == "split" && object::is_tensor(object)
    };
    asks && matches!(param.kind, Kind::IntOrInts | Kind::Int | Kind::Ints) && !is_known()
}

pub(super) fn is_single_item(object: &Bound<'_, PyAny>) -> bool {
    items_of(object).len() == 1
}

/// Whether a function compares its words with others before an operator takes them: bytes are none of them. Operators take
/// bytes for text.
pub(super) fn compares_words(op: &Operator) -> bool {
    op.namespace == "nn.functional" && op.python_name() != "pad" || matches!(op.python_name(), "cdist" | "norm")
}

/// Whether a loss takes any object as a reduction, and refuses it when it looks at it. Three losses use it as text.
pub(super) fn takes_any_reduction(op: &Operator, param: &str) -> bool {
    op.namespace == "nn.functional" && param == "reduction" && operation(op.python_name(), param).is_none()
}

/// The text of a reduction of any kind in a sentence, after the comparison with the words.
pub(super) fn reduction_text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    object.rich_compare("none", CompareOp::Eq)?.is_truthy()?;
    object.call_method1("__format__", ("",))?.extract()
}

/// The error of a reduction that is none of the words, of a loss that looks at it before its other arguments.
pub(super) fn wrong_reduction(op: &Operator, given: &Bound<'_, PyAny>) -> Option<PyErr> {
    let name = op.python_name();
    let is_last = matches!(
        name,
        "mse_loss" | "l1_loss" | "smooth_l1_loss" | "huber_loss" | "gaussian_nll_loss" | "multilabel_soft_margin_loss"
    );
    let is_text = given.is_instance_of::<PyString>();
    if op.namespace != "nn.functional" || is_last || (!is_text && !takes_any_reduction(op, "reduction")) {
        return None;
    }
    let text = match reduction_text(given) {
        Ok(text) => text,
        Err(error) => return Some(error),
    };
    let is_word = is_text && matches!(text.as_str(), "none" | "mean" | "sum" | "elementwise_mean" | "batchmean");
    (!is_word).then(|| PyValueError::new_err(format!("{text} is not a valid value for reduction")))
}

/// torch's error for such a list of one item, as in `adaptive_avg_pool2d(x, [3])`.
pub(super) fn single_item(op: &Operator, param: &str) -> PyErr {
    let name = op.python_name();
    let (inner, dims) = (inner(name, param), if name.contains("3d") { 3 } else { 2 });
    PyRuntimeError::new_err(match name {
        "fold" | "unfold" => format!("It is expected {param} equals to 2, but got size 1"),
        name if name.contains("max") => format!("{inner}(): internal error: output_size.size() must be {dims}"),
        _ => format!("{inner}: output_size must be {dims}"),
    })
}

/// torch's error for an argument of a wrong kind at a place of a signature, if it is not that of the operator of the same
/// name.
pub(super) fn error(
    op: &Operator,
    signature: &Signature,
    place: usize,
    is_method: bool,
    with_indices: bool,
    flag: &dyn Fn(&str) -> Option<bool>,
    object: &Bound<'_, PyAny>,
) -> Option<PyErr> {
    let (name, kind, param) = (op.python_name(), kind_of(object), &signature.params[place]);
    if let Some(error) = attribute(name, param.name).and_then(|attribute| used(object, attribute)) {
        return Some(error);
    }
    if name == "split" {
        return passed_on(signature, param, place + 1 + usize::from(is_method), object);
    }
    if let Some(sentence) = operation(name, param.name) {
        if sentence.ends_with("'str'") && matches!(kind.as_str(), "list" | "tuple") {
            let sentence = format!("can only concatenate {kind} (not \"str\") to {kind}");
            return Some(PyTypeError::new_err(sentence));
        }
        if sentence.ends_with("'str'") && kind == "bytes" {
            return Some(PyTypeError::new_err("can't concat str to bytes"));
        }
        return Some(PyTypeError::new_err(sentence.replace('_', &kind)));
    }
    if (name, param.name) == ("cdist", "compute_mode") {
        let text = object.str().map(|text| text.to_string()).unwrap_or_default();
        return Some(PyValueError::new_err(format!(
            "{text} is not a valid value for compute_mode\n  It must be 'use_mm_for_euclid_dist_if_necessary', 'use_mm_for_euclid_dist' or 'donot_use_mm_for_euclid_dist'."
        )));
    }
    if matches!(name, "istft" | "cdist") {
        return Some(PyTypeError::new_err(wrong(object, name, param, Some(place + 1 + usize::from(is_method)))));
    }
    if op.namespace != "nn.functional" {
        return None;
    }
    // The function passes its arguments on by position, in an order that may be another one.
    let position = match (name, param.name) {
        ("softmin", "dim") => 1,
        ("batch_norm" | "instance_norm", "weight") => 2,
        ("batch_norm" | "instance_norm", "bias") => 3,
        ("batch_norm" | "instance_norm", "running_mean") => 4,
        ("batch_norm" | "instance_norm", "running_var") => 5,
        ("smooth_l1_loss", "beta") | ("binary_cross_entropy_with_logits", "pos_weight") => 4,
        ("cross_entropy", "label_smoothing") => 6,
        ("kl_div", "log_target") => return None,
        _ => place + 1,
    };
    let end = if with_indices { "_with_indices" } else { "" };
    let in_place = if flag("inplace") == Some(true) { "_" } else { "" };
    let inner = &format!("{}{end}{in_place}", inner(name, param.name));
    Some(PyTypeError::new_err(wrong(object, inner, param, Some(position))))
}
