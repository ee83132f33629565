//! A value whose accesses loom checks for races.

use loom::cell::UnsafeCell;

/// A number that several threads use: that each use is ordered with every write is checked.
pub struct Number(UnsafeCell<usize>);

// SAFETY: loom refuses what would be a race.
unsafe impl Sync for Number {}
// SAFETY: a number.
unsafe impl Send for Number {}

impl Number {
    pub fn new() -> Self {
        Number(UnsafeCell::new(0))
    }

    #[track_caller]
    pub fn add(&self, more: usize) {
        // SAFETY: see above.
        self.0.with_mut(|number| unsafe { *number += more });
    }

    #[track_caller]
    pub fn get(&self) -> usize {
        // SAFETY: see above.
        self.0.with(|number| unsafe { *number })
    }
}
