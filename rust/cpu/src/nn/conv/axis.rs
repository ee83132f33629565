//! One axis of a convolution, seen from either side. The caller of `convolve` checked that sums of sizes do not overflow.

use std::ops::Range;

use rushlight_core::Result;
use rushlight_core::alloc::ask;

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

    /// Refuses kernels for whose taps, each of them in several lists, there is no memory.
    pub(super) fn ask_for_taps(&self) -> Result<()> {
        let channels = (self.channels.max(self.features) / self.groups.max(1)).max(1);
        let places = self.kernel.iter().try_fold(channels, |n, &size| n.checked_mul(size));
        let places = places.and_then(|places| places.checked_add(self.kernel.iter().sum()));
        ask(places.and_then(|places| places.checked_mul(2 * size_of::<(usize, isize)>())))
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
        .clamped()
    }

    /// The first elements of the input, one for each phase of the stride, that any tap may see.
    pub fn seen(s: Sizes) -> Vec<usize> {
        let first =
            |tap: usize| ((tap * s.dilation) as isize - s.padding as isize).rem_euclid(s.stride as isize) as usize;
        let mut firsts: Vec<usize> = (0..s.kernel).map(first).filter(|&first| first < s.input).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    }

    /// As the target the input's elements `first`, which is below the stride, `first + stride`, and so on. They are seen by
    /// the taps whose places differ from theirs by whole strides, each from output elements next to one another.
    pub fn backward(s: Sizes, first: usize) -> Axis {
        let place = (first + s.padding) as isize;
        let stride = s.stride as isize;
        let distance = |tap: usize| place - (tap * s.dilation) as isize;
        let own = |tap: &usize| distance(*tap) % stride == 0;
        Axis {
            source: s.output,
            count: (s.input - first).div_ceil(s.stride),
            first,
            step: s.stride,
            stride: 1,
            taps: (0..s.kernel).filter(own).map(|tap| (tap, distance(tap) / stride)).collect(),
        }
        .clamped()
    }

    /// The targets that see the source by a tap.
    pub fn sighted(&self, tap: usize) -> Range<usize> {
        let (shift, stride) = (self.taps[tap].1, self.stride as isize);
        // The first target at or behind a place of the source.
        let from = |place: isize| ((place - shift).max(0) as usize).div_ceil(stride as usize).min(self.count);
        from(0)..from(self.source as isize)
    }

    /// The taps by which some of `count` targets, from `start` on, see the source. Shifts only rise or only fall from tap to tap.
    pub fn live(&self, start: usize, count: usize) -> Range<usize> {
        let (first, last) = ((start * self.stride) as isize, ((start + count - 1) * self.stride) as isize);
        let sees = |(_, shift): &(usize, isize)| last + shift >= 0 && first + shift < self.source as isize;
        match (self.taps.iter().position(sees), self.taps.iter().rposition(sees)) {
            (Some(low), Some(high)) => low..high + 1,
            _ => 0..0,
        }
    }

    /// With the taps that see nothing of the source close to it: between all taps lies no more than what any of them sees.
    fn clamped(mut self) -> Axis {
        let span = (self.count * self.stride) as isize;
        for (_, shift) in &mut self.taps {
            *shift = (*shift).clamp(-span, self.source as isize);
        }
        self
    }
}
