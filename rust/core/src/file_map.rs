//! Memory-mapped files, and the handling of files that change while they are mapped.
//!
//! Truncating a file removes the pages behind its new end from every process that mapped it; a failing disk does the
//! same to a single page. The next access raises SIGBUS, which ends the process, and no check beforehand can rule it
//! out. So each mapping is entered in a table that the signal handler searches. If the address belongs to a mapping of
//! ours, pages of zeros replace the lost ones, the mapping is marked as truncated, and the interrupted loop continues.
//! Its result is invalid, so the caller checks afterwards (`Storage::check_reads`), and the mapping cannot be pinned
//! again.
//!
//! The table has no lock, because a signal handler must not wait for one and a forked child would have to release it.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// The destination of writes to a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapMode {
    /// Writes stay in the process.
    Private,
    /// Writes go to the file.
    Shared,
}

/// A mapping of a file.
pub struct FileMap {
    start: NonNull<u8>,
    length: usize,
    mapping: &'static Mapping,
    backing: Backing,
}

enum Backing {
    /// A file that was mapped here, with its name for messages.
    Own(File, String, MapMode),
    /// A mapping made elsewhere, which ends when the owner is dropped.
    Foreign { _owner: Box<dyn Any + Send + Sync> },
}

// SAFETY: an address range that stays mapped while the value lives.
unsafe impl Send for FileMap {}
// SAFETY: see above; nothing here forms references into it.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the first `length` bytes of a file, which must have that many; `name` is for messages. A length of zero
    /// maps nothing.
    pub fn new(file: File, name: String, length: usize, writes: MapMode) -> io::Result<FileMap> {
        let sharing = if writes == MapMode::Shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start = if length == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: a fresh mapping at an address of the kernel's choice disturbs nothing.
            let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, sharing, file.as_raw_fd(), 0) };
            match NonNull::new(start.cast::<u8>()) {
                Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => start,
                _ => return Err(io::Error::last_os_error()),
            }
        };
        let mapping = Mapping::take(start.as_ptr().addr(), length);
        Ok(FileMap { start, length, mapping, backing: Backing::Own(file, name, writes) })
    }

    /// Registers a mapping that was made elsewhere.
    ///
    /// # Safety
    /// The bytes belong to one mapping, which covers their pages entirely and stays mapped while `owner` lives.
    pub unsafe fn foreign(start: *mut u8, length: usize, owner: Box<dyn Any + Send + Sync>) -> FileMap {
        let mapping = Mapping::take(start.addr(), length);
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        FileMap { start, length, mapping, backing: Backing::Foreign { _owner: owner } }
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The file, its name, and what becomes of writes, if it was mapped here.
    pub fn file(&self) -> Option<(&File, &str, MapMode)> {
        match &self.backing {
            Backing::Own(file, name, writes) => Some((file, name, *writes)),
            Backing::Foreign { .. } => None,
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Checks that everything mapped is still present, by asking the system for the file's length.
    pub fn check(&self) -> Result<()> {
        install_handler();
        if let Backing::Own(file, ..) = &self.backing {
            // `lseek` is the cheapest way to get the length; the file's position is not used otherwise. SAFETY: a plain
            // call on an open descriptor.
            let now = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
            if now >= 0 && (now as u64) < self.length as u64 {
                self.mapping.truncated.store(true, Ordering::Relaxed);
            }
        }
        self.check_reads()
    }

    /// Checks that no page was missing so far.
    pub fn check_reads(&self) -> Result<()> {
        if self.mapping.truncated.load(Ordering::Relaxed) { Err(self.truncated()) } else { Ok(()) }
    }

    #[cold]
    fn truncated(&self) -> Error {
        let (name, now) = match &self.backing {
            Backing::Own(file, name, _) => (format!("the file {name}"), file.metadata().ok().map(|now| now.len())),
            Backing::Foreign { .. } => ("a file".to_owned(), None),
        };
        let what = match now {
            Some(now) if now < self.length as u64 => format!("it has {now} bytes now, {} were mapped", self.length),
            _ => "some of it could not be read".to_owned(),
        };
        Error::runtime(format!("{name} was changed while it was mapped: {what}"))
            .hint("Don't rewrite a mapped file in place: write a new file and rename it over the old one.")
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        self.mapping.leave();
        if let Backing::Own(..) = self.backing
            && self.length > 0
        {
            // SAFETY: exactly what `new` mapped, or pages with which the handler replaced it.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

// --- the table ---------------------------------------------------------------------------------------------------------

static TRUNCATIONS: AtomicUsize = AtomicUsize::new(0);

/// How often lost pages were replaced in this process. While it is zero, no storage needs a check.
#[inline]
pub fn truncations() -> usize {
    TRUNCATIONS.load(Ordering::Relaxed)
}

/// The address range of a mapping; the entry is free while `start` is zero.
struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    /// The end of the file's contents within the mapping; zeros follow.
    file_end: AtomicUsize,
    truncated: AtomicBool,
}

/// Marks an entry that is being filled in.
const CLAIMED: usize = usize::MAX;
const ENTRIES: usize = 64;

struct Table {
    entries: [Mapping; ENTRIES],
    next: AtomicPtr<Table>,
}

impl Table {
    const fn new() -> Table {
        Table { entries: [const { Mapping::free() }; ENTRIES], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The next table; tables are never freed.
    fn next(&self) -> Option<&'static Table> {
        // SAFETY: null, or what `grow` leaked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The next table, which is created if there is none.
    fn grow(&self) -> &'static Table {
        let fresh = Box::into_raw(Box::new(Table::new()));
        match self.next.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was made just now and is never freed.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: `fresh` was not published, and the other table is never freed.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*other
                }
            }
        }
    }
}

static TABLE: Table = Table::new();

impl Mapping {
    const fn free() -> Mapping {
        Mapping {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            file_end: AtomicUsize::new(0),
            truncated: AtomicBool::new(false),
        }
    }

    fn take(start: usize, length: usize) -> &'static Mapping {
        install_handler();
        let mut table = &TABLE;
        loop {
            let free = |mapping: &&Mapping| {
                mapping.start.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            if let Some(mapping) = table.entries.iter().find(free) {
                mapping.end.store(start + length, Ordering::Relaxed);
                mapping.file_end.store(start + length, Ordering::Relaxed);
                mapping.truncated.store(false, Ordering::Relaxed);
                mapping.start.store(start, Ordering::Release);
                return mapping;
            }
            table = table.next().unwrap_or_else(|| table.grow());
        }
    }

    fn leave(&self) {
        self.start.store(0, Ordering::Release);
    }

    /// The entry of the mapping that contains an address. A thread that accesses the mapping keeps it registered
    /// meanwhile.
    fn find(address: usize) -> Option<&'static Mapping> {
        let mut table = Some(&TABLE);
        while let Some(here) = table {
            let around = |mapping: &&Mapping| {
                let start = mapping.start.load(Ordering::Acquire);
                start != 0
                    && (start..mapping.end.load(Ordering::Acquire)).contains(&address)
                    && mapping.start.load(Ordering::Acquire) == start
            };
            if let Some(mapping) = here.entries.iter().find(around) {
                return Some(mapping);
            }
            table = here.next();
        }
        None
    }

    /// Maps zeros from the page of the address to the mapping's end, or to zeros already there; returns whether that
    /// succeeded.
    fn patch(&self, address: usize) -> bool {
        self.truncated.store(true, Ordering::Relaxed);
        TRUNCATIONS.fetch_add(1, Ordering::Relaxed);
        let start = address - address % PAGE.load(Ordering::Relaxed);
        let file_end = self.file_end.load(Ordering::Relaxed);
        if start >= file_end {
            return true; // another thread faulted on the same page
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let at = std::ptr::with_exposed_provenance_mut::<c_void>(start);
        // SAFETY: whole pages of a registered mapping, whose owner allows them to be replaced by zeros.
        let made = unsafe { libc::mmap(at, file_end - start, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        self.file_end.fetch_min(start, Ordering::Relaxed);
        made != libc::MAP_FAILED
    }
}

// --- the handler -------------------------------------------------------------------------------------------------------

static PAGE: AtomicUsize = AtomicUsize::new(4096);
/// The handler that was installed before: a box that is never freed.
static PREVIOUS_HANDLER: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
/// The address of the last fault that was passed on.
static LAST_PASSED_FAULT: AtomicUsize = AtomicUsize::new(0);

/// Installs the handler in front of all others, also if another was installed meanwhile (`faulthandler.enable()`),
/// which would end the process before this one runs.
fn install_handler() {
    // SAFETY: plain calls with valid structures, which all-zero bytes initialise.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        let ours = handle as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut now) != 0 || now.sa_sigaction == ours {
            return;
        }
        if let Ok(page) = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)) {
            PAGE.store(page, Ordering::Relaxed);
        }
        PREVIOUS_HANDLER.store(Box::into_raw(Box::new(now)), Ordering::Release);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// Makes system calls only, and preserves `errno`.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid structure, and each thread has an `errno`.
    let (address, by_a_fault, errno) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code > 0, libc::__errno_location()) };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let mended = by_a_fault && Mapping::find(address).is_some_and(|mapping| mapping.patch(address));
    if !mended {
        // SAFETY: as above.
        unsafe { call_previous_handler(signal, by_a_fault.then_some(address), info, context) };
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Does what would have happened without this handler. If the same fault repeats, or if the previous handler raises the
/// signal again, as Python's fault handler does after it has written the stack, the process ends.
///
/// # Safety
/// The arguments are those of a signal handler that the kernel called.
unsafe fn call_previous_handler(signal: c_int, fault: Option<usize>, info: *mut libc::siginfo_t, context: *mut c_void) {
    let last = LAST_PASSED_FAULT.load(Ordering::Relaxed);
    let again = last != 0 && fault.is_none_or(|address| address == last);
    LAST_PASSED_FAULT.store(fault.unwrap_or(last), Ordering::Relaxed);
    // SAFETY: null, or a box that is never freed.
    let before = unsafe { PREVIOUS_HANDLER.load(Ordering::Acquire).as_ref() };
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if handler == libc::SIG_IGN && fault.is_none() {
        return;
    }
    // SAFETY: plain calls; a handler has the signature that its flags declare.
    unsafe {
        if again || handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
            // The same access faults again when the handler returns, but a signal that was sent must be sent again.
            if fault.is_none() {
                libc::raise(signal);
            }
        } else if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of three pages of ones, already unlinked.
    fn ones() -> File {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("rushlight-mapped-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [1u8; 3 * 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn a_lost_page_reads_as_zero_and_is_told() {
        for writes in [MapMode::Private, MapMode::Shared] {
            let file = ones();
            let map = FileMap::new(file.try_clone().unwrap(), "ones".into(), 3 * 4096, writes).unwrap();
            let read = |at: usize| unsafe { map.as_ptr().add(at).read_volatile() };
            assert_eq!((read(0), read(5000), read(3 * 4096 - 1)), (1, 1, 1));
            assert!(map.check().is_ok());
            file.set_len(4096).unwrap();
            assert_eq!((read(0), read(3 * 4096 - 1), read(5000)), (1, 0, 0));
            let error = map.check_reads().unwrap_err();
            assert_eq!(
                error.sentence(),
                "the file ones was changed while it was mapped: it has 4096 bytes now, 12288 were mapped"
            );
            // Lost pages stay lost.
            file.set_len(3 * 4096).unwrap();
            assert!(map.check().is_err() && truncations() > 0);
            unsafe { map.as_ptr().add(5000).write_volatile(7) };
        }
    }

    #[test]
    fn a_shorter_file_is_noticed_before_it_is_read() {
        let file = ones();
        let map = FileMap::new(file.try_clone().unwrap(), "ones".into(), 3 * 4096, MapMode::Private).unwrap();
        file.set_len(3 * 4096 - 1).unwrap();
        assert!(map.check_reads().is_ok() && map.check().is_err());
    }

    #[test]
    fn places_are_used_again() {
        let taken: Vec<_> = (1..=3 * ENTRIES).map(|n| (n << 48, Mapping::take(n << 48, 10))).collect();
        for (start, mapping) in &taken {
            assert!(std::ptr::eq(Mapping::find(start + 9).unwrap(), *mapping));
            assert!(Mapping::find(start + 10).is_none());
            mapping.leave();
            assert!(Mapping::find(start + 9).is_none());
        }
        let again = Mapping::take(1 << 48, 10);
        assert!(taken.iter().any(|(_, mapping)| std::ptr::eq(*mapping, again)));
        again.leave();
    }
}
