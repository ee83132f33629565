//! Sparse tensors, with coordinates (COO) and compressed: their construction, and how calls handle them.
//!
//! Their operators are here and not in the table, because code that iterates over the table assumes dense values;
//! Python has them as methods. Operators of the table that take sparse operands declare it (`Operator::sparse`), with a
//! body in `bodies` if they need one; for all others a call raises an error before it uses their geometry. Programs may
//! write to indices. So they are checked where they are read: by `coalesce::keys`, or by the operators that gather and scatter.

pub mod add;
pub mod bodies;
pub mod coalesce;
pub mod compressed;
pub mod convert;
pub mod elementwise;
pub mod factories;
mod indices;
pub mod layouts;
pub mod parts;
pub mod product;
pub mod reduce;
pub mod shape;
pub mod spgemm;

use rushlight_dispatch::operator::Operator;

/// The operators that only sparse tensors have.
pub static OPERATORS: &[&Operator] = &[
    &convert::FROM_PARTS,
    &convert::GATHERED,
    &convert::TO_DENSE,
    &convert::MASKED,
    &convert::COALESCE,
    &convert::VALUES,
    &convert::TO_SPARSE,
    &compressed::FROM_COMPRESSED,
    &compressed::convert::TO_COMPRESSED,
    &compressed::convert::CONVERTED,
    &product::SPARSE_DENSE_MM,
    &spgemm::SPARSE_SPARSE_MATMUL,
];

pub use compressed::FROM_COMPRESSED;
pub use convert::{COALESCE, FROM_PARTS, MASKED, TO_DENSE, TO_SPARSE, VALUES};
