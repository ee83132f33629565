//! torch's signatures of a name, from which the sentence about a refused call follows. They are the operators' own, in
//! which a parameter `Tensor|Scalar` stands for two of torch's signatures, except for the names in `OTHERS`.

use std::ffi::CStr;

use pyo3::Borrowed;
use pyo3::prelude::*;
use pyo3::types::PyString;
use rushlight_dispatch::operator::{Args, Operator};
use rushlight_dispatch::signature::{Kind, Param, Returns};
use rushlight_dispatch::value::Value;

use super::call::{Overload, shown};

/// The names whose signatures differ from those of torch, with torch's. A method has a function's without its object and
/// `out`. `OPTIONS` are the keywords of a factory; `Tensor|Scalar` is a parameter that torch calls a tensor but for
/// which it accepts numbers.
const OTHERS: &[(&str, &[&str])] = &[
    ("add", &["Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1, Tensor out=None"]),
    ("sub", &["Tensor|Scalar input, Tensor|Scalar other, *, Scalar alpha=1, Tensor out=None"]),
    ("mul", &["Tensor|Scalar input, Tensor|Scalar other, *, Tensor out=None"]),
    ("rsub", &["Tensor input, Tensor other, *, Scalar alpha=1", "Tensor input, Scalar other, Scalar alpha=1"]),
    (
        "div",
        &[
            "Tensor|Scalar input, Tensor|Scalar other, *, Tensor out=None",
            "Tensor|Scalar input, Tensor|Scalar other, *, str? rounding_mode, Tensor out=None",
            "Tensor|Scalar input, Scalar other, *, str? rounding_mode",
        ],
    ),
    ("floor_divide", &["Tensor|Scalar input, Tensor|Scalar other, *, Tensor out=None", "Tensor input, Scalar other"]),
    (
        "sum",
        &[
            "Tensor input, *, ScalarType dtype=None",
            "Tensor input, int[1]? dim, bool keepdim=False, *, ScalarType dtype=None, Tensor out=None",
        ],
    ),
    (
        "clamp",
        &[
            "Tensor input, Tensor min=None, Tensor max=None, *, Tensor out=None",
            "Tensor input, Scalar min=None, Scalar max=None, *, Tensor out=None",
        ],
    ),
    (
        "where",
        &[
            "Tensor condition",
            "Tensor condition, Tensor input, Tensor other, *, Tensor out=None",
            "Tensor condition, Scalar self, Tensor other",
            "Tensor condition, Tensor input, Scalar other",
            "Tensor condition, Scalar self, Scalar other",
        ],
    ),
    ("Tensor.where", &["Tensor condition, Tensor other", "Tensor condition, Scalar other"]),
    ("copy", &["Tensor input, Tensor|Scalar other, bool non_blocking=False"]),
    ("count_nonzero", &["Tensor input, int dim=None", "Tensor input, int[] dim"]),
    ("trapz", &["Tensor y, *, float dx=1, int dim=-1", "Tensor y, Tensor x, *, int dim=-1"]),
    (
        "isin",
        &[
            "Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False, Tensor out=None",
            "Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False, Tensor out=None",
            "Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False, Tensor out=None",
        ],
    ),
    (
        "view_copy",
        &["Tensor input, ScalarType dtype, *, Tensor out=None", "Tensor input, int[] size, *, Tensor out=None"],
    ),
    ("masked_fill", &["Tensor input, Tensor mask, Tensor value", "Tensor input, Tensor mask, Scalar value"]),
    ("masked_scatter", &["Tensor input, Tensor mask, Tensor source"]),
    ("polygamma", &["int n, Tensor input, *, Tensor out=None"]),
    ("Tensor.polygamma", &["int n"]),
    ("Tensor.nonzero", &["", "*, bool as_tuple"]),
    (
        "Tensor.repeat_interleave",
        &[
            "Tensor repeats, int dim=None, *, int output_size=None",
            "int repeats, int dim=None, *, int output_size=None",
        ],
    ),
    ("eye", &["int n, *, Tensor out=None, OPTIONS", "int n, int m, *, Tensor out=None, OPTIONS"]),
    (
        "arange",
        &[
            "Scalar end, *, Tensor out=None, OPTIONS",
            "Scalar start, Scalar end, *, OPTIONS",
            "Scalar start, Scalar end, Scalar step=1, *, Tensor out=None, OPTIONS",
        ],
    ),
    (
        "linspace",
        &[
            "Tensor start, Tensor end, int steps, *, Tensor out=None, OPTIONS",
            "Scalar start, Tensor end, int steps, *, Tensor out=None, OPTIONS",
            "Tensor start, Scalar end, int steps, *, Tensor out=None, OPTIONS",
            "Scalar start, Scalar end, int steps, *, Tensor out=None, OPTIONS",
        ],
    ),
    (
        "logspace",
        &[
            "Tensor start, Tensor end, int steps, float base=10, *, Tensor out=None, OPTIONS",
            "Scalar start, Tensor end, int steps, float base=10, *, Tensor out=None, OPTIONS",
            "Tensor start, Scalar end, int steps, float base=10, *, Tensor out=None, OPTIONS",
            "Scalar start, Scalar end, int steps, float base=10, *, Tensor out=None, OPTIONS",
        ],
    ),
    ("hann_window", WINDOW),
    ("blackman_window", WINDOW),
    ("bartlett_window", WINDOW),
    (
        "hamming_window",
        &[
            "int window_length, *, OPTIONS",
            "int window_length, bool periodic, *, OPTIONS",
            "int window_length, bool periodic, float alpha, *, OPTIONS",
            "int window_length, bool periodic, float alpha, float beta, *, OPTIONS",
        ],
    ),
    (
        "kaiser_window",
        &[
            "int window_length, *, OPTIONS",
            "int window_length, bool periodic, *, OPTIONS",
            "int window_length, bool periodic, float beta, *, OPTIONS",
        ],
    ),
    ("rand", DRAWN),
    ("randn", DRAWN),
    ("rand_like", DRAWN_LIKE),
    ("randn_like", DRAWN_LIKE),
    (
        "randint",
        &[
            "int high, int[] size, *, Generator generator, Tensor out=None, OPTIONS",
            "int high, int[] size, *, Tensor out=None, OPTIONS",
            "int low, int high, int[] size, *, Generator generator, Tensor out=None, OPTIONS",
            "int low, int high, int[] size, *, Tensor out=None, OPTIONS",
        ],
    ),
    (
        "randint_like",
        &[
            "Tensor input, int low, int high, *, Generator generator, MemoryFormat memory_format=None, OPTIONS",
            "Tensor input, int low, int high, *, MemoryFormat memory_format=None, OPTIONS",
            "Tensor input, Tensor high, *, Generator generator, MemoryFormat memory_format=None, OPTIONS",
            "Tensor input, Tensor high, *, MemoryFormat memory_format=None, OPTIONS",
            "Tensor input, int high, *, Generator generator, MemoryFormat memory_format=None, OPTIONS",
            "Tensor input, int high, *, MemoryFormat memory_format=None, OPTIONS",
        ],
    ),
    ("randperm", &["int n, *, Generator generator, Tensor out=None, OPTIONS", "int n, *, Tensor out=None, OPTIONS"]),
    ("Tensor.mm", &["Tensor mat2"]),
    ("mm", PRODUCT),
    ("Tensor.bmm", &["Tensor mat2"]),
    ("bmm", PRODUCT),
    (
        "addmm",
        &[
            "Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1, Tensor out=None",
            "Tensor input, Tensor mat1, Tensor mat2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1, Tensor out=None",
        ],
    ),
    ("Tensor.addmm", &["Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1"]),
    (
        "baddbmm",
        &[
            "Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1, Tensor out=None",
            "Tensor input, Tensor batch1, Tensor batch2, ScalarType out_dtype, *, Scalar beta=1, Scalar alpha=1, Tensor out=None",
        ],
    ),
    ("Tensor.baddbmm", &["Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1"]),
    (
        "matrix_rank",
        &[
            "Tensor input, *, Tensor atol=None, Tensor rtol=None, bool hermitian=False, Tensor out=None",
            "Tensor input, *, float atol=None, float rtol=None, bool hermitian=False, Tensor out=None",
            "Tensor input, Tensor tol, bool hermitian=False, *, Tensor out=None",
            "Tensor input, float tol, bool hermitian=False, *, Tensor out=None",
        ],
    ),
    (
        "pinv",
        &[
            "Tensor input, *, Tensor atol=None, Tensor rtol=None, bool hermitian=False, Tensor out=None",
            "Tensor input, *, float atol=None, float rtol=None, bool hermitian=False, Tensor out=None",
            "Tensor input, Tensor rcond, bool hermitian=False, *, Tensor out=None",
            "Tensor input, float rcond, bool hermitian=False, *, Tensor out=None",
        ],
    ),
    (
        "nuclear_norm",
        &[
            "Tensor input, int[1] dim, bool keepdim=False, *, Tensor out=None",
            "Tensor input, bool keepdim=False, *, Tensor out=None",
        ],
    ),
    (
        "embedding_bag",
        &[
            "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx",
            "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, Tensor per_sample_weights=None, bool include_last_offset=False",
        ],
    ),
];
const WINDOW: &[&str] = &["int window_length, *, OPTIONS", "int window_length, bool periodic, *, OPTIONS"];
const DRAWN: &[&str] =
    &["int[] size, *, Generator generator, Tensor out=None, OPTIONS", "int[] size, *, Tensor out=None, OPTIONS"];
const DRAWN_LIKE: &[&str] = &[
    "Tensor input, *, Generator generator, MemoryFormat memory_format=None, OPTIONS",
    "Tensor input, *, MemoryFormat memory_format=None, OPTIONS",
];
const PRODUCT: &[&str] = &[
    "Tensor input, Tensor mat2, *, Tensor out=None",
    "Tensor input, Tensor mat2, ScalarType out_dtype, *, Tensor out=None",
];
const OPTIONS: &str =
    "ScalarType dtype=None, Layout layout=None, Device device=None, bool pin_memory=False, bool requires_grad=False";

/// The operators with deprecated signatures besides (`deprecated.rs`), which torch does not list.
const DEPRECATED: &[&str] =
    &["add", "sub", "addcmul", "addcdiv", "addmm", "addmv", "addr", "addbmm", "baddbmm", "copy"];

/// Functions, and the operands that must be tensors where `out=` is given: torch's forms with numbers there have none.
const TENSORS_WITH_OUT: &[(&str, &[usize])] = &[
    ("remainder", &[0]),
    ("bitwise_and", &[0]),
    ("bitwise_or", &[0]),
    ("bitwise_xor", &[0]),
    ("bitwise_left_shift", &[0]),
    ("bitwise_right_shift", &[0]),
    ("where", &[1, 2]),
];

/// Whether an argument of a call with `out=` is a number where torch then takes a tensor.
pub(super) fn lacks_out(args: &Args) -> bool {
    let found = TENSORS_WITH_OUT.iter().find(|(name, _)| *name == args.op.name);
    let is_number = |place: &usize| args.values.get(*place).is_some_and(|value| value.as_tensor().is_none());
    found.is_some_and(|(_, places)| places.iter().any(is_number))
}

/// Whether a call mixes tensors and numbers where torch has one form for either: the limits of `clamp`, of which tensors without
/// dimensions count as numbers, and the operands of `isin`, one of which must be a tensor.
pub(super) fn is_mixed(args: &Args) -> bool {
    let is_number = |place: usize| matches!(args.values.get(place), Some(Value::Scalar(_)));
    let has_dims =
        |place: usize| args.values.get(place).and_then(Value::as_tensor).is_some_and(|tensor| tensor.rank() > 0);
    match args.op.python_name() {
        "clamp" => [(1, 2), (2, 1)].iter().any(|&(number, tensor)| is_number(number) && has_dims(tensor)),
        "isin" => is_number(0) && is_number(1),
        _ => false,
    }
}

/// Whether an operand of `isin` has the name of the other kind: torch calls a number `element` and `test_element`.
pub(super) fn is_misnamed(args: &Args, is_named: impl Fn(&CStr) -> bool) -> bool {
    let misnamed = |(place, several, one): (usize, &CStr, &CStr)| match args.values.get(place) {
        Some(Value::Scalar(_)) => is_named(several),
        _ => is_named(one),
    };
    args.op.name == "isin"
        && [(0, c"elements", c"element"), (1, c"test_elements", c"test_element")].into_iter().any(misnamed)
}

/// Whether a window's number is given and one before it left out: torch has a form for each count of them.
pub(super) fn skips(op: &Operator, positional: usize, is_left_out: impl Fn(usize) -> bool) -> bool {
    matches!(op.name, "kaiser_window" | "hamming_window")
        && (1..positional).any(|place| !is_left_out(place) && is_left_out(place - 1))
}

/// Whether one of several operands has to be a tensor.
pub(super) fn needs_tensor(op: &Operator, params: &[Param]) -> bool {
    let is = |kind: Kind| params.iter().filter(|param| param.kind == kind).count();
    is(Kind::Operand) > 1 && is(Kind::Tensor) == 0 && OTHERS.iter().all(|(name, _)| *name != op.python_name())
}

/// One of torch's signatures; that of a method is without its object.
pub struct Signature {
    pub(super) params: Vec<Expected>,
}

/// A parameter of torch's signature.
#[derive(Clone)]
pub(super) struct Expected {
    pub name: &'static str,
    pub kind: Kind,
    pub allows_none: bool,
    pub keyword_only: bool,
    pub default: Option<&'static str>,
}

/// torch's signatures of a name.
pub struct Signatures {
    pub(super) listed: Vec<Signature>,
    /// Whether torch has others that it does not list.
    pub(super) has_deprecated: bool,
}

impl Signatures {
    pub fn new(overloads: &[Overload], is_method: bool) -> Signatures {
        let op = overloads[0].op;
        let (name, own) = (op.python_name(), usize::from(is_method));
        let in_python = overloads.iter().max_by_key(|overload| overload.shown).filter(|overload| overload.in_python);
        let is_one_of = |list: &[&str]| list.contains(&name) && op.namespace != "nn.functional";
        let other = |key: &str| {
            let found = OTHERS.iter().find(|(found, _)| *found == key && op.namespace != "nn.functional");
            found.map(|(_, listed)| *listed)
        };
        let listed = if in_python.is_some() {
            overloads.iter().map(Signature::of).filter_map(|one| one.of_method(own)).collect()
        } else if let Some(listed) = other(&format!("Tensor.{name}")).filter(|_| is_method) {
            listed.iter().map(|text| Signature::parse(text)).collect()
        } else if let Some(listed) = other(name) {
            listed.iter().map(|text| Signature::parse(text)).filter_map(|one| one.of_method(own)).collect()
        } else {
            overloads.iter().flat_map(|one| Signature::of(one).split()).filter_map(|one| one.of_method(own)).collect()
        };
        Signatures { listed, has_deprecated: is_one_of(DEPRECATED) }
    }

    /// Whether one of them has a parameter of this name.
    pub fn have_name(&self, keyword: Borrowed<'_, '_, PyString>) -> bool {
        let is_named = |param: &Expected| keyword.to_str().is_ok_and(|text| text == param.name);
        self.listed.iter().any(|signature| signature.params.iter().any(is_named))
    }

    /// The signatures of a function that is written in Python; `None` if a text is not a signature.
    pub(super) fn written(texts: &[&'static str]) -> Option<Signatures> {
        let listed = texts.iter().map(|text| {
            let signature = Signature::parse(text);
            let parts = text.split(", ").filter(|part| !matches!(*part, "*" | "")).count();
            (signature.params.len() == parts).then_some(signature)
        });
        Some(Signatures { listed: listed.collect::<Option<_>>()?, has_deprecated: false })
    }
}

impl Signature {
    fn parse(text: &'static str) -> Signature {
        let mut keyword_only = false;
        let mut params = Vec::new();
        let (text, options) = text.strip_suffix("OPTIONS").map_or((text, ""), |rest| (rest, OPTIONS));
        for part in text.split(", ").chain(options.split(", ")).filter(|part| !part.is_empty()) {
            if part == "*" {
                keyword_only = true;
                continue;
            }
            let (declared, default) =
                part.split_once('=').map_or((part, None), |(before, after)| (before, Some(after)));
            let Some((kind, name)) = declared.split_once(' ') else { continue };
            let Some(known) = Kind::parse(kind.trim_end_matches('?')) else { continue };
            let allows_none = kind.ends_with('?') || default == Some("None");
            params.push(Expected { name, kind: known, allows_none, keyword_only, default });
        }
        Signature { params }
    }

    /// The signature of an overload, with `out`.
    fn of(overload: &Overload) -> Signature {
        let schema = overload.op.schema();
        let mut params: Vec<Expected> = overload.params().iter().map(Expected::of).collect();
        if overload.takes_out {
            let kind = if schema.returns == Returns::Tensor { Kind::Tensor } else { Kind::Tensors };
            let out = Expected { name: "out", kind, allows_none: true, keyword_only: true, default: Some("None") };
            params.insert(schema.options.map_or(params.len(), |[dtype, ..]| dtype.position()), out);
        }
        Signature { params }
    }

    /// torch's signatures for tensors and for numbers: one of several operands is a tensor.
    fn split(self) -> Vec<Signature> {
        let is_operand = |param: &Expected| param.kind == Kind::Operand;
        let operands = self.params.iter().filter(|param| is_operand(param)).count();
        let mut split = vec![Signature { params: Vec::new() }];
        for param in self.params {
            let kinds = if is_operand(&param) { vec![Kind::Tensor, Kind::Scalar] } else { vec![param.kind] };
            split = split
                .iter()
                .flat_map(|start| {
                    kinds.iter().map(|&kind| {
                        let mut params = start.params.clone();
                        let name = match (kind, param.name) {
                            (Kind::Scalar, "input") => "self",
                            (_, name) => name,
                        };
                        params.push(Expected { kind, name, ..param.clone() });
                        Signature { params }
                    })
                })
                .collect();
        }
        let numbers = |one: &Signature| one.params.iter().filter(|param| param.kind == Kind::Scalar).count();
        let most = split.iter().map(numbers).max().unwrap_or_default();
        split.retain(|one| operands < 2 || numbers(one) < most);
        split
    }

    /// The signature of the method, if it has one.
    fn of_method(mut self, own: usize) -> Option<Signature> {
        if own == 1 {
            let first = self.params.first()?;
            if !matches!(first.kind, Kind::Tensor | Kind::Operand) {
                return None;
            }
            self.params.remove(0);
            self.params.retain(|param| param.name != "out");
        }
        Some(self)
    }

    pub(super) fn positional(&self) -> usize {
        self.params.iter().filter(|param| !param.keyword_only).count()
    }

    pub(super) fn needed(&self) -> usize {
        self.params.iter().filter(|param| param.default.is_none()).count()
    }

    /// The signature as torch writes it.
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        for (place, param) in self.params.iter().enumerate() {
            if param.keyword_only && (place == 0 || !self.params[place - 1].keyword_only) {
                parts.push("*".to_owned());
            }
            let default = param.default.map(|default| format!(" = {default}")).unwrap_or_default();
            parts.push(format!("{} {}{default}", param.kind.display_name(), param.name));
        }
        parts.join(", ")
    }
}

impl Expected {
    fn of(param: &Param) -> Expected {
        Expected {
            name: shown(param),
            kind: param.kind,
            allows_none: param.optional || param.default == Some("None"),
            keyword_only: param.keyword_only,
            default: param.default,
        }
    }
}
