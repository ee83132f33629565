//! All arenas that this process maps, under one lock.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use super::arena::{Arena, Slot};
use super::sys::{HEADER, Identity, PAGE};
use super::{Result, SharedBlock, SharedError, Usage, round_up, sys};
use crate::limits;

/// Address space of the first arenas for small blocks.
const ARENA: usize = 64 << 20;
/// From this size on a block has an arena of its own.
const BIG: usize = 16 << 20;
/// After so many arenas both sizes double, so that the number of descriptors grows with the logarithm of the memory.
const PER_SIZE: usize = 16;
/// How much may be taken between two looks at what is available.
const UNSEEN: usize = 1 << 20;

pub struct Pool {
    arenas: BTreeMap<Identity, Arena>,
    /// The empty arenas that are kept for the next block: one of this process, one of others.
    spare: [Option<Identity>; 2],
    /// Bytes taken from the system since the last look at what is available.
    unseen: usize,
}

impl Pool {
    pub const fn new() -> Pool {
        Pool { arenas: BTreeMap::new(), spare: [None; 2], unseen: 0 }
    }

    pub fn alloc(&mut self, bytes: usize) -> Result<SharedBlock> {
        if bytes > isize::MAX as usize / 2 {
            return Err(SharedError::NoMemory { wanted: bytes, available: limits::available() });
        }
        let length = round_up(bytes);
        let scale = self.arenas.len() / PER_SIZE;
        let block = |identity: Identity, arena: &Arena, slot: Slot| SharedBlock {
            arena: identity,
            pointer: arena.at(slot),
            offset: slot.0,
            bytes,
        };
        let big = length >= BIG.saturating_mul(1 << scale.min(32));
        if !big {
            let unseen = &mut self.unseen;
            let mut admit = |wanted| admit(unseen, wanted);
            for (&identity, arena) in &mut self.arenas {
                if let Some(slot) = arena.take(length, &mut admit)? {
                    return Ok(block(identity, arena, slot));
                }
            }
            for (&identity, arena) in &mut self.arenas {
                if arena.pending() >= length
                    && arena.reclaim().is_ok()
                    && let Some(slot) = arena.take(length, &mut admit)?
                {
                    return Ok(block(identity, arena, slot));
                }
            }
        }
        let size =
            if big { (HEADER + length).next_multiple_of(PAGE) } else { ARENA.saturating_mul(1 << scale.min(32)) };
        let mut arena = Arena::create(size)?;
        let unseen = &mut self.unseen;
        let slot = arena.take(length, &mut |wanted| admit(unseen, wanted))?;
        let slot = slot.ok_or(SharedError::Refused("a new arena is too small"))?;
        let identity = arena.identity();
        let block = block(identity, &arena, slot);
        self.arenas.insert(identity, arena);
        Ok(block)
    }

    pub fn import(&mut self, descriptor: BorrowedFd<'_>, offset: usize, bytes: usize) -> Result<SharedBlock> {
        if bytes > isize::MAX as usize / 2 {
            return Err(SharedError::Refused("the block lies outside its arena"));
        }
        let (identity, size) = sys::inspect(descriptor)?;
        let slot = (offset, round_up(bytes));
        let pointer = match self.arenas.get_mut(&identity) {
            Some(arena) => {
                arena.receive(slot)?;
                arena.at(slot)
            }
            None => {
                let mut arena = Arena::open(identity, size, descriptor)?;
                arena.receive(slot)?;
                let pointer = arena.at(slot);
                self.arenas.insert(identity, arena);
                pointer
            }
        };
        Ok(SharedBlock { arena: identity, pointer, offset, bytes })
    }

    pub fn arena(&self, identity: Identity) -> Result<&Arena> {
        self.arenas.get(&identity).ok_or(SharedError::Refused("its arena is gone"))
    }

    pub fn hold_again(&mut self, identity: Identity, slot: Slot) {
        if let Some(arena) = self.arenas.get_mut(&identity) {
            arena.hold(slot);
        }
    }

    pub fn release(&mut self, identity: Identity, slot: Slot) {
        let Some(arena) = self.arenas.get_mut(&identity) else { return };
        arena.release(slot);
        if !arena.is_empty() {
            return;
        }
        // An empty arena of others is kept without claims, so that the next block need not map it again.
        let keep = arena.size() <= ARENA && slot.1 < BIG && (arena.is_own() || arena.renew().is_ok());
        let place = usize::from(arena.is_own());
        let leaves = if keep { self.spare[place].replace(identity) } else { Some(identity) };
        // The former spare may be in use again, or be the very same.
        if let Some(former) = leaves
            && (!keep || former != identity)
            && self.arenas.get(&former).is_some_and(Arena::is_empty)
        {
            self.arenas.remove(&former);
        }
    }

    /// In a forked child: nothing here is this process's own, and what is empty is not needed.
    pub fn inherited(&mut self) {
        self.arenas.retain(|_, arena| !arena.is_empty());
        self.arenas.values_mut().for_each(Arena::inherited);
        self.spare = [None; 2];
    }

    pub fn usage(&self) -> Usage {
        let mut usage = Usage { arenas: self.arenas.len(), ..Usage::default() };
        for arena in self.arenas.values() {
            usage.blocks += arena.blocks();
            usage.bytes += arena.live_bytes();
            usage.mapped += arena.size();
        }
        usage
    }
}

/// Looks whether `wanted` bytes are to be had, for small amounts only now and then.
fn admit(unseen: &mut usize, wanted: usize) -> Result<()> {
    *unseen = unseen.saturating_add(wanted);
    if *unseen < UNSEEN {
        return Ok(());
    }
    *unseen = 0;
    let available = limits::available();
    // A little is left to the rest of the process, which would be killed otherwise.
    if wanted > available - available / 32 {
        return Err(SharedError::NoMemory { wanted, available });
    }
    Ok(())
}
