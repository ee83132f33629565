//! Convolution without columns: images are copied once, with their border, so that what any tap of the window sees lies at
//! a constant distance; the microkernels of the matrix product then read the copy through a table of distances.
//!
//! ```text
//! convolve ── complex.rs    a complex image is a real one of twice the channels
//!          ── correlate.rs  forward, and the gradient of the input (a convolution of the output's gradient)
//!          ── weight.rs     the gradient of the weight
//!          ── columns.rs    all three, where images are small and channels many
//!          ── depthwise.rs  both, where groups have one channel and one feature
//!          ── sheet.rs      the copy with its border, and where the taps lie in it
//! ```
//!
//! The three operations close under differentiation. Each works on row-major images of three dimensions of space (missing
//! ones have size one). Work is cut by images, groups, tiles of pixels and blocks of channels, at places that depend on the
//! sizes alone.

mod axis;
mod columns;
mod complex;
mod correlate;
mod depthwise;
mod sheet;
#[cfg(test)]
mod tests;
mod weight;

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, Error, Result, dispatch};
use rushlight_par::Address;

use crate::linalg::matmul::element::Job;
use crate::linalg::matmul::kernel::Kernels;
use crate::linalg::matmul::pack::Format;
use crate::linalg::matmul::{GemmElement, Sum};

/// Sizes of a convolution; channels and features are those of one group.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub batch: usize,
    pub groups: usize,
    pub channels: usize,
    pub features: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

impl Geometry {
    /// Elements of one channel of the input.
    fn area(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one channel of the output.
    fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    fn window(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Elements of one filter.
    fn depth(&self) -> usize {
        self.channels * self.window()
    }
}

/// The addresses of `(batch, groups * channels, input)`, `(groups * features, channels, kernel)` and
/// `(batch, groups * features, output)`.
#[derive(Clone, Copy)]
pub struct Operands {
    pub input: *mut u8,
    pub weight: *mut u8,
    pub output: *mut u8,
    /// One value for each feature.
    pub bias: Option<*const u8>,
}

/// Which of the three is computed from the other two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Output,
    Input,
    Weight,
}

/// Whether there is a convolution of a dtype.
pub fn convolves(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128 | DType::I64 | DType::I32)
}

/// Computes one operand of a convolution from the other two.
///
/// # Safety
/// The operands are row-major, of the sizes that `geometry` says, and do not overlap. No dimension of space is
/// empty, there are as many outputs as the geometry has windows, and sums of a few of its numbers do not overflow.
pub unsafe fn convolve(dtype: DType, target: Target, geometry: &Geometry, operands: Operands) -> Result<()> {
    geometry.ask_for_taps()?;
    dispatch!(dtype, T in [f32, f64, i64, i32] => {
        Call::<T>::new(geometry, operands).run(target)
    }, else => dispatch!(dtype, T in [c64, c128] => {
        // SAFETY: the caller's promise.
        unsafe { complex::convolve(target, geometry, Call::<T>::new(geometry, operands)) }
    }, else => Err(Error::unsupported("convolution", dtype))))
}

/// The kinds of elements that images have; half precision is computed in float32 by the caller.
trait Pixel: GemmElement<Sum = Self> + Sum {}
impl<T: GemmElement<Sum = T> + Sum> Pixel for T {}

/// A convolution whose operands are typed.
struct Call<T> {
    g: Geometry,
    input: Address<T>,
    weight: Address<T>,
    output: Address<T>,
    bias: Option<Address<T>>,
}

impl<T> Call<T> {
    fn new(g: &Geometry, operands: Operands) -> Self {
        Call {
            g: *g,
            input: Address(operands.input.cast()),
            weight: Address(operands.weight.cast()),
            output: Address(operands.output.cast()),
            bias: operands.bias.map(|bias| Address(bias.cast_mut().cast())),
        }
    }
}

impl<T: Pixel> Call<T> {
    fn run(self, target: Target) -> Result<()> {
        T::with_kernels(Run { call: self, target })
    }
}

struct Run<T> {
    call: Call<T>,
    target: Target,
}

impl<T: Pixel> Job<T> for Run<T> {
    fn run<F: Format<T = T>>(self, kernels: &'static Kernels<F>) -> Result<()> {
        debug_assert!(F::IN_PLACE, "the microkernels read images where they lie");
        match self.target {
            Target::Output => self.call.forward(kernels),
            Target::Input => self.call.input(kernels),
            Target::Weight => self.call.weight(kernels),
        }
    }
}

/// Rows at a distance of whole pages fall on one set of the first-level cache.
const PAGE: usize = 4096;
/// Multiplications worth a task of their own.
const TASK: usize = 1 << 19;

/// Runs tasks of about `work` multiplications each, several at once where they are small.
fn tasks(count: usize, work: usize, task: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    rushlight_par::try_parallel_for(count, TASK.div_ceil(work.max(1)), |mut range| range.try_for_each(&task))
}

/// The length of nearly equal pieces of `length`, of at most `most` each.
fn even(length: usize, most: usize) -> usize {
    length.div_ceil(length.div_ceil(most.max(1)).max(1)).max(1)
}
