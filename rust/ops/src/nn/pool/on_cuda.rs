//! Pooling on CUDA devices. Each result is computed by one thread in the order of the CPU's loops, so that both give the same
//! bits.

use rushlight_autograd::Tensor;
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Layout, Result, Scalar};
use rushlight_cpu::index::scatter::ScatterOp;
use rushlight_cuda::indexed::Column;
use rushlight_cuda::pool::{self, Areas, Planes};
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::{create, promote};

use crate::held::Held;
use crate::index::on_cuda::{self as indexed, Report};

/// The greatest element of each window and its index.
pub fn max(input: &Tensor, results: &[Tensor], axes: &[WindowDim; 3], count: usize) -> Result<()> {
    let dtype = input.dtype();
    let input = plain(input, dtype)?;
    let own = [plain_workplace(&results[0], dtype)?, plain_workplace(&results[1], DType::I64)?];
    let [nothing, _] = promote::bits(Scalar::Float(f64::NEG_INFINITY), dtype);
    let mut held = Held::on(&input)?;
    let (from, to) = (held.address(&input)?, held.addresses([&own[0], &own[1]])?);
    // SAFETY: row-major planes of the sizes of the axes, held for the stream.
    unsafe { pool::max(held.card, held.stream, dtype, from, to, Planes { axes, count }, nothing)? };
    own.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The greatest element of each window of random ones and its index, from `dims` samples for each plane.
pub fn random(
    input: &Tensor,
    samples: &Tensor,
    results: &[Tensor],
    axes: &[WindowDim; 3],
    (count, dims): (usize, usize),
) -> Result<()> {
    let dtype = input.dtype();
    let (input, samples) = (plain(input, dtype)?, plain(samples, dtype.compute())?);
    let own = [plain_workplace(&results[0], dtype)?, plain_workplace(&results[1], DType::I64)?];
    let mut held = Held::on(&input)?;
    let (from, to) = (held.addresses([&input, &samples])?, held.addresses([&own[0], &own[1]])?);
    // SAFETY: row-major planes of the sizes of the axes with as many samples, held for the stream.
    unsafe { pool::random(held.card, held.stream, dtype, from, to, Planes { axes, count }, dims)? };
    own.iter().zip(results).try_for_each(|(place, result)| settle(place, result))
}

/// The values added at their places, which lie in the windows of `axes`.
pub fn scatter(values: &Tensor, places: &Tensor, result: &Tensor, axes: &[WindowDim; 3], count: usize) -> Result<()> {
    let dtype = result.dtype();
    let (values, places, own) = (plain(values, dtype)?, plain(places, DType::I64)?, plain_workplace(result, dtype)?);
    let mut held = Held::on(&own)?;
    let (to, from) = (held.address(&own)?, held.addresses([&values, &places])?);
    // SAFETY: row-major planes of the sizes of the axes, held for the stream.
    unsafe { pool::max_backward(held.card, held.stream, dtype, to, from, Planes { axes, count })? };
    settle(&own, result)
}

/// One element of each plane.
fn columns(areas: Areas, size: usize) -> Layout {
    let mut layout = Layout::contiguous(&[areas.count as isize]);
    layout.strides[0] = size as isize;
    layout
}

/// The values added at any places; returns whether all lie within their planes.
pub fn scatter_anywhere(values: &Tensor, places: &Tensor, result: &Tensor, areas: Areas) -> Result<bool> {
    let dtype = result.dtype().compute();
    let (values, places) = (plain(values, dtype)?, plain(places, DType::I64)?);
    if indexed::first_outside(&places, areas.area as isize)?.is_some() {
        return Ok(false);
    }
    let sums = create::zeros(result.sizes(), dtype, result.device())?;
    let (size, place) = (dtype.size() as isize, size_of::<i64>() as isize);
    let column = Column { length: areas.pixels, scale: size, value_step: size, place_step: place };
    let at = |tensor: &Tensor, stride: usize| Layout { offset: tensor.layout().offset, ..columns(areas, stride) };
    indexed::merge(
        (&sums, &at(&sums, areas.area)),
        (&values, &at(&values, areas.pixels)),
        (&places, &at(&places, areas.pixels)),
        ScatterOp::Add,
        column,
    )?;
    rushlight_dispatch::copy::copy(result, &sums)?;
    Ok(true)
}

/// The values at places; returns whether all lie within their planes.
pub fn gather(input: &Tensor, places: &Tensor, result: &Tensor, areas: Areas) -> Result<bool> {
    let dtype = result.dtype();
    let (input, places, own) = (plain(input, dtype)?, plain(places, DType::I64)?, plain_workplace(result, dtype)?);
    if indexed::first_outside(&places, areas.area as isize)?.is_some() {
        return Ok(false);
    }
    let each = |tensor: &Tensor, strides: [usize; 2]| {
        let mut layout = Layout::contiguous(&[areas.count as isize, areas.pixels as isize]);
        layout.strides.copy_from_slice(&strides.map(|stride| stride as isize));
        Layout { offset: tensor.layout().offset, ..layout }
    };
    indexed::read(
        (&own, &each(&own, [areas.pixels, 1])),
        (&input, &each(&input, [areas.area, 0])),
        (&places, &each(&places, [areas.pixels, 1])),
        dtype.size() as isize,
    )?;
    settle(&own, result)?;
    Ok(true)
}

/// The values at their places, zeros elsewhere; of equal places the last one counts. Returns whether all lie within their planes.
pub fn put(values: &Tensor, places: &Tensor, result: &Tensor, areas: Areas) -> Result<bool> {
    let dtype = result.dtype();
    let (values, places, own) = (plain(values, dtype)?, plain(places, DType::I64)?, plain_workplace(result, dtype)?);
    let last = create::zeros(&[(areas.count * areas.area) as isize], DType::I64, own.device())?;
    let mut held = Held::on(&own)?;
    let report = Report::new(held.card)?;
    let operands = held.addresses([&own, &values, &last])?;
    let at = held.address(&places)?;
    {
        let mut reporting = Held::on(&own)?;
        let outside = report.address(&mut reporting)?;
        // SAFETY: row-major planes of these sizes, held for the stream, as the report is.
        unsafe { pool::find_last(held.card, held.stream, operands[2], at, areas, outside)? };
    }
    if report.read()?.is_some() {
        return Ok(false);
    }
    // SAFETY: see above.
    unsafe { pool::put_last(held.card, held.stream, dtype.size(), operands, areas)? };
    settle(&own, result)?;
    Ok(true)
}

/// What means are divided by: a number, or the sizes of windows with their padding or without.
pub type Divisor = (Option<i64>, bool);

/// The mean of each window, or with `backward` each element's shares of the means.
pub fn mean(
    input: &Tensor,
    result: &Tensor,
    axes: &[WindowDim; 3],
    count: usize,
    divisor: Divisor,
    backward: bool,
) -> Result<()> {
    let dtype = result.dtype();
    let (input, own) = (plain(input, dtype)?, plain_workplace(result, dtype)?);
    let mut held = Held::on(&own)?;
    let operands = held.addresses([&own, &input])?;
    // SAFETY: row-major planes of the sizes of the axes, held for the stream.
    unsafe { pool::mean(held.card, held.stream, dtype, operands, Planes { axes, count }, divisor, backward)? };
    settle(&own, result)
}
