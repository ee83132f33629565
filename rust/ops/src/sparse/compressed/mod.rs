//! The compressed formats: the entries of each row or column one after the other (CSR, CSC), or blocks of them (BSR, BSC).
//!
//! The four are one type, `CompressedParts`. An operator works on the stored values (`parts::with_values`), or on
//! coordinates (`parts::expanded`), from which `parts::compress` makes any format.

mod check;
pub mod convert;
pub mod parts;
pub mod shape;

use rushlight_autograd::{CompressedFormat, Tensor};
use rushlight_core::{Error, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, formula, operator,
};
use rushlight_dispatch::sparse::dense;
use rushlight_dispatch::value::{Output, sizes_value};

use super::parts::{entries, taken};
use crate::view::reshape::RESHAPE;

/// The format that an argument names.
fn format_named(name: &str) -> Result<CompressedFormat> {
    CompressedFormat::named(name).ok_or_else(|| {
        Error::runtime(format!("sparse_compressed_tensor expected sparse compressed tensor layout but got {name}"))
    })
}

/// A compressed tensor of checked parts.
#[operator]
pub static FROM_COMPRESSED: Operator = Operator {
    name: "sparse_compressed_tensor",
    signature: "(Tensor compressed_indices, Tensor plain_indices, Tensor values, str layout, int[]? size=None, bool ordered=False) -> Tensor",
    dtypes: DTypes::ALL,
    sparse: Sparse::Supported,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let sizes = args.optional_ints(SIZE).map(rushlight_core::layout::to_dims);
        let format = format_named(args.optional_str(LAYOUT).unwrap_or_default())?;
        let (compressed, plain) = (args.tensor(COMPRESSED_INDICES)?, args.tensor(PLAIN_INDICES)?);
        let (parts, sizes) =
            check::checked(format, compressed, plain, args.tensor(VALUES)?, sizes.as_deref(), args.bool(ORDERED)?)?;
        parts::build(&sizes, parts).map(Output::Tensor)
    })),
    derivative: Derivative::Formulas(&[formula(VALUES, Saves::RESULT, |d| {
        let gradient = || -> Result<Tensor> {
            let made = d.result().done()?;
            let values = taken(&dense(&d.grad().done()?)?, &entries(&made, "values")?.indices)?;
            op!(RESHAPE, &values, sizes_value(d.sizes(VALUES)))
        };
        Expr::new(gradient())
    })]),
    node: "SparseCompressedTensorBackward0",
    ..Operator::BASE
};
