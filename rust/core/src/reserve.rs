//! Memory that is set aside for allocations that cannot fail.
//!
//! Boxes, strings and short lists come from Rust's allocator, which aborts the process if the system has no memory
//! left; the same holds for what counted handles share. Before it aborts, the reserve is returned to the system and the
//! request is repeated. The next allocation of a tensor restores the reserve, and fails if that is impossible. So the
//! first allocation that fails is one that can raise an exception.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Enough for some hundred small requests, far more than occur between two tensors.
const BYTES: usize = 1 << 20;
/// Larger requests are made in ways that can fail.
const SMALL: usize = 64 << 10;
/// Tensors' blocks have a larger alignment.
const ALIGNMENT: usize = 16;

/// The reserve, which is never touched and so takes no page; null once it is released.
static HELD: AtomicPtr<libc::c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets a reserve aside unless there is one; returns whether there is one now.
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
        // SAFETY: the pages were just mapped; the cell holds another thread's pages.
        unsafe { libc::munmap(fresh, BYTES) };
    }
    true
}

/// Returns the reserve to the system; returns whether there was one.
#[cold]
pub(crate) fn give_up() -> bool {
    let held = HELD.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: `take` mapped these pages, they are unused, and the swap gave them to this thread alone.
    !held.is_null() && unsafe { libc::munmap(held, BYTES) } == 0
}

/// Releases the reserve if this request is one that it is meant for.
#[cold]
fn give_up_for(layout: Layout) -> bool {
    layout.size() <= SMALL && layout.align() <= ALIGNMENT && give_up()
}

/// The system's allocator, with the reserve as a fallback.
pub struct Reserved;

// SAFETY: every request is passed to the system's allocator, at most twice.
unsafe impl GlobalAlloc for Reserved {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds `GlobalAlloc`'s contract.
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
        // SAFETY: as above; a failed request has left the block unchanged.
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
