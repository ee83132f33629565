//! What cannot be done with sparse tensors, in torch's words.

use rushlight_core::{Class, Error};

use crate::operator::Operator;

/// torch's error for an operator that does not support sparse tensors.
pub fn unsupported_operator(op: &Operator) -> Error {
    unsupported(&op.flat_name())
}

#[cold]
pub fn unsupported(name: &str) -> Error {
    Error::new(
        Class::NotImplemented,
        format!(
            "Could not run 'aten::{name}' with arguments from the 'SparseCPU' backend. This could be because the operator doesn't exist for this backend, or was omitted during the selective/custom build process (if using custom build)."
        ),
    )
    .hint("Use x.to_dense() for all elements, or x.coalesce().values() for the stored ones.")
}

/// The error for access to the memory of a tensor that has none of its own.
#[cold]
pub fn no_memory() -> Error {
    Error::new(Class::NotImplemented, "Cannot access storage of SparseTensorImpl")
        .hint("Use the memory of x.to_dense(), x._indices() or x._values().")
}
