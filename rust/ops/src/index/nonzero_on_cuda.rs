//! The indices of true elements on CUDA devices. Chunks of a mask are counted, the counts are summed, and each chunk writes its
//! indices from the sum of those before it.

use rushlight_autograd::Tensor;
use rushlight_core::{DType, Layout, Result};
use rushlight_cuda::nonzero::{self, CHUNK};
use rushlight_dispatch::{create, op};

use crate::held::Held;
use crate::reduce::cumulative::CUMSUM;
use crate::view::narrow::sliced;

/// The positions of the true elements of a contiguous mask.
pub fn positions(mask: &Tensor) -> Result<Tensor> {
    let (count, device) = (mask.numel(), mask.device());
    if count == 0 {
        return create::empty(&[0], DType::I64, device);
    }
    let counts = create::empty(&[count.div_ceil(CHUNK) as isize], DType::I64, device)?;
    let mut held = Held::on(mask)?;
    let operands = held.addresses([mask, &counts])?;
    // SAFETY: the mask is dense, there is a count for each chunk, and both are held for the stream.
    unsafe { nonzero::count(held.card, held.stream, operands, count)? };
    drop(held);
    let ends = op!(CUMSUM, &counts, 0i64)?;
    let whole = sliced(&ends, 0, ends.sizes()[0] - 1, 1, 1)?;
    let total = crate::convert::item(&whole)?.i64();
    let places = create::empty(&[total as isize], DType::I64, device)?;
    if total > 0 {
        let mut held = Held::on(mask)?;
        let operands = held.addresses([mask, &ends, &places])?;
        // SAFETY: see above; there are as many true elements as places.
        unsafe { nonzero::write(held.card, held.stream, operands, count)? };
    }
    Ok(places)
}

/// Row-major indices as coordinates of a layout, one row of a new tensor for each dimension.
pub fn coordinates(places: &Tensor, layout: &Layout, rows: &Tensor) -> Result<()> {
    let count = places.numel();
    if count == 0 {
        return Ok(());
    }
    let mut held = Held::on(places)?;
    let (from, to) = (held.address(places)?, held.address(rows)?);
    let mut inner = 1;
    for dim in (0..layout.rank()).rev() {
        let size = layout.sizes[dim] as usize;
        let row = to + (dim * count * size_of::<i64>()) as u64;
        // SAFETY: there is a row of as many integers for each dimension, held for the stream.
        unsafe { nonzero::along(held.card, held.stream, [from, row], count, [inner, size])? };
        inner *= size;
    }
    Ok(())
}
