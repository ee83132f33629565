//! Normalisation: each group of elements gets mean zero and variance one, then each channel a scale and a shift.
//!
//! Operands are row-major, viewed as `[samples, groups, channels, run]`. A group is `channels * run` adjacent elements
//! of one sample, or, if samples are pooled, a run of each of them (and then it is one channel; `groups`). Its task measures it,
//! and normalises it while it is still in the cache. There are three access patterns: channels of several adjacent
//! elements (`runs`), channels of one element, adjacent within a group (`lines`), and pooled ones of one element
//! (`columns`).
//!
//! The sum of a channel's gradients is split at fixed positions, so it has the same bits for any number of threads.

mod columns;
mod groups;
mod lines;
mod runs;

use rushlight_core::Result;

pub use groups::{Backward, Forward, NormGroups};

use crate::float::Float;

impl NormGroups {
    /// # Safety
    /// Every pointer covers its memory, and results do not overlap operands. There is at least one element.
    pub unsafe fn forward<T: Float>(&self, operands: &Forward<T>) -> Result<()> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
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
    /// Same as for `forward`.
    pub unsafe fn backward<T: Float>(&self, operands: &Backward<T>) -> Result<()> {
        // SAFETY: guaranteed by the caller (see `# Safety`).
        unsafe {
            match (self.run, self.pooled) {
                (1, true) => columns::backward(self, operands),
                (1, false) => lines::backward(self, operands),
                _ => runs::backward(self, operands),
            }
        }
    }
}
