//! What cannot be done with sparse tensors, in torch's words.

use rushlight_autograd::Tensor;
use rushlight_core::{Class, Device, Error};

use crate::operator::{Args, Implementation};
use crate::unsupported::{out_overload, unsupported_by};

/// torch's error for a call into `out=` that needs a sparse form.
#[cold]
pub fn unsupported_out(args: &Args, out: &Tensor) -> Error {
    let sparse = args.each_tensor().map(|(_, tensor)| tensor).find(|tensor| tensor.is_sparse());
    let backend = backend(sparse.unwrap_or(out));
    match out_overload(args.op.name) {
        Some(overload) => unsupported_by(overload, backend),
        None => unsupported_by(&format!("{}.out", args.op.flat_name()), backend),
    }
}

/// torch's error for a factory that does not fill a sparse `out=`: that of the step that torch comes to. None for those that
/// begin with a tensor of its layout.
pub fn refused_factory(args: &Args, out: &Tensor) -> Option<Error> {
    match args.op.python_name() {
        "empty" | "zeros" | "ones" | "full" => None,
        "rand" | "randn" | "randint" | "normal" if out.compressed_parts().is_none() => {
            Some(unsupported("resize_", out))
        }
        "eye" if args.op.schema().arg("m").is_some_and(|rows| !args.has(rows)) => Some(unsupported("eye.out", out)),
        _ => Some(unsupported(&args.op.flat_name(), out)),
    }
}

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
        _ => {
            let sparse = args.each_tensor().find(|(_, tensor)| tensor.is_sparse());
            unsupported_by(&args.op.flat_name(), sparse.map_or("SparseCPU", |(_, tensor)| backend(tensor)))
        }
    }
}

/// torch's error for a product with a compressed tensor that a dense one would take.
#[cold]
pub fn no_compressed_result() -> Error {
    Error::runtime("Expected result Tensor to be of format CSR").hint(HINT)
}

/// torch's name of the backend of a sparse tensor.
fn backend(tensor: &Tensor) -> &'static str {
    match (tensor.compressed_parts().is_some(), matches!(tensor.device(), Device::Cuda(_))) {
        (false, false) => "SparseCPU",
        (false, true) => "SparseCUDA",
        (true, false) => "SparseCsrCPU",
        (true, true) => "SparseCsrCUDA",
    }
}

const HINT: &str = "Use x.to_dense() for all elements, or x.values() for the stored ones.";

/// The error for a sparse tensor in a call that has no form for it.
#[cold]
pub fn unsupported(name: &str, tensor: &Tensor) -> Error {
    unsupported_by(name, backend(tensor))
}

/// The error for access to the memory of a tensor that has none of its own.
#[cold]
pub fn no_memory(tensor: &Tensor) -> Error {
    let compressed = tensor.compressed_parts().is_some();
    let class = if compressed { "SparseCsrTensorImpl" } else { "SparseTensorImpl" };
    Error::new(Class::NotImplemented, format!("Cannot access storage of {class}"))
        .hint("Use the memory of x.to_dense(), of the indices or of the values.")
}
