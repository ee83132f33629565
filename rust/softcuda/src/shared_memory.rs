//! Memory that the ranks of a communicator share. The process that made the communicator's id has it as a descriptor, which the
//! others open; it ends with the processes.

use std::ffi::{CString, c_int};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

/// The most ranks.
pub const MOST: usize = 64;
/// The numbers of a post, and how many there are: one of each rank for collective calls, and one of each rank for each other one.
pub const POST: usize = 12;
const POSTS: usize = MOST * (MOST + 1);
const BYTES: usize = (MOST + POSTS * POST) * 8;
const MAGIC: u64 = 0x736f_6674_6e63_636c;

/// An id: a magic number, the process and its descriptor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Id([u64; 16]);

/// Makes the memory of a new communicator.
pub fn create() -> Option<Id> {
    // SAFETY: a new descriptor of this process.
    let file = unsafe {
        let file = libc::memfd_create(c"softcuda-nccl".as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 || libc::ftruncate(file, BYTES as libc::off_t) != 0 {
            return None;
        }
        file
    };
    let mut id = [0; 16];
    id[..3].copy_from_slice(&[MAGIC, u64::from(std::process::id()), file as u64]);
    Some(Id(id))
}

/// Opens a descriptor of a process, which may be this one.
pub fn open(process: u64, file: u64) -> Option<RawFd> {
    let path = CString::new(format!("/proc/{process}/fd/{file}")).ok()?;
    // SAFETY: the path ends with a zero.
    let opened = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    (opened >= 0).then_some(opened)
}

pub struct SharedMemory(&'static [AtomicU64]);

impl SharedMemory {
    /// The memory of an id; `None` if nobody has it.
    pub fn of(id: &Id) -> Option<SharedMemory> {
        let &[MAGIC, process, file, ..] = &id.0 else { return None };
        let file = open(process, file)?;
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping of a whole file, which is never unmapped.
        let pages = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, flags, libc::MAP_SHARED, file, 0) };
        // SAFETY: the descriptor was opened above.
        unsafe { libc::close(file) };
        if pages == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the pages are mapped for ever and aligned.
        Some(SharedMemory(unsafe { std::slice::from_raw_parts(pages.cast(), BYTES / 8) }))
    }

    /// Where a rank says that it takes part.
    pub fn joined(&self, rank: usize) -> &AtomicU64 {
        &self.0[rank]
    }

    fn numbers(&self, post: usize) -> &[AtomicU64] {
        &self.0[MOST + post * POST..][..POST]
    }

    /// The post of a rank for all others.
    pub fn collective(rank: usize) -> usize {
        rank
    }

    /// The post of a rank for another one.
    pub fn message(from: usize, to: usize) -> usize {
        MOST + from * MOST + to
    }

    /// The number of the latest post.
    pub fn latest(&self, post: usize) -> u64 {
        self.numbers(post)[0].load(Ordering::Acquire)
    }

    /// The number of the latest post that was read.
    pub fn read(&self, post: usize) -> &AtomicU64 {
        &self.numbers(post)[1]
    }

    pub fn write(&self, post: usize, number: u64, values: &[u64]) {
        let numbers = self.numbers(post);
        for (to, &value) in numbers[2..].iter().zip(values) {
            to.store(value, Ordering::Relaxed);
        }
        numbers[0].store(number, Ordering::Release);
    }

    pub fn values(&self, post: usize) -> [u64; POST - 2] {
        std::array::from_fn(|n| self.numbers(post)[n + 2].load(Ordering::Relaxed))
    }
}

/// Reads memory of another process; `None` if it is gone.
pub fn fetch(process: u64, file: u64, offset: u64, bytes: usize) -> Option<Vec<u8>> {
    let mut got = vec![0_u8; bytes];
    if bytes == 0 {
        return Some(got);
    }
    let file: c_int = open(process, file)?;
    // SAFETY: the vector has so many bytes, and the descriptor was opened above.
    let count = unsafe {
        let count = libc::pread(file, got.as_mut_ptr().cast(), bytes, offset as libc::off_t);
        libc::close(file);
        count
    };
    (count == bytes as isize).then_some(got)
}
