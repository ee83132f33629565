//! The working copy of a tile of an image, with its border and ordered by the phases of the stride, in which the elements
//! that one tap sees of neighbouring pixels are neighbours, and every tap lies at a constant distance.

use super::axis::Axis;
use crate::linalg::matmul::Sum;

/// Elements behind the last channel that a whole vector may reach.
pub const SLACK: usize = 64;

/// One axis of the copy: a run of `length` places for each phase in use.
struct Lane {
    source: usize,
    stride: usize,
    phases: Vec<usize>,
    /// The block of the source, `stride` elements each, that place zero stands for when the tile begins at zero.
    low: isize,
    length: usize,
    /// For each tap the number of its phase, and its place.
    taps: Vec<(usize, usize)>,
}

impl Lane {
    /// For tiles of `count` target elements.
    fn new(axis: &Axis, count: usize) -> Lane {
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
        Lane { source: axis.source, stride: axis.stride, phases, low, length: count + (high - low) as usize, taps }
    }

    /// The source's element at a place, for a tile that begins at `start`; nothing outside of the source.
    fn element(&self, start: usize, place: usize, phase: usize) -> Option<usize> {
        let block = (start + place) as isize + self.low;
        let element = block * self.stride as isize + phase as isize;
        (element >= 0 && (element as usize) < self.source).then_some(element as usize)
    }

    /// The places that lie within the source, and the element at the first of them.
    fn inside(&self, start: usize, phase: usize) -> (std::ops::Range<usize>, usize) {
        let (stride, before) = (self.stride as isize, -(start as isize + self.low));
        let first = before.max(0).min(self.length as isize);
        // Blocks whose element of this phase exists.
        let blocks = self.source.saturating_sub(phase).div_ceil(self.stride) as isize;
        let end = (blocks + before).clamp(first, self.length as isize);
        (first as usize..end as usize, ((first - before).max(0) * stride) as usize + phase)
    }
}

pub struct Sheet {
    lanes: [Lane; 3],
    /// Elements of all phases of one plane, row by row, and of a channel.
    plane: usize,
    pub channel: usize,
}

/// Where a tile begins.
#[derive(Clone, Copy)]
pub struct Origin(pub [usize; 3]);

impl Sheet {
    /// For tiles of one plane of `rows` by `cols` target elements.
    pub fn new(axes: &[Axis; 3], rows: usize, cols: usize) -> Sheet {
        let lanes = [Lane::new(&axes[0], 1), Lane::new(&axes[1], rows), Lane::new(&axes[2], cols)];
        let plane = lanes.iter().map(|lane| lane.length).product();
        let channel = lanes.iter().map(|lane| lane.phases.len()).product::<usize>() * plane;
        Sheet { lanes, plane, channel }
    }

    /// The distance of two rows.
    pub fn width(&self) -> usize {
        self.lanes[2].length
    }

    /// How far each tap of each channel lies from the pixel.
    pub fn taps(&self, channels: usize) -> Vec<isize> {
        let [depth, height, width] = &self.lanes;
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
    pub unsafe fn fill<T: Sum>(&self, image: *const T, area: usize, channels: usize, origin: Origin, to: *mut T) {
        let [depth, height, width] = &self.lanes;
        let [z, y, x] = origin.0;
        let mut row = to;
        // SAFETY: rows are visited in the order in which they lie; elements are asked whether they are within the source.
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
                                        // Where no place lies within, this is nowhere, and nothing is read.
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
        // SAFETY: the caller's promise.
        unsafe { to.add(i).write(T::ZERO) };
    }
}

/// Writes `value` of `length` elements: rows are short, so a few whole registers that may overlap beat a loop.
///
/// # Safety
/// Both sides hold `length` elements and do not overlap.
#[inline(always)]
pub unsafe fn map<T: Copy>(from: *const T, to: *mut T, length: usize, value: impl Fn(T) -> T) {
    // SAFETY: the caller's promise; pieces lie within the length.
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
    // SAFETY: the caller's promise.
    unsafe { to.cast::<[T; N]>().write(from.cast::<[T; N]>().read().map(value)) }
}
