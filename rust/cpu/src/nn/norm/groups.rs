//! What is normalised: groups of elements, operands and results.

use rushlight_core::Result;

use crate::float::Float;
use crate::reduce::moments::Moments;

/// Elements worth a task of their own.
const TASK: usize = 1 << 14;
/// The most parts in which the gradients of parameters are summed.
const PARTS: usize = 64;

#[derive(Clone, Copy)]
pub struct NormGroups {
    pub samples: usize,
    pub groups: usize,
    pub channels: usize,
    pub run: usize,
    /// Whether samples share their statistics; a group is then one channel.
    pub pooled: bool,
    /// Whether the mean is subtracted; otherwise the variance is the mean square.
    pub centred: bool,
    pub eps: f64,
}

/// The operand, the parameters (a number for each channel of each group), and the results: row-major memory.
pub struct Forward<T> {
    pub input: *const T,
    pub weight: *const T,
    pub bias: *const T,
    pub out: *mut T,
    /// The mean of each group.
    pub mean: *mut T,
    pub variance: *mut T,
}

/// The operands of the gradients, and the gradients.
pub struct Backward<T> {
    pub grad: *const T,
    pub input: *const T,
    pub mean: *const T,
    pub variance: *const T,
    pub weight: *const T,
    pub to_input: *mut T,
    pub to_weight: *mut T,
    pub to_bias: *mut T,
}

// SAFETY: operands are only read, and each task writes the results of its own groups.
unsafe impl<T> Sync for Forward<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Backward<T> {}

impl NormGroups {
    /// The number of groups with statistics.
    pub fn count(&self) -> usize {
        if self.pooled { self.groups } else { self.samples * self.groups }
    }

    /// The number of elements of each parameter.
    pub fn parameters(&self) -> usize {
        self.groups * self.channels
    }

    /// Elements of a group.
    pub fn size(&self) -> usize {
        if self.pooled { self.samples * self.run } else { self.channels * self.run }
    }

    /// How many items of `work` elements make a task.
    pub fn grain(&self, work: usize) -> usize {
        (TASK / work.max(1)).max(1)
    }

    /// How many items of `work` elements make a part of a sum.
    pub fn part(&self, items: usize, work: usize) -> usize {
        items.div_ceil(PARTS).max(TASK.div_ceil(work.max(1)))
    }

    pub fn rstd<T: Float>(&self, variance: T) -> f64 {
        1.0 / (variance.wide() + self.eps).sqrt()
    }

    /// Mean and variance from the measured moments.
    pub(super) fn statistics<T: Float>(&self, found: Moments) -> [T; 2] {
        [T::narrow(found.mean), T::narrow(found.squares / found.count)]
    }

    /// The factors of the centred elements and of all elements in the gradient, from a group's sums of gradients: `sum`
    /// is weighted by the weights, and `product` by the centred elements too.
    pub fn shares(&self, rstd: f64, [sum, product]: [f64; 2]) -> [f64; 2] {
        let n = self.size() as f64;
        [-rstd * rstd * rstd * product / n, if self.centred { -rstd * sum / n } else { 0.0 }]
    }
}

/// Adds two lists of partial sums element by element.
pub fn joined<T: Float>(left: Result<Vec<T>>, right: Result<Vec<T>>) -> Result<Vec<T>> {
    let (mut left, right) = (left?, right?);
    for (own, &other) in left.iter_mut().zip(&right) {
        *own = *own + other;
    }
    Ok(left)
}
