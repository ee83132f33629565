//! Tensors of one value, or of no particular one: by size, like another tensor, and `new_*` of another's dtype.

use rushlight_autograd::Tensor;
use rushlight_core::Element;
use rushlight_core::layout::{Dims, Shape, checked_new, to_dims};
use rushlight_core::memory_format;
use rushlight_core::{DType, Device, Error, Layout, Result, Scalar, dispatch};

use super::{Options, check_fits, factory, fill, sizes};
use crate::derive::Derivative;
use crate::mapped::Mapped;
use crate::row::{DTypes, Out, Row, Run, Spec, Variants};
use crate::sparse::Sparse;
use crate::value::{Args, Output};

pub(super) const NO_INPUT: Derivative =
    Derivative::NonDifferentiable("its result does not depend on its arguments' values");

const BASE: Row = Row {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::MADE,
    dtypes: DTypes::ALL,
    derivative: NO_INPUT,
    ..Row::BASE
};

fn by_size(args: &Args, value: Scalar) -> Result<Output> {
    let options = Options::of(args)?;
    let tensor = options.empty(&sizes(args, 0)?, options.dtype())?;
    fill(&tensor, value)?;
    options.finish(tensor)
}

pub static EMPTY: Row = Row {
    name: "empty",
    signature: factory!("int[] size, *, MemoryFormat? memory_format=None"),
    doc: "A tensor of a size whose elements are whatever the memory held.

    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])",
    run: Run::Compose(|args| {
        let (options, sizes) = (Options::of(args)?, sizes(args, 0)?);
        checked_new(&sizes)?;
        let layout = Layout { strides: memory_format::strides(&sizes, args.optional_str(1), None)?, sizes, offset: 0 };
        options.finish(crate::call::allocate(&Spec { layout, dtype: options.dtype(), device: options.device() })?)
    }),
    samples: &["(2, 3)", "(0, 3)", "(1, 2, 2, 2), memory_format=torch.channels_last"],
    errors: &[("(2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -1: [2, -1]")],
    reference: "np.empty(size, dtype or np.float32)",
    ..BASE
};

pub static ZEROS: Row = Row {
    name: "zeros",
    signature: factory!("int[] size, *"),
    doc: "A tensor of a size, filled with 0.

    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])",
    run: Run::Compose(|args| {
        if args.ints(0)?.iter().any(|&size| size < 0) {
            return Err(Error::runtime("zeros: Dimension size must be non-negative."));
        }
        by_size(args, Scalar::ZERO)
    }),
    samples: &["(2, 3)", "()", "(0, 2)"],
    errors: &[("(2, -1)", "RuntimeError", "zeros: Dimension size must be non-negative.")],
    reference: "np.zeros(size, dtype=dtype or np.float32)",
    ..BASE
};

pub static ONES: Row = Row {
    name: "ones",
    signature: factory!("int[] size, *"),
    doc: "A tensor of a size, filled with 1.

    >>> torch.ones(2)
    tensor([1., 1.])",
    run: Run::Compose(|args| by_size(args, Scalar::ONE)),
    samples: &["(2, 3)", "()", "(0, 2)"],
    errors: &[("(2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -1: [2, -1]")],
    reference: "np.ones(size, dtype=dtype or np.float32)",
    ..BASE
};

pub static FULL: Row = Row {
    name: "full",
    signature: factory!("int[] size, Scalar fill_value, *"),
    doc: "A tensor of a size, filled with a value whose type decides the dtype.

    >>> torch.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])",
    run: Run::Compose(|args| {
        let (options, value) = (Options::of(args)?, args.scalar(1)?);
        // A whole number is taken for an int64, and refused where it is none.
        let own = if value.is_integral() { DType::I64 } else { super::own_dtype(value) };
        let tensor = options.empty(&sizes(args, 0)?, own)?;
        check_fits(value, tensor.dtype())?;
        fill(&tensor, value)?;
        options.finish(tensor)
    }),
    samples: &["(2, 3), 2", "(2,), 1.5", "(), True"],
    errors: &[(
        "(2,), 300, dtype=torch.uint8",
        "RuntimeError",
        "value cannot be converted to type uint8_t without overflow",
    )],
    reference: "np.full(size, fill_value)",
    ..BASE
};

/// Uninitialised elements with the sizes and strides that stand from `first` on.
fn strided(args: &Args, first: usize, options: &Options, dtype: DType, device: Device) -> Result<Output> {
    let (sizes, strides) = (sizes(args, first)?, to_dims(args.ints(first + 1)?));
    if sizes.len() != strides.len() {
        return Err(Error::runtime(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            sizes.len(),
            strides.len()
        )));
    }
    let mut layout = Layout { sizes, strides, offset: 0 };
    checked_new(&layout.sizes)?;
    if layout.checked_span().is_none_or(|span| span.is_some_and(|(low, _)| low < 0)) {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={} and strides={}",
            Shape(&layout.sizes),
            Shape(&layout.strides)
        )));
    }
    // Where nothing is stepped over, a negative stride becomes that of rows without gaps.
    for dim in (0..layout.rank()).rev() {
        if layout.strides[dim] < 0 {
            let inner = layout.strides.get(dim + 1).zip(layout.sizes.get(dim + 1));
            layout.strides[dim] = inner.map_or(1, |(stride, &size)| stride.saturating_mul(size.max(1)));
        }
    }
    options.finish(crate::call::allocate(&Spec { layout, dtype, device })?)
}

pub static EMPTY_STRIDED: Row = Row {
    name: "empty_strided",
    variants: Variants::FUNCTION,
    signature: factory!("int[] size, int[] stride, *"),
    doc: "Like `empty`, with strides of one's own.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    run: Run::Compose(|args| {
        let options = Options::of(args)?;
        strided(args, 0, &options, options.dtype(), options.device())
    }),
    samples: &["(2, 3), (1, 2)", "(), ()", "(0, 3), (3, 1)"],
    errors: &[
        ("(2, 3), (1,)", "RuntimeError", "dimensionality of sizes (2) must match dimensionality of strides (1)"),
        ("(-1,), (1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    reference: "np.empty(size, dtype or np.float32)",
    ..BASE
};

pub static EMPTY_PERMUTED: Row = Row {
    name: "empty_permuted",
    variants: Variants::FUNCTION,
    signature: factory!("int[] size, int[] physical_layout, *"),
    doc: "Like `empty`, without gaps and with the dimensions in memory in the order `physical_layout`, outermost first.

    >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)",
    run: Run::Compose(|args| {
        let (options, sizes, order) = (Options::of(args)?, sizes(args, 0)?, args.ints(1)?);
        let rank = sizes.len();
        if order.len() != rank {
            return Err(Error::runtime(format!(
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {rank} is not equal to len(physical_layout) = {}",
                order.len()
            )));
        }
        checked_new(&sizes)?;
        let mut strides = to_dims(order);
        let mut seen = 0u64;
        let mut stride = 1isize;
        for (place, &dim) in order.iter().enumerate() {
            if dim < 0 || dim >= rank as i64 {
                return Err(Error::runtime(format!(
                    "Dimension out of range (expected to be between 0 and {}, but got {dim} at index {place}).  NB: negative dims not currently supported; file an issue if you want it.",
                    rank - 1
                )));
            }
            if seen & (1 << dim) != 0 {
                return Err(Error::runtime("Duplicate dim not allowed").hint("Name each dimension once."));
            }
            seen |= 1 << dim;
        }
        for &dim in order.iter().rev() {
            strides[dim as usize] = stride;
            stride = stride.saturating_mul(sizes[dim as usize].max(1));
        }
        let layout = Layout { sizes, strides, offset: 0 };
        options.finish(crate::call::allocate(&Spec { layout, dtype: options.dtype(), device: options.device() })?)
    }),
    samples: &["(2, 3), (1, 0)", "(), ()", "(0, 3, 2), (0, 2, 1)"],
    errors: &[
        (
            "(2, 3), (1,)",
            "RuntimeError",
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = 2 is not equal to len(physical_layout) = 1",
        ),
        ("(2, 3), (0, 0)", "RuntimeError", "Duplicate dim not allowed"),
        (
            "(2, 3), (0, 5)",
            "RuntimeError",
            "Dimension out of range (expected to be between 0 and 1, but got 5 at index 1).",
        ),
    ],
    reference: "np.empty(size, dtype or np.float32)",
    ..BASE
};

pub static SCALAR_TENSOR: Row = Row {
    name: "scalar_tensor",
    variants: Variants::FUNCTION,
    signature: factory!("Scalar s, *"),
    doc: "A number as a tensor without dimensions, of the default dtype unless another is given.

    >>> torch.scalar_tensor(3)
    tensor(3.)",
    run: Run::Compose(|args| {
        let (options, value) = (Options::of(args)?, args.scalar(0)?);
        check_fits(value, options.dtype())?;
        options.finish(super::scalar_of(value, options.dtype(), options.device())?)
    }),
    samples: &["2.5"],
    reference: "np.float32(s)",
    ..BASE
};

/// A new tensor like the first argument, with the keywords' changes.
pub(super) fn like(args: &Args) -> Result<(Options, Tensor)> {
    let (own, options) = (args.tensor(0)?, Options::of(args)?);
    let format = args.row.schema().place("memory_format").and_then(|place| args.optional_str(place));
    let layout = Layout {
        sizes: own.sizes().clone(),
        strides: memory_format::strides(own.sizes(), format, Some(own.layout()))?,
        offset: 0,
    };
    let dtype = options.dtype.unwrap_or(own.dtype());
    let device = options.device.unwrap_or(own.device());
    let tensor = crate::call::allocate(&Spec { layout, dtype, device })?;
    Ok((options, tensor))
}

fn filled_like(args: &Args, value: Scalar) -> Result<Output> {
    let (options, tensor) = like(args)?;
    check_fits(value, tensor.dtype())?;
    fill(&tensor, value)?;
    options.finish(tensor)
}

const LIKE: Row = Row { variants: Variants::FUNCTION, samples: &["t(2, 3)", "t(2, 3).t()", "t()"], ..BASE };

pub static EMPTY_LIKE: Row = Row {
    name: "empty_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "A tensor of another's size, dtype and order in memory, whose elements are whatever the memory held.

    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])",
    sparse: Sparse::Compose(crate::sparse::elementwise::zeros_like),
    mapped: Mapped::Shape,
    run: Run::Compose(|args| {
        let (options, tensor) = like(args)?;
        options.finish(tensor)
    }),
    samples: &["t(2, 3)", "t(2, 3).t()", "t()"],
    errors: &[(
        "t(2), memory_format=torch.channels_last",
        "RuntimeError",
        "required rank 4 tensor to use channels_last format",
    )],
    reference: "np.empty_like(self)",
    ..LIKE
};

pub static ZEROS_LIKE: Row = Row {
    name: "zeros_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "A tensor of another's size and dtype, filled with 0.

    >>> torch.zeros_like(torch.tensor([1, 2]))
    tensor([0, 0])",
    sparse: Sparse::Compose(crate::sparse::elementwise::zeros_like),
    mapped: Mapped::Shape,
    run: Run::Compose(|args| filled_like(args, Scalar::ZERO)),
    reference: "np.zeros_like(self)",
    ..LIKE
};

pub static ONES_LIKE: Row = Row {
    name: "ones_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "A tensor of another's size and dtype, filled with 1.

    >>> torch.ones_like(torch.tensor([1, 2]))
    tensor([1, 1])",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| filled_like(args, Scalar::ONE)),
    reference: "np.ones_like(self)",
    ..LIKE
};

pub static FULL_LIKE: Row = Row {
    name: "full_like",
    signature: factory!("Tensor self, Scalar fill_value, *, MemoryFormat? memory_format=None"),
    doc: "A tensor of another's size and dtype, filled with a value.

    >>> torch.full_like(torch.zeros(2), 3)
    tensor([3., 3.])",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| filled_like(args, args.scalar(1)?)),
    samples: &["t(2, 3), 1", "t(), 1"],
    reference: "np.full_like(self, fill_value)",
    ..LIKE
};

/// A new tensor of the first argument's dtype and device, and of another size.
fn new(args: &Args, value: Option<Scalar>) -> Result<Output> {
    let (own, options) = (args.tensor(0)?, Options::of(args)?);
    let sizes = sizes(args, 1)?;
    let dtype = options.dtype.unwrap_or(own.dtype());
    let tensor = super::empty(&sizes, dtype, options.device.unwrap_or(own.device()))?;
    if let Some(value) = value {
        check_fits(value, dtype)?;
        fill(&tensor, value)?;
    }
    options.finish(tensor)
}

const NEW: Row = Row { variants: Variants::METHOD, ..BASE };

pub static NEW_EMPTY: Row = Row {
    name: "new_empty",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`empty` with this tensor's dtype and device.

    >>> torch.ones(1, dtype=torch.int32).new_empty(2).dtype
    torch.int32",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| new(args, None)),
    samples: &["t(2), (2, 3)", "t(), ()"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.empty(size, self.dtype)",
    ..NEW
};

pub static NEW_ZEROS: Row = Row {
    name: "new_zeros",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`zeros` with this tensor's dtype and device.

    >>> torch.tensor([1]).new_zeros(2)
    tensor([0, 0])",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| new(args, Some(Scalar::ZERO))),
    samples: &["t(2), (3,)"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.zeros(size, self.dtype)",
    ..NEW
};

pub static NEW_ONES: Row = Row {
    name: "new_ones",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`ones` with this tensor's dtype and device.

    >>> torch.tensor([5]).new_ones(2)
    tensor([1, 1])",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| new(args, Some(Scalar::ONE))),
    samples: &["t(2), (3,)"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.ones(size, self.dtype)",
    ..NEW
};

pub static NEW_FULL: Row = Row {
    name: "new_full",
    signature: factory!("Tensor self, int[] size, Scalar fill_value, *"),
    doc: "`full` with this tensor's dtype and device.

    >>> torch.tensor([5]).new_full((2,), 3.7)
    tensor([3, 3])",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| new(args, Some(args.scalar(2)?))),
    samples: &["t(2), (3,), 1"],
    errors: &[
        ("t(2), (-1,), 1", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
        (
            "t(2).to(torch.uint8), (2,), 300",
            "RuntimeError",
            "value cannot be converted to type uint8_t without overflow",
        ),
        (
            "torch.zeros(1, dtype=torch.uint8), (2,), 300",
            "RuntimeError",
            "value cannot be converted to type uint8_t without overflow",
        ),
    ],
    reference: "np.full(size, fill_value, self.dtype)",
    ..NEW
};

pub static NEW_EMPTY_STRIDED: Row = Row {
    name: "new_empty_strided",
    signature: factory!("Tensor self, int[] size, int[] stride, *"),
    doc: "`empty_strided` with this tensor's dtype and device.

    >>> torch.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    mapped: Mapped::Shape,
    run: Run::Compose(|args| {
        let (own, options) = (args.tensor(0)?, Options::of(args)?);
        strided(args, 1, &options, options.dtype.unwrap_or(own.dtype()), options.device.unwrap_or(own.device()))
    }),
    samples: &["t(2), (2, 3), (1, 2)"],
    errors: &[
        ("t(2), (2, 3), (1,)", "RuntimeError", "dimensionality of sizes (2) must match dimensionality of strides (1)"),
        ("t(2), (-1,), (1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    reference: "np.empty(size, self.dtype)",
    ..NEW
};

/// Writes each index of a list to a tensor of one dtype.
fn write_ints(tensor: &Tensor, numbers: impl Iterator<Item = i64>) -> Result<()> {
    if tensor.device() != Device::Cpu {
        return Ok(());
    }
    let pin = tensor.storage().pin()?;
    dispatch!(tensor.dtype(), T in all => {
        for (place, number) in numbers.take(tensor.numel()).enumerate() {
            // SAFETY: the tensor is fresh, contiguous, and `place` lies within it.
            unsafe { pin.as_ptr().cast::<T>().add(place).write(T::from_scalar(Scalar::Int(number))) };
        }
    });
    Ok(())
}

pub static EYE: Row = Row {
    name: "eye",
    signature: factory!("int n, int? m=None, *"),
    doc: "A matrix with 1 on the diagonal and 0 elsewhere.

    >>> torch.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])",
    run: Run::Compose(|args| {
        let options = Options::of(args)?;
        let rows = args.int(0)?;
        let columns = args.optional_int(1).unwrap_or(rows);
        for (name, size) in [("n", rows), ("m", columns)] {
            if size < 0 {
                return Err(Error::runtime(format!("{name} must be greater or equal to 0, got {size}")));
            }
        }
        let tensor = options.empty(&[rows as isize, columns as isize], options.dtype())?;
        fill(&tensor, Scalar::ZERO)?;
        let (own, length) = (tensor.layout(), rows.min(columns) as isize);
        let diagonal = Layout {
            sizes: Dims::from_slice(&[length]),
            strides: Dims::from_slice(&[own.strides[0].wrapping_add(own.strides[1])]),
            offset: 0,
        };
        fill(&Tensor::new(tensor.storage().clone(), diagonal, tensor.dtype(), tensor.device()), Scalar::ONE)?;
        options.finish(tensor)
    }),
    samples: &["3", "2, 3", "0"],
    errors: &[("-1", "RuntimeError", "n must be greater or equal to 0, got -1")],
    reference: "np.eye(n, m, dtype=dtype or np.float32)",
    ..BASE
};

/// The indices of a matrix's places on one side of a diagonal: in row `i` the columns before `i + offset`, or from there on.
fn triangle(args: &Args, before: bool) -> Result<Output> {
    let options = Options::of(args)?;
    let (rows, columns) = (i128::from(args.int(0)?), i128::from(args.int(1)?));
    for (name, size) in [("row", rows), ("col", columns)] {
        if size < 0 {
            return Err(Error::runtime(format!("{name} must be non-negative, got{size}")));
        }
    }
    if !matches!(options.dtype.unwrap_or(DType::I64), DType::I32 | DType::I64) {
        return Err(Error::unsupported(if before { "tril_indices" } else { "triu_indices" }, options.dtype()));
    }
    // The main diagonal belongs to both triangles.
    let offset = i128::from(args.int(2)?) + i128::from(before);
    // The diagonal enters the matrix at row `first` and leaves it at row `last`.
    let (first, last) = ((-offset).clamp(0, rows), (columns - offset).clamp(0, rows));
    let left = (last - first) * (first + last - 1 + 2 * offset) / 2 + (rows - last) * columns;
    let count = if before { left } else { rows * columns - left };
    let count = isize::try_from(count)
        .map_err(|_| Error::runtime(format!("Storage size calculation overflowed with sizes=[2, {count}]")))?;
    let tensor = options.empty(&[2, count], DType::I64)?;
    let places = || {
        let filled = if before { first..rows } else { 0..last };
        filled.flat_map(move |row| {
            let cut = (row + offset).clamp(0, columns);
            let own = if before { 0..cut } else { cut..columns };
            own.map(move |column| (row as i64, column as i64))
        })
    };
    write_ints(&tensor, places().map(|place| place.0).chain(places().map(|place| place.1)))?;
    options.finish(tensor)
}

pub static TRIL_INDICES: Row = Row {
    name: "tril_indices",
    variants: Variants::FUNCTION,
    signature: factory!("int row, int col, int offset=0, *"),
    doc: "The indices of a matrix's lower triangle, rows above columns.

    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])",
    run: Run::Compose(|args| triangle(args, true)),
    samples: &["3, 3", "2, 4, 1", "4, 2, -1"],
    errors: &[
        ("-1, 2", "RuntimeError", "row must be non-negative, got-1"),
        ("2, -1", "RuntimeError", "col must be non-negative, got-1"),
    ],
    reference: "np.array(np.tril_indices(row, offset, col))",
    ..BASE
};

pub static TRIU_INDICES: Row = Row {
    name: "triu_indices",
    variants: Variants::FUNCTION,
    signature: factory!("int row, int col, int offset=0, *"),
    doc: "The indices of a matrix's upper triangle, rows above columns.

    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])",
    run: Run::Compose(|args| triangle(args, false)),
    samples: &["3, 3", "2, 4, 1", "4, 2, -1"],
    errors: &[
        ("-1, 2", "RuntimeError", "row must be non-negative, got-1"),
        ("2, -1", "RuntimeError", "col must be non-negative, got-1"),
    ],
    reference: "np.array(np.triu_indices(row, offset, col))",
    ..BASE
};
