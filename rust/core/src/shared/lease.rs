//! The claims of this process on one arena: an open file description of its own whose read locks are the claims.
//!
//! A mapped page pins the description, in addition to the descriptor, so that a forked child that closes all its
//! descriptors keeps its claims as long as it keeps the memory. Locks are only added: the description may be shared
//! with forked children, and removing a lock here would remove theirs.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::error::Result;
use super::sys::{self, Mapping};

pub struct Lease {
    descriptor: OwnedFd,
    _page: Mapping,
    /// A lower bound of the bytes that are claimed.
    claimed: usize,
}

impl Lease {
    /// A new description of the same arena with claims on `ranges`.
    pub fn new(arena: BorrowedFd<'_>, ranges: impl IntoIterator<Item = Range<usize>>) -> Result<Lease> {
        let descriptor = sys::reopen(arena)?;
        let page = Mapping::guard(descriptor.as_fd())?;
        let mut lease = Lease { descriptor, _page: page, claimed: 0 };
        for range in ranges {
            lease.claim(range)?;
        }
        Ok(lease)
    }

    pub fn claim(&mut self, range: Range<usize>) -> Result<()> {
        sys::claim(self.as_fd(), &range)?;
        self.claimed = self.claimed.saturating_add(range.len());
        Ok(())
    }

    pub fn claimed(&self) -> usize {
        self.claimed
    }

    /// A claim on part of `range` that another lease holds.
    pub fn other_claim(&self, range: &Range<usize>) -> Result<Option<Range<usize>>> {
        sys::claimed_by_another(self.as_fd(), range)
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
