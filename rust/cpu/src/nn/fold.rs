//! Blocks of images as columns, and columns summed back into images. An image's plane is one task's.

use rushlight_par::Address;
use std::ops::AddAssign;

use rushlight_core::dtype::{c64, c128};
use rushlight_core::{DType, dispatch};

/// Elements worth a task of their own.
const TASK: usize = 1 << 15;

/// How blocks lie along one axis of an image.
#[derive(Clone, Copy)]
pub struct Axis {
    pub size: usize,
    pub blocks: usize,
    pub kernel: usize,
    pub dilation: usize,
    pub padding: usize,
    pub stride: usize,
}

impl Axis {
    /// What a tap of a block sees, unless that is padding.
    fn seen(&self, block: usize, tap: usize) -> Option<usize> {
        let place = (block * self.stride + tap * self.dilation).checked_sub(self.padding)?;
        (place < self.size).then_some(place)
    }
}

/// Calls `task(plane, image, columns)` with where a plane's image and columns begin.
fn planes(count: usize, axes: &[Axis; 2], task: impl Fn(usize, usize) + Sync) {
    let [high, wide] = axes;
    let (area, block) = (high.size * wide.size, high.kernel * wide.kernel * high.blocks * wide.blocks);
    rushlight_par::parallel_for(count, TASK.div_ceil((area + block).max(1)), |range| {
        range.for_each(|plane| task(plane * area, plane * block));
    });
}

/// For each tap and each row of blocks: the tap's place in a block, the first block, and the image's row unless it is padding.
fn rows(axes: &[Axis; 2], mut visit: impl FnMut(usize, usize, Option<usize>)) {
    let [high, wide] = axes;
    let mut first = 0;
    for i in 0..high.kernel {
        for j in 0..wide.kernel {
            for y in 0..high.blocks {
                visit(j, first, high.seen(y, i).map(|row| row * wide.size));
                first += wide.blocks;
            }
        }
    }
}

/// Blocks as columns: for each plane a matrix of taps by blocks. Padding is zero.
///
/// # Safety
/// `image` and `columns` hold `count` planes of elements of `size` bytes, aligned to it.
pub unsafe fn unfold(size: usize, count: usize, axes: &[Axis; 2], image: *const u8, columns: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => unfold_of::<u8>(count, axes, image.cast(), columns.cast()),
            2 => unfold_of::<u16>(count, axes, image.cast(), columns.cast()),
            4 => unfold_of::<u32>(count, axes, image.cast(), columns.cast()),
            8 => unfold_of::<u64>(count, axes, image.cast(), columns.cast()),
            _ => unfold_of::<[u64; 2]>(count, axes, image.cast(), columns.cast()),
        }
    }
}

/// # Safety
/// As for `unfold`.
unsafe fn unfold_of<T: Copy + Default>(count: usize, axes: &[Axis; 2], image: *const T, columns: *mut T) {
    let (image, columns) = (Address(image.cast_mut()), Address(columns));
    let wide = &axes[1];
    planes(count, axes, |from, to| {
        rows(axes, |tap, first, row| {
            for x in 0..wide.blocks {
                // SAFETY: what a tap sees lies within the plane, and each place of the columns is written once.
                unsafe {
                    let value = match (row, wide.seen(x, tap)) {
                        (Some(row), Some(col)) => *image.at(from + row + col),
                        _ => T::default(),
                    };
                    columns.at(to + first + x).write(value);
                }
            }
        });
    });
}

/// Columns summed into images.
///
/// # Safety
/// `columns` and `image` hold `count` planes.
pub unsafe fn fold(dtype: DType, count: usize, axes: &[Axis; 2], columns: *const u8, image: *mut u8) {
    dispatch!(dtype, T in [f32, f64, c64, c128] => {
        // SAFETY: the caller's promise.
        unsafe { fold_of::<T>(count, axes, columns.cast(), image.cast()) }
    }, else => ())
}

/// # Safety
/// As for `fold`.
unsafe fn fold_of<T: Copy + Default + AddAssign>(count: usize, axes: &[Axis; 2], columns: *const T, image: *mut T) {
    let (image, columns) = (Address(image), Address(columns.cast_mut()));
    let wide = &axes[1];
    let area = axes[0].size * wide.size;
    planes(count, axes, |to, from| {
        // SAFETY: the plane is this task's, and what a tap sees lies within it.
        unsafe {
            (0..area).for_each(|i| image.at(to + i).write(T::default()));
            rows(axes, |tap, first, row| {
                let Some(row) = row else { return };
                for x in 0..wide.blocks {
                    if let Some(col) = wide.seen(x, tap) {
                        *image.at(to + row + col) += *columns.at(from + first + x);
                    }
                }
            });
        }
    });
}
