//! The claims of this process on one arena: an open file description of its own whose read locks are the claims.
//!
//! The description is pinned by a mapped page rather than by its descriptor alone, so that a forked child that closes all
//! its descriptors keeps its claims as long as it keeps the memory. Locks are only ever added: the description may be
//! shared with forked children, and a lock taken away here would be taken away there.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Result;
use super::sys::{self, Mapping};

pub struct Lease {
    descriptor: OwnedFd,
    _page: Mapping,
    /// How many bytes are claimed; at least that many.
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

    /// A claim on part of `range` that does not come from this lease.
    pub fn rival(&self, range: &Range<usize>) -> Result<Option<Range<usize>>> {
        sys::claimed_by_another(self.as_fd(), range)
    }
}

impl AsFd for Lease {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
