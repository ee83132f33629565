//! Moves the elements of plain tensors between any two layouts, dtypes and devices; nothing is recorded.

mod crossing;
mod within;

use rushlight_autograd::Tensor;
use rushlight_core::{Layout, Result};

/// Overwrites the view `target` of one storage with the view `source`, of the same sizes, of another. Without `wait`, a copy from
/// or to page-locked memory may still run when the function returns.
#[inline]
pub fn copy(to: &Tensor, target: &Layout, from: &Tensor, source: &Layout, wait: bool) -> Result<()> {
    if to.device() == from.device() {
        within::copy(to, target, from, source)
    } else {
        crossing::copy(to, target, from, source, wait)
    }
}
