//! Expanding dimensions of size one, without a copy.

use rushlight_core::layout::{Shape, numel_overflow, to_dims};
use rushlight_core::{Dims, Error, Layout, Result};
use rushlight_dispatch::operator::{
    Args, DTypes, Derivative, Implementation, Operator, Saves, Tags, Variants, formula, operator,
};
use rushlight_dispatch::value::sizes_value;

use crate::expr_ext::ExprExt;

#[operator]
pub static EXPAND: Operator = Operator {
    name: "expand",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] size, *, bool implicit=False) -> Tensor",
    doc: "A view in which dimensions of size one are expanded to `size` (stride 0); -1 keeps a dimension.

    >>> torch.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])",
    dtypes: DTypes::ALL,
    tags: Tags::KEEPS_CHANNELS,
    implementation: Implementation::View(layout),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| d.grad().sum_to(d.sizes(INPUT)))]),
    samples: &["t(2, 1), (2, 3)", "t(3), (2, -1)", "t(), (2, 2)"],
    errors: &[(
        "t(2, 3), (2, 4)",
        "RuntimeError",
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]",
    )],
    reference: "np.broadcast_to(self, [s if w == -1 else w for w, s in zip(size, (1,) * (len(size) - self.ndim) + self.shape)])",
    ..Operator::BASE
};

#[operator]
pub static EXPAND_AS: Operator = Operator {
    name: "expand_as",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "A view expanded to the shape of `other`.

    >>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 2))
    tensor([[1, 1],
            [2, 2]])",
    dtypes: DTypes::ALL,
    tags: Tags::MIXED_DEVICES,
    implementation: Implementation::CompositeImplicit(|args| {
        EXPAND.call([args.tensor(INPUT)?.into(), sizes_value(args.tensor(OTHER)?.sizes())])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 1), t(2, 3)"],
    errors: &[
        (
            "t(2, 3), t(4)",
            "RuntimeError",
            "expand(torch.FloatTensor{[2, 3]}, size=[4]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
        (
            "t(2,3), t(3)",
            "RuntimeError",
            "expand(torch.FloatTensor{[2, 3]}, size=[3]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
    ],
    reference: "np.broadcast_to(self, other.shape)",
    ..Operator::BASE
};

#[operator]
pub static BROADCAST_TO: Operator = Operator {
    name: "broadcast_to",
    signature: "(Tensor self, int[] size) -> Tensor",
    doc: "A view expanded to `size`; another name of `expand`.

    >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        EXPAND.call([args.tensor(INPUT)?.into(), args.ints(SIZE)?.into()])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 1), (2, 3)", "t(3), (2, 3)"],
    errors: &[
        (
            "t(2, 3), (4,)",
            "RuntimeError",
            "expand(torch.FloatTensor{[2, 3]}, size=[4]): the number of sizes provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
        ),
        (
            "t(2, 3), (2, 4)",
            "RuntimeError",
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1.  Target sizes: [2, 4].  Tensor sizes: [2, 3]",
        ),
        (
            "t(2), (-1, 2)",
            "RuntimeError",
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension 0",
        ),
    ],
    reference: "np.broadcast_to(self, size)",
    ..Operator::BASE
};

fn layout(args: &Args) -> Result<Layout> {
    use EXPAND::*;

    let input = args.tensor(INPUT)?;
    stretched(input.layout(), || input.dtype().class_name(input.device()), to_dims(args.ints(SIZE)?))
}

/// A layout expanded to `sizes`, or torch's error, which names the tensor's class.
pub fn stretched(own: &Layout, class: impl Fn() -> String, mut sizes: Dims) -> Result<Layout> {
    if sizes.len() < own.rank() {
        return Err(Error::runtime(format!(
            "expand({}{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of dimensions in the tensor ({})",
            class(),
            Shape(&own.sizes),
            Shape(&sizes),
            sizes.len(),
            own.rank()
        )));
    }
    let missing = sizes.len() - own.rank();
    let wanted = sizes.clone();
    for dim in (0..sizes.len()).rev() {
        let existing = if dim < missing { None } else { Some(own.sizes[dim - missing]) };
        match (sizes[dim], existing) {
            (-1, Some(size)) => sizes[dim] = size,
            (-1, None) if own.rank() > 0 => {
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {dim}"
                ))
                .hint("-1 keeps an existing size; a new dimension needs an explicit size."));
            }
            (size, Some(existing)) if existing != 1 && existing != size => {
                return Err(Error::runtime(format!(
                    "The expanded size of the tensor ({size}) must match the existing size ({existing}) at non-singleton dimension {dim}.  Target sizes: {}.  Tensor sizes: {}",
                    Shape(&wanted), Shape(&own.sizes)
                ))
                .shapes([own.sizes.as_slice(), wanted.as_slice()])
                .from_right()
                .axis(dim));
            }
            (size, _) if size < 0 => {
                return Err(numel_overflow(&wanted));
            }
            _ => {}
        }
    }
    // Elements are counted from the first size on, so that a later size of zero does not help.
    if sizes.iter().try_fold(1isize, |numel, &size| numel.checked_mul(size)).is_none() {
        return Err(numel_overflow(&sizes));
    }
    let mut layout = own.broadcast_to(&sizes)?;
    if own.rank() > 0 {
        // torch's strides of new dimensions of size one; no element depends on them.
        for dim in (0..missing).rev().filter(|&dim| sizes[dim] == 1) {
            layout.strides[dim] = layout.sizes[dim + 1].saturating_mul(layout.strides[dim + 1]);
        }
    }
    Ok(layout)
}
