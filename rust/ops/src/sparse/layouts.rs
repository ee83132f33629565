//! Which layouts of matrices torch multiplies, and what it says of the others.

use rushlight_autograd::Tensor;
use rushlight_core::{Error, Result};
use rushlight_dispatch::operator::Args;

/// torch's name of a tensor's layout in errors: `SparseCsr`, or `Sparse` for coordinates.
pub fn named(tensor: &Tensor) -> &'static str {
    match (tensor.compressed_parts(), tensor.is_sparse()) {
        (Some(parts), _) => parts.format.layout_name(),
        (None, true) => "Sparse",
        (None, false) => "Strided",
    }
}

/// torch's refusal of a product of two matrices in these layouts, into a result in a third.
fn check(result: &str, input: &Tensor, other: &Tensor) -> Result<()> {
    let (a, b) = (named(input), named(other));
    let sentence = match (result, a, b) {
        ("Strided", "Sparse", "Strided") => return Ok(()),
        ("Sparse", "Sparse" | "Strided", "Sparse" | "Strided") => {
            format!("addmm_sparse_dense: expected strided result tensor, got tensor with layout {result}")
        }
        ("Strided", "Sparse" | "Strided", "Sparse" | "Strided") => format!(
            "addmm_sparse_dense: expected either 'mat1' to have sparse layout and 'mat2' to have strided layout, got 'mat1' with layout {a} and 'mat2' with layout {b}"
        ),
        ("Strided", "SparseCsr" | "SparseCsc" | "SparseBsr", "Strided")
        | ("Strided", "Strided", "SparseCsr" | "SparseCsc" | "SparseBsc")
        | ("Strided", "SparseCsr", "SparseCsr" | "SparseCsc")
        | ("Strided" | "SparseCsc", "SparseCsc", "SparseCsc")
        | ("SparseCsr", "SparseCsr" | "SparseCsc", "SparseCsr" | "SparseCsc") => return Ok(()),
        _ => format!("addmm: computation on CPU is not implemented for {result} + {a} @ {b}"),
    };
    Err(Error::runtime(sentence).hint("Convert a matrix first: x.to_dense(), x.to_sparse() or x.to_sparse_csr()."))
}

/// torch's refusal of a new tensor in a layout of blocks, without blocks.
pub fn no_blocks(made: &str, kind: &str) -> Error {
    Error::runtime(format!(
        "{made}_sparse_compressed expected sparse compressed (non-block) tensor layout but got {kind}"
    ))
}

/// torch's words for a product that cannot be written to a tensor of this layout.
pub fn refused(args: &Args, target: &Tensor) -> Option<Error> {
    let mut matrices = args.each_tensor().map(|(_, tensor)| tensor).skip(usize::from(args.op.name == "addmm"));
    let (own, other) =
        matches!(args.op.name, "mm" | "addmm").then(|| matrices.next().zip(matrices.next())).flatten()?;
    check(named(target), own, other).err()
}

/// A new product, or torch's words for why there is none: the engine's own refusal is about a step inside it.
pub fn in_words<T>(result: &str, input: &Tensor, other: &Tensor, product: Result<T>) -> Result<T> {
    product.map_err(|error| match result {
        "SparseBsr" | "SparseBsc" => no_blocks("empty", result),
        _ => check(result, input, other).err().unwrap_or(error),
    })
}
