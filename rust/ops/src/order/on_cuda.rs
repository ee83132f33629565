//! Sorting on CUDA devices, and elements at places of the sorted lines.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Layout, Result};
use rushlight_cuda::{card, order, stream};
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::value::sizes_value;
use rushlight_dispatch::{copy, create, op};

use crate::index::gather::GATHER;
use crate::reduce::on_cuda::shape;
use crate::view::RESHAPE;

/// The places that sort the lines along a dimension; equal elements keep their order, and NaN is the greatest.
pub fn places(own: &Tensor, dim: usize, descending: bool) -> Result<Tensor> {
    let shape = shape(own, dim);
    let (outer, n, inner) = (shape.outer as isize, shape.n as isize, shape.inner as isize);
    let rows = if n < 2 || own.numel() == 0 {
        create::zeros(&[outer, inner, n], DType::I64, own.device())?
    } else {
        let source = plain(&own.detach(), own.dtype())?;
        let buffers = [0, 1].map(|_| create::empty(&[outer, inner, n], DType::I64, own.device()));
        let [first, second] = buffers;
        let (first, second) = (first?, second?);
        let card = card::of(own.device())?;
        let stream = stream::current(card.index);
        let keys = source.storage().pin_on(stream)?;
        let pins = [first.storage().pin_on(stream)?, second.storage().pin_on(stream)?];
        let offset = source.layout().offset * source.dtype().size() as isize;
        let start = keys.address().wrapping_add_signed(offset) as u64;
        let addresses = [pins[0].address() as u64, pins[1].address() as u64];
        // SAFETY: keys are row-major and of this shape, both buffers have as many integers, and all are pinned on the stream.
        let last = unsafe { order::sort(card, stream, source.dtype(), start, shape, addresses, descending)? };
        drop(pins);
        if last == 0 { first } else { second }
    };
    // Rows of places as lines along the dimension.
    let mut layout = Layout::contiguous(own.sizes());
    if let Some(stride) = layout.strides.get_mut(dim) {
        *stride = 1;
    }
    for (other, stride) in layout.strides.iter_mut().enumerate() {
        match other.cmp(&dim) {
            // One block of lines is as many integers as one of elements.
            std::cmp::Ordering::Less | std::cmp::Ordering::Equal => {}
            std::cmp::Ordering::Greater => *stride *= n.max(1),
        }
    }
    Ok(Tensor::view_of(&rows, layout))
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
