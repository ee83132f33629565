//! torch's error for an operator that a backend lacks.

use rushlight_core::{Class, Error};

/// torch's names of operators that it runs by another overload or another operator, where one backend says so.
const OVERLOADS: &[(&str, &str, &[&str])] = &[
    (
        "QuantizedCPU",
        "{}.out",
        &[
            "abs",
            "add",
            "amax",
            "amin",
            "argmax",
            "argmin",
            "cumprod",
            "cumsum",
            "div",
            "elu",
            "exp",
            "gather",
            "log",
            "logical_not",
            "maximum",
            "minimum",
            "mm",
            "mul",
            "neg",
            "round",
            "silu",
            "sqrt",
            "sub",
        ],
    ),
    ("QuantizedCPU", "{}.correction", &["std_mean", "var", "var_mean"]),
    ("QuantizedCPU", "_{}.out", &["log_softmax", "softmax"]),
    ("QuantizedCPU", "elu.out", &["_celu", "_elu"]),
    ("QuantizedCPU", "sum.IntList_out", &["sum"]),
    ("QuantizedCPU", "any.all_out", &["any"]),
    ("QuantizedCPU", "pow.Tensor_Scalar_out", &["pow"]),
    ("QuantizedCPU", "scatter.src_out", &["scatter"]),
    ("QuantizedCPU", "where.self", &["where"]),
    ("QuantizedCPU", "set_.source_Tensor", &["set_"]),
    ("QuantizedCPU", "im2col", &["unfold"]),
    ("QuantizedCPU", "max_pool2d_with_indices.out", &["_max_pool"]),
    ("QuantizedCPU", "zero_", &["new_zeros", "zeros_like"]),
    ("QuantizedCPU", "uniform_", &["rand_like"]),
    ("SparseCPU", "_{}", &["log_softmax", "softmax"]),
    ("SparseCPU", "{}.out", &["linspace", "logspace", "range"]),
    ("SparseCPU", "arange.start_out", &["arange", "fft_fftfreq", "fft_rfftfreq"]),
    ("SparseCPU", "eye.m_out", &["eye"]),
    ("SparseCPU", "randperm.generator_out", &["randperm"]),
    ("SparseCPU", "normal_", &["normal", "randn"]),
    ("SparseCPU", "random_.from", &["randint"]),
    ("SparseCPU", "uniform_", &["rand"]),
    ("SparseCPU", "{}.Tensor", &["fill_"]),
    ("SparseCPU", "as_strided", &["empty_permuted"]),
    ("SparseCsrCPU", "{}.out", &["linspace", "logspace"]),
    ("SparseCsrCPU", "arange.start_out", &["arange", "fft_fftfreq", "fft_rfftfreq"]),
    ("SparseCsrCPU", "eye.m_out", &["eye"]),
    ("SparseCsrCPU", "randperm.generator_out", &["randperm"]),
    ("SparseCsrCPU", "normal_", &["normal", "randn"]),
    ("SparseCsrCPU", "{}.Tensor", &["fill_"]),
    ("SparseCsrCPU", "as_strided", &["permute"]),
    ("SparseCsrCPU", "empty_strided", &["_linalg_svd"]),
    ("SparseCsrCPU", "random_.from", &["randint"]),
    ("SparseCsrCPU", "uniform_", &["rand"]),
    ("SparseCsrCPU", "_{}.out", &["log_softmax", "softmax"]),
    ("SparseCsrCPU", "{}.out", &["bmm", "baddbmm"]),
];

/// The forms for `out=` that torch does not have for sparse tensors, or not under the usual name, by the engine's operators.
const OUT: &[(&str, &str)] = &[
    ("any", "any.all_out"),
    ("cat", "cat.out"),
    ("index_select", "index_select.out"),
    ("mv", "addmv.out"),
    ("norm", "norm.out"),
    ("normal.Tensor_Tensor", "normal.Tensor_Tensor_out"),
    ("normal.Tensor_float", "normal.Tensor_float_out"),
    ("normal.float_Tensor", "normal.float_Tensor_out"),
    ("stack", "cat.out"),
    ("sum.dim", "sum.IntList_out"),
    ("where", "where.self_out"),
];

/// torch's name of an operator's form for `out=`, if torch has none for sparse tensors or names it by another word.
pub fn out_overload(name: &str) -> Option<&'static str> {
    OUT.iter().find(|(own, _)| *own == name).map(|(_, overload)| *overload)
}

/// The error for a tensor of this backend of torch's.
#[cold]
pub fn unsupported_by(name: &str, backend: &str) -> Error {
    let on_host = backend.replace("CUDA", "CPU");
    let overload = OVERLOADS.iter().find(|(of, _, names)| *of == on_host && names.contains(&name));
    let name = overload.map_or(name.to_owned(), |(_, form, _)| form.replace("{}", name));
    Error::new(
        Class::NotImplemented,
        format!(
            "Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
        ),
    )
    .hint(match backend {
        "SparseCPU" | "SparseCUDA" => "Use x.to_dense() for all elements, or x.coalesce().values() for the stored ones.",
        "QuantizedCPU" => "Use x.dequantize() for the numbers, or x.int_repr() for the integers.",
        _ => "Use x.to_dense() for all elements, or x.values() for the stored ones.",
    })
}
