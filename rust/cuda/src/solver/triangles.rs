//! Systems of linear equations with triangular matrices, by cuBLAS.

use std::ffi::c_int;

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Error, Result};

use super::{Held, Matrices, Of, SUCCESS, Type, pointer, products};
use crate::card::Card;
use crate::launch::enqueue;
use crate::{blas, memory};

/// Which triangle of a matrix by columns is meant, and how.
#[derive(Clone, Copy)]
pub struct Triangle {
    pub upper: bool,
    /// Whether its transposition is meant.
    pub transposed: bool,
    /// Whether its diagonal counts as ones.
    pub unit: bool,
}

/// Enqueues the solution of triangular systems, which replaces the right-hand sides: of `a x = b`, or of `x a = b` if `left` is false.
///
/// # Safety
/// The matrices lie in memory that is held for the stream.
pub unsafe fn solve(
    card: &Card,
    stream: StreamId,
    left: bool,
    triangle: Triangle,
    a: Matrices,
    b: Matrices,
) -> Result<bool> {
    let Some((library, Type { place, .. })) = products().zip(Type::of(a.dtype)) else { return Ok(false) };
    if b.is_empty() {
        return Ok(true);
    }
    let Some(held) = Held::take(Of::Blas, card, stream) else { return Ok(false) };
    let handle = held.0.handle;
    let bytes = blas::workspace_limit(card) as usize;
    let workspace = memory::allocate(card.index, bytes)?;
    let pin = workspace.pin_on(stream)?;
    // SAFETY: the workspace is held for the stream.
    if unsafe { (library.set_workspace)(handle, pointer(pin.address() as u64), bytes) } != SUCCESS {
        return Ok(false);
    }
    // One, in each of the dtypes.
    let one =
        if a.dtype.to_real() == DType::F32 { [f64::from_bits(u64::from(1f32.to_bits())), 0.0] } else { [1.0, 0.0] };
    let [side, upper, transposed, unit] = [!left, triangle.upper, triangle.transposed, triangle.unit].map(c_int::from);
    for n in 0..b.count {
        enqueue(card, "cublasXtrsm", stream, || {
            // SAFETY: guaranteed by the caller.
            let status = unsafe {
                (library.triangular[place])(
                    handle,
                    side,
                    upper,
                    transposed,
                    unit,
                    b.rows,
                    b.columns,
                    one.as_ptr(),
                    a.get(n),
                    a.leading(),
                    b.get(n),
                    b.leading(),
                )
            };
            match status {
                SUCCESS => Ok(()),
                status => Err(Error::runtime(format!("CUDA error: cuBLAS status {status} when calling `cublasXtrsm`"))),
            }
        })?;
    }
    Ok(true)
}
