//! A dimension cut into pieces, each a view.

use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Layout, Result};

use crate::Tensor;
use crate::derive::{Derivative, Derive, Saves, formula};
use crate::expr::Expr;
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits};
use crate::value::{Ints, Output, Value};

pub static SPLIT: Row = Row {
    name: "split",
    signature: "(Tensor self, int split_size, int dim=0) -> Tensor[]",
    doc: "Views of `split_size` indices of `dim` each; the last may be shorter.

    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))",
    dtypes: DTypes::ALL,
    run: Run::Views(|args| {
        let own = args.tensor(0)?.layout();
        if own.rank() == 0 {
            return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
        }
        let step = args.int(1)?;
        if step < 0 {
            return Err(Error::runtime(format!("split expects split_size be non-negative, but got split_size={step}")));
        }
        let dim = wrap_dim(args.int(2)?, own.rank())?;
        pieces_of(own, dim, step as isize)
    }),
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| rejoin(d, d.int(2)))]),
    samples: &["t(5), 2", "t(2, 6), 3, 1", "t(4, 3), 4", "t(4, 3), 9, -1"],
    errors: &[
        ("t(5), -1", "RuntimeError", "split expects split_size be non-negative, but got split_size=-1"),
        ("t(), 1", "RuntimeError", "split expects at least a 1-dimensional tensor"),
        ("t(5), 0", "RuntimeError", "split_size can only be 0 if dimension size is 0, but got dimension size of 5"),
    ],
    reference: "np.split(self, range(split_size, self.shape[dim], split_size), dim)",
    ..Row::BASE
};

fn pieces_of(own: &Layout, dim: usize, step: isize) -> Result<Vec<Layout>> {
    let size = own.sizes[dim];
    if step == 0 {
        if size != 0 {
            return Err(Error::runtime(format!(
                "split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )));
        }
        return Ok(vec![own.clone()]);
    }
    let count = (size.saturating_add(step - 1) / step).max(1);
    room_for_pieces(count as i64)?;
    Ok((0..count).map(|piece| own.slice(dim, piece * step, step.min(size - piece * step), 1)).collect())
}

/// Refuses more pieces than there is memory for; each costs a tensor and its Python object.
pub fn room_for_pieces(count: i64) -> Result<()> {
    rushlight_core::alloc::list::<[u8; 512]>(count as usize).map(drop)
}

/// The pieces' gradients, joined again along `dim`.
pub fn rejoin(d: &Derive, dim: i64) -> Expr {
    Expr::new(d.all_grads().and_then(|grads| op!(crate::join::CAT, grads, dim)))
}

pub static SPLIT_SIZES: Row = Row {
    name: "split.sizes",
    signature: "(Tensor self, int[] split_size, int dim=0) -> Tensor[]",
    doc: "Views of as many indices of `dim` as each entry of `split_size` says.

    >>> torch.split(torch.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))",
    run: Run::Views(|args| by_sizes(args.tensor(0)?, args.ints(1)?, args.int(2)?)),
    node: "SplitWithSizesBackward0",
    samples: &["t(5), [2, 3]", "t(2, 4), [1, 0, 3], 1"],
    errors: &[(
        "t(5), [2, 2]",
        "RuntimeError",
        "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got split_sizes=[2, 2]",
    )],
    reference: "np.split(self, np.cumsum(split_size)[:-1], dim)",
    ..BY_SIZES
};

pub static SPLIT_WITH_SIZES: Row = Row {
    name: "split_with_sizes",
    signature: "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
    doc: "Views of as many indices of `dim` as each entry of `split_sizes` says.

    >>> torch.split_with_sizes(torch.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))",
    run: Run::Views(|args| by_sizes(args.tensor(0)?, args.ints(1)?, args.int(2)?)),
    samples: &["t(5), [2, 3]", "t(2, 4), [1, 0, 3], 1"],
    errors: &[
        (
            "t(5), [2, 2]",
            "RuntimeError",
            "split_with_sizes expects split_sizes to sum exactly to 5 (input tensor's size at dimension 0), but got split_sizes=[2, 2]",
        ),
        (
            "t(5), [6, -1]",
            "RuntimeError",
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=[6, -1]",
        ),
        ("t(), [1]", "RuntimeError", "split expects at least a 1-dimensional tensor"),
    ],
    reference: "np.split(self, np.cumsum(split_sizes)[:-1], dim)",
    ..BY_SIZES
};

const BY_SIZES: Row = Row {
    dtypes: DTypes::ALL,
    derivative: Derivative::Formulas(&[formula(0, Saves::NOTHING, |d| rejoin(d, d.int(2)))]),
    ..Row::BASE
};

fn by_sizes(tensor: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Layout>> {
    let own = tensor.layout();
    if own.rank() == 0 {
        return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
    }
    let dim = wrap_dim(dim, own.rank())?;
    if sizes.iter().any(|&length| length < 0) {
        return Err(Error::runtime(format!(
            "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
            Shape(&to_dims(sizes))
        )));
    }
    let mut start = 0isize;
    let piece = |&length: &i64| {
        let view = own.slice(dim, start, length as isize, 1);
        start = start.saturating_add(length as isize);
        view
    };
    let views: Vec<Layout> = sizes.iter().map(piece).collect();
    if start != own.sizes[dim] {
        return Err(Error::runtime(format!(
            "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {dim}), but got split_sizes={}",
            own.sizes[dim],
            Shape(&to_dims(sizes))
        )));
    }
    Ok(views)
}

pub static CHUNK: Row = Row {
    name: "chunk",
    signature: "(Tensor self, int chunks, int dim=0) -> Tensor[]",
    doc: "Views of equal length along `dim`, at most `chunks` of them; the last may be shorter.

    >>> torch.chunk(torch.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| {
        let (tensor, chunks) = (args.tensor(0)?, args.int(1)?);
        if tensor.rank() == 0 {
            return Err(Error::runtime("chunk expects at least a 1-dimensional tensor"));
        }
        if chunks <= 0 {
            return Err(Error::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        let dim = wrap_dim(args.int(2)?, tensor.rank())?;
        let size = tensor.sizes()[dim] as i64;
        let step = size.saturating_add(chunks - 1) / chunks;
        if step == 0 {
            room_for_pieces(chunks)?;
            let sizes = Ints::from_elem(0, chunks as usize);
            return SPLIT_WITH_SIZES.call([tensor.into(), Value::Ints(sizes), Value::Int(dim as i64)]);
        }
        SPLIT.call([tensor.into(), Value::Int(step), Value::Int(dim as i64)])
    }),
    derivative: Derivative::Composed,
    samples: &["t(5), 3", "t(2, 4), 2, 1", "t(3), 7"],
    errors: &[("t(5), 0", "RuntimeError", "chunk expects `chunks` to be greater than 0, got: 0")],
    reference: "np.split(self, range(-(-self.shape[dim] // chunks), self.shape[dim], -(-self.shape[dim] // chunks)), dim)",
    ..Row::BASE
};

pub static TENSOR_SPLIT: Row = Row {
    name: "tensor_split",
    signature: "(Tensor self, int sections, int dim=0) -> Tensor[]",
    doc: "`sections` views along `dim`, the first ones longer by one where it does not divide.

    >>> torch.tensor_split(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| sections(args.tensor(0)?, args.int(1)?, args.int(2)?).map(Output::List)),
    derivative: Derivative::Composed,
    samples: &["t(5), 2", "t(2, 4), 3, 1", "t(3), 5"],
    errors: &[("t(5), 0", "RuntimeError", "number of sections must be larger than 0, got 0")],
    reference: "np.array_split(self, sections, dim)",
    ..Row::BASE
};

pub static TENSOR_SPLIT_INDICES: Row = Row {
    name: "tensor_split.indices",
    signature: "(Tensor self, int[] indices, int dim=0) -> Tensor[]",
    doc: "Views along `dim`, cut before each of `indices`.

    >>> torch.tensor_split(torch.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    run: Run::Compose(|args| cut(args.tensor(0)?, args.ints(1)?, args.int(2)?).map(Output::List)),
    derivative: Derivative::Composed,
    samples: &["t(5), (1, 3)", "t(2, 4), (-1,), 1", "t(3), (5, 1)"],
    reference: "np.array_split(self, indices, dim)",
    ..Row::BASE
};

pub static TENSOR_SPLIT_TENSOR: Row = Row {
    name: "tensor_split.tensor_indices_or_sections",
    signature: "(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]",
    doc: "Views along `dim`: as many as a 0-d tensor says, or cut before each index in a tensor.

    >>> torch.tensor_split(torch.arange(5), torch.tensor([1, 3]))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::EachIf(&[1]),
    run: Run::Compose(|args| {
        let (tensor, places) = (args.tensor(0)?, args.tensor(1)?);
        if places.dtype() != crate::DType::I64 {
            return Err(Error::runtime(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ".to_owned()
                    + places.dtype().title(),
            ));
        }
        if places.device() != crate::Device::Cpu {
            return Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
                places.device()
            )));
        }
        let list = crate::to_vec::<i64>(places)?;
        match (places.rank(), list.as_slice()) {
            (0, [count]) => sections(tensor, *count, args.int(2)?),
            (1, indices) => cut(tensor, indices, args.int(2)?),
            (rank, _) => Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a tensor with {rank} dims"
            ))),
        }
        .map(Output::List)
    }),
    derivative: Derivative::Composed,
    samples: &["t(5), torch.tensor([1, 3])", "t(5), torch.tensor(2)"],
    reference: "np.array_split(self, tensor_indices_or_sections, dim)",
    ..Row::BASE
};

fn sections(tensor: &Tensor, count: i64, dim: i64) -> Result<Vec<Tensor>> {
    if tensor.rank() == 0 {
        return Err(Error::runtime(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ));
    }
    let dim = wrap_dim(dim, tensor.rank())?;
    if count <= 0 {
        return Err(Error::runtime(format!("number of sections must be larger than 0, got {count}")));
    }
    room_for_pieces(count)?;
    let (size, count) = (tensor.sizes()[dim], count as isize);
    let start = |piece: isize| piece * (size / count) + piece.min(size % count);
    (0..count)
        .map(|piece| super::narrow::sliced(tensor, dim, start(piece), start(piece + 1) - start(piece), 1))
        .collect()
}

fn cut(tensor: &Tensor, indices: &[i64], dim: i64) -> Result<Vec<Tensor>> {
    if tensor.rank() == 0 {
        return Err(Error::runtime(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims",
        ));
    }
    let dim = wrap_dim(dim, tensor.rank())?;
    let size = tensor.sizes()[dim];
    let bound = |index: i64| (if index < 0 { index as isize + size } else { index as isize }).clamp(0, size);
    let starts = std::iter::once(0).chain(indices.iter().map(|&index| bound(index)));
    let ends = indices.iter().map(|&index| bound(index)).chain([size]);
    starts.zip(ends).map(|(start, end)| super::narrow::sliced(tensor, dim, start, (end - start).max(0), 1)).collect()
}

macro_rules! named_splits {
    ($($count:ident $places:ident $name:literal $list:literal $dim:expr, $least:literal, $reference:literal $list_reference:literal $sample:literal $list_sample:literal $errors:expr, $list_errors:expr, $doc:literal $list_doc:literal;)*) => {$(
        pub static $count: Row = Row {
            name: $name,
            signature: "(Tensor self, int sections) -> Tensor[]",
            doc: $doc,
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| {
                let tensor = args.tensor(0)?;
                let dim = named_dim(tensor, $name, $least, $dim)?;
                let (count, size) = (args.int(1)?, tensor.sizes()[dim] as i64);
                if count == 0 || size % count != 0 {
                    return Err(Error::runtime(format!(
                        "{} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by the split_size {count}!",
                        concat!("torch.", $name)
                    )).hint("Give the places to split at, or use torch.tensor_split, whose parts may differ in size."));
                }
                sections(tensor, count, dim as i64).map(Output::List)
            }),
            derivative: Derivative::Composed,
            samples: &[$sample],
            errors: $errors,
            reference: $reference,
            ..Row::BASE
        };

        pub static $places: Row = Row {
            name: $list,
            signature: "(Tensor self, int[] indices) -> Tensor[]",
            doc: $list_doc,
            dtypes: DTypes::ALL,
            run: Run::Compose(|args| {
                let tensor = args.tensor(0)?;
                let dim = named_dim(tensor, $name, $least, $dim)?;
                cut(tensor, args.ints(1)?, dim as i64).map(Output::List)
            }),
            derivative: Derivative::Composed,
            samples: &[$list_sample],
            errors: $list_errors,
            reference: $list_reference,
            ..Row::BASE
        };
    )*};
}

fn named_dim(tensor: &Tensor, name: &str, least: usize, dim: fn(usize) -> usize) -> Result<usize> {
    if tensor.rank() < least {
        return Err(Error::runtime(format!(
            "torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {} dimensions!",
            tensor.rank()
        )));
    }
    Ok(dim(tensor.rank()))
}

named_splits! {
    HSPLIT HSPLIT_INDICES "hsplit" "hsplit.array" |rank| usize::from(rank > 1), 1,
        "np.hsplit(self, sections)" "np.hsplit(self, indices)" "t(2, 4), 2" "t(2, 4), (1, 3)"
        &[
            ("t(), 2", "RuntimeError", "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!"),
            ("t(2, 5), 2", "RuntimeError", "torch.hsplit attempted to split along dimension 1, but the size of the dimension 5 is not divisible by the split_size 2!"),
        ],
        &[("t(), (1,)", "RuntimeError", "torch.hsplit requires a tensor with at least 1 dimension, but got a tensor with 0 dimensions!")],
        "Equal views along the columns (a vector's only dimension).

    >>> torch.hsplit(torch.tensor([1, 2, 3, 4]), 2)
    (tensor([1, 2]), tensor([3, 4]))"
        "Views along the columns, cut before each of `indices`.

    >>> torch.hsplit(torch.tensor([1, 2, 3, 4]), (1,))
    (tensor([1]), tensor([2, 3, 4]))";
    VSPLIT VSPLIT_INDICES "vsplit" "vsplit.array" |_| 0, 2,
        "np.vsplit(self, sections)" "np.vsplit(self, indices)" "t(4, 2), 2" "t(4, 2), (1, 3)"
        &[
            ("t(4), 2", "RuntimeError", "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with 1 dimensions!"),
            ("t(5, 2), 2", "RuntimeError", "torch.vsplit attempted to split along dimension 0, but the size of the dimension 5 is not divisible by the split_size 2!"),
        ],
        &[("t(4), (1,)", "RuntimeError", "torch.vsplit requires a tensor with at least 2 dimension, but got a tensor with 1 dimensions!")],
        "Equal views along the rows.

    >>> torch.vsplit(torch.tensor([[1], [2]]), 2)
    (tensor([[1]]), tensor([[2]]))"
        "Views along the rows, cut before each of `indices`.

    >>> torch.vsplit(torch.tensor([[1], [2]]), (1,))
    (tensor([[1]]), tensor([[2]]))";
    DSPLIT DSPLIT_INDICES "dsplit" "dsplit.array" |_| 2, 3,
        "np.dsplit(self, sections)" "np.dsplit(self, indices)" "t(2, 3, 4), 2" "t(2, 3, 4), (1, 3)"
        &[
            ("t(4, 2), 2", "RuntimeError", "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with 2 dimensions!"),
            ("t(2, 2, 5), 2", "RuntimeError", "torch.dsplit attempted to split along dimension 2, but the size of the dimension 5 is not divisible by the split_size 2!"),
        ],
        &[("t(4, 2), (1,)", "RuntimeError", "torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with 2 dimensions!")],
        "Equal views along the third dimension.

    >>> torch.dsplit(torch.tensor([[[1, 2]]]), 2)
    (tensor([[[1]]]), tensor([[[2]]]))"
        "Views along the third dimension, cut before each of `indices`.

    >>> torch.dsplit(torch.tensor([[[1, 2]]]), (1,))
    (tensor([[[1]]]), tensor([[[2]]]))";
}
