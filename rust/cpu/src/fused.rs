//! Steps of optimizers: each parameter with its gradient and state in one pass over memory.
//!
//! Half precision is computed in float32. Memory may be shared with other processes that write to it at the same time, so
//! elements are read and written one by one through addresses, never as a slice.
//!
//! Where several processes train one model, its cache lines travel between their cores, and two steps at once would chase
//! each other through memory. So a step claims lines well before it writes them, and every process begins elsewhere.

use half::{bf16, f16};
use rushlight_core::DType;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::plan::Plan;
use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::convert::cast::move_strided;
use crate::pointwise::GRAIN;

/// A number as it is stored, and how it is computed with.
pub trait Real: Copy + 'static {
    type Wide: Wide;
    fn load(self) -> Self::Wide;
    fn store(wide: Self::Wide) -> Self;
}

/// A number to compute with.
pub trait Wide:
    Copy
    + PartialOrd
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
{
    fn of(number: f64) -> Self;
    fn root(self) -> Self;
}

macro_rules! wide {
    ($($type:ty)*) => {$(
        impl Wide for $type {
            #[inline(always)]
            fn of(number: f64) -> Self { number as $type }
            #[inline(always)]
            fn root(self) -> Self { self.sqrt() }
        }
        impl Real for $type {
            type Wide = $type;
            #[inline(always)]
            fn load(self) -> $type { self }
            #[inline(always)]
            fn store(wide: $type) -> $type { wide }
        }
    )*};
}
wide! { f32 f64 }

macro_rules! half {
    ($($type:ty)*) => {$(
        impl Real for $type {
            type Wide = f32;
            #[inline(always)]
            fn load(self) -> f32 { self.to_f32() }
            #[inline(always)]
            fn store(wide: f32) -> $type { <$type>::from_f32(wide) }
        }
    )*};
}
half! { f16 bf16 }

/// Bytes that travel between cores at once.
const LINE: usize = 64;
/// Lines that are claimed before the one at work: one after the other, each would take a journey to the other core.
const AHEAD: usize = 64;

/// Calls `element` for every index below `n`, a cache line of `param` at a time, each claimed for writing well before.
#[inline(always)]
fn line_by_line<T>(param: *mut T, n: usize, element: impl Fn(usize)) {
    let per_line = LINE / size_of::<T>();
    let claim = |line: usize| rushlight_simd::claim(param.wrapping_add(line * per_line));
    let lines = n / per_line;
    (0..AHEAD.min(lines)).for_each(claim);
    for line in 0..lines {
        if line + AHEAD < lines {
            claim(line + AHEAD);
        }
        for i in 0..per_line {
            element(line * per_line + i);
        }
    }
    for i in lines * per_line..n {
        element(i);
    }
}

/// Where among `n` elements this process begins, a multiple of a line's: processes of successive numbers are spread evenly
/// (van der Corput's sequence). No result depends on it, since elements do not depend on each other.
fn beginning(n: usize) -> usize {
    let share = std::process::id().reverse_bits() as u64;
    ((n as u64 * share) >> 32) as usize / LINE * LINE
}

/// The numbers of a step of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    pub lr: f64,
    pub momentum: f64,
    pub dampening: f64,
    pub weight_decay: f64,
    pub nesterov: bool,
    pub maximize: bool,
    /// The buffer holds nothing yet.
    pub first: bool,
}

/// The numbers of a step of Adam.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub maximize: bool,
    pub decoupled: bool,
    /// The number of this step, from one.
    pub step: f64,
}

multiversion! {
    /// One step without momentum.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn sgd_plain<S, T: Real>(param: *mut T, grad: *const T, n: usize, c: &Sgd) {
        let (rate, decay) = (<T::Wide as Wide>::of(-c.lr), <T::Wide as Wide>::of(c.weight_decay));
        let sign = <T::Wide as Wide>::of(if c.maximize { -1.0 } else { 1.0 });
        let decays = c.weight_decay != 0.0;
        line_by_line(param, n, |i| {
            // SAFETY: the caller gives n elements behind each pointer.
            unsafe {
                let p = (*param.add(i)).load();
                let g = sign * (*grad.add(i)).load();
                let g = if decays { g + decay * p } else { g };
                *param.add(i) = T::store(p + rate * g);
            }
        });
    }
}

multiversion! {
    /// One step with momentum.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn sgd_momentum<S, T: Real>(param: *mut T, grad: *const T, buffer: *mut T, n: usize, c: &Sgd) {
        let (rate, decay) = (<T::Wide as Wide>::of(-c.lr), <T::Wide as Wide>::of(c.weight_decay));
        let (momentum, share) = (<T::Wide as Wide>::of(c.momentum), <T::Wide as Wide>::of(1.0 - c.dampening));
        let sign = <T::Wide as Wide>::of(if c.maximize { -1.0 } else { 1.0 });
        let decays = c.weight_decay != 0.0;
        line_by_line(param, n, |i| {
            // SAFETY: the caller gives n elements behind each pointer.
            unsafe {
                let p = (*param.add(i)).load();
                let g = sign * (*grad.add(i)).load();
                let g = if decays { g + decay * p } else { g };
                let b = if c.first { g } else { (*buffer.add(i)).load() * momentum + share * g };
                *buffer.add(i) = T::store(b);
                let g = if c.nesterov { g + momentum * b } else { b };
                *param.add(i) = T::store(p + rate * g);
            }
        });
    }
}

multiversion! {
    /// One step; `largest` is null without `amsgrad`.
    ///
    /// # Safety
    /// All hold `n` elements, and so does `largest` where it is not null.
    unsafe fn adam<S, T: Real>(param: *mut T, grad: *const T, mean: *mut T, square: *mut T, largest: *mut T, n: usize, c: &Adam) {
        let of = <T::Wide as Wide>::of;
        let shrink = of(1.0 - c.lr * c.weight_decay);
        let decay = of(c.weight_decay);
        let sign = of(if c.maximize { -1.0 } else { 1.0 });
        let (share1, rest1) = (of(1.0 - c.beta1), of(c.beta1));
        let (beta2, share2) = (of(c.beta2), of(1.0 - c.beta2));
        let rate = of(-(c.lr / (1.0 - c.beta1.powf(c.step))));
        let root = of((1.0 - c.beta2.powf(c.step)).sqrt());
        let eps = of(c.eps);
        let decays = c.weight_decay != 0.0;
        // torch's `lerp` starts from the nearer end.
        let near = 1.0 - c.beta1 < 0.5;
        let amsgrad = !largest.is_null();
        line_by_line(param, n, |i| {
            // SAFETY: the caller gives n elements behind each pointer that is not null.
            unsafe {
                let p = (*param.add(i)).load();
                let g = sign * (*grad.add(i)).load();
                let (p, g) = match (decays, c.decoupled) {
                    (true, true) => (p * shrink, g),
                    (true, false) => (p, g + decay * p),
                    _ => (p, g),
                };
                let m = (*mean.add(i)).load();
                let m = if near { m + share1 * (g - m) } else { g - (g - m) * rest1 };
                *mean.add(i) = T::store(m);
                let mut v = (*square.add(i)).load() * beta2 + share2 * g * g;
                *square.add(i) = T::store(v);
                if amsgrad {
                    let old = (*largest.add(i)).load();
                    // NaN wins.
                    #[allow(clippy::eq_op)]
                    if old > v || old != old {
                        v = old;
                    }
                    *largest.add(i) = T::store(v);
                }
                *param.add(i) = T::store(p + rate * (m / (v.root() / root + eps)));
            }
        });
    }
}

/// The operand that is only read.
const GRADIENT: usize = 1;
/// Elements that pass through buffers at once where operands are strided.
const TILE: usize = 512;

/// Calls `step` with contiguous elements of all operands; strided ones are gathered before and put back after.
///
/// # Safety
/// The plan stays within the operands' memory, and elements have `width` bytes.
unsafe fn each<const N: usize>(
    plan: &Plan<N>,
    ends: [*mut u8; N],
    width: usize,
    step: impl Fn([*mut u8; N], usize) + Sync,
) {
    let ends = ends.map(Address);
    let steps = plan.inner_strides();
    let contiguous = plan.inner() == 1 || steps.iter().all(|&step| step == width as isize);
    rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
        plan.runs(range, |offsets, length| {
            if contiguous {
                let turn = beginning(length);
                for part in [turn..length, 0..turn].into_iter().filter(|part| !part.is_empty()) {
                    let place = |lane: usize| ends[lane].offset(offsets[lane] + (part.start * width) as isize);
                    step(std::array::from_fn(place), part.len());
                }
                return;
            }
            let mut buffers = [[0u64; TILE]; N];
            let mut done = 0;
            while done < length {
                let n = TILE.min(length - done);
                let place = |lane: usize| ends[lane].offset(offsets[lane] + done as isize * steps[lane]);
                let tiles: [*mut u8; N] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast());
                // SAFETY: by the caller's word; a tile holds elements of up to eight bytes.
                unsafe {
                    for lane in 0..N {
                        move_strided(tiles[lane], width as isize, place(lane), steps[lane], n, width);
                    }
                    step(tiles, n);
                    for lane in (0..N).filter(|&lane| lane != GRADIENT) {
                        move_strided(place(lane), steps[lane], tiles[lane], width as isize, n, width);
                    }
                }
                done += n;
            }
        });
    });
}

/// Calls a generic function with the type of a real floating dtype; nothing for other dtypes.
macro_rules! of_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F16 => {
                type $T = f16_;
                $body
            }
            DType::BF16 => {
                type $T = bf16_;
                $body
            }
            _ => {}
        }
    };
}

/// A step of gradient descent for parameter and gradient.
///
/// # Safety
/// The plan stays within the operands' memory, whose elements are of `dtype`.
pub unsafe fn sgd_step(dtype: DType, plan: &Plan<2>, ends: [*mut u8; 2], c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |[p, g], n| sgd_plain::<T>(p.cast(), g.cast(), n, c)) }
    });
}

/// A step of gradient descent for parameter, gradient and momentum.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn sgd_momentum_step(dtype: DType, plan: &Plan<3>, ends: [*mut u8; 3], c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |[p, g, b], n| sgd_momentum::<T>(p.cast(), g.cast(), b.cast(), n, c)) }
    });
}

/// A step of Adam for parameter, gradient, mean and mean square.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn adam_step(dtype: DType, plan: &Plan<4>, ends: [*mut u8; 4], c: &Adam) {
    of_real!(dtype, T => {
        let step = |[p, g, m, v]: [*mut u8; 4], n: usize| {
            // SAFETY: by the caller's word.
            unsafe { adam::<T>(p.cast(), g.cast(), m.cast(), v.cast(), std::ptr::null_mut(), n, c) }
        };
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), step) }
    });
}

/// A step of Adam that also keeps the largest mean square.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn amsgrad_step(dtype: DType, plan: &Plan<5>, ends: [*mut u8; 5], c: &Adam) {
    of_real!(dtype, T => {
        let step = |[p, g, m, v, x]: [*mut u8; 5], n: usize| {
            // SAFETY: by the caller's word.
            unsafe { adam::<T>(p.cast(), g.cast(), m.cast(), v.cast(), x.cast(), n, c) }
        };
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), step) }
    });
}
