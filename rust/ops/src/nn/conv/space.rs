//! The settings of a convolution's call, and the sizes that follow from them.

use rushlight_core::convolution::Geometry;
use rushlight_core::window::WindowDim;
use rushlight_dispatch::value::Ints;

/// The groups of channels, and how windows move. The padding is that before all dimensions of space, and then that after, which
/// follows from the sizes.
pub struct Space<'a> {
    pub groups: isize,
    pub strides: &'a [i64],
    pub padding: &'a [i64],
    pub dilation: &'a [i64],
}

impl Space<'_> {
    /// The geometry of input, weight and output of these sizes.
    pub fn geometry(&self, [input, weight, output]: [&[isize]; 3]) -> Geometry {
        let kernel: Ints = weight[2..].iter().map(|&size| size as i64).collect();
        let lists = [&kernel, self.strides, &self.padding[..kernel.len()], self.dilation];
        Geometry {
            batch: input[0] as usize,
            groups: self.groups as usize,
            channels: weight[1] as usize,
            features: (weight[0] / self.groups) as usize,
            space: WindowDim::space(&input[2..], &output[2..], lists),
        }
    }
}
