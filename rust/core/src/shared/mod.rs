//! Memory that several processes see: nothing has a name, nothing is left behind, nothing is reused too early.
//!
//! Blocks are 64-byte aligned slots of *arenas*. An arena is an anonymous memory file (`memfd_create`), sealed against
//! any change of its size, so a handful of descriptors carries any number of blocks and no peer can pull pages away.
//! Small blocks share an arena; a big block has one of its own, whose memory goes back the moment nobody maps it.
//!
//! **Who may still hold a slot?** The kernel answers, because it alone survives a kill at any instant. A *claim* is a
//! read lock on the slot's bytes of the memory file, held by an open file description (`F_OFD_SETLK`). Such a lock ends
//! with the last reference to its description, whether that is a descriptor, a mapping or a message in a socket:
//!
//! * Each process holds its claims on an arena through one `Lease`: a description of its own, pinned by a mapped page.
//!   A forked child inherits the page, and with it the claims of its parent, without a line of code.
//! * A message carries a description of its own (`Parcel`). While it lies in a socket the kernel holds it, so its sender
//!   may die; when the receiver has taken it into its lease, or has died, or the socket is gone, the claim is gone too.
//! * A lease only grows. To give claims up, a process takes a new lease on what it still holds and drops the old one;
//!   its children keep theirs. A slot is free when the process that made the arena finds no claim of anybody else.
//!
//! Only the process that made an arena takes slots from it; after `fork` the child holds the arena like any receiver.
//! Peers are not trusted: the arenas keep no bookkeeping in shared memory, and every handle is checked before use.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Class, Error};
use crate::fork::{ChildHook, ForkMutex, Rank};

mod arena;
mod lease;
mod moving;
mod pool;
mod ranges;
mod sys;
#[cfg(test)]
mod tests;

use arena::round_up;
pub use moving::share;
use pool::Pool;
pub use sys::Identity;

static POOL: ForkMutex<Pool> = ForkMutex::new(Rank::Arena, Pool::new());

/// Why memory could not be shared.
#[derive(Debug)]
pub enum SharedError {
    /// There is less memory than asked for, in the machine or in the control group of this process.
    NoMemory { wanted: usize, available: usize },
    /// A descriptor or handle that is not one of ours, or no longer valid.
    Refused(&'static str),
    /// The system refused a step.
    System { step: &'static str, error: io::Error },
}

impl fmt::Display for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SharedError::NoMemory { wanted, available } => {
                write!(f, "not enough memory to share: you tried to allocate {wanted} bytes, {available} are available")
            }
            SharedError::Refused(why) => write!(f, "not a handle of shared memory: {why}"),
            SharedError::System { step, error } => write!(f, "sharing memory failed: {step}: {error}"),
        }
    }
}

impl std::error::Error for SharedError {}

impl From<SharedError> for Error {
    fn from(error: SharedError) -> Error {
        let class = match error {
            SharedError::NoMemory { .. } => Class::Memory,
            // A limit on the addresses of a process, or a file system that is full.
            SharedError::System { ref error, .. }
                if matches!(error.raw_os_error(), Some(libc::ENOMEM | libc::ENOSPC)) =>
            {
                Class::Memory
            }
            _ => Class::Runtime,
        };
        Error::new(class, error.to_string())
    }
}

pub type Result<T> = std::result::Result<T, SharedError>;

/// Bytes that other processes may see. Clones name the same bytes; the last one in this process gives its claim up.
#[derive(Debug)]
pub struct SharedBlock {
    arena: Identity,
    pointer: NonNull<u8>,
    offset: usize,
    bytes: usize,
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

    /// The same for two blocks of this process exactly when they are the same bytes.
    pub fn key(&self) -> (Identity, usize) {
        (self.arena, self.offset)
    }

    fn slot(&self) -> (usize, usize) {
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

/// A new block of at least `bytes` bytes of unspecified content. Its pages exist already: using them cannot fail.
pub fn alloc(bytes: usize) -> Result<SharedBlock> {
    prepare();
    POOL.lock().alloc(bytes)
}

/// The block that a peer sent as descriptor, offset and length. The descriptor is needed for the length of the call only,
/// but as long: it carries the claim until this process has one of its own.
pub fn import(descriptor: BorrowedFd<'_>, offset: usize, bytes: usize) -> Result<SharedBlock> {
    prepare();
    POOL.lock().import(descriptor, offset, bytes)
}

/// The place of a block in a parcel: the number of the arena's descriptor, and where the block lies in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    pub arena: usize,
    pub offset: usize,
    pub bytes: usize,
}

/// The blocks that travel with one message or to one new process. It costs no descriptor until `descriptor` is asked.
#[derive(Default)]
pub struct Parcel {
    crates: Vec<Crate>,
    blocks: Vec<SharedBlock>,
}

/// The part of a parcel that lies in one arena.
struct Crate {
    arena: Identity,
    descriptor: Option<OwnedFd>,
}

impl Parcel {
    pub fn new() -> Parcel {
        Parcel::default()
    }

    /// How many descriptors the parcel needs.
    pub fn arenas(&self) -> usize {
        self.crates.len()
    }

    /// Adds a block, which lives at least as long as the parcel.
    pub fn add(&mut self, block: &SharedBlock) -> Result<Handle> {
        let known = self.crates.iter().position(|part| part.arena == block.arena);
        let arena = known.unwrap_or_else(|| {
            self.crates.push(Crate { arena: block.arena, descriptor: None });
            self.crates.len() - 1
        });
        if let Some(descriptor) = &self.crates[arena].descriptor {
            arena::claim(descriptor.as_fd(), block.slot())?;
        }
        self.blocks.push(block.clone());
        Ok(Handle { arena, offset: block.offset, bytes: block.bytes })
    }

    /// The descriptor of an arena, opened at the first call. Wherever copies of it are sent, they hold the parcel's blocks
    /// until the last of them is closed; the parcel closes its own when it is dropped.
    pub fn descriptor(&mut self, arena: usize) -> Result<BorrowedFd<'_>> {
        let part = self.crates.get_mut(arena).ok_or(SharedError::Refused("the parcel has no such arena"))?;
        if part.descriptor.is_none() {
            let identity = part.arena;
            let slots = self.blocks.iter().filter(|block| block.arena == identity).map(SharedBlock::slot);
            part.descriptor = Some(POOL.lock().arena(identity)?.lend(slots)?);
        }
        part.descriptor.as_ref().map(AsFd::as_fd).ok_or(SharedError::Refused("the parcel has no such arena"))
    }
}

/// What this process holds of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub arenas: usize,
    pub blocks: usize,
    pub bytes: usize,
    /// Address space, which is not memory.
    pub mapped: usize,
}

pub fn usage() -> Usage {
    POOL.lock().usage()
}

static HOOK: ChildHook = ChildHook::new(inherited);

/// Once in a process: room for descriptors, and the hook that makes a forked child a mere holder.
fn prepare() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if !DONE.load(Ordering::Acquire) {
        raise_descriptor_limit();
        HOOK.enrol();
        DONE.store(true, Ordering::Release);
    }
}

fn inherited() {
    POOL.lock().inherited();
}

/// Raises the soft limit of open descriptors to the hard one; where that fails the old limit stays.
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
