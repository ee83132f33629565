//! Parts of one dimension: one index, a range, or a slice with a step in either direction.

use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Tags, Variants, formula, operator,
};
use rushlight_dispatch::value::{Output, Value};

use crate::view::strided::embed;

#[operator]
pub static SELECT: Operator = Operator {
    name: "select",
    signature: "(Tensor self, int dim, int index) -> Tensor",
    doc: "The view at one index of `dim`, which is removed.

    >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| select(args.tensor(INPUT)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| embed(d, select))]),
    samples: &["t(2, 3), 0, 1", "t(2, 3), -1, -2", "t(3), 0, 0"],
    errors: &[
        ("t(2, 3), 0, 5", "IndexError", "select(): index 5 out of range for tensor of size [2, 3] at dimension 0"),
        ("t(), 0, 0", "IndexError", "select() cannot be applied to a 0-dim tensor."),
    ],
    reference: "np.take(self, index, axis=dim)",
    ..Operator::BASE
};

fn select(own: &Layout, args: &Args) -> Result<Layout> {
    use SELECT::*;

    select_at(own, args.int(DIM)?, args.int(INDEX)?)
}

/// The geometry at one index of a dimension.
pub fn select_at(own: &Layout, dim: i64, index: i64) -> Result<Layout> {
    if own.rank() == 0 {
        return Err(Error::index("select() cannot be applied to a 0-dim tensor.")
            .hint("A 0-d tensor has one element: use x.item(), or x.reshape(1) to add a dimension."));
    }
    let dim = wrap_dim(dim, own.rank())?;
    let (index, size) = (index as isize, own.sizes[dim]);
    if index < -size || index >= size {
        return Err(Error::index(format!(
            "select(): index {index} out of range for tensor of size {} at dimension {dim}",
            Shape(&own.sizes)
        )));
    }
    Ok(own.select(dim, if index < 0 { index + size } else { index }))
}

/// The operator behind `x[...]`.
#[operator]
pub static ALIAS: Operator = Operator {
    name: "_alias",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of the whole tensor.

    >>> torch._alias(torch.tensor([1, 2]))
    tensor([1, 2])",
    dtypes: DTypes::ALL,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(|args| Ok(args.tensor(INPUT)?.layout().clone())),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)"],
    reference: "self",
    ..Operator::BASE
};

/// The operator behind `x[a:b:c]`, with resolved bounds.
#[operator]
pub static SLICE: Operator = Operator {
    name: "_slice",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, int start, int length, int step=1) -> Tensor",
    doc: "A view of `length` elements of `dim` from `start` on in steps of `step`, which may be negative.

    >>> torch._slice(torch.arange(6), 0, 5, 3, -2)
    tensor([5, 3, 1])",
    dtypes: DTypes::ALL,
    sparse: Sparse::ExplicitAutograd,
    implementation: Implementation::View(|args| slice(args.tensor(INPUT)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| embed(d, slice))]),
    samples: &["t(5, 2), 0, 1, 2, 2", "t(5), 0, 4, 5, -1", "t(2, 3), 1, 0, 0, 1"],
    errors: &[(
        "t(5), 0, 3, 3, 1",
        "IndexError",
        "slice(): start 3, length 3 and step 1 leave dimension 0 with size 5",
    )],
    ..Operator::BASE
};

/// The geometry of a slice.
pub fn slice(own: &Layout, args: &Args) -> Result<Layout> {
    use SLICE::*;

    let dim = wrap_dim(args.int(DIM)?, own.rank())?;
    let (start, length, step) = (args.int(START)? as isize, args.int(LENGTH)? as isize, args.int(STEP)? as isize);
    let size = own.sizes.get(dim).copied().unwrap_or(0);
    let last = length.checked_sub(1).and_then(|n| n.max(0).checked_mul(step)).and_then(|n| n.checked_add(start));
    let fits = match last {
        Some(last) if length > 0 => (0..size).contains(&start) && (0..size).contains(&last),
        Some(_) => length == 0 && (0..=size).contains(&start),
        None => false,
    };
    if !fits || own.rank() == 0 {
        return Err(Error::index(format!(
            "slice(): start {start}, length {length} and step {step} leave dimension {dim} with size {size}"
        )));
    }
    Ok(own.slice(dim, start, length, step))
}

/// `length` elements of `dim` from `start` on.
pub fn sliced(
    tensor: &rushlight_autograd::Tensor,
    dim: usize,
    start: isize,
    length: isize,
    step: isize,
) -> Result<rushlight_autograd::Tensor> {
    op!(SLICE, tensor, dim, start as i64, length as i64, step as i64)
}

#[operator]
pub static NARROW: Operator = Operator {
    name: "narrow",
    signature: "(Tensor self, int dim, int start, int length) -> Tensor",
    doc: "A view of `length` indices of `dim` from `start` on.

    >>> torch.narrow(torch.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        narrow(args.tensor(INPUT)?, args.int(DIM)?, args.int(START)?, args.int(LENGTH)?).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4, 2), 0, 1, 2", "t(4, 2), 1, -1, 1", "t(3), 0, 3, 0"],
    errors: &[
        ("t(3), 0, 2, 2", "RuntimeError", "start (2) + length (2) exceeds dimension size (3)."),
        ("t(3), 0, 5, 0", "IndexError", "start out of range (expected to be in range of [-3, 3], but got 5)"),
        ("t(3), 0, 0, -1", "RuntimeError", "narrow(): length must be non-negative."),
    ],
    reference: "np.take(self, range(start % (self.shape[dim] + (start >= 0)), start % (self.shape[dim] + (start >= 0)) + length), axis=dim)",
    ..Operator::BASE
};

#[operator]
pub static NARROW_TENSOR: Operator = Operator {
    name: "narrow.Tensor",
    signature: "(Tensor self, int dim, Tensor start, int length) -> Tensor",
    doc: "A view of `length` indices of `dim` from `start` on, given as a 0-d tensor of integers.

    >>> torch.narrow(torch.tensor([1, 2, 3, 4]), 0, torch.tensor(1), 2)
    tensor([2, 3])",
    dtypes: DTypes::ALL,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::FallbackIf(&[START]),
    implementation: Implementation::CompositeImplicit(|args| {
        let start = args.tensor(START)?;
        if start.rank() != 0 || !start.dtype().is_integral() {
            return Err(Error::runtime("start must be an 0-dim integral Tensor."));
        }
        narrow(args.tensor(INPUT)?, args.int(DIM)?, crate::convert::item(start)?.i64(), args.int(LENGTH)?)
            .map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(4, 2), 0, torch.tensor(1), 2"],
    reference: "self.take(range(int(start), int(start) + length), dim)",
    ..Operator::BASE
};

/// torch's `narrow`, with its checks.
pub fn narrow(
    tensor: &rushlight_autograd::Tensor,
    dim: i64,
    start: i64,
    length: i64,
) -> Result<rushlight_autograd::Tensor> {
    if tensor.rank() == 0 {
        return Err(Error::runtime("narrow() cannot be applied to a 0-dim tensor.")
            .hint("Use x.reshape(1) to add a dimension."));
    }
    if length < 0 {
        return Err(Error::runtime("narrow(): length must be non-negative."));
    }
    let dim = wrap_dim(dim, tensor.rank())?;
    let size = tensor.sizes()[dim] as i64;
    if start < -size || start > size {
        return Err(Error::index(format!(
            "start out of range (expected to be in range of [{}, {size}], but got {start})",
            -size
        )));
    }
    let start = if start < 0 { start + size } else { start };
    if start > size - length {
        return Err(Error::runtime(format!("start ({start}) + length ({length}) exceeds dimension size ({size})."))
            .hint("length must be at most size - start."));
    }
    sliced(tensor, dim, start as isize, length as isize, 1)
}

/// The result of a select at a wrapped index, for operators that iterate over a dimension.
pub fn selected(tensor: &rushlight_autograd::Tensor, dim: usize, index: isize) -> Result<rushlight_autograd::Tensor> {
    SELECT.tensor([tensor.into(), Value::Int(dim as i64), Value::Int(index as i64)])
}
