//! Discrete Fourier transforms.
//!
//! `kernel` has the three rows that compute, with their derivatives; `one` and `many` bring arguments into their form,
//! `frequencies` has what stands beside them, `short` transforms of windows that move along a signal.

pub mod frequencies;
pub mod kernel;
pub mod many;
pub mod one;
pub mod stft;

use rushlight_autograd::Tensor;
use rushlight_core::dtype::default_dtype;
use rushlight_core::{DType, Error, Result};

use crate::row::{Accepts, DTypes, Out};

/// What transforms accept.
pub const DTYPES: DTypes = DTypes::INTS.union(DTypes::BOOL).union(DTypes::DENSE);
/// And those that take real numbers alone.
pub const REAL: DTypes = DTypes::INTS.union(DTypes::BOOL).union(DTypes::of(&[DType::F32, DType::F64]));

/// A complex result goes into complex tensors, a real one into floats.
pub const COMPLEX_OUT: Out =
    Out::new(Accepts::Also(DTypes::COMPLEX), &["{name} expects a complex output tensor, but got {Out}"]);
pub const REAL_OUT: Out =
    Out::new(Accepts::Also(DTypes::FLOATS), &["{name} expects a floating point output tensor, but got {Out}"]);

/// The argument in the dtype that is computed in.
pub fn promoted(input: &Tensor, complex: bool) -> Result<Tensor> {
    let dtype = match input.dtype() {
        float if float.is_differentiable() => float,
        _ => default_dtype(),
    };
    if dtype.is_half() {
        return Err(Error::runtime(format!("Unsupported dtype {}", dtype.title()))
            .hint("Transforms are computed in single or double precision: x.float()."));
    }
    crate::convert::to_dtype(input, if complex { dtype.to_complex() } else { dtype })
}

/// What results are divided by.
#[derive(Clone, Copy)]
pub enum Scale {
    Nothing,
    Root,
    Whole,
}

impl Scale {
    /// What `norm=` means for one direction.
    pub fn of(norm: Option<&str>, forward: bool) -> Result<Scale> {
        match (norm, forward) {
            (None | Some("backward"), true) | (Some("forward"), false) => Ok(Scale::Nothing),
            (None | Some("backward"), false) | (Some("forward"), true) => Ok(Scale::Whole),
            (Some("ortho"), _) => Ok(Scale::Root),
            (Some(other), _) => Err(Error::runtime(format!("Invalid normalization mode: \"{other}\""))
                .hint("norm is 'backward' (the default), 'ortho' or 'forward'.")),
        }
    }

    /// torch's number for it.
    pub fn number(self) -> i64 {
        self as i64
    }

    /// The factor for a transform over so many elements.
    pub fn factor(number: i64, elements: f64) -> f64 {
        match number {
            1 => 1.0 / elements.sqrt(),
            2 => 1.0 / elements,
            _ => 1.0,
        }
    }
}

/// The dimension cut to `length`, or continued with zeros.
pub fn resized(input: &Tensor, dim: usize, length: isize) -> Result<Tensor> {
    check_length(length)?;
    let size = input.sizes()[dim];
    if size >= length {
        return if size == length { Ok(input.clone()) } else { crate::view::narrow::sliced(input, dim, 0, length, 1) };
    }
    let mut padding = crate::value::Ints::from_elem(0, 2 * (input.rank() - dim));
    let last = padding.len() - 1;
    padding[last] = (length - size) as i64;
    crate::join::pad::CONSTANT_PAD.tensor([input.into(), padding.into()])
}

pub fn check_length(length: isize) -> Result<()> {
    if length < 1 {
        return Err(Error::runtime(format!("Invalid number of data points ({length}) specified"))
            .hint("Transform at least one point: n (or s) is 1 or more, or leave it out for the input's size."));
    }
    Ok(())
}
