//! Tensors of one value, or of unspecified values: by size, like another tensor, and `new_*` with another's dtype.

use rushlight_autograd::{CompressedFormat, Tensor};
use rushlight_core::layout::{Shape, checked_new, checked_numel, to_dims};
use rushlight_core::{DType, Device, Dims, Element, Error, Layout, Result, Scalar, dispatch, memory_format};
use rushlight_dispatch::allocate::allocate;
use rushlight_dispatch::create::{check_fits, fill};
use rushlight_dispatch::deterministic::uninitialized;
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, Operator, Out, Sparse, Tags, TensorSpec, Variants, operator,
};
use rushlight_dispatch::promote::number_dtype;
use rushlight_dispatch::unsupported::unsupported_by;
use rushlight_dispatch::value::{Arg, Output};
use rushlight_dispatch::{copy, create, sparse};

use super::{Options, backend, factory, sizes};

pub(super) const NO_INPUT: Derivative =
    Derivative::NonDifferentiable("its result does not depend on its arguments' values");

const BASE: Operator = Operator {
    variants: Variants::FUNCTION.union(Variants::OUT),
    out: Out::FACTORY,
    dtypes: DTypes::ALL,
    derivative: NO_INPUT,
    ..Operator::BASE
};

fn by_size(args: &Args, value: Scalar) -> Result<Output> {
    let options = Options::of(args)?;
    let tensor = options.empty(&sizes(args, ZEROS::SIZE)?, options.dtype())?;
    fill(&tensor, value)?;
    options.finish(tensor)
}

#[operator]
pub static EMPTY: Operator = Operator {
    name: "empty",
    signature: factory!("int[] size, *, MemoryFormat? memory_format=None"),
    doc: "An uninitialised tensor of the given size.

    >>> torch.empty(2, 3).shape
    torch.Size([2, 3])",
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, sizes) = (Options::of_any_layout(args)?, sizes(args, SIZE)?);
        checked_new(&sizes)?;
        if let Some(layout) = options.sparse_layout() {
            return options.finish(sparse::empty(layout, &sizes, options.dtype(), options.device())?);
        }
        let layout = Layout {
            strides: memory_format::strides(&sizes, args.optional_str(MEMORY_FORMAT), None)?,
            sizes,
            offset: 0,
        };
        options.finish(uninitialized(&TensorSpec { layout, dtype: options.dtype(), device: options.device() })?)
    }),
    samples: &["(2, 3)", "(0, 3)", "(1, 2, 2, 2), memory_format=torch.channels_last"],
    out: Out::FACTORY.only_resizes().resizes_first(),
    errors: &[("(2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -1: [2, -1]")],
    reference: "np.empty(size, dtype or np.float32)",
    ..BASE
};

#[operator]
pub static ZEROS: Operator = Operator {
    name: "zeros",
    signature: factory!("int[] size, *"),
    tags: Tags::UNIFORM,
    doc: "A tensor of the given size, filled with 0.

    >>> torch.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])",
    implementation: Implementation::CompositeImplicit(|args| {
        if args.ints(SIZE)?.iter().any(|&size| size < 0) {
            return Err(Error::runtime("zeros: Dimension size must be non-negative."));
        }
        let options = Options::of_any_layout(args)?;
        if let Some(layout) = options.sparse_layout() {
            let sizes = sizes(args, SIZE)?;
            return options.finish(sparse::empty(layout, &sizes, options.dtype(), options.device())?);
        }
        by_size(args, Scalar::ZERO)
    }),
    samples: &["(2, 3)", "()", "(0, 2)"],
    errors: &[("(2, -1)", "RuntimeError", "zeros: Dimension size must be non-negative.")],
    reference: "np.zeros(size, dtype=dtype or np.float32)",
    ..BASE
};

#[operator]
pub static ONES: Operator = Operator {
    name: "ones",
    signature: factory!("int[] size, *"),
    tags: Tags::UNIFORM,
    doc: "A tensor of the given size, filled with 1.

    >>> torch.ones(2)
    tensor([1., 1.])",
    implementation: Implementation::CompositeImplicit(|args| by_size(args, Scalar::ONE)),
    samples: &["(2, 3)", "()", "(0, 2)"],
    errors: &[("(2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -1: [2, -1]")],
    reference: "np.ones(size, dtype=dtype or np.float32)",
    ..BASE
};

#[operator]
pub static FULL: Operator = Operator {
    name: "full",
    signature: factory!("int[] size, Scalar fill_value, *"),
    tags: Tags::UNIFORM,
    doc: "A tensor of the given size, filled with a value whose type determines the dtype.

    >>> torch.full((2, 2), 7)
    tensor([[7, 7],
            [7, 7]])",
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, value) = (Options::of(args)?, args.scalar(FILL_VALUE)?);
        // An integer is stored as int64, and it is an error if it does not fit.
        let own = if value.is_integral() { DType::I64 } else { number_dtype(value) };
        let tensor = options.empty(&sizes(args, SIZE)?, own)?;
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

/// An uninitialised tensor with given sizes and strides.
fn strided(args: &Args, [size, stride]: [Arg; 2], options: &Options, dtype: DType, device: Device) -> Result<Output> {
    let (sizes, strides) = (sizes(args, size)?, to_dims(args.ints(stride)?));
    if sizes.len() != strides.len() {
        return Err(Error::runtime(format!(
            "dimensionality of sizes ({}) must match dimensionality of strides ({})",
            sizes.len(),
            strides.len()
        )));
    }
    let mut layout = Layout { sizes, strides, offset: 0 };
    if layout.sizes.iter().any(|&size| size < 0) {
        checked_new(&layout.sizes)?;
    }
    let no_bytes = layout.checked_bytes(dtype.size()).is_err();
    if no_bytes || layout.checked_span().is_none_or(|span| span.is_some_and(|(low, _)| low < 0)) {
        return Err(Error::runtime(format!(
            "Storage size calculation overflowed with sizes={} and strides={}",
            Shape(&layout.sizes),
            Shape(&layout.strides)
        )));
    }
    // For a size of one, a negative stride becomes that of contiguous rows.
    for dim in (0..layout.rank()).rev() {
        if layout.strides[dim] < 0 {
            let inner = layout.strides.get(dim + 1).zip(layout.sizes.get(dim + 1));
            layout.strides[dim] = inner.map_or(1, |(stride, &size)| stride.saturating_mul(size.max(1)));
        }
    }
    options.finish(uninitialized(&TensorSpec { layout, dtype, device })?)
}

#[operator]
pub static EMPTY_STRIDED: Operator = Operator {
    name: "empty_strided",
    variants: Variants::FUNCTION,
    signature: factory!("int[] size, int[] stride, *"),
    doc: "Like `empty`, with the given strides.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    implementation: Implementation::CompositeImplicit(|args| {
        let options = Options::of(args)?;
        strided(args, [SIZE, STRIDE], &options, options.dtype(), options.device())
    }),
    samples: &["(2, 3), (1, 2)", "(), ()", "(0, 3), (3, 1)"],
    errors: &[
        ("(2, 3), (1,)", "RuntimeError", "dimensionality of sizes (2) must match dimensionality of strides (1)"),
        ("(-1,), (1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    reference: "np.empty(size, dtype or np.float32)",
    ..BASE
};

#[operator]
pub static EMPTY_PERMUTED: Operator = Operator {
    name: "empty_permuted",
    variants: Variants::FUNCTION,
    signature: factory!("int[] size, int[] physical_layout, *"),
    doc: "Like `empty`, contiguous with its dimensions in memory in the order `physical_layout`, outermost first.

    >>> torch.empty_permuted((2, 3, 4), (0, 2, 1)).stride()
    (12, 1, 3)",
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, sizes, order) = (Options::of(args)?, sizes(args, SIZE)?, args.ints(PHYSICAL_LAYOUT)?);
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
        options.finish(uninitialized(&TensorSpec { layout, dtype: options.dtype(), device: options.device() })?)
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

#[operator]
pub static SCALAR_TENSOR: Operator = Operator {
    name: "scalar_tensor",
    variants: Variants::FUNCTION,
    signature: factory!("Scalar s, *"),
    doc: "A number as a 0-d tensor, of the default dtype unless another is given.

    >>> torch.scalar_tensor(3)
    tensor(3.)",
    implementation: Implementation::CompositeImplicit(|args| {
        // As in torch, a sparse layout has no effect.
        let (options, value) = (Options::of_any_layout(args)?, args.scalar(S)?);
        create::check_number(value, options.dtype())?;
        options.finish(create::scalar_of(value, options.dtype(), options.device())?)
    }),
    samples: &["2.5"],
    reference: "np.float32(s)",
    ..BASE
};

/// A new tensor like the first argument, with the changes of the keywords.
pub(super) fn like(args: &Args) -> Result<(Options, Tensor)> {
    let (options, spec) = spec_like(args)?;
    Ok((options, allocate(&spec)?))
}

fn spec_like(args: &Args) -> Result<(Options, TensorSpec)> {
    let (input, options) = (args.tensor(Arg::FIRST)?, Options::of_any_layout(args)?);
    if let Some(layout) = options.sparse_layout() {
        return Err(unsupported_by("empty_strided", backend(layout)));
    }
    let format = args.op.schema().arg("memory_format").and_then(|format| args.optional_str(format));
    let layout = Layout {
        sizes: input.sizes().clone(),
        strides: memory_format::strides(input.sizes(), format, Some(input.layout()))?,
        offset: 0,
    };
    let dtype = options.dtype.unwrap_or(input.dtype());
    let device = options.device.unwrap_or(input.device());
    if let Device::Unsupported(unsupported) = device {
        return Err(unsupported.refusal("empty_strided"));
    }
    Ok((options, TensorSpec { layout, dtype, device }))
}

fn filled_like(args: &Args, value: Scalar) -> Result<Output> {
    let (options, tensor) = like(args)?;
    check_fits(value, tensor.dtype())?;
    fill(&tensor, value)?;
    options.finish(tensor)
}

const LIKE: Operator = Operator { variants: Variants::FUNCTION, samples: &["t(2, 3)", "t(2, 3).t()", "t()"], ..BASE };

#[operator]
pub static EMPTY_LIKE: Operator = Operator {
    name: "empty_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "An uninitialised tensor with another's size, dtype and order in memory.

    >>> torch.empty_like(torch.ones(2, 3)).shape
    torch.Size([2, 3])",
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        let (options, spec) = spec_like(args)?;
        options.finish(uninitialized(&spec)?)
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

#[operator]
pub static ZEROS_LIKE: Operator = Operator {
    name: "zeros_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "A tensor with another's size and dtype, filled with 0.

    >>> torch.zeros_like(torch.tensor([1, 2]))
    tensor([0, 0])",
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, options) = (args.tensor(INPUT)?, Options::of_any_layout(args)?);
        let Some(layout) = options.sparse_layout() else { return filled_like(args, Scalar::ZERO) };
        let (dtype, device) = (options.dtype.unwrap_or(input.dtype()), options.device.unwrap_or(input.device()));
        options.finish(sparse::empty(layout, input.sizes(), dtype, device)?)
    }),
    reference: "np.zeros_like(self)",
    ..LIKE
};

#[operator]
pub static ONES_LIKE: Operator = Operator {
    name: "ones_like",
    signature: factory!("Tensor self, *, MemoryFormat? memory_format=None"),
    doc: "A tensor with another's size and dtype, filled with 1.

    >>> torch.ones_like(torch.tensor([1, 2]))
    tensor([1, 1])",
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| filled_like(args, Scalar::ONE)),
    reference: "np.ones_like(self)",
    ..LIKE
};

#[operator]
pub static FULL_LIKE: Operator = Operator {
    name: "full_like",
    signature: factory!("Tensor self, Scalar fill_value, *, MemoryFormat? memory_format=None"),
    doc: "A tensor with another's size and dtype, filled with a value.

    >>> torch.full_like(torch.zeros(2), 3)
    tensor([3., 3.])",
    sparse: Sparse::CompositeImplicit,
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| filled_like(args, args.scalar(FILL_VALUE)?)),
    samples: &["t(2, 3), 1", "t(), 1"],
    reference: "np.full_like(self, fill_value)",
    ..LIKE
};

/// A new tensor of the first argument's dtype, device and layout, and of another size.
fn new(args: &Args, value: Option<Scalar>) -> Result<Output> {
    use NEW_EMPTY::*;

    let (input, options) = (args.tensor(INPUT)?, Options::of_any_layout(args)?);
    let sizes = sizes(args, SIZE)?;
    let (dtype, device) = (options.dtype.unwrap_or(input.dtype()), options.device.unwrap_or(input.device()));
    let layout = options.layout.as_deref().unwrap_or_else(|| input.python_layout());
    if layout != "strided" {
        if let Some(format) = CompressedFormat::named(layout).filter(|format| format.blocks) {
            return Err(Error::runtime(format!(
                "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got {}",
                format.layout_name()
            )));
        }
        // A compressed tensor has no entries that a number could fill.
        if layout == "sparse_coo" && value.is_some_and(|value| value != Scalar::ZERO) {
            return Err(unsupported_by("fill_.Scalar", backend(layout)));
        }
        return options.finish(sparse::empty(layout, &sizes, dtype, device)?);
    }
    let spec = TensorSpec { layout: Layout::contiguous(&sizes), dtype, device };
    let Some(value) = value else { return options.finish(uninitialized(&spec)?) };
    let tensor = allocate(&spec)?;
    check_fits(value, dtype)?;
    fill(&tensor, value)?;
    options.finish(tensor)
}

const NEW: Operator = Operator { variants: Variants::METHOD, ..BASE };

#[operator]
pub static NEW_EMPTY: Operator = Operator {
    name: "new_empty",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`empty` with this tensor's dtype and device.

    >>> torch.ones(1, dtype=torch.int32).new_empty(2).dtype
    torch.int32",
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| new(args, None)),
    samples: &["t(2), (2, 3)", "t(), ()"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.empty(size, self.dtype)",
    ..NEW
};

#[operator]
pub static NEW_ZEROS: Operator = Operator {
    name: "new_zeros",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`zeros` with this tensor's dtype and device.

    >>> torch.tensor([1]).new_zeros(2)
    tensor([0, 0])",
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| new(args, Some(Scalar::ZERO))),
    samples: &["t(2), (3,)"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.zeros(size, self.dtype)",
    ..NEW
};

#[operator]
pub static NEW_ONES: Operator = Operator {
    name: "new_ones",
    signature: factory!("Tensor self, int[] size, *"),
    doc: "`ones` with this tensor's dtype and device.

    >>> torch.tensor([5]).new_ones(2)
    tensor([1, 1])",
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| new(args, Some(Scalar::ONE))),
    samples: &["t(2), (3,)"],
    errors: &[("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]")],
    reference: "np.ones(size, self.dtype)",
    ..NEW
};

#[operator]
pub static NEW_FULL: Operator = Operator {
    name: "new_full",
    signature: factory!("Tensor self, int[] size, Scalar fill_value, *"),
    doc: "`full` with this tensor's dtype and device.

    >>> torch.tensor([5]).new_full((2,), 3.7)
    tensor([3, 3])",
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| new(args, Some(args.scalar(FILL_VALUE)?))),
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

#[operator]
pub static NEW_EMPTY_STRIDED: Operator = Operator {
    name: "new_empty_strided",
    signature: factory!("Tensor self, int[] size, int[] stride, *"),
    doc: "`empty_strided` with this tensor's dtype and device.

    >>> torch.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)",
    batch_rule: BatchRule::ShapeOnly,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, options) = (args.tensor(INPUT)?, Options::of(args)?);
        match input.python_layout() {
            "strided" => {}
            "sparse_coo" => return Err(unsupported_by("new_empty_strided", "SparseCPU")),
            layout => return Err(unsupported_by("empty_strided", backend(layout))),
        }
        strided(
            args,
            [SIZE, STRIDE],
            &options,
            options.dtype.unwrap_or(input.dtype()),
            options.device.unwrap_or(input.device()),
        )
    }),
    samples: &["t(2), (2, 3), (1, 2)"],
    errors: &[
        ("t(2), (2, 3), (1,)", "RuntimeError", "dimensionality of sizes (2) must match dimensionality of strides (1)"),
        ("t(2), (-1,), (1,)", "RuntimeError", "Trying to create tensor with negative dimension -1: [-1]"),
    ],
    reference: "np.empty(size, self.dtype)",
    ..NEW
};

/// Writes each number of a list to a tensor of one dtype.
fn write_ints(tensor: &Tensor, numbers: impl Iterator<Item = i64>) -> Result<()> {
    copy::from_host(tensor, |target| {
        let pin = target.storage().pin()?;
        dispatch!(target.dtype(), T in all => {
            for (place, number) in numbers.take(target.numel()).enumerate() {
                // SAFETY: the tensor is new, contiguous, and `place` lies within it.
                unsafe { pin.as_ptr().cast::<T>().add(place).write(T::from_scalar(Scalar::Int(number))) };
            }
        });
        Ok(())
    })
}

#[operator]
pub static EYE: Operator = Operator {
    name: "eye",
    signature: factory!("int n, int? m=None, *"),
    doc: "A matrix with 1 on the diagonal and 0 elsewhere.

    >>> torch.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])",
    implementation: Implementation::CompositeImplicit(|args| {
        let options = Options::of(args)?;
        let rows = args.int(N)?;
        let columns = args.optional_int(M).unwrap_or(rows);
        for (name, size) in [("n", rows), ("m", columns)] {
            if size < 0 {
                return Err(Error::runtime(format!("{name} must be greater or equal to 0, got {size}")));
            }
        }
        // torch resizes a result without elements.
        checked_numel(&[rows as isize, columns as isize])?;
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

/// The indices of a matrix's elements on one side of a diagonal: in row `i` the columns before `i + offset`, or from
/// there on.
fn triangle(args: &Args, before: bool) -> Result<Output> {
    use TRIL_INDICES::*;

    let options = Options::of(args)?;
    let (rows, columns) = (i128::from(args.int(ROW)?), i128::from(args.int(COL)?));
    for (name, size) in [("row", rows), ("col", columns)] {
        if size < 0 {
            return Err(Error::runtime(format!("{name} must be non-negative, got{size}")));
        }
    }
    if !matches!(options.dtype.unwrap_or(DType::I64), DType::I32 | DType::I64) {
        return Err(Error::unsupported(if before { "tril_indices" } else { "triu_indices" }, options.dtype()));
    }
    // The main diagonal belongs to both triangles.
    let offset = i128::from(args.int(OFFSET)?) + i128::from(before);
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

#[operator]
pub static TRIL_INDICES: Operator = Operator {
    name: "tril_indices",
    variants: Variants::FUNCTION,
    signature: factory!("int row, int col, int offset=0, *"),
    doc: "The indices of a matrix's lower triangle, rows above columns.

    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])",
    implementation: Implementation::CompositeImplicit(|args| triangle(args, true)),
    samples: &["3, 3", "2, 4, 1", "4, 2, -1"],
    errors: &[
        ("-1, 2", "RuntimeError", "row must be non-negative, got-1"),
        ("2, -1", "RuntimeError", "col must be non-negative, got-1"),
    ],
    reference: "np.array(np.tril_indices(row, offset, col))",
    ..BASE
};

#[operator]
pub static TRIU_INDICES: Operator = Operator {
    name: "triu_indices",
    variants: Variants::FUNCTION,
    signature: factory!("int row, int col, int offset=0, *"),
    doc: "The indices of a matrix's upper triangle, rows above columns.

    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])",
    implementation: Implementation::CompositeImplicit(|args| triangle(args, false)),
    samples: &["3, 3", "2, 4, 1", "4, 2, -1"],
    errors: &[
        ("-1, 2", "RuntimeError", "row must be non-negative, got-1"),
        ("2, -1", "RuntimeError", "col must be non-negative, got-1"),
    ],
    reference: "np.array(np.triu_indices(row, offset, col))",
    ..BASE
};
