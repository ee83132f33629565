//! Parallel work that may run out of memory.

use std::ops::Range;
use std::sync::OnceLock;

use rushlight_core::{Error, Result};

/// [`rushlight_par::parallel_for`] over ranges whose work may fail: all of them run, and the first error is returned.
pub fn parallel_for(count: usize, grain: usize, work: impl Fn(Range<usize>) -> Result<()> + Sync) -> Result<()> {
    let failed = OnceLock::<Error>::new();
    rushlight_par::parallel_for(count, grain, |stretch| {
        if let Err(error) = work(stretch) {
            let _ = failed.set(error);
        }
    });
    failed.into_inner().map_or(Ok(()), Err)
}
