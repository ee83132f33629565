//! Memory set aside for what nobody can refuse.
//!
//! Boxes, strings and short lists come from Rust's allocator, which ends the process where the system has nothing left, and
//! what counted handles share has no other way either.
//! Before it comes to that the reserve goes back to the system, which then has some. Whoever asks for a tensor's memory next
//! sets a reserve aside anew, and gets nothing if that fails: what runs out first is always something with an exception.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Some hundred small requests, far more than are open between two tensors.
const BYTES: usize = 1 << 20;
/// Larger ones are asked for in ways that can fail.
const SMALL: usize = 64 << 10;
/// Tensors' blocks have a larger one.
const ALIGNMENT: usize = 16;

/// The reserve, never touched, so that it takes no page; null once it is given up.
static HELD: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets a reserve aside unless there is one; whether there is one now.
#[inline]
pub fn hold() -> bool {
    !HELD.load(Ordering::Relaxed).is_null() || take()
}

#[cold]
fn take() -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: fresh pages at an address of the system's choice.
    let fresh = unsafe { libc::mmap(ptr::null_mut(), BYTES, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if fresh == libc::MAP_FAILED {
        return false;
    }
    if HELD.compare_exchange(ptr::null_mut(), fresh, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        // SAFETY: the pages were just mapped, and another thread's stand in the cell.
        unsafe { libc::munmap(fresh, BYTES) };
    }
    true
}

/// Gives the reserve back to the system; whether there was one.
#[cold]
pub(crate) fn give_up() -> bool {
    let held = HELD.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: `take` mapped these pages, nobody uses them, and the swap gave them to this thread alone.
    !held.is_null() && unsafe { libc::munmap(held, BYTES) } == 0
}

/// Gives the reserve up if this request deserves it.
#[cold]
fn give_up_for(layout: Layout) -> bool {
    layout.size() <= SMALL && layout.align() <= ALIGNMENT && give_up()
}

/// The system's allocator, with the reserve behind it.
pub struct Reserved;

// SAFETY: all is left to the system's allocator; it is asked at most twice.
unsafe impl GlobalAlloc for Reserved {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by the caller's word.
        unsafe {
            let found = System.alloc(layout);
            if found.is_null() && give_up_for(layout) { System.alloc(layout) } else { found }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            let found = System.alloc_zeroed(layout);
            if found.is_null() && give_up_for(layout) { System.alloc_zeroed(layout) } else { found }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let wanted = Layout::from_size_align(size, layout.align()).unwrap_or(layout);
        // SAFETY: as above; a request that failed has left the block as it was.
        unsafe {
            let found = System.realloc(block, layout, size);
            if found.is_null() && give_up_for(wanted) { System.realloc(block, layout, size) } else { found }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
