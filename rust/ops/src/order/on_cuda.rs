//! Sorting on CUDA devices, elements at places of the sorted lines, and searches in sorted lines.

use std::cmp::Ordering;

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Layout, Result, Scalar};
use rushlight_cuda::order;
use rushlight_cuda::search::{self, Pick, Search};
use rushlight_cuda::unique;
use rushlight_dispatch::expr::Expr;
use rushlight_dispatch::operands::{plain, plain_workplace, settle};
use rushlight_dispatch::value::{Ints, sizes_value};
use rushlight_dispatch::{copy, create, op};

use crate::held::Held;
use crate::index::index_select::INDEX_SELECT;
use crate::index::nonzero;
use crate::index::on_cuda as indexed;
use crate::index::scatter::SCATTER;
use crate::join::cat::CAT;
use crate::pointwise::bitwise::BITWISE_AND;
use crate::pointwise::compare::{EQ, NE};
use crate::reduce::all_any::ANY_DIM;
use crate::reduce::cumulative::{CUMSUM, DIFF};
use crate::reduce::on_cuda::shape;
use crate::view::RESHAPE;
use crate::view::narrow::NARROW;
use crate::view::transpose::MOVEDIM;

/// The lines along a dimension as rows of a tensor without gaps.
fn rows(input: &Tensor, dim: usize) -> Result<Tensor> {
    let order: Vec<usize> =
        (0..input.rank()).filter(|&other| other != dim).chain((dim < input.rank()).then_some(dim)).collect();
    plain(&Tensor::view_of(&input.detach(), input.layout().permute(&order)), input.dtype())
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
    let mut held = Held::on(rows)?;
    let addresses = order::Rows {
        source: held.address(rows)?,
        places: held.address(&places)?,
        values: values.as_ref().map(|to| held.address(to)).transpose()?,
    };
    // SAFETY: all have as many elements, without gaps, and are held for the stream.
    unsafe { order::sort(held.card, held.stream, rows.dtype(), addresses, [rows.numel() / n, n], descending)? };
    drop(held);
    Ok((places, values))
}

/// The places that sort the lines along a dimension; equal elements keep their order, and NaN is the greatest.
pub fn places(input: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    Ok(lines(&sorted(&rows(input, dim)?, descending, false)?.0, dim))
}

/// Writes the sorted lines and their places.
pub fn sort(input: &Tensor, dim: usize, descending: bool, results: &[Tensor]) -> Result<()> {
    let (places, values) = sorted(&rows(input, dim)?, descending, true)?;
    results
        .iter()
        .zip(values.iter().chain([&places]))
        .try_for_each(|(result, found)| copy::copy(result, &lines(found, dim)))
}

/// The elements at places of their lines.
pub fn taken(input: &Tensor, dim: usize, places: &Tensor) -> Result<Tensor> {
    let values = create::empty(places.sizes(), input.dtype(), input.device())?;
    if values.numel() == 0 {
        return Ok(values);
    }
    let mut source = Layout { sizes: places.sizes().clone(), ..input.layout().clone() };
    let scale = source.strides.get_mut(dim).map_or(0, std::mem::take) * input.dtype().size() as isize;
    indexed::read((&values, values.layout()), (input, &source), (places, places.layout()), scale)?;
    Ok(values)
}

/// Writes elements and their places, in the order of both.
pub fn write(input: &Tensor, dim: usize, places: &Tensor, results: &[Tensor]) -> Result<()> {
    let values = taken(input, dim, places)?;
    for (result, found) in results.iter().zip([&values, places]) {
        copy::copy(result, &op!(RESHAPE, found, sizes_value(result.sizes()))?)?;
    }
    Ok(())
}

/// Writes an element of each line along a dimension, and its place.
pub fn write_one(input: &Tensor, dim: usize, what: Pick, results: &[Tensor]) -> Result<()> {
    if input.numel() == 0 {
        return Ok(());
    }
    let (shape, source) = (shape(input, dim), plain(&input.detach(), input.dtype())?);
    let mut sizes = input.sizes().clone();
    if let Some(size) = sizes.get_mut(dim) {
        *size = 1;
    }
    let (rows, found) =
        (sorted(&rows(&source, dim)?, false, false)?.0, create::empty(&sizes, DType::I64, input.device())?);
    let mut held = Held::on(input)?;
    let operands = held.addresses([&source, &rows, &found])?;
    // SAFETY: elements, places and the result are row-major and of this shape, and held for the stream.
    unsafe { search::pick(held.card, held.stream, source.dtype(), operands, shape, what)? };
    write(&source, dim, &found, results)
}

/// Whether each value is among others of its dtype, or with `invert` is not.
pub fn write_members(values: &Tensor, others: &Tensor, invert: bool, result: &Tensor) -> Result<()> {
    if values.numel() == 0 {
        return Ok(());
    }
    let others = op!(RESHAPE, &others.detach(), sizes_value(&[others.numel() as isize]))?;
    let sorted = taken(&others, 0, &places(&others, 0, false)?)?;
    let (values, found) = (plain(&values.detach(), values.dtype())?, plain_workplace(result, DType::Bool)?);
    let mut held = Held::on(&values)?;
    let operands = held.addresses([&sorted, &values, &found])?;
    let counts = [values.numel(), sorted.numel()];
    // SAFETY: the operands are dense and of these sizes, the result has as many bytes as values, and all are held for the stream.
    unsafe { search::members(held.card, held.stream, values.dtype(), operands, counts, invert)? };
    settle(&found, result)
}

/// The positions of values in sorted lines of their dtype, as integers of 64 bits.
pub fn positions(sorted: &Tensor, values: &Tensor, to: &Tensor, what: Search) -> Result<()> {
    if what.count == 0 {
        return Ok(());
    }
    let mut held = Held::on(values)?;
    let operands = held.addresses([sorted, values, to])?;
    // SAFETY: the operands are row-major and of these sizes, and all are held for the stream.
    unsafe { search::positions(held.card, held.stream, values.dtype(), operands, what) }
}

/// The different elements in order, or with `sorted` false the first one of each run of equal elements; the index of each element
/// among them and how often they occur. The last two are empty unless requested. NaN equals nothing.
pub fn distinct(input: &Tensor, sorted: bool, inverse: bool, counts: bool) -> Result<Vec<Tensor>> {
    let count = input.numel();
    let line = op!(RESHAPE, &input.detach(), sizes_value(&[count as isize]))?;
    let order = if sorted { Some(places(&line, 0, false)?) } else { None };
    let elements = match &order {
        Some(order) => taken(&line, 0, order)?,
        None => plain(&line, line.dtype())?,
    };
    let starts = create::empty(&[count as isize], DType::Bool, input.device())?;
    if count > 0 {
        let mut held = Held::on(&elements)?;
        let operands = held.addresses([&elements, &starts])?;
        // SAFETY: dense operands of as many elements, held for the stream.
        unsafe { unique::mark_runs(held.card, held.stream, elements.dtype(), operands, count)? };
    }
    let firsts = nonzero::positions(&starts)?;
    let empty = || create::empty(&[0], DType::I64, input.device());
    let indices = if inverse {
        let runs = numbers_of_runs(&starts)?;
        let indices = match &order {
            // The places of places are where each element went.
            Some(order) => taken(&runs, 0, &places(order, 0, false)?)?,
            None => runs,
        };
        op!(RESHAPE, indices, sizes_value(input.sizes()))?
    } else {
        empty()?
    };
    let lengths = if counts { lengths_of_runs(&firsts, count)? } else { empty()? };
    Ok(vec![taken(&elements, 0, &firsts)?, indices, lengths])
}

/// The slices along a dimension without those that equal the previous one, with `sorted` in lexicographic order; the index of each
/// slice among them, and the lengths of runs. NaN equals nothing.
pub fn distinct_slices(input: &Tensor, dim: usize, sorted: bool) -> Result<Vec<Tensor>> {
    let input = input.detach();
    let count = input.sizes()[dim];
    let mut moved = op!(MOVEDIM, &input, Ints::from_slice(&[dim as i64]), Ints::from_slice(&[0]))?;
    let width = input.numel() as isize / count.max(1);
    let mut slices = op!(RESHAPE, &moved, sizes_value(&[count, width]))?;
    let order = if sorted && count > 1 { Some(lexicographic(&slices)?) } else { None };
    if let Some(order) = &order {
        slices = op!(INDEX_SELECT, &slices, 0i64, order)?;
        moved = op!(RESHAPE, &slices, sizes_value(moved.sizes()))?;
    }
    let part = |first: i64| op!(NARROW, &slices, 0i64, first, (count as i64 - 1).max(0));
    let first = create::full(&[count.min(1)], Scalar::Bool(true), DType::Bool, input.device())?;
    let starts =
        if count > 1 { op!(CAT, vec![first, op!(ANY_DIM, op!(NE, part(1)?, part(0)?)?, 1i64)?], 0i64)? } else { first };
    let firsts = nonzero::positions(&starts)?;
    let values = op!(INDEX_SELECT, &moved, 0i64, &firsts)?;
    let values = op!(MOVEDIM, &values, Ints::from_slice(&[0]), Ints::from_slice(&[dim as i64]))?;
    let mut runs = numbers_of_runs(&starts)?;
    if let Some(order) = &order {
        runs = op!(SCATTER, &runs, 0i64, order, &runs)?;
    }
    Ok(vec![values, runs, lengths_of_runs(&firsts, count as usize)?])
}

/// How many elements are ranked at once: more do not run faster, and the ranks of each element are larger than most elements. Fewer in
/// builds for tests, so that small tensors have several pieces.
const RANKED: isize = if cfg!(debug_assertions) { 1 << 10 } else { 1 << 24 };

/// The places that sort the rows of a matrix lexicographically; equal rows keep their order.
///
/// All columns are sorted at once, which gives each element a rank in its column. Two adjacent columns of ranks make one of pairs,
/// whose ranks are those of both, until one column is left: as many sorts as the logarithm of the width, of ever fewer columns.
fn lexicographic(rows: &Tensor) -> Result<Tensor> {
    let (count, width) = (rows.sizes()[0], rows.sizes()[1]);
    let columns = Tensor::view_of(rows, rows.layout().permute(&[1, 0]));
    let (most, mut first) = ((RANKED / count).max(1), 0);
    // The ranks by all columns before `first`.
    let mut before: Option<Tensor> = None;
    loop {
        let own = columns.layout().slice(0, first, most.min(width - first), 1);
        let mut keys = plain(&Tensor::view_of(&columns, own), rows.dtype())?;
        while keys.sizes()[0] > 1 {
            keys = paired(&ranks(&keys)?, count as i64)?;
        }
        if let Some(before) = before.take() {
            keys = (Expr::from(before) * count as i64 + ranks(&keys)?).done()?;
        }
        first += most;
        if first >= width {
            let places = sorted(&keys, false, false)?.0;
            return op!(RESHAPE, places, sizes_value(&[count]));
        }
        before = Some(ranks(&keys)?);
    }
}

/// The rank of each element in its row, from 0: equal elements have the same, as have all NaN, which are the greatest.
fn ranks(rows: &Tensor) -> Result<Tensor> {
    let (places, values) = sorted(rows, false, true)?;
    let Some(values) = values else { return Ok(places) };
    let (lines, count) = (rows.sizes()[0], rows.sizes()[1]);
    let part = |first: i64| op!(NARROW, &values, 1i64, first, count as i64 - 1);
    let mut differs = op!(NE, part(1)?, part(0)?)?;
    if rows.dtype().is_floating() {
        // What follows a NaN is one.
        differs = op!(BITWISE_AND, differs, op!(EQ, part(0)?, part(0)?)?)?;
    }
    let zero = create::zeros(&[lines, 1], DType::I64, rows.device())?;
    let in_order = op!(CAT, vec![zero, op!(CUMSUM, differs, 1i64)?], 1i64)?;
    op!(SCATTER, &in_order, 1i64, places, &in_order)
}

/// Each two adjacent rows of ranks as one of numbers in the order of the pairs; the last row is left alone if it has no neighbour.
fn paired(ranks: &Tensor, count: i64) -> Result<Tensor> {
    let lines = ranks.sizes()[0];
    let every_other = |first: isize| Tensor::view_of(ranks, ranks.layout().slice(0, first, lines / 2, 2));
    let pairs = (Expr::from(every_other(0)) * count + every_other(1)).done()?;
    match lines % 2 {
        0 => Ok(pairs),
        _ => op!(CAT, vec![pairs, op!(NARROW, ranks, 0i64, lines as i64 - 1, 1i64)?], 0i64),
    }
}

/// The number of each element's run, from whether it is the first one of its run.
fn numbers_of_runs(starts: &Tensor) -> Result<Tensor> {
    (Expr::from(starts).call(&CUMSUM, [0i64.into()]) - 1i64).done()
}

/// The lengths of runs, from the places of their first elements.
fn lengths_of_runs(firsts: &Tensor, count: usize) -> Result<Tensor> {
    let end = create::full(&[1], Scalar::Int(count as i64), DType::I64, firsts.device())?;
    let ends = op!(CAT, vec![firsts.clone(), end], 0i64)?;
    op!(DIFF, ends)
}

/// The part of the sorted places from a position on.
pub fn part(places: &Tensor, dim: usize, first: usize, count: usize) -> Tensor {
    if places.rank() == 0 {
        return places.clone();
    }
    Tensor::view_of(places, places.layout().slice(dim, first as isize, count as isize, 1))
}
