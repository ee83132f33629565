//! The system calls of shared memory, one function each.

use std::ffi::{CString, c_int};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use super::error::{Result, SharedError};

/// The first bytes of an arena.
const MAGIC: [u8; 8] = *b"rlarena\x01";
/// The length of the header; the first slot begins behind it.
pub const HEADER: usize = 64;
pub const PAGE: usize = 4096;
const SEALS: c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The identity of an arena: the file's place in the kernel, and a random number because kernels count inodes in 32
/// bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    pub nonce: u64,
}

fn failed(step: &'static str) -> SharedError {
    SharedError::System { step, error: io::Error::last_os_error() }
}

fn checked(step: &'static str, result: c_int) -> Result<c_int> {
    if result < 0 { Err(failed(step)) } else { Ok(result) }
}

/// Adopts a descriptor that a system call has just made.
fn adopt(step: &'static str, descriptor: c_int) -> Result<OwnedFd> {
    let descriptor = checked(step, descriptor)?;
    // SAFETY: the call succeeded, so the descriptor is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A sealed memory file of `size` bytes, of which only the header's page is present.
pub fn create(size: usize) -> Result<OwnedFd> {
    /// `MFD_NOEXEC_SEAL`: newer kernels ask for it and older ones reject it.
    const NOEXEC: libc::c_uint = 8;
    let name = c"rushlight";
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a valid string.
    let mut raw = unsafe { libc::memfd_create(name.as_ptr(), flags | NOEXEC) };
    if raw < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // SAFETY: the name is a valid string.
        raw = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    }
    let file = adopt("memfd_create", raw)?;
    let length = libc::off_t::try_from(size).map_err(|_| SharedError::Refused("the size is beyond the system's"))?;
    // SAFETY: plain calls on an open descriptor.
    unsafe {
        checked("ftruncate", libc::ftruncate(file.as_raw_fd(), length))?;
        checked("sealing", libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, SEALS))?;
    }
    reserve(file.as_fd(), &(0..PAGE))?;
    let mut header = [0u8; HEADER];
    header[..8].copy_from_slice(&MAGIC);
    // SAFETY: the buffer holds the eight bytes asked for.
    if unsafe { libc::getrandom(header[8..16].as_mut_ptr().cast(), 8, 0) } != 8 {
        return Err(failed("getrandom"));
    }
    // SAFETY: the buffer has `HEADER` bytes.
    if unsafe { libc::pwrite(file.as_raw_fd(), header.as_ptr().cast(), HEADER, 0) } != HEADER as isize {
        return Err(failed("writing the header"));
    }
    Ok(file)
}

/// Checks that a descriptor is an arena, and returns its identity and size. Everything that a peer could have forged is
/// checked.
pub fn inspect(descriptor: BorrowedFd<'_>) -> Result<(Identity, usize)> {
    let raw = descriptor.as_raw_fd();
    // SAFETY: plain calls with buffers of the right size, which all-zero bytes initialise.
    unsafe {
        let seals = libc::fcntl(raw, libc::F_GET_SEALS);
        if seals < 0 || seals & SEALS != SEALS {
            return Err(SharedError::Refused("it is not a sealed memory file"));
        }
        // Touching a page of a huge-page file can raise a signal.
        let mut system: libc::statfs = std::mem::zeroed();
        checked("fstatfs", libc::fstatfs(raw, &mut system))?;
        if system.f_type != libc::TMPFS_MAGIC {
            return Err(SharedError::Refused("it lies in an unknown file system"));
        }
        let mut status: libc::stat = std::mem::zeroed();
        checked("fstat", libc::fstat(raw, &mut status))?;
        let size = usize::try_from(status.st_size).unwrap_or(0);
        let mut header = [0u8; HEADER];
        let read = libc::pread(raw, header.as_mut_ptr().cast(), HEADER, 0);
        if read != HEADER as isize || header[..8] != MAGIC || !size.is_multiple_of(PAGE) {
            return Err(SharedError::Refused("it has no header of this version"));
        }
        let mut nonce = [0u8; 8];
        nonce.copy_from_slice(&header[8..16]);
        let identity = Identity { device: status.st_dev, inode: status.st_ino, nonce: u64::from_le_bytes(nonce) };
        Ok((identity, size))
    }
}

/// A second open file description of the same file, with locks of its own.
pub fn reopen(descriptor: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = CString::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap_or_default();
    // SAFETY: the path is a valid string.
    adopt("opening /proc/self/fd", unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) })
}

fn lock(kind: c_int, range: &Range<usize>) -> libc::flock {
    // SAFETY: all-zero bytes are a valid `flock`; the process id must be zero for locks of descriptions.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = range.start as libc::off_t;
    lock.l_len = range.len() as libc::off_t;
    lock
}

/// Read-locks bytes for the descriptor's open file description.
pub fn claim(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    let wanted = lock(libc::F_RDLCK as c_int, range);
    // SAFETY: the structure is valid for the call.
    checked("claiming a slot", unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_OFD_SETLK, &wanted) }).map(drop)
}

/// A lock of another open file description on some of the bytes.
pub fn claimed_by_another(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<Option<Range<usize>>> {
    let mut found = lock(libc::F_WRLCK as c_int, range);
    // SAFETY: the structure is valid for the call, which writes into it.
    let result = unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_OFD_GETLK, &mut found) };
    checked("asking for claims", result)?;
    if found.l_type == libc::F_UNLCK as i16 {
        return Ok(None);
    }
    let start = usize::try_from(found.l_start).unwrap_or(0);
    // A length of zero reaches to the end of the file.
    let end = if found.l_len <= 0 { usize::MAX } else { start.saturating_add(found.l_len as usize) };
    Ok(Some(start..end))
}

/// Makes pages present, so that touching them cannot fail later.
pub fn reserve(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    fallocate(descriptor, 0, range)
}

/// Returns the memory of whole pages; they read as zero until they are made present again.
pub fn punch(descriptor: BorrowedFd<'_>, range: &Range<usize>) -> Result<()> {
    fallocate(descriptor, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, range)
}

fn fallocate(descriptor: BorrowedFd<'_>, mode: c_int, range: &Range<usize>) -> Result<()> {
    loop {
        let (start, length) = (range.start as libc::off_t, range.len() as libc::off_t);
        // SAFETY: a plain call.
        if unsafe { libc::fallocate(descriptor.as_raw_fd(), mode, start, length) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ENOSPC | libc::ENOMEM) => {
                return Err(SharedError::NoMemory { wanted: range.len(), available: crate::limits::available() });
            }
            _ => return Err(failed("fallocate")),
        }
    }
}

/// A shared mapping of a file, unmapped when dropped.
pub struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: an address range that belongs to this value alone.
unsafe impl Send for Mapping {}

impl Mapping {
    pub fn new(descriptor: BorrowedFd<'_>, length: usize) -> Result<Mapping> {
        Mapping::map(descriptor, length, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// A page without access rights, which only keeps the descriptor's open file description alive.
    pub fn guard(descriptor: BorrowedFd<'_>) -> Result<Mapping> {
        Mapping::map(descriptor, PAGE, libc::PROT_NONE)
    }

    fn map(descriptor: BorrowedFd<'_>, length: usize, protection: c_int) -> Result<Mapping> {
        let raw = descriptor.as_raw_fd();
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, raw, 0) };
        if start == libc::MAP_FAILED {
            return Err(failed("mmap"));
        }
        match NonNull::new(start.cast()) {
            Some(start) => Ok(Mapping { start, length }),
            None => Err(SharedError::Refused("the system mapped it at address zero")),
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    /// The address of a byte.
    ///
    /// # Safety
    /// `offset` lies within the mapping.
    pub unsafe fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: the caller guarantees that the offset lies within the mapping.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; blocks keep the arena, and so the mapping, alive.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
