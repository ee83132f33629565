//! The working copy of a tile of an image, with its border and ordered by the phases of the stride. The elements that
//! one tap sees of adjacent pixels are adjacent in it, and every tap lies at a constant distance.

use super::dim::ConvDim;
use crate::linalg::matmul::Sum;

/// Elements behind the last channel that a whole vector may reach.
pub const SLACK: usize = 64;

/// One axis of the copy: a run of `length` positions for each phase in use.
struct PaddedDim {
    source: usize,
    stride: usize,
    phases: Vec<usize>,
    /// The block of the source, `stride` elements each, at position zero for a tile that begins at zero.
    low: isize,
    length: usize,
    /// For each tap the number of its phase, and its position.
    taps: Vec<(usize, usize)>,
}

impl PaddedDim {
    /// The padded dimension for tiles of `count` target elements.
    fn new(axis: &ConvDim, count: usize) -> PaddedDim {
        let stride = axis.stride as isize;
        let blocks = || axis.taps.iter().map(|(_, shift)| shift.div_euclid(stride));
        let (low, high) = (blocks().min().unwrap_or(0), blocks().max().unwrap_or(0));
        let mut phases = Vec::new();
        let mut taps = Vec::with_capacity(axis.taps.len());
        for (_, shift) in &axis.taps {
            let phase = shift.rem_euclid(stride) as usize;
            let number = phases.iter().position(|&known| known == phase).unwrap_or(phases.len());
            if number == phases.len() {
                phases.push(phase);
            }
            taps.push((number, (shift.div_euclid(stride) - low) as usize));
        }
        PaddedDim { source: axis.source, stride: axis.stride, phases, low, length: count + (high - low) as usize, taps }
    }

    /// The source's element at a position, for a tile that begins at `start`; `None` outside the source.
    fn element(&self, start: usize, place: usize, phase: usize) -> Option<usize> {
        let block = (start + place) as isize + self.low;
        let element = block * self.stride as isize + phase as isize;
        (element >= 0 && (element as usize) < self.source).then_some(element as usize)
    }

    /// The positions within the source, and the element at the first of them.
    fn inside(&self, start: usize, phase: usize) -> (std::ops::Range<usize>, usize) {
        let (stride, before) = (self.stride as isize, -(start as isize + self.low));
        let first = before.max(0).min(self.length as isize);
        // The number of blocks that have an element of this phase.
        let blocks = self.source.saturating_sub(phase).div_ceil(self.stride) as isize;
        let end = (blocks + before).clamp(first, self.length as isize);
        (first as usize..end as usize, ((first - before).max(0) * stride) as usize + phase)
    }
}

pub struct PaddedTile {
    dims: [PaddedDim; 3],
    /// The elements of all phases of one plane, row by row, and of a channel.
    plane: usize,
    pub channel: usize,
}

/// The first element of a tile.
#[derive(Clone, Copy)]
pub struct TileOrigin(pub [usize; 3]);

impl PaddedTile {
    /// The copy for tiles of one plane of `rows` by `cols` target elements.
    pub fn new(axes: &[ConvDim; 3], rows: usize, cols: usize) -> PaddedTile {
        let dims = [PaddedDim::new(&axes[0], 1), PaddedDim::new(&axes[1], rows), PaddedDim::new(&axes[2], cols)];
        let plane = dims.iter().map(|lane| lane.length).product();
        let channel = dims.iter().map(|lane| lane.phases.len()).product::<usize>() * plane;
        PaddedTile { dims, plane, channel }
    }

    /// The distance between rows.
    pub fn width(&self) -> usize {
        self.dims[2].length
    }

    /// The distance of each tap of each channel from the pixel.
    pub fn taps(&self, channels: usize) -> Vec<isize> {
        let [depth, height, width] = &self.dims;
        let mut found = Vec::with_capacity(channels * depth.taps.len() * height.taps.len() * width.taps.len());
        for channel in 0..channels {
            for &(z_phase, z) in &depth.taps {
                for &(y_phase, y) in &height.taps {
                    for &(x_phase, x) in &width.taps {
                        let phase = (z_phase * height.phases.len() + y_phase) * width.phases.len() + x_phase;
                        let place = (z * height.length + y) * width.length + x;
                        found.push((channel * self.channel + phase * self.plane + place) as isize);
                    }
                }
            }
        }
        found
    }

    /// Copies the tile that begins at `origin` of each channel, `area` elements apart.
    ///
    /// # Safety
    /// `image` holds the channels, and `to` has room for `channels * self.channel + SLACK`.
    pub unsafe fn fill<T: Sum>(&self, image: *const T, area: usize, channels: usize, origin: TileOrigin, to: *mut T) {
        let [depth, height, width] = &self.dims;
        let [z, y, x] = origin.0;
        let mut row = to;
        // SAFETY: rows are visited in the order of memory, and elements outside the source are not read.
        unsafe {
            for channel in 0..channels {
                let from = image.add(channel * area);
                for (&z_phase, &y_phase) in depth.phases.iter().flat_map(|z| height.phases.iter().map(move |y| (z, y)))
                {
                    for &x_phase in &width.phases {
                        let (places, first) = width.inside(x, x_phase);
                        for i in 0..depth.length {
                            let plane = depth.element(z, i, z_phase);
                            for j in 0..height.length {
                                match (plane, height.element(y, j, y_phase)) {
                                    (Some(plane), Some(line)) => {
                                        // If no position lies within the source, the address is unused, and nothing is
                                        // read.
                                        let from =
                                            from.wrapping_add((plane * height.source + line) * width.source + first);
                                        zeros(row, places.start);
                                        if width.stride == 1 {
                                            map(from, row.add(places.start), places.len(), |value| value);
                                        } else {
                                            for place in 0..places.len() {
                                                *row.add(places.start + place) = *from.add(place * width.stride);
                                            }
                                        }
                                        zeros(row.add(places.end), width.length - places.end);
                                    }
                                    _ => zeros(row, width.length),
                                }
                                row = row.add(width.length);
                            }
                        }
                    }
                }
            }
            zeros(row, SLACK);
        }
    }
}

/// # Safety
/// `to` has room for `length` elements.
#[inline(always)]
unsafe fn zeros<T: Sum>(to: *mut T, length: usize) {
    for i in 0..length {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { to.add(i).write(T::ZERO) };
    }
}

/// Writes `value` of `length` elements. Rows are short, so a few whole registers that may overlap are faster than a
/// loop.
///
/// # Safety
/// Both sides hold `length` elements and do not overlap.
#[inline(always)]
pub unsafe fn map<T: Copy>(from: *const T, to: *mut T, length: usize, value: impl Fn(T) -> T) {
    // SAFETY: guaranteed by the caller (see `# Safety`); pieces lie within the length.
    unsafe {
        match length {
            16.. => {
                for at in (0..length - 15).step_by(16) {
                    piece::<T, 16>(from.add(at), to.add(at), &value);
                }
                piece::<T, 16>(from.add(length - 16), to.add(length - 16), &value);
            }
            8.. => {
                piece::<T, 8>(from, to, &value);
                piece::<T, 8>(from.add(length - 8), to.add(length - 8), &value);
            }
            4.. => {
                piece::<T, 4>(from, to, &value);
                piece::<T, 4>(from.add(length - 4), to.add(length - 4), &value);
            }
            _ => {
                for at in 0..length {
                    piece::<T, 1>(from.add(at), to.add(at), &value);
                }
            }
        }
    }
}

/// # Safety
/// Both sides hold `N` elements.
#[inline(always)]
unsafe fn piece<T: Copy, const N: usize>(from: *const T, to: *mut T, value: &impl Fn(T) -> T) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { to.cast::<[T; N]>().write(from.cast::<[T; N]>().read().map(value)) }
}
