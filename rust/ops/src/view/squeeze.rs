//! Removing and inserting dimensions of size one.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{DimSet, wrap_dim};
use rushlight_core::{Layout, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{
    Args, BackwardContext, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Saves, Sparse, Tags,
    Variants, formula, operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};

use crate::view::RESHAPE;

#[operator]
pub static SQUEEZE: Operator = Operator {
    name: "squeeze",
    node: "in_place=SqueezeBackward3",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self) -> Tensor",
    doc: "A view without the dimensions of size one.

    >>> torch.squeeze(torch.zeros(2, 1, 3, 1)).shape
    torch.Size([2, 3])",
    dtypes: DTypes::ALL,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(|args| Ok(args.tensor(INPUT)?.layout().squeeze(|_| true))),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, restore)]),
    samples: &["t(2, 1, 3, 1)", "t(2)", "t()"],
    reference: "np.squeeze(self)",
    ..Operator::BASE
};

#[operator]
pub static SQUEEZE_DIM: Operator = Operator {
    name: "squeeze.dim",
    node: "in_place=SqueezeBackward4",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "A view without dimension `dim`, if its size is one.

    >>> torch.squeeze(torch.zeros(2, 1, 3), 1).shape
    torch.Size([2, 3])",
    dtypes: DTypes::ALL,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(|args| {
        let layout = args.tensor(INPUT)?.layout();
        let dim = wrap_dim(args.int(DIM)?, layout.rank())?;
        Ok(layout.squeeze(|d| d == dim))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, restore)]),
    samples: &["t(2, 1, 3), 1", "t(2, 1, 3), 0", "t(2, 1), -1"],
    errors: &[("t(2, 3), 2", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 2)")],
    reference: "np.squeeze(self, dim) if self.shape[dim] == 1 else self",
    ..Operator::BASE
};

#[operator]
pub static SQUEEZE_DIMS: Operator = Operator {
    name: "squeeze.dims",
    node: "in_place=SqueezeBackward5",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int[] dim) -> Tensor",
    doc: "A view without those dimensions of `dim` whose size is one.

    >>> torch.squeeze(torch.zeros(1, 2, 1), (0, 2)).shape
    torch.Size([2])",
    dtypes: DTypes::ALL,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(|args| {
        let layout = args.tensor(INPUT)?.layout();
        let dims = args.ints(DIM)?;
        if dims.is_empty() {
            return Ok(layout.clone());
        }
        let dims = DimSet::of(dims, layout.rank())?;
        Ok(layout.squeeze(|dim| dims.has(dim)))
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, restore)]),
    samples: &["t(1, 2, 1), (0, 2)", "t(1, 2, 1), (0, 1)"],
    reference: "np.squeeze(self, tuple(d for d in dim if self.shape[d] == 1))",
    ..Operator::BASE
};

/// Removes a dimension of a tensor that is not shared, so the result is not a view of it.
#[operator]
pub static SQUEEZED: Operator = Operator {
    name: "_unsafe_squeeze",
    node: "SqueezeBackward4",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "The same memory without a dimension of size one, not recorded as a view: autograd does not track in-place changes across the two.

    >>> torch._unsafe_squeeze(torch.tensor([[1, 2]]), 0)
    tensor([1, 2])",
    dtypes: DTypes::ALL,
    tags: Tags::STRIDE_DEPENDENT,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_any_device(|args| {
        let input = args.tensor(INPUT)?;
        let dim = wrap_dim(args.int(DIM)?, input.rank())?;
        Ok(Output::Tensor(Tensor::with_meta(input.meta_with(input.layout().squeeze(|d| d == dim)))))
    })),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, restore)]),
    samples: &["t(1, 3), 0"],
    reference: "np.squeeze(self, dim)",
    ..Operator::BASE
};

fn restore(d: &BackwardContext) -> Expr {
    d.grad().call(&RESHAPE, [sizes_value(d.sizes(SQUEEZE::INPUT))])
}

#[operator]
pub static UNSQUEEZE: Operator = Operator {
    name: "unsqueeze",
    node: "in_place=UnsqueezeBackward1",
    variants: Variants::BOTH.union(Variants::INPLACE),
    signature: "(Tensor self, int dim) -> Tensor",
    doc: "A view with a new dimension of size one at `dim`.

    >>> torch.unsqueeze(torch.tensor([1, 2]), 1)
    tensor([[1],
            [2]])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(|args| unsqueezed(args.tensor(INPUT)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        match wrap_dim(d.int(DIM), d.rank(INPUT) + 1) {
            Ok(dim) => d.grad().call(&SQUEEZE_DIM, [Value::Int(dim as i64)]),
            Err(error) => Expr::failed(error),
        }
    })]),
    samples: &["t(2, 3), 0", "t(2, 3), -1", "t(2, 3), 1", "t(), 0"],
    errors: &[("t(2), 3", "IndexError", "Dimension out of range (expected to be in range of [-2, 1], but got 3)")],
    reference: "np.expand_dims(self, dim)",
    ..Operator::BASE
};

fn unsqueezed(own: &Layout, args: &Args) -> Result<Layout> {
    Ok(own.unsqueeze(wrap_dim(args.int(UNSQUEEZE::DIM)?, own.rank() + 1)?))
}
