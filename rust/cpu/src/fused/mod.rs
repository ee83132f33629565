//! Steps of optimizers: each parameter with its gradient and state in one pass over memory.
//!
//! Half precision is computed in float32. Memory may be shared with other processes that write to it at the same time,
//! so elements are read and written through addresses, never as a slice.
//!
//! If several processes train one model, its cache lines travel between their cores, and two concurrent steps would
//! follow each other through memory. So a step prefetches lines of shared memory for writing well in advance, and every
//! process begins at a different position. For memory that is not shared these prefetches cost more than they save.

use std::ops::Range;

use half::{bf16, f16};
use rushlight_core::DType;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::loop_nest::LoopNest;
use rushlight_par::Address;
use rushlight_simd::multiversion;

use crate::convert::cast::move_strided;
use crate::pointwise::GRAIN;
use crate::streaming;

/// Calls a generic function with the type of a real floating dtype; `None` for other dtypes.
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

/// An element type, and the type of its arithmetic.
pub trait Real: Copy + 'static {
    type Wide: Wide;
    fn load(self) -> Self::Wide;
    fn store(wide: Self::Wide) -> Self;
}

/// A type of arithmetic.
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

/// The first elements of a parameter, its gradient and its state.
#[derive(Clone, Copy)]
pub struct StepOperands<E, const N: usize> {
    pub pointers: [*mut E; N],
    /// Whether other processes may map the parameter's memory too.
    pub shared: bool,
    /// Whether the operands exceed a core's own caches.
    far: bool,
}

impl<E, const N: usize> StepOperands<E, N> {
    pub fn new(pointers: [*mut E; N], shared: bool) -> StepOperands<E, N> {
        StepOperands { pointers, shared, far: false }
    }

    fn cast<T>(self) -> StepOperands<T, N> {
        StepOperands { pointers: self.pointers.map(<*mut E>::cast), shared: self.shared, far: self.far }
    }
}

/// The bytes that travel between cores at once.
const LINE: usize = 64;
/// The number of lines that are prefetched ahead of the current one; otherwise each would be a separate round trip to
/// the other core.
const AHEAD: usize = 64;

/// Elements that a step takes from each operand at once. They pass through registers. Otherwise each store could alias
/// the next load, and the compiler could not vectorise.
const BLOCK: usize = 16;

/// Applies `element` at every position of the parameter, the gradient and the state, in this order; all but the
/// gradient are written. If the parameter is shared, its cache lines are prefetched for writing well in advance.
/// Operands that exceed the caches are prefetched too, because otherwise a quarter of the memory bandwidth is unused.
///
/// # Safety
/// Each holds `n` elements.
#[inline(always)]
unsafe fn block_by_block<T: Real, const N: usize>(
    StepOperands { pointers: operands, shared, far }: StepOperands<T, N>,
    n: usize,
    element: impl Fn([T::Wide; N]) -> [T::Wide; N],
) {
    let line = LINE / size_of::<T>();
    let claim = |range: Range<usize>| {
        if shared {
            range.step_by(line.min(BLOCK)).for_each(|at| rushlight_simd::claim(operands[0].wrapping_add(at)));
        }
    };
    let ahead = (AHEAD * line).min(n);
    claim(0..ahead);
    let whole = n - n % BLOCK;
    for start in (0..whole).step_by(BLOCK) {
        claim(n.min(start + ahead)..n.min(start + ahead + BLOCK));
        if far {
            operands.iter().for_each(|end| streaming::prefetch(end.wrapping_add(start).cast(), BLOCK * size_of::<T>()));
        }
        // SAFETY: guaranteed by the caller (see `# Safety`); a block ends before `whole`.
        unsafe {
            let at = |lane: usize| operands[lane].add(start).cast::<[T; BLOCK]>();
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
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            let mut values = [(*operands[0].add(i)).load(); N];
            for lane in 1..N {
                values[lane] = (*operands[lane].add(i)).load();
            }
            values = element(values);
            for lane in (0..N).filter(|&lane| lane != GRADIENT) {
                *operands[lane].add(i) = T::store(values[lane]);
            }
        }
    }
}

/// The element at which this process begins, a multiple of a cache line: consecutive processes are spread evenly (van
/// der Corput's sequence). No result depends on it, because elements are independent.
fn beginning(n: usize) -> usize {
    let share = std::process::id().reverse_bits() as u64;
    ((n as u64 * share) >> 32) as usize / LINE * LINE
}

/// The parameters of a step of stochastic gradient descent.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    pub lr: f64,
    pub momentum: f64,
    pub dampening: f64,
    pub weight_decay: f64,
    pub nesterov: bool,
    pub maximize: bool,
    /// Whether the buffer is still uninitialised.
    pub first: bool,
}

/// The parameters of a step of Adam.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    pub lr: f64,
    pub beta1: f64,
    pub beta2: f64,
    pub eps: f64,
    pub weight_decay: f64,
    pub maximize: bool,
    pub decoupled: bool,
    /// The number of this step, starting from one.
    pub step: f64,
}

multiversion! {
    /// One step without momentum, of parameter and gradient.
    ///
    /// # Safety
    /// Both hold `n` elements.
    unsafe fn sgd_plain<S, T: Real>(operands: StepOperands<T, 2>, n: usize, c: &Sgd) {
        let (rate, decay) = (<T::Wide as Wide>::of(-c.lr), <T::Wide as Wide>::of(c.weight_decay));
        let sign = <T::Wide as Wide>::of(if c.maximize { -1.0 } else { 1.0 });
        let decays = c.weight_decay != 0.0;
        let element = |[p, g]: [T::Wide; 2]| {
            let step = sign * g;
            let step = if decays { step + decay * p } else { step };
            [p + rate * step, g]
        };
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { block_by_block(operands, n, element) }
    }
}

multiversion! {
    /// One step with momentum, of parameter, gradient and buffer.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn sgd_momentum<S, T: Real>(operands: StepOperands<T, 3>, n: usize, c: &Sgd) {
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
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { block_by_block(operands, n, element) }
    }
}

/// The parameters of a step of Adam in the type of the arithmetic.
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
    /// Whether torch's `lerp` starts from the nearer end.
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

    /// The parameter before its step, and the mean and the mean square updated with this gradient.
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
    unsafe fn adam<S, T: Real>(operands: StepOperands<T, 4>, n: usize, c: &Adam) {
        let rates = Rates::new(c);
        let element = |[p, g, m, v]: [T::Wide; 4]| {
            let (p, m, v) = rates.moments([p, g, m, v]);
            [rates.stepped(p, m, v), g, m, v]
        };
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { block_by_block(operands, n, element) }
    }
}

multiversion! {
    /// One step that also keeps the largest mean square; NaN wins.
    ///
    /// # Safety
    /// All hold `n` elements.
    unsafe fn amsgrad<S, T: Real>(operands: StepOperands<T, 5>, n: usize, c: &Adam) {
        let rates = Rates::new(c);
        #[allow(clippy::eq_op)]
        let element = |[p, g, m, v, largest]: [T::Wide; 5]| {
            let (p, m, v) = rates.moments([p, g, m, v]);
            let largest = if largest > v || largest != largest { largest } else { v };
            [rates.stepped(p, m, largest), g, m, v, largest]
        };
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { block_by_block(operands, n, element) }
    }
}

/// The index of the operand that is only read.
const GRADIENT: usize = 1;
/// The bytes from which on an operand exceeds the caches.
const FAR: usize = 1 << 20;
/// Elements that pass through buffers at once if operands are strided.
const TILE: usize = 512;

/// Calls `step` with contiguous elements of all operands; strided ones are gathered before and scattered afterwards.
///
/// # Safety
/// `nest` stays within the operands' memory, and elements have `width` bytes.
unsafe fn each<const N: usize>(
    nest: &LoopNest<N>,
    StepOperands { pointers, shared, .. }: StepOperands<u8, N>,
    width: usize,
    step: impl Fn(StepOperands<u8, N>, usize) + Sync,
) {
    let operands = pointers.map(Address);
    let steps = nest.inner_strides();
    let far = nest.numel() * width >= FAR;
    let contiguous = nest.inner() == 1 || steps.iter().all(|&step| step == width as isize);
    rushlight_par::parallel_for(nest.numel(), GRAIN, |range| {
        nest.runs(range, |offsets, length| {
            if contiguous {
                let turn = if shared { beginning(length) } else { 0 };
                for part in [turn..length, 0..turn].into_iter().filter(|part| !part.is_empty()) {
                    let place = |lane: usize| operands[lane].offset(offsets[lane] + (part.start * width) as isize);
                    step(StepOperands { pointers: std::array::from_fn(place), shared, far }, part.len());
                }
                return;
            }
            let mut buffers = [[0u64; TILE]; N];
            let mut done = 0;
            while done < length {
                let n = TILE.min(length - done);
                let place = |lane: usize| operands[lane].offset(offsets[lane] + done as isize * steps[lane]);
                let tiles: [*mut u8; N] = buffers.each_mut().map(|buffer| buffer.as_mut_ptr().cast());
                // SAFETY: guaranteed by the caller (see `# Safety`); a tile holds elements of up to eight bytes.
                unsafe {
                    for lane in 0..N {
                        move_strided(tiles[lane], width as isize, place(lane), steps[lane], n, width);
                    }
                    step(StepOperands::new(tiles, false), n);
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
/// `nest` stays within the operands' memory, whose elements are of `dtype`.
pub unsafe fn sgd_step(dtype: DType, nest: &LoopNest<2>, operands: StepOperands<u8, 2>, c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { each(nest, operands, dtype.size(), |operands, n| sgd_plain::<T>(operands.cast(), n, c)) }
    });
}

/// A step of gradient descent for parameter, gradient and momentum.
///
/// # Safety
/// Same as for `sgd_step`.
pub unsafe fn sgd_momentum_step(dtype: DType, nest: &LoopNest<3>, operands: StepOperands<u8, 3>, c: &Sgd) {
    of_real!(dtype, T => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { each(nest, operands, dtype.size(), |operands, n| sgd_momentum::<T>(operands.cast(), n, c)) }
    });
}

/// A step of Adam for parameter, gradient, mean and mean square.
///
/// # Safety
/// Same as for `sgd_step`.
pub unsafe fn adam_step(dtype: DType, nest: &LoopNest<4>, operands: StepOperands<u8, 4>, c: &Adam) {
    of_real!(dtype, T => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { each(nest, operands, dtype.size(), |operands, n| adam::<T>(operands.cast(), n, c)) }
    });
}

/// A step of Adam that also keeps the largest mean square.
///
/// # Safety
/// Same as for `sgd_step`.
pub unsafe fn amsgrad_step(dtype: DType, nest: &LoopNest<5>, operands: StepOperands<u8, 5>, c: &Adam) {
    of_real!(dtype, T => {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe { each(nest, operands, dtype.size(), |operands, n| amsgrad::<T>(operands.cast(), n, c)) }
    });
}
