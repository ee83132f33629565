//! How often a tensor's elements were changed in place, and where.
//!
//! Views and `detach` share the counter of the tensor they come from. The locations of the last few changes are stored,
//! so that an error can name the first change after a tensor was saved.

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Ordering::Relaxed};

use crate::source_location::SourceLocation;

const REMEMBERED: usize = 4;

#[derive(Default)]
pub struct Version {
    count: AtomicU32,
    /// The source location of the change that led to version `v` is at `v % REMEMBERED`.
    source_locations: [AtomicU64; REMEMBERED],
}

impl Version {
    #[inline]
    pub fn current(&self) -> u32 {
        self.count.load(Relaxed)
    }

    #[inline]
    pub fn bump(&self) {
        // Two simultaneous changes may exchange their entries; both are counted.
        let version = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        self.source_locations[version as usize % REMEMBERED].store(SourceLocation::here().pack(), Relaxed);
    }

    /// The location of the change to `version`, or of the oldest later change that is still stored.
    pub fn source_location(&self, version: u32) -> SourceLocation {
        let oldest = self.current().saturating_sub(REMEMBERED as u32 - 1);
        SourceLocation::unpack(self.source_locations[version.max(oldest) as usize % REMEMBERED].load(Relaxed))
    }
}

/// A tensor's counter: shared with the tensor it comes from, or made when first needed. An empty counter means version
/// zero.
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
                // SAFETY: the one just made was not shared.
                drop(unsafe { Arc::from_raw(made) });
                other
            }
        };
        // SAFETY: as in `get`.
        unsafe { &*kept }
    }

    /// Uses this counter from now on, if nothing was counted before.
    pub(crate) fn follow(&self, version: Arc<Version>) {
        let followed = Arc::into_raw(version).cast_mut();
        if self.0.compare_exchange(std::ptr::null_mut(), followed, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: the reference that was not stored.
            drop(unsafe { Arc::from_raw(followed) });
        }
    }

    pub(crate) fn share(&self) -> Arc<Version> {
        let version: *const Version = self.get_or_make();
        // SAFETY: the pointer came from `Arc::into_raw`, and this counter keeps one reference.
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
            // SAFETY: the reference that `shared` or `make` stored here.
            drop(unsafe { Arc::from_raw(version) });
        }
    }
}
