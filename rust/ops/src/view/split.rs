//! Splitting a dimension into views.

use rushlight_autograd::Tensor;
use rushlight_core::layout::{Shape, to_dims, wrap_dim};
use rushlight_core::{Error, Layout, Result};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    BackwardContext, BatchRule, DTypes, Derivative, Implementation, Operator, Saves, Sparse, Tags, formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value};

use crate::join::STACK;

#[operator]
pub static SPLIT: Operator = Operator {
    name: "split",
    signature: "(Tensor self, int split_size, int dim=0) -> Tensor[]",
    doc: "Views of `split_size` indices of `dim` each; the last may be shorter.

    >>> torch.split(torch.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))",
    dtypes: DTypes::ALL,
    implementation: Implementation::MultiView(|args| {
        let layout = args.tensor(INPUT)?.layout();
        if layout.rank() == 0 {
            return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
        }
        let step = args.int(SPLIT_SIZE)?;
        if step < 0 {
            return Err(Error::runtime(format!("split expects split_size be non-negative, but got split_size={step}")));
        }
        let dim = wrap_dim(args.int(DIM)?, layout.rank())?;
        pieces_of(layout, dim, step as isize)
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| rejoin(d, d.int(DIM)))]),
    samples: &["t(5), 2", "t(2, 6), 3, 1", "t(4, 3), 4", "t(4, 3), 9, -1"],
    errors: &[
        ("t(5), -1", "RuntimeError", "split expects split_size be non-negative, but got split_size=-1"),
        ("t(), 1", "RuntimeError", "split expects at least a 1-dimensional tensor"),
        ("t(5), 0", "RuntimeError", "split_size can only be 0 if dimension size is 0, but got dimension size of 5"),
    ],
    reference: "np.split(self, range(split_size, self.shape[dim], split_size), dim)",
    ..Operator::BASE
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
    check_piece_count(count as i64)?;
    Ok((0..count).map(|piece| own.slice(dim, piece * step, step.min(size - piece * step), 1)).collect())
}

/// Returns an error for more pieces than memory allows; each costs a tensor and its Python object.
pub fn check_piece_count(count: i64) -> Result<()> {
    rushlight_core::alloc::list::<[u8; 512]>(count as usize).map(drop)
}

/// The pieces' gradients, concatenated along `dim`.
pub fn rejoin(d: &BackwardContext, dim: i64) -> Expr {
    Expr::new(d.all_grads().and_then(|grads| op!(crate::join::CAT, grads, dim)))
}

#[operator]
pub static SPLIT_SIZES: Operator = Operator {
    name: "split.sizes",
    signature: "(Tensor self, int[] split_size, int dim=0) -> Tensor[]",
    doc: "Views of `dim` whose lengths are the entries of `split_size`.

    >>> torch.split(torch.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))",
    implementation: Implementation::MultiView(|args| {
        by_sizes(args.tensor(INPUT)?, args.ints(SPLIT_SIZE)?, args.int(DIM)?)
    }),
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

#[operator]
pub static SPLIT_WITH_SIZES: Operator = Operator {
    name: "split_with_sizes",
    signature: "(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]",
    doc: "Views of `dim` whose lengths are the entries of `split_sizes`.

    >>> torch.split_with_sizes(torch.arange(5), [2, 3])
    (tensor([0, 1]), tensor([2, 3, 4]))",
    implementation: Implementation::MultiView(|args| {
        by_sizes(args.tensor(INPUT)?, args.ints(SPLIT_SIZES)?, args.int(DIM)?)
    }),
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

const BY_SIZES: Operator = Operator {
    dtypes: DTypes::ALL,
    derivative: Derivative::Formulas(&[formula(SPLIT_SIZES::INPUT, Saves::NOTHING, |d| {
        rejoin(d, d.int(SPLIT_SIZES::DIM))
    })]),
    ..Operator::BASE
};

fn by_sizes(tensor: &Tensor, sizes: &[i64], dim: i64) -> Result<Vec<Layout>> {
    let own = tensor.layout();
    if own.rank() == 0 {
        return Err(Error::runtime("split expects at least a 1-dimensional tensor"));
    }
    let (given, dim) = (dim, wrap_dim(dim, own.rank())?);
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
            "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {given}), but got split_sizes={}",
            own.sizes[dim],
            Shape(&to_dims(sizes))
        )));
    }
    Ok(views)
}

#[operator]
pub static CHUNK: Operator = Operator {
    name: "chunk",
    signature: "(Tensor self, int chunks, int dim=0) -> Tensor[]",
    doc: "Views of equal length along `dim`, at most `chunks` of them; the last may be shorter.

    >>> torch.chunk(torch.arange(5), 3)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (tensor, chunks) = (args.tensor(INPUT)?, args.int(CHUNKS)?);
        if tensor.rank() == 0 {
            return Err(Error::runtime("chunk expects at least a 1-dimensional tensor"));
        }
        if chunks <= 0 {
            return Err(Error::runtime(format!("chunk expects `chunks` to be greater than 0, got: {chunks}")));
        }
        let dim = wrap_dim(args.int(DIM)?, tensor.rank())?;
        let size = tensor.sizes()[dim] as i64;
        // The sum wraps, as in torch, and a step of zero is refused.
        let step = size.wrapping_add(chunks - 1) / chunks;
        if step == 0 && size == 0 {
            check_piece_count(chunks)?;
            let sizes = Ints::from_elem(0, chunks as usize);
            return SPLIT_WITH_SIZES.call([tensor.into(), Value::Ints(sizes), Value::Int(dim as i64)]);
        }
        SPLIT.call([tensor.into(), Value::Int(step), Value::Int(dim as i64)])
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5), 3", "t(2, 4), 2, 1", "t(3), 7"],
    errors: &[("t(5), 0", "RuntimeError", "chunk expects `chunks` to be greater than 0, got: 0")],
    reference: "np.split(self, range(-(-self.shape[dim] // chunks), self.shape[dim], -(-self.shape[dim] // chunks)), dim)",
    ..Operator::BASE
};

#[operator]
pub static TENSOR_SPLIT: Operator = Operator {
    name: "tensor_split",
    signature: "(Tensor self, int sections, int dim=0) -> Tensor[]",
    doc: "`sections` views along `dim`; the first ones are longer by one if the size is not divisible.

    >>> torch.tensor_split(torch.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        sections(args.tensor(INPUT)?, args.int(SECTIONS)?, args.int(DIM)?).map(Output::List)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5), 2", "t(2, 4), 3, 1", "t(3), 5"],
    errors: &[("t(5), 0", "RuntimeError", "number of sections must be larger than 0, got 0")],
    reference: "np.array_split(self, sections, dim)",
    ..Operator::BASE
};

#[operator]
pub static TENSOR_SPLIT_INDICES: Operator = Operator {
    name: "tensor_split.indices",
    signature: "(Tensor self, int[] indices, int dim=0) -> Tensor[]",
    doc: "Views along `dim`, split before each of `indices`.

    >>> torch.tensor_split(torch.arange(5), (1, 3))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        cut(args.tensor(INPUT)?, args.ints(INDICES)?, args.int(DIM)?).map(Output::List)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5), (1, 3)", "t(2, 4), (-1,), 1", "t(3), (5, 1)"],
    reference: "np.array_split(self, indices, dim)",
    ..Operator::BASE
};

#[operator]
pub static TENSOR_SPLIT_TENSOR: Operator = Operator {
    name: "tensor_split.tensor_indices_or_sections",
    signature: "(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]",
    doc: "Views along `dim`: a 0-d tensor gives their number, other tensors the indices before which to split.

    >>> torch.tensor_split(torch.arange(5), torch.tensor([1, 3]))
    (tensor([0]), tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    // The positions lie on the host.
    tags: Tags::DATA_DEPENDENT.union(Tags::MIXED_DEVICES),
    batch_rule: BatchRule::FallbackIf(&[TENSOR_INDICES_OR_SECTIONS]),
    implementation: Implementation::CompositeImplicit(|args| {
        let (tensor, places) = (args.tensor(INPUT)?, args.tensor(TENSOR_INDICES_OR_SECTIONS)?);
        if places.dtype() != rushlight_core::DType::I64 {
            return Err(Error::runtime(
                "tensor_split expected tensor_indices_or_sections to have dtype of long, but got ".to_owned()
                    + places.dtype().display_name(),
            ));
        }
        if places.device() != crate::Device::Cpu {
            return Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {}",
                places.device()
            )));
        }
        let list = crate::convert::to_vec::<i64>(places)?;
        match (places.rank(), list.as_slice()) {
            (0, [count]) => sections(tensor, *count, args.int(DIM)?),
            (1, indices) => cut(tensor, indices, args.int(DIM)?),
            (rank, _) => Err(Error::runtime(format!(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but got a tensor with {rank} dims"
            ))),
        }
        .map(Output::List)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(5), torch.tensor([1, 3])", "t(5), torch.tensor(2)"],
    reference: "np.array_split(self, tensor_indices_or_sections, dim)",
    ..Operator::BASE
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
    check_piece_count(count)?;
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
        #[operator]
        pub static $count: Operator = Operator {
            name: $name,
            signature: "(Tensor self, int sections) -> Tensor[]",
            doc: $doc,
            dtypes: DTypes::ALL,
            implementation: Implementation::CompositeImplicit(|args| {
                let tensor = args.tensor(INPUT)?;
                let dim = named_dim(tensor, $name, $least, $dim)?;
                let (count, size) = (args.int(SECTIONS)?, tensor.sizes()[dim] as i64);
                if count == 0 || size % count != 0 {
                    return Err(Error::runtime(format!(
                        "{} attempted to split along dimension {dim}, but the size of the dimension {size} is not divisible by the split_size {count}!",
                        concat!("torch.", $name)
                    )).hint("Give the indices at which to split, or use torch.tensor_split, whose parts may differ in size."));
                }
                sections(tensor, count, dim as i64).map(Output::List)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &[$sample],
            errors: $errors,
            reference: $reference,
            ..Operator::BASE
        };

        #[operator]
        pub static $places: Operator = Operator {
            name: $list,
            signature: "(Tensor self, int[] indices) -> Tensor[]",
            doc: $list_doc,
            dtypes: DTypes::ALL,
            implementation: Implementation::CompositeImplicit(|args| {
                let tensor = args.tensor(INPUT)?;
                let dim = named_dim(tensor, $name, $least, $dim)?;
                cut(tensor, args.ints(INDICES)?, dim as i64).map(Output::List)
            }),
            derivative: Derivative::CompositeImplicit,
            samples: &[$list_sample],
            errors: $list_errors,
            reference: $list_reference,
            ..Operator::BASE
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
        "Views along the columns, split before each of `indices`.

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
        "Views along the rows, split before each of `indices`.

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
        "Views along the third dimension, split before each of `indices`.

    >>> torch.dsplit(torch.tensor([[[1, 2]]]), (1,))
    (tensor([[[1]]]), tensor([[[2]]]))";
}

#[operator]
pub static UNBIND: Operator = Operator {
    name: "unbind",
    signature: "(Tensor self, int dim=0) -> Tensor[]",
    doc: "The views at all indices of `dim`.

    >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))",
    dtypes: DTypes::ALL,
    sparse: Sparse::CompositeImplicit,
    implementation: Implementation::MultiView(|args| {
        let layout = args.tensor(INPUT)?.layout();
        let dim = wrap_dim(args.int(DIM)?, layout.rank())?;
        if layout.rank() == 0 {
            return Err(Error::index("Dimension specified as 0 but tensor has no dimensions")
                .hint("A 0-d tensor has one element: use x.item()."));
        }
        check_piece_count(layout.sizes[dim] as i64)?;
        Ok((0..layout.sizes[dim]).map(|index| layout.select(dim, index)).collect())
    }),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        Expr::new(d.all_grads().and_then(|grads| op!(STACK, grads, d.int(DIM))))
    })]),
    samples: &["t(2, 3)", "t(2, 3), 1", "t(2, 3), -1"],
    errors: &[("t()", "IndexError", "Dimension specified as 0 but tensor has no dimensions")],
    reference: "[np.take(self, i, axis=dim) for i in range(self.shape[dim])]",
    ..Operator::BASE
};
