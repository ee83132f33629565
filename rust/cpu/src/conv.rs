//! Convolution: the image's windows become columns of a matrix, tile by tile, and the product does the rest.
//!
//! Three operations close under differentiation: `forward`, and the gradients of `input` and of `weight`. Each works on
//! row-major images of three dimensions of space (missing ones have size one). A tile of columns stays in the second-level
//! cache; work is cut by images, groups, channels and tiles, at places that depend on the sizes alone.

use std::ops::Range;

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, dispatch};

use crate::matmul::scratch::Scratch;
use crate::matmul::{GemmElement, Matrices, Product, Sum, gemm};

/// Sizes of a convolution; channels and features are those of one group.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub batch: usize,
    pub groups: usize,
    pub channels: usize,
    pub features: usize,
    pub input: [usize; 3],
    pub output: [usize; 3],
    pub kernel: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

/// How many bytes of columns are made at once.
const TILE_BYTES: usize = 256 << 10;
/// Multiplications worth a task of their own.
const TASK: usize = 1 << 17;
/// Weights up to this many elements are summed over several parts of the batch at once.
const SMALL_WEIGHT: usize = 1 << 16;
/// The parts of the batch that sum on their own.
const PARTS: usize = 8;

impl Geometry {
    /// Elements of one channel of the input.
    fn area(&self) -> usize {
        self.input.iter().product()
    }

    /// Elements of one channel of the output.
    fn pixels(&self) -> usize {
        self.output.iter().product()
    }

    fn window(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Elements of one filter.
    fn depth(&self) -> usize {
        self.channels * self.window()
    }

    /// Whether every output pixel sees the one input pixel at its place.
    fn is_pointwise(&self) -> bool {
        self.window() == 1 && self.stride == [1; 3] && self.padding == [0; 3]
    }

    /// Pixels in a tile whose columns have `rows` elements of `width` bytes.
    fn tile(&self, rows: usize, width: usize) -> usize {
        let fitting = TILE_BYTES / (rows * width).max(1);
        (fitting / 32 * 32).clamp(64, 2048).min(self.pixels().max(1))
    }

    /// Channels whose columns over a tile of 512 pixels fill the cache.
    fn channel_block(&self, width: usize) -> usize {
        (TILE_BYTES / (512 * self.window() * width)).clamp(1, self.channels.max(1))
    }

    /// Walks one row of columns: the pixels of `range` as the element `k` of the window sees them. `visit` gets the first
    /// pixel's place within the range, how many follow, and where in the channel the first one's element lies; or nothing
    /// where it lies outside of the image. Elements of one visit are `stride[2]` apart.
    #[inline(always)]
    fn row(&self, k: usize, range: Range<usize>, mut visit: impl FnMut(usize, usize, Option<usize>)) {
        let [_, kernel_height, kernel_width] = self.kernel;
        let at = [k / (kernel_height * kernel_width), k / kernel_width % kernel_height, k % kernel_width];
        let [depth, height, width] = self.input;
        let [_, rows, cols] = self.output;
        let step = self.stride[2];
        let place = |axis: usize, pixel: usize| {
            (pixel * self.stride[axis] + at[axis] * self.dilation[axis]).wrapping_sub(self.padding[axis])
        };
        let mut pixel = range.start;
        while pixel < range.end {
            let (col, row, plane) = (pixel % cols, pixel / cols % rows, pixel / (cols * rows));
            let length = (cols - col).min(range.end - pixel);
            let done = pixel - range.start;
            let (z, y) = (place(0, plane), place(1, row));
            pixel += length;
            if z >= depth || y >= height {
                visit(done, length, None);
                continue;
            }
            // The columns whose element lies within the image.
            let first = (col * step + at[2] * self.dilation[2]) as isize - self.padding[2] as isize;
            let before = if first < 0 { (-first as usize).div_ceil(step).min(length) } else { 0 };
            let left = width as isize - first;
            let until = if left <= 0 { before } else { (left as usize).div_ceil(step).clamp(before, length) };
            if before > 0 {
                visit(done, before, None);
            }
            if until > before {
                let x = (first + (before * step) as isize) as usize;
                visit(done + before, until - before, Some((z * height + y) * width + x));
            }
            if length > until {
                visit(done + until, length - until, None);
            }
        }
    }

    /// Columns of `channels` over the pixels of `range`: `(channels * window, range)`, row-major.
    ///
    /// # Safety
    /// `image` holds these channels, `columns` has room.
    unsafe fn unfold<T: Copy>(&self, image: *const T, channels: usize, range: Range<usize>, columns: *mut T, zero: T) {
        let (window, area, step) = (self.window(), self.area(), self.stride[2]);
        for r in 0..channels * window {
            // SAFETY: `row` names places within the channel and the range only.
            unsafe {
                let channel = image.add(r / window * area);
                let to = columns.add(r * range.len());
                self.row(r % window, range.clone(), |at, length, from| match from {
                    None => (0..length).for_each(|i| to.add(at + i).write(zero)),
                    Some(from) if step == 1 => std::ptr::copy_nonoverlapping(channel.add(from), to.add(at), length),
                    Some(from) => (0..length).for_each(|i| to.add(at + i).write(*channel.add(from + i * step))),
                });
            }
        }
    }

    /// Adds columns back to the elements that they came from.
    ///
    /// # Safety
    /// As for `unfold`.
    unsafe fn fold<T: Sum>(&self, image: *mut T, channels: usize, range: Range<usize>, columns: *const T) {
        let (window, area, step) = (self.window(), self.area(), self.stride[2]);
        for r in 0..channels * window {
            // SAFETY: see `unfold`.
            unsafe {
                let channel = image.add(r / window * area);
                let from = columns.add(r * range.len());
                self.row(r % window, range.clone(), |at, length, to| {
                    let Some(to) = to else { return };
                    if step == 1 {
                        for i in 0..length {
                            let place = channel.add(to + i);
                            *place = (*place).plus(*from.add(at + i));
                        }
                    } else {
                        for i in 0..length {
                            let place = channel.add(to + i * step);
                            *place = (*place).plus(*from.add(at + i));
                        }
                    }
                });
            }
        }
    }
}

/// Addresses that tasks share; each task writes to places of its own.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: see above.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: see above.
unsafe impl<T> Send for Shared<T> {}
impl<T> Shared<T> {
    fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

/// Runs tasks of about `work` multiplications each, several at once where they are small.
fn tasks(count: usize, work: usize, task: impl Fn(usize) + Sync) {
    rushlight_par::parallel_for(count, TASK.div_ceil(work.max(1)), |range| range.for_each(&task));
}

/// One matrix of rows `stride` apart.
fn matrix<P>(ptr: P, stride: usize) -> Matrices<P> {
    Matrices { ptr, batch_stride: 0, row_stride: stride as isize, col_stride: 1 }
}

fn turned<P>(ptr: P, stride: usize) -> Matrices<P> {
    Matrices { ptr, batch_stride: 0, row_stride: 1, col_stride: stride as isize }
}

/// The kinds of elements that images have; half precision is computed in float32 by the caller.
trait Pixel: GemmElement<Sum = Self> + Sum {}
impl<T: GemmElement<Sum = T> + Sum> Pixel for T {}

/// The addresses of `(batch, groups * channels, input)`, `(groups * features, channels, kernel)` and
/// `(batch, groups * features, output)`.
#[derive(Clone, Copy)]
pub struct Operands {
    pub input: *mut u8,
    pub weight: *mut u8,
    pub output: *mut u8,
    /// One value for each feature.
    pub bias: Option<*const u8>,
}

/// Which of the three is computed from the other two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    Output,
    Input,
    Weight,
}

/// Whether there is a convolution of a dtype.
pub fn convolves(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128 | DType::I64 | DType::I32)
}

/// Computes one operand of a convolution from the other two.
///
/// # Safety
/// The operands are row-major, of the sizes that `geometry` says, and do not overlap.
pub unsafe fn convolve(dtype: DType, target: Target, geometry: &Geometry, operands: Operands) {
    dispatch!(dtype, T in [f32, f64, c64, c128, i64, i32] => {
        let Operands { input, weight, output, bias } = operands;
        let call = Call::<T> {
            g: *geometry,
            input: Shared(input.cast()),
            weight: Shared(weight.cast()),
            output: Shared(output.cast()),
            bias: bias.map(|bias| Shared(bias.cast_mut().cast())),
        };
        // SAFETY: the caller's promise.
        unsafe {
            match target {
                Target::Output => call.forward(),
                Target::Input => call.input(),
                Target::Weight => call.weight(),
            }
        }
    }, else => ())
}

struct Call<T> {
    g: Geometry,
    input: Shared<T>,
    weight: Shared<T>,
    output: Shared<T>,
    bias: Option<Shared<T>>,
}

impl<T: Pixel> Call<T> {
    /// The address of image `n`'s channels of group `group` in the input, and of its features in the output.
    fn image(&self, n: usize, group: usize) -> (*mut T, *mut T) {
        let g = &self.g;
        let part = n * g.groups + group;
        (self.input.at(part * g.channels * g.area()), self.output.at(part * g.features * g.pixels()))
    }

    unsafe fn forward(&self) {
        let g = &self.g;
        let (depth, pixels) = (g.depth(), g.pixels());
        let tile = if g.is_pointwise() { pixels.min(2048) } else { g.tile(depth, size_of::<T>()) };
        let tiles = pixels.div_ceil(tile.max(1));
        tasks(g.batch * g.groups * tiles, g.features * depth * tile, |task| {
            let (part, first) = (task / tiles, task % tiles * tile);
            let (group, range) = (part % g.groups, first..pixels.min(first + tile));
            let (image, features) = self.image(part / g.groups, group);
            let scratch;
            // SAFETY: the caller's promise; a task writes its own pixels.
            unsafe {
                let b = if g.is_pointwise() {
                    matrix(image.add(first).cast_const(), pixels)
                } else {
                    scratch = Scratch::<T>::take(depth * range.len());
                    g.unfold(image, g.channels, range.clone(), scratch.ptr(), T::ZERO);
                    matrix(scratch.ptr().cast_const(), range.len())
                };
                let bias = self.bias.map(|bias| Matrices {
                    ptr: bias.at(group * g.features).cast_const(),
                    batch_stride: 0,
                    row_stride: 1,
                    col_stride: 0,
                });
                gemm(&Product {
                    batch: 1,
                    m: g.features,
                    n: range.len(),
                    k: depth,
                    alpha: T::ONE,
                    a: matrix(self.weight.at(group * g.features * depth).cast_const(), depth),
                    b,
                    addend: bias.map(|bias| (T::ONE, bias)),
                    c: matrix(features.add(first), pixels),
                });
            }
        });
    }

    unsafe fn input(&self) {
        let g = &self.g;
        let (depth, pixels, window, area) = (g.depth(), g.pixels(), g.window(), g.area());
        let block = g.channel_block(size_of::<T>());
        let blocks = g.channels.div_ceil(block);
        let tile = g.tile(block * window, size_of::<T>());
        tasks(g.batch * g.groups * blocks, g.features * block * window * pixels, |task| {
            let (part, first) = (task / blocks, task % blocks * block);
            let (group, channels) = (part % g.groups, block.min(g.channels - first));
            let (image, features) = self.image(part / g.groups, group);
            let rows = channels * window;
            let scratch = Scratch::<T>::take(rows * tile);
            // SAFETY: the caller's promise; a task writes its own channels.
            unsafe {
                let image = image.add(first * area);
                (0..channels * area).for_each(|i| image.add(i).write(T::ZERO));
                for start in (0..pixels).step_by(tile) {
                    let range = start..pixels.min(start + tile);
                    gemm(&Product {
                        batch: 1,
                        m: rows,
                        n: range.len(),
                        k: g.features,
                        alpha: T::ONE,
                        a: turned(self.weight.at(group * g.features * depth + first * window).cast_const(), depth),
                        b: matrix(features.add(start).cast_const(), pixels),
                        addend: None,
                        c: matrix(scratch.ptr(), range.len()),
                    });
                    g.fold(image, channels, range, scratch.ptr());
                }
            }
        });
    }

    unsafe fn weight(&self) {
        let g = &self.g;
        let size = g.groups * g.features * g.depth();
        let parts = if size <= SMALL_WEIGHT { PARTS.min(g.batch).max(1) } else { 1 };
        let sums = Scratch::<T>::take(if parts > 1 { parts * size } else { 0 });
        let to = if parts > 1 { Shared(sums.ptr()) } else { self.weight };
        let block = g.channel_block(size_of::<T>());
        let blocks = g.channels.div_ceil(block);
        let images = g.batch.div_ceil(parts);
        let work = images * g.features * block * g.window() * g.pixels();
        tasks(parts * g.groups * blocks, work, |task| {
            let (part, group) = (task / (g.groups * blocks), task / blocks % g.groups);
            let images = (part * images).min(g.batch)..((part + 1) * images).min(g.batch);
            // SAFETY: the caller's promise; a task writes its own part's channels.
            unsafe { self.weight_block(to.at(part * size), group, task % blocks * block, block, images) }
        });
        if parts > 1 {
            tasks(size.div_ceil(4096), 4096 * parts, |piece| {
                for i in piece * 4096..size.min((piece + 1) * 4096) {
                    // SAFETY: every part wrote all its elements; pieces are disjoint.
                    unsafe {
                        let mut sum = *to.at(i);
                        for part in 1..parts {
                            sum = sum.plus(*to.at(part * size + i));
                        }
                        self.weight.at(i).write(sum);
                    }
                }
            });
        }
    }

    /// The gradient of some channels' weights of one group, summed over `images`.
    unsafe fn weight_block(&self, to: *mut T, group: usize, first: usize, block: usize, images: Range<usize>) {
        let g = &self.g;
        let (depth, pixels, window, area) = (g.depth(), g.pixels(), g.window(), g.area());
        let channels = block.min(g.channels - first);
        let rows = channels * window;
        let tile = g.tile(rows, size_of::<T>());
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.add(group * g.features * depth + first * window);
            let mut beta = None;
            let scratch = Scratch::<T>::take(rows * tile);
            for n in images {
                let (image, features) = self.image(n, group);
                for start in (0..pixels).step_by(tile) {
                    let range = start..pixels.min(start + tile);
                    let columns = if g.is_pointwise() {
                        turned(image.add(first * area + start).cast_const(), area)
                    } else {
                        g.unfold(image.add(first * area), channels, range.clone(), scratch.ptr(), T::ZERO);
                        turned(scratch.ptr().cast_const(), range.len())
                    };
                    gemm(&Product {
                        batch: 1,
                        m: g.features,
                        n: rows,
                        k: range.len(),
                        alpha: T::ONE,
                        a: matrix(features.add(start).cast_const(), pixels),
                        b: columns,
                        addend: beta.map(|beta| (beta, matrix(to.cast_const(), depth))),
                        c: matrix(to, depth),
                    });
                    beta = Some(T::ONE);
                }
            }
            if beta.is_none() {
                for feature in 0..g.features {
                    (0..rows).for_each(|i| to.add(feature * depth + i).write(T::ZERO));
                }
            }
        }
    }
}
