//! Convolution, without a matrix of columns except in `im2col`: images are copied once, with their border, so that the
//! element that any tap of the window sees lies at a constant distance; the microkernels of the matrix product then read
//! the copy through a table of distances.
//!
//! ```text
//! convolve ── complex.rs      a complex image is a real one of twice the channels
//!          ── correlate.rs    forward, and the gradient of the input (a convolution of the output's gradient)
//!          ── weight_grad.rs  the gradient of the weight
//!          ── im2col.rs       all three, where images are small and channels many
//!          ── depthwise.rs    both, where groups have one channel and one feature
//!          ── padded_tile.rs  the copy with its border, and where the taps lie in it
//! ```
//!
//! The gradients of the three operations are again of these three kinds. Each works on row-major images with three
//! spatial dimensions (missing ones have size one). Work is divided by images, groups, tiles of pixels and blocks of
//! channels, at positions that depend on the sizes alone.

mod complex;
mod correlate;
mod depthwise;
mod dim;
mod im2col;
mod operands;
mod padded_tile;
#[cfg(test)]
mod tests;
mod weight_grad;

use rushlight_core::convolution::{Computed, Geometry};
use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Error, Result, dispatch};

pub use operands::Operands;

use crate::linalg::matmul::element::{Format, Job, Kernels};
use operands::{Pixel, TypedConv};

/// Whether a dtype has a convolution.
pub fn convolves(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128 | DType::I64 | DType::I32)
}

/// Computes one operand of a convolution from the other two.
///
/// # Safety
/// The operands are row-major, of the sizes in `geometry`, and do not overlap. No spatial dimension is empty, there are
/// as many outputs as the geometry has windows, and sums of a few of its numbers do not overflow.
pub unsafe fn convolve(dtype: DType, computed: Computed, geometry: &Geometry, operands: Operands) -> Result<()> {
    dim::check_memory_of_taps(geometry)?;
    dispatch!(dtype, T in [f32, f64, i64, i32] => {
        TypedConv::<T>::new(geometry, operands).run(computed)
    }, else => dispatch!(dtype, T in [c64, c128] => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { complex::convolve(computed, geometry, TypedConv::<T>::new(geometry, operands)) }
    }, else => Err(Error::unsupported("convolution", dtype))))
}

impl<T: Pixel> TypedConv<T> {
    fn run(self, computed: Computed) -> Result<()> {
        T::with_kernels(ConvJob { call: self, computed })
    }
}

struct ConvJob<T> {
    call: TypedConv<T>,
    computed: Computed,
}

impl<T: Pixel> Job<T> for ConvJob<T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()> {
        debug_assert!(F::IN_PLACE, "the microkernels read images in place");
        match self.computed {
            Computed::Output => self.call.compute_output(kernels),
            Computed::Input => self.call.compute_input(kernels),
            Computed::Weight => self.call.compute_weight(kernels),
        }
    }
}

/// Bytes of a page: rows at a distance of whole pages map to one set of the first-level cache.
const PAGE: usize = 4096;
/// Multiplications worth a task.
const TASK: usize = 1 << 19;

/// Runs tasks of about `work` multiplications each; small ones are grouped.
fn tasks(count: usize, work: usize, task: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    rushlight_par::try_parallel_for(count, TASK.div_ceil(work.max(1)), |mut range| range.try_for_each(&task))
}

/// The length of nearly equal pieces of `length`, of at most `most` each.
fn even(length: usize, most: usize) -> usize {
    length.div_ceil(length.div_ceil(most.max(1)).max(1)).max(1)
}
