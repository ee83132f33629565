//! How often a tensor's elements were changed in place, and where.
//!
//! Views and `detach` share the counter of the tensor they come from. The place of the last few changes is remembered, so
//! that an error can name the first change that came after a tensor was saved.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::origin::Origin;

const REMEMBERED: usize = 4;

#[derive(Default)]
pub struct Version {
    count: AtomicU32,
    /// The origin of the change that led to version `v` stands at `v % REMEMBERED`.
    origins: [AtomicU64; REMEMBERED],
}

impl Version {
    #[inline]
    pub fn current(&self) -> u32 {
        self.count.load(Relaxed)
    }

    #[inline]
    pub fn bump(&self) {
        let version = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        self.origins[version as usize % REMEMBERED].store(Origin::here().pack(), Relaxed);
    }

    /// Where version `version` came from, or the oldest later change that is still remembered.
    pub fn origin(&self, version: u32) -> Origin {
        let oldest = self.current().saturating_sub(REMEMBERED as u32 - 1);
        Origin::unpack(self.origins[version.max(oldest) as usize % REMEMBERED].load(Relaxed))
    }
}
