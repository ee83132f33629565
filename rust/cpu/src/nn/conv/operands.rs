//! The operands of a convolution.

use rushlight_core::convolution::Geometry;
use rushlight_par::Address;

use crate::linalg::matmul::{GemmElement, Sum};

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

/// The element types of images; the caller computes half precision in float32.
pub trait Pixel: GemmElement<Sum = Self> + Sum {}
impl<T: GemmElement<Sum = T> + Sum> Pixel for T {}

/// A convolution with typed operands.
pub struct TypedConv<T> {
    pub g: Geometry,
    pub input: Address<T>,
    pub weight: Address<T>,
    pub output: Address<T>,
    pub bias: Option<Address<T>>,
}

impl<T> TypedConv<T> {
    pub fn new(g: &Geometry, operands: Operands) -> Self {
        TypedConv {
            g: *g,
            input: Address(operands.input.cast()),
            weight: Address(operands.weight.cast()),
            output: Address(operands.output.cast()),
            bias: operands.bias.map(|bias| Address(bias.cast_mut().cast())),
        }
    }
}
