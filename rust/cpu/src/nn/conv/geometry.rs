//! What a convolution is: its sizes, its operands, and which of them is computed.

use rushlight_core::window::WindowDim;

use rushlight_par::Address;

use crate::linalg::matmul::{GemmElement, Sum};

/// Sizes of a convolution; channels and features are those of one group.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub batch: usize,
    pub groups: usize,
    pub channels: usize,
    pub features: usize,
    pub space: [WindowDim; 3],
}

impl Geometry {
    pub(super) fn input(&self) -> [usize; 3] {
        self.space.map(|dim| dim.input)
    }

    pub(super) fn output(&self) -> [usize; 3] {
        self.space.map(|dim| dim.output)
    }

    pub(super) fn kernel(&self) -> [usize; 3] {
        self.space.map(|dim| dim.kernel)
    }

    /// Elements of one channel of the input.
    pub fn area(&self) -> usize {
        self.input().iter().product()
    }

    /// Elements of one channel of the output.
    pub fn pixels(&self) -> usize {
        self.output().iter().product()
    }

    pub fn window(&self) -> usize {
        self.kernel().iter().product()
    }

    /// Elements of one filter.
    pub fn depth(&self) -> usize {
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

/// The operand that is computed from the other two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Output,
    Input,
    Weight,
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
