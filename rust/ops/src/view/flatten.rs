//! Dimensions joined and taken apart, always by `view` or `reshape`.

use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Result};

use crate::Tensor;
use crate::derive::Derivative;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Ints, Output};
use crate::view::RESHAPE;
use crate::view::reshape::{VIEW, sizes_value};

const BASE: Row = Row { dtypes: DTypes::ALL, derivative: Derivative::Composed, ..Row::BASE };

pub static FLATTEN: Row = Row {
    name: "flatten",
    signature: "(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor",
    doc: "The dimensions from `start_dim` to `end_dim` joined into one.

    >>> torch.flatten(torch.zeros(2, 3, 4), 1).shape
    torch.Size([2, 12])",
    run: Run::Compose(|args| {
        let tensor = args.tensor(0)?;
        let rank = tensor.rank();
        let (start, end) = (wrap_dim(args.int(1)?, rank)?, wrap_dim(args.int(2)?, rank)?);
        if start > end {
            return Err(Error::runtime("flatten() has invalid args: start_dim cannot come after end_dim")
                .hint("Dimensions from start_dim to end_dim become one; a negative one counts from the end."));
        }
        if rank == 0 {
            return RESHAPE.call([tensor.into(), sizes_value(&[1])]);
        }
        if start == end {
            return Ok(Output::Tensor(tensor.clone()));
        }
        let mut sizes = tensor.sizes().clone();
        let joined = sizes.drain(start..=end).product();
        sizes.insert(start, joined);
        RESHAPE.call([tensor.into(), sizes_value(&sizes)])
    }),
    samples: &["t(2, 3, 4)", "t(2, 3, 4), 1", "t(2, 3, 4), 0, 1", "t()"],
    errors: &[("t(2, 3), 1, 0", "RuntimeError", "flatten() has invalid args: start_dim cannot come after end_dim")],
    reference: "self.reshape(self.shape[:start_dim] + (-1,) + self.shape[end_dim % self.ndim + 1:]) if self.ndim else self.reshape(1)",
    ..BASE
};

pub static UNFLATTEN: Row = Row {
    name: "unflatten",
    signature: "(Tensor self, int dim, int[] sizes) -> Tensor",
    doc: "One dimension taken apart into several; one of `sizes` may be -1.

    >>> torch.unflatten(torch.zeros(2, 12), 1, (3, -1)).shape
    torch.Size([2, 3, 4])",
    run: Run::Compose(|args| {
        let tensor = args.tensor(0)?;
        let dim = wrap_dim(args.int(1)?, tensor.rank())?;
        let wanted = args.ints(2)?;
        if wanted.is_empty() {
            return Err(Error::runtime("unflatten: sizes must be non-empty"));
        }
        let own = tensor.sizes().get(dim).copied().unwrap_or(1);
        let inner = rushlight_core::layout::infer_size(wanted, own as usize).map_err(|_| {
            let (known, message) = (to_dims(wanted), "don't multiply up to the size of dim");
            Error::runtime(format!(
                "unflatten: Provided sizes {} {message} {dim} ({own}) in the input tensor",
                Shape(&known)
            ))
            .hint(format!("Sizes multiply to {own}; -1 stands for the one that makes them."))
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

pub static RAVEL: Row = Row {
    name: "ravel",
    signature: "(Tensor self) -> Tensor",
    doc: "The elements in one dimension, row-major; a view where that is possible.

    >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 2, 3, 4])",
    run: Run::Compose(|args| {
        let whole = crate::convert::contiguous(args.tensor(0)?)?;
        VIEW.call([whole.into(), sizes_value(&[-1])])
    }),
    samples: &["t(2, 3)", "t(2, 3).t()", "t()"],
    reference: "np.ravel(self)",
    ..BASE
};

pub static VIEW_AS: Row = Row {
    name: "view_as",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "A view with the sizes of `other`.

    >>> torch.arange(4).view_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    traits: Traits::SEES_MEMORY,
    run: Run::Compose(|args| VIEW.call([args.tensor(0)?.into(), sizes_value(args.tensor(1)?.sizes())])),
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

pub static RESHAPE_AS: Row = Row {
    name: "reshape_as",
    variants: Variants::METHOD,
    signature: "(Tensor self, Tensor other) -> Tensor",
    doc: "The same elements with the sizes of `other`.

    >>> torch.arange(4).reshape_as(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])",
    run: Run::Compose(|args| RESHAPE.call([args.tensor(0)?.into(), sizes_value(args.tensor(1)?.sizes())])),
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
        pub static $one: Row = Row {
            name: $name,
            variants: Variants::FUNCTION,
            signature: "(Tensor self) -> Tensor",
            doc: $doc,
            run: Run::Compose(|args| $function(args.tensor(0)?).map(Output::Tensor)),
            samples: &["t()", "t(2)", "t(2, 3)", "t(2, 1, 3)"],
            errors: &[(
                "1",
                "TypeError",
                concat!($name, "() received an invalid combination of arguments - got (int), but expected one of:"),
            )],
            reference: $reference,
            ..BASE
        };

        pub static $many: Row = Row {
            name: $list,
            variants: Variants::FUNCTION,
            signature: "(Tensor[] *tensors) -> Tensor[]",
            doc: $many_doc,
            run: Run::Compose(|args| {
                let tensors = args.tensors(0)?;
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
        "The tensor with one dimension at least.

    >>> torch.atleast_1d(torch.tensor(5))
    tensor([5])"
        "Each tensor with one dimension at least.

    >>> torch.atleast_1d([torch.tensor(5), torch.tensor([6])])
    (tensor([5]), tensor([6]))";
    ATLEAST_2D ATLEAST_2D_LIST "atleast_2d" "atleast_2d.Sequence" atleast_2d "np.atleast_2d(self)"
        "The tensor with two dimensions at least, new ones in front.

    >>> torch.atleast_2d(torch.tensor([5, 6]))
    tensor([[5, 6]])"
        "Each tensor with two dimensions at least.

    >>> torch.atleast_2d([torch.tensor([5])])
    (tensor([[5]]),)";
    ATLEAST_3D ATLEAST_3D_LIST "atleast_3d" "atleast_3d.Sequence" atleast_3d "np.atleast_3d(self)"
        "The tensor with three dimensions at least, new ones at both ends.

    >>> torch.atleast_3d(torch.tensor([5, 6])).shape
    torch.Size([1, 2, 1])"
        "Each tensor with three dimensions at least.

    >>> torch.atleast_3d([torch.tensor([5])])
    (tensor([[[5]]]),)";
}
