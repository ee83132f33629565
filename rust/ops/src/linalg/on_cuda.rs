//! Products of matrices on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{Dims, Layout, Result, Scalar};
use rushlight_cuda::matmul::{Matrices, Sizes, multiply};
use rushlight_cuda::{card, stream};
use rushlight_dispatch::promote::bits;

/// A tensor with the layout in which a product reads it.
pub type View<'a> = (&'a Tensor, Layout);

/// `out = alpha * a b + beta * addend` for batches of matrices. All operands have the result's batch.
pub fn product(out: View, alpha: Scalar, a: View, b: View, addend: Option<(Scalar, View)>) -> Result<()> {
    let dtype = out.0.dtype();
    let (width, compute) = (dtype.size(), dtype.compute());
    let (rank, inner) = (out.1.rank(), a.1.sizes[a.1.rank() - 1]);
    let card = card::of(out.0.device())?;
    let stream = stream::current(card.index);
    let beta = addend.as_ref().map_or(Scalar::ZERO, |(beta, _)| *beta);
    let has_addend = addend.is_some();
    // Without an addend its place is the result's, which is not read.
    let addend = addend.map_or_else(|| (out.0, out.1.clone()), |(_, view)| view);
    let views = [&out, &a, &b, &addend];
    let pins = views.iter().map(|view| view.0.storage().pin_on(stream)).collect::<Result<Vec<_>>>()?;
    let bytes = |view: &View, dim: usize| (view.1.strides[dim] * width as isize) as i64;
    let matrices = Matrices {
        at: std::array::from_fn(|n| pins[n].address() as u64),
        rows: views.map(|view| bytes(view, rank - 2)),
        columns: views.map(|view| bytes(view, rank - 1)),
    };
    let sizes =
        Sizes { rows: out.1.sizes[rank - 2] as u64, columns: out.1.sizes[rank - 1] as u64, inner: inner as u64 };
    let batch = views.map(|view| Layout {
        sizes: Dims::from_slice(&out.1.sizes[..rank - 2]),
        strides: Dims::from_slice(&view.1.strides[..rank - 2]),
        offset: view.1.offset,
    });
    let nest = LoopNest::new(batch.each_ref(), [width; 4]);
    let numbers = [alpha, beta].map(|number| bits(number, compute));
    // SAFETY: layouts stay within their storages, which are pinned on the stream.
    unsafe { multiply(card, stream, dtype, matrices, sizes, &nest, numbers, has_addend) }
}
