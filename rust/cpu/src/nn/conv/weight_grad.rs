//! The gradient of a convolution's weight: for each tap, the product of the elements it sees with the output's
//! gradient, summed over all pixels of all images.

use std::ops::Range;

use rushlight_core::Result;

use rushlight_par::Address;

use super::depthwise::{Rows, gather};
use super::dim::{ConvDim, forward_dims};
use super::operands::{Pixel, TypedConv};
use super::padded_tile::{PaddedTile, SLACK, TileOrigin};
use super::{even, tasks};
use crate::linalg::matmul::element::{Format, Kernels, Runs, Source};
use crate::linalg::matmul::gemm::{part, part_at};
use crate::linalg::matmul::scratch::Scratch;

/// Pixels of a tile, such that their packed gradients stay in the first-level cache.
const TILE_PIXELS: usize = 256;
/// Bytes of the channels that are copied at once.
const BLOCK_BYTES: usize = 256 << 10;
/// Taps of the channels of one task.
const BLOCK_TAPS: usize = 1024;
/// Weights up to this many elements are summed over several parts of the batch in parallel.
const SMALL_WEIGHT: usize = 1 << 16;
/// The number of parts of the batch that are summed separately.
const PARTS: usize = 8;

/// State shared by the tasks.
struct WeightTiling {
    axes: [ConvDim; 3],
    padded: PaddedTile,
    /// The positions of the taps of a block's channels.
    taps: Vec<isize>,
    rows: usize,
    cols: usize,
}

impl<T: Pixel> TypedConv<T> {
    pub(super) fn compute_weight<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        if self.is_small() {
            return self.compute_weight_by_columns(kernels);
        }
        let g = &self.g;
        let size = g.groups * g.features * g.depth();
        let parts = if size <= SMALL_WEIGHT { PARTS.min(g.batch).max(1) } else { 1 };
        let sums = Scratch::<T>::take(if parts > 1 { parts * size } else { 0 })?;
        let to = if parts > 1 { Address(sums.ptr()) } else { self.weight };
        let axes = forward_dims(g);
        let cols = even(axes[2].count, 2 * TILE_PIXELS);
        let rows = even(axes[1].count, TILE_PIXELS / cols);
        let padded = PaddedTile::new(&axes, rows, cols);
        let fitting = BLOCK_BYTES / (padded.channel * size_of::<T>()).max(1);
        let block = even(g.channels, fitting.min(BLOCK_TAPS.div_ceil(g.window().max(1))));
        let tiling = WeightTiling { taps: padded.taps(block), axes, padded, rows, cols };
        let blocks = g.channels.div_ceil(block);
        let images = g.batch.div_ceil(parts);
        let work = images * g.features * block * g.window() * g.pixels();
        tasks(parts * g.groups * blocks, work, |task| {
            let (piece, group) = (task / (g.groups * blocks), task / blocks % g.groups);
            // SAFETY: a task writes its own part's channels.
            unsafe {
                let to = to.at(piece * size + group * g.features * g.depth());
                self.block(
                    kernels,
                    &tiling,
                    group,
                    part_at(g.channels, block, task % blocks),
                    part(g.batch, parts, piece),
                    to,
                )
            }
        })?;
        if parts > 1 {
            tasks(size.div_ceil(4096), 4096 * parts, |piece| {
                for i in part_at(size, 4096, piece) {
                    // SAFETY: every part has written all its elements; pieces are disjoint.
                    unsafe {
                        let mut sum = *to.at(i);
                        for part in 1..parts {
                            sum = sum.plus(*to.at(part * size + i));
                        }
                        self.weight.at(i).write(sum);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The gradient of some channels' weights of one group, summed over `images`.
    ///
    /// # Safety
    /// No other code accesses these channels of the group's weights at `to`.
    unsafe fn block<F: Format<T = T>>(
        &self,
        kernels: &'static Kernels<F>,
        tiling: &WeightTiling,
        group: usize,
        channels: Range<usize>,
        images: Range<usize>,
        to: *mut T,
    ) -> Result<()> {
        let g = &self.g;
        if g.channels == 1 && g.features == 1 {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            return unsafe { self.alone(tiling, group, images, to) };
        }
        let (panel, pixels, area) = (2 * kernels.width, g.pixels(), g.area());
        let [_, height, width] = g.output();
        let taps = channels.len() * g.window();
        let panels = g.features.div_ceil(panel);
        let stride = panels * panel;
        let copied = channels.len() * tiling.padded.channel + SLACK;
        let packed = tiling.rows * tiling.cols * panel;
        let scratch = Scratch::<T>::take(copied + packed + taps * stride)?;
        let (copy, gradients) = (scratch.ptr(), scratch.ptr().wrapping_add(copied));
        let sums = gradients.wrapping_add(packed);
        let rows = taps.div_ceil(kernels.rows());
        let mut add = false;
        // SAFETY: pointers stay in the operands and in the scratch.
        unsafe {
            for image in images {
                let at = image * g.groups + group;
                let source = self.input.at((at * g.channels + channels.start) * area);
                for tile in tiling.tiles() {
                    tiling.padded.fill(source, area, channels.len(), tile.origin, copy);
                    let TileOrigin([z, y, x]) = tile.origin;
                    let first = (z * height + y) * width + x;
                    for j in 0..panels {
                        let features = part_at(g.features, panel, j);
                        let from = self.output.at((at * g.features + features.start) * pixels + first);
                        let from = Source { ptr: from.cast_const(), row_stride: 1, col_stride: pixels as isize };
                        let count = tile.rows * tile.cols;
                        (kernels.pack_b)(&from, count, features.len(), kernels.width, gradients.cast::<F::Elem>());
                        let vectors = features.len().div_ceil(kernels.width);
                        for row in (0..rows).map(|i| part(taps, rows, i)) {
                            kernels.runs[vectors - 1][row.len() - 1](&Runs {
                                runs: tile.rows,
                                run: tile.cols,
                                jump: tiling.padded.width() - tile.cols,
                                a: copy.cast_const().cast::<F::Elem>(),
                                rows: tiling.taps.as_ptr().add(row.start),
                                b: gradients.cast_const().cast::<F::Elem>(),
                                c: sums.add(row.start * stride + j * panel).cast::<F::Acc>(),
                                c_stride: stride as isize,
                                add,
                            });
                        }
                    }
                    add = true;
                }
            }
            for feature in 0..g.features {
                let to = to.add(feature * g.depth() + channels.start * g.window());
                for tap in 0..taps {
                    to.add(tap).write(if add { *sums.add(tap * stride + feature) } else { T::ZERO });
                }
            }
        }
        Ok(())
    }
}

impl<T: Pixel> TypedConv<T> {
    /// `block` for a group of one channel and one feature.
    ///
    /// # Safety
    /// Same as for `block`.
    unsafe fn alone(&self, tiling: &WeightTiling, group: usize, images: Range<usize>, to: *mut T) -> Result<()> {
        let g = &self.g;
        let [_, height, width] = g.output();
        let copied = tiling.padded.channel + SLACK;
        let scratch = Scratch::<T>::take(copied + g.window().min(BLOCK_TAPS) * tiling.cols)?;
        let (copy, sums) = (scratch.ptr(), scratch.ptr().wrapping_add(copied));
        for (number, taps) in tiling.taps.chunks(BLOCK_TAPS).enumerate() {
            // SAFETY: pointers stay in the operands and in the scratch.
            unsafe {
                (0..taps.len() * tiling.cols).for_each(|at| sums.add(at).write(T::ZERO));
                for image in images.clone() {
                    let at = image * g.groups + group;
                    let source = self.input.at(at * g.area());
                    for tile in tiling.tiles() {
                        tiling.padded.fill(source, g.area(), 1, tile.origin, copy);
                        let TileOrigin([z, y, x]) = tile.origin;
                        let gradient = self.output.at(at * g.pixels() + (z * height + y) * width + x);
                        let rows = Rows {
                            rows: tile.rows,
                            cols: tile.cols,
                            sums_jump: tiling.cols,
                            gradient_jump: width,
                            seen_jump: tiling.padded.width(),
                        };
                        gather(sums, gradient, copy, taps, rows);
                    }
                }
                for tap in 0..taps.len() {
                    let row = sums.add(tap * tiling.cols);
                    let sum = (0..tiling.cols).fold(T::ZERO, |sum, at| sum.plus(*row.add(at)));
                    to.add(number * BLOCK_TAPS + tap).write(sum);
                }
            }
        }
        Ok(())
    }
}

struct Tile {
    origin: TileOrigin,
    rows: usize,
    cols: usize,
}

impl WeightTiling {
    /// The tiles of one image. A tile of several rows takes whole rows, so its pixels are contiguous in memory.
    fn tiles(&self) -> impl Iterator<Item = Tile> {
        let [planes, rows, cols] = self.axes.each_ref().map(|axis| axis.count);
        let starts = |count: usize, size: usize| (0..count).step_by(size);
        (0..planes).flat_map(move |z| {
            starts(rows, self.rows).flat_map(move |y| {
                starts(cols, self.cols).map(move |x| Tile {
                    origin: TileOrigin([z, y, x]),
                    rows: self.rows.min(rows - y),
                    cols: self.cols.min(cols - x),
                })
            })
        })
    }
}
