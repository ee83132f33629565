//! Memory shared between processes: it has no names, leaves nothing behind, and is never reused too early.
//!
//! Blocks are 64-byte aligned slots of *arenas*. An arena is an anonymous memory file (`memfd_create()`), sealed against
//! any change of its size, so a handful of descriptors carries any number of blocks and no peer can remove pages. Small
//! blocks share an arena; a big block has one of its own, whose memory is freed when the last process unmaps it.
//!
//! **Which processes may still hold a slot?** The kernel keeps this record, because it survives a kill at any instant.
//! A *claim* is a read lock on the slot's bytes of the memory file, held by an open file description (`F_OFD_SETLK`).
//! Such a lock ends with the last reference to its description, whether that is a descriptor, a mapping or a message in
//! a socket:
//!
//! * Each process holds its claims on an arena through one `Lease`: a description of its own, pinned by a mapped page.
//!   A forked child inherits the page, and with it the claims of its parent, without any code.
//! * A message carries a description of its own (`Bundle`). While it is in a socket the kernel holds it, so its sender
//!   may end; when the receiver has taken it into its lease, or has ended, or the socket is closed, the claim ends too.
//! * A lease only grows. To release claims, a process takes a new lease on what it still holds and drops the old one;
//!   its children keep theirs. A slot is free when the process that made the arena finds no claim of another process.
//!
//! Only the process that made an arena takes slots from it; after `fork` the child holds the arena like any receiver.
//! Peers are not trusted: the arenas keep no bookkeeping in shared memory, and every handle is checked before use.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fork::ChildHook;

mod arena;
mod error;
mod lease;
mod moving;
mod pool;
mod ranges;
mod sys;
#[cfg(test)]
mod tests;

pub use error::{Result, SharedError};
pub use moving::share;
use pool::POOL;
pub use pool::{SharedBlock, Usage};
pub use sys::Identity;

/// A new block of at least `bytes` bytes of unspecified content. Its pages are present, so using them cannot fail.
pub fn alloc(bytes: usize) -> Result<SharedBlock> {
    prepare();
    POOL.lock().alloc(bytes)
}

/// The block that a peer sent as descriptor, offset and length. The descriptor is needed only during the call, but for
/// all of it: it carries the claim until this process has one of its own.
pub fn import(descriptor: BorrowedFd<'_>, offset: usize, bytes: usize) -> Result<SharedBlock> {
    prepare();
    POOL.lock().import(descriptor, offset, bytes)
}

/// The position of a block in a bundle: the number of the arena's descriptor, and the offset in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    pub arena: usize,
    pub offset: usize,
    pub bytes: usize,
}

/// The blocks that travel with one message or to one new process. No descriptor is opened until `descriptor` is called.
#[derive(Default)]
pub struct Bundle {
    parts: Vec<ArenaPart>,
    blocks: Vec<SharedBlock>,
}

/// The part of a bundle in one arena.
struct ArenaPart {
    arena: Identity,
    descriptor: Option<OwnedFd>,
}

impl Bundle {
    pub fn new() -> Bundle {
        Bundle::default()
    }

    /// How many descriptors the bundle needs.
    pub fn arenas(&self) -> usize {
        self.parts.len()
    }

    /// Adds a block, which lives at least as long as the bundle.
    pub fn add(&mut self, block: &SharedBlock) -> Result<Handle> {
        let known = self.parts.iter().position(|part| part.arena == block.arena);
        let arena = known.unwrap_or_else(|| {
            self.parts.push(ArenaPart { arena: block.arena, descriptor: None });
            self.parts.len() - 1
        });
        if let Some(descriptor) = &self.parts[arena].descriptor {
            arena::claim(descriptor.as_fd(), block.slot())?;
        }
        self.blocks.push(block.clone());
        Ok(Handle { arena, offset: block.offset, bytes: block.bytes })
    }

    /// The descriptor of an arena, opened at the first call. Copies of it that are sent elsewhere hold the bundle's
    /// blocks until the last of them is closed; the bundle closes its own when it is dropped.
    pub fn descriptor(&mut self, arena: usize) -> Result<BorrowedFd<'_>> {
        let part = self.parts.get_mut(arena).ok_or(SharedError::Refused("the bundle has no such arena"))?;
        if part.descriptor.is_none() {
            let identity = part.arena;
            let slots = self.blocks.iter().filter(|block| block.arena == identity).map(SharedBlock::slot);
            part.descriptor = Some(POOL.lock().arena(identity)?.lend(slots)?);
        }
        part.descriptor.as_ref().map(AsFd::as_fd).ok_or(SharedError::Refused("the bundle has no such arena"))
    }
}

pub fn usage() -> Usage {
    POOL.lock().usage()
}

static HOOK: ChildHook = ChildHook::new(inherited);

/// Runs once in a process: raises the limit of descriptors and installs the hook for forked children.
fn prepare() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.load(Ordering::Acquire) {
        raise_descriptor_limit();
        HOOK.register();
        DONE.store(true, Ordering::Release);
    }
}

fn inherited() {
    POOL.lock().inherited();
}

/// Raises the soft limit of open descriptors to the hard one; if that fails the old limit stays.
pub fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid structure.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}
