//! Operators that take dimensions away, and those that run along one.

pub mod covariance;
pub mod cumulative;
pub mod extreme;
pub mod hash;
pub mod logsumexp;
pub mod moments;
pub mod norm;
pub mod prod;
pub mod put_back;
pub mod segment;
pub mod softmax;
pub mod sum;
pub mod trapezoid;
pub mod truth;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{DimSet, wrap_dim};
use rushlight_core::plan::Plan;
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Dims, Error, Layout, Result};
use rushlight_cpu::reduce::{Fold, Reduction};

use crate::derive::Derive;
use crate::expr::Expr;
use crate::row::Spec;
use crate::value::{Args, Ints};

pub use sum::SUM;

/// Sums a broadcast result's gradient back to the operand's shape.
pub fn sum_to(grad: &Tensor, sizes: &[isize]) -> Result<Tensor> {
    // A private row's result may have fewer dimensions than what it is the gradient of; then only the shape changes.
    let extra = grad.rank().saturating_sub(sizes.len());
    let dims: Ints = (0..grad.rank())
        .filter(|&dim| dim < extra || (sizes[dim - extra] == 1 && grad.sizes()[dim] != 1))
        .map(|dim| dim as i64)
        .collect();
    let summed = if dims.is_empty() { grad.clone() } else { crate::op!(sum::SUM_DIM, grad, dims, true)? };
    if summed.sizes().as_slice() == sizes {
        return Ok(summed);
    }
    crate::view::RESHAPE.tensor([(&summed).into(), crate::view::reshape::sizes_value(sizes)])
}

/// What a call reduces: some dimensions, and whether they stay as ones.
#[derive(Clone, Copy)]
pub struct Over {
    pub dims: DimSet,
    pub keepdim: bool,
}

impl Over {
    /// Everything.
    pub const ALL: Over = Over { dims: DimSet::All, keepdim: false };

    /// What the arguments at `place` (dimensions; none means all) and behind it (keepdim) say.
    pub fn of(args: &Args, place: usize) -> Result<Over> {
        let dims = DimSet::of(&dims(args, place), args.tensor(0)?.rank())?;
        Ok(Over { dims, keepdim: args.optional_bool(place + 1).unwrap_or(false) })
    }

    pub fn has(self, dim: usize) -> bool {
        self.dims.has(dim)
    }

    /// The sizes of the result.
    pub fn sizes(self, own: &[isize]) -> Dims {
        let kept = own.iter().enumerate().filter_map(|(dim, &size)| match (self.has(dim), self.keepdim) {
            (true, true) => Some(1),
            (true, false) => None,
            (false, _) => Some(size),
        });
        kept.collect()
    }

    /// How many elements meet in each result.
    pub fn count(self, own: &[isize]) -> usize {
        own.iter().enumerate().filter(|(dim, _)| self.has(*dim)).map(|(_, &size)| size as usize).product()
    }

    /// A result of these dimensions.
    pub fn spec(self, args: &Args, dtype: DType) -> Result<Spec> {
        let own = args.tensor(0)?;
        Ok(Spec::new(&self.sizes(own.sizes()), dtype, own))
    }

    /// Refuses to look for an element where there is none.
    pub fn check_not_empty(self, args: &Args) -> Result<()> {
        let own = args.tensor(0)?;
        let name = args.row.python_name();
        if own.numel() > 0 {
            return Ok(());
        }
        if let Some(dim) = (0..own.rank()).find(|&dim| self.has(dim) && own.sizes()[dim] == 0) {
            return Err(Error::index(format!("{name}(): Expected reduction dim {dim} to have non-zero size."))
                .shapes([own.sizes().as_slice()])
                .axis(dim));
        }
        Ok(())
    }
}

/// The dimensions at `place`: one, several, or none.
pub fn dims(args: &Args, place: usize) -> Ints {
    match (args.optional_ints(place), args.optional_int(place)) {
        (Some(list), _) => Ints::from_slice(list),
        (None, Some(dim)) => Ints::from_slice(&[dim]),
        (None, None) => Ints::new(),
    }
}

/// The one dimension at `place`.
pub fn one_dim(args: &Args, place: usize) -> Result<usize> {
    wrap_dim(args.int(place)?, args.tensor(0)?.rank())
}

/// Runs a fold over some dimensions, into fresh row-major results.
pub fn reduce(input: &Tensor, dims: DimSet, outs: &[Tensor], fold: Fold, numbers: &[f64]) -> Result<()> {
    reduce_layout(input, input.layout(), input.dtype(), dims, outs, fold, numbers)
}

/// Runs a fold over memory seen through another layout and dtype than the tensor's own.
fn reduce_layout(
    input: &Tensor,
    layout: &Layout,
    dtype: DType,
    dims: DimSet,
    outs: &[Tensor],
    fold: Fold,
    numbers: &[f64],
) -> Result<()> {
    let mut kept = Layout { sizes: Dims::new(), strides: Dims::new(), offset: layout.offset };
    let mut row = Layout { sizes: Dims::new(), strides: Dims::new(), offset: 0 };
    for (dim, (&size, &stride)) in layout.sizes.iter().zip(&layout.strides).enumerate() {
        let side = if dims.has(dim) { &mut row } else { &mut kept };
        side.sizes.push(size);
        side.strides.push(stride);
    }
    let results = Layout::contiguous(&kept.sizes);
    let outer = Plan::new([&results, &kept], [1, dtype.size()]);
    let inner = Plan::new([&row], [dtype.size()]);
    let source = input.storage().pin()?;
    let last = outs.len().saturating_sub(1);
    let targets = [&outs[0], &outs[1.min(last)]];
    let pins = pin_all(targets.map(Tensor::storage))?;
    let outputs = std::array::from_fn(|n| (pins[n].as_ptr(), targets[n].dtype()));
    let reduction = Reduction { outer: &outer, inner: &inner, input: source.as_ptr(), dtype, outputs, fold, numbers };
    // SAFETY: layouts stay within their pinned storages; the results are fresh and row-major.
    unsafe { reduction.run() }
}

/// Runs the fold that `pick` has for a result's compute dtype.
pub fn run(
    args: &Args,
    over: Over,
    results: &[Tensor],
    pick: fn(DType) -> Option<Fold>,
    compute: DType,
    numbers: &[f64],
) -> Result<()> {
    let fold = pick(compute).ok_or_else(|| crate::call::not_implemented(args.row, compute))?;
    reduce(args.tensor(0)?, over.dims, results, fold, numbers)
}

/// A gradient of a reduced result, stretched over the operand.
pub fn expand(d: &Derive, grad: Expr) -> Expr {
    grad.call(&crate::view::expand::EXPAND, [crate::view::reshape::sizes_value(d.sizes(0))])
}

/// The dimensions of a derivative's call: a list, one, or none.
pub fn derived_dims(d: &Derive, place: usize) -> Ints {
    dims(d.args, place)
}

/// The result's gradient (or the result), with the reduced dimensions put back as ones.
pub fn restored(d: &Derive, value: Expr, place: usize) -> Expr {
    value.unreduce(&derived_dims(d, place), d.flag(place + 1), d.rank(0))
}

/// How many elements a derivative's call reduced to one.
pub fn derived_count(d: &Derive, place: usize) -> f64 {
    let sizes = d.sizes(0);
    DimSet::of(&derived_dims(d, place), sizes.len()).map_or(1, |dims| Over { dims, keepdim: false }.count(sizes)) as f64
}
