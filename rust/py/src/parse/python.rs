//! The functions that torch writes in Python. CPython checks their arguments before the function sees them: first the
//! keywords, then the number of positional arguments, then what is missing.

use pyo3::Borrowed;
use rushlight_dispatch::signature::{Kind, Param};

use super::{Call, Overload, items_of, says, shown, takes_fewer, twice, unexpected, wrong_item};

/// The functions of `torch.nn.functional` that are not written in Python.
const COMPILED: &[&str] = &[
    "adaptive_avg_pool1d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "channel_shuffle",
    "cosine_similarity",
    "gelu",
    "linear",
    "logsigmoid",
    "one_hot",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "scaled_dot_product_attention",
    "softplus",
    "softshrink",
];
/// The functions of `torch` that are.
const FUNCTIONS: &[&str] = &[
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_tensors",
    "cartesian_prod",
    "cdist",
    "meshgrid",
    "norm",
    "split",
    "stft",
];
/// The methods that are.
const METHODS: &[&str] = &["istft", "norm", "split", "stft", "unflatten"];

/// Whether torch writes the function or method in Python.
pub fn is_written_in_python(namespace: &str, name: &str, is_method: bool) -> bool {
    match namespace {
        _ if is_method => METHODS.contains(&name),
        "nn.functional" => !COMPILED.contains(&name),
        "" => FUNCTIONS.contains(&name),
        _ => false,
    }
}

/// What CPython says if the arguments do not fit the parameters. Their kinds are not its concern.
pub fn refusal(name: &str, overloads: &[Overload], call: &Call) -> Option<String> {
    let overload = overloads.iter().max_by_key(|overload| overload.shown).filter(|overload| overload.in_python)?;
    let prefix = match call.receiver {
        Some(_) => "Tensor.",
        None if name.starts_with("max_pool") => "_",
        None => "",
    };
    let name = format!("{prefix}{name}");
    let (params, takes, given) = (overload.params(), overload.positional(), call.given());
    let is_variadic = params.iter().any(|param| param.kind == Kind::Tensors);
    let mut is_filled: Vec<bool> = (0..params.len()).map(|place| place < given.min(takes)).collect();
    for (keyword, _) in call.keywords() {
        match overload.place(keyword) {
            Some(place) if !is_variadic && is_filled[place] && !params[place].keyword_only => {
                return Some(twice(&name, shown(&params[place])));
            }
            Some(place) => is_filled[place] = true,
            None if overload.takes_out && says(keyword, c"out") => {}
            None => return Some(unexpected(&name, &keyword.to_string())),
        }
    }
    if is_variadic {
        return not_tensors(&name, params, call);
    }
    if given > takes {
        let needed = params[..takes].iter().filter(|param| param.default.is_none()).count();
        return Some(takes_fewer(&name, needed, takes, given));
    }
    let missing = |keyword_only: bool| -> Vec<String> {
        let lacks = |place: &usize| {
            !is_filled[*place] && params[*place].default.is_none() && params[*place].keyword_only == keyword_only
        };
        (0..params.len()).filter(lacks).map(|place| format!("'{}'", shown(&params[place]))).collect()
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

/// What torch says about the first argument that is not a tensor. `atleast_1d` and its like pass a single argument on, a
/// tensor or a list.
fn not_tensors(name: &str, params: &[Param], call: &Call) -> Option<String> {
    let positional: Vec<_> = call.positional().map(Borrowed::to_owned).collect();
    let items = match positional.len() {
        1 if name.starts_with("atleast") => items_of(&positional[0]),
        _ => positional,
    };
    wrong_item(&items, name, params.first()?, Some(1)).ok()?
}
