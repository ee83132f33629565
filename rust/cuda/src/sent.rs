//! The storages that other processes may use. Each stays until the pipe that receivers hold has no writer any more; see `ipc`.

use std::os::fd::{AsRawFd, OwnedFd};

use rushlight_core::Storage;
use rushlight_core::fork::{self, ForkMutex, Rank};

/// A storage that other processes may use, and the end of the pipe that tells when they do not.
struct Sent {
    ended: OwnedFd,
    storage: Storage,
    generation: u64,
}

static SENT: ForkMutex<Vec<Sent>> = ForkMutex::new(Rank::Tables, Vec::new());

/// Keeps a storage until the pipe of which `ended` is the reading end has no writer.
pub fn keep(storage: &Storage, ended: OwnedFd) {
    SENT.lock().push(Sent { ended, storage: storage.clone(), generation: fork::generation() });
}

/// Gives up the storages that no other process uses any more.
pub fn collect() {
    let finished: Vec<Sent> = {
        let mut sent = SENT.lock();
        let mut polled: Vec<libc::pollfd> =
            sent.iter().map(|one| libc::pollfd { fd: one.ended.as_raw_fd(), events: 0, revents: 0 }).collect();
        // SAFETY: the list has the length that is passed.
        if unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, 0) } <= 0 {
            return;
        }
        let mut ended = polled.into_iter().map(|one| one.revents & libc::POLLHUP != 0);
        let (finished, kept) = std::mem::take(&mut *sent).into_iter().partition(|_| ended.next().unwrap_or(false));
        *sent = kept;
        finished
    };
    // Dropped without the lock, because the allocator has one of its own.
    drop(finished);
}

/// Whether other processes may use the block at an address.
pub fn has(address: usize) -> bool {
    SENT.lock().iter().any(|one| one.storage.address() == address)
}

/// How many storages other processes may use.
pub fn count() -> usize {
    SENT.lock().iter().filter(|one| one.generation == fork::generation()).count()
}
