//! One axis of a convolution, seen from either side.

/// The target's element `first + t * step` sums, for each tap, the source's element `t * stride + shift` where there is one.
pub struct Axis {
    /// Elements of the source.
    pub source: usize,
    /// Elements of the target: `t` runs from zero to here.
    pub count: usize,
    pub first: usize,
    pub step: usize,
    pub stride: usize,
    /// Each tap's place in the kernel, and its shift.
    pub taps: Vec<(usize, isize)>,
}

/// The sizes that belong to one axis.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl super::Geometry {
    pub fn sizes(&self, axis: usize) -> Sizes {
        Sizes {
            input: self.input[axis],
            output: self.output[axis],
            kernel: self.kernel[axis],
            stride: self.stride[axis],
            padding: self.padding[axis],
            dilation: self.dilation[axis],
        }
    }

    pub fn forward_axes(&self) -> [Axis; 3] {
        [0, 1, 2].map(|axis| Axis::forward(self.sizes(axis)))
    }
}

impl Axis {
    /// The output as the target.
    pub fn forward(s: Sizes) -> Axis {
        let shift = |tap: usize| (tap * s.dilation) as isize - s.padding as isize;
        Axis {
            source: s.input,
            count: s.output,
            first: 0,
            step: 1,
            stride: s.stride,
            taps: (0..s.kernel).map(|tap| (tap, shift(tap))).collect(),
        }
    }

    /// The input's elements of one phase as the target: those that, behind the padding, leave `phase` when divided by the
    /// stride. They are seen by the taps that leave the same, each from output elements next to one another.
    pub fn backward(s: Sizes, phase: usize) -> Axis {
        let (stride, padding) = (s.stride as isize, s.padding as isize);
        let from = (padding - phase as isize).max(0).unsigned_abs().div_ceil(s.stride) as isize;
        let first = (phase as isize + stride * from - padding) as usize;
        let shift = |tap: usize| from + (phase as isize - (tap * s.dilation) as isize) / stride;
        let own = |tap: &usize| tap * s.dilation % s.stride == phase;
        Axis {
            source: s.output,
            count: s.input.saturating_sub(first).div_ceil(s.stride),
            first,
            step: s.stride,
            stride: 1,
            taps: (0..s.kernel).filter(own).map(|tap| (tap, shift(tap))).collect(),
        }
    }
}
