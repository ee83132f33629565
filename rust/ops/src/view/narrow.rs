//! A part of one dimension: one index, a stretch, or every so many elements in either direction.

use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{Error, Layout, Result};

use crate::derive::{Derivative, Saves, formula};
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::sparse::{Sparse, places};
use crate::value::{Args, Output, Value};
use crate::view::embed::embed;

pub static SELECT: Row = Row {
    name: "select",
    signature: "(Tensor self, int dim, int index) -> Tensor",
    doc: "The view at one index of `dim`, which disappears.

    >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])",
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(places::select),
    run: Run::View(|args| select(args.tensor(0)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| embed(d, select))]),
    samples: &["t(2, 3), 0, 1", "t(2, 3), -1, -2", "t(3), 0, 0"],
    errors: &[
        ("t(2, 3), 0, 5", "IndexError", "select(): index 5 out of range for tensor of size [2, 3] at dimension 0"),
        ("t(), 0, 0", "IndexError", "select() cannot be applied to a 0-dim tensor."),
    ],
    reference: "np.take(self, index, axis=dim)",
    ..Row::BASE
};

fn select(own: &Layout, args: &Args) -> Result<Layout> {
    select_at(own, args.int(1)?, args.int(2)?)
}

/// The geometry at one index of a dimension.
pub fn select_at(own: &Layout, dim: i64, index: i64) -> Result<Layout> {
    if own.rank() == 0 {
        return Err(Error::index("select() cannot be applied to a 0-dim tensor.")
            .hint("A tensor without dimensions has one element: x.item(), or x.reshape(1) to give it a dimension."));
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

/// Behind `x[...]`.
pub static ALIAS: Row = Row {
    name: "_alias",
    variants: Variants::FUNCTION,
    signature: "(Tensor self) -> Tensor",
    doc: "A view of everything.

    >>> torch._alias(torch.tensor([1, 2]))
    tensor([1, 2])",
    dtypes: DTypes::ALL,
    run: Run::View(|args| Ok(args.tensor(0)?.layout().clone())),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| d.grad())]),
    samples: &["t(2, 3)"],
    reference: "self",
    ..Row::BASE
};

/// Behind `x[a:b:c]`, whose bounds are already worked out.
pub static SLICE: Row = Row {
    name: "_slice",
    variants: Variants::FUNCTION,
    signature: "(Tensor self, int dim, int start, int length, int step=1) -> Tensor",
    doc: "A view of `length` elements of `dim` from `start` on, `step` apart, which may be negative.

    >>> torch._slice(torch.arange(6), 0, 5, 3, -2)
    tensor([5, 3, 1])",
    dtypes: DTypes::ALL,
    sparse: Sparse::Body(places::slice),
    run: Run::View(|args| slice(args.tensor(0)?.layout(), args)),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| embed(d, slice))]),
    samples: &["t(5, 2), 0, 1, 2, 2", "t(5), 0, 4, 5, -1", "t(2, 3), 1, 0, 0, 1"],
    errors: &[(
        "t(5), 0, 3, 3, 1",
        "IndexError",
        "slice(): start 3, length 3 and step 1 leave dimension 0 with size 5",
    )],
    ..Row::BASE
};

/// The geometry of a slice.
pub fn slice(own: &Layout, args: &Args) -> Result<Layout> {
    let dim = wrap_dim(args.int(1)?, own.rank())?;
    let (start, length, step) = (args.int(2)? as isize, args.int(3)? as isize, args.int(4)? as isize);
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
pub fn sliced(tensor: &crate::Tensor, dim: usize, start: isize, length: isize, step: isize) -> Result<crate::Tensor> {
    op!(SLICE, tensor, dim, start as i64, length as i64, step as i64)
}

pub static NARROW: Row = Row {
    name: "narrow",
    signature: "(Tensor self, int dim, int start, int length) -> Tensor",
    doc: "A view of `length` indices of `dim` from `start` on.

    >>> torch.narrow(torch.tensor([1, 2, 3, 4]), 0, 1, 2)
    tensor([2, 3])",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| narrow(args.tensor(0)?, args.int(1)?, args.int(2)?, args.int(3)?).map(Output::Tensor)),
    derivative: Derivative::Composed,
    samples: &["t(4, 2), 0, 1, 2", "t(4, 2), 1, -1, 1", "t(3), 0, 3, 0"],
    errors: &[
        ("t(3), 0, 2, 2", "RuntimeError", "start (2) + length (2) exceeds dimension size (3)."),
        ("t(3), 0, 5, 0", "IndexError", "start out of range (expected to be in range of [-3, 3], but got 5)"),
        ("t(3), 0, 0, -1", "RuntimeError", "narrow(): length must be non-negative."),
    ],
    reference: "np.take(self, range(start % (self.shape[dim] + (start >= 0)), start % (self.shape[dim] + (start >= 0)) + length), axis=dim)",
    ..Row::BASE
};

pub static NARROW_TENSOR: Row = Row {
    name: "narrow.Tensor",
    signature: "(Tensor self, int dim, Tensor start, int length) -> Tensor",
    doc: "A view of `length` indices of `dim` from the one that a 0-d tensor of integers names.

    >>> torch.narrow(torch.tensor([1, 2, 3, 4]), 0, torch.tensor(1), 2)
    tensor([2, 3])",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::EachIf(&[2]),
    run: Run::Compose(|args| {
        let start = args.tensor(2)?;
        if start.rank() != 0 || !start.dtype().is_integral() {
            return Err(Error::runtime("start must be an 0-dim integral Tensor."));
        }
        narrow(args.tensor(0)?, args.int(1)?, crate::item(start)?.i64(), args.int(3)?).map(Output::Tensor)
    }),
    derivative: Derivative::Composed,
    samples: &["t(4, 2), 0, torch.tensor(1), 2"],
    reference: "self.take(range(int(start), int(start) + length), dim)",
    ..Row::BASE
};

/// torch's `narrow`, with its checks.
pub fn narrow(tensor: &crate::Tensor, dim: i64, start: i64, length: i64) -> Result<crate::Tensor> {
    if tensor.rank() == 0 {
        return Err(
            Error::runtime("narrow() cannot be applied to a 0-dim tensor.").hint("x.reshape(1) gives it a dimension.")
        );
    }
    if length < 0 {
        return Err(Error::runtime("narrow(): length must be non-negative."));
    }
    let dim = wrap_dim(dim, tensor.rank())?;
    let size = tensor.sizes()[dim] as i64;
    if start < -size || start > size {
        return Err(Error::index(format!(
            "start out of range (expected to be in range of [-{size}, {size}], but got {start})"
        )));
    }
    let start = if start < 0 { start + size } else { start };
    if start > size - length {
        return Err(Error::runtime(format!("start ({start}) + length ({length}) exceeds dimension size ({size})."))
            .hint("Take at most size - start elements."));
    }
    sliced(tensor, dim, start as isize, length as isize, 1)
}

pub static UNBIND: Row = Row {
    name: "unbind",
    signature: "(Tensor self, int dim=0) -> Tensor[]",
    doc: "The views at all indices of `dim`.

    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    sparse: Sparse::Compose(places::unbind),
    run: Run::Views(|args| {
        let own = args.tensor(0)?.layout();
        if own.rank() == 0 {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions")
                .hint("A tensor without dimensions is one element: x.item()."));
        }
        let dim = wrap_dim(args.int(1)?, own.rank())?;
        super::split::room_for_pieces(own.sizes[dim] as i64)?;
        Ok((0..own.sizes[dim]).map(|index| own.select(dim, index)).collect())
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| {
        crate::expr::Expr::new(d.all_grads().and_then(|grads| op!(crate::join::STACK, grads, d.int(1))))
    })]),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), -1"],
    errors: &[("t()", "IndexError", "Dimension specified as 0 but tensor has no dimensions")],
    reference: "[np.take(self, i, axis=dim) for i in range(self.shape[dim])]",
    ..Row::BASE
};

/// What a select at a wrapped index gives, for rows that walk a dimension.
pub fn selected(tensor: &crate::Tensor, dim: usize, index: isize) -> Result<crate::Tensor> {
    SELECT.tensor([tensor.into(), Value::Int(dim as i64), Value::Int(index as i64)])
}
