//! The calls of `core/src/shared/sys.rs`, each a step of its own that loom puts before or after those of other processes.

use std::cell::Cell;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::NonNull;

use loom::sync::atomic::{AtomicUsize, Ordering};

use super::error::Result;
use super::kernel;
use crate::sync;

pub use kernel::{HEADER, Identity, PAGE};

sync::statics! {
    static STEPS: AtomicUsize = AtomicUsize::new(0);
}

/// One step of the kernel: all processes see these in one order.
pub fn step() {
    STEPS.fetch_add(1, Ordering::AcqRel);
}

sync::thread_local! {
    /// The descriptor of this process's last lease, and whether the next lease is to be on its very description.
    static LEASE: Cell<(RawFd, bool)> = const { Cell::new((-1, false)) };
}

/// Makes the next lease of this process one on the same open file description, as a forked child inherits it.
pub fn inherit_next_lease() {
    LEASE.with(|own| own.set((-1, true)));
}

pub fn last_lease() -> RawFd {
    LEASE.with(Cell::get).0
}

pub fn create(size: usize) -> Result<OwnedFd> {
    kernel::create(size)
}

pub fn inspect(descriptor: BorrowedFd<'_>) -> Result<(Identity, usize)> {
    kernel::inspect(descriptor)
}

pub fn reopen(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    if LEASE.with(|own| own.replace((own.get().0, false)).1) {
        return Ok(descriptor.try_clone_to_owned().expect("a descriptor is free"));
    }
    kernel::reopen(descriptor)
}

pub fn claim(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    step();
    kernel::claim(descriptor, range)
}

pub fn claimed_by_another(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<Option<Range<usize>>> {
    step();
    kernel::claimed_by_another(descriptor, range)
}

pub fn reserve(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    kernel::reserve(descriptor, range)
}

pub fn punch(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    step();
    kernel::punch(descriptor, range)
}

pub struct Mapping(kernel::Mapping);

impl Mapping {
    pub fn new(descriptor: BorrowedFd<'_>, length: usize) -> Result<Mapping> {
        kernel::Mapping::new(descriptor, length).map(Mapping)
    }

    /// What only leases ask for.
    pub fn guard(descriptor: BorrowedFd<'_>) -> Result<Mapping> {
        LEASE.with(|own| own.set((descriptor.as_fd().as_raw_fd(), own.get().1)));
        kernel::Mapping::guard(descriptor).map(Mapping)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// As in `kernel`.
    pub unsafe fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: by the caller's word.
        unsafe { self.0.at(offset) }
    }
}

impl Drop for Mapping {
    /// The end of a mapping may end claims.
    fn drop(&mut self) {
        step();
    }
}
