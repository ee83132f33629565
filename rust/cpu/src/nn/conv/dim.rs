//! One dimension of a convolution, for the forward pass or for the gradient of the input. The caller of `convolve` has
//! checked that sums of sizes do not overflow.

use std::ops::Range;

use rushlight_core::Result;
use rushlight_core::alloc::check_available;
use rushlight_core::convolution::Geometry;
use rushlight_core::window::WindowDim;

/// For each tap, the target's element `first + t * step` adds the source's element `t * stride + shift`, if that
/// exists.
pub struct ConvDim {
    /// Elements of the source.
    pub source: usize,
    /// Elements of the target: the upper bound of `t`.
    pub count: usize,
    pub first: usize,
    pub step: usize,
    pub stride: usize,
    /// Each tap's position in the kernel, and its shift.
    pub taps: Vec<(usize, isize)>,
}

/// Returns an error for kernels whose taps, each in several lists, need more memory than there is.
pub fn check_memory_of_taps(g: &Geometry) -> Result<()> {
    let channels = g.channels.max(g.features).max(1);
    let places = g.space.iter().try_fold(channels, |n, dim| n.checked_mul(dim.kernel));
    let places = places.and_then(|places| places.checked_add(g.kernel().iter().sum()));
    check_available(places.and_then(|places| places.checked_mul(2 * size_of::<(usize, isize)>())))
}

pub fn forward_dims(g: &Geometry) -> [ConvDim; 3] {
    g.space.map(ConvDim::forward)
}

impl ConvDim {
    /// The dimension with the output as the target.
    pub fn forward(dim: WindowDim) -> ConvDim {
        ConvDim {
            source: dim.input,
            count: dim.output,
            first: 0,
            step: 1,
            stride: dim.stride,
            taps: (0..dim.kernel).map(|tap| (tap, dim.place(0, tap))).collect(),
        }
        .clamped()
    }

    /// The first element of the input for each phase of the stride that some tap sees.
    pub fn seen(dim: WindowDim) -> Vec<usize> {
        let first = |tap: usize| dim.place(0, tap).rem_euclid(dim.stride as isize) as usize;
        let mut firsts: Vec<usize> = (0..dim.kernel).map(first).filter(|&first| first < dim.input).collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    }

    /// The dimension with the input as the target, restricted to the elements `first` (below the stride), `first + stride`,
    /// and so on. The taps whose positions differ from theirs by multiples of the stride see them, each from adjacent
    /// output elements.
    pub fn backward(dim: WindowDim, first: usize) -> ConvDim {
        let stride = dim.stride as isize;
        let distance = |tap: usize| first as isize - dim.place(0, tap);
        let own = |tap: &usize| distance(*tap) % stride == 0;
        ConvDim {
            source: dim.output,
            count: (dim.input - first).div_ceil(dim.stride),
            first,
            step: dim.stride,
            stride: 1,
            taps: (0..dim.kernel).filter(own).map(|tap| (tap, distance(tap) / stride)).collect(),
        }
        .clamped()
    }

    /// The targets that see the source through a tap.
    pub fn targets_in_bounds(&self, tap: usize) -> Range<usize> {
        let (shift, stride) = (self.taps[tap].1, self.stride as isize);
        // The first target at or behind a position of the source.
        let from = |place: isize| ((place - shift).max(0) as usize).div_ceil(stride as usize).min(self.count);
        from(0)..from(self.source as isize)
    }

    /// The taps through which some of `count` targets, from `start` on, see the source. Shifts are monotonic over the
    /// taps.
    pub fn taps_in_bounds(&self, start: usize, count: usize) -> Range<usize> {
        let (first, last) = ((start * self.stride) as isize, ((start + count - 1) * self.stride) as isize);
        let sees = |(_, shift): &(usize, isize)| last + shift >= 0 && first + shift < self.source as isize;
        match (self.taps.iter().position(sees), self.taps.iter().rposition(sees)) {
            (Some(low), Some(high)) => low..high + 1,
            _ => 0..0,
        }
    }

    /// Moves the shifts of taps that see nothing of the source close to it, so that the distance between any two taps
    /// is bounded by what a tap can see.
    fn clamped(mut self) -> ConvDim {
        let span = (self.count * self.stride) as isize;
        for (_, shift) in &mut self.taps {
            *shift = (*shift).clamp(-span, self.source as isize);
        }
        self
    }
}
