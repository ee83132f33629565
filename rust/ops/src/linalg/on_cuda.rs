//! Products of matrices on CUDA devices.

use rushlight_autograd::Tensor;
use rushlight_core::loop_nest::LoopNest;
use rushlight_core::{Dims, Layout, Result, Scalar};
use rushlight_cuda::matmul::{Matrices, Sizes, multiply};
use rushlight_cuda::{cublaslt, tunable};
use rushlight_dispatch::operands::plain;
use rushlight_dispatch::promote::bits;
use rushlight_dispatch::{copy, interpreter};

use crate::held::Held;

/// A tensor with the layout in which a product reads it.
pub type View<'a> = (&'a Tensor, Layout);

/// The last two dimensions of a layout.
fn matrix(layout: &Layout) -> cublaslt::View {
    let (row, column) = (layout.rank() - 2, layout.rank() - 1);
    let at = |numbers: &[isize], dim: usize| numbers[dim] as i64;
    cublaslt::View {
        rows: at(&layout.sizes, row),
        columns: at(&layout.sizes, column),
        row_stride: at(&layout.strides, row),
        column_stride: at(&layout.strides, column),
    }
}

/// A row-major copy of a factor that cuBLASLt cannot read, if it is there.
pub fn readable(tensor: &Tensor, layout: &Layout) -> Result<Option<Tensor>> {
    if matrix(layout).is_readable() || !cublaslt::multiplies(tensor.dtype()) {
        return Ok(None);
    }
    plain(&Tensor::view_of(tensor, layout.clone()), tensor.dtype()).map(Some)
}

/// Copies an addend that cuBLASLt cannot add into the result, if it is there; whether it did.
pub fn move_addend(out: &View, beta: Scalar, addend: &View) -> Result<bool> {
    let (dtype, layout) = (out.0.dtype(), &addend.1);
    if !cublaslt::multiplies(dtype) {
        return Ok(false);
    }
    let (own, result) = (matrix(layout), matrix(&out.1));
    let repeats = (0..layout.rank() - 2).all(|dim| layout.strides[dim] == 0 || layout.sizes[dim] == 1);
    let is_bias = repeats && beta.is_one() && cublaslt::adds_bias(dtype) && own.is_bias_of(result);
    if is_bias || own.adds_to(result) || !result.is_readable() {
        return Ok(false);
    }
    copy::copy_views(out.0, &out.1, addend.0, layout)?;
    Ok(true)
}

/// `out = alpha * a b + beta * addend` for batches of matrices. All operands have the result's batch.
pub fn product(out: View, alpha: Scalar, a: View, b: View, addend: Option<(Scalar, View)>) -> Result<()> {
    let dtype = out.0.dtype();
    let (width, compute) = (dtype.size(), dtype.compute());
    let (rank, inner) = (out.1.rank(), a.1.sizes[a.1.rank() - 1]);
    let beta = addend.as_ref().map_or(Scalar::ZERO, |(beta, _)| *beta);
    let has_addend = addend.is_some();
    // Without an addend its place is the result's, which is not read.
    let addend = addend.map_or_else(|| (out.0, out.1.clone()), |(_, view)| view);
    let views = [&out, &a, &b, &addend];
    let mut held = Held::on(out.0)?;
    let bytes = |view: &View, dim: usize| (view.1.strides[dim] * width as isize) as i64;
    let matrices = Matrices {
        at: held.bases(views.map(|view| view.0))?,
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
    // SAFETY: layouts stay within their storages, which are held for the stream.
    unsafe {
        if cublaslt::multiply(held.card, held.stream, dtype, &matrices, &sizes, &nest, numbers, has_addend)? {
            if tunable::is_enabled()
                && let Some(warning) = tunable::take_warning()
            {
                interpreter::warn(&warning)?;
            }
            return Ok(());
        }
        multiply(held.card, held.stream, dtype, matrices, sizes, &nest, numbers, has_addend)
    }
}
