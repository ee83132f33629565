//! torch's errors for tensors on two devices. Elementwise operators name the devices. Most others name the function of torch's backend
//! for CUDA that looks at the tensors one after the other, and the first one that is elsewhere. Some have a sentence of their own.

use rushlight_autograd::Tensor;
use rushlight_core::{Device, Error};

use crate::operator::{Args, Operator};

/// What the functions that look at their tensors are called: this, and a name of [`METHODS`].
const BACKEND: &str = "wrapper_CUDA_";

/// Operators, the functions that look at their tensors, and torch's names of these tensors in its order, where they are others
/// (`index=indices`: what torch calls `index` is `indices` here).
pub const METHODS: &[(&str, &str, &str)] = &[
    ("_clamp.Tensor", "clamp_Tensor", ""),
    ("_linalg_solve_ex", "_linalg_solve_ex", ""),
    ("_nll_loss", "nll_loss_forward", ""),
    ("_nll_loss2d", "_nll_loss2d_forward", ""),
    ("addbmm", "_addbmm", ""),
    ("addmm", "addmm", ""),
    ("addmv", "addmv", ""),
    ("addr", "_addr", ""),
    ("baddbmm", "baddbmm", ""),
    ("bincount", "_bincount", ""),
    ("bmm", "bmm", ""),
    ("bucketize", "Tensor_bucketize", ""),
    ("cat", "cat", ""),
    ("cholesky_solve", "__cholesky_solve_helper", "self A=input2"),
    ("cross", "linalg_cross", ""),
    ("dot", "_dot", ""),
    ("embedding", "_index_select", "self=weight index=indices"),
    ("equal", "_equal", ""),
    ("gather", "gather", ""),
    ("grid_sampler_2d", "_grid_sampler_2d", ""),
    ("grid_sampler_3d", "_grid_sampler_3d", ""),
    ("group_norm", "_native_group_norm", "input weight bias"),
    ("householder_product", "_linalg_householder_product", ""),
    ("huber_loss", "_huber_loss", "self=input target"),
    ("index_add", "index_add", ""),
    ("index_copy", "index_copy", ""),
    ("index_reduce", "index_reduce", ""),
    ("index_select", "_index_select", ""),
    ("isin", "isin_Tensor_Tensor", ""),
    ("layer_norm", "_native_layer_norm", "input weight bias"),
    ("ldl_solve", "linalg_ldl_solve", ""),
    ("lu_solve", "linalg_lu_solve", ""),
    ("lu_unpack", "lu_unpack", ""),
    ("masked_scatter", "_masked_scatter_", ""),
    ("masked_select", "_masked_select", ""),
    ("mm", "mm", ""),
    ("multi_margin_loss", "_multi_margin_loss", "self=input target weight"),
    ("multilabel_margin_loss", "_multilabel_margin_loss_forward", "self=input target"),
    ("mv", "addmv_out_out", "out=vec mat=self vec"),
    ("native_batch_norm", "_native_batch_norm", ""),
    ("native_group_norm", "_native_group_norm", ""),
    ("native_layer_norm", "_native_layer_norm", ""),
    ("normal.Tensor_Tensor", "Tensor_Tensor_normal", ""),
    ("ormqr", "_ormqr", ""),
    ("put", "_put_", ""),
    ("repeat_interleave.self_Tensor", "_index_select", "self index=repeats"),
    ("scatter", "scatter_src", ""),
    ("scatter.reduce", "scatter_reduce", ""),
    ("scatter.value", "scatter_value", ""),
    ("scatter.value_reduce", "scatter_value_reduce", ""),
    ("scatter_add", "scatter_add", ""),
    ("scatter_reduce", "scatter_reduce_two", ""),
    ("searchsorted", "Tensor_searchsorted", ""),
    ("searchsorted.Scalar", "Scalar_searchsorted", ""),
    ("segment_reduce", "_segment_reduce", ""),
    ("solve_ex", "_linalg_solve_ex", ""),
    ("solve_triangular", "_linalg_solve_triangular", ""),
    ("stack", "cat", ""),
    ("take", "_take", ""),
    ("triangular_solve", "triangular_solve", ""),
    ("vdot", "_vdot", ""),
];

/// Operators with sentences of their own, about these arguments. A name in braces is the device of that argument, and `type` in front of
/// it asks for the device without its number; of a list, `other` is the first device that differs from the first one, and `at` its place.
pub const SENTENCES: &[(&str, &[&str], &str)] = &[
    (
        "block_diag",
        &["tensors"],
        "Input tensors must all be on the same device. Input 0 is on device {first} and input {at} is on device {other}.",
    ),
    (
        "istft",
        &["window"],
        "istft input and window must be on the same device but got self on {input} and window on {window}",
    ),
    ("meshgrid", &["tensors"], "meshgrid expects all tensors to have the same device"),
    (
        "multi_dot",
        &["tensors"],
        "multi_dot(): all tensors must be on the same device but tensor 0 is on {first} and tensor {at} on {other}",
    ),
    ("nanquantile", &["q"], "quantile() q tensor must be on the same device as the input tensor"),
    ("quantile", &["q"], "quantile() q tensor must be on the same device as the input tensor"),
    (
        "scaled_dot_product_attention",
        &["key", "value"],
        "Expected query, key, and value to have the same device type, but got query.device: {query} key.device: {key} and value.device: {value} instead.",
    ),
    (
        "stft",
        &["window"],
        "stft input and window must be on the same device but got self on {input} and window on {window}",
    ),
    (
        "take_along_dim",
        &["indices"],
        "Expected tensor to have {type self} Device, but got tensor with {type indices} Device (while checking arguments for torch.take_along_dim():)",
    ),
];

/// As [`SENTENCES`], for GPUs alone: on `meta` these operators have the sentence of all others.
pub const SENTENCES_ON_GPUS: &[(&str, &[&str], &str)] = &[
    ("_index_put", &["values"], "expected device {self} but got device {values} for value tensor"),
    ("cdist", &["x2"], "X1 and X2 must have the same device type. X1: {type x1} X2: {type x2}"),
    ("masked_fill", &["mask"], MASK),
    ("masked_fill.Tensor", &["mask"], MASK),
];
const MASK: &str = "expected self and mask to be on the same device, but got mask on {mask} and self on {self}";

/// The error of a call with tensors on these two devices.
#[cold]
pub fn refuse(args: &Args, first: Device, own: Device) -> Error {
    let is_on_meta = args.each_tensor().any(|(_, tensor)| tensor.device() == Device::Meta);
    let on_gpus = || if is_on_meta { None } else { filled(args, SENTENCES_ON_GPUS).or_else(|| checked(args)) };
    let sentence = filled(args, SENTENCES).or_else(on_gpus);
    sentence.map_or_else(|| apart(first, own), |sentence| Error::runtime(sentence).hint(HINT))
}

const HINT: &str = "Move one of them: x.to(y.device).";

/// The error for operands on two devices. torch names a GPU before the CPU.
#[cold]
pub fn apart(first: Device, own: Device) -> Error {
    let sentence = if first == Device::Meta || own == Device::Meta {
        format!("Tensor on device {own} is not on the expected device {first}!")
    } else {
        let (first, own) = if first == Device::Cpu { (own, first) } else { (first, own) };
        format!("Expected all tensors to be on the same device, but found at least two devices, {first} and {own}!")
    };
    Error::runtime(sentence).hint(HINT)
}

/// The devices of the first tensor and of the first one that is elsewhere.
pub fn first_difference(args: &Args) -> Option<(Device, Device)> {
    let mut devices = args.each_tensor().map(|(_, tensor)| tensor.device());
    let first = devices.next()?;
    devices.find(|other| *other != first).map(|other| (first, other))
}

/// Whether a composition looks at the devices of its tensors before it calls other operators.
pub fn is_checked_first(op: &Operator) -> bool {
    let has_sentence = |(name, _, _): &(&str, &[&str], &str)| *name == op.name;
    matches!(op.name, "batch_norm" | "embedding_bag" | "grid_sample" | "grid_sampler" | "linear")
        || METHODS.iter().any(|(name, _, _)| *name == op.name)
        || SENTENCES.iter().any(has_sentence)
}

/// torch's sentence of the form in place: its function has another name.
pub fn named_in_place(error: Error, op: &Operator) -> Error {
    let Some((text, method)) = error.sentence().split_once(BACKEND) else { return error };
    let name = op.python_name().trim_start_matches('_');
    match method.split_once(name) {
        Some((before, after)) if !method.ends_with("_)") => {
            let sentence = format!("{text}{BACKEND}{before}{name}_{after}");
            error.with_sentence(sentence)
        }
        _ => error,
    }
}

/// The tensors of an argument.
fn tensors_of<'a>(args: &'a Args, name: &str) -> impl Iterator<Item = &'a Tensor> {
    let wanted = args.op.schema().place(name);
    args.each_tensor().filter(move |(place, _)| Some(*place) == wanted).map(|(_, tensor)| tensor)
}

/// The sentence of a function of [`METHODS`], if one of its tensors is elsewhere.
fn checked(args: &Args) -> Option<String> {
    let (method, order) = method(args)?;
    let names: Vec<&str> = match order {
        "" => args.op.schema().params.iter().map(|param| param.name).collect(),
        _ => order.split(' ').collect(),
    };
    let mut common = None;
    for name in names {
        let (theirs, ours) = name.split_once('=').unwrap_or((name, name));
        for own in tensors_of(args, ours).map(Tensor::device) {
            let first = *common.get_or_insert(own);
            if own != first {
                return Some(format!(
                    "Expected all tensors to be on the same device, but got {theirs} is on {own}, different from other tensors on {first} (when checking argument in method {BACKEND}{method})"
                ));
            }
        }
    }
    None
}

/// The function that looks at the tensors of a call, with the order in which it does.
fn method(args: &Args) -> Option<(&'static str, &'static str)> {
    let rank = |name| tensors_of(args, name).next().map_or(0, Tensor::rank);
    let found = match args.op.name {
        "linear" if tensors_of(args, "bias").next().is_some() => ("addmm", "self=bias mat1=input mat2=weight"),
        "linear" => ("mm", "self=input mat2=weight"),
        "batch_norm" => {
            let has_weight = tensors_of(args, "weight").next().is_some();
            let method = if has_weight { "_cudnn_batch_norm" } else { "_native_batch_norm" };
            (method, "input weight bias running_mean running_var")
        }
        "embedding_bag" => {
            let has_gradient = tensors_of(args, "weight").any(Tensor::is_tracked);
            let method = if has_gradient { "__embedding_bag" } else { "__embedding_bag_forward_only" };
            (method, "weight indices offsets per_sample_weights")
        }
        "grid_sample" | "grid_sampler" => {
            let method = if rank("input") == 5 { "_grid_sampler_3d" } else { "_grid_sampler_2d" };
            (method, "input grid")
        }
        "_matmul" => match (rank("self"), rank("other")) {
            (1, 1) => ("_dot", "self tensor=other"),
            (_, 1) => ("addmv_out_out", "out=other mat=self vec=other"),
            (1, _) => ("addmv_out_out", "out=self mat=other vec=self"),
            (_, 2) => ("mm", "self mat2=other"),
            (2, _) => ("mm", "self=other mat2=self"),
            _ => ("bmm", "self mat2=other"),
        },
        own => METHODS.iter().find(|(name, _, _)| *name == own).map(|(_, method, order)| (*method, *order))?,
    };
    Some(found)
}

/// The sentence of the operator, if one of its arguments is on another device than the first tensor.
fn filled(args: &Args, sentences: &[(&str, &[&str], &str)]) -> Option<String> {
    let (_, about, sentence) = sentences.iter().find(|(name, _, _)| *name == args.op.name)?;
    let first = args.each_tensor().next()?.1.device();
    let mut among = about.iter().flat_map(|name| tensors_of(args, name)).map(Tensor::device).enumerate();
    let (at, other) = among.find(|(_, device)| *device != first)?;
    let mut text = sentence.replace("{first}", &first.to_string()).replace("{other}", &other.to_string());
    text = text.replace("{at}", &at.to_string());
    for name in args.op.schema().params.iter().map(|param| param.name) {
        if let Some(device) = tensors_of(args, name).next().map(|tensor| tensor.device().to_string()) {
            let kind = device.split(':').next().unwrap_or(&device);
            text = text.replace(&format!("{{type {name}}}"), kind).replace(&format!("{{{name}}}"), &device);
        }
    }
    Some(text)
}
