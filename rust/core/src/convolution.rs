//! What a convolution is: its sizes, and which of its three tensors is computed.

use crate::window::WindowDim;

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
    pub fn input(&self) -> [usize; 3] {
        self.space.map(|dim| dim.input)
    }

    pub fn output(&self) -> [usize; 3] {
        self.space.map(|dim| dim.output)
    }

    pub fn kernel(&self) -> [usize; 3] {
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

/// The tensor that is computed from the other two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Computed {
    Output,
    Input,
    Weight,
}

impl Computed {
    /// Its position among input, weight and output.
    pub fn position(self) -> usize {
        match self {
            Computed::Input => 0,
            Computed::Weight => 1,
            Computed::Output => 2,
        }
    }
}
