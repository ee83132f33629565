//! Histograms over edges: of numbers, or of points in several dimensions.

use rushlight_autograd::Tensor;
use rushlight_core::alloc::{filled, list};
use rushlight_core::layout::Shape;
use rushlight_core::{DType, Error, Result, Scalar};
use rushlight_dispatch::operator::{
    Accepts, Args, BatchRule, DTypes, Derivative, ExplicitAutograd, Implementation, Operator, Out, Tags, Variants,
    operator,
};
use rushlight_dispatch::value::{Output, Value, sizes_value};
use rushlight_dispatch::{copy, create, op};

use crate::convert::{to_dtype, to_vec};
use crate::create::range::LINSPACE;

/// Shared by the operators.
const BASE: Operator = Operator {
    variants: Variants::FUNCTION,
    dtypes: DTypes::of(&[DType::F32, DType::F64]),
    tags: Tags::DATA_DEPENDENT,
    ..Operator::BASE
};

const OUT: Out = Out::new(
    Accepts::Same,
    &[
        "torch.histogram: input tensor and hist tensor should have the same dtype, but got input {result} and hist {out}",
        "torch.histogram: input tensor and bin_edges tensor should have the same dtype, but got input {result} and bin_edges {out} for dimension 0",
    ],
);

#[operator]
pub static HISTOGRAM_EDGES: Operator = Operator {
    name: "histogram.bins_tensor",
    derivative: Derivative::NotImplemented("aten::histogram"),
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    doc: "The number of elements (or the sum of their `weight`) between adjacent edges in `bins`.

The last bin includes both its edges, every other only the left one. With `density` the bins are divided by their widths and the
whole, so that the histogram's integral is one.

    >>> torch.histogram(torch.tensor([1., 2., 1.]), torch.tensor([0., 1.5, 3.])).hist
    tensor([2., 1.])",
    out: OUT,
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_host(|args| {
        let input = args.valued(INPUT)?;
        let edges = args.tensor(BINS)?;
        let counts =
            counted(&column(input)?, &[edges], flat(args.optional_tensor(WEIGHT))?.as_ref(), args.bool(DENSITY)?)?;
        Ok(Output::Tuple(vec![counts, copy::clone(edges)?]))
    })),
    samples: &[
        "t(9), torch.tensor([-1., 0., 1.], dtype=t(1).dtype)",
        "t(2, 3), torch.tensor([-1., 1.], dtype=t(1).dtype), weight=pos(2, 3), density=True",
    ],
    errors: &[
        (
            "t(3), t(2, 2)",
            "RuntimeError",
            "torch.histogramdd: bins tensor should have one dimension, but got 2 dimensions in the bins tensor for dimension 0",
        ),
        (
            "t(3), t(0)",
            "RuntimeError",
            "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension 0",
        ),
    ],
    reference: "np.histogram(self, bins, weights=weight, density=density)",
    ..BASE
};

#[operator]
pub static HISTOGRAM: Operator = Operator {
    name: "histogram.bin_ct",
    derivative: Derivative::NotImplemented("aten::histogram"),
    variants: Variants::BOTH.union(Variants::OUT),
    signature: "(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor bin_edges)",
    doc: "The number of elements (or the sum of their `weight`) in each of `bins` equal parts of `range`, by default the elements' own.

    >>> torch.histogram(torch.tensor([1., 2., 1.]), bins=4, range=(0., 3.)).hist
    tensor([0., 2., 1., 0.])",
    out: OUT,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_host(|args| {
        let own = column(args.valued(INPUT)?)?;
        let edges = equal_parts(&own, &[args.int(BINS)?], args.optional_floats(RANGE))?.remove(0);
        let counts = counted(&own, &[&edges], flat(args.optional_tensor(WEIGHT))?.as_ref(), args.bool(DENSITY)?)?;
        Ok(Output::Tuple(vec![counts, edges]))
    })),
    samples: &["t(9), 4", "t(3, 4), 5, range=(-1., 1.), weight=pos(3, 4)", "t(9), 3, density=True", "t(0), 2"],
    errors: &[
        ("t(3), 0", "RuntimeError", "torch.histogram(): bins must be > 0, but got 0 for dimension 0"),
        (
            "t(3), 3, range=(3., 1.)",
            "RuntimeError",
            "torch.histogramdd: min should not exceed max, but got min 3 max 1 for dimension 0",
        ),
        (
            "t(3), 3, range=(3.,)",
            "RuntimeError",
            "torch.histogramdd: for a 1-dimensional histogram range should have 2 elements, but got 1",
        ),
        (
            "t(3), 3, weight=t(2)",
            "RuntimeError",
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape [3, 1] and weight with shape [2]",
        ),
    ],
    reference: "np.histogram(self, bins, range=range, weights=weight, density=density)",
    ..BASE
};

#[operator]
pub static BIN_EDGES: Operator = Operator {
    name: "_histogramdd_bin_edges",
    derivative: Derivative::NotImplemented("aten::_histogramdd_bin_edges"),
    signature: "(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False) -> Tensor[]",
    doc: "The edges of equal parts in each dimension of points, for `histogramdd`.

    >>> torch._histogramdd_bin_edges(torch.tensor([[0., 1.], [2., 3.]]), [2, 1])
    (tensor([0., 1., 2.]), tensor([1., 3.]))",
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_host(|args| {
        let points = points(args.valued(INPUT)?)?;
        equal_parts(&points, args.ints(BINS)?, args.optional_floats(RANGE)).map(Output::List)
    })),
    samples: &["t(9, 2), [3, 2]", "t(9, 1), [4], range=(-1., 1.)"],
    errors: &[
        (
            "t(3, 2), [3]",
            "RuntimeError",
            "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
        ),
        ("t(3), [3]", "RuntimeError", "torch.histogramdd: input tensor should have at least 2 dimensions"),
    ],
    reference: "tuple(np.histogramdd(self, bins, None if range is None else [range])[1])",
    ..BASE
};

#[operator]
pub static COUNT_POINTS: Operator = Operator {
    name: "_histogramdd_from_bin_tensors",
    derivative: Derivative::NotImplemented("aten::_histogramdd_from_bin_tensors"),
    signature: "(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
    doc: "The number of points in each box between edges, with one list of edges for each dimension.

    >>> torch._histogramdd_from_bin_tensors(torch.tensor([[0., 1.], [2., 3.]]), (torch.tensor([0., 1., 2.]), torch.tensor([1., 3.])))
    tensor([[1.],
            [1.]])",
    dtypes: DTypes::FLOATS,
    batch_rule: BatchRule::Fallback,
    implementation: Implementation::ExplicitAutograd(ExplicitAutograd::on_host(|args| {
        let points = points(args.valued(INPUT)?)?;
        counted(&points, &args.tensors(BINS)?, args.optional_tensor(WEIGHT), args.bool(DENSITY)?).map(Output::Tensor)
    })),
    samples: &["t(9, 2), (torch.tensor([-1., 0., 1.], dtype=t(1).dtype), torch.tensor([-1., 1.], dtype=t(1).dtype))"],
    errors: &[(
        "t(3, 2), (t(2),)",
        "RuntimeError",
        "torch.histogramdd: expected 2 sequences of bin edges for a 2-dimensional histogram but got 1",
    )],
    reference: "np.histogramdd(self, bins, weights=weight, density=density)[0]",
    ..BASE
};

/// Points, one per row: the last dimension holds a point's coordinates.
struct Points {
    values: Vec<f64>,
    tensor: Tensor,
}

impl Points {
    fn width(&self) -> usize {
        self.tensor.sizes().last().map_or(1, |&n| n as usize)
    }

    /// The smallest and the largest coordinate in a dimension.
    fn range(&self, dim: usize) -> (f64, f64) {
        let mut range = (f64::INFINITY, f64::NEG_INFINITY);
        for &value in self.values.iter().skip(dim).step_by(self.width()) {
            if value.is_nan() {
                return (f64::NAN, f64::NAN);
            }
            range = (range.0.min(value), range.1.max(value));
        }
        range
    }
}

/// Points of numbers.
fn points(tensor: &Tensor) -> Result<Points> {
    if tensor.rank() < 2 {
        return Err(Error::runtime("torch.histogramdd: input tensor should have at least 2 dimensions"));
    }
    // The dtype is refused where its elements are used.
    let values = if tensor.dtype().is_floating() { to_vec(tensor)? } else { Vec::new() };
    Ok(Points { values, tensor: tensor.clone() })
}

/// Numbers as points of one dimension.
fn column(tensor: &Tensor) -> Result<Points> {
    points(&op!(crate::view::RESHAPE, &tensor.detach(), sizes_value(&[tensor.numel() as isize, 1]))?)
}

fn flat(weight: Option<&Tensor>) -> Result<Option<Tensor>> {
    let flat = |weight: &Tensor| op!(crate::view::RESHAPE, &weight.detach(), sizes_value(&[weight.numel() as isize]));
    weight.map(flat).transpose()
}

/// The edges of `bins` equal parts in each dimension.
fn equal_parts(points: &Points, bins: &[i64], range: Option<&[f64]>) -> Result<Vec<Tensor>> {
    let width = points.width();
    if bins.len() != width {
        return Err(Error::runtime(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input.",
        ));
    }
    if let Some((dim, count)) = bins.iter().enumerate().find(|(_, count)| **count <= 0) {
        return Err(Error::runtime(format!(
            "torch.histogram(): bins must be > 0, but got {count} for dimension {dim}"
        )));
    }
    if let Some(range) = range
        && range.len() != 2 * width
    {
        return Err(Error::runtime(format!(
            "torch.histogramdd: for a {width}-dimensional histogram range should have {} elements, but got {}",
            2 * width,
            range.len()
        )));
    }
    let dtype = points.tensor.dtype();
    if range.is_none() && points.tensor.numel() > 0 && !matches!(dtype, DType::F32 | DType::F64) {
        return Err(Error::unsupported("histogramdd", dtype));
    }
    let edges = |dim: usize, count: i64| -> Result<Tensor> {
        let (mut low, mut high) = match range {
            Some(range) => (range[2 * dim], range[2 * dim + 1]),
            None if points.values.is_empty() => (0.0, 1.0),
            None => points.range(dim),
        };
        if !(low.is_finite() && high.is_finite()) {
            return Err(Error::runtime(
                format!("torch.histogramdd: dimension {dim}'s range [{low}, {high}] is not finite")
                    .replace("NaN", "nan"),
            ));
        }
        if low > high {
            return Err(Error::runtime(format!(
                "torch.histogramdd: min should not exceed max, but got min {low} max {high} for dimension {dim}"
            )));
        }
        if low == high {
            low -= 0.5;
            high += 0.5;
        }
        let ends = [Value::Scalar(Scalar::Float(low)), Value::Scalar(Scalar::Float(high))];
        let values = ends.into_iter().chain([Value::Int(count.saturating_add(1)), points.tensor.dtype().into()]);
        Args::new(&LINSPACE, values).call()?.into_tensor()
    };
    bins.iter().enumerate().map(|(dim, &count)| edges(dim, count)).collect()
}

/// Counts, or sums of weights, of the boxes between the edges.
fn counted(points: &Points, edges: &[&Tensor], weight: Option<&Tensor>, density: bool) -> Result<Tensor> {
    let (width, own) = (points.width(), &points.tensor);
    check_edges(points, edges)?;
    check_weight(own, weight)?;
    if !own.dtype().is_floating() {
        return Err(Error::unsupported("histogram_cpu", own.dtype()));
    }
    let lists = edges.iter().map(|edges| to_vec::<f64>(edges)).collect::<Result<Vec<_>>>()?;
    let sizes: Vec<isize> = lists.iter().map(|edges| edges.len() as isize - 1).collect();
    let boxes = rushlight_core::layout::checked_numel(&sizes)?;
    let mut table = filled(0f64, boxes)?;
    let weights = weight.map(to_vec::<f64>).transpose()?;
    let of_points = points.values.chunks_exact(width.max(1));
    for (place, point) in of_points.enumerate() {
        let found = point
            .iter()
            .zip(&lists)
            .try_fold(0, |at, (&value, edges)| bin(value, edges).map(|bin| at * (edges.len() - 1) + bin));
        if let Some(found) = found {
            table[found] += weights.as_ref().map_or(1.0, |weights| weights[place]);
        }
    }
    if density {
        divide_by_volume(&mut table, &lists)?;
    }
    let table = op!(crate::view::RESHAPE, &create::from_slice(&table)?, sizes_value(&sizes))?;
    to_dtype(&table, own.dtype())
}

/// The bin of a value between sorted edges: each includes its left edge, the last one both.
fn bin(value: f64, edges: &[f64]) -> Option<usize> {
    let (first, last) = (*edges.first()?, *edges.last()?);
    if !(value >= first && value <= last) || edges.len() < 2 {
        return None;
    }
    let above = edges.partition_point(|&edge| edge <= value);
    Some(above.clamp(1, edges.len() - 1) - 1)
}

/// Divides by the total and by each box's volume.
fn divide_by_volume(table: &mut [f64], lists: &[Vec<f64>]) -> Result<()> {
    let whole: f64 = table.iter().sum();
    let mut volumes = list(table.len())?;
    volumes.push(whole);
    for edges in lists {
        let mut finer = list(table.len())?;
        for volume in &volumes {
            finer.extend(edges.windows(2).map(|pair| volume * (pair[1] - pair[0])));
        }
        volumes = finer;
    }
    table.iter_mut().zip(volumes).for_each(|(count, volume)| *count /= volume);
    Ok(())
}

fn check_edges(points: &Points, edges: &[&Tensor]) -> Result<()> {
    let width = points.width();
    if edges.len() != width {
        return Err(Error::runtime(format!(
            "torch.histogramdd: expected {width} sequences of bin edges for a {width}-dimensional histogram but got {}",
            edges.len()
        )));
    }
    for (dim, edges) in edges.iter().enumerate() {
        let own = points.tensor.dtype();
        if edges.dtype() != own {
            return Err(Error::runtime(format!(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {} and bins for dimension {dim} with dtype {}",
                own.c_name(),
                edges.dtype().c_name()
            )));
        }
        if edges.rank() != 1 {
            return Err(Error::runtime(format!(
                "torch.histogramdd: bins tensor should have one dimension, but got {} dimensions in the bins tensor for dimension {dim}",
                edges.rank()
            )));
        }
        if edges.numel() == 1 {
            return Err(Error::runtime(format!("torch.histogram(): bins must be > 0, but got 0 for dimension {dim}")));
        }
        if edges.numel() == 0 {
            return Err(Error::runtime(format!(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension {dim}"
            )));
        }
    }
    Ok(())
}

fn check_weight(input: &Tensor, weight: Option<&Tensor>) -> Result<()> {
    let Some(weight) = weight else { return Ok(()) };
    if weight.dtype() != input.dtype() {
        return Err(Error::runtime(format!(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got input({}), and weight({})",
            input.dtype().c_name(),
            weight.dtype().c_name()
        )));
    }
    if *weight.sizes().as_slice() != input.sizes()[..input.rank() - 1] {
        return Err(Error::runtime(format!(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost dimension, but got input with shape {} and weight with shape {}",
            Shape(input.sizes()),
            Shape(weight.sizes())
        )));
    }
    Ok(())
}
