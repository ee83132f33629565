//! The diagonals of matrices along two dimensions.

use rushlight_core::layout::wrap_dim;
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::operator::{Args, DTypes, Derivative, Implementation, Operator, Saves, formula, operator};

use crate::view::strided::embed;

#[operator]
pub static DIAGONAL: Operator = Operator {
    name: "diagonal",
    signature: "(Tensor self, int offset=0, int dim1=0, int dim2=1) -> Tensor",
    doc: "A view of the diagonal, as the last dimension; a positive `offset` is above the main one.

    >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])",
    dtypes: DTypes::ALL,
    implementation: Implementation::View(|args| diagonal(args.tensor(INPUT)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| embed(d, diagonal))]),
    samples: &["t(3, 3)", "t(3, 4), 1", "t(2, 3, 4), -1, 1, 2", "t(2, 3, 4), 0, -1, 0", "t(2, 3), 9"],
    errors: &[("t(2, 3), 0, 1, 1", "RuntimeError", "diagonal dimensions cannot be identical 1, 1")],
    reference: "np.diagonal(self, offset, dim1, dim2)",
    ..Operator::BASE
};

/// The diagonal's geometry in a tensor of this geometry.
pub fn diagonal(own: &Layout, args: &Args) -> Result<Layout> {
    use DIAGONAL::*;

    diagonal_at(own, args.int(OFFSET)?, args.int(DIM1)?, args.int(DIM2)?)
}

/// The diagonal's geometry, given numbers.
pub fn diagonal_at(own: &Layout, offset: i64, first: i64, second: i64) -> Result<Layout> {
    let offset = offset as isize;
    let (a, b) = (wrap_dim(first, own.rank())?, wrap_dim(second, own.rank())?);
    if a == b {
        return Err(Error::runtime(format!("diagonal dimensions cannot be identical {first}, {second}"))
            .hint("dim1 and dim2 must be different dimensions, such as -2 and -1."));
    }
    let (rows, columns) = (own.sizes[a], own.sizes[b]);
    let length =
        if offset >= 0 { rows.min(columns.saturating_sub(offset)) } else { columns.min(rows.saturating_add(offset)) }
            .max(0);
    let mut view = own.clone();
    if length > 0 {
        view.offset += if offset >= 0 { offset * own.strides[b] } else { -offset * own.strides[a] };
    }
    for dim in [a.max(b), a.min(b)] {
        view.sizes.remove(dim);
        view.strides.remove(dim);
    }
    view.sizes.push(length);
    view.strides.push(own.strides[a].wrapping_add(own.strides[b]));
    Ok(view)
}
