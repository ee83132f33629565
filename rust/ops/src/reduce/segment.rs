//! Reductions of segments: stretches of one dimension, each to an element.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{collected, filled, list};
use rushlight_core::layout::wrap_dim;
use rushlight_core::{DType, Error, Result, Scalar};

use crate::convert::{to_dtype, to_vec};
use crate::create::{from_slice, full};
use crate::derive::Derivative;
use crate::expr::Expr;
use crate::index::along::{INDEX_ADD, INDEX_REDUCE, INDEX_SELECT};
use crate::mapped::Mapped;
use crate::op;
use crate::row::{DTypes, Row, Run, Traits, Variants};
use crate::value::{Args, Output};
use crate::view::RESHAPE;
use crate::view::reshape::sizes_value;

pub static SEGMENT_REDUCE: Row = Row {
    name: "segment_reduce",
    node: "SegmentReduceBackward0",
    variants: Variants::FUNCTION,
    signature: "(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    doc: "The `sum`, `mean`, `max`, `min` or `prod` of each segment of the dimension `axis`.

The segments stand one after the other: `lengths` says how long each is, or `offsets` where each begins and the last ends.
Before the last dimension of either stand the dimensions of `data` before `axis`. An empty segment gives `initial`, which
takes part in every other too; without one the reduction of nothing (NaN for a mean).

    >>> torch.segment_reduce(torch.tensor([1., 2., 3.]), 'sum', lengths=torch.tensor([2, 1]))
    tensor([3., 3.])",
    dtypes: DTypes::FLOATS,
    traits: Traits::NEEDS_VALUES,
    mapped: Mapped::Each,
    run: Run::Compose(|args| segment_reduce(args).map(Output::Tensor)),
    derivative: Derivative::Composed,
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
    ..Row::BASE
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Sum,
    Mean,
    Product,
    Greatest,
    Least,
}

impl Way {
    fn named(name: &str) -> Result<Way> {
        Ok(match name {
            "sum" => Way::Sum,
            "mean" => Way::Mean,
            "prod" => Way::Product,
            "max" | "amax" => Way::Greatest,
            "min" | "amin" => Way::Least,
            _ => {
                return Err(Error::runtime(format!(
                    "reduce argument must be either sum, prod, mean, amax or amin, got {name}"
                )));
            }
        })
    }

    /// What nothing reduces to.
    fn neutral(self) -> f64 {
        match self {
            Way::Sum | Way::Mean => 0.0,
            Way::Product => 1.0,
            Way::Greatest => f64::NEG_INFINITY,
            Way::Least => f64::INFINITY,
        }
    }
}

/// Which rows of the flattened data belong to which segment.
struct Segments {
    /// The rows that belong to one, and to which.
    rows: Vec<i64>,
    owners: Vec<i64>,
    lengths: Vec<i64>,
    /// In each row of `lengths`.
    count: usize,
}

impl Segments {
    fn read(args: &Args, axis: usize) -> Result<Segments> {
        let data = args.tensor(0)?;
        let (name, given) = match (args.has_tensor(2), args.has_tensor(4)) {
            (true, _) => ("lengths", args.valued(2)?),
            (_, true) => ("offsets", args.valued(4)?),
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
                given.dtype().title()
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
                .hint("Lengths are 0 or more and add up to the size along axis."));
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
            if name == "lengths" && !args.bool(6)? && at != size as i64 {
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
    let data = args.tensor(0)?;
    let axis = wrap_dim(args.int(5)?, data.rank())?;
    if args.has_tensor(3) {
        return Err(Error::runtime("segment_reduce(): indices based reduction is not supported yet."));
    }
    let (way, initial) = (Way::named(args.str(1)?)?, args.optional_scalar(7));
    if data.rank() == 0 {
        return Err(Error::runtime("segment_reduce(): Expected data to have at least one dimension."));
    }
    if !data.dtype().is_floating() {
        return Err(Error::not_implemented(format!(
            "\"_segment_reduce_cpu\" not implemented for '{}'",
            data.dtype().title()
        )));
    }
    let segments = Segments::read(args, axis)?;
    let width = data.sizes()[axis + 1..].iter().product::<isize>();
    let height = data.sizes()[..=axis].iter().product::<isize>();
    let flat = op!(RESHAPE, data, sizes_value(&[height, width]))?;
    let rows = op!(INDEX_SELECT, &flat, 0i64, &from_slice(&segments.rows)?)?;
    let owners = from_slice(&segments.owners)?;
    let shape = [segments.lengths.len() as isize, width];
    // The least and the greatest meet `initial` afterwards: where it is equal to them, the gradient is theirs.
    let first = match way {
        Way::Greatest | Way::Least => way.neutral(),
        _ => initial.map_or(way.neutral(), Scalar::f64),
    };
    let first = full(&shape, Scalar::Float(first), data.dtype(), data.device())?;
    let reduced = |way: &str| op!(INDEX_REDUCE, &first, 0i64, &owners, &rows, way);
    let result = match way {
        Way::Sum => op!(INDEX_ADD, &first, 0i64, &owners, &rows)?,
        Way::Mean => {
            let sums = op!(INDEX_ADD, &first, 0i64, &owners, &rows)?;
            let least = i64::from(initial.is_some());
            let lengths = from_slice(&collected(segments.lengths.iter().map(|&length| length.max(least)))?)?;
            let lengths = op!(RESHAPE, &to_dtype(&lengths, data.dtype())?, sizes_value(&[shape[0], 1]))?;
            (Expr::from(sums) / lengths).done()?
        }
        Way::Product => reduced("prod")?,
        Way::Greatest => meet(reduced("amax")?, initial, Expr::below)?,
        Way::Least => meet(reduced("amin")?, initial, Expr::above)?,
    };
    let mut sizes = data.sizes().clone();
    sizes[axis] = segments.count as isize;
    op!(RESHAPE, &result, sizes_value(&sizes))
}

/// `initial` where the reduction falls short of it.
fn meet(reduced: Tensor, initial: Option<Scalar>, falls_short: fn(Expr, Scalar) -> Expr) -> Result<Tensor> {
    match initial {
        None => Ok(reduced),
        Some(initial) => {
            let short = falls_short(Expr::from(&reduced), initial);
            // A number beside a tensor of a half type keeps its dtype.
            short.choose(initial, Expr::from(reduced)).done()
        }
    }
}
