//! Steps of optimizers: each parameter with its gradient and state in one pass over memory.
//!
//! Half precision is computed in float32. Memory may be shared with other processes that write to it at the same time, so
//! elements are read and written through addresses, never as a slice.
//!
//! Where several processes train one model, its cache lines travel between their cores, and two steps at once would chase
//! each other through memory. So a step claims lines of shared memory well before it writes them, and every process begins
//! elsewhere. In memory of its own a process would wait longer for the claims than for the lines.

use std::ops::Range;

use half::{bf16, f16};
use rushlight_core::DType;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::plan::Plan;
use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::convert::cast::move_strided;
use crate::pointwise::GRAIN;
use crate::streaming;

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

pub mod rules;

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

/// Where the elements of a parameter, its gradient and its state begin.
#[derive(Clone, Copy)]
pub struct Ends<E, const N: usize> {
    pub places: [*mut E; N],
    /// Other processes may have the parameter's memory too.
    pub shared: bool,
    /// The operands fill more than a core's own caches.
    far: bool,
}

impl<E, const N: usize> Ends<E, N> {
    pub fn new(places: [*mut E; N], shared: bool) -> Ends<E, N> {
        Ends { places, shared, far: false }
    }

    fn cast<T>(self) -> Ends<T, N> {
        Ends { places: self.places.map(<*mut E>::cast), shared: self.shared, far: self.far }
    }
}

/// Bytes that travel between cores at once.
const LINE: usize = 64;
/// Lines that are claimed before the one at work: one after the other, each would take a journey to the other core.
const AHEAD: usize = 64;

/// Elements that a step takes from each operand at once. They pass through registers: one by one, each store could change
/// what is loaded next, and no two would be computed together.
const BLOCK: usize = 16;

/// `element` of every place of the parameter, the gradient and the state, in this order; all but the gradient are written.
/// The parameter's cache lines, if it is shared, are claimed well before; those of operands that lie far away are asked for
/// ahead of their turn, without which the processor leaves a quarter of the bandwidth unused.
///
/// # Safety
/// Each holds `n` elements.
#[inline(always)]
unsafe fn block_by_block<T: Real, const N: usize>(
    Ends { places: ends, shared, far }: Ends<T, N>,
    n: usize,
    element: impl Fn([T::Wide; N]) -> [T::Wide; N],
) {
    let line = LINE / size_of::<T>();
    let claim = |range: Range<usize>| {
        if shared {
            range.step_by(line.min(BLOCK)).for_each(|at| rushlight_simd::claim(ends[0].wrapping_add(at)));
        }
    };
    let ahead = (AHEAD * line).min(n);
    claim(0..ahead);
    let whole = n - n % BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        claim(n.min(start + ahead)..n.min(start + ahead + BLOCK));
        if far {
            ends.iter().for_each(|end| streaming::fetch(end.wrapping_add(start).cast(), BLOCK * size_of::<T>()));
        }
        // SAFETY: by the caller's word; a block ends before `whole`.
        unsafe {
            let at = |lane: usize| ends[lane].add(start).cast::<[T; BLOCK]>();
            let mut block = [at(0).read(); N];
            for lane in 1..N {
                block[lane] = at(lane).read();
            }
            for i in 0..BLOCK {
                let mut values = [block[0][i].load(); N];
                for lane in 1..N {
                    values[lane] = block[lane][i].load();
                }
                values = element(values);
                for lane in 0..N {
                    block[lane][i] = T::store(values[lane]);
                }
            }
            for lane in (0..N).filter(|&lane| lane != GRADIENT) {
                at(lane).write(block[lane]);
            }
        }
    }
    for i in whole..n {
        // SAFETY: by the caller's word.
        unsafe {
            let mut values = [(*ends[0].add(i)).load(); N];
            for lane in 1..N {
                values[lane] = (*ends[lane].add(i)).load();
            }
            values = element(values);
            for lane in (0..N).filter(|&lane| lane != GRADIENT) {
                *ends[lane].add(i) = T::store(values[lane]);
            }
        }
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
    /// One step without momentum, of parameter and gradient.
    ///
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn sgd_plain<S, T: Real>(ends: Ends<T, 2>, n: usize, c: &Sgd) {
        let (rate, decay) = (<T::Wide as Wide>::of(-c.lr), <T::Wide as Wide>::of(c.weight_decay));
        let sign = <T::Wide as Wide>::of(if c.maximize { -1.0 } else { 1.0 });
        let decays = c.weight_decay != 0.0;
        let element = |[p, g]: [T::Wide; 2]| {
            let step = sign * g;
            let step = if decays { step + decay * p } else { step };
            [p + rate * step, g]
        };
        // SAFETY: by the caller's word.
        unsafe { block_by_block(ends, n, element) }
    }
}

multiversion! {
    /// One step with momentum, of parameter, gradient and buffer.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn sgd_momentum<S, T: Real>(ends: Ends<T, 3>, n: usize, c: &Sgd) {
        let (rate, decay) = (<T::Wide as Wide>::of(-c.lr), <T::Wide as Wide>::of(c.weight_decay));
        let (momentum, share) = (<T::Wide as Wide>::of(c.momentum), <T::Wide as Wide>::of(1.0 - c.dampening));
        let sign = <T::Wide as Wide>::of(if c.maximize { -1.0 } else { 1.0 });
        let decays = c.weight_decay != 0.0;
        let element = |[p, g, b]: [T::Wide; 3]| {
            let step = sign * g;
            let step = if decays { step + decay * p } else { step };
            let b = if c.first { step } else { b * momentum + share * step };
            let step = if c.nesterov { step + momentum * b } else { b };
            [p + rate * step, g, b]
        };
        // SAFETY: by the caller's word.
        unsafe { block_by_block(ends, n, element) }
    }
}

/// The numbers of a step of Adam as they are computed with.
struct Rates<W> {
    shrink: W,
    decay: W,
    sign: W,
    share1: W,
    rest1: W,
    beta2: W,
    share2: W,
    rate: W,
    root: W,
    eps: W,
    decays: bool,
    decoupled: bool,
    /// torch's `lerp` starts from the nearer end.
    near: bool,
}

impl<W: Wide> Rates<W> {
    #[inline(always)]
    fn new(c: &Adam) -> Self {
        Rates {
            shrink: W::of(1.0 - c.lr * c.weight_decay),
            decay: W::of(c.weight_decay),
            sign: W::of(if c.maximize { -1.0 } else { 1.0 }),
            share1: W::of(1.0 - c.beta1),
            rest1: W::of(c.beta1),
            beta2: W::of(c.beta2),
            share2: W::of(1.0 - c.beta2),
            rate: W::of(-(c.lr / (1.0 - c.beta1.powf(c.step)))),
            root: W::of((1.0 - c.beta2.powf(c.step)).sqrt()),
            eps: W::of(c.eps),
            decays: c.weight_decay != 0.0,
            decoupled: c.decoupled,
            near: 1.0 - c.beta1 < 0.5,
        }
    }

    /// The parameter before its step, and the mean and the mean square with this gradient in them.
    #[inline(always)]
    fn moments(&self, [p, g, m, v]: [W; 4]) -> (W, W, W) {
        let g = self.sign * g;
        let (p, g) = match (self.decays, self.decoupled) {
            (true, true) => (p * self.shrink, g),
            (true, false) => (p, g + self.decay * p),
            _ => (p, g),
        };
        let m = if self.near { m + self.share1 * (g - m) } else { g - (g - m) * self.rest1 };
        (p, m, v * self.beta2 + self.share2 * g * g)
    }

    /// The parameter after its step.
    #[inline(always)]
    fn stepped(&self, p: W, m: W, v: W) -> W {
        p + self.rate * (m / (v.root() / self.root + self.eps))
    }
}

multiversion! {
    /// One step of parameter, gradient, mean and mean square.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn adam<S, T: Real>(ends: Ends<T, 4>, n: usize, c: &Adam) {
        let rates = Rates::new(c);
        let element = |[p, g, m, v]: [T::Wide; 4]| {
            let (p, m, v) = rates.moments([p, g, m, v]);
            [rates.stepped(p, m, v), g, m, v]
        };
        // SAFETY: by the caller's word.
        unsafe { block_by_block(ends, n, element) }
    }
}

multiversion! {
    /// One step that also keeps the largest mean square; NaN wins.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn amsgrad<S, T: Real>(ends: Ends<T, 5>, n: usize, c: &Adam) {
        let rates = Rates::new(c);
        #[allow(clippy::eq_op)]
        let element = |[p, g, m, v, largest]: [T::Wide; 5]| {
            let (p, m, v) = rates.moments([p, g, m, v]);
            let largest = if largest > v || largest != largest { largest } else { v };
            [rates.stepped(p, m, largest), g, m, v, largest]
        };
        // SAFETY: by the caller's word.
        unsafe { block_by_block(ends, n, element) }
    }
}

/// The operand that is only read.
const GRADIENT: usize = 1;
/// The bytes of an operand from which on it lies far away.
const FAR: usize = 1 << 20;
/// Elements that pass through buffers at once where operands are strided.
const TILE: usize = 512;

/// Calls `step` with contiguous elements of all operands; strided ones are gathered before and put back after.
///
/// # Safety
/// The plan stays within the operands' memory, and elements have `width` bytes.
unsafe fn each<const N: usize>(
    plan: &Plan<N>,
    Ends { places, shared, .. }: Ends<u8, N>,
    width: usize,
    step: impl Fn(Ends<u8, N>, usize) + Sync,
) {
    let ends = places.map(Address);
    let steps = plan.inner_strides();
    let far = plan.numel() * width >= FAR;
    let contiguous = plan.inner() == 1 || steps.iter().all(|&step| step == width as isize);
    rushlight_par::parallel_for(plan.numel(), GRAIN, |range| {
        plan.runs(range, |offsets, length| {
            if contiguous {
                let turn = if shared { beginning(length) } else { 0 };
                for part in [turn..length, 0..turn].into_iter().filter(|part| !part.is_empty()) {
                    let place = |lane: usize| ends[lane].offset(offsets[lane] + (part.start * width) as isize);
                    step(Ends { places: std::array::from_fn(place), shared, far }, part.len());
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
                    step(Ends::new(tiles, false), n);
                    for lane in (0..N).filter(|&lane| lane != GRADIENT) {
                        move_strided(place(lane), steps[lane], tiles[lane], width as isize, n, width);
                    }
                }
                done += n;
            }
        });
    });
}

/// A step of gradient descent for parameter and gradient.
///
/// # Safety
/// The plan stays within the operands' memory, whose elements are of `dtype`.
pub unsafe fn sgd_step(dtype: DType, plan: &Plan<2>, ends: Ends<u8, 2>, c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |ends, n| sgd_plain::<T>(ends.cast(), n, c)) }
    });
}

/// A step of gradient descent for parameter, gradient and momentum.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn sgd_momentum_step(dtype: DType, plan: &Plan<3>, ends: Ends<u8, 3>, c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |ends, n| sgd_momentum::<T>(ends.cast(), n, c)) }
    });
}

/// A step of Adam for parameter, gradient, mean and mean square.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn adam_step(dtype: DType, plan: &Plan<4>, ends: Ends<u8, 4>, c: &Adam) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |ends, n| adam::<T>(ends.cast(), n, c)) }
    });
}

/// A step of Adam that also keeps the largest mean square.
///
/// # Safety
/// As for `sgd_step`.
pub unsafe fn amsgrad_step(dtype: DType, plan: &Plan<5>, ends: Ends<u8, 5>, c: &Adam) {
    of_real!(dtype, T => {
        // SAFETY: by the caller's word.
        unsafe { each(plan, ends, dtype.size(), |ends, n| amsgrad::<T>(ends.cast(), n, c)) }
    });
}
