//! Blocks of images as columns, and columns summed back into images. Each plane of an image is handled by one task.

use rushlight_par::Address;
use std::ops::AddAssign;

use rushlight_core::dtype::{c64, c128};
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Error, Result, dispatch};

/// Elements worth a task of their own.
const TASK: usize = 1 << 15;

/// Calls `task(plane, image, columns)` with the first elements of a plane's image and columns.
fn planes(count: usize, axes: &[WindowDim; 2], task: impl Fn(usize, usize) + Sync) {
    let [high, wide] = axes;
    let (area, block) = (high.input * wide.input, high.kernel * wide.kernel * high.output * wide.output);
    rushlight_par::parallel_for(count, TASK.div_ceil((area + block).max(1)), |range| {
        range.for_each(|plane| task(plane * area, plane * block));
    });
}

/// For each tap and each row of blocks: the tap's position in a block, the first block, and the image's row unless it
/// is padding.
fn rows(axes: &[WindowDim; 2], mut visit: impl FnMut(usize, usize, Option<usize>)) {
    let [high, wide] = axes;
    let mut first = 0;
    for i in 0..high.kernel {
        for j in 0..wide.kernel {
            for y in 0..high.output {
                visit(j, first, high.element(y, i).map(|row| row * wide.input));
                first += wide.output;
            }
        }
    }
}

/// Blocks as columns: for each plane a matrix of taps by blocks. Padding is zero.
///
/// # Safety
/// `image` and `columns` hold `count` planes of elements of `size` bytes, aligned to it.
pub unsafe fn unfold(size: usize, count: usize, axes: &[WindowDim; 2], image: *const u8, columns: *mut u8) {
    // SAFETY: guaranteed by the caller (see `# Safety`).
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
/// Same as for `unfold`.
unsafe fn unfold_of<T: Copy + Default>(count: usize, axes: &[WindowDim; 2], image: *const T, columns: *mut T) {
    let (image, columns) = (Address(image.cast_mut()), Address(columns));
    let wide = &axes[1];
    planes(count, axes, |from, to| {
        rows(axes, |tap, first, row| {
            for x in 0..wide.output {
                // SAFETY: the elements that a tap reads lie within the plane; each element of the columns is written
                // once.
                unsafe {
                    let value = match (row, wide.element(x, tap)) {
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
pub unsafe fn fold(
    dtype: DType,
    count: usize,
    axes: &[WindowDim; 2],
    columns: *const u8,
    image: *mut u8,
) -> Result<()> {
    dispatch!(dtype, T in [f32, f64, c64, c128] => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { fold_of::<T>(count, axes, columns.cast(), image.cast()) }
    }, else => return Err(Error::unsupported("col2im", dtype)));
    Ok(())
}

/// # Safety
/// Same as for `fold`.
unsafe fn fold_of<T: Copy + Default + AddAssign>(
    count: usize,
    axes: &[WindowDim; 2],
    columns: *const T,
    image: *mut T,
) {
    let (image, columns) = (Address(image), Address(columns.cast_mut()));
    let wide = &axes[1];
    let area = axes[0].input * wide.input;
    planes(count, axes, |to, from| {
        // SAFETY: the plane belongs to this task, and the elements that a tap sees lie within it.
        unsafe {
            (0..area).for_each(|i| image.at(to + i).write(T::default()));
            rows(axes, |tap, first, row| {
                let Some(row) = row else { return };
                for x in 0..wide.output {
                    if let Some(col) = wide.element(x, tap) {
                        *image.at(to + row + col) += *columns.at(from + first + x);
                    }
                }
            });
        }
    });
}
