//! Sorting on CUDA devices, and elements at places of the sorted lines.

use std::cmp::Ordering;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Result};
use rushlight_cuda::{card, order, stream};
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::value::sizes_value;
use rushlight_dispatch::{copy, create, op};

use crate::index::gather::GATHER;
use crate::view::RESHAPE;

/// The lines along a dimension as rows of a tensor without gaps.
fn rows(own: &Tensor, dim: usize) -> Result<Tensor> {
    let order: Vec<usize> =
        (0..own.rank()).filter(|&other| other != dim).chain((dim < own.rank()).then_some(dim)).collect();
    plain(&Tensor::view_of(&own.detach(), own.layout().permute(&order)), own.dtype())
}

/// Rows as the lines along a dimension.
fn lines(rows: &Tensor, dim: usize) -> Tensor {
    let last = rows.rank().saturating_sub(1);
    let place = |other: usize| match other.cmp(&dim) {
        Ordering::Less => other,
        Ordering::Equal => last,
        Ordering::Greater => other - 1,
    };
    Tensor::view_of(rows, rows.layout().permute(&(0..rows.rank()).map(place).collect::<Vec<_>>()))
}

/// The places that sort rows, and the sorted rows if they are wanted.
fn sorted(rows: &Tensor, descending: bool, has_values: bool) -> Result<(Tensor, Option<Tensor>)> {
    let n = rows.sizes().last().copied().unwrap_or(1) as usize;
    if n < 2 || rows.numel() == 0 {
        return Ok((create::zeros(rows.sizes(), DType::I64, rows.device())?, has_values.then(|| rows.clone())));
    }
    let made = |dtype| create::empty(rows.sizes(), dtype, rows.device());
    let places = made(DType::I64)?;
    let values = if has_values { Some(made(rows.dtype())?) } else { None };
    let card = card::of(rows.device())?;
    let stream = stream::current(card.index);
    let first = rows.layout().offset * rows.dtype().size() as isize;
    let source = rows.storage().pin_on(stream)?;
    let pins = (places.storage().pin_on(stream)?, values.as_ref().map(|to| to.storage().pin_on(stream)).transpose()?);
    let addresses = order::Rows {
        source: source.address().wrapping_add_signed(first) as u64,
        places: pins.0.address() as u64,
        values: pins.1.as_ref().map(|pin| pin.address() as u64),
    };
    // SAFETY: all have as many elements, without gaps, and are pinned on the stream.
    unsafe { order::sort(card, stream, rows.dtype(), addresses, [rows.numel() / n, n], descending)? };
    drop(pins);
    Ok((places, values))
}

/// The places that sort the lines along a dimension; equal elements keep their order, and NaN is the greatest.
pub fn places(own: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    Ok(lines(&sorted(&rows(own, dim)?, descending, false)?.0, dim))
}

/// Writes the sorted lines and their places.
pub fn sort(own: &Tensor, dim: usize, descending: bool, results: &[Tensor]) -> Result<()> {
    let (places, values) = sorted(&rows(own, dim)?, descending, true)?;
    results
        .iter()
        .zip(values.iter().chain([&places]))
        .try_for_each(|(result, found)| copy::copy(result, &lines(found, dim)))
}

/// Writes elements and their places, in the order of both.
pub fn write(own: &Tensor, dim: usize, places: &Tensor, results: &[Tensor]) -> Result<()> {
    let values = op!(GATHER, &own.detach(), dim, places)?;
    for (result, found) in results.iter().zip([&values, places]) {
        copy::copy(result, &op!(RESHAPE, found, sizes_value(result.sizes()))?)?;
    }
    Ok(())
}

/// The part of the sorted places from a position on.
pub fn part(places: &Tensor, dim: usize, first: usize, count: usize) -> Tensor {
    if places.rank() == 0 {
        return places.clone();
    }
    Tensor::view_of(places, places.layout().slice(dim, first as isize, count as isize, 1))
}
