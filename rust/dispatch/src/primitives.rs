//! The few operators that calls themselves use. The crate with the operators installs them.
//!
//! Derivatives add and multiply, gradients are summed over broadcast dimensions, results are copied into their targets.
//! Each of these is an ordinary call: it is recorded, batched and profiled like any other.

use rushlight_autograd::Tensor;
use rushlight_core::installed::Installed;
use rushlight_core::{DType, Device, Error, Result};

use crate::operator::{Args, Operator};
use crate::value::Output;

pub struct Primitives {
    pub add: &'static Operator,
    pub sub: &'static Operator,
    pub mul: &'static Operator,
    pub div: &'static Operator,
    pub neg: &'static Operator,
    /// The conjugate in new memory.
    pub conj: &'static Operator,
    /// The real part, as a view.
    pub real: &'static Operator,
    pub clone: &'static Operator,
    pub reshape: &'static Operator,
    pub expand: &'static Operator,
    pub select: &'static Operator,
    pub narrow: &'static Operator,
    pub stack: &'static Operator,
    /// The sum over given dimensions.
    pub sum: &'static Operator,
    /// Hides a dimension, and shows it again: the two entry points of `vmap`.
    pub add_batch_dim: &'static Operator,
    pub remove_batch_dim: &'static Operator,
    /// Casts to another dtype; the tensor itself if it already has it.
    pub cast: fn(&Tensor, DType) -> Result<Tensor>,
    /// Copies the second tensor's elements into the first; recorded.
    pub copy_: fn(&Tensor, &Tensor) -> Result<()>,
    /// Sums broadcast dimensions down to these sizes.
    pub sum_to: fn(&Tensor, &[isize]) -> Result<Tensor>,
    pub sparse: SparsePrimitives,
    pub quantized: QuantizedPrimitives,
    /// All operators of the table: the names of nodes depend on the order of overloads.
    pub table: &'static [&'static Operator],
}

/// Operations on the parts of sparse tensors.
pub struct SparsePrimitives {
    /// Applies the operator to the values of its first argument, after coalescing it if requested.
    pub over_values: fn(&Args, bool) -> Result<Output>,
    /// The sum of two tensors, the second one times a sign.
    pub sum: fn(&Args, i64) -> Result<Output>,
    /// The same, added in place to the first, which is dense.
    pub add_into_dense: fn(&Args, i64) -> Result<Output>,
    /// All elements of a sparse tensor.
    pub to_dense: &'static Operator,
    /// A sparse tensor without entries, in a named layout.
    pub empty: fn(&str, &[isize], DType, Device) -> Result<Tensor>,
    /// Writes the result of a factory to a tensor in a compressed format; None if the factory does not.
    pub into_compressed: fn(&Args, &Tensor) -> Option<Result<()>>,
    /// The bodies of the operators that declare `Sparse::ExplicitAutograd` or `Sparse::CompositeImplicit`.
    pub bodies: &'static [(&'static Operator, SparseBody)],
    /// torch's words for a product that cannot be written to a tensor of this layout.
    pub refused: fn(&Args, &Tensor) -> Option<Error>,
}

/// What an operator does instead if an operand is sparse.
pub type SparseBody = fn(&Args) -> Result<Output>;

/// Operations on quantised tensors.
pub struct QuantizedPrimitives {
    /// The numbers, as float32.
    pub dequantize: fn(&Tensor) -> Result<Tensor>,
    /// The bodies of the operators that support quantised tensors.
    pub bodies: &'static [(&'static Operator, QuantizedBody)],
}

/// What an operator does instead if an operand is quantised.
pub type QuantizedBody = fn(&Args) -> Result<Output>;

static PRIMITIVES: Installed<Primitives> = Installed::nothing();

/// Installs the operators; a later call replaces them.
pub fn install(primitives: &'static Primitives) {
    PRIMITIVES.set(primitives);
}

#[inline]
pub(crate) fn primitives() -> Result<&'static Primitives> {
    PRIMITIVES.get().ok_or_else(missing)
}

#[cold]
fn missing() -> Error {
    Error::runtime("no operators are installed: call rushlight::install() first")
}
