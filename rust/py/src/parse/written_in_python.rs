//! The functions that torch writes in Python. CPython checks their arguments before the function sees them: first the
//! keywords, then the number of positional arguments, then what is missing.

use std::cmp::Reverse;

use pyo3::Borrowed;
use pyo3::exceptions::{PyLookupError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use rushlight_dispatch::signature::Kind;

use super::call::{Call, Object, Overload, Raw, says};
use super::inside;
use super::messages::{items_of, takes_fewer, twice, unexpected, wrong_item};
use super::refusal::first_wrong;
use super::signatures::{Expected, Signature, Signatures};
use crate::errors::{self, kind_of};
use crate::object;

/// The functions of `torch.nn.functional` that are not written in Python.
const COMPILED: &[&str] = &[
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "bilinear",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_similarity",
    "elu_",
    "gelu",
    "hardshrink",
    "hardtanh_",
    "leaky_relu_",
    "linear",
    "logsigmoid",
    "native_channel_shuffle",
    "one_hot",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu_",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu_",
    "softplus",
    "softshrink",
    "threshold_",
];
/// The functions of `torch` that are, in torch's module `functional`.
const FUNCTIONS: &[&str] = &[
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "chain_matmul",
    "einsum",
    "lu",
    "meshgrid",
    "norm",
    "split",
    "stft",
    "tensordot",
    "unique",
    "unique_consecutive",
    "unravel_index",
];
/// The methods that are, and that ask for overrides.
const METHODS: &[&str] = &[
    "__array__",
    "__array_wrap__",
    "__contains__",
    "__deepcopy__",
    "__dlpack__",
    "__dlpack_device__",
    "__floordiv__",
    "__format__",
    "__len__",
    "__rdiv__",
    "__reduce_ex__",
    "__repr__",
    "__reversed__",
    "__rfloordiv__",
    "__rlshift__",
    "__rmatmul__",
    "__rmod__",
    "__rpow__",
    "__rrshift__",
    "__rsub__",
    "__setstate__",
    "backward",
    "dim_order",
    "index",
    "is_shared",
    "istft",
    "lu",
    "module_load",
    "norm",
    "register_hook",
    "register_post_accumulate_grad_hook",
    "resize",
    "resize_as",
    "share_memory_",
    "split",
    "stft",
    "storage",
    "storage_type",
    "unflatten",
    "unique",
    "unique_consecutive",
];

/// torch's module, without `torch.`, of a function or method that torch writes in Python.
pub fn home(namespace: &str, name: &str, is_method: bool) -> Option<&'static str> {
    match (namespace, name) {
        _ if is_method => METHODS.contains(&name).then_some("_tensor"),
        ("nn.functional", _) => (!COMPILED.contains(&name)).then_some("nn.functional"),
        ("nn.init", _) => Some("nn.init"),
        ("", "lobpcg") => Some("_lobpcg"),
        ("", "pca_lowrank" | "svd_lowrank") => Some("_lowrank"),
        ("", _) => FUNCTIONS.contains(&name).then_some("functional"),
        _ => None,
    }
}

/// Makes a refused call again as torch's function does, if that uses its arguments before the operator (`_in_python.py`): its
/// error or its result, or nothing if only the operator refuses the call.
pub fn answer(name: &str, call: &Call, refused: Option<&PyErr>) -> PyResult<Option<Raw>> {
    let py = call.py;
    if let Some(error) = refused
        && !(error.is_instance_of::<PyRuntimeError>(py)
            || error.is_instance_of::<PyTypeError>(py)
            || error.is_instance_of::<PyValueError>(py)
            || error.is_instance_of::<PyLookupError>(py))
    {
        return Ok(None);
    }
    let module = match py.import("rushlight._in_python") {
        Ok(module) => module,
        // A module that cannot be loaded for lack of memory must not hide the error of the operator.
        Err(_) if refused.is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let form = module.getattr("FORMS")?.call_method1("get", (name,))?;
    if form.is_none() {
        return Ok(None);
    }
    let args = PyTuple::new(py, call.all_positional().collect::<Vec<_>>())?;
    let named = PyDict::new(py);
    call.keywords().try_for_each(|(keyword, value)| named.set_item(keyword, value))?;
    let answer = match form.call(args, Some(&named)) {
        Ok(answer) => answer,
        // The operator's own error says more.
        Err(error) if refused.is_some_and(|refused| is_same(py, &error, refused)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let is_answer = !answer.is(py.NotImplemented());
    Ok(is_answer.then(|| answer.into_ptr()))
}

/// Whether two errors have one class and one first line.
fn is_same(py: Python<'_>, error: &PyErr, other: &PyErr) -> bool {
    let line = |error: &PyErr| error.value(py).to_string().lines().next().map(str::to_owned);
    error.get_type(py).is(other.get_type(py)) && line(error) == line(other)
}

/// The error of a function written in Python: CPython's, or that of the statement which meets the first argument of a
/// wrong kind.
pub fn refusal(name: &str, overloads: &[Overload], signatures: &Signatures, call: &Call) -> Option<PyErr> {
    // torch's function has the defaults of all overloads.
    let needed = |overload: &Overload| overload.params().iter().filter(|param| param.default.is_none()).count();
    let overload = overloads.iter().max_by_key(|one| (one.shown, Reverse(needed(one))))?;
    if !overload.in_python {
        return None;
    }
    if let Some(sentence) = counted(name, overload, &signatures.listed.first()?.params, call) {
        return Some(PyTypeError::new_err(sentence));
    }
    let is_given = |name: &str| param_given(overload, call, name).is_some_and(|given| !given.is_none());
    if let Some(given) =
        param_given(overload, call, "reduction").filter(|_| !is_given("size_average") && !is_given("reduce"))
        && let Some(error) = inside::wrong_reduction(overload.op, &given)
    {
        return Some(error);
    }
    // The overload that was meant is the one that takes most.
    let mismatches = signatures.listed.iter().filter_map(|signature| Some((signature, first_wrong(signature, call)?)));
    let wrong = mismatches.max_by_key(|(_, (place, _))| *place);
    let (signature, (place, object)) = wrong.or_else(|| first_bytes(overload, signatures, call))?;
    if overload.op.python_name() == "stft" {
        // The function passes all arguments on, except those of the padding.
        let params = signature.params.iter().filter(|param| !matches!(param.name, "center" | "pad_mode"));
        let own = call.receiver.map(|_| "Tensor".to_owned());
        let kinds = own.into_iter().chain(params.map(|param| kind_given(signature, param, call)));
        return Some(PyTypeError::new_err(errors::invalid_combination("stft", kinds, std::iter::empty())));
    }
    let flag = |name: &str| param_given(overload, call, name)?.is_truthy().ok();
    let with_indices = is_with_indices(overload, call);
    inside::error(overload.op, signature, place, call.receiver.is_some(), with_indices, &flag, &object)
}

/// The argument for a parameter of this name.
fn param_given<'a, 'py>(overload: &Overload, call: &Call<'a, 'py>, name: &str) -> Option<Object<'a, 'py>> {
    let place = overload.params().iter().position(|param| param.name == name)?;
    let by_name = || call.keywords().find(|(keyword, _)| overload.place(*keyword) == Some(place));
    call.at(place).or_else(|| by_name().map(|(_, value)| value))
}

/// The first bytes where the function compares a word.
fn first_bytes<'s, 'py>(
    overload: &Overload,
    signatures: &'s Signatures,
    call: &Call<'_, 'py>,
) -> Option<(&'s Signature, (usize, Bound<'py, PyAny>))> {
    signatures.listed.iter().find_map(|signature| {
        let of_place = |(place, param): (usize, &Expected)| {
            let given = param_given(overload, call, param.name).filter(|given| given.is_instance_of::<PyBytes>())?;
            (param.kind == Kind::Str).then(|| (place, given.to_owned()))
        };
        Some((signature, signature.params.iter().enumerate().find_map(of_place)?))
    })
}

/// Whether a call asks for the indices of the largest elements: torch has another function for them.
fn is_with_indices(overload: &Overload, call: &Call) -> bool {
    let flag = param_given(overload, call, "return_indices");
    flag.is_some_and(|flag| flag.is_truthy().unwrap_or_default())
}

/// The kind of the argument for a parameter, or of its default.
fn kind_given(signature: &Signature, param: &Expected, call: &Call) -> String {
    let place = signature.params.iter().position(|one| one.name == param.name);
    let by_position = place.and_then(|place| call.positional().nth(place));
    let by_name = || call.keywords().find(|(keyword, _)| keyword.to_str().is_ok_and(|text| text == param.name));
    match by_position.or_else(|| by_name().map(|(_, value)| value)) {
        Some(object) => kind_of(&object),
        None if param.default == Some("None") => "NoneType".into(),
        None => param.kind.display_name().into(),
    }
}

/// What CPython says if the number or the names of the arguments do not fit the parameters. It does not check their kinds.
fn counted(name: &str, overload: &Overload, expected: &[Expected], call: &Call) -> Option<String> {
    let name = match call.receiver {
        Some(_) => format!("Tensor.{name}"),
        None if name.starts_with("max_pool") && is_with_indices(overload, call) => format!("{name}_with_indices"),
        None if name.starts_with("max_pool") => format!("_{name}"),
        None => name.to_owned(),
    };
    let (params, takes, given) = (overload.params(), overload.positional(), call.given());
    let is_variadic = params.iter().any(|param| param.kind == Kind::Tensors);
    let mut is_filled: Vec<bool> = (0..params.len()).map(|place| place < given.min(takes)).collect();
    for (keyword, _) in call.keywords() {
        match overload.place(keyword) {
            Some(place) if !is_variadic && is_filled[place] && !params[place].keyword_only => {
                return Some(twice(&name, overload.name_of(place)));
            }
            Some(place) => is_filled[place] = true,
            None if overload.takes_out && says(keyword, c"out") => {}
            None => return Some(unexpected(&name, &keyword.to_string())),
        }
    }
    if is_variadic {
        return not_tensors(&name, expected, call);
    }
    if given > takes {
        let needed = params[..takes].iter().filter(|param| param.default.is_none()).count();
        return Some(takes_fewer(&name, needed, takes, given));
    }
    let missing = |keyword_only: bool| -> Vec<String> {
        let lacks = |place: &usize| {
            !is_filled[*place] && params[*place].default.is_none() && params[*place].keyword_only == keyword_only
        };
        (0..params.len()).filter(lacks).map(|place| format!("'{}'", overload.name_of(place))).collect()
    };
    let (what, names) = match missing(false) {
        names if names.is_empty() => ("keyword-only", missing(true)),
        names => ("positional", names),
    };
    let listed = match &names[..] {
        [] => return None,
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    };
    let plural = if names.len() == 1 { "" } else { "s" };
    Some(format!("{name}() missing {} required {what} argument{plural}: {listed}", names.len()))
}

/// What torch says about the first argument that is not a tensor. `atleast_1d` and its like, and `meshgrid`, pass a single
/// argument on, a tensor or a list.
fn not_tensors(name: &str, expected: &[Expected], call: &Call) -> Option<String> {
    let positional: Vec<_> = call.positional().map(Borrowed::to_owned).collect();
    if name.starts_with("atleast") && positional.len() > 1 {
        let bad = positional.iter().position(|item| !object::is_tensor(item))?;
        let kind = kind_of(&positional[bad]);
        return Some(format!("expected Tensor as element {bad} in argument 0, but got {kind}"));
    }
    let items = match &positional[..] {
        [single]
            if name.starts_with("atleast")
                || name == "meshgrid" && (single.is_instance_of::<PyTuple>() || single.is_instance_of::<PyList>()) =>
        {
            items_of(single)
        }
        _ => positional.clone(),
    };
    wrong_item(&items, name, expected.first()?, Some(1))
}
