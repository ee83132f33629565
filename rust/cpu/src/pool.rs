//! Pooling: one value for each window of a plane. Planes are row-major, and each is one task's.

use std::ops::Range;

use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::{DType, dispatch};

/// Elements of windows worth a task of their own.
const TASK: usize = 1 << 14;

/// How windows lie along one axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    pub size: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl Axis {
    /// An axis that pooling leaves alone.
    pub const FLAT: Axis = Axis { size: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

    /// Whether every window sees at least one element.
    pub fn fits(&self) -> bool {
        let sees = |at: usize| !self.window(at).is_empty();
        let sane = self.kernel > 0 && self.stride > 0 && self.dilation > 0;
        sane && (self.output == 0 || self.size > 0 && (0..self.output).all(sees))
    }

    /// The elements that a window sees, `dilation` apart.
    fn window(&self, at: usize) -> Range<usize> {
        let first = (at * self.stride) as isize - self.padding as isize;
        let skipped = if first < 0 { (-first as usize).div_ceil(self.dilation) } else { 0 };
        let start = (first + (skipped * self.dilation) as isize) as usize;
        let end = first + (self.kernel * self.dilation) as isize;
        start..(end.max(0) as usize).min(self.size)
    }
}

#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: each plane is one task's.
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    fn at(self, offset: usize) -> *mut T {
        self.0.wrapping_add(offset)
    }
}

fn planes(count: usize, work: usize, task: impl Fn(usize) + Sync) {
    rushlight_par::parallel_for(count, TASK.div_ceil(work.max(1)), |range| range.for_each(&task));
}

fn product(axes: &[Axis; 3], size: impl Fn(&Axis) -> usize) -> usize {
    axes.iter().map(size).product()
}

/// The largest element of each window and its place in the plane. NaN counts as the largest; of several the last wins, as in torch.
///
/// # Safety
/// `input`, `output` and `places` hold `count` planes.
pub unsafe fn max(dtype: DType, axes: &[Axis; 3], count: usize, input: *const u8, output: *mut u8, places: *mut i64) {
    dispatch!(dtype, T in [f32, f64, f16_, bf16_, u8, i8, i16, i32, i64] => {
        // SAFETY: the caller's promise.
        unsafe { max_of::<T>(axes, count, Shared(input.cast_mut().cast()), Shared(output.cast()), Shared(places)) }
    }, else => ())
}

unsafe fn max_of<T: Copy + PartialOrd>(
    axes: &[Axis; 3],
    count: usize,
    input: Shared<T>,
    output: Shared<T>,
    places: Shared<i64>,
) {
    let [depth, height, width] = axes;
    let (area, pixels) = (product(axes, |axis| axis.size), product(axes, |axis| axis.output));
    planes(count, pixels * product(axes, |axis| axis.kernel), |plane| {
        let source = input.at(plane * area);
        let mut at = plane * pixels;
        for z in 0..depth.output {
            for y in 0..height.output {
                let (zs, ys) = (depth.window(z), height.window(y));
                for x in 0..width.output {
                    let xs = width.window(x);
                    let mut place = (zs.start * height.size + ys.start) * width.size + xs.start;
                    // SAFETY: windows lie within the plane; no window is empty.
                    unsafe {
                        let mut best = *source.add(place);
                        for i in zs.clone().step_by(depth.dilation) {
                            for j in ys.clone().step_by(height.dilation) {
                                let row = (i * height.size + j) * width.size;
                                for k in xs.clone().step_by(width.dilation) {
                                    let value = *source.add(row + k);
                                    #[allow(clippy::eq_op)]
                                    if value > best || value != value {
                                        (best, place) = (value, row + k);
                                    }
                                }
                            }
                        }
                        output.at(at).write(best);
                        places.at(at).write(place as i64);
                    }
                    at += 1;
                }
            }
        }
    });
}

/// Elements that are added up.
trait Total: Copy + std::ops::Add<Output = Self> + std::ops::Div<Output = Self> {
    const ZERO: Self;
    fn count(n: i64) -> Self;
}
macro_rules! total {
    ($($type:ty)*) => {$(
        impl Total for $type {
            const ZERO: $type = 0 as $type;
            fn count(n: i64) -> $type { n as $type }
        }
    )*};
}
total! { f32 f64 i64 }

/// Puts each of `pixels` values at its place in a plane of `area` zeros; where several meet they add up.
///
/// # Safety
/// `values` and `places` hold `count` planes of `pixels`, `output` of `area`, and places lie below `area`.
pub unsafe fn scatter(
    dtype: DType,
    count: usize,
    [pixels, area]: [usize; 2],
    values: *const u8,
    places: *const i64,
    output: *mut u8,
) {
    dispatch!(dtype, T in [f32, f64, i64] => {
        let (values, places, output) = (Shared(values.cast_mut().cast::<T>()), Shared(places.cast_mut()), Shared(output.cast::<T>()));
        planes(count, pixels + area, |plane| {
            let to = output.at(plane * area);
            // SAFETY: the caller's promise.
            unsafe {
                (0..area).for_each(|i| to.add(i).write(T::ZERO));
                for i in plane * pixels..(plane + 1) * pixels {
                    let place = to.add(*places.at(i) as usize);
                    *place += *values.at(i);
                }
            }
        });
    }, else => ())
}

/// Whether `count` places all lie within a plane of `area` elements.
///
/// # Safety
/// `places` holds `count`.
pub unsafe fn within(places: *const i64, count: usize, area: usize) -> bool {
    // SAFETY: the caller's promise.
    (0..count).all(|at| unsafe { (*places.add(at) as u64) < area as u64 })
}

/// Takes the value at each of `pixels` places out of a plane of `area`.
///
/// # Safety
/// As for `scatter`, with values and output exchanged.
pub unsafe fn gather(
    dtype: DType,
    count: usize,
    [pixels, area]: [usize; 2],
    values: *const u8,
    places: *const i64,
    output: *mut u8,
) {
    dispatch!(dtype, T in [f32, f64, i64] => {
        let (values, places, output) = (Shared(values.cast_mut().cast::<T>()), Shared(places.cast_mut()), Shared(output.cast::<T>()));
        planes(count, pixels, |plane| {
            for i in plane * pixels..(plane + 1) * pixels {
                // SAFETY: the caller's promise.
                unsafe { output.at(i).write(*values.at(plane * area + *places.at(i) as usize)) }
            }
        });
    }, else => ())
}

/// One window along one axis: the elements it sees, and the length that it counts for in a mean.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub start: usize,
    pub end: usize,
    pub length: usize,
}

/// Windows along three axes, and what means divide by instead of their own size.
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
    pub unsafe fn forward(&self, dtype: DType, count: usize, input: *const u8, output: *mut u8) {
        dispatch!(dtype, T in [f32, f64, i64] => {
            let (input, output) = (Shared(input.cast_mut().cast::<T>()), Shared(output.cast::<T>()));
            planes(count, self.area(), |plane| {
                let (from, to) = (input.at(plane * self.area()), output.at(plane * self.pixels()));
                self.each(|pixel, divisor, rows| {
                    let mut sum = T::ZERO;
                    // SAFETY: windows lie within the plane.
                    rows(&mut |row| row.for_each(|i| unsafe { sum += *from.add(i) }));
                    // SAFETY: each pixel is written once.
                    unsafe { to.add(pixel).write(sum / T::count(divisor)) }
                });
            });
        }, else => ())
    }

    /// Spreads each pixel's value over its window.
    ///
    /// # Safety
    /// `values` and `output` hold `count` planes.
    pub unsafe fn backward(&self, dtype: DType, count: usize, values: *const u8, output: *mut u8) {
        dispatch!(dtype, T in [f32, f64, i64] => {
            let (values, output) = (Shared(values.cast_mut().cast::<T>()), Shared(output.cast::<T>()));
            planes(count, self.area(), |plane| {
                let (from, to) = (values.at(plane * self.pixels()), output.at(plane * self.area()));
                // SAFETY: windows lie within the plane, which is this task's.
                unsafe { (0..self.area()).for_each(|i| to.add(i).write(T::ZERO)) };
                self.each(|pixel, divisor, rows| {
                    // SAFETY: see above.
                    let share = unsafe { *from.add(pixel) } / T::count(divisor);
                    // SAFETY: see above.
                    rows(&mut |row| row.for_each(|i| unsafe { *to.add(i) = *to.add(i) + share }));
                });
            });
        }, else => ())
    }
}
