//! How often a tensor's elements were changed in place, and where.
//!
//! Views and `detach` share the counter of the tensor they come from. The place of the last few changes is remembered, so
//! that an error can name the first change that came after a tensor was saved.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

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
        // Two changes at once may exchange their places; the count misses neither.
        let version = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        self.origins[version as usize % REMEMBERED].store(Origin::here().pack(), Relaxed);
    }

    /// Where version `version` came from, or the oldest later change that is still remembered.
    pub fn origin(&self, version: u32) -> Origin {
        let oldest = self.current().saturating_sub(REMEMBERED as u32 - 1);
        Origin::unpack(self.origins[version.max(oldest) as usize % REMEMBERED].load(Relaxed))
    }
}

/// A tensor's counter: given by the tensor it comes from, or made when first needed. None yet means version zero.
#[derive(Default)]
pub(crate) struct Counter(AtomicPtr<Version>);

impl Counter {
    #[inline]
    pub(crate) fn shared(version: Arc<Version>) -> Counter {
        Counter(AtomicPtr::new(Arc::into_raw(version).cast_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&Version> {
        // SAFETY: the pointer is null or an `Arc`'s that this counter owns until it is dropped.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    #[inline]
    pub(crate) fn get_or_make(&self) -> &Version {
        match self.get() {
            Some(version) => version,
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> &Version {
        let made = Arc::into_raw(Arc::<Version>::default()).cast_mut();
        let kept = match self.0.compare_exchange(std::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(other) => {
                // SAFETY: nobody else saw the one just made.
                drop(unsafe { Arc::from_raw(made) });
                other
            }
        };
        // SAFETY: as in `get`.
        unsafe { &*kept }
    }

    pub(crate) fn share(&self) -> Arc<Version> {
        let version: *const Version = self.get_or_make();
        // SAFETY: the pointer came from `Arc::into_raw`, and this counter keeps one count.
        unsafe {
            Arc::increment_strong_count(version);
            Arc::from_raw(version)
        }
    }
}

impl Drop for Counter {
    #[inline]
    fn drop(&mut self) {
        let version = *self.0.get_mut();
        if !version.is_null() {
            // SAFETY: the count that `shared` or `make` put here.
            drop(unsafe { Arc::from_raw(version) });
        }
    }
}
