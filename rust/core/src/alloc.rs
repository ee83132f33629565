//! Allocates memory for tensors: 64-byte aligned, and reused before more is requested from the system.
//!
//! Sizes are rounded up to classes, four to a power of two. Small free blocks stay in a list of the thread that freed
//! them. Large free blocks stay in one list for the process, because fresh pages cost more than most arithmetic on
//! them. The total size of cached blocks is bounded.

use std::alloc::{Layout as MemoryLayout, alloc, dealloc};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use once_cell::race::OnceNonZeroUsize;

use crate::error::{Error, Result};
use crate::fork::{ForkMutex, Rank};
use crate::{limits, memory_record, reserve};

pub const ALIGNMENT: usize = 64;
const SMALL: usize = 64 << 10;
/// Blocks of this size and above are mapped directly from the system and aligned for huge pages.
const MAPPED: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;
const SMALL_CLASSES: usize = 44;
/// The most bytes of one small class that a thread caches: enough for the results of a training step.
const KEPT: usize = 256 << 10;
/// The number of blocks that a thread may cache whatever their size.
const FEW: usize = 32;
/// Whether blocks wait and are used again, in sizes of classes. In a build for a sanitizer they come from the system one by one, as
/// long as asked for, so that it sees whatever is read after a block's end or beyond it.
const REUSES: bool = !cfg!(sanitized);

/// Rounds a size up to its class.
#[inline]
const fn class_size(bytes: usize) -> usize {
    if bytes <= ALIGNMENT {
        return ALIGNMENT;
    }
    let eighth = bytes.next_power_of_two() >> 3;
    let step = if eighth < ALIGNMENT { ALIGNMENT } else { eighth };
    bytes.next_multiple_of(step)
}

/// The number of a small class, from its size.
#[inline]
pub(crate) const fn small_class(bytes: usize) -> usize {
    let size = class_size(bytes);
    let power = size.next_power_of_two();
    let eighth = power >> 3;
    let step = if eighth < ALIGNMENT { ALIGNMENT } else { eighth };
    let level = power.trailing_zeros() as usize - 6;
    level * 4 + (power - size) / step
}

/// The size of the blocks of a small class.
#[inline]
const fn small_size(class: usize) -> usize {
    let power = ALIGNMENT << (class / 4);
    let eighth = power >> 3;
    power - (class % 4) * if eighth < ALIGNMENT { ALIGNMENT } else { eighth }
}

/// Free blocks of one size. The first word of each block holds the address of the next, so a list needs no extra
/// memory.
#[derive(Clone, Copy)]
struct List {
    first: *mut u8,
    count: u32,
}

impl List {
    const EMPTY: List = List { first: std::ptr::null_mut(), count: 0 };
    /// A list that keeps no block: it seems to have more than any list may have.
    const CLOSED: List = List { first: std::ptr::null_mut(), count: u32::MAX };

    #[inline]
    fn pop(&mut self) -> Option<NonNull<u8>> {
        let first = NonNull::new(self.first)?;
        // SAFETY: `push` wrote the next block's address there.
        self.first = unsafe { first.cast().read() };
        self.count -= 1;
        Some(first)
    }

    /// # Safety
    /// The block is at least one word long and nothing else uses it.
    #[inline]
    unsafe fn push(&mut self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block has room for a pointer and is unused.
        unsafe { block.cast().write(self.first) };
        self.first = block.as_ptr();
        self.count += 1;
    }
}

struct Local {
    lists: [List; SMALL_CLASSES],
}

impl Local {
    /// Returns all blocks to the system.
    fn clear(&mut self) {
        for (class, list) in self.lists.iter_mut().enumerate() {
            while let Some(block) = list.pop() {
                // SAFETY: a list holds only blocks of its own class.
                unsafe { system_free(block, small_size(class)) };
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.lists[0].count == List::CLOSED.count
    }

    /// Has every request and every return take its slow path, where it is recorded.
    fn close(&mut self) {
        if !self.is_closed() {
            self.clear();
            self.lists = [List::CLOSED; SMALL_CLASSES];
        }
    }

    fn reopen(&mut self) {
        if self.is_closed() {
            self.lists = [List::EMPTY; SMALL_CLASSES];
        }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.clear();
    }
}

thread_local! {
    static LOCAL: UnsafeCell<Local> = const {
        UnsafeCell::new(Local { lists: [List::EMPTY; SMALL_CLASSES] })
    };
}

#[derive(Default)]
struct Large {
    /// Cached blocks by class size.
    blocks: BTreeMap<usize, Vec<FreeBlock>>,
    bytes: usize,
}

struct FreeBlock(NonNull<u8>);
// SAFETY: a cached block has no other owner.
unsafe impl Send for FreeBlock {}

static LARGE: ForkMutex<Large> = ForkMutex::new(Rank::FreeList, Large { blocks: BTreeMap::new(), bytes: 0 });

/// How many bytes of large blocks may be cached: an eighth of the memory that the machine or a control group grants to
/// this process and those that share it.
fn large_limit() -> usize {
    static LIMIT: OnceNonZeroUsize = OnceNonZeroUsize::new();
    LIMIT.get_or_init(|| NonZeroUsize::MIN.saturating_add(limits::most() / 8)).get()
}

/// A block of at least `bytes` bytes for a tensor, uninitialised.
#[inline]
pub fn allocate(bytes: usize) -> Result<NonNull<u8>> {
    take::<true>(bytes)
}

/// The same for work of the engine, which no record of memory tells of.
pub fn allocate_scratch(bytes: usize) -> Result<NonNull<u8>> {
    take::<false>(bytes)
}

/// A block that is recorded if `TOLD`.
#[inline]
fn take<const TOLD: bool>(bytes: usize) -> Result<NonNull<u8>> {
    if !REUSES {
        return take_unlisted::<TOLD>(bytes, bytes.max(1));
    }
    if bytes <= SMALL {
        let class = small_class(bytes);
        return take_small(class).map_or_else(|| take_unlisted::<TOLD>(bytes, small_size(class)), Ok);
    }
    if bytes > isize::MAX as usize - HUGE_PAGE {
        return Err(out_of_memory(bytes));
    }
    let size = class_size(bytes);
    // The reserve is also restored when a cached block is available.
    reserve::hold();
    let block = take_large(size).or_else(|| allocate_or_retry(size)).ok_or_else(|| out_of_memory(bytes))?;
    if TOLD && memory_record::is_on() {
        memory_record::taken(block.addr().get(), bytes);
    }
    Ok(block)
}

/// A block of the system for a request of `bytes` bytes that no list of this thread has.
#[cold]
fn take_unlisted<const TOLD: bool>(bytes: usize, size: usize) -> Result<NonNull<u8>> {
    let block = allocate_or_retry(size).ok_or_else(|| out_of_memory(bytes))?;
    if !memory_record::is_on() {
        with_local(Local::reopen);
    } else if TOLD {
        memory_record::taken(block.addr().get(), bytes);
    }
    Ok(block)
}

/// Has the record of memory see what this thread takes and gives back, until the record ends.
#[cold]
pub fn record_here() {
    with_local(Local::close);
}

/// Calls a function with this thread's lists, unless the thread is ending.
fn with_local(run: fn(&mut Local)) {
    // SAFETY: the cell belongs to this thread and no reference outlives this closure.
    let _ = LOCAL.try_with(|local| run(unsafe { &mut *local.get() }));
}

/// A block of a small class for a value whose allocation cannot fail: it falls back on the reserve.
#[inline]
pub(crate) fn allocate_value(class: usize) -> Option<NonNull<u8>> {
    take_small(class).or_else(|| allocate_with_reserve(small_size(class)))
}

/// A cached block of a small class from this thread's list.
#[inline]
fn take_small(class: usize) -> Option<NonNull<u8>> {
    if !REUSES {
        return None;
    }
    // SAFETY: the cell belongs to this thread and no reference outlives this closure.
    LOCAL.try_with(|local| unsafe { (&mut *local.get()).lists[class].pop() }).ok().flatten()
}

/// Requests memory from the system; on failure releases the cached blocks and tries once more.
#[cold]
fn allocate_or_retry(size: usize) -> Option<NonNull<u8>> {
    let attempt = || if reserve::hold() { system_allocate(size) } else { None };
    attempt().or_else(|| {
        release_cached();
        attempt()
    })
}

/// Requests memory from the system; on failure releases the reserve and the cached blocks and tries once more.
#[cold]
fn allocate_with_reserve(size: usize) -> Option<NonNull<u8>> {
    system_allocate(size).or_else(|| {
        reserve::give_up();
        release_cached();
        system_allocate(size)
    })
}

/// Frees a block.
///
/// # Safety
/// `pointer` came from `allocate(bytes)` or `allocate_scratch(bytes)`, and is no longer used.
#[inline]
pub unsafe fn free(pointer: NonNull<u8>, bytes: usize) {
    // SAFETY: the caller guarantees that the block came from `allocate` with this size and is unused.
    unsafe {
        if !REUSES {
            free_unlisted(pointer, bytes.max(1));
        } else if bytes <= SMALL {
            let class = small_class(bytes);
            if !keep_small(pointer, class) {
                free_unlisted(pointer, small_size(class));
            }
        } else {
            if memory_record::is_on() {
                memory_record::given_back(pointer.addr().get());
            }
            if !keep_large(pointer, class_size(bytes)) {
                system_free(pointer, class_size(bytes));
            }
        }
    }
}

/// Returns a block that no list of this thread keeps.
///
/// # Safety
/// `pointer` came from `system_allocate(size)` and is no longer used.
#[cold]
unsafe fn free_unlisted(pointer: NonNull<u8>, size: usize) {
    if memory_record::is_on() {
        memory_record::given_back(pointer.addr().get());
    } else {
        with_local(Local::reopen);
    }
    // SAFETY: guaranteed by the caller (see `# Safety`).
    unsafe { system_free(pointer, size) };
}

/// Frees a block of a small class.
///
/// # Safety
/// `pointer` came from `allocate_value(class)`, and is no longer used.
#[inline]
pub(crate) unsafe fn free_small(pointer: NonNull<u8>, class: usize) {
    // SAFETY: the caller guarantees that the block is of this class and unused.
    unsafe {
        if !keep_small(pointer, class) {
            system_free(pointer, small_size(class));
        }
    }
}

/// Puts a block into this thread's list of its class, if there is room.
///
/// # Safety
/// The block is of that class, and nothing uses it.
#[inline]
unsafe fn keep_small(pointer: NonNull<u8>, class: usize) -> bool {
    let kept = LOCAL.try_with(|local| {
        // SAFETY: the cell belongs to this thread and no reference outlives this closure.
        let list = unsafe { &mut (&mut *local.get()).lists[class] };
        let count = list.count as usize;
        let room = REUSES && (count < FEW || count * small_size(class) < KEPT);
        if room {
            // SAFETY: the caller guarantees that the block is of this class and unused.
            unsafe { list.push(pointer) };
        }
        room
    });
    kept == Ok(true)
}

/// Capacity for `count` values, for lists whose length the program chooses. A failed allocation is an error and does
/// not abort.
pub fn list<T>(count: usize) -> Result<Vec<T>> {
    let bytes = count.saturating_mul(size_of::<T>());
    let mut list = Vec::new();
    if !limits::allow(bytes) || !reserve::hold() || list.try_reserve_exact(count).is_err() {
        return Err(out_of_memory(bytes));
    }
    Ok(list)
}

/// `count` times the same value.
pub fn filled<T: Clone>(value: T, count: usize) -> Result<Vec<T>> {
    let mut list = self::list(count)?;
    list.resize(count, value);
    Ok(list)
}

/// The values of an iterator whose length is known.
pub fn collected<T>(values: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = self::list(values.len())?;
    list.extend(values);
    Ok(list)
}

/// Returns an error if `bytes` bytes are not available. Called before work whose own allocations cannot fail; the
/// memory is allocated and freed untouched.
pub fn check_available(bytes: Option<usize>) -> Result<()> {
    let room = list::<u8>(bytes.unwrap_or(usize::MAX))?;
    // The compiler may remove an allocation whose result is unused.
    std::hint::black_box(&room);
    Ok(())
}

fn take_large(size: usize) -> Option<NonNull<u8>> {
    let mut large = LARGE.lock();
    let list = large.blocks.get_mut(&size)?;
    let pointer = list.pop()?.0;
    if list.is_empty() {
        large.blocks.remove(&size);
    }
    large.bytes -= size;
    Some(pointer)
}

fn keep_large(pointer: NonNull<u8>, size: usize) -> bool {
    let mut large = LARGE.lock();
    if large.bytes + size > large_limit() {
        return false;
    }
    large.bytes += size;
    large.blocks.entry(size).or_default().push(FreeBlock(pointer));
    true
}

/// Returns every cached large block to the system.
pub fn release_cached() {
    let taken = {
        let mut large = LARGE.lock();
        large.bytes = 0;
        std::mem::take(&mut large.blocks)
    };
    for (size, list) in taken {
        for block in list {
            // SAFETY: the block was cached with this class size.
            unsafe { system_free(block.0, size) };
        }
    }
}

fn system_allocate(size: usize) -> Option<NonNull<u8>> {
    if !limits::allow(size) {
        return None;
    }
    if size < MAPPED || !REUSES {
        let layout = MemoryLayout::from_size_align(size, ALIGNMENT).ok()?;
        // SAFETY: the layout has a size above zero.
        return NonNull::new(unsafe { alloc(layout) });
    }
    map_aligned(size)
}

/// Anonymous pages that begin at a huge page's boundary. The unaligned ends are unmapped at once.
fn map_aligned(size: usize) -> Option<NonNull<u8>> {
    let size = size.next_multiple_of(4096);
    let span = size.checked_add(HUGE_PAGE)?;
    // SAFETY: a fresh anonymous mapping; the parts that are unmapped lie inside it and outside the result.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = libc::mmap(std::ptr::null_mut(), span, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
        if start == libc::MAP_FAILED {
            return None;
        }
        let start = start as usize;
        let aligned = start.next_multiple_of(HUGE_PAGE);
        if aligned > start {
            libc::munmap(start as *mut libc::c_void, aligned - start);
        }
        let tail = start + span - (aligned + size);
        if tail > 0 {
            libc::munmap((aligned + size) as *mut libc::c_void, tail);
        }
        libc::madvise(aligned as *mut libc::c_void, size, libc::MADV_HUGEPAGE);
        NonNull::new(aligned as *mut u8)
    }
}

/// # Safety
/// `pointer` came from `system_allocate(size)`.
unsafe fn system_free(pointer: NonNull<u8>, size: usize) {
    // SAFETY: the caller guarantees the size, and the size decides which of the two calls made the block.
    unsafe {
        if size < MAPPED || !REUSES {
            dealloc(pointer.as_ptr(), MemoryLayout::from_size_align_unchecked(size, ALIGNMENT));
        } else {
            libc::munmap(pointer.as_ptr().cast(), size.next_multiple_of(4096));
        }
    }
}

/// torch's sentence for a failed allocation.
#[cold]
pub fn out_of_memory(bytes: usize) -> Error {
    Error::runtime(format!(
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate {bytes} bytes. Error code 12 (Cannot allocate memory)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_is_asked_and_waste_little() {
        let mut seen = std::collections::HashMap::new();
        for bytes in 1..=SMALL {
            let size = class_size(bytes);
            assert!(size >= bytes && size.is_multiple_of(ALIGNMENT));
            assert!(bytes <= 512 || size <= bytes + bytes / 3, "{bytes} -> {size}");
            let class = small_class(size);
            assert!(class < SMALL_CLASSES, "{size} -> {class}");
            assert_eq!(*seen.entry(class).or_insert(size), size);
            assert_eq!(small_size(class), size);
        }
    }

    #[test]
    #[cfg(not(sanitized))]
    fn a_freed_block_comes_back() {
        for bytes in [10, 5000, 200_000, 9 << 20] {
            let first = allocate(bytes).unwrap();
            assert_eq!(first.as_ptr() as usize % ALIGNMENT, 0);
            unsafe { free(first, bytes) };
            let second = allocate(bytes).unwrap();
            assert_eq!(first, second);
            unsafe { free(second, bytes) };
        }
        release_cached();
    }

    #[test]
    fn a_record_tells_of_the_blocks_of_its_threads() {
        use crate::memory_record::{Moment, start, stop};
        fn here() -> Moment {
            thread_local! { static OWN: u8 = const { 0 } }
            Moment { time: 1, thread: OWN.with(|own| std::ptr::from_ref(own).addr() as u64) }
        }
        let earlier = allocate(100).unwrap();
        start(here);
        record_here();
        let (small, large) = (allocate(100).unwrap(), allocate(1 << 20).unwrap());
        unsafe {
            free(earlier, 100);
            free(large, 1 << 20);
            free(small, 100);
        }
        let changes = stop(0).list.into_iter().filter(|change| change.moment.thread == here().thread);
        assert_eq!(changes.map(|change| change.bytes).collect::<Vec<_>>(), [100, 1 << 20, -(1 << 20), -100]);
        // Afterwards the thread uses its blocks again.
        let first = allocate(100).unwrap();
        unsafe { free(first, 100) };
        let second = allocate(100).unwrap();
        assert!(!REUSES || first == second);
        unsafe { free(second, 100) };
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(allocate(1 << 60).is_err());
        assert!(list::<u64>(1 << 60).is_err() && filled(0u8, 1 << 60).is_err() && collected(0..1usize << 60).is_err());
        assert!(check_available(Some(1 << 60)).is_err() && check_available(None).is_err());
        assert!(check_available(Some(1 << 10)).is_ok() && collected(0..3usize).is_ok_and(|list| list == [0, 1, 2]));
    }
}
