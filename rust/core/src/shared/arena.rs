//! One arena as this process sees it: the mapping, the claims, and, in the process that made it, the free space.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use super::error::{Result, SharedError};
use super::lease::Lease;
use super::ranges::Ranges;
use super::sys::{self, HEADER, Identity, Mapping, PAGE};

/// Slots begin and end at multiples of this.
pub const ALIGN: usize = 64;
/// Pages are made present in multiples of this many bytes.
const GRAIN: usize = 64 << 10;
/// How much freed memory may accumulate before the arena checks whether other processes have released it too.
const SLACK: usize = 4 << 20;
/// How much free memory an arena keeps present for the next blocks.
const WARM: usize = 16 << 20;
/// How many claims one reclaim checks; unchecked slots stay unusable until the next.
const MOST_CHECKS: usize = 256;

/// A slot's offset and length, which is the block's length rounded up.
pub type Slot = (usize, usize);

/// A block of zero bytes has a slot all the same.
pub fn round_up(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(ALIGN)
}

fn span((offset, length): Slot) -> Range<usize> {
    offset..offset + length
}

/// Adds one more slot to a descriptor from `Arena::lend`; the caller holds the slot.
pub fn claim(lent: BorrowedFd<'_>, slot: Slot) -> Result<()> {
    sys::claim(lent, &span(slot))
}

pub struct Arena {
    identity: Identity,
    map: Mapping,
    lease: Lease,
    /// The slots that this process holds, with the number of holders.
    live: BTreeMap<Slot, usize>,
    live_bytes: usize,
    space: Option<Space>,
}

/// State that exists only in the process that made the arena.
struct Space {
    /// Held by no process.
    free: Ranges,
    /// Released here, but possibly held elsewhere.
    pending: Ranges,
    /// Without present pages.
    absent: Ranges,
    /// How many bytes must be pending before the next check of the claims.
    next_look: usize,
}

impl Arena {
    /// A new arena of this process with `size` bytes of address space.
    pub fn create(size: usize) -> Result<Arena> {
        let file = sys::create(size)?;
        let (identity, size) = sys::inspect(file.as_fd())?;
        let map = Mapping::new(file.as_fd(), size)?;
        // Everything that a child inherits of this arena is covered by its claims.
        let lease = Lease::new(file.as_fd(), iter::once(0..size))?;
        let space = Space {
            free: Ranges::from(HEADER..size),
            pending: Ranges::default(),
            absent: Ranges::from(PAGE..size),
            next_look: SLACK,
        };
        Ok(Arena { identity, map, lease, live: BTreeMap::new(), live_bytes: 0, space: Some(space) })
    }

    /// The arena behind a descriptor that `sys::inspect` has found good.
    pub fn open(identity: Identity, size: usize, descriptor: BorrowedFd<'_>) -> Result<Arena> {
        let lease = Lease::new(descriptor, [])?;
        // Of a description without claims: a mapping of the message's would hold its slots as long as the arena is mapped.
        let map = Mapping::new(sys::reopen(descriptor)?.as_fd(), size)?;
        Ok(Arena { identity, map, lease, live: BTreeMap::new(), live_bytes: 0, space: None })
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    pub fn size(&self) -> usize {
        self.map.len()
    }

    pub fn is_own(&self) -> bool {
        self.space.is_some()
    }

    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    pub fn blocks(&self) -> usize {
        self.live.len()
    }

    pub fn live_bytes(&self) -> usize {
        self.live_bytes
    }

    pub fn pending(&self) -> usize {
        self.space.as_ref().map_or(0, |space| space.pending.total())
    }

    /// The address of a slot that was taken or received, which lies within the mapping.
    pub fn at(&self, slot: Slot) -> NonNull<u8> {
        assert!(slot.0 < self.map.len());
        // SAFETY: just checked.
        unsafe { self.map.at(slot.0) }
    }

    /// Takes a free slot of this length, if there is one. `check_available` is called before pages are taken from the system.
    pub fn take(
        &mut self,
        length: usize,
        check_available: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Option<Slot>> {
        let Some(space) = &mut self.space else { return Ok(None) };
        let Some(offset) = space.free.take(length) else { return Ok(None) };
        let slot = (offset, length);
        if let Err(error) = space.populate(&self.lease, span(slot), self.map.len(), check_available) {
            space.free.insert(span(slot));
            return Err(error);
        }
        self.hold(slot);
        Ok(Some(slot))
    }

    /// Holds a slot that another process named.
    pub fn receive(&mut self, slot: Slot) -> Result<()> {
        let (offset, length) = slot;
        let fits = offset.checked_add(length).is_some_and(|end| end <= self.map.len());
        if offset < HEADER || !offset.is_multiple_of(ALIGN) || !fits {
            return Err(SharedError::Refused("the block lies outside its arena"));
        }
        if !self.live.contains_key(&slot) {
            match &mut self.space {
                Some(space) if space.pending.contains(&span(slot)) => drop(space.pending.subtract(span(slot))),
                Some(_) => return Err(SharedError::Refused("the arena of this process has no such block")),
                None => {
                    self.check_lease()?;
                    self.lease.claim(span(slot))?;
                }
            }
        }
        self.hold(slot);
        Ok(())
    }

    pub fn hold(&mut self, slot: Slot) {
        let count = self.live.entry(slot).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.live_bytes += slot.1;
        }
    }

    /// Releases a slot once. A failure to return memory early is not an error: the slot stays claimed until the next
    /// attempt.
    pub fn release(&mut self, slot: Slot) {
        match self.live.get_mut(&slot) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) => {
                self.live.remove(&slot);
                self.live_bytes -= slot.1;
                self.give_back_pages(slot);
            }
            None => debug_assert!(false, "the arena has no such block"),
        }
    }

    fn give_back_pages(&mut self, slot: Slot) {
        if let Some(space) = &mut self.space {
            space.pending.insert(span(slot));
            if space.pending.total() >= space.next_look {
                let _ = self.reclaim();
            }
        } else {
            let idle = self.lease.claimed().saturating_sub(self.live_bytes);
            if idle > SLACK / 4 && idle > self.live_bytes / 2 && !self.live.is_empty() {
                let _ = self.renew();
            }
        }
    }

    /// Takes a new lease on what is held; the old one stays with forked children.
    pub fn renew(&mut self) -> Result<()> {
        self.check_lease()?;
        let ranges: Vec<Range<usize>> = match &self.space {
            Some(_) => iter::once(0..self.map.len()).collect(),
            None => self.live.keys().map(|&slot| span(slot)).collect(),
        };
        self.lease = Lease::new(self.lease.as_fd(), ranges)?;
        Ok(())
    }

    /// Finds which of the slots that were released here no other process holds, and returns memory if there is much.
    pub fn reclaim(&mut self) -> Result<()> {
        self.renew()?;
        let Some(space) = &mut self.space else { return Ok(()) };
        if self.lease.other_claim(&(0..self.map.len()))?.is_none() {
            for range in std::mem::take(&mut space.pending).iter() {
                space.free.insert(range);
            }
        } else {
            space.free_unclaimed(&self.lease)?;
        }
        space.next_look = SLACK.max(space.pending.total() * 2);
        space.release_pages(&self.lease)
    }

    /// A file description that holds `slots` for every process that has it.
    pub fn lend(&self, slots: impl Iterator<Item = Slot>) -> Result<OwnedFd> {
        self.check_lease()?;
        let descriptor = sys::reopen(self.lease.as_fd())?;
        for slot in slots {
            claim(descriptor.as_fd(), slot)?;
        }
        Ok(descriptor)
    }

    /// In a forked child: the arena now belongs to the parent, and one claim covers everything that the child may hold.
    pub fn inherited(&mut self) {
        self.space = None;
        let first = self.live.keys().next().map(|&(offset, _)| offset);
        let end = self.live.keys().map(|&slot| span(slot).end).max();
        let covered = first.zip(end).map(|(start, end)| start..end);
        if self.check_lease().is_ok()
            && let Ok(lease) = Lease::new(self.lease.as_fd(), covered)
        {
            self.lease = lease;
        }
    }

    /// Detects a closed descriptor: programs that become daemons close all descriptors, and the numbers are reused.
    fn check_lease(&self) -> Result<()> {
        match sys::inspect(self.lease.as_fd()) {
            Ok((identity, _)) if identity == self.identity => Ok(()),
            _ => Err(SharedError::Refused("this process has closed the arena's descriptor")),
        }
    }
}

impl Space {
    fn populate(
        &mut self,
        lease: &Lease,
        range: Range<usize>,
        size: usize,
        check_available: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        let grains = range.start / GRAIN * GRAIN..range.end.next_multiple_of(GRAIN).min(size);
        let mut missing = self.absent.subtract(grains).into_iter();
        while let Some(run) = missing.next() {
            if let Err(error) = check_available(run.len()).and_then(|()| sys::reserve(lease.as_fd(), &run)) {
                iter::once(run).chain(missing).for_each(|run| self.absent.insert(run));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Moves what is no longer claimed from `pending` to `free`.
    fn free_unclaimed(&mut self, lease: &Lease) -> Result<()> {
        let mut ranges: Vec<Range<usize>> = self.pending.longest().take(MOST_CHECKS).collect();
        ranges.reverse();
        for _ in 0..MOST_CHECKS {
            let Some(range) = ranges.pop() else { break };
            match lease.other_claim(&range)? {
                None => {
                    self.pending.subtract(range.clone());
                    self.free.insert(range);
                }
                Some(held) => {
                    let sides = [range.start..held.start.min(range.end), held.end.max(range.start)..range.end];
                    ranges.extend(sides.into_iter().filter(|side| !side.is_empty()));
                }
            }
        }
        Ok(())
    }

    /// Returns the pages of free ranges to the system when more than `WARM` bytes of them are present.
    fn release_pages(&mut self, lease: &Lease) -> Result<()> {
        let absent = self.absent.total();
        if self.free.total().saturating_sub(absent) <= WARM {
            return Ok(());
        }
        let whole: Vec<Range<usize>> = self
            .free
            .iter()
            .map(|range| range.start.next_multiple_of(GRAIN)..range.end / GRAIN * GRAIN)
            .filter(|range| !range.is_empty())
            .collect();
        for range in whole {
            sys::punch(lease.as_fd(), &range)?;
            self.absent.subtract(range.clone());
            self.absent.insert(range);
        }
        Ok(())
    }
}
