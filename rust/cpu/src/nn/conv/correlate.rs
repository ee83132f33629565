//! The forward convolution, and the gradient of its input, which is a convolution of the output's gradient for each
//! phase of the stride.

use std::ops::Range;

use rushlight_core::Result;

use rushlight_par::Address;

use super::dim::{ConvDim, forward_dims};
use super::operands::{Pixel, TypedConv};
use super::padded_tile::{PaddedTile, SLACK, TileOrigin, map};
use super::{PAGE, depthwise, even, tasks};
use crate::linalg::matmul::element::{Format, Kernels, Taps};
use crate::linalg::matmul::gemm::{part, part_at};
use crate::linalg::matmul::kernel::k_steps;
use crate::linalg::matmul::scratch::Scratch;

/// Bytes of images and sums of a tile, such that they stay in the second-level cache.
const TILE_BYTES: usize = 512 << 10;
/// The most columns of a tile.
const TILE_COLUMNS: usize = 1024;
/// Tiles with fewer columns take another row, so that vectors are full.
const FEW_COLUMNS: usize = 64;
/// The number of tasks that keeps many threads busy; with fewer, features are divided too.
const ENOUGH: usize = 16;

/// Every target channel is the sum of all source channels of its group, each seen through taps.
pub(super) struct Correlation<T> {
    pub batch: usize,
    pub groups: usize,
    pub axes: [ConvDim; 3],
    /// The source's channels of a group, and the target's.
    pub channels: usize,
    pub features: usize,
    pub source: Address<T>,
    target: Address<T>,
    target_sizes: [usize; 3],
    /// One row of `channels * taps` for each feature of each group.
    pub weights: Address<T>,
    pub weight_stride: usize,
    /// One value for each feature of each group.
    pub bias: Option<Address<T>>,
}

impl<T: Pixel> TypedConv<T> {
    pub(super) fn compute_output<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        let g = &self.g;
        let (rows, depth) = (g.groups * g.features, g.depth());
        let spaced = (depth * size_of::<T>()).is_multiple_of(PAGE);
        let stride = if spaced { depth + 16 } else { depth };
        let scratch = Scratch::<T>::take(if spaced { rows * stride } else { 0 })?;
        if spaced {
            for row in 0..rows {
                // SAFETY: both sides hold the row.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.weight.at(row * depth), scratch.ptr().add(row * stride), depth)
                };
            }
        }
        Correlation {
            batch: g.batch,
            groups: g.groups,
            axes: forward_dims(g),
            channels: g.channels,
            features: g.features,
            source: self.input,
            target: self.output,
            target_sizes: g.output(),
            weights: if spaced { Address(scratch.ptr()) } else { self.weight },
            weight_stride: stride,
            bias: self.bias,
        }
        .run(kernels)
    }

    pub(super) fn compute_input<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        let g = &self.g;
        let [depth, height, width] = g.space.map(ConvDim::seen);
        let phases: usize = g.space.iter().map(|dim| dim.stride.min(dim.input)).product();
        if depth.len() * height.len() * width.len() < phases {
            let elements = g.batch * g.groups * g.channels * g.area();
            // SAFETY: the pieces cover the target and are disjoint.
            let zero = |at: usize| unsafe { self.input.at(at).write(T::ZERO) };
            rushlight_par::parallel_for(elements, TILE_BYTES, |piece| piece.for_each(zero));
        }
        let lines = || depth.iter().flat_map(|&z| height.iter().map(move |&y| (z, y)));
        for (z, y, x) in lines().flat_map(|(z, y)| width.iter().map(move |&x| (z, y, x))) {
            let firsts = [z, y, x];
            let axes = [0, 1, 2].map(|axis| ConvDim::backward(g.space[axis], firsts[axis]));
            let places = taps_of(&axes, g.kernel());
            let stride = g.features * places.len() + 16;
            let scratch = Scratch::<T>::take(g.groups * g.channels * stride)?;
            let turned = Address(scratch.ptr());
            tasks(g.groups * g.channels, stride, |row| {
                let (group, channel) = (row / g.channels, row % g.channels);
                for feature in 0..g.features {
                    let filter = (group * g.features + feature) * g.depth() + channel * g.window();
                    for (at, place) in places.iter().enumerate() {
                        // SAFETY: positions lie within the filter; each row belongs to one task.
                        unsafe {
                            *turned.at(row * stride + feature * places.len() + at) = *self.weight.at(filter + place)
                        };
                    }
                }
                Ok(())
            })?;
            Correlation {
                batch: g.batch,
                groups: g.groups,
                axes,
                channels: g.features,
                features: g.channels,
                source: self.output,
                target: self.input,
                target_sizes: g.input(),
                weights: turned,
                weight_stride: stride,
                bias: None,
            }
            .run(kernels)?;
        }
        Ok(())
    }
}

/// The positions in the kernel of all taps.
fn taps_of(axes: &[ConvDim; 3], kernel: [usize; 3]) -> Vec<usize> {
    let [depth, height, width] = axes.each_ref().map(|axis| axis.taps.iter().map(|(tap, _)| *tap));
    depth
        .flat_map(|z| height.clone().map(move |y| z * kernel[1] + y))
        .flat_map(|row| width.clone().map(move |x| row * kernel[2] + x))
        .collect()
}

/// The pixels of one task's tile: the first one, and how many rows and columns.
pub(super) struct Tile {
    pub origin: TileOrigin,
    pub rows: usize,
    pub cols: usize,
}

impl<T: Pixel> Correlation<T> {
    fn run<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        if self.is_small(kernels.width) {
            return self.run_by_columns(kernels);
        }
        let [planes, rows, cols] = self.axes.each_ref().map(|axis| axis.count);
        let tile_cols = even(cols, TILE_COLUMNS);
        let line = PaddedTile::new(&self.axes, 1, tile_cols);
        let bytes = (self.channels * line.channel + self.features * line.width()) * size_of::<T>();
        let tile_rows = even(rows, (TILE_BYTES / bytes.max(1)).max(FEW_COLUMNS / tile_cols));
        let padded = PaddedTile::new(&self.axes, tile_rows, tile_cols);
        let steps = padded.taps(self.channels);
        let (down, across) = (rows.div_ceil(tile_rows), cols.div_ceil(tile_cols));
        let count = self.batch * self.groups * planes * down * across;
        let blocks = (ENOUGH / count.max(1)).clamp(1, self.features.div_ceil(4 * kernels.rows()).max(1));
        let work = self.features / blocks * steps.len() * tile_rows * tile_cols;
        tasks(count * blocks, work, |task| {
            let (image, block) = (task / blocks, task % blocks);
            let (image, x) = (image / across, image % across * tile_cols);
            let (image, y) = (image / down, image % down * tile_rows);
            let tile = Tile {
                origin: TileOrigin([image % planes, y, x]),
                rows: tile_rows.min(rows - y),
                cols: tile_cols.min(cols - x),
            };
            let features = part(self.features, blocks, block);
            // SAFETY: operands have the sizes of the axes; a task writes its own pixels of its own features.
            unsafe { self.tile(kernels, &padded, &steps, image / planes, tile, features) }
        })
    }

    /// Computes some features of one tile of image and group `at`.
    ///
    /// # Safety
    /// The tile lies within the target, and nothing else accesses it.
    unsafe fn tile<F: Format<T = T>>(
        &self,
        kernels: &'static Kernels<F>,
        padded: &PaddedTile,
        steps: &[isize],
        at: usize,
        tile: Tile,
        features: Range<usize>,
    ) -> Result<()> {
        let panel = 2 * kernels.width;
        let area: usize = self.axes.iter().map(|axis| axis.source).product();
        let wide = (tile.rows - 1) * padded.width() + tile.cols;
        let panels = wide.div_ceil(panel);
        let capacity = (panels * panel).next_multiple_of(depthwise::NARROW);
        let stride = capacity + if (capacity * size_of::<T>()).is_multiple_of(PAGE) { kernels.width } else { 0 };
        let copied = self.channels * padded.channel + SLACK;
        let scratch = Scratch::<T>::take(copied + features.len() * stride)?;
        let (copy, sums) = (scratch.ptr(), scratch.ptr().wrapping_add(copied));
        let blocks = steps.len().div_ceil(k_steps::<T>()).max(1);
        let block = even(steps.len(), k_steps::<T>());
        let rows = features.len().div_ceil(kernels.rows());
        let group = at % self.groups;
        // SAFETY: pointers stay within the operands and the scratch memory; the slack covers a vector behind the last
        // channel.
        unsafe {
            padded.fill(self.source.at(at * self.channels * area), area, self.channels, tile.origin, copy);
            let add_up = |ks: Range<usize>, add: bool| {
                for row in (0..rows).map(|i| part(features.len(), rows, i)) {
                    let filter = group * self.features + features.start + row.start;
                    let a = self.weights.at(filter * self.weight_stride + ks.start).cast_const();
                    for j in 0..panels {
                        let vectors = (wide - j * panel).div_ceil(kernels.width).min(2);
                        kernels.taps[vectors - 1][row.len() - 1](&Taps {
                            k: ks.len(),
                            a: a.cast::<F::Elem>(),
                            a_stride: self.weight_stride as isize,
                            b: copy.add(j * panel).cast_const().cast::<F::Elem>(),
                            steps: steps.as_ptr().wrapping_add(ks.start),
                            c: sums.add(row.start * stride + j * panel).cast::<F::Acc>(),
                            c_stride: stride as isize,
                            add,
                        });
                    }
                }
            };
            if let Some(taps) = self.taps_in_bounds(&tile) {
                sums.write_bytes(0, features.len() * stride);
                for run in self.runs(&taps) {
                    let blocks = run.len().div_ceil(k_steps::<T>());
                    let block = even(run.len(), k_steps::<T>());
                    for ks in (0..blocks).map(|i| part_at(run.len(), block, i)) {
                        add_up(run.start + ks.start..run.start + ks.end, true);
                    }
                }
            } else if self.channels == 1 && self.features == 1 {
                depthwise::correlate(sums, copy, steps, self.weights.at(group * self.weight_stride), capacity);
            } else {
                for ks in (0..blocks).map(|i| part_at(steps.len(), block, i)) {
                    let add = ks.start > 0;
                    add_up(ks, add);
                }
            }
            let image = at * self.features;
            for feature in features.clone() {
                let bias = self.bias.map(|bias| *bias.at(group * self.features + feature));
                let sums = sums.add((feature - features.start) * stride);
                self.emit(&tile, padded.width(), sums, image + feature, bias);
            }
        }
        Ok(())
    }

    /// The taps of each axis through which the tile sees the source, if most taps see only the border, as in a window
    /// much wider than the image.
    pub(super) fn taps_in_bounds(&self, tile: &Tile) -> Option<[Range<usize>; 3]> {
        let sizes = [1, tile.rows, tile.cols];
        let taps = [0, 1, 2].map(|axis| self.axes[axis].taps_in_bounds(tile.origin.0[axis], sizes[axis]));
        let all: usize = self.axes.iter().map(|axis| axis.taps.len()).product();
        (taps.iter().map(Range::len).product::<usize>() < all / 4).then_some(taps)
    }

    /// The positions of such taps among all taps of all channels.
    fn runs(&self, [depth, height, width]: &[Range<usize>; 3]) -> impl Iterator<Item = Range<usize>> {
        let [planes, lines, places] = self.axes.each_ref().map(|axis| axis.taps.len());
        let (height, width) = (height.clone(), width.clone());
        let planes = (0..self.channels).flat_map({
            let depth = depth.clone();
            move |channel| depth.clone().map(move |z| channel * planes + z)
        });
        planes
            .flat_map(move |plane| height.clone().map(move |y| plane * lines + y))
            .map(move |line| line * places + width.start..line * places + width.end)
    }

    /// Writes the sums of one feature to the target's channel.
    ///
    /// # Safety
    /// Same as for `tile`; rows of `sums` are `width` apart.
    pub(super) unsafe fn emit(&self, tile: &Tile, width: usize, sums: *const T, channel: usize, bias: Option<T>) {
        let [depth, height, length] = self.target_sizes;
        let TileOrigin([z, y, x]) = tile.origin;
        let [z_axis, y_axis, x_axis] = &self.axes;
        let plane = channel * depth + z_axis.first + z * z_axis.step;
        for row in 0..tile.rows {
            let line = plane * height + y_axis.first + (y + row) * y_axis.step;
            let to = self.target.at(line * length + x_axis.first + x * x_axis.step);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                let from = sums.add(row * width);
                match bias {
                    _ if x_axis.step != 1 => {
                        let bias = bias.unwrap_or(T::ZERO);
                        for i in 0..tile.cols {
                            to.add(i * x_axis.step).write((*from.add(i)).plus(bias));
                        }
                    }
                    Some(bias) => map(from, to, tile.cols, |sum| sum.plus(bias)),
                    None => map(from, to, tile.cols, |sum| sum),
                }
            }
        }
    }
}
