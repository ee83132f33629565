//! Blocks of memory that are taken and given back, for programs that want to hear of them (`torch.cuda._gpu_trace`).
//!
//! Blocks come and go on any thread, under locks of the engine. They are noted here, and a function of Python's main thread tells of
//! them soon after.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use rushlight_core::fork::{ForkMutex, Rank};

/// A block: whether it was taken, or given back, and where it begins.
pub type Change = (bool, usize);

/// What asks the main thread to tell of the changes; null while nobody listens.
static WAKE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static CHANGES: ForkMutex<Vec<Change>> = ForkMutex::new(Rank::MemoryRecord, Vec::new());
/// Whether the main thread was asked and has not looked yet.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// Begins to note changes, and calls a function after the first one since the last `take`, and again if it answers that it was in vain.
pub fn begin(wake: fn() -> bool) {
    WAKE.store(wake as *mut (), Ordering::Release);
}

#[inline]
pub fn note(is_taken: bool, address: usize) {
    let wake = WAKE.load(Ordering::Acquire);
    if !wake.is_null() && address != 0 {
        tell(is_taken, address, wake);
    }
}

#[cold]
fn tell(is_taken: bool, address: usize, wake: *mut ()) {
    CHANGES.lock().push((is_taken, address));
    if !IS_ASKED.swap(true, Ordering::AcqRel) {
        // SAFETY: `begin` stored a function of this type.
        let is_heard = unsafe { std::mem::transmute::<*mut (), fn() -> bool>(wake)() };
        if !is_heard {
            IS_ASKED.store(false, Ordering::Release);
        }
    }
}

/// The changes since the last call.
pub fn take() -> Vec<Change> {
    IS_ASKED.store(false, Ordering::Release);
    std::mem::take(&mut CHANGES.lock())
}
