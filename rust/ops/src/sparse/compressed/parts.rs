//! The parts of compressed sparse tensors: from the coordinates of entries, and back.

use rushlight_autograd::{CompressedFormat, CompressedParts, SparseParts, Tensor};
use rushlight_core::alloc::{filled, list};
use rushlight_core::{DType, Device, Dims, Error, Result, Storage};
use rushlight_dispatch::create::zeros;
use rushlight_dispatch::value::{Value, sizes_value};
use rushlight_dispatch::{copy, op};

use super::super::coalesce::{coalesced, keys};
use super::super::indices::{bounds, check, check_places, is_ascending, numbers, placed, rise_from_zero_to};
use crate::convert::{TO_DTYPE, contiguous, to_device, to_dtype, to_vec};
use crate::index::index_select::{INDEX_ADD, INDEX_SELECT};
use crate::join::STACK;
use crate::join::flip::FLIP;
use crate::order::search::SEARCHSORTED;
use crate::pointwise::arith::ADD;
use crate::view::narrow::SELECT;
use crate::view::reshape::RESHAPE;

/// A sparse tensor of valid parts.
pub fn build(sizes: &[isize], parts: CompressedParts) -> Result<Tensor> {
    let storage = Storage::heap(16)?;
    // SAFETY: the storage is new and has sixteen bytes, the widest element.
    unsafe { storage.pin()?.as_ptr().write_bytes(0, 16) };
    Ok(Tensor::compressed(storage, Dims::from_slice(sizes), parts))
}

/// The sparse tensor with other values, in any shape, at its indices.
pub fn with_values(tensor: &Tensor, parts: &CompressedParts, values: &Tensor) -> Result<Tensor> {
    let values = op!(RESHAPE, &values.detach(), sizes_value(parts.values.sizes()))?;
    build(tensor.sizes(), CompressedParts { values, ..parts.clone() })
}

/// A copy of the values in a dtype, on a device.
pub fn copied_as(values: &Tensor, dtype: DType, device: Device) -> Result<Tensor> {
    if values.dtype() == dtype && values.device() == device {
        return copy::clone(&values.detach());
    }
    op!(TO_DTYPE, &values.detach(), dtype, Value::Device(device))
}

/// A copy of a tensor in a dtype, on a device. On the tensor's own device it shares the indices.
pub fn moved(tensor: &Tensor, parts: &CompressedParts, dtype: DType, device: Device) -> Result<Tensor> {
    let there = |index: &Tensor| to_device(&index.detach(), device);
    let (compressed, plain) = (there(&parts.compressed)?, there(&parts.plain)?);
    let values = copied_as(&parts.values, dtype, device)?;
    build(tensor.sizes(), CompressedParts { format: parts.format, compressed, plain, values })
}

/// `Tensor.copy_` where one of the two is compressed: a copy of the second, in the format of both.
pub fn copied(input: &Tensor, from: &Tensor) -> Result<Tensor> {
    let (to, of) = (input.layout_name(), from.layout_name());
    let (Some(held), Some(given)) = (input.compressed_parts(), from.compressed_parts()) else {
        return Err(Error::runtime(match input.compressed_parts() {
            None => format!("copy_sparse_compressed_ expected sparse compressed tensor layout but got {to}"),
            Some(_) => different(to, of),
        })
        .hint("Use x.to_dense() or x.to_sparse(layout=...) to convert one of them."));
    };
    if held.format != given.format {
        return Err(Error::runtime(different(to, of)));
    }
    if held.count() != given.count() {
        return Err(Error::runtime(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are supported.",
        ));
    }
    moved(from, &given, input.dtype(), input.device())
}

fn different(to: &str, from: &str) -> String {
    format!(
        "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is {to} and src layout is {from}"
    )
}

/// A tensor without entries, in another's format and sizes.
pub fn none(input: &Tensor, parts: &CompressedParts, dtype: DType, device: Device) -> Result<Tensor> {
    let lines = parts.compressed.sizes().last().copied().unwrap_or(1) - 1;
    let batch_dims = parts.batch_dims();
    let mut of_values = Dims::from_slice(parts.values.sizes());
    of_values[batch_dims] = 0;
    let index = |count: isize| -> Result<Tensor> {
        let of_index: Dims = input.sizes()[..batch_dims].iter().copied().chain([count]).collect();
        zeros(&of_index, parts.plain.dtype(), device)
    };
    let values = zeros(&of_values, dtype, device)?;
    build(
        input.sizes(),
        CompressedParts { format: parts.format, compressed: index(lines + 1)?, plain: index(0)?, values },
    )
}

/// A sparse tensor without entries.
pub fn empty(
    sizes: &[isize],
    format: CompressedFormat,
    batch_dims: usize,
    dtype: DType,
    device: Device,
) -> Result<Tensor> {
    let lines = sizes[batch_dims + usize::from(format.columns)];
    let batch = &sizes[..batch_dims];
    let index = |count: isize| -> Result<Tensor> {
        let of_index: Dims = batch.iter().copied().chain([count]).collect();
        zeros(&of_index, DType::I64, device)
    };
    let of_values: Dims = batch.iter().copied().chain([0]).chain(sizes[batch_dims + 2..].iter().copied()).collect();
    let values = zeros(&of_values, dtype, device)?;
    build(sizes, CompressedParts { format, compressed: index(lines.saturating_add(1))?, plain: index(0)?, values })
}

fn product(sizes: &[isize]) -> usize {
    sizes.iter().product::<isize>() as usize
}

/// The coordinates of an element of a batch.
fn batch_places(mut number: usize, sizes: &[isize]) -> Dims {
    let mut places = Dims::from_elem(0, sizes.len());
    for (place, &size) in places.iter_mut().zip(sizes).rev() {
        *place = (number % size as usize) as isize;
        number /= size as usize;
    }
    places
}

/// The coordinates of all stored elements, and their values, in the order of the stored values.
pub fn expanded(parts: &CompressedParts, sizes: &[isize]) -> Result<SparseParts> {
    let (batch_dims, device) = (parts.batch_dims(), parts.values.device());
    if stays_there(device, parts.format, batch_dims) {
        return expanded_there(parts, sizes);
    }
    let (batch, [rows, columns]) = (&sizes[..batch_dims], [sizes[batch_dims], sizes[batch_dims + 1]]);
    let [height, width] = parts.block();
    let (batches, count) = (product(batch), parts.count() as usize);
    let starts = to_vec::<i64>(&to_dtype(&parts.compressed.detach(), DType::I64)?)?;
    let plain = to_vec::<i64>(&to_dtype(&parts.plain.detach(), DType::I64)?)?;
    let lines = parts.compressed.sizes()[batch_dims] as usize;
    let across = if parts.format.columns { rows / height.max(1) } else { columns / width.max(1) };
    if plain.iter().any(|place| !(0..across as i64).contains(place)) {
        return Err(changed(parts));
    }
    let total = product(parts.values.sizes().get(..parts.compressed.rank()).unwrap_or(&[])) * (height * width) as usize;
    let mut places = filled(0i64, (batch_dims + 2) * total)?;
    let (mut entry, mut ordered) = (0, true);
    for number in 0..batches {
        let at = batch_places(number, batch);
        let starts = &starts[number * lines..(number + 1) * lines];
        if starts[0] != 0 || starts[lines - 1] != count as i64 || !starts.is_sorted() {
            return Err(changed(parts));
        }
        for (line, ends) in starts.windows(2).enumerate() {
            let line_places = &plain[number * count + ends[0] as usize..number * count + ends[1] as usize];
            ordered &= line_places.is_sorted_by(|a, b| a < b);
            for &place in line_places {
                let (row, column) = if parts.format.columns { (place, line as i64) } else { (line as i64, place) };
                for inner in 0..(height * width) as i64 {
                    for (dim, &own) in at.iter().enumerate() {
                        places[dim * total + entry] = own as i64;
                    }
                    places[batch_dims * total + entry] = row * height as i64 + inner / width as i64;
                    places[(batch_dims + 1) * total + entry] = column * width as i64 + inner % width as i64;
                    entry += 1;
                }
            }
        }
    }
    let shape = [(batch_dims + 2) as isize, total as isize];
    let indices = op!(RESHAPE, &placed(&places, device)?, sizes_value(&shape))?;
    let of_values: Dims = [total as isize].into_iter().chain(sizes[batch_dims + 2..].iter().copied()).collect();
    let values = op!(RESHAPE, &contiguous(&parts.values.detach())?, sizes_value(&of_values))?;
    let by_rows = !parts.format.columns && !parts.format.blocks;
    Ok(SparseParts { indices, values, coalesced: by_rows && ordered })
}

/// Whether a device converts these itself: matrices of single entries. The host converts the indices of batches and blocks.
fn stays_there(device: Device, format: CompressedFormat, batch_dims: usize) -> bool {
    matches!(device, Device::Cuda(_)) && batch_dims == 0 && !format.blocks
}

/// Rows and columns exchanged for a format of columns, in which the compressed ones are first.
fn lines_first(indices: &Tensor, format: CompressedFormat) -> Result<Tensor> {
    if format.columns { op!(FLIP, indices, &[0i64][..]) } else { Ok(indices.clone()) }
}

/// `expanded`, on a device.
fn expanded_there(parts: &CompressedParts, sizes: &[isize]) -> Result<SparseParts> {
    let long = |index: &Tensor| to_dtype(&index.detach(), DType::I64);
    let starts = long(&parts.compressed)?;
    if !rise_from_zero_to(&starts, parts.count())? {
        return Err(changed(parts));
    }
    // A line begins after as many entries as are before it.
    let lines = op!(SEARCHSORTED, &starts, &numbers(parts.count(), parts.plain.device())?, false, true)?;
    let lines = op!(ADD, &lines, -1i64)?;
    let indices = lines_first(&op!(STACK, vec![lines, long(&parts.plain)?], 0i64)?, parts.format)?;
    check(&bounds(&indices)?, sizes).map_err(|_| changed(parts))?;
    let found = SparseParts { indices, values: contiguous(&parts.values.detach())?, coalesced: false };
    let coalesced = !parts.format.columns && is_ascending(&keys(&found, sizes)?)?;
    Ok(SparseParts { coalesced, ..found })
}

/// `compress`, on a device.
fn compress_there(entries: &SparseParts, sizes: &[isize], format: CompressedFormat) -> Result<CompressedParts> {
    check(&bounds(&entries.indices.detach())?, sizes)?;
    let mut sizes = Dims::from_slice(sizes);
    if format.columns {
        sizes.swap(0, 1);
    }
    let turned = SparseParts {
        indices: lines_first(&entries.indices.detach(), format)?,
        values: entries.values.detach(),
        coalesced: entries.coalesced && !format.columns,
    };
    let sorted = coalesced(&turned, &sizes)?;
    // Copies, which share no memory with the entries.
    let [lines, plain] = [0i64, 1].map(|row| copy::clone(&op!(SELECT, &sorted.indices, 0i64, row)?));
    let is_shared = sorted.values.storage().same(entries.values.storage());
    let values = if is_shared { copy::clone(&sorted.values)? } else { sorted.values };
    let starts = op!(SEARCHSORTED, &lines?, &numbers(sizes[0] + 1, entries.indices.device())?)?;
    Ok(CompressedParts { format, compressed: starts, plain: plain?, values })
}

/// The error for indices that a program has overwritten.
#[cold]
fn changed(parts: &CompressedParts) -> Error {
    let [compressed, plain] = parts.format.index_names();
    Error::runtime(format!("the values of {compressed} and {plain} no longer describe a sparse tensor"))
        .hint("They were valid when the tensor was made. Change a copy of them, and make another tensor of it.")
}

/// The parts in a compressed format of a tensor with these entries: each batch must have the same number. Values of
/// equal indices are added.
pub fn compress(
    entries: &SparseParts,
    sizes: &[isize],
    format: CompressedFormat,
    batch_dims: usize,
    [height, width]: [isize; 2],
) -> Result<CompressedParts> {
    let device = entries.values.device();
    if stays_there(device, format, batch_dims) {
        return compress_there(entries, sizes, format);
    }
    let (batch, rows, columns) = (&sizes[..batch_dims], sizes[batch_dims], sizes[batch_dims + 1]);
    let total = entries.indices.sizes()[1] as usize;
    let places = to_vec::<i64>(&contiguous(&entries.indices.detach())?)?;
    let lines = if format.columns { columns / width } else { rows / height } as usize;
    let batches = product(batch);
    // The batch of each entry, and the row and column of its block, which are exchanged for a format of columns.
    let mut order = list(total)?;
    let along = |dim: usize, entry: usize| places[dim * total + entry];
    for (dim, &size) in sizes.iter().enumerate().take(batch_dims + 2) {
        check_places(&places[dim * total..(dim + 1) * total], dim, size)?;
    }
    for entry in 0..total {
        let number = (0..batch_dims).fold(0, |number, dim| number * batch[dim] as i64 + along(dim, entry));
        let row = along(batch_dims, entry) / height as i64;
        let column = along(batch_dims + 1, entry) / width as i64;
        let (line, across) = if format.columns { (column, row) } else { (row, column) };
        order.push((number, line, across, entry));
    }
    order.sort_unstable();
    let mut starts = filled(0i64, batches.saturating_mul(lines.saturating_add(1)))?;
    let (mut plain, mut counts) = (list(total)?, filled(0usize, batches)?);
    let (mut firsts, mut positions) = (list(total)?, filled(0i64, total)?);
    let mut last = None;
    for &(number, line, across, entry) in &order {
        if last != Some((number, line, across)) {
            last = Some((number, line, across));
            plain.push(across);
            firsts.push(entry as i64);
            starts[number as usize * (lines + 1) + line as usize + 1] += 1;
            counts[number as usize] += 1;
        }
        let (row, column) = (along(batch_dims, entry) % height as i64, along(batch_dims + 1, entry) % width as i64);
        positions[entry] = ((plain.len() as i64 - 1) * height as i64 + row) * width as i64 + column;
    }
    let count = counts.first().copied().unwrap_or(0);
    if counts.iter().any(|&own| own != count) {
        return Err(Error::runtime("Expect the same number of specified elements per batch."));
    }
    for starts in starts.chunks_mut(lines + 1) {
        for line in 0..lines {
            starts[line + 1] += starts[line];
        }
    }
    let entry_values = entries.values.detach();
    let values = if height * width == 1 && firsts.len() == total {
        op!(INDEX_SELECT, &entry_values, 0i64, &placed(&firsts, device)?)?
    } else {
        let mut of_values = Dims::from_slice(entry_values.sizes());
        of_values[0] = plain.len() as isize * height * width;
        let none = zeros(&of_values, entry_values.dtype(), entry_values.device())?;
        op!(INDEX_ADD, &none, 0i64, &placed(&positions, device)?, &entry_values)?
    };
    let shaped = |tensor: &Tensor, tail: &[isize]| -> Result<Tensor> {
        let shape: Dims = batch.iter().chain(tail).copied().collect();
        op!(RESHAPE, tensor, sizes_value(&shape))
    };
    let mut of_values = Dims::from_slice(&[count as isize]);
    if format.blocks {
        of_values.extend_from_slice(&[height, width]);
    }
    of_values.extend_from_slice(&sizes[batch_dims + 2..]);
    Ok(CompressedParts {
        format,
        compressed: shaped(&placed(&starts, device)?, &[lines as isize + 1])?,
        plain: shaped(&placed(&plain, device)?, &[count as isize])?,
        values: shaped(&values, &of_values)?,
    })
}
