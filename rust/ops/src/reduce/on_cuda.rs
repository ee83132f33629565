//! Lines on CUDA devices: cumulative results, the best elements with their indices, and softmax.

use rushlight_autograd::Tensor;
use rushlight_core::layout::DimSet;
use rushlight_core::{DType, Result};
use rushlight_cuda::cumulative::{self, Accumulation, Lines};
use rushlight_cuda::softmax::{self, Softmax};
use rushlight_dispatch::operands::{lines as lines_of, plain, plain_workplace, settle};

use crate::held::Held;

/// The shape of a tensor as lines along a dimension.
pub fn shape(tensor: &Tensor, dim: usize) -> Lines {
    let lines = lines_of(tensor, dim);
    Lines { outer: lines.outer, n: lines.n, inner: lines.inner }
}

/// Accumulates lines of row-major inputs of one shape into row-major results, of which the first may be missing.
fn run(what: Accumulation, results: [Option<&Tensor>; 2], inputs: &[&Tensor], shape: Lines, each: bool) -> Result<()> {
    if shape.outer * shape.n * shape.inner == 0 {
        return Ok(());
    }
    let mut held = Held::on(inputs[0])?;
    let operands = [
        held.optional(results[0])?,
        held.optional(results[1])?,
        held.address(inputs[0])?,
        held.optional(inputs.get(1).copied())?,
    ];
    // SAFETY: operands are row-major and of one shape, and their storages are held for the stream.
    unsafe { cumulative::accumulate(held.card, held.stream, what, operands, shape, each) }
}

/// The dtype in which results of a dtype are accumulated.
fn accumulator(result: DType) -> DType {
    match result.compute() {
        DType::F32 => DType::F64,
        DType::C64 => DType::C128,
        other => other,
    }
}

/// Which cumulative result is computed.
#[derive(Clone, Copy)]
pub enum Running {
    Sum,
    Product,
    LogSum,
}

/// Cumulative results along a dimension, in the result's dtype.
pub fn cumulative(input: &Tensor, dim: usize, result: &Tensor, what: Running) -> Result<()> {
    let source = plain(input, input.dtype())?;
    let place = plain_workplace(result, result.dtype())?;
    let (element, compute, sum) = (input.dtype(), result.dtype().compute(), accumulator(result.dtype()));
    let result_dtype = result.dtype();
    let what = match what {
        Running::Sum => Accumulation::Sum { element, compute, sum, result: result_dtype },
        Running::Product => Accumulation::Product { element, compute, sum, result: result_dtype },
        Running::LogSum => Accumulation::LogSum { element, compute, sum, result: result_dtype },
    };
    run(what, [Some(&place), None], &[&source], shape(input, dim), true)?;
    settle(&place, result)
}

/// Along a dimension, each result is an element plus a factor times the result before it.
pub fn recurrence(input: &Tensor, factor: &Tensor, dim: usize, result: &Tensor) -> Result<()> {
    let dtype = result.dtype();
    let (source, factors, place) = (plain(input, dtype)?, plain(factor, dtype)?, plain_workplace(result, dtype)?);
    let what = Accumulation::Recurrence { element: dtype, compute: dtype.compute() };
    run(what, [Some(&place), None], &[&source, &factors], shape(input, dim), true)?;
    settle(&place, result)
}

/// The best element so far along a dimension, and its index: the last of equal ones.
pub fn cumulative_best(input: &Tensor, dim: usize, results: &[Tensor], up: bool) -> Result<()> {
    let source = plain(input, input.dtype())?;
    let places = [plain_workplace(&results[0], input.dtype())?, plain_workplace(&results[1], DType::I64)?];
    let what = Accumulation::Best { element: input.dtype(), compute: input.dtype().compute(), up, first: false };
    run(what, [Some(&places[0]), Some(&places[1])], &[&source], shape(input, dim), true)?;
    places.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The best elements along a dimension, or of all, and their indices: the first of equal ones. Results are new and row-major;
/// there may be indices alone.
pub fn best(input: &Tensor, dims: DimSet, results: &[Tensor], up: bool) -> Result<()> {
    let source = plain(input, input.dtype())?;
    let shape = match dims {
        DimSet::All => Lines { outer: 1, n: input.numel(), inner: 1 },
        _ => shape(input, dims.first()),
    };
    let what = Accumulation::Best { element: input.dtype(), compute: input.dtype().compute(), up, first: true };
    let both = match results {
        [values, places, ..] => [Some(values), Some(places)],
        [places] => [None, Some(places)],
        [] => return Ok(()),
    };
    run(what, both, &[&source], shape, false)
}

/// Softmax along a dimension, its logarithm, or a gradient of them. The second operand of a forward is the first again.
pub fn softmax(
    backward: bool,
    logarithm: bool,
    result: &Tensor,
    [first, second]: [&Tensor; 2],
    dim: usize,
    compute: DType,
) -> Result<()> {
    let shape = shape(first, dim);
    if result.numel() == 0 {
        return Ok(());
    }
    let x = plain(first, first.dtype())?;
    let y = if second.ptr_eq(first) { x.clone() } else { plain(second, second.dtype())? };
    let operands = [plain_workplace(result, result.dtype())?, x, y];
    let mut held = Held::on(result)?;
    let addresses = held.addresses(operands.each_ref())?;
    let dtypes = [result.dtype(), first.dtype(), second.dtype()];
    let what = Softmax { backward, logarithm, compute, dtypes };
    // SAFETY: operands are row-major and of one shape, and their storages are held for the stream.
    unsafe { softmax::softmax(held.card, held.stream, what, addresses, shape)? };
    settle(&operands[0], result)
}
