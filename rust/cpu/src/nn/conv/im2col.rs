//! Convolutions of small images with many channels, as in the last layers of a network, where a row of an image does
//! not fill a register. The elements that each tap sees of the pixels of several images form a matrix with a column for
//! each pixel, and the convolution is a product.

use std::ops::Range;

use rushlight_core::Result;
use rushlight_par::Address;

use super::correlate::{Correlation, Tile};
use super::dim::{ConvDim, forward_dims};
use super::operands::{Pixel, TypedConv};
use super::padded_tile::{PaddedTile, TileOrigin, map};
use super::{PAGE, even, tasks};
use crate::linalg::matmul::element::{Format, Kernels, Source, Tile as Product};
use crate::linalg::matmul::gemm::{part, part_at};
use crate::linalg::matmul::kernel::k_steps;
use crate::linalg::matmul::scratch::Scratch;

/// The most pixels of a small image; larger ones waste little work on the border.
const PIXELS: usize = 64;
/// The most columns of a matrix, and the most bytes.
const COLUMNS: usize = 1024;
const BYTES: usize = 16 << 20;
/// The cost of an element of the matrix, in multiplications.
const ELEMENT: usize = 96;
/// The fewest features, and the fewest taps over all channels, whose weight gradient amortises the matrix.
const FEATURES: usize = 64;
const TAPS: usize = 256;
/// Rows of the matrix that one task of the weight gradient makes.
const BLOCK_TAPS: usize = 256;

/// The images of one group whose pixels are the columns.
struct Images<'a, T> {
    axes: &'a [ConvDim; 3],
    /// The first channel of the group in the first image, the distance between channels, and that between images.
    source: Address<T>,
    area: usize,
    step: usize,
    count: usize,
}

impl<T: Pixel> Images<'_, T> {
    /// The rows that the taps of a channel see: `to` is called for each tap and gives the position of its row.
    ///
    /// # Safety
    /// The images have the sizes of the axes, and each row has room for all columns.
    unsafe fn rows(&self, channel: usize, mut to: impl FnMut(usize, &dyn Fn(*mut T))) {
        let [depth, height, width] = self.axes;
        let taps = |axis: &ConvDim| 0..axis.taps.len();
        let lines = taps(depth).flat_map(|z| taps(height).map(move |y| (z, y)));
        for (number, (z, y, x)) in lines.flat_map(|(z, y)| taps(width).map(move |x| (z, y, x))).enumerate() {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            to(number, &|row| unsafe { self.row(channel, [z, y, x], row) });
        }
    }

    /// The row that one tap of a channel sees, with an element for every pixel.
    ///
    /// # Safety
    /// Same as for `rows`.
    unsafe fn row(&self, channel: usize, tap: [usize; 3], to: *mut T) {
        let [depth, height, width] = self.axes;
        let [planes, lines, places] = [0, 1, 2].map(|axis| self.axes[axis].targets_in_bounds(tap[axis]));
        let seen = |axis: usize, target: usize| {
            let (_, shift) = self.axes[axis].taps[tap[axis]];
            ((target * self.axes[axis].stride) as isize + shift) as usize
        };
        let pixels = depth.count * height.count * width.count;
        // SAFETY: guaranteed by the caller (see `# Safety`); the elements seen lie within the source.
        unsafe {
            to.write_bytes(0, self.count * pixels);
            if places.is_empty() {
                return;
            }
            for image in 0..self.count {
                let from = self.source.at(image * self.step + channel * self.area).cast_const();
                for (z, y) in planes.clone().flat_map(|z| lines.clone().map(move |y| (z, y))) {
                    let line = (seen(0, z) * height.source + seen(1, y)) * width.source + seen(2, places.start);
                    let from = from.add(line);
                    let to = to.add(((image * depth.count + z) * height.count + y) * width.count + places.start);
                    if width.stride == 1 {
                        map(from, to, places.len(), |value| value);
                    } else {
                        (0..places.len()).for_each(|at| to.add(at).write(*from.add(at * width.stride)));
                    }
                }
            }
        }
    }
}

/// The distance between rows of `length` elements such that they do not map to one set of the first-level cache.
fn apart<T>(length: usize, width: usize) -> usize {
    if (length * size_of::<T>()).is_multiple_of(PAGE) { length + width } else { length }
}

impl<T: Pixel> Correlation<T> {
    /// Whether the matrix costs less than the wasted work of the other algorithm.
    pub(super) fn is_small(&self, width: usize) -> bool {
        let [planes, rows, cols] = self.axes.each_ref().map(|axis| axis.count);
        let pixels = planes * rows * cols;
        if !(1..=PIXELS).contains(&pixels) || self.batch * self.channels == 0 {
            return false;
        }
        let line = PaddedTile::new(&self.axes, rows, cols).width();
        let with_border = self.batch * planes * ((rows - 1) * line + cols).next_multiple_of(width);
        let alone = (self.batch * pixels).next_multiple_of(width);
        let whole = Tile { origin: TileOrigin([0; 3]), rows, cols };
        self.features * with_border.saturating_sub(alone) >= ELEMENT * alone && self.taps_in_bounds(&whole).is_none()
    }

    pub(super) fn run_by_columns<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        let pixels: usize = self.axes.iter().map(|axis| axis.count).product();
        let depth = self.channels * self.axes.iter().map(|axis| axis.taps.len()).product::<usize>();
        let chunk = even(self.batch, COLUMNS.min(BYTES / (depth * size_of::<T>()).max(1)) / pixels);
        for group in 0..self.groups {
            for first in (0..self.batch).step_by(chunk) {
                self.chunk(kernels, group, first..self.batch.min(first + chunk), [depth, pixels])?;
            }
        }
        Ok(())
    }

    /// The targets of one group of some images.
    fn chunk<F: Format<T = T>>(
        &self,
        kernels: &'static Kernels<F>,
        group: usize,
        images: Range<usize>,
        [depth, pixels]: [usize; 2],
    ) -> Result<()> {
        let area: usize = self.axes.iter().map(|axis| axis.source).product();
        let at = |image: usize| image * self.groups + group;
        let seen = Images {
            axes: &self.axes,
            source: Address(self.source.at(at(images.start) * self.channels * area)),
            area,
            step: self.groups * self.channels * area,
            count: images.len(),
        };
        let (columns, panel) = (images.len() * pixels, 2 * kernels.width);
        let panels = columns.div_ceil(panel);
        let matrix = Scratch::<T>::take(panels * depth * panel)?;
        let matrix = Address(matrix.ptr());
        let window = depth / self.channels;
        tasks(self.channels, window * columns * ELEMENT, |channel| {
            let row = Scratch::<T>::take(panels * panel)?;
            // SAFETY: each channel has its own rows in every panel.
            unsafe {
                row.ptr().write_bytes(0, panels * panel);
                seen.rows(channel, |tap, write| {
                    write(row.ptr());
                    for j in 0..panels {
                        let to = matrix.at((j * depth + channel * window + tap) * panel);
                        std::ptr::copy_nonoverlapping(row.ptr().add(j * panel), to, panel);
                    }
                });
            }
            Ok(())
        })?;
        let blocks = self.features.div_ceil(4 * kernels.rows());
        tasks(blocks, self.features / blocks * depth * columns, |block| {
            let features = part(self.features, blocks, block);
            let stride = apart::<T>(panels * panel, kernels.width);
            let sums = Scratch::<T>::take(features.len() * stride)?;
            let (sums, rows) = (sums.ptr(), features.len().div_ceil(kernels.rows()));
            let steps = even(depth, k_steps::<T>());
            // SAFETY: a task writes the pixels of its own features; everything else stays within the scratch memory and
            // the operands.
            unsafe {
                for ks in (0..depth.div_ceil(steps)).map(|i| part_at(depth, steps, i)) {
                    for row in (0..rows).map(|i| part(features.len(), rows, i)) {
                        let filter = group * self.features + features.start + row.start;
                        for j in 0..panels {
                            let vectors = (columns - j * panel).div_ceil(kernels.width).min(2);
                            kernels.tiles[vectors - 1][row.len() - 1](&Product {
                                k: ks.len(),
                                a: self.weights.at(filter * self.weight_stride + ks.start).cast_const().cast(),
                                a_stride: self.weight_stride as isize,
                                b: matrix.at((j * depth + ks.start) * panel).cast_const().cast(),
                                b_stride: panel as isize,
                                c: sums.add(row.start * stride + j * panel).cast(),
                                c_stride: stride as isize,
                                cols: panel,
                                add: ks.start > 0,
                            });
                        }
                    }
                }
                let [planes, rows, cols] = self.axes.each_ref().map(|axis| axis.count);
                for feature in features.clone() {
                    let bias = self.bias.map(|bias| *bias.at(group * self.features + feature));
                    let mut from = sums.add((feature - features.start) * stride);
                    for (image, z) in images.clone().flat_map(|image| (0..planes).map(move |z| (image, z))) {
                        let tile = Tile { origin: TileOrigin([z, 0, 0]), rows, cols };
                        self.emit(&tile, cols, from, at(image) * self.features + feature, bias);
                        from = from.add(rows * cols);
                    }
                }
            }
            Ok(())
        })
    }
}

impl<T: Pixel> TypedConv<T> {
    /// Whether images are so small that a product for each would mostly load and store its sums.
    pub(super) fn is_small(&self) -> bool {
        let g = &self.g;
        g.batch > 1 && g.pixels() <= PIXELS && g.features >= FEATURES && g.depth() >= TAPS && g.window() <= BLOCK_TAPS
    }

    pub(super) fn compute_weight_by_columns<F: Format<T = T>>(&self, kernels: &'static Kernels<F>) -> Result<()> {
        let (g, panel) = (&self.g, 2 * kernels.width);
        let chunk = even(g.batch, COLUMNS / g.pixels());
        let panels = g.features.div_ceil(panel);
        // Panels of features, a row for each tap of each channel.
        let sums = Scratch::<T>::take(panels * g.depth() * panel)?;
        let sums = Address(sums.ptr());
        let axes = forward_dims(g);
        for group in 0..g.groups {
            for first in (0..g.batch).step_by(chunk) {
                self.add_chunk(kernels, &axes, group, first..g.batch.min(first + chunk), sums)?;
            }
            let pieces = g.depth().div_ceil(panel);
            tasks(panels * pieces, panel * panel * ELEMENT / 16, |task| {
                let features = part_at(g.features, panel, task / pieces);
                let taps = part_at(g.depth(), panel, task % pieces);
                let turned = Scratch::<T>::take(panel * panel)?;
                let from = sums.at((task / pieces * g.depth() + taps.start) * panel);
                let from = Source { ptr: from.cast_const(), row_stride: 1, col_stride: panel as isize };
                // SAFETY: each task transposes its own sums into the weight.
                unsafe {
                    (kernels.pack_b)(&from, features.len(), taps.len(), kernels.width, turned.ptr().cast());
                    for (row, feature) in features.enumerate() {
                        let to = self.weight.at((group * g.features + feature) * g.depth() + taps.start);
                        std::ptr::copy_nonoverlapping(turned.ptr().add(row * panel), to, taps.len());
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Adds the contribution of some images to the sums of one group's weights; the first images initialise them.
    fn add_chunk<F: Format<T = T>>(
        &self,
        kernels: &'static Kernels<F>,
        axes: &[ConvDim; 3],
        group: usize,
        images: Range<usize>,
        sums: Address<T>,
    ) -> Result<()> {
        let (g, panel) = (&self.g, 2 * kernels.width);
        let (pixels, window, panels) = (g.pixels(), g.window(), g.features.div_ceil(panel));
        let columns = images.len() * pixels;
        let gradients = Scratch::<T>::take(panels * columns * panel)?;
        let gradients = Address(gradients.ptr());
        tasks(panels, columns * panel * ELEMENT / 16, |j| {
            let features = part_at(g.features, panel, j);
            for (number, image) in images.clone().enumerate() {
                let from = self.output.at(((image * g.groups + group) * g.features + features.start) * pixels);
                let from = Source { ptr: from.cast_const(), row_stride: 1, col_stride: pixels as isize };
                let to = gradients.at((j * columns + number * pixels) * panel);
                // SAFETY: each task packs its own panel.
                unsafe { (kernels.pack_b)(&from, pixels, features.len(), kernels.width, to.cast()) };
            }
            Ok(())
        })?;
        let seen = Images {
            axes,
            source: Address(self.input.at((images.start * g.groups + group) * g.channels * g.area())),
            area: g.area(),
            step: g.groups * g.channels * g.area(),
            count: images.len(),
        };
        let block = even(g.channels, BLOCK_TAPS / window);
        tasks(g.channels.div_ceil(block), block * window * g.features * columns, |task| {
            let channels = part_at(g.channels, block, task);
            let taps = channels.len() * window;
            let stride = apart::<T>(columns, kernels.width);
            let matrix = Scratch::<T>::take(taps * stride)?;
            let (matrix, rows) = (matrix.ptr(), taps.div_ceil(kernels.rows()));
            let steps = even(columns, k_steps::<T>());
            // SAFETY: a task writes the sums of its own channels; everything else stays within the scratch memory and
            // the operands.
            unsafe {
                for (number, channel) in channels.clone().enumerate() {
                    seen.rows(channel, |tap, write| write(matrix.add((number * window + tap) * stride)));
                }
                for ks in (0..columns.div_ceil(steps)).map(|i| part_at(columns, steps, i)) {
                    for j in 0..panels {
                        let vectors = (g.features - j * panel).div_ceil(kernels.width).min(2);
                        for row in (0..rows).map(|i| part(taps, rows, i)) {
                            let place = j * g.depth() + channels.start * window + row.start;
                            kernels.tiles[vectors - 1][row.len() - 1](&Product {
                                k: ks.len(),
                                a: matrix.add(row.start * stride + ks.start).cast_const().cast(),
                                a_stride: stride as isize,
                                b: gradients.at((j * columns + ks.start) * panel).cast_const().cast(),
                                b_stride: panel as isize,
                                c: sums.at(place * panel).cast(),
                                c_stride: panel as isize,
                                cols: panel,
                                add: images.start > 0 || ks.start > 0,
                            });
                        }
                    }
                }
            }
            Ok(())
        })
    }
}
