//! Steps of all optimizers but SGD and Adam: each is a formula over the elements of a parameter, its gradient and its state.

use rushlight_core::DType;
use rushlight_core::dtype::{bf16_, f16_};
use rushlight_core::loop_nest::LoopNest;
use rushlight_simd::multiversion;

use super::{Real, StepOperands, Wide, block_by_block, each};

/// The parameters of every step: the gradient's sign, the weight decay that is added to the gradient, and the factor of
/// the parameter itself. The formula's own parameters follow.
const COMMON: usize = 3;

/// The most parameters that a step has.
pub const NUMBERS: usize = 10;

/// How an optimizer updates a parameter and its state, given the gradient.
trait Formula<const N: usize> {
    /// The number of its own parameters.
    const OWN: usize;

    /// The elements after a step; `own` are the rule's own parameters. The gradient's new value is ignored.
    fn step<W: Wide>(elements: [W; N], own: &[W]) -> [W; N];
}

#[inline(always)]
fn zero<W: Wide>() -> W {
    W::of(0.0)
}

/// torch's `lerp`, which starts from the nearer end.
#[inline(always)]
fn mixed<W: Wide>(mean: W, g: W, share: W) -> W {
    if share < W::of(0.5) { mean + share * (g - mean) } else { g - (g - mean) * (W::of(1.0) - share) }
}

struct Adagrad;
impl Formula<3> for Adagrad {
    const OWN: usize = 2;

    #[inline(always)]
    fn step<W: Wide>([p, g, sum]: [W; 3], own: &[W]) -> [W; 3] {
        let [rate, eps] = [own[0], own[1]];
        let sum = sum + g * g;
        [p - rate * (g / (sum.root() + eps)), g, sum]
    }
}

struct Asgd;
impl Formula<3> for Asgd {
    const OWN: usize = 3;

    #[inline(always)]
    fn step<W: Wide>([p, g, mean]: [W; 3], own: &[W]) -> [W; 3] {
        let [shrink, rate, share] = [own[0], own[1], own[2]];
        let p = p * shrink - rate * g;
        [p, g, if share == W::of(1.0) { p } else { mean + (p - mean) * share }]
    }
}

struct Adamax;
impl Formula<4> for Adamax {
    const OWN: usize = 4;

    #[inline(always)]
    #[allow(clippy::eq_op)]
    fn step<W: Wide>([p, g, mean, largest]: [W; 4], own: &[W]) -> [W; 4] {
        let [share, beta2, eps, rate] = [own[0], own[1], own[2], own[3]];
        let mean = mixed(mean, g, share);
        let (before, now) = (largest * beta2, (if g < zero() { zero::<W>() - g } else { g }) + eps);
        // NaN wins.
        let largest = if before > now || before != before { before } else { now };
        [p - rate * (mean / largest), g, mean, largest]
    }
}

struct Nadam;
impl Formula<4> for Nadam {
    const OWN: usize = 7;

    #[inline(always)]
    fn step<W: Wide>([p, g, mean, square]: [W; 4], own: &[W]) -> [W; 4] {
        let [share, beta2, rest2, missing, eps, of_gradient, of_mean] =
            [own[0], own[1], own[2], own[3], own[4], own[5], own[6]];
        let mean = mixed(mean, g, share);
        let square = square * beta2 + rest2 * g * g;
        let divisor = (square / missing).root() + eps;
        [p - of_gradient * (g / divisor) - of_mean * (mean / divisor), g, mean, square]
    }
}

struct Radam;
impl Formula<4> for Radam {
    const OWN: usize = 6;

    #[inline(always)]
    fn step<W: Wide>([p, g, mean, square]: [W; 4], own: &[W]) -> [W; 4] {
        // If the mean square is not reliable yet, the factor of its root is zero.
        let [share, beta2, rest2, rate, eps, factor] = [own[0], own[1], own[2], own[3], own[4], own[5]];
        let mean = mixed(mean, g, share);
        let square = square * beta2 + rest2 * g * g;
        let trusted = if factor == zero() { W::of(1.0) } else { factor / (square.root() + eps) };
        [p - mean * rate * trusted, g, mean, square]
    }
}

struct Adadelta;
impl Formula<4> for Adadelta {
    const OWN: usize = 4;

    #[inline(always)]
    fn step<W: Wide>([p, g, square, moved]: [W; 4], own: &[W]) -> [W; 4] {
        let [rho, rest, eps, rate] = [own[0], own[1], own[2], own[3]];
        let square = square * rho + rest * g * g;
        let delta = (moved + eps).root() / (square + eps).root() * g;
        [p - rate * delta, g, square, moved * rho + rest * delta * delta]
    }
}

struct Rprop;
impl Formula<4> for Rprop {
    const OWN: usize = 4;

    #[inline(always)]
    fn step<W: Wide>([p, g, before, size]: [W; 4], own: &[W]) -> [W; 4] {
        let [shrink, grow, least, most] = [own[0], own[1], own[2], own[3]];
        let agreement = g * before;
        let turned = agreement < zero();
        let factor = if agreement > zero() { grow } else { W::of(1.0) };
        let size = size * if turned { shrink } else { factor };
        let size = if size < least { least } else { size };
        let size = if size > most { most } else { size };
        // If the sign has changed the parameter stays as it is, and the stored sign does not matter in the next step.
        let g = if turned { zero() } else { g };
        let against = if g < zero() { size } else { zero() };
        [p - if g > zero() { size } else { zero() } + against, g, g, size]
    }
}

/// RMSprop, with a mean of the gradients (`CENTRED`), a buffer of directions (`MOMENTUM`), or both.
struct Rmsprop<const CENTRED: bool, const MOMENTUM: bool>;
impl<const CENTRED: bool, const MOMENTUM: bool, const N: usize> Formula<N> for Rmsprop<CENTRED, MOMENTUM> {
    const OWN: usize = 5;

    #[inline(always)]
    fn step<W: Wide>(mut elements: [W; N], own: &[W]) -> [W; N] {
        let [alpha, rest, eps, rate, momentum] = [own[0], own[1], own[2], own[3], own[4]];
        let g = elements[1];
        let square = elements[2] * alpha + rest * g * g;
        elements[2] = square;
        let mut variance = square;
        if CENTRED {
            let mean = mixed(elements[3], g, rest);
            elements[3] = mean;
            variance = square - mean * mean;
        }
        let mut direction = g / (variance.root() + eps);
        if MOMENTUM {
            direction = elements[N - 1] * momentum + direction;
            elements[N - 1] = direction;
        }
        elements[0] = elements[0] - rate * direction;
        elements
    }
}

macro_rules! rules {
    ($($N:literal $kernel:ident $function:ident [$($name:literal $rule:ty),*])*) => {
        $(
            multiversion! {
                /// A step by one formula.
                ///
                /// # Safety
                /// All hold `n` elements.
                unsafe fn $kernel<S, T: Real, R: Formula<$N>>(operands: StepOperands<T, $N>, n: usize, numbers: &[f64; NUMBERS]) {
                    let [sign, decay, shrink, own @ ..] = numbers.map(<T::Wide as Wide>::of);
                    let decays = decay != zero();
                    let element = |mut elements: [T::Wide; $N]| {
                        elements[1] = sign * elements[1];
                        if decays {
                            elements[1] = elements[1] + decay * elements[0];
                        }
                        elements[0] = elements[0] * shrink;
                        R::step(elements, &own)
                    };
                    // SAFETY: guaranteed by the caller (see `# Safety`).
                    unsafe { block_by_block(operands, n, element) }
                }
            }

            /// A step by the rule of that name for parameter, gradient and state; `None` for other names.
            ///
            /// # Safety
            /// `nest` stays within the operands' memory, whose elements are of `dtype`.
            pub unsafe fn $function(
                rule: &str,
                dtype: DType,
                nest: &LoopNest<$N>,
                operands: StepOperands<u8, $N>,
                numbers: &[f64; NUMBERS],
            ) {
                of_real!(dtype, T => {
                    let step = match rule {
                        $($name => $kernel::<T, $rule>,)*
                        _ => return,
                    };
                    // SAFETY: guaranteed by the caller (see `# Safety`).
                    unsafe { each(nest, operands, dtype.size(), |operands, n| step(operands.cast(), n, numbers)) }
                });
            }
        )*

        /// How many tensors a rule has (a parameter, its gradient and its state), and how many numbers it takes.
        pub fn counts(rule: &str) -> Option<(usize, usize)> {
            match rule {
                $($($name => Some(($N, COMMON + <$rule as Formula<$N>>::OWN)),)*)*
                _ => None,
            }
        }
    };
}

rules! {
    3 of_three rule_of_three ["adagrad" Adagrad, "asgd" Asgd, "rmsprop" Rmsprop<false, false>]
    4 of_four rule_of_four [
        "adamax" Adamax, "nadam" Nadam, "radam" Radam, "adadelta" Adadelta, "rprop" Rprop,
        "rmsprop, centred" Rmsprop<true, false>, "rmsprop, momentum" Rmsprop<false, true>
    ]
    5 of_five rule_of_five ["rmsprop, centred, momentum" Rmsprop<true, true>]
}
