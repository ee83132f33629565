//! Operators that move the entries of sparse tensors: permutations of dimensions, slices, concatenation.
//!
//! The results have copies of the indices, never views: writing to a result does not affect other tensors.

use rushlight_autograd::{SparseParts, Tensor};
use rushlight_core::alloc::{collected, list};
use rushlight_core::layout::{Shape, wrap_dim};
use rushlight_core::{DType, Dims, Error, Result};
use rushlight_dispatch::create::zeros;
use rushlight_dispatch::operator::Args;
use rushlight_dispatch::sparse::unsupported;
use rushlight_dispatch::value::{Arg, Output};
use rushlight_dispatch::{copy, op};

use super::compressed;
use super::indices::{check_places, placed};
use super::parts::{build, empty, parts};
use crate::convert::{contiguous, to_dtype, to_vec};
use crate::index::index_select::INDEX_SELECT;
use crate::join::{CAT, STACK};
use crate::pointwise::arith::ADD;
use crate::view::narrow::{select_at, selected, sliced};
use crate::view::transpose::permuted;

/// The number of sparse dimensions.
fn sparse_dims(parts: &SparseParts) -> usize {
    parts.indices.sizes()[0] as usize
}

/// The indices along a dimension, checked.
fn along(input: &Tensor, parts: &SparseParts, dim: usize) -> Result<Vec<i64>> {
    let places = to_vec::<i64>(&selected(&parts.indices, 0, dim as isize)?)?;
    check_places(&places, dim, input.sizes()[dim])?;
    Ok(places)
}

/// A sparse tensor's parts and sizes with its dimensions permuted, in which the sparse ones stay first.
fn reordered(input: &Tensor, parts: &SparseParts, order: &[usize]) -> Result<Tensor> {
    let sparse = sparse_dims(parts);
    let sizes: Dims = order.iter().map(|&dim| input.sizes()[dim]).collect();
    let same = order.iter().enumerate().all(|(place, &dim)| place == dim);
    let rows: Vec<i64> = order[..sparse].iter().map(|&dim| dim as i64).collect();
    let indices = op!(INDEX_SELECT, &parts.indices, 0i64, &placed(&rows, input.device())?)?;
    let of_values: Vec<usize> = std::iter::once(0).chain(order[sparse..].iter().map(|&dim| dim - sparse + 1)).collect();
    let values = copy::clone(&contiguous(&permuted(&parts.values.detach(), &of_values)?)?)?;
    build(&sizes, SparseParts { indices, values, coalesced: parts.coalesced && same })
}

/// `transpose`, `swapaxes`.
pub fn transpose(args: &Args, [first, second]: [Arg; 2]) -> Result<Output> {
    let input = args.tensor(Arg::FIRST)?;
    let (first, second) = (wrap_dim(args.int(first)?, input.rank())?, wrap_dim(args.int(second)?, input.rank())?);
    if let Some(held) = input.compressed_parts() {
        return compressed::shape::transposed(input, &held, first, second).map(Output::Tensor);
    }
    if input.rank() == 0 {
        return Ok(Output::Tensor(input.clone()));
    }
    let parts = parts(input, "transpose")?;
    let sparse = sparse_dims(&parts);
    if first != second && (first >= sparse || second >= sparse) {
        return Err(Error::runtime(format!(
            "sparse transpose: transposed dimensions must be sparse Got sparse_dim: {sparse}, d0: {first}, d1: {second}"
        )));
    }
    let mut order: Vec<usize> = (0..input.rank()).collect();
    order.swap(first, second);
    reordered(input, &parts, &order).map(Output::Tensor)
}

/// `t`.
pub fn t(args: &Args) -> Result<Output> {
    let input = args.tensor(crate::view::transpose::T::INPUT)?;
    if let Some(held) = input.compressed_parts() {
        return compressed::shape::transposed(input, &held, 0, 1).map(Output::Tensor);
    }
    let parts = parts(input, "t")?;
    let (sparse, rank) = (sparse_dims(&parts), input.rank());
    if sparse > 2 || sparse < rank {
        return Err(Error::runtime(format!(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse} sparse and {} dense dimensions",
            rank - sparse
        )));
    }
    let order: Vec<usize> = (0..rank).rev().collect();
    reordered(input, &parts, &order).map(Output::Tensor)
}

/// `permute`, whose order was checked.
pub fn permute(args: &Args) -> Result<Output> {
    use crate::view::transpose::PERMUTE::*;

    let input = args.tensor(INPUT)?;
    let parts = parts(input, "permute")?;
    let order = crate::view::transpose::order(args.ints(DIMS)?, input.rank())?;
    let sparse = sparse_dims(&parts);
    if order[..sparse].iter().any(|&dim| dim >= sparse) {
        return Err(Error::runtime(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed.Only transpositions within sparse and dense dimensions are supported.",
        ));
    }
    reordered(input, &parts, &order).map(Output::Tensor)
}

/// Some entries, by their numbers, with other indices along one dimension, or without that dimension.
fn entries(
    input: &Tensor,
    parts: &SparseParts,
    numbers: &[i64],
    dim: usize,
    places: Option<&[i64]>,
    size: isize,
) -> Result<Tensor> {
    let numbers_ = placed(numbers, input.device())?;
    let taken = op!(INDEX_SELECT, &parts.indices, 1i64, &numbers_)?;
    let values = op!(INDEX_SELECT, &parts.values.detach(), 0i64, &numbers_)?;
    let mut sizes = input.sizes().clone();
    let mut rows = (0..sparse_dims(parts)).map(|row| selected(&taken, 0, row as isize)).collect::<Result<Vec<_>>>()?;
    match places {
        Some(places) => {
            rows[dim] = placed(places, input.device())?;
            sizes[dim] = size;
        }
        None => {
            rows.remove(dim);
            sizes.remove(dim);
        }
    }
    if rows.is_empty() {
        let whole = op!(crate::reduce::sum::SUM_DIM, &values, &[0i64][..], false, values.dtype())?;
        return Ok(whole);
    }
    let indices = op!(STACK, rows, 0i64)?;
    build(&sizes, SparseParts { indices, values, coalesced: numbers.len() < 2 })
}

/// The same tensor, marked as sorted if it still is.
fn in_order(tensor: Tensor, still: bool) -> Tensor {
    if let Some(parts) = tensor.parts().filter(|parts| still && !parts.coalesced) {
        tensor.set_parts(SparseParts { coalesced: true, ..(*parts).clone() });
    }
    tensor
}

/// `select`: dense if no sparse dimension is left.
pub fn select(args: &Args) -> Result<Output> {
    use crate::view::narrow::SELECT::*;

    let input = args.tensor(INPUT)?;
    select_at(input.layout(), args.int(DIM)?, args.int(INDEX)?)?;
    if let Some(held) = input.compressed_parts() {
        return compressed::shape::select(input, &held, args.int(DIM)?, args.int(INDEX)?).map(Output::Tensor);
    }
    let parts = parts(input, "select")?;
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    let index = args.int(INDEX)?;
    let index = if index < 0 { index + input.sizes()[dim] as i64 } else { index };
    let sparse = sparse_dims(&parts);
    if dim >= sparse {
        let values = contiguous(&selected(&parts.values.detach(), dim - sparse + 1, index as isize)?)?;
        let mut sizes = input.sizes().clone();
        sizes.remove(dim);
        let values = copy::clone(&values)?;
        return build(&sizes, SparseParts { values, ..(*parts).clone() }).map(Output::Tensor);
    }
    let places = along(input, &parts, dim)?;
    let count = places.iter().filter(|&&place| place == index).count();
    let mut numbers = list(count)?;
    numbers.extend(places.iter().enumerate().filter(|(_, place)| **place == index).map(|(number, _)| number as i64));
    let found = entries(input, &parts, &numbers, dim, None, 0)?;
    Ok(Output::Tensor(in_order(found, parts.coalesced)))
}

/// `_slice`, behind `x[a:b]`, `narrow` and `split`.
pub fn slice(args: &Args) -> Result<Output> {
    use crate::view::narrow::SLICE::*;

    let input = args.tensor(INPUT)?;
    let parts = parts(input, "slice")?;
    let layout = crate::view::narrow::slice(input.layout(), args)?;
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    let (start, length, step) = (args.int(START)?, args.int(LENGTH)?, args.int(STEP)?);
    let sparse = sparse_dims(&parts);
    if dim >= sparse {
        let values = &parts.values.detach();
        let values = sliced(values, dim - sparse + 1, start as isize, length as isize, step as isize)?;
        let values = copy::clone(&contiguous(&values)?)?;
        return build(&layout.sizes, SparseParts { values, ..(*parts).clone() }).map(Output::Tensor);
    }
    let places = along(input, &parts, dim)?;
    let place_of = |&place: &i64| {
        // A step of zero, which a slice of at most one element may have, is equivalent to one.
        let (way, step) = (place - start, if step == 0 { 1 } else { step });
        Some(way / step).filter(|&at| way % step == 0 && (0..length).contains(&at))
    };
    let count = places.iter().filter(|place| place_of(place).is_some()).count();
    let (mut numbers, mut moved) = (list(count)?, list(count)?);
    for (number, place) in places.iter().enumerate() {
        if let Some(at) = place_of(place) {
            numbers.push(number as i64);
            moved.push(at);
        }
    }
    let found = entries(input, &parts, &numbers, dim, Some(&moved), length as isize)?;
    Ok(Output::Tensor(in_order(found, parts.coalesced && step > 0)))
}

/// `embedding`: the rows of a sparse weight. They cannot be folded into more dimensions.
pub fn embedding(args: &Args) -> Result<Output> {
    use crate::nn::embedding::{EMBEDDING::*, check_indices};

    let (weight, indices) = (args.tensor(WEIGHT)?, args.tensor(INDICES)?);
    if weight.rank() != 2 {
        return Err(Error::runtime("'weight' must be 2-D"));
    }
    check_indices(indices.dtype(), indices.device(), 1, "embedding")?;
    if weight.parts().is_none() {
        return Err(unsupported("index_select", weight));
    }
    if indices.rank() != 1 {
        return Err(unsupported("view", weight));
    }
    op!(INDEX_SELECT, &weight.detach(), 0i64, indices).map(Output::Tensor)
}

/// `index_select`: entries are repeated as often as the index names them, in its order.
pub fn index_select(args: &Args) -> Result<Output> {
    use INDEX_SELECT::*;

    let (input, index) = (args.tensor(INPUT)?, args.tensor(INDEX)?);
    let parts = parts(input, "index_select")?;
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    if index.is_sparse() || index.rank() != 1 || index.dtype() != DType::I64 {
        return Err(Error::index("index_select() argument index must be 1-D strided (non-sparse) long-tensor."));
    }
    let (size, mut wanted) = (input.sizes()[dim] as i64, to_vec::<i64>(index)?);
    for place in &mut wanted {
        if !(-size..size).contains(place) {
            return Err(Error::index(format!(
                "index_select(): index contains {place} that is out of range for tensor of size {} at dimension {dim}",
                Shape(input.sizes())
            )));
        }
        *place = place.rem_euclid(size);
    }
    let sparse = sparse_dims(&parts);
    if dim >= sparse {
        let at = (dim - sparse + 1) as i64;
        let values = op!(INDEX_SELECT, &parts.values.detach(), at, &placed(&wanted, input.device())?)?;
        let mut sizes = input.sizes().clone();
        sizes[dim] = wanted.len() as isize;
        return build(&sizes, SparseParts { values, ..(*parts).clone() }).map(Output::Tensor);
    }
    let places = along(input, &parts, dim)?;
    let mut by_place = collected(places.iter().enumerate().map(|(number, &place)| (place, number as i64)))?;
    by_place.sort_unstable();
    let at = |place: i64| {
        let first = by_place.partition_point(|entry| entry.0 < place);
        &by_place[first..first + by_place[first..].partition_point(|entry| entry.0 == place)]
    };
    let count = wanted.iter().map(|&place| at(place).len()).sum();
    let (mut numbers, mut moved) = (list(count)?, list(count)?);
    for (name, &place) in wanted.iter().enumerate() {
        for entry in at(place) {
            numbers.push(entry.1);
            moved.push(name as i64);
        }
    }
    let found = entries(input, &parts, &numbers, dim, Some(&moved), wanted.len() as isize)?;
    Ok(Output::Tensor(in_order(found, parts.coalesced && dim == 0)))
}

/// `unbind`, and with it iteration.
pub fn unbind(args: &Args) -> Result<Output> {
    use crate::view::split::UNBIND::*;

    let input = args.tensor(INPUT)?;
    if input.rank() == 0 {
        return Err(Error::index("Dimension specified as 0 but tensor has no dimensions")
            .hint("A 0-d tensor has one element: use x.item()."));
    }
    let dim = wrap_dim(args.int(DIM)?, input.rank())?;
    crate::view::split::check_piece_count(input.sizes()[dim] as i64)?;
    (0..input.sizes()[dim]).map(|index| selected(input, dim, index)).collect::<Result<_>>().map(Output::List)
}

/// `cat`.
pub fn cat(args: &Args) -> Result<Output> {
    use CAT::*;

    joined(&args.tensors(TENSORS)?, args.int(DIM)?).map(Output::Tensor)
}

fn joined(tensors: &[&Tensor], dim: i64) -> Result<Tensor> {
    let Some(first) = tensors.first() else {
        return Err(Error::value("torch.cat(): expected a non-empty list of Tensors"));
    };
    let dim = wrap_dim(dim, first.rank())?;
    let mut every = Vec::with_capacity(tensors.len());
    for (at, tensor) in tensors.iter().enumerate() {
        let Some(parts) = tensor.parts() else {
            if tensor.is_sparse() {
                parts(tensor, "cat")?;
            }
            return Err(Error::runtime(format!(
                "Concatenating sparse tensors, but a dense tensor was found at position {at}."
            )));
        };
        every.push(parts);
    }
    let (sparse, rank) = (sparse_dims(&every[0]), first.rank());
    let mut sizes = first.sizes().clone();
    for (at, (tensor, parts)) in tensors.iter().zip(&every).enumerate().skip(1) {
        let others =
            |dims: &Dims| dims.iter().enumerate().filter(|(at, _)| *at != dim).map(|(_, &size)| size).collect();
        let (expected, found): (Dims, Dims) = (others(first.sizes()), others(tensor.sizes()));
        if tensor.rank() != rank || expected != found {
            return Err(Error::runtime(format!(
                "All tensors must have the same shape: {} (except in the concatenating dimension), but found shape: {} at position {at}.",
                Shape(first.sizes()),
                Shape(tensor.sizes())
            )));
        }
        if sparse_dims(parts) != sparse {
            return Err(Error::runtime(format!(
                "All tensors must have the same sparse_dim and dense_dim: {sparse}, {}, but tensor at position {at} has {}, {}.",
                rank - sparse,
                sparse_dims(parts),
                rank - sparse_dims(parts)
            )));
        }
        sizes[dim] = sizes[dim].checked_add(tensor.sizes()[dim]).ok_or_else(|| {
            Error::runtime(format!("torch.cat(): sizes along dimension {dim} add up to more than a tensor can have"))
        })?;
    }
    rushlight_core::layout::checked_numel(&sizes)?;
    let dtype = crate::join::cat::common(tensors)?;
    let (mut indices, mut values) = (Vec::with_capacity(every.len()), Vec::with_capacity(every.len()));
    let mut start = 0;
    for (tensor, parts) in tensors.iter().zip(&every) {
        let own = to_dtype(&parts.values.detach(), dtype)?;
        let length = tensor.sizes()[dim];
        if dim < sparse {
            let mut moved: Dims = Dims::from_elem(0, sparse);
            moved[dim] = start;
            let moved: Vec<i64> = moved.iter().map(|&by| by as i64).collect();
            let by = op!(crate::view::squeeze::UNSQUEEZE, placed(&moved, own.device())?, 1i64)?;
            indices.push(op!(ADD, &parts.indices, &by)?);
            values.push(own);
        } else {
            // Blocks become larger, with zeros in the parts of the other tensors.
            let filler = |length: isize| {
                let mut block = own.sizes().clone();
                block[dim - sparse + 1] = length;
                zeros(&block, dtype, own.device())
            };
            let pieces = [filler(start)?, own.clone(), filler(sizes[dim] - start - length)?];
            indices.push(parts.indices.clone());
            values.push(op!(CAT, Vec::from(pieces), (dim - sparse + 1) as i64)?);
        }
        start += length;
    }
    let (indices, values) = (op!(CAT, indices, 1i64)?, op!(CAT, values, 0i64)?);
    build(&sizes, SparseParts { indices, values, coalesced: false })
}

/// `stack`: each gets a new dimension of size one, and then they are concatenated.
pub fn stack(args: &Args) -> Result<Output> {
    use STACK::*;

    let tensors = args.tensors(TENSORS)?;
    let first = tensors.first().ok_or_else(|| Error::runtime("stack expects a non-empty TensorList"))?;
    let dim = wrap_dim(args.int(DIM)?, first.rank() + 1)?;
    if let Some(at) = tensors.iter().position(|tensor| tensor.sizes() != first.sizes()) {
        return Err(Error::runtime(format!(
            "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {at}",
            Shape(first.sizes()),
            Shape(tensors[at].sizes())
        )));
    }
    let raised = tensors.iter().map(|tensor| raised(tensor, dim)).collect::<Result<Vec<_>>>()?;
    joined(&raised.iter().collect::<Vec<_>>(), dim as i64).map(Output::Tensor)
}

/// `unsqueeze`.
pub fn unsqueeze(args: &Args) -> Result<Output> {
    use crate::view::squeeze::UNSQUEEZE::*;

    let input = args.tensor(INPUT)?;
    parts(input, "unsqueeze")?;
    raised(input, wrap_dim(args.int(DIM)?, input.rank() + 1)?).map(Output::Tensor)
}

/// A sparse tensor with a new dimension of size one; a dense tensor unchanged.
fn raised(input: &Tensor, dim: usize) -> Result<Tensor> {
    let Some(parts) = input.parts() else { return Ok(input.clone()) };
    let sparse = sparse_dims(&parts);
    let mut sizes = input.sizes().clone();
    sizes.insert(dim, 1);
    if dim > sparse {
        let values = op!(crate::view::squeeze::UNSQUEEZE, parts.values.detach(), (dim - sparse + 1) as i64)?;
        return build(&sizes, SparseParts { values, ..(*parts).clone() });
    }
    let count = parts.indices.sizes()[1];
    if count == 0 {
        return empty(&sizes, sparse + 1, input.dtype(), input.device());
    }
    let mut rows = (0..sparse).map(|row| selected(&parts.indices, 0, row as isize)).collect::<Result<Vec<_>>>()?;
    rows.insert(dim, zeros(&[count], DType::I64, input.device())?);
    build(&sizes, SparseParts { indices: op!(STACK, rows, 0i64)?, ..(*parts).clone() })
}
