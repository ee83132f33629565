//! Files as memory, and what happens when a file no longer has what its memory shows.
//!
//! Whoever shortens a file takes the pages behind its new end from everybody who mapped it; a disk that fails does the
//! same to a single page. The next access is a SIGBUS, the end of the process, and no check beforehand can rule it out.
//! So each mapping stands in a table that the handler of that signal searches: where the address is one of ours, pages
//! of zeros take the place of the lost ones, the mapping counts as *torn*, and the interrupted loop goes on. What it
//! computes is worthless, so whoever ran it asks afterwards (`Storage::check`), and nobody enters the mapping again.
//!
//! The table has no lock: a handler may find nothing closed, and a forked child needs nothing opened.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::error::{Error, Result};

/// What becomes of bytes that are written to a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writes {
    /// They stay in the process.
    Private,
    /// They go to the file.
    Through,
}

/// Memory that shows a file.
pub struct FileMap {
    start: NonNull<u8>,
    length: usize,
    place: &'static Place,
    backing: Backing,
}

enum Backing {
    /// A file that was mapped here, with its name for messages.
    Own(File, String, Writes),
    /// A mapping that somebody else made and ends when the value is dropped.
    Foreign { _owner: Box<dyn Any + Send + Sync> },
}

// SAFETY: an address range that stays mapped as long as the value lives.
unsafe impl Send for FileMap {}
// SAFETY: see above; nothing here forms references into it.
unsafe impl Sync for FileMap {}

impl FileMap {
    /// Maps the first `length` bytes of a file that has as many; `name` is for messages. Nothing is mapped for no bytes.
    pub fn new(file: File, name: String, length: usize, writes: Writes) -> io::Result<FileMap> {
        let sharing = if writes == Writes::Through { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
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
        let place = Place::take(start.as_ptr().addr(), length);
        Ok(FileMap { start, length, place, backing: Backing::Own(file, name, writes) })
    }

    /// Watches over a mapping that somebody else made.
    ///
    /// # Safety
    /// The bytes belong to one mapping, which stays as long as `owner` lives, and to which the rest of their pages belongs too.
    pub unsafe fn foreign(start: *mut u8, length: usize, owner: Box<dyn Any + Send + Sync>) -> FileMap {
        let place = Place::take(start.addr(), length);
        let start = NonNull::new(start).unwrap_or(NonNull::dangling());
        FileMap { start, length, place, backing: Backing::Foreign { _owner: owner } }
    }

    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The file, its name, and what becomes of writes, if it was mapped here.
    pub fn file(&self) -> Option<(&File, &str, Writes)> {
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

    /// Whether all that was mapped is still there; asks the file how long it is.
    pub fn check(&self) -> Result<()> {
        come_first();
        if let Backing::Own(file, ..) = &self.backing {
            // The cheapest question there is; nobody reads from a place in the file.
            // SAFETY: a plain call on an open descriptor.
            let now = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_END) };
            if now >= 0 && (now as u64) < self.length as u64 {
                self.place.torn.store(true, Ordering::Relaxed);
            }
        }
        self.check_reads()
    }

    /// Whether nothing was missing so far.
    pub fn check_reads(&self) -> Result<()> {
        if self.place.torn.load(Ordering::Relaxed) { Err(self.torn()) } else { Ok(()) }
    }

    #[cold]
    fn torn(&self) -> Error {
        let (name, now) = match &self.backing {
            Backing::Own(file, name, _) => (format!("the file {name}"), file.metadata().ok().map(|now| now.len())),
            Backing::Foreign { .. } => ("a file".to_owned(), None),
        };
        let what = match now {
            Some(now) if now < self.length as u64 => format!("it has {now} bytes now, {} were mapped", self.length),
            _ => "some of it could not be read".to_owned(),
        };
        Error::runtime(format!("{name} was changed while it was mapped: {what}"))
            .hint("Read files that others rewrite without mmap, or let them write another file and rename it over the old one.")
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        self.place.leave();
        if let Backing::Own(..) = self.backing
            && self.length > 0
        {
            // SAFETY: exactly what `new` mapped, or pages that the handler put in its place.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        }
    }
}

// --- the table ---------------------------------------------------------------------------------------------------------

static TEARS: AtomicUsize = AtomicUsize::new(0);

/// How often pages were put in the place of lost ones in this process: while it is zero no storage need be asked.
#[inline]
pub fn tears() -> usize {
    TEARS.load(Ordering::Relaxed)
}

/// Where a mapping is; free while `start` is zero.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Up to where it shows the file; zeros follow.
    shown: AtomicUsize,
    torn: AtomicBool,
}

/// A place that is being filled in.
const TAKEN: usize = usize::MAX;
const PLACES: usize = 64;

struct Table {
    places: [Place; PLACES],
    next: AtomicPtr<Table>,
}

impl Table {
    const fn new() -> Table {
        Table { places: [const { Place::free() }; PLACES], next: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The table behind this one; tables are never freed.
    fn next(&self) -> Option<&'static Table> {
        // SAFETY: null, or what `grow` leaked.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }

    /// The same, made if there is none.
    fn grow(&self) -> &'static Table {
        let fresh = Box::into_raw(Box::new(Table::new()));
        match self.next.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it was made just now and stays for ever.
            Ok(_) => unsafe { &*fresh },
            Err(other) => {
                // SAFETY: nobody saw it; the other one stays for ever.
                unsafe {
                    drop(Box::from_raw(fresh));
                    &*other
                }
            }
        }
    }
}

static TABLE: Table = Table::new();

impl Place {
    const fn free() -> Place {
        Place {
            start: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
            shown: AtomicUsize::new(0),
            torn: AtomicBool::new(false),
        }
    }

    fn take(start: usize, length: usize) -> &'static Place {
        come_first();
        let mut table = &TABLE;
        loop {
            let free =
                |place: &&Place| place.start.compare_exchange(0, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if let Some(place) = table.places.iter().find(free) {
                place.end.store(start + length, Ordering::Relaxed);
                place.shown.store(start + length, Ordering::Relaxed);
                place.torn.store(false, Ordering::Relaxed);
                place.start.store(start, Ordering::Release);
                return place;
            }
            table = table.next().unwrap_or_else(|| table.grow());
        }
    }

    fn leave(&self) {
        self.start.store(0, Ordering::Release);
    }

    /// The place of a mapping that somebody is inside of, and so does not leave meanwhile.
    fn find(address: usize) -> Option<&'static Place> {
        let mut table = Some(&TABLE);
        while let Some(here) = table {
            let around = |place: &&Place| {
                let start = place.start.load(Ordering::Acquire);
                start != 0
                    && (start..place.end.load(Ordering::Acquire)).contains(&address)
                    && place.start.load(Ordering::Acquire) == start
            };
            if let Some(place) = here.places.iter().find(around) {
                return Some(place);
            }
            table = here.next();
        }
        None
    }

    /// Puts zeros from the page of the address to the mapping's end, or to those that are there, and says whether that
    /// could be done.
    fn patch(&self, address: usize) -> bool {
        self.torn.store(true, Ordering::Relaxed);
        TEARS.fetch_add(1, Ordering::Relaxed);
        let start = address - address % PAGE.load(Ordering::Relaxed);
        let shown = self.shown.load(Ordering::Relaxed);
        if start >= shown {
            return true; // another thread has met the same page
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let at = std::ptr::with_exposed_provenance_mut::<c_void>(start);
        // SAFETY: whole pages of a mapping that is registered, and so belongs to whoever asks for zeros in its place.
        let made = unsafe { libc::mmap(at, shown - start, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        self.shown.fetch_min(start, Ordering::Relaxed);
        made != libc::MAP_FAILED
    }
}

// --- the handler -------------------------------------------------------------------------------------------------------

static PAGE: AtomicUsize = AtomicUsize::new(4096);
/// What handled the signal before: a box that is never freed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
/// The address of the last fault that was somebody else's.
static PASSED_ON: AtomicUsize = AtomicUsize::new(0);

/// Makes the handler the first that is asked, also where another was installed meanwhile (`faulthandler.enable()`): that
/// one would end the process before it asked this one.
fn come_first() {
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
        BEFORE.store(Box::into_raw(Box::new(now)), Ordering::Release);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ours;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

/// Calls nothing but system calls, and leaves `errno` as it found it.
extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid structure, and each thread has an `errno`.
    let (address, by_a_fault, errno) =
        unsafe { ((*info).si_addr().addr(), (*info).si_code > 0, libc::__errno_location()) };
    // SAFETY: as above.
    let kept = unsafe { *errno };
    let mended = by_a_fault && Place::find(address).is_some_and(|place| place.patch(address));
    if !mended {
        // SAFETY: as above.
        unsafe { pass_on(signal, by_a_fault.then_some(address), info, context) };
    }
    // SAFETY: as above.
    unsafe { *errno = kept };
}

/// Does what would have been done without us. Where the same fault comes again, or the handler before us raises the signal
/// once more, as Python's fault handler does when it has written the stack, that is the process's end.
///
/// # Safety
/// The arguments are those of a handler that the kernel called.
unsafe fn pass_on(signal: c_int, fault: Option<usize>, info: *mut libc::siginfo_t, context: *mut c_void) {
    let last = PASSED_ON.load(Ordering::Relaxed);
    let again = last != 0 && fault.is_none_or(|address| address == last);
    PASSED_ON.store(fault.unwrap_or(last), Ordering::Relaxed);
    // SAFETY: null, or a box that is never freed.
    let before = unsafe { BEFORE.load(Ordering::Acquire).as_ref() };
    let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    if handler == libc::SIG_IGN && fault.is_none() {
        return;
    }
    // SAFETY: plain calls; a handler has the signature that its flags say.
    unsafe {
        if again || handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
            // The same access fails again when the handler returns; a signal that somebody sent must be sent again.
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

    /// A file of three pages of ones, gone from its folder.
    fn ones() -> File {
        let path = std::env::temp_dir().join(format!("rushlight-mapped-{}-{:p}", std::process::id(), &PAGE));
        std::fs::write(&path, [1u8; 3 * 4096]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn a_lost_page_reads_as_zero_and_is_told() {
        for writes in [Writes::Private, Writes::Through] {
            let file = ones();
            let map = FileMap::new(file.try_clone().unwrap(), "ones".into(), 3 * 4096, writes).unwrap();
            let read = |at: usize| unsafe { map.as_ptr().add(at).read_volatile() };
            assert_eq!((read(0), read(5000), read(3 * 4096 - 1)), (1, 1, 1));
            assert!(map.check().is_ok());
            file.set_len(4096).unwrap();
            assert_eq!((read(0), read(3 * 4096 - 1), read(5000)), (1, 0, 0));
            let told = map.check_reads().unwrap_err();
            assert_eq!(
                told.sentence(),
                "the file ones was changed while it was mapped: it has 4096 bytes now, 12288 were mapped"
            );
            // What was lost stays lost.
            file.set_len(3 * 4096).unwrap();
            assert!(map.check().is_err() && tears() > 0);
            unsafe { map.as_ptr().add(5000).write_volatile(7) };
        }
    }

    #[test]
    fn a_shorter_file_is_noticed_before_it_is_read() {
        let file = ones();
        let map = FileMap::new(file.try_clone().unwrap(), "ones".into(), 3 * 4096, Writes::Private).unwrap();
        file.set_len(3 * 4096 - 1).unwrap();
        assert!(map.check_reads().is_ok() && map.check().is_err());
    }

    #[test]
    fn places_are_used_again() {
        let taken: Vec<_> = (1..=3 * PLACES).map(|n| (n << 48, Place::take(n << 48, 10))).collect();
        for (start, place) in &taken {
            assert!(std::ptr::eq(Place::find(start + 9).unwrap(), *place));
            assert!(Place::find(start + 10).is_none());
            place.leave();
            assert!(Place::find(start + 9).is_none());
        }
        let again = Place::take(1 << 48, 10);
        assert!(taken.iter().any(|(_, place)| std::ptr::eq(*place, again)));
        again.leave();
    }
}
