//! Joining and splitting dimensions, always by `view` or `reshape`.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, checked_numel, to_dims, wrap_dim};
use rushlight_core::{Error, Result};
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{DTypes, Derivative, Implementation, Operator, Tags, Variants, operator};
use rushlight_dispatch::value::{Ints, Output, sizes_value};

use crate::view::RESHAPE;
use crate::view::reshape::VIEW;

const BASE: Operator = Operator { dtypes: DTypes::ALL, derivative: Derivative::CompositeImplicit, ..Operator::BASE };

#[operator]
pub static FLATTEN: Operator = Operator {
    name: "flatten",
    signature: "(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    doc: "The dimensions from `start_dim` to `end_dim` joined into one.

    >>> torch.flatten(torch.zeros(2, 3, 4), 1).shape
    torch.Size([2, 12])",
    implementation: Implementation::CompositeImplicit(|args| {
        let tensor = args.tensor(INPUT)?;
        let rank = tensor.rank();
        let (start, end) = (wrap_dim(args.int(START_DIM)?, rank)?, wrap_dim(args.int(END_DIM)?, rank)?);
        if start > end {
            return Err(Error::runtime("flatten() has invalid args: start_dim cannot come after end_dim")
                .hint("Dimensions from start_dim to end_dim are joined; negative dimensions count from the end."));
        }
        if rank == 0 {
            return RESHAPE.call([tensor.into(), sizes_value(&[1])]);
        }
        if start == end {
            return Ok(Output::Tensor(tensor.clone()));
        }
        let mut sizes = tensor.sizes().clone();
        // A transposed tensor without elements may have any sizes before the one of zero.
        let joined = checked_numel(&sizes[start..=end])? as isize;
        sizes.drain(start..=end);
        sizes.insert(start, joined);
        RESHAPE.call([tensor.into(), sizes_value(&sizes)])
    }),
    samples: &["t(2, 3, 4)", "t(2, 3, 4), 1", "t(2, 3, 4), 0, 1", "t()"],
    errors: &[("t(2, 3), 1, 0", "RuntimeError", "flatten() has invalid args: start_dim cannot come after end_dim")],
    reference: "self.reshape(self.shape[:start_dim] + (-1,) + self.shape[end_dim % self.ndim + 1:]) if self.ndim else self.reshape(1)",
    ..BASE
};

#[operator]
pub static UNFLATTEN: Operator = Operator {
    name: "unflatten",
    signature: "(Tensor self, int dim, int[] sizes) -> Tensor",
    doc: "One dimension split into several; one of `sizes` may be -1.

    >>> torch.unflatten(torch.zeros(2, 12), 1, (3, -1)).shape
    torch.Size([2, 3, 4])",
    implementation: Implementation::CompositeImplicit(|args| {
        let tensor = args.tensor(INPUT)?;
        let dim = wrap_dim(args.int(DIM)?, tensor.rank())?;
        let wanted = args.ints(SIZES)?;
        if wanted.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        let own = tensor.sizes().get(dim).copied().unwrap_or(1);
        if tensor.rank() == 0
            || wanted.iter().any(|size| *size < -1)
            || wanted.iter().filter(|size| **size == -1).count() > 1
        {
            return Err(Error::runtime("unflatten got an unexpected error:"));
        }
        let inner = rushlight_core::layout::infer_size(wanted, own as usize).map_err(|_| {
            let (known, message) = (to_dims(wanted), "don't multiply up to the size of dim");
            Error::runtime(format!(
                "unflatten: Provided sizes {} {message} {dim} ({own}) in the input tensor",
                Shape(&known)
            ))
            .hint(format!("The sizes must multiply to {own}; one of them may be -1 and is then inferred."))
        })?;
        let mut sizes = tensor.sizes().clone();
        if dim < sizes.len() {
            sizes.remove(dim);
        }
        sizes.insert_from_slice(dim, &inner);
        VIEW.call([tensor.into(), sizes_value(&sizes)])
    }),
    samples: &["t(2, 12), 1, (3, -1)", "t(6), 0, (2, 3)"],
    errors: &[(
        "t(2, 5), 1, (2, 2)",
        "RuntimeError",
        "unflatten: Provided sizes [2, 2] don't multiply up to the size of dim 1 (5) in the input tensor",
    )],
    reference: "self.reshape(self.shape[:dim] + tuple(sizes) + self.shape[dim % self.ndim + 1:])",
    ..BASE
};

#[operator]
pub static RAVEL: Operator = Operator {
    name: "ravel",
    signature: "(Tensor self) -> Tensor",
    doc: "The elements in one dimension, row-major; a view if possible.

    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])",
    implementation: Implementation::CompositeImplicit(|args| {
        let whole = crate::convert::contiguous(args.tensor(INPUT)?)?;
        VIEW.call([whole.into(), sizes_value(&[-1])])
    }),
    samples: &["t(2, 3)", "t(2, 3).t()", "t()"],
    reference: "np.ravel(self)",
    ..BASE
};

#[operator]
pub static VIEW_AS: Operator = Operator {
    name: "view_as",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "A view with the sizes of `other`.

    >>> torch.arange(4).view_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    tags: Tags::STRIDE_DEPENDENT.union(Tags::MIXED_DEVICES),
    implementation: Implementation::CompositeImplicit(|args| {
        VIEW.call([args.tensor(INPUT)?.into(), sizes_value(args.tensor(OTHER)?.sizes())])
    }),
    samples: &["t(2, 3), t(3, 2)"],
    errors: &[
        ("t(2, 3), t(4)", "RuntimeError", "shape '[4]' is invalid for input of size 6"),
        (
            "t(2, 3).t(), t(6)",
            "RuntimeError",
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces). Use .reshape(...) instead.",
        ),
    ],
    reference: "np.reshape(self, other.shape)",
    ..BASE
};

#[operator]
pub static RESHAPE_AS: Operator = Operator {
    name: "reshape_as",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The same elements with the sizes of `other`.

    >>> torch.arange(4).reshape_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    tags: Tags::MIXED_DEVICES,
    implementation: Implementation::CompositeImplicit(|args| {
        RESHAPE.call([args.tensor(INPUT)?.into(), sizes_value(args.tensor(OTHER)?.sizes())])
    }),
    samples: &["t(2, 3), t(3, 2)", "t(2, 3).t(), t(6)"],
    errors: &[("t(2, 3), t(4)", "RuntimeError", "shape '[4]' is invalid for input of size 6")],
    reference: "np.reshape(self, other.shape)",
    ..BASE
};

pub fn atleast_1d(tensor: &Tensor) -> Result<Tensor> {
    if tensor.rank() == 0 { op!(RESHAPE, tensor, Ints::from_slice(&[1])) } else { Ok(tensor.clone()) }
}

pub fn atleast_2d(tensor: &Tensor) -> Result<Tensor> {
    match tensor.rank() {
        0 => op!(RESHAPE, tensor, Ints::from_slice(&[1, 1])),
        1 => op!(super::squeeze::UNSQUEEZE, tensor, 0i64),
        _ => Ok(tensor.clone()),
    }
}

fn atleast_3d(tensor: &Tensor) -> Result<Tensor> {
    match tensor.rank() {
        0 => op!(RESHAPE, tensor, Ints::from_slice(&[1, 1, 1])),
        1 => op!(super::squeeze::UNSQUEEZE, op!(super::squeeze::UNSQUEEZE, tensor, 0i64)?, -1i64),
        2 => op!(super::squeeze::UNSQUEEZE, tensor, -1i64),
        _ => Ok(tensor.clone()),
    }
}

macro_rules! atleast {
    ($($one:ident $many:ident $name:literal $list:literal $function:ident $reference:literal $doc:literal $many_doc:literal;)*) => {$(
        #[operator]
        pub static $one: Operator = Operator {
            name: $name,
            variants: Variants::FUNCTION,
            signature: "(Tensor self) -> Tensor",
            doc: $doc,
            implementation: Implementation::CompositeImplicit(|args| $function(args.tensor(INPUT)?).map(Output::Tensor)),
            samples: &["t()", "t(2)", "t(2, 3)", "t(2, 1, 3)"],
            errors: &[(
                "1",
                "TypeError",
                concat!($name, "() received an invalid combination of arguments - got (int), but expected one of:"),
            )],
            reference: $reference,
            ..BASE
        };

        #[operator]
        pub static $many: Operator = Operator {
            name: $list,
            variants: Variants::FUNCTION,
            signature: "(Tensor[] *tensors) -> Tensor[]",
            doc: $many_doc,
            implementation: Implementation::CompositeImplicit(|args| {
                let tensors = args.tensors(TENSORS)?;
                tensors.into_iter().map($function).collect::<Result<Vec<_>>>().map(Output::List)
            }),
            samples: &["[t(), t(2)]"],
            reference: concat!("[np.", $name, "(x) for x in tensors]"),
            ..BASE
        };
    )*};
}

atleast! {
    ATLEAST_1D ATLEAST_1D_LIST "atleast_1d" "atleast_1d.Sequence" atleast_1d "np.atleast_1d(self)"
        "The tensor with at least one dimension.

    >>> torch.atleast_1d(torch.tensor(5))
    tensor([5])"
        "Each tensor with at least one dimension.

    >>> torch.atleast_1d([torch.tensor(5), torch.tensor([6])])
    (tensor([5]), tensor([6]))";
    ATLEAST_2D ATLEAST_2D_LIST "atleast_2d" "atleast_2d.Sequence" atleast_2d "np.atleast_2d(self)"
        "The tensor with at least two dimensions; new ones come first.

    >>> torch.atleast_2d(torch.tensor([5, 6]))
    tensor([[5, 6]])"
        "Each tensor with at least two dimensions.

    >>> torch.atleast_2d([torch.tensor([5])])
    (tensor([[5]]),)";
    ATLEAST_3D ATLEAST_3D_LIST "atleast_3d" "atleast_3d.Sequence" atleast_3d "np.atleast_3d(self)"
        "The tensor with at least three dimensions; new ones are added at both ends.

    >>> torch.atleast_3d(torch.tensor([5, 6])).shape
    torch.Size([1, 2, 1])"
        "Each tensor with at least three dimensions.

    >>> torch.atleast_3d([torch.tensor([5])])
    (tensor([[[5]]]),)";
}
