//! Systems of linear equations with triangular matrices, by cuBLAS.

use std::ffi::c_int;

use rushlight_core::device_memory::StreamId;
use rushlight_core::{DType, Result};

use super::{Matrices, Type, check, with_blas};
use crate::card::Card;
use crate::launch::enqueue;

/// Which triangle of a matrix by columns is meant, and how.
#[derive(Clone, Copy)]
pub struct Triangle {
    pub upper: bool,
    /// Whether its transposition is meant.
    pub transposed: bool,
    /// Whether its diagonal counts as ones.
    pub unit: bool,
}

impl Triangle {
    /// The side, and these flags, as cuBLAS writes them.
    pub(super) fn flags(self, left: bool) -> [c_int; 4] {
        [!left, self.upper, self.transposed, self.unit].map(c_int::from)
    }
}

/// One in a dtype, in the first bytes.
pub(super) fn one(dtype: DType) -> [f64; 2] {
    let single = f64::from_bits(u64::from(1f32.to_bits()));
    if dtype.to_real() == DType::F32 { [single, 0.0] } else { [1.0, 0.0] }
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
    let Some(Type { index, .. }) = Type::of(a.dtype) else { return Ok(false) };
    if b.is_empty() {
        return Ok(true);
    }
    let one = one(a.dtype);
    let [side, upper, transposed, unit] = triangle.flags(left);
    let name = "cublasXtrsm";
    with_blas(card, stream, |library, handle| {
        let (solve, leading, apart) = (library.triangular[index], a.leading(), b.leading());
        (0..b.count).try_for_each(|n| {
            let (at, to, rows, columns) = (a.get(n), b.get(n), b.rows, b.columns);
            let one = one.as_ptr();
            // SAFETY: guaranteed by the caller.
            let run =
                || unsafe { solve(handle, side, upper, transposed, unit, rows, columns, one, at, leading, to, apart) };
            enqueue(card, name, stream, || check(run(), name))
        })
    })
}
