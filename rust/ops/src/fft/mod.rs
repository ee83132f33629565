//! Discrete Fourier transforms.
//!
//! `primitives` has the three operators that compute, with their derivatives; `fft_1d` and `fft_nd` convert arguments to
//! their form, `on_cuda` gives transforms to cuFFT, `frequencies` has helper functions, `stft` transforms of moving windows.

pub mod fft_1d;
pub mod fft_nd;
pub mod frequencies;
mod on_cuda;
pub mod primitives;
pub mod stft;

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Error, Result};
use rushlight_dispatch::operator::{Accepts, DTypes, Out};
use rushlight_dispatch::value::Ints;

/// The dtypes of transforms.
pub const DTYPES: DTypes = DTypes::INTS.union(DTypes::BOOL).union(DTypes::DENSE);
/// The dtypes of transforms of real numbers.
pub const REAL: DTypes = DTypes::INTS.union(DTypes::BOOL).union(DTypes::of(&[DType::F32, DType::F64]));

/// A complex result may be written to complex tensors, a real one to floating ones.
pub const COMPLEX_OUT: Out =
    Out::new(Accepts::Also(DTypes::COMPLEX), &["{name} expects a complex output tensor, but got {Out}"]);
pub const REAL_OUT: Out =
    Out::new(Accepts::Also(DTypes::FLOATS), &["{name} expects a floating point output tensor, but got {Out}"]);

/// The argument in the compute dtype.
pub fn promoted(input: &Tensor, complex: bool) -> Result<Tensor> {
    let dtype = match input.dtype() {
        float if float.is_differentiable() => float,
        _ => default_dtype(),
    };
    if dtype.is_half() {
        return Err(Error::runtime(format!("Unsupported dtype {}", dtype.display_name()))
            .hint("Transforms need single or double precision: use x.float()."));
    }
    crate::convert::to_dtype(input, if complex { dtype.to_complex() } else { dtype })
}

/// The divisor of results.
#[derive(Clone, Copy)]
pub enum FftNorm {
    Unscaled,
    Sqrt,
    Full,
}

impl FftNorm {
    /// The effect of `norm=` in one direction.
    pub fn of(norm: Option<&str>, forward: bool) -> Result<FftNorm> {
        match (norm, forward) {
            (None | Some("backward"), true) | (Some("forward"), false) => Ok(FftNorm::Unscaled),
            (None | Some("backward"), false) | (Some("forward"), true) => Ok(FftNorm::Full),
            (Some("ortho"), _) => Ok(FftNorm::Sqrt),
            (Some(other), _) => Err(Error::runtime(format!("Invalid normalization mode: \"{other}\""))
                .hint("norm must be 'backward' (the default), 'ortho' or 'forward'.")),
        }
    }

    /// torch's number for the mode.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The factor for a transform over `elements` elements.
    pub fn factor(number: i64, elements: f64) -> f64 {
        match number {
            1 => 1.0 / elements.sqrt(),
            2 => 1.0 / elements,
            _ => 1.0,
        }
    }
}

/// The dimension truncated to `length`, or padded with zeros.
pub fn resized(input: &Tensor, dim: usize, length: isize) -> Result<Tensor> {
    check_length(length)?;
    let size = input.sizes()[dim];
    if size >= length {
        return if size == length { Ok(input.clone()) } else { crate::view::narrow::sliced(input, dim, 0, length, 1) };
    }
    let mut padding = Ints::from_elem(0, 2 * (input.rank() - dim));
    let last = padding.len() - 1;
    padding[last] = (length - size) as i64;
    crate::join::pad::CONSTANT_PAD.tensor([input.into(), padding.into()])
}

pub fn check_length(length: isize) -> Result<()> {
    if length < 1 {
        return Err(Error::runtime(format!("Invalid number of data points ({length}) specified"))
            .hint("n (or s) must be positive; omit it to use the input's size."));
    }
    Ok(())
}
