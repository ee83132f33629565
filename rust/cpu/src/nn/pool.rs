//! Pooling: one value for each window of a plane. Planes are row-major, and each is handled by one task.

use rushlight_par::Address;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rushlight_core::alloc::check_available;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::window::WindowDim;
use rushlight_core::{DType, Element, Error, Result, Scalar, dispatch};
use rushlight_simd::multiversion;

/// Elements of windows worth a task of their own.
const TASK: usize = 1 << 15;

/// The element that a tap of a window reads; in the padding, the nearest one that another tap of the window reads. A
/// window that reads nothing has the first element, which `mark_empty` overwrites.
fn nearest(dim: &WindowDim, window: usize, tap: usize) -> usize {
    dim.element(window, tap).unwrap_or_else(|| {
        let own = dim.elements(window);
        if own.is_empty() {
            return 0;
        }
        if dim.place(window, tap) < 0 { own.start } else { own.start + (own.len() - 1) / dim.dilation * dim.dilation }
    })
}

fn planes(count: usize, work: usize, task: impl Fn(usize) + Sync) {
    rushlight_par::parallel_for(count, TASK.div_ceil(work.max(1)), |range| range.for_each(&task));
}

fn product(axes: &[WindowDim; 3], size: impl Fn(&WindowDim) -> usize) -> usize {
    axes.iter().map(size).product()
}

/// The largest element of each window and its index in the plane. NaN counts as the largest; of several equal elements
/// the first wins, but of several NaN the last, as in torch.
///
/// # Safety
/// `input`, `output` and `places` hold `count` planes.
pub unsafe fn max(
    dtype: DType,
    axes: &[WindowDim; 3],
    count: usize,
    input: *const u8,
    output: *mut u8,
    places: *mut i64,
) -> Result<()> {
    ask_for_lists(axes)?;
    dispatch!(dtype, T in [f32, f64, f16_, bf16_, u8, i8, i16, i32, i64] => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            max_of::<T>(axes, count, Address(input.cast_mut().cast()), Address(output.cast()), Address(places));
            mark_empty(axes, count, T::from_scalar(Scalar::Float(f64::NEG_INFINITY)), Address(output.cast()), Address(places));
        }
    }, else => return Err(Error::unsupported("max_pool", dtype)));
    Ok(())
}

/// Writes the smallest value for windows that lie in the padding alone, and the index where their elements would begin.
///
/// # Safety
/// Same as for `max`.
unsafe fn mark_empty<T: Copy + Send + Sync>(
    axes: &[WindowDim; 3],
    count: usize,
    smallest: T,
    output: Address<T>,
    places: Address<i64>,
) {
    if axes.iter().all(WindowDim::all_read) {
        return;
    }
    let pixels = product(axes, |dim| dim.output);
    let [depth, height, width] = axes;
    for pixel in 0..pixels {
        let (x, y, z) =
            (pixel % width.output, pixel / width.output % height.output, pixel / width.output / height.output);
        let own = [depth.elements(z), height.elements(y), width.elements(x)];
        if own.iter().all(|range| !range.is_empty()) {
            continue;
        }
        let place = (own[0].start * height.input + own[1].start) * width.input + own[2].start;
        for plane in 0..count {
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                *output.at(plane * pixels + pixel) = smallest;
                *places.at(plane * pixels + pixel) = place as i64;
            }
        }
    }
}

/// Windows whose elements are listed at once, for all planes of a task.
const LISTED: usize = 512;
/// Windows that are compared side by side.
const LANES: usize = 16;

/// Returns an error if there is no memory for the windows' lists, one for each thread.
fn ask_for_lists(axes: &[WindowDim; 3]) -> Result<()> {
    let pixels = product(axes, |dim| dim.output).min(LISTED).next_multiple_of(LANES);
    let bytes = size_of::<i64>() * pixels * rushlight_par::num_threads();
    check_available(axes.iter().try_fold(bytes, |n, dim| n.checked_mul(dim.kernel)))
}

/// # Safety
/// Same as for `max`.
unsafe fn max_of<T: Copy + PartialOrd>(
    axes: &[WindowDim; 3],
    count: usize,
    input: Address<T>,
    output: Address<T>,
    places: Address<i64>,
) {
    let (area, pixels) = (product(axes, |dim| dim.input), product(axes, |dim| dim.output));
    let window = product(axes, |dim| dim.kernel);
    let lists = pixels.div_ceil(LISTED);
    let group = TASK.div_ceil(pixels.min(LISTED) * window).min(count).max(1);
    rushlight_par::parallel_tasks(count.div_ceil(group) * lists, |task| {
        let (first, planes) = (task % lists * LISTED, task / lists * group);
        let n = LISTED.min(pixels - first);
        let list = seen_from(axes, first, n);
        for plane in planes..count.min(planes + group) {
            let at = plane * pixels + first;
            // SAFETY: guaranteed by the caller (see `# Safety`); listed indices lie within the plane, and each window
            // belongs to one task.
            unsafe { largest(input.at(plane * area), list.as_ptr(), window, n, output.at(at), places.at(at)) };
        }
    });
}

/// For each tap, the element of the plane that it sees from each of `n` windows, whose number is rounded up to whole
/// lanes. A tap outside of the plane sees the same element as its neighbour, which changes no maximum.
fn seen_from(axes: &[WindowDim; 3], first: usize, n: usize) -> Vec<i64> {
    let [depth, height, width] = axes;
    let row = n.next_multiple_of(LANES);
    let mut list = vec![0; row * product(axes, |dim| dim.kernel)];
    for i in 0..row {
        let pixel = first + i.min(n - 1);
        let (x, y, z) =
            (pixel % width.output, pixel / width.output % height.output, pixel / width.output / height.output);
        let mut at = i;
        for a in 0..depth.kernel {
            for b in 0..height.kernel {
                let line = (nearest(depth, z, a) * height.input + nearest(height, y, b)) * width.input;
                for c in 0..width.kernel {
                    list[at] = (line + nearest(width, x, c)) as i64;
                    at += row;
                }
            }
        }
    }
    list
}

multiversion! {
    /// Compares the elements of `n` listed windows of one plane, tap by tap and without a branch.
    ///
    /// # Safety
    /// The list has whole lanes of indices within the plane at `source` for each tap, and `output` and `places` room
    /// for `n`.
    unsafe fn largest<S, T: Ordered>(
        source: *const T,
        list: *const i64,
        window: usize,
        n: usize,
        output: *mut T,
        places: *mut i64,
    ) {
        let row = n.next_multiple_of(LANES);
        for lane in (0..n).step_by(LANES) {
            // SAFETY: guaranteed by the caller (see `# Safety`): the list has whole lanes of indices within the plane.
            unsafe {
                let mut at = list.add(lane).cast::<[i64; LANES]>().read();
                let mut best = [*source; LANES];
                for l in 0..LANES {
                    best[l] = *source.offset(at[l] as isize);
                }
                for tap in 1..window {
                    let seen = list.add(tap * row + lane).cast::<[i64; LANES]>().read();
                    for l in 0..LANES {
                        let value = *source.offset(seen[l] as isize);
                        #[allow(clippy::eq_op)]
                        let wins = (value > best[l]) | (value != value);
                        best[l] = if wins { value } else { best[l] };
                        at[l] = if wins { seen[l] } else { at[l] };
                    }
                }
                let m = LANES.min(n - lane);
                std::ptr::copy_nonoverlapping(best.as_ptr(), output.add(lane), m);
                std::ptr::copy_nonoverlapping(at.as_ptr(), places.add(lane), m);
            }
        }
    }
}

trait Ordered: Copy + PartialOrd {}
impl<T: Copy + PartialOrd> Ordered for T {}

/// An element type that can be summed.
trait Total: Copy + std::ops::Add<Output = Self> {
    const ZERO: Self;
    fn over(self, n: i64) -> Self;
}
macro_rules! total {
    ($($type:ty: |$x:ident, $n:ident| $ratio:expr),*) => {$(
        impl Total for $type {
            const ZERO: $type = 0 as $type;
            fn over(self, n: i64) -> $type {
                let ($x, $n) = (self, n);
                $ratio
            }
        }
    )*};
}
// The least integer over -1 is beyond the others: it stays itself.
total! { f32: |x, n| x / n as f32, f64: |x, n| x / n as f64, i64: |x, n| x.wrapping_div(n) }

/// Adds each of `pixels` values at its index to a plane of `area` zeros. Returns whether all indices lay within their
/// plane: each is read once, because other threads may write to them meanwhile.
///
/// # Safety
/// `values` and `places` hold `count` planes of `pixels`, and `output` of `area`.
pub unsafe fn scatter(
    dtype: DType,
    count: usize,
    [pixels, area]: [usize; 2],
    values: *const u8,
    places: *const i64,
    output: *mut u8,
) -> Result<bool> {
    let outside = AtomicBool::new(false);
    dispatch!(dtype, T in [f32, f64, i64] => {
        let (values, places, output) = (Address(values.cast_mut().cast::<T>()), Address(places.cast_mut()), Address(output.cast::<T>()));
        planes(count, pixels + area, |plane| {
            let to = output.at(plane * area);
            // SAFETY: guaranteed by the caller (see `# Safety`).
            unsafe {
                (0..area).for_each(|i| to.add(i).write(T::ZERO));
                for i in plane * pixels..(plane + 1) * pixels {
                    match usize::try_from(*places.at(i)) {
                        Ok(place) if place < area => *to.add(place) += *values.at(i),
                        _ => outside.store(true, Relaxed),
                    }
                }
            }
        });
    }, else => return Err(Error::unsupported("max_unpool", dtype)));
    Ok(!outside.into_inner())
}

/// Reads the value at each of `pixels` indices from a plane of `area`. Returns whether all indices lay within their
/// plane.
///
/// # Safety
/// Same as for `scatter`, with values and output exchanged.
pub unsafe fn gather(
    dtype: DType,
    count: usize,
    [pixels, area]: [usize; 2],
    values: *const u8,
    places: *const i64,
    output: *mut u8,
) -> Result<bool> {
    let outside = AtomicBool::new(false);
    dispatch!(dtype, T in [f32, f64, i64] => {
        let (values, places, output) = (Address(values.cast_mut().cast::<T>()), Address(places.cast_mut()), Address(output.cast::<T>()));
        planes(count, pixels, |plane| {
            for i in plane * pixels..(plane + 1) * pixels {
                // SAFETY: guaranteed by the caller (see `# Safety`).
                unsafe {
                    let value = match usize::try_from(*places.at(i)) {
                        Ok(place) if place < area => *values.at(plane * area + place),
                        _ => {
                            outside.store(true, Relaxed);
                            T::ZERO
                        }
                    };
                    output.at(i).write(value);
                }
            }
        });
    }, else => return Err(Error::unsupported("max_unpool", dtype)));
    Ok(!outside.into_inner())
}

/// One window along one axis: the elements it sees, and its length in the divisor of a mean.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub start: usize,
    pub end: usize,
    pub length: usize,
}

/// Windows along three axes, and the divisor of means if it is not the window's size.
pub struct Means {
    pub axes: [Vec<Window>; 3],
    pub sizes: [usize; 3],
    pub divisor: Option<i64>,
}

impl Means {
    fn pixels(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    fn area(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Calls `visit(pixel, divisor, rows)` for each window of a plane, where `rows` visits the window's rows.
    fn each(&self, mut visit: impl FnMut(usize, i64, &mut dyn FnMut(&mut dyn FnMut(Range<usize>)))) {
        let [depth, height, width] = &self.axes;
        let mut pixel = 0;
        for z in depth {
            for y in height {
                for x in width {
                    let divisor = self.divisor.unwrap_or((z.length * y.length * x.length) as i64);
                    visit(pixel, divisor, &mut |row| {
                        for i in z.start..z.end {
                            for j in y.start..y.end {
                                let first = (i * self.sizes[1] + j) * self.sizes[2];
                                row(first + x.start..first + x.end);
                            }
                        }
                    });
                    pixel += 1;
                }
            }
        }
    }

    /// The mean of each window.
    ///
    /// # Safety
    /// `input` and `output` hold `count` planes.
    pub unsafe fn forward(&self, dtype: DType, count: usize, input: *const u8, output: *mut u8) -> Result<()> {
        dispatch!(dtype, T in [f32, f64, i64] => {
            let (input, output) = (Address(input.cast_mut().cast::<T>()), Address(output.cast::<T>()));
            planes(count, self.area(), |plane| {
                let (from, to) = (input.at(plane * self.area()), output.at(plane * self.pixels()));
                self.each(|pixel, divisor, rows| {
                    let mut sum = T::ZERO;
                    // SAFETY: windows lie within the plane.
                    rows(&mut |row| row.for_each(|i| unsafe { sum += *from.add(i) }));
                    // SAFETY: each pixel is written once.
                    unsafe { to.add(pixel).write(sum.over(divisor)) }
                });
            });
        }, else => return Err(Error::unsupported("avg_pool", dtype)));
        Ok(())
    }

    /// Distributes each pixel's value over its window.
    ///
    /// # Safety
    /// `values` and `output` hold `count` planes.
    pub unsafe fn backward(&self, dtype: DType, count: usize, values: *const u8, output: *mut u8) -> Result<()> {
        dispatch!(dtype, T in [f32, f64, i64] => {
            let (values, output) = (Address(values.cast_mut().cast::<T>()), Address(output.cast::<T>()));
            planes(count, self.area(), |plane| {
                let (from, to) = (values.at(plane * self.pixels()), output.at(plane * self.area()));
                // SAFETY: windows lie within the plane, which belongs to this task.
                unsafe { (0..self.area()).for_each(|i| to.add(i).write(T::ZERO)) };
                self.each(|pixel, divisor, rows| {
                    // SAFETY: see above.
                    let share = unsafe { *from.add(pixel) }.over(divisor);
                    // SAFETY: see above.
                    rows(&mut |row| row.for_each(|i| unsafe { *to.add(i) = *to.add(i) + share }));
                });
            });
        }, else => return Err(Error::unsupported("avg_pool", dtype)));
        Ok(())
    }
}

/// The largest element of each window and its index, for windows that differ: `axes(plane)` are those of a plane. NaN
/// counts as the largest; of several equal elements the first wins, but of several NaN the last, as in torch.
///
/// # Safety
/// Windows are not empty and lie within planes of `sizes`; `input`, `output` and `places` hold `count` planes.
pub unsafe fn max_windows<'a>(
    dtype: DType,
    axes: impl Fn(usize) -> &'a [Vec<Window>; 3] + Sync,
    sizes: [usize; 3],
    count: usize,
    [input, output]: [*mut u8; 2],
    places: *mut i64,
) -> Result<()> {
    let area = sizes.iter().product::<usize>();
    dispatch!(dtype, T in [f32, f64, f16_, bf16_] => {
        let (input, output, places) = (Address(input.cast::<T>()), Address(output.cast::<T>()), Address(places));
        planes(count, area, |plane| {
            let [depth, height, width] = axes(plane);
            let from = input.at(plane * area);
            let mut pixel = plane * depth.len() * height.len() * width.len();
            for z in depth {
                for y in height {
                    for x in width {
                        let mut at = (z.start * sizes[1] + y.start) * sizes[2] + x.start;
                        // SAFETY: windows lie within the plane, and each pixel is written once.
                        unsafe {
                            let mut best = *from.add(at);
                            for i in z.start..z.end {
                                for j in y.start..y.end {
                                    let row = (i * sizes[1] + j) * sizes[2];
                                    for k in row + x.start..row + x.end {
                                        let value = *from.add(k);
                                        #[allow(clippy::eq_op)]
                                        if value > best || value != value {
                                            (best, at) = (value, k);
                                        }
                                    }
                                }
                            }
                            output.at(pixel).write(best);
                            places.at(pixel).write(at as i64);
                        }
                        pixel += 1;
                    }
                }
            }
        });
    }, else => return Err(Error::unsupported("max_pool", dtype)));
    Ok(())
}

/// Writes each of `pixels` values at its index to a plane of `area` zeros; of several with the same index the last one
/// stays. Returns whether all indices lay within their plane.
///
/// # Safety
/// Same as for `scatter`.
pub unsafe fn put(
    size: usize,
    count: usize,
    [pixels, area]: [usize; 2],
    values: *const u8,
    places: *const i64,
    output: *mut u8,
) -> bool {
    let outside = AtomicBool::new(false);
    let (values, places, output) = (Address(values.cast_mut()), Address(places.cast_mut()), Address(output));
    planes(count, pixels + area, |plane| {
        let to = output.at(plane * area * size);
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            to.write_bytes(0, area * size);
            for i in plane * pixels..(plane + 1) * pixels {
                match usize::try_from(*places.at(i)) {
                    Ok(place) if place < area => {
                        std::ptr::copy_nonoverlapping(values.at(i * size), to.add(place * size), size);
                    }
                    _ => outside.store(true, Relaxed),
                }
            }
        }
    });
    !outside.into_inner()
}
