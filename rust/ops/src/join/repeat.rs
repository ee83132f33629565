//! Repeated elements.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::list;
use rushlight_core::layout::{checked_new, numel_overflow, wrap_dim};
use rushlight_core::{DType, Device, Dims, Error, Layout, Result};
use rushlight_dispatch::operator::{
    BatchRule, BatchedCall, DTypes, Derivative, Implementation, Kernel, Operator, Saves, Tags, TensorSpec, Variants,
    formula, operator,
};
use rushlight_dispatch::value::{Ints, Output, Value, sizes_value};
use rushlight_dispatch::vmap::{RuleResult, one_result, unsqueeze_to_rank};
use rushlight_dispatch::{copy, create, op};

use crate::view::expand::EXPAND;

#[operator]
pub static REPEAT: Operator = Operator {
    name: "repeat",
    variants: Variants::METHOD,
    signature: "(Tensor self, int[] repeats) -> Tensor",
    doc: "A copy with the whole tensor repeated along each dimension; additional leading `repeats` make new dimensions.

    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])",
    dtypes: DTypes::ALL,
    batch_rule: BatchRule::Custom(batched_repeat),
    implementation: Implementation::Kernel(Kernel::on_any_device(
        |args| {
            let (input, repeats) = (args.tensor(INPUT)?, args.ints(REPEATS)?);
            if repeats.len() < input.rank() {
                return Err(Error::runtime(
                    "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
                )
                .hint("Give a number for each dimension; 1 leaves it unchanged."));
            }
            let pairs = pairs(input.sizes(), repeats);
            let mut sizes = Dims::new();
            for (dim, &(times, size)) in pairs.iter().enumerate() {
                let (whole, wrapped) = times.overflowing_mul(size);
                // torch's sizes wrap around. It refuses what becomes negative, and windows larger than the rest.
                if wrapped && whole >= size {
                    return Err(numel_overflow(&[times, size]));
                }
                if wrapped && whole >= 0 {
                    return Err(Error::runtime(format!(
                        "maximum size for tensor at dimension {dim} is {whole} but size is {size}"
                    ))
                    .hint(format!("{times} times {size} does not fit in 64 bits."))
                    .shapes([input.sizes().as_slice()]));
                }
                sizes.push(whole);
            }
            checked_new(&sizes)?;
            Ok(vec![TensorSpec::new(&sizes, input.dtype(), input)])
        },
        |args, results| {
            let (input, whole) = (args.tensor(INPUT)?, &results[0]);
            let pairs = pairs(input.sizes(), args.ints(REPEATS)?);
            if whole.numel() == 0 {
                return Ok(());
            }
            // Every dimension of the result is split into the number of repetitions and the size.
            let sizes: Dims = pairs.iter().flat_map(|&(times, size)| [times, size]).collect();
            let missing = pairs.len() - input.rank();
            let strides =
                (0..pairs.len()).flat_map(|d| [0, if d < missing { 0 } else { input.layout().strides[d - missing] }]);
            let source = Layout { sizes: sizes.clone(), strides: strides.collect(), offset: input.layout().offset };
            copy::copy_views(whole, &Layout::contiguous(&sizes), input, &source)
        },
    )),
    derivative: Derivative::Formulas(&[formula(INPUT, Saves::NOTHING, |d| {
        let pairs = pairs(d.sizes(INPUT), d.ints(REPEATS));
        let sizes: Ints = pairs.iter().flat_map(|&(times, size)| [times as i64, size as i64]).collect();
        let counts: Ints = (0..pairs.len() as i64).map(|d| 2 * d).collect();
        if counts.is_empty() {
            return d.grad();
        }
        d.grad()
            .call(&crate::view::RESHAPE, [Value::Ints(sizes)])
            .call(&crate::reduce::sum::SUM_DIM, [Value::Ints(counts)])
            .call(&crate::view::RESHAPE, [sizes_value(d.sizes(INPUT))])
    })]),
    samples: &["t(2, 3), (2, 2)", "t(3), (2, 1, 2)", "t(2), (0,)", "t(), (3,)", "t(2, 3).t(), (1, 2)"],
    errors: &[
        (
            "t(2, 3), (2,)",
            "RuntimeError",
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor",
        ),
        (
            "t(4, 0), (4611686018427387904, 1)",
            "RuntimeError",
            "maximum size for tensor at dimension 0 is 0 but size is 4",
        ),
    ],
    reference: "np.tile(self, repeats)",
    ..Operator::BASE
};

/// For each dimension of the result the number of repetitions and the size.
fn pairs(sizes: &[isize], repeats: &[i64]) -> Vec<(isize, isize)> {
    let missing = repeats.len().saturating_sub(sizes.len());
    repeats
        .iter()
        .enumerate()
        .map(|(d, &times)| (times as isize, if d < missing { 1 } else { sizes[d - missing] }))
        .collect()
}

#[operator]
pub static TILE: Operator = Operator {
    name: "tile",
    signature: "(Tensor self, int[] dims) -> Tensor",
    doc: "`repeat` in which missing repetitions count as one.

    >>> torch.tile(torch.tensor([[1], [2]]), (2,))
    tensor([[1, 1],
            [2, 2]])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let (input, dims) = (args.tensor(INPUT)?, args.ints(DIMS)?);
        let mut repeats = Ints::from_elem(1, input.rank().saturating_sub(dims.len()));
        repeats.extend_from_slice(dims);
        op!(REPEAT, input, repeats).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), (2,)", "t(3), (2, 2)", "t(2, 3), (1, 2, 1)"],
    errors: &[
        ("t(2), (-1,)", "RuntimeError", "Trying to create tensor with negative dimension -2: [-2]"),
        ("t(2), (2, -1)", "RuntimeError", "Trying to create tensor with negative dimension -2: [2, -2]"),
    ],
    reference: "np.tile(self, dims)",
    ..Operator::BASE
};

#[operator]
pub static REPEAT_INTERLEAVE: Operator = Operator {
    name: "repeat_interleave.Tensor",
    variants: Variants::FUNCTION,
    signature: "(Tensor repeats, *, int? output_size=None) -> Tensor",
    doc: "Every index repeated as often as in `repeats`.

    >>> torch.repeat_interleave(torch.tensor([1, 0, 2]))
    tensor([0, 2, 2])",
    dtypes: DTypes::ALL,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::CompositeImplicit(|args| {
        counted(args.tensor(REPEATS)?, args.optional_int(OUTPUT_SIZE)).map(Output::Tensor)
    }),
    derivative: Derivative::NonDifferentiable("the result counts"),
    samples: &["torch.tensor([1, 0, 2])"],
    reference: "np.repeat(np.arange(len(repeats)), repeats)",
    ..Operator::BASE
};

fn too_many() -> Error {
    Error::runtime("numel: integer multiplication overflow")
        .hint("The number of repeated elements must fit in 64 bits.")
}

fn counted(repeats: &Tensor, output_size: Option<i64>) -> Result<Tensor> {
    if !matches!(repeats.dtype(), DType::I64 | DType::I32) {
        return Err(Error::unsupported("repeat_interleave_cpu", repeats.dtype()));
    }
    if repeats.rank() != 1 {
        return Err(Error::runtime("repeat_interleave only accept 1D vector as repeat"));
    }
    if repeats.device() == Device::Meta {
        let Some(total) = output_size else {
            return Err(Error::runtime("cannot repeat_interleave a meta tensor without output_size"));
        };
        return create::empty(&[total as isize], repeats.dtype(), Device::Meta);
    }
    let times = crate::convert::to_vec::<i64>(repeats)?;
    if times.iter().any(|&n| n < 0) {
        return Err(Error::runtime("repeats can not be negative"));
    }
    // torch's sum may overflow, and then asks for a negative size, or one that does not fit.
    let total = times.iter().fold(0i64, |sum, &n| sum.wrapping_add(n));
    if times.iter().try_fold(0i64, |sum, &n| sum.checked_add(n)).is_none() && total >= 0 {
        return Err(too_many());
    }
    checked_new(&[total as isize])?;
    Layout::contiguous(&[total as isize]).checked_bytes(size_of::<i64>())?;
    if output_size.is_some_and(|size| size != total) {
        return Err(Error::runtime("allocated size does not match required size"));
    }
    let mut places = list(total as usize)?;
    for (at, &n) in times.iter().enumerate() {
        places.extend(std::iter::repeat_n(at as i64, n as usize));
    }
    let places = crate::convert::to_device(&create::from_slice(&places)?, repeats.device())?;
    crate::convert::to_dtype(&places, repeats.dtype())
}

#[operator]
pub static REPEAT_INTERLEAVE_BY: Operator = Operator {
    name: "repeat_interleave.self_Tensor",
    signature: "(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    doc: "Every slice of `dim` repeated as often as in `repeats`, one number or one for each slice; without `dim` every element.

    >>> torch.repeat_interleave(torch.tensor([5, 6]), torch.tensor([1, 2]))
    tensor([5, 6, 6])",
    dtypes: DTypes::ALL,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::FallbackIf(&[REPEATS]),
    implementation: Implementation::CompositeImplicit(|args| {
        let (own, dim) = along(args.tensor(INPUT)?, args.optional_int(DIM), |dim| {
            format!("Dimension specified as {dim} but tensor has no dimensions")
        })?;
        let repeats = args.tensor(REPEATS)?;
        let size = own.sizes()[dim];
        let wide = if repeats.numel() == 1 && repeats.rank() <= 1 {
            op!(EXPAND, op!(crate::view::RESHAPE, repeats, sizes_value(&[1]))?, sizes_value(&[size]))?
        } else {
            repeats.clone()
        };
        if wide.rank() != 1 {
            return Err(Error::runtime("repeats must be 0-dim or 1-dim tensor"));
        }
        if wide.sizes()[0] != size {
            return Err(Error::runtime(format!(
                "repeats must have the same size as input along dim, but got repeats.size(0) = {} and input.size({}) = {size}",
                wide.sizes()[0],
                args.optional_int(DIM).unwrap_or(0)
            )));
        }
        let places = counted(&wide, args.optional_int(OUTPUT_SIZE))?;
        op!(crate::index::index_select::INDEX_SELECT, own, dim, places).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), torch.tensor([1, 2]), 0", "t(3), torch.tensor(2)", "t(2, 3), torch.tensor([0, 1, 2]), -1"],
    reference: "np.repeat(self, repeats, dim)",
    ..Operator::BASE
};

/// The tensor and its wrapped dimension; without a dimension the flattened tensor. A scalar has no dimension to name, of which
/// the overloads speak differently.
fn along(input: &Tensor, dim: Option<i64>, of_scalar: fn(i64) -> String) -> Result<(Tensor, usize)> {
    match dim {
        None => Ok((op!(crate::view::flatten::FLATTEN, input)?, 0)),
        Some(dim) if input.rank() == 0 => {
            Err(Error::index(of_scalar(dim)).hint("Leave `dim` out to repeat the one element."))
        }
        Some(dim) => Ok((input.clone(), wrap_dim(dim, input.rank())?)),
    }
}

#[operator]
pub static REPEAT_INTERLEAVE_INT: Operator = Operator {
    name: "repeat_interleave.self_int",
    signature: "(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor",
    doc: "Every slice of `dim` repeated `repeats` times; without `dim` every element.

    >>> torch.repeat_interleave(torch.tensor([5, 6]), 2)
    tensor([5, 5, 6, 6])",
    dtypes: DTypes::ALL,
    implementation: Implementation::CompositeImplicit(|args| {
        let repeats = args.int(REPEATS)?;
        if repeats < 0 {
            return Err(Error::runtime("Repeats must be non-negative"));
        }
        let (own, dim) = along(args.tensor(INPUT)?, args.optional_int(DIM), |dim| {
            // The new dimension is counted from one behind.
            let dim = if matches!(dim, 0 | -1) { 1 } else { dim };
            format!("Dimension out of range (expected to be in range of [-1, 0], but got {dim})")
        })?;
        let mut sizes = own.sizes().clone();
        let Some(total) = (sizes[dim] as i64).checked_mul(repeats) else {
            // Without elements, the strides of the copy are what overflows.
            let mut wide = sizes.clone();
            wide.insert(dim + 1, repeats as isize);
            return Err(if own.numel() == 0 { checked_new(&wide).err().unwrap_or_else(too_many) } else { too_many() });
        };
        if let Some(size) = args.optional_int(OUTPUT_SIZE).filter(|&size| size != total) {
            return Err(Error::runtime(format!(
                "repeat_interleave: Invalid output_size, expected {total} but got {size}"
            )));
        }
        sizes.insert(dim + 1, repeats as isize);
        let wide = op!(EXPAND, op!(crate::view::squeeze::UNSQUEEZE, own, dim + 1)?, sizes_value(&sizes))?;
        let plain = op!(crate::convert::CLONE, wide, "contiguous_format")?;
        op!(crate::view::flatten::FLATTEN, plain, dim, dim + 1).map(Output::Tensor)
    }),
    derivative: Derivative::CompositeImplicit,
    samples: &["t(2, 3), 2", "t(2, 3), 2, 1", "t(3), 0"],
    errors: &[
        ("t(3), -1", "RuntimeError", "Repeats must be non-negative"),
        (
            "t(2, 3), 2, 0, output_size=5",
            "RuntimeError",
            "repeat_interleave: Invalid output_size, expected 4 but got 5",
        ),
        ("t(2, 3), 2**62", "RuntimeError", "numel: integer multiplication overflow"),
        ("t(), 2, 0", "IndexError", "Dimension out of range (expected to be in range of [-1, 0], but got 1)"),
    ],
    reference: "np.repeat(self, repeats, dim)",
    ..Operator::BASE
};

fn batched_repeat(batch: &BatchedCall) -> RuleResult {
    use REPEAT::*;

    let times = batch.args.ints(REPEATS)?;
    let own = unsqueeze_to_rank(&batch.tensor(INPUT)?, times.len());
    let times: Ints = std::iter::once(1).chain(times.iter().copied()).collect();
    one_result(op!(REPEAT, own, times))
}
