//! Dimensions of size one, taken away or put in.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{DimSet, wrap_dim};
use rushlight_core::{Layout, Result};

use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Output, Value};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;

pub static SQUEEZE: Row = Row {
    name: "squeeze",
    node: "in_place=SqueezeBackward3",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self) -> Tensor",
    doc: "A view without the dimensions of size one.

    >>> torch.squeeze(torch.zeros(2, 1, 3, 1)).shape
    torch.Size([2, 3])",
    dtypes: DTypes::ALL,
    run: Run::View(|args| Ok(args.tensor(0)?.layout().squeeze(|_| true))),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, restore)]),
    samples: &["t(2, 1, 3, 1)", "t(2)", "t()"],
    reference: "np.squeeze(self)",
    ..Row::BASE
};

pub static SQUEEZE_DIM: Row = Row {
    name: "squeeze.dim",
    node: "in_place=SqueezeBackward4",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "A view without dimension `dim`, if its size is one.

    >>> torch.squeeze(torch.zeros(2, 1, 3), 1).shape
    torch.Size([2, 3])",
    dtypes: DTypes::ALL,
    run: Run::View(|args| {
        let own = args.tensor(0)?.layout();
        let dim = wrap_dim(args.int(1)?, own.rank())?;
        Ok(own.squeeze(|d| d == dim))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, restore)]),
    samples: &["t(2, 1, 3), 1", "t(2, 1, 3), 0", "t(2, 1), -1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.squeeze(self, dim) if self.shape[dim] == 1 else self",
    ..Row::BASE
};

pub static SQUEEZE_DIMS: Row = Row {
    name: "squeeze.dims",
    node: "in_place=SqueezeBackward5",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int[] dim) -> Tensor",
    doc: "A view without those dimensions of `dim` whose size is one.

    >>> torch.squeeze(torch.zeros(1, 2, 1), (0, 2)).shape
    torch.Size([2])",
    dtypes: DTypes::ALL,
    run: Run::View(|args| {
        let own = args.tensor(0)?.layout();
        let dims = args.ints(1)?;
        if dims.is_empty() {
            return Ok(own.clone());
        }
        let dims = DimSet::of(dims, own.rank())?;
        Ok(own.squeeze(|dim| dims.has(dim)))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, restore)]),
    samples: &["t(1, 2, 1), (0, 2)", "t(1, 2, 1), (0, 1)"],
    reference: "np.squeeze(self, tuple(d for d in dim if self.shape[d] == 1))",
    ..Row::BASE
};

/// What nobody else reads without a dimension, and so no view of it.
pub static SQUEEZED: Row = Row {
    name: "_unsafe_squeeze",
    node: "SqueezeBackward4",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "The same memory without a dimension of size one, without being a view: nobody follows changes of one in the other.

    >>> torch._unsafe_squeeze(torch.tensor([[1, 2]]), 0)
    tensor([1, 2])",
    dtypes: DTypes::ALL,
    traits: Traits::SEES_MEMORY,
    run: Run::Body(|args| {
        let own = args.tensor(0)?;
        let dim = wrap_dim(args.int(1)?, own.rank())?;
        Ok(Output::Tensor(Tensor::with_meta(own.meta_with(own.layout().squeeze(|d| d == dim)))))
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, restore)]),
    samples: &["t(1, 3), 0"],
    reference: "np.squeeze(self, dim)",
    ..Row::BASE
};

fn restore(d: &Derive) -> Expr {
    d.grad().call(&RESHAPE, [sizes_value(d.sizes(0))])
}

pub static UNSQUEEZE: Row = Row {
    name: "unsqueeze",
    node: "in_place=UnsqueezeBackward1",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "A view with a new dimension of size one at `dim`.

    >>> torch.unsqueeze(torch.tensor([1, 2]), 1)
    tensor([[1],
            [2]])",
    dtypes: DTypes::ALL,
    run: Run::View(|args| unsqueezed(args.tensor(0)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| match wrap_dim(d.int(1), d.rank(0) + 1) {
        Ok(dim) => d.grad().call(&SQUEEZE_DIM, [Value::Int(dim as i64)]),
        Err(error) => Expr::failed(error),
    })]),
    samples: &["t(2, 3), 0", "t(2, 3), -1", "t(2, 3), 1", "t(), 0"],
    errors: &[("t(2), 3", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 3)")],
    reference: "np.expand_dims(self, dim)",
    ..Row::BASE
};

fn unsqueezed(own: &Layout, args: &Args) -> Result<Layout> {
    Ok(own.unsqueeze(wrap_dim(args.int(1)?, own.rank() + 1)?))
}
