//! Normalisation: each group of elements gets mean zero and variance one, then each channel a scale and a shift.
//!
//! Operands are row-major, seen as `[samples, groups, channels, run]`. A group is `channels * run` neighbours of one sample,
//! or, where samples are pooled, a run of each of them (and then it is one channel). Its task measures it, and changes it
//! while it still stands in the cache. There are three ways through memory: channels of several neighbours (`runs`),
//! channels of one element, side by side within a group (`lines`), and pooled ones of one element (`columns`).
//!
//! What a channel's gradients add up to is cut at fixed places, so it has the same bits for any number of threads.

mod columns;
mod lines;
mod runs;

use rushlight_core::Result;

use crate::float::Float;
use crate::reduce::moments::Moments;

/// Elements worth a task of their own.
const TASK: usize = 1 << 14;
/// Most parts in which the gradients of parameters are added up.
const PARTS: usize = 64;

#[derive(Clone, Copy)]
pub struct Groups {
    pub samples: usize,
    pub groups: usize,
    pub channels: usize,
    pub run: usize,
    /// Whether samples share their statistics; a group is then one channel.
    pub pooled: bool,
    /// Whether the mean is taken away; else the variance is the mean square.
    pub centred: bool,
    pub eps: f64,
}

/// The operand, the parameters (a number for each channel of each group), and the results: row-major memory.
pub struct Forward<T> {
    pub input: *const T,
    pub weight: *const T,
    pub bias: *const T,
    pub out: *mut T,
    /// Of each group.
    pub mean: *mut T,
    pub variance: *mut T,
}

/// What the gradients are made of, and the gradients.
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

impl Groups {
    /// Of how many groups there are statistics.
    pub fn count(&self) -> usize {
        if self.pooled { self.groups } else { self.samples * self.groups }
    }

    /// How many numbers each parameter has.
    pub fn parameters(&self) -> usize {
        self.groups * self.channels
    }

    /// Elements of a group.
    fn size(&self) -> usize {
        if self.pooled { self.samples * self.run } else { self.channels * self.run }
    }

    /// How many items of so many elements make a task.
    fn grain(&self, work: usize) -> usize {
        (TASK / work.max(1)).max(1)
    }

    /// How many items of so many elements make a part of a sum.
    fn part(&self, items: usize, work: usize) -> usize {
        items.div_ceil(PARTS).max(TASK.div_ceil(work.max(1)))
    }

    fn rstd<T: Float>(&self, variance: T) -> f64 {
        1.0 / (variance.wide() + self.eps).sqrt()
    }

    /// Mean and variance out of what was measured.
    fn statistics<T: Float>(&self, found: Moments) -> [T; 2] {
        [T::narrow(found.mean), T::narrow(found.squares / found.count)]
    }

    /// Of gradients that meet in a group, `sum` times the weights and `product` times the centred elements too: what the
    /// centred elements, and all elements, are given of them.
    fn shares(&self, rstd: f64, [sum, product]: [f64; 2]) -> [f64; 2] {
        let n = self.size() as f64;
        [-rstd * rstd * rstd * product / n, if self.centred { -rstd * sum / n } else { 0.0 }]
    }

    /// # Safety
    /// Every pointer covers its memory, and results are apart from operands. There is at least one element.
    pub unsafe fn forward<T: Float>(&self, operands: &Forward<T>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.run, self.pooled) {
                (1, true) => columns::forward(self, operands)?,
                (1, false) => lines::forward(self, operands),
                _ => runs::forward(self, operands),
            }
        }
        Ok(())
    }

    /// # Safety
    /// As for `forward`.
    pub unsafe fn backward<T: Float>(&self, operands: &Backward<T>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.run, self.pooled) {
                (1, true) => columns::backward(self, operands),
                (1, false) => lines::backward(self, operands),
                _ => runs::backward(self, operands),
            }
        }
    }
}

/// Sums side by side, as parts of a sum hold them.
fn joined<T: Float>(left: Result<Vec<T>>, right: Result<Vec<T>>) -> Result<Vec<T>> {
    let (mut left, right) = (left?, right?);
    for (own, &other) in left.iter_mut().zip(&right) {
        *own = *own + other;
    }
    Ok(left)
}
