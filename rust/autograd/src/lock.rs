//! A slot for one value that several threads may read and exchange.
//!
//! The lock is four bytes and is held for a few instructions only, never during an allocation, a drop or a call. It
//! stores the fork generation of the process that took it, so in a forked child a lock held by a thread of the parent
//! counts as free. The values in slots are single pointers, which a fork cannot interrupt half-written; the one wider
//! value, a tensor's history, is in addition changed under a registered lock (see `history`).

use rushlight_core::fork;
use rushlight_core::sync::atomic::{AtomicU32, Ordering};
use rushlight_core::sync::{self, UnsafeCell, hint, thread};

pub(crate) struct Slot<T> {
    /// Zero, or one more than the generation of the process whose thread holds the lock.
    holder: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is accessed only by the thread that holds the lock.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot::new(None)
    }
}

impl<T> Slot<T> {
    sync::const_fn! {
        #[inline]
        pub(crate) const fn new(value: Option<T>) -> Self {
            Slot { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.clone())
    }

    /// Stores `value` and returns the old one, so that the caller drops it after the lock is released.
    #[inline]
    pub(crate) fn replace(&self, value: Option<T>) -> Option<T> {
        self.with(|place| std::mem::replace(place, value))
    }

    /// Runs `f`, which must neither allocate, drop, block nor panic.
    #[inline]
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Option<T>) -> R) -> R {
        let mine = fork::generation() as u32 + 1;
        if self.holder.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.wait(mine);
        }
        // SAFETY: this thread holds the lock.
        let result = f(unsafe { &mut *self.value.get() });
        self.holder.store(0, Ordering::Release);
        result
    }

    #[cold]
    fn wait(&self, mine: u32) {
        for round in 0u32.. {
            let seen = self.holder.load(Ordering::Relaxed);
            if seen != mine && self.holder.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return;
            }
            if round < 64 { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}
