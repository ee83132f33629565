//! What cannot be done with sparse tensors, in torch's words.

use rushlight_autograd::Tensor;
use rushlight_core::{Class, Error};

use crate::operator::{Args, Implementation};

/// torch's error for an operator that does not support these sparse tensors.
pub fn unsupported_operator(args: &Args) -> Error {
    let compressed = args.each_tensor().find_map(|(_, tensor)| tensor.compressed_parts());
    if args.op.python_name() == "expand" {
        let kind = if compressed.is_some() { "SparseCsr" } else { "Sparse" };
        return Error::runtime(format!("expand is unsupported for {kind} tensors")).hint(HINT);
    }
    match compressed {
        Some(parts) if matches!(args.op.implementation, Implementation::Pointwise(_)) => {
            Error::runtime(format!("unsupported tensor layout: {}", parts.format.layout_name())).hint(HINT)
        }
        Some(_) => unsupported_by(&args.op.flat_name(), "SparseCsrCPU"),
        None => unsupported(&args.op.flat_name()),
    }
}

const HINT: &str = "Use x.to_dense() for all elements, or x.values() for the stored ones.";

#[cold]
pub fn unsupported(name: &str) -> Error {
    unsupported_by(name, "SparseCPU")
}

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
    ("SparseCsrCPU", "_{}.out", &["log_softmax", "softmax"]),
    ("SparseCsrCPU", "{}.out", &["bmm", "baddbmm"]),
];

/// The error for a tensor of this backend of torch's.
#[cold]
pub fn unsupported_by(name: &str, backend: &str) -> Error {
    let overload = OVERLOADS.iter().find(|(of, _, names)| *of == backend && names.contains(&name));
    let name = overload.map_or(name.to_owned(), |(_, form, _)| form.replace("{}", name));
    Error::new(
        Class::NotImplemented,
        format!(
            "Could not run 'aten::{name}' with arguments from the '{backend}' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
        ),
    )
    .hint(match backend {
        "SparseCPU" => "Use x.to_dense() for all elements, or x.coalesce().values() for the stored ones.",
        "QuantizedCPU" => "Use x.dequantize() for the numbers, or x.int_repr() for the integers.",
        _ => HINT,
    })
}

/// The error for access to the memory of a tensor that has none of its own.
#[cold]
pub fn no_memory(tensor: &Tensor) -> Error {
    let compressed = tensor.compressed_parts().is_some();
    let class = if compressed { "SparseCsrTensorImpl" } else { "SparseTensorImpl" };
    Error::new(Class::NotImplemented, format!("Cannot access storage of {class}"))
        .hint("Use the memory of x.to_dense(), of the indices or of the values.")
}
