//! Operators that reduce dimensions, and those that work along one.

pub mod all_any;
pub mod covariance;
pub mod cumulative;
pub mod extreme;
pub mod folds;
pub mod hash;
pub mod logsumexp;
pub mod moments;
pub mod norm;
pub mod on_cuda;
pub mod prod;
pub mod segment;
pub mod select_backward;
pub mod softmax;
pub mod sum;
pub mod trapezoid;

use rushlight_autograd::Tensor;
use rushlight_core::layout::{DimSet, wrap_dim};
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::storage::pin_all;
use rushlight_core::{DType, Device, Dims, Error, Layout, Result};
use rushlight_cpu::folds::Folds;
use rushlight_cpu::reduce::{Fold, Reduction};
use rushlight_cuda::reduce as device;
use rushlight_dispatch::call::errors::not_implemented;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operator::{Args, BackwardContext, TensorSpec};
use rushlight_dispatch::value;
use rushlight_dispatch::value::{Arg, Ints, Value};

use crate::held::Held;

pub use folds::FOLDS;
pub use sum::{SUM, sum_to};

/// The dimensions of a reduction, and whether they are kept with size one.
#[derive(Clone, Copy)]
pub struct ReduceDims {
    pub dims: DimSet,
    pub keepdim: bool,
}

impl ReduceDims {
    /// All dimensions.
    pub const ALL: ReduceDims = ReduceDims { dims: DimSet::All, keepdim: false };

    /// From the arguments `dim`, where no dimensions mean all, and `keepdim`.
    pub fn of(args: &Args, dim: Arg, keepdim: Arg) -> Result<ReduceDims> {
        Ok(ReduceDims { keepdim: args.bool(keepdim)?, ..ReduceDims::along(args, dim)? })
    }

    /// From the argument `dim` alone; the reduced dimensions are dropped.
    pub fn along(args: &Args, dim: Arg) -> Result<ReduceDims> {
        let dims = DimSet::of(&dims(args, dim), args.tensor(Arg::FIRST)?.rank())?;
        Ok(ReduceDims { dims, keepdim: false })
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

    /// The number of elements reduced to each result.
    pub fn count(self, own: &[isize]) -> usize {
        own.iter().enumerate().filter(|(dim, _)| self.has(*dim)).map(|(_, &size)| size as usize).product()
    }

    /// A result of these dimensions.
    pub fn spec(self, args: &Args, dtype: DType) -> Result<TensorSpec> {
        let input = args.tensor(Arg::FIRST)?;
        Ok(TensorSpec::new(&self.sizes(input.sizes()), dtype, input))
    }

    /// Returns an error if an element is to be selected from none.
    pub fn check_not_empty(self, args: &Args) -> Result<()> {
        let input = args.tensor(Arg::FIRST)?;
        let name = args.op.python_name();
        if input.numel() > 0 {
            return Ok(());
        }
        if let Some(dim) = (0..input.rank()).find(|&dim| self.has(dim) && input.sizes()[dim] == 0) {
            return Err(Error::index(format!("{name}(): Expected reduction dim {dim} to have non-zero size."))
                .shapes([input.sizes().as_slice()])
                .axis(dim));
        }
        Ok(())
    }
}

/// The dimensions that an argument selects: one, several, or none.
pub fn dims(args: &Args, arg: Arg) -> Ints {
    match args.value(arg) {
        Value::Ints(list) => list.clone(),
        Value::Int(dim) => Ints::from_slice(&[*dim]),
        _ => Ints::new(),
    }
}

/// The one dimension that an argument selects.
pub fn one_dim(args: &Args, arg: Arg) -> Result<usize> {
    wrap_dim(args.int(arg)?, args.tensor(Arg::FIRST)?.rank())
}

/// Runs a fold over some dimensions, into new row-major results.
pub fn reduce(input: &Tensor, dims: DimSet, outs: &[Tensor], fold: Fold, numbers: &[f64]) -> Result<()> {
    reduce_layout(input, input.layout(), input.dtype(), dims, outs, fold, numbers)
}

/// Runs a fold over memory with another layout and dtype than the tensor's own.
fn reduce_layout(
    input: &Tensor,
    layout: &Layout,
    dtype: DType,
    dims: DimSet,
    outs: &[Tensor],
    fold: Fold,
    numbers: &[f64],
) -> Result<()> {
    let [kept, row] = sides(layout, dims);
    let results = Layout::contiguous(&kept.sizes);
    let outer = LoopNest::new([&results, &kept], [1, dtype.size()]);
    let inner = LoopNest::new([&row], [dtype.size()]);
    let source = input.storage().pin()?;
    let last = outs.len().saturating_sub(1);
    let targets = [&outs[0], &outs[1.min(last)]];
    let pins = pin_all(targets.map(Tensor::storage))?;
    let outputs = std::array::from_fn(|n| (pins[n].as_ptr(), targets[n].dtype()));
    let reduction = Reduction { outer: &outer, inner: &inner, input: source.as_ptr(), dtype, outputs, fold, numbers };
    // SAFETY: layouts stay within their pinned storages; the results are new and row-major.
    unsafe { reduction.run() }
}

/// Runs the fold that `pick` has for a result's compute dtype.
pub fn run(
    args: &Args,
    over: ReduceDims,
    results: &[Tensor],
    pick: fn(DType) -> Option<Fold>,
    compute: DType,
    numbers: &[f64],
) -> Result<()> {
    let fold = pick(compute).ok_or_else(|| not_implemented(args.op, compute))?;
    reduce(args.tensor(Arg::FIRST)?, over.dims, results, fold, numbers)
}

/// Runs the fold of expressions for a result's compute dtype, on the device of the operand.
pub fn fold(
    args: &Args,
    over: ReduceDims,
    results: &[Tensor],
    folds: Folds,
    compute: DType,
    numbers: &[f64],
) -> Result<()> {
    match args.tensor(Arg::FIRST)?.device() {
        Device::Cuda(_) => fold_on_cuda(args, over, &results[0], folds, compute, numbers),
        _ => run(args, over, results, folds.cpu, compute, numbers),
    }
}

fn fold_on_cuda(
    args: &Args,
    over: ReduceDims,
    out: &Tensor,
    folds: Folds,
    compute: DType,
    numbers: &[f64],
) -> Result<()> {
    let input = args.tensor(Arg::FIRST)?;
    let expressions = folds.expressions_of(compute).ok_or_else(|| not_implemented(args.op, compute))?;
    let [kept, row] = sides(input.layout(), over.dims);
    let mut held = Held::on(input)?;
    let [source, target] = held.bases([input, out])?;
    let results = Layout { offset: out.layout().offset, ..Layout::contiguous(&kept.sizes) };
    let reduction = device::Reduction {
        fold: device::Fold {
            name: folds.name,
            dtype: compute,
            accumulator: expressions.accumulator.unwrap_or(compute),
            take_numbers: expressions.take.numbers.len(),
            done_numbers: expressions.done.numbers.len(),
        },
        outer: &LoopNest::new([&results, &kept], [out.dtype().size(), input.dtype().size()]),
        inner: &LoopNest::new([&row], [input.dtype().size()]),
        input: source as usize,
        dtype: input.dtype(),
        out: target as usize,
        result: out.dtype(),
        numbers,
    };
    // SAFETY: layouts stay within their storages, which are held for the stream; the result is row-major.
    unsafe { reduction.run(held.card, held.stream) }
}

/// The layout of the dimensions that are kept, which begins at the tensor, and that of those that are reduced.
fn sides(layout: &Layout, dims: DimSet) -> [Layout; 2] {
    let mut kept = Layout { sizes: Dims::new(), strides: Dims::new(), offset: layout.offset };
    let mut row = Layout { sizes: Dims::new(), strides: Dims::new(), offset: 0 };
    for (dim, (&size, &stride)) in layout.sizes.iter().zip(&layout.strides).enumerate() {
        let side = if dims.has(dim) { &mut row } else { &mut kept };
        side.sizes.push(size);
        side.strides.push(stride);
    }
    [kept, row]
}

/// A gradient of a reduced result, expanded to the operand.
pub fn expand(d: &BackwardContext, grad: Expr) -> Expr {
    grad.call(&crate::view::expand::EXPAND, [value::sizes_value(d.sizes(Arg::FIRST))])
}

/// The dimensions of a derivative's call: a list, one, or none.
pub fn derived_dims(d: &BackwardContext, arg: Arg) -> Ints {
    dims(d.args, arg)
}

/// The result's gradient (or the result), with the reduced dimensions restored with size one.
pub fn restored(d: &BackwardContext, value: Expr, dim: Arg, keepdim: Arg) -> Expr {
    value.unreduce(&derived_dims(d, dim), d.flag(keepdim), d.rank(Arg::FIRST))
}

/// How many elements a derivative's call reduced to one.
pub fn derived_count(d: &BackwardContext, arg: Arg) -> f64 {
    let sizes = d.sizes(Arg::FIRST);
    DimSet::of(&derived_dims(d, arg), sizes.len()).map_or(1, |dims| ReduceDims { dims, keepdim: false }.count(sizes))
        as f64
}
