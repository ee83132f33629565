//! All arenas that this process maps, under one lock.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use super::arena::{Arena, Slot, round_up};
use super::error::{Result, SharedError};
use super::sys::{self, HEADER, Identity, PAGE};
use crate::fork::{ForkMutex, Rank};
use crate::limits;

/// Address space of the first arenas for small blocks.
const ARENA: usize = 64 << 20;
/// Blocks of this size and above have an arena of their own.
const BIG: usize = 16 << 20;
/// After this many arenas both sizes double, so that the number of descriptors grows with the logarithm of the memory.
const PER_SIZE: usize = 16;
/// How many bytes may be taken between two checks of the memory available.
const UNCHECKED: usize = 1 << 20;

pub struct Pool {
    arenas: BTreeMap<Identity, Arena>,
    /// The empty arenas that are kept for the next block: one of this process, one of others.
    spare: [Option<Identity>; 2],
    /// Bytes taken from the system since the last check of the memory available.
    unchecked: usize,
}

impl Pool {
    pub const fn new() -> Pool {
        Pool { arenas: BTreeMap::new(), spare: [None; 2], unchecked: 0 }
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
            let unchecked = &mut self.unchecked;
            let mut check_available = |wanted| check_available(unchecked, wanted);
            for (&identity, arena) in &mut self.arenas {
                if let Some(slot) = arena.take(length, &mut check_available)? {
                    return Ok(block(identity, arena, slot));
                }
            }
            for (&identity, arena) in &mut self.arenas {
                if arena.pending() >= length
                    && arena.reclaim().is_ok()
                    && let Some(slot) = arena.take(length, &mut check_available)?
                {
                    return Ok(block(identity, arena, slot));
                }
            }
        }
        let size =
            if big { (HEADER + length).next_multiple_of(PAGE) } else { ARENA.saturating_mul(1 << scale.min(32)) };
        let mut arena = Arena::create(size)?;
        let unchecked = &mut self.unchecked;
        let slot = arena.take(length, &mut |wanted| check_available(unchecked, wanted))?;
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
        // An empty arena of another process is kept without claims, so that the next block need not map it again.
        let keep = arena.size() <= ARENA && slot.1 < BIG && (arena.is_own() || arena.renew().is_ok());
        let place = usize::from(arena.is_own());
        let leaves = if keep { self.spare[place].replace(identity) } else { Some(identity) };
        // The previous spare may be in use again, or be the same arena.
        if let Some(former) = leaves
            && (!keep || former != identity)
            && self.arenas.get(&former).is_some_and(Arena::is_empty)
        {
            self.arenas.remove(&former);
        }
    }

    /// In a forked child: no arena belongs to this process, and empty ones are not needed.
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

/// Checks whether `wanted` bytes are available; small amounts are checked only now and then.
fn check_available(unchecked: &mut usize, wanted: usize) -> Result<()> {
    *unchecked = unchecked.saturating_add(wanted);
    if *unchecked < UNCHECKED {
        return Ok(());
    }
    *unchecked = 0;
    let available = limits::available();
    // A little is left to the rest of the process, which would be killed otherwise.
    if wanted > available - available / 32 {
        return Err(SharedError::NoMemory { wanted, available });
    }
    Ok(())
}

pub(super) static POOL: ForkMutex<Pool> = ForkMutex::new(Rank::Arena, Pool::new());

/// Bytes that other processes may see. Clones refer to the same bytes; dropping the last one in this process releases
/// its claim.
#[derive(Debug)]
pub struct SharedBlock {
    pub(super) arena: Identity,
    pointer: NonNull<u8>,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

// SAFETY: a block is an address range that stays mapped while the value lives; nothing here forms references into it.
unsafe impl Send for SharedBlock {}
// SAFETY: see above.
unsafe impl Sync for SharedBlock {}

impl SharedBlock {
    pub fn as_ptr(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A key that is equal for two blocks of this process exactly if they are the same bytes.
    pub fn key(&self) -> (Identity, usize) {
        (self.arena, self.offset)
    }

    pub(super) fn slot(&self) -> (usize, usize) {
        (self.offset, round_up(self.bytes))
    }
}

impl Clone for SharedBlock {
    fn clone(&self) -> SharedBlock {
        POOL.lock().hold_again(self.arena, self.slot());
        SharedBlock { ..*self }
    }
}

impl Drop for SharedBlock {
    fn drop(&mut self) {
        POOL.lock().release(self.arena, self.slot());
    }
}

/// How much shared memory this process holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub arenas: usize,
    pub blocks: usize,
    pub bytes: usize,
    /// Address space, which is not memory.
    pub mapped: usize,
}
