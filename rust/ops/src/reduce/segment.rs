//! Reductions of segments: parts of one dimension, each reduced to an element.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::create::{from_slice, full};
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::op;
use rushlight_dispatch::operator::{
    Args, BatchRule, DTypes, Derivative, Implementation, Operator, Tags, Variants, operator,
};
use rushlight_dispatch::value::{Output, sizes_value};

use crate::convert::{to_device, to_dtype, to_vec};
use crate::expr_ext::ExprExt;
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};
use crate::index::reduce::INDEX_REDUCE;
use crate::view::RESHAPE;

#[operator]
pub static SEGMENT_REDUCE: Operator = Operator {
    name: "segment_reduce",
    node: "SegmentReduceBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    doc: "The `sum`, `mean`, `max`, `min` or `prod` of each segment of the dimension `axis`.

The segments are contiguous: `lengths` are their lengths, or `offsets` the first index of each and the end of the last.
Their leading dimensions are those of `data` before `axis`. An empty segment gives `initial`, which
takes part in every other too; without one the reduction of nothing (NaN for a mean).

    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), 'sum', lengths=torch.tensor([2, 1]))
    tensor([3., 3.])",
    dtypes: DTypes::FLOATS,
    tags: Tags::DATA_DEPENDENT,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::CompositeImplicit(|args| segment_reduce(args).map(Output::Tensor)),
    derivative: Derivative::CompositeImplicit,
    samples: &[
        "t(5, 2), 'sum', lengths=torch.tensor([2, 3])",
        "t(5), 'max', lengths=torch.tensor([4, 1])",
        "t(5), 'min', offsets=torch.tensor([0, 2, 5]), initial=0.5",
        "t(5), 'mean', lengths=torch.tensor([2, 2, 1]), initial=2",
        "t(2, 4), 'prod', lengths=torch.tensor([[1, 3], [2, 2]]), axis=1",
    ],
    errors: &[
        ("t(3), 'sum'", "RuntimeError", "segment_reduce(): Either lengths or offsets must be defined."),
        (
            "t(3), 'first', lengths=torch.tensor([3])",
            "RuntimeError",
            "reduce argument must be either sum, prod, mean, amax or amin, got first",
        ),
        (
            "t(3), 'sum', lengths=torch.tensor([2, 2])",
            "RuntimeError",
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
        ),
        ("t(3), 'sum', lengths=torch.tensor([4, -1])", "RuntimeError", "lengths contains negative value!"),
        (
            "t(3, 2), 'sum', lengths=torch.tensor([1, 1]), axis=1",
            "RuntimeError",
            "segment_reduce(): Expected axis to be the last dimension of lengths but got 1.",
        ),
    ],
    ..Operator::BASE
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentReduction {
    Sum,
    Mean,
    Product,
    Max,
    Min,
}

impl SegmentReduction {
    fn named(name: &str) -> Result<SegmentReduction> {
        Ok(match name {
            "sum" => SegmentReduction::Sum,
            "mean" => SegmentReduction::Mean,
            "prod" => SegmentReduction::Product,
            "max" | "amax" => SegmentReduction::Max,
            "min" | "amin" => SegmentReduction::Min,
            _ => {
                return Err(Error::runtime(format!(
                    "reduce argument must be either sum, prod, mean, amax or amin, got {name}"
                )));
            }
        })
    }

    /// The result for an empty segment.
    fn neutral(self) -> f64 {
        match self {
            SegmentReduction::Sum | SegmentReduction::Mean => 0.0,
            SegmentReduction::Product => 1.0,
            SegmentReduction::Max => f64::NEG_INFINITY,
            SegmentReduction::Min => f64::INFINITY,
        }
    }
}

/// The rows of the flattened data and their segments.
struct Segments {
    /// The rows that belong to a segment, and which one.
    rows: Vec<i64>,
    owners: Vec<i64>,
    lengths: Vec<i64>,
    /// The number of segments in each row of `lengths`.
    count: usize,
}

impl Segments {
    fn read(args: &Args, axis: usize) -> Result<Segments> {
        use SEGMENT_REDUCE::*;

        let data = args.tensor(DATA)?;
        let (name, given) = match (args.has_tensor(LENGTHS), args.has_tensor(OFFSETS)) {
            (true, _) => ("lengths", args.valued(LENGTHS)?),
            (_, true) => ("offsets", args.valued(OFFSETS)?),
            _ => return Err(Error::runtime("segment_reduce(): Either lengths or offsets must be defined.")),
        };
        if given.rank() != axis + 1 {
            return Err(Error::runtime(format!(
                "segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
            )));
        }
        if !matches!(given.dtype(), DType::I64 | DType::I32) {
            return Err(Error::not_implemented(format!(
                "\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{}'",
                given.dtype().display_name()
            )));
        }
        if given.sizes()[..axis] != data.sizes()[..axis] {
            return Err(Error::runtime(format!(
                "segment_reduce(): Expected {name} to have the sizes of data before axis {axis}."
            ))
            .shapes([data.sizes().as_slice(), given.sizes().as_slice()]));
        }
        let (width, size) = (given.sizes()[axis] as usize, data.sizes()[axis]);
        let numbers = to_vec::<i64>(given)?;
        if name == "lengths" && numbers.iter().any(|&length| length < 0) {
            return Err(Error::runtime("lengths contains negative value!")
                .hint("Lengths must be non-negative and add up to the size along axis."));
        }
        let batches: usize = given.sizes()[..axis].iter().product::<isize>() as usize;
        let count = if name == "lengths" { width } else { width.saturating_sub(1) };
        let mut found = Segments {
            rows: list(data.numel())?,
            owners: list(data.numel())?,
            lengths: filled(0, batches * count)?,
            count,
        };
        for batch in 0..batches {
            let own = &numbers[batch * width..][..width];
            let mut at = if name == "lengths" { 0 } else { own.first().copied().unwrap_or(0) };
            for segment in 0..count {
                let length = if name == "lengths" { own[segment] } else { own[segment + 1] - own[segment] };
                if length < 0 {
                    return Err(Error::runtime(
                        "Expected segment_length >= 0 to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)",
                    ));
                }
                if at < 0 || at.checked_add(length).is_none_or(|end| end > size as i64) {
                    return Err(unequal());
                }
                let place = batch * count + segment;
                found.lengths[place] = length;
                found.rows.extend((at..at + length).map(|row| batch as i64 * size as i64 + row));
                found.owners.extend((0..length).map(|_| place as i64));
                at += length;
            }
            if name == "lengths" && !args.bool(UNSAFE)? && at != size as i64 {
                return Err(unequal());
            }
        }
        Ok(found)
    }
}

#[cold]
fn unequal() -> Error {
    Error::runtime(
        "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.",
    )
}

fn segment_reduce(args: &Args) -> Result<Tensor> {
    use SEGMENT_REDUCE::*;

    let data = args.tensor(DATA)?;
    let axis = wrap_dim(args.int(AXIS)?, data.rank())?;
    if args.has_tensor(INDICES) {
        return Err(Error::runtime("segment_reduce(): indices based reduction is not supported yet."));
    }
    let (way, initial) = (SegmentReduction::named(args.str(REDUCE)?)?, args.optional_scalar(INITIAL));
    if data.rank() == 0 && (args.has_tensor(LENGTHS) || args.has_tensor(OFFSETS)) {
        return Err(Error::runtime("segment_reduce(): Expected data to have at least one dimension."));
    }
    let segments = Segments::read(args, axis)?;
    if !data.dtype().is_floating() {
        return Err(Error::not_implemented(format!(
            "\"_segment_reduce_cpu\" not implemented for '{}'",
            data.dtype().display_name()
        )));
    }
    let width = data.sizes()[axis + 1..].iter().product::<isize>();
    let height = data.sizes()[..=axis].iter().product::<isize>();
    let flat = op!(RESHAPE, data, sizes_value(&[height, width]))?;
    let listed = |list: &[i64]| to_device(&from_slice(list)?, flat.device());
    let rows = op!(INDEX_SELECT, &flat, 0i64, &listed(&segments.rows)?)?;
    let owners = listed(&segments.owners)?;
    let shape = [segments.lengths.len() as isize, width];
    // The minimum and the maximum are compared with `initial` afterwards: if they are equal, the gradient goes to the
    // elements.
    let first = match way {
        SegmentReduction::Max | SegmentReduction::Min => way.neutral(),
        _ => initial.map_or(way.neutral(), Scalar::f64),
    };
    let first = full(&shape, Scalar::Float(first), data.dtype(), data.device())?;
    let reduced = |way: &str| op!(INDEX_REDUCE, &first, 0i64, &owners, &rows, way);
    let result = match way {
        SegmentReduction::Sum => op!(INDEX_ADD, &first, 0i64, &owners, &rows)?,
        SegmentReduction::Mean => {
            let sums = op!(INDEX_ADD, &first, 0i64, &owners, &rows)?;
            let least = i64::from(initial.is_some());
            let lengths = listed(&collected(segments.lengths.iter().map(|&length| length.max(least)))?)?;
            let lengths = op!(RESHAPE, &to_dtype(&lengths, data.dtype())?, sizes_value(&[shape[0], 1]))?;
            (Expr::from(sums) / lengths).done()?
        }
        SegmentReduction::Product => reduced("prod")?,
        SegmentReduction::Max => combine_with_initial(reduced("amax")?, initial, Expr::below)?,
        SegmentReduction::Min => combine_with_initial(reduced("amin")?, initial, Expr::above)?,
    };
    let mut sizes = data.sizes().clone();
    sizes[axis] = segments.count as isize;
    op!(RESHAPE, &result, sizes_value(&sizes))
}

/// `initial` where it exceeds the reduction.
fn combine_with_initial(
    reduced: Tensor,
    initial: Option<Scalar>,
    falls_short: fn(Expr, Scalar) -> Expr,
) -> Result<Tensor> {
    match initial {
        None => Ok(reduced),
        Some(initial) => {
            let short = falls_short(Expr::from(&reduced), initial);
            // A number with a tensor of a half type keeps the tensor's dtype.
            short.choose(initial, Expr::from(reduced)).done()
        }
    }
}
