//! Each test runs in a forked child, so that limits, kills and the pool of the process are its own.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::arena::Arena;
use super::{Bundle, Handle, SharedBlock, SharedError, alloc, import, share, sys, usage};
use crate::block::Block;
use crate::storage::Storage;

const MIB: usize = 1 << 20;

struct Child(libc::pid_t);

impl Child {
    /// Forks; the child exits with status 0, or 1 after a panic.
    fn run(body: impl FnOnce()) -> Child {
        // SAFETY: the child runs the body and exits by `_exit`; the fork registry keeps the engine's locks usable.
        match unsafe { libc::fork() } {
            0 => {
                let failed = catch_unwind(AssertUnwindSafe(body)).is_err();
                // SAFETY: ends the process at once, as a forked child must.
                unsafe { libc::_exit(i32::from(failed)) }
            }
            pid => {
                assert!(pid > 0, "fork failed");
                Child(pid)
            }
        }
    }

    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: waits for a child of this process.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        status
    }

    fn ended(&self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: queries a child of this process.
        (unsafe { libc::waitpid(self.0, &mut status, libc::WNOHANG) } == self.0).then_some(status)
    }

    fn kill(&self) {
        // SAFETY: a signal to a child that was not waited for.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        self.wait();
    }
}

fn isolated(body: impl FnOnce()) {
    assert_eq!(Child::run(body).wait(), 0, "the test's process failed; its panic is above");
}

fn fill(block: &SharedBlock, byte: u8) {
    // SAFETY: the bytes belong to the block.
    unsafe { block.as_ptr().write_bytes(byte, block.len()) };
}

fn is_filled(block: &SharedBlock, byte: u8) -> bool {
    // SAFETY: the bytes belong to the block.
    (0..block.len()).step_by(64).all(|at| unsafe { block.as_ptr().add(at).read_volatile() } == byte)
}

fn pair() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: the array has room for both descriptors, which then have no other owner.
    unsafe {
        assert_eq!(libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

/// Sends a tag, a handle and its descriptor. Returns false if there is no receiver left.
fn send(socket: &OwnedFd, block: &SharedBlock, tag: u8) -> bool {
    let mut bundle = Bundle::new();
    let handle = bundle.add(block).unwrap();
    let descriptor = bundle.descriptor(handle.arena).unwrap();
    let mut words = [handle.offset, handle.bytes, usize::from(tag)];
    let mut part = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    let mut control = [0u64; 4];
    // SAFETY: all structures live for the call and their lengths are right.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let head = libc::CMSG_FIRSTHDR(&message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(head).cast::<i32>().write_unaligned(descriptor.as_raw_fd());
        libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) > 0
    }
}

fn receive(socket: &OwnedFd) -> Option<(SharedBlock, u8)> {
    let mut words = [0usize; 3];
    let mut part = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    let mut control = [0u64; 4];
    // SAFETY: all structures live for the call and their lengths are right; the received descriptor is new.
    let descriptor = unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        if libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) <= 0 {
            return None;
        }
        let head = libc::CMSG_FIRSTHDR(&message);
        assert!(!head.is_null(), "the message came without its descriptor");
        OwnedFd::from_raw_fd(libc::CMSG_DATA(head).cast::<i32>().read_unaligned())
    };
    Some((import(descriptor.as_fd(), words[0], words[1]).unwrap(), words[2] as u8))
}

/// Allocates so much shared memory that everything reusable is reused. Its writes would show in blocks that are still
/// held.
fn churn() {
    for _ in 0..40 {
        let blocks: Vec<SharedBlock> = (0..4).map(|_| alloc(2 * MIB - 64).unwrap()).collect();
        blocks.iter().for_each(|block| fill(block, 0xEE));
    }
}

fn mapped_files() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("memfd:rushlight").count()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn blocks_are_aligned_apart_and_reused() {
    isolated(|| {
        let blocks: Vec<SharedBlock> = (0..200).map(|n| alloc(n * 7).unwrap()).collect();
        for (n, block) in blocks.iter().enumerate() {
            assert_eq!((block.as_ptr() as usize % 64, block.len()), (0, n * 7));
            fill(block, n as u8);
        }
        assert!(blocks.iter().enumerate().all(|(n, block)| is_filled(block, n as u8)));
        assert_eq!((usage().arenas, usage().blocks), (1, 200));
        drop(blocks);
        for _ in 0..1000 {
            drop(alloc(MIB).unwrap());
        }
        assert_eq!((usage().arenas, usage().blocks, usage().bytes), (1, 0, 0));
    });
}

#[test]
fn address_space_and_descriptors_return() {
    isolated(|| {
        drop(alloc(10).unwrap());
        let (before, open) = (mapped_files(), descriptors());
        for _ in 0..20 {
            let big: Vec<SharedBlock> = (0..5).map(|_| alloc(20 * MIB).unwrap()).collect();
            let small: Vec<SharedBlock> = (0..300).map(|_| alloc(MIB).unwrap()).collect();
            assert!(usage().arenas > 5 && usage().bytes >= 400 * MIB);
            drop(small);
            drop(big);
        }
        assert_eq!((usage().arenas, mapped_files(), descriptors()), (1, before, open));
    });
}

#[test]
fn a_clone_holds_the_block() {
    isolated(|| {
        let block = alloc(1000).unwrap();
        fill(&block, 3);
        let clone = block.clone();
        assert_eq!(clone.key(), block.key());
        drop(block);
        churn();
        assert!(is_filled(&clone, 3));
    });
}

#[test]
fn many_blocks_need_few_descriptors() {
    isolated(|| {
        let limit = libc::rlimit { rlim_cur: 256, rlim_max: 256 };
        // SAFETY: lowers a limit of this process.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        let before = descriptors();
        let blocks: Vec<SharedBlock> = (0..100_000usize).map(|n| alloc(n % 5000).unwrap()).collect();
        assert!(descriptors() - before < 20, "{} descriptors for {} blocks", descriptors() - before, blocks.len());
        let mut bundle = Bundle::new();
        let handles: Vec<Handle> = blocks.iter().map(|block| bundle.add(block).unwrap()).collect();
        assert!(bundle.arenas() < 20 && handles.iter().all(|handle| handle.arena < bundle.arenas()));
        assert!((0..bundle.arenas()).all(|arena| bundle.descriptor(arena).is_ok()));
    });
}

#[test]
fn large_totals_need_few_descriptors() {
    isolated(|| {
        // A separate pool, because the process's own keeps arenas between the tests' steps.
        let mut pool = super::pool::Pool::new();
        let arenas = |pool: &super::pool::Pool| pool.usage().arenas;
        let blocks: Vec<SharedBlock> = (0..64).map(|_| pool.alloc(16 * MIB).unwrap()).collect();
        assert!(arenas(&pool) <= 40, "{} arenas", arenas(&pool));
        blocks.into_iter().for_each(std::mem::forget);
    });
}

#[test]
fn a_forked_child_keeps_what_it_inherited() {
    isolated(|| {
        let (ours, theirs) = pair();
        let blocks: Vec<SharedBlock> = (0..50).map(|_| alloc(100_000).unwrap()).collect();
        blocks.iter().for_each(|block| fill(block, 7));
        let child = Child::run(|| {
            let mut byte = 0u8;
            // SAFETY: reads one byte into a variable; the end of the parent ends the wait as well.
            unsafe { libc::read(theirs.as_raw_fd(), (&raw mut byte).cast(), 1) };
            assert!(blocks.iter().all(|block| is_filled(block, 7)));
            let own = alloc(100).unwrap();
            assert!(blocks.iter().all(|block| block.key().0 != own.key().0), "the child took from the parent's arena");
        });
        drop(blocks);
        churn();
        // SAFETY: writes one byte.
        unsafe { libc::write(ours.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        assert_eq!(child.wait(), 0);
        churn();
        assert_eq!(usage().arenas, 1);
    });
}

#[test]
fn forks_while_threads_allocate() {
    isolated(|| {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for n in 0..3 {
                let stop = &stop;
                scope.spawn(move || {
                    let mut random = Random(n);
                    let mut held = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        let block = alloc([64, 5000, MIB][random.below(3)]).unwrap();
                        fill(&block, n as u8);
                        held.push(block);
                        if held.len() > 10 {
                            held.swap_remove(random.below(10));
                        }
                        assert!(held.iter().all(|block| is_filled(block, n as u8)));
                    }
                });
            }
            for _ in 0..200 {
                let child = Child::run(|| {
                    let block = alloc(5000).unwrap();
                    fill(&block, 9);
                    assert!(is_filled(&block.clone(), 9));
                });
                assert_eq!(child.wait(), 0);
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
}

#[test]
fn a_child_without_descriptors_keeps_its_memory() {
    isolated(|| {
        let (ours, theirs) = pair();
        let block = alloc(100_000).unwrap();
        fill(&block, 9);
        let child = Child::run(|| {
            // SAFETY: closes everything but the socket, as daemons do.
            unsafe {
                libc::dup2(theirs.as_raw_fd(), 3);
                libc::close_range(4, u32::MAX, 0);
                libc::write(3, [1u8].as_ptr().cast(), 1);
                libc::read(3, [0u8].as_mut_ptr().cast(), 1);
            }
            assert!(is_filled(&block, 9));
            let mut bundle = Bundle::new();
            let handle = bundle.add(&block).unwrap();
            assert!(matches!(bundle.descriptor(handle.arena), Err(SharedError::Refused(_))));
            std::mem::forget(theirs);
        });
        let mut byte = 0u8;
        // SAFETY: reads one byte into a variable.
        unsafe { libc::read(ours.as_raw_fd(), (&raw mut byte).cast(), 1) };
        drop(block);
        churn();
        // SAFETY: writes one byte.
        unsafe { libc::write(ours.as_raw_fd(), [1u8].as_ptr().cast(), 1) };
        assert_eq!(child.wait(), 0);
    });
}

#[test]
fn a_message_in_flight_holds_its_block() {
    isolated(|| {
        let (ours, theirs) = pair();
        // The sender ends while its message is in the socket.
        assert_eq!(
            Child::run(|| {
                let block = alloc(3 * MIB).unwrap();
                fill(&block, 5);
                assert!(send(&ours, &block, 5));
            })
            .wait(),
            0
        );
        let own = alloc(3 * MIB).unwrap();
        fill(&own, 6);
        assert!(send(&ours, &own, 6));
        let key = own.key();
        drop(own);
        churn();
        let (from_the_dead, tag) = receive(&theirs).unwrap();
        assert!(is_filled(&from_the_dead, 5) && tag == 5);
        let (own, tag) = receive(&theirs).unwrap();
        assert!(is_filled(&own, 6) && tag == 6);
        assert_eq!(own.key(), key, "a block that comes home is the same block");
        churn();
        assert!(is_filled(&own, 6));
        // A message that is never received is released with its socket.
        assert!(send(&ours, &own, 6));
        drop((own, from_the_dead, ours, theirs));
        churn();
        assert_eq!((usage().arenas, usage().blocks), (2, 0));
    });
}

#[test]
fn an_open_bundle_holds_what_is_added_later() {
    isolated(|| {
        let (first, second) = (alloc(MIB).unwrap(), alloc(MIB).unwrap());
        fill(&second, 4);
        let mut bundle = Bundle::new();
        let handle = bundle.add(&first).unwrap();
        let copy = bundle.descriptor(handle.arena).unwrap().try_clone_to_owned().unwrap();
        let later = bundle.add(&second).unwrap();
        drop((bundle, first, second));
        churn();
        assert!(is_filled(&import(copy.as_fd(), later.offset, later.bytes).unwrap(), 4));
    });
}

#[test]
fn the_same_block_received_twice_is_one() {
    isolated(|| {
        let (ours, theirs) = pair();
        let block = alloc(MIB).unwrap();
        let child = Child::run(|| {
            let (first, _) = receive(&theirs).unwrap();
            let (second, _) = receive(&theirs).unwrap();
            assert_eq!((first.key(), first.as_ptr()), (second.key(), second.as_ptr()));
            drop(first);
            assert_eq!(usage().blocks, 2, "the inherited one is held too");
            fill(&second, 8);
        });
        let other = alloc(MIB).unwrap();
        assert!(send(&ours, &other, 0) && send(&ours, &other, 0));
        assert_eq!(child.wait(), 0);
        assert!(is_filled(&other, 8) && !is_filled(&block, 8));
    });
}

#[test]
fn a_storage_moves_once_and_all_its_handles_follow() {
    isolated(|| {
        let storage = Storage::heap(100).unwrap();
        let view = storage.clone();
        // SAFETY: the storage has a hundred bytes.
        unsafe { storage.pin().unwrap().as_ptr().write_bytes(7, 100) };
        let block = share(&storage).unwrap();
        assert!(view.is_shared() && view.len() == 100 && view.address() == block.as_ptr() as usize);
        assert!(is_filled(&block, 7));
        assert_eq!(share(&view).unwrap().key(), block.key());
        let empty = Storage::heap(0).unwrap();
        share(&empty).unwrap();
        assert!(empty.is_shared() && empty.is_empty());
        assert!(share(&Storage::new(Block::meta(8))).is_err());
    });
}

#[test]
fn strange_descriptors_are_refused() {
    isolated(|| {
        let refused = |descriptor: BorrowedFd<'_>, offset, bytes| {
            assert!(matches!(import(descriptor, offset, bytes), Err(SharedError::Refused(_))));
        };
        refused(std::fs::File::open("/proc/self/maps").unwrap().as_fd(), 64, 1);
        refused(pair().0.as_fd(), 64, 1);
        // SAFETY: new descriptors without another owner.
        let plain = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"x".as_ptr(), libc::MFD_ALLOW_SEALING)) };
        // SAFETY: plain calls.
        unsafe { libc::ftruncate(plain.as_raw_fd(), 1 << 16) };
        refused(plain.as_fd(), 64, 1);
        // SAFETY: plain calls.
        unsafe {
            let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
            libc::fcntl(plain.as_raw_fd(), libc::F_ADD_SEALS, seals);
        }
        refused(plain.as_fd(), 64, 1);
        let arena = sys::create(1 << 20).unwrap();
        let last = (1 << 20) - 64;
        for (offset, bytes) in [
            (0, 1),
            (65, 1),
            (last, 65),
            (1 << 20, 1),
            (usize::MAX - 63, 1),
            (64, usize::MAX),
            (64, isize::MAX as usize / 2),
            (usize::MAX & !63, usize::MAX / 2),
        ] {
            refused(arena.as_fd(), offset, bytes);
        }
        assert_eq!(usage().arenas, 0);
        drop(import(arena.as_fd(), last, 64).unwrap());
        let own = alloc(100).unwrap();
        let mut bundle = Bundle::new();
        let handle = bundle.add(&own).unwrap();
        let descriptor = bundle.descriptor(handle.arena).unwrap();
        refused(descriptor, handle.offset + 64, 1);
        refused(descriptor, handle.offset, 1000);
    });
}

#[test]
fn too_little_memory_is_an_error() {
    isolated(|| {
        for bytes in [1 << 46, usize::MAX, isize::MAX as usize] {
            assert!(matches!(alloc(bytes), Err(SharedError::NoMemory { .. })), "{bytes}");
        }
        assert_eq!(usage().arenas, 0);
        assert!(alloc(100).is_ok());
    });
}

#[test]
fn nothing_has_a_name() {
    isolated(|| {
        let block = alloc(100).unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(maps.contains("memfd:rushlight") && !maps.contains("/dev/shm"));
        drop(block);
    });
}

/// Processes that receive, hold, drop, fork and send on, killed at random moments. Every block is filled with a byte of
/// its own; a holder that sees another byte has found a slot that was reused too early.
#[test]
fn no_kill_makes_a_slot_reused_too_early() {
    isolated(|| {
        let mut random = Random(0x5EED);
        let (ours, theirs) = pair();
        let (onward, home) = pair();
        let worker = |seed: u64| {
            // Otherwise a failing test would wait for its workers forever. SAFETY: a plain call.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let mut random = Random(seed);
            let mut held: Vec<(SharedBlock, u8)> = Vec::new();
            loop {
                let Some((block, tag)) = receive(&theirs) else { return };
                held.push((block, tag));
                assert!(held.iter().all(|(block, tag)| is_filled(block, *tag)));
                match random.below(6) {
                    0 => held.clear(),
                    1 => {
                        // The choice of the dropped block decides the pattern of the claims.
                        let at = random.below(held.len());
                        held.swap_remove(at);
                    }
                    2 => {
                        let (block, tag) = &held[random.below(held.len())];
                        send(&onward, block, *tag);
                    }
                    3 if random.below(4) == 0 => {
                        // A grandchild checks what it inherited for a while.
                        let pid = Child::run(|| {
                            for _ in 0..10 {
                                assert!(held.iter().all(|(block, tag)| is_filled(block, *tag)));
                                std::thread::sleep(Duration::from_millis(1));
                            }
                        });
                        if random.below(2) == 0 {
                            assert_eq!(pid.wait(), 0);
                        }
                    }
                    _ => {}
                }
            }
        };
        let mut workers: Vec<Child> = (0..4).map(|n| Child::run(|| worker(n))).collect();
        let mut returned: Vec<(SharedBlock, u8)> = Vec::new();
        let (mut tag, mut kills) = (0u8, 0u64);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            let bytes = [64, 4000, 100_000, MIB][random.below(4)];
            let block = alloc(bytes).unwrap();
            tag = tag.wrapping_add(1);
            fill(&block, tag);
            assert!(send(&ours, &block, tag));
            drop(block);
            while readable(&home) {
                returned.extend(receive(&home));
            }
            assert!(returned.iter().all(|(block, tag)| is_filled(block, *tag)));
            if returned.len() > 20 {
                returned.clear();
            }
            if random.below(40) == 0 {
                let at = random.below(4);
                workers[at].kill();
                kills += 1;
                workers[at] = Child::run(|| worker(100 + kills));
            }
            assert!(workers.iter().all(|worker| worker.ended().is_none()), "a worker saw a wrong byte");
        }
        assert!(kills > 10, "{kills} kills only");
        workers.iter().for_each(Child::kill);
        drop((ours, theirs, onward, home, returned));
        // Grandchildren end by themselves; then everything is reusable.
        std::thread::sleep(Duration::from_millis(300));
        churn();
        assert!(usage().arenas <= 3 && usage().blocks == 0, "{:?}", usage());
    });
}

#[test]
fn a_mapping_holds_no_block() {
    isolated(|| {
        let mut own = Arena::create(2 * sys::PAGE).unwrap();
        let slot = own.take(64, &mut |_| Ok(())).unwrap().unwrap();
        let message = own.lend(std::iter::once(slot)).unwrap();
        let mut other = Arena::open(own.identity(), own.size(), message.as_fd()).unwrap();
        other.receive(slot).unwrap();
        drop(message);
        other.release(slot);
        other.renew().unwrap();
        own.release(slot);
        own.reclaim().unwrap();
        assert_eq!(own.pending(), 0, "the other side keeps the arena for the next block, and nothing in it");
    });
}

fn readable(socket: &OwnedFd) -> bool {
    let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid structure.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}
