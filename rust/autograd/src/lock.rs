//! A place for one value that several threads may read and exchange.
//!
//! The lock is four bytes and is held for a few instructions only: never while anything is allocated, dropped or called.
//! It bears the number of the process (its fork generation) that took it, so in a forked child a lock whose holder did not
//! come along counts as open. The values kept in slots are single pointers, which a fork cannot catch half-written; the one
//! wider value, a tensor's history, is changed under a registered lock besides (see `history`).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering};

use rushlight_core::fork;

pub(crate) struct Slot<T> {
    /// Zero, or one more than the generation of the process whose thread is inside.
    holder: AtomicU32,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is touched only by the holder.
unsafe impl<T: Send> Sync for Slot<T> {}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Slot::new(None)
    }
}

impl<T> Slot<T> {
    #[inline]
    pub(crate) const fn new(value: Option<T>) -> Self {
        Slot { holder: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<T>
    where
        T: Clone,
    {
        self.with(|value| value.clone())
    }

    /// Puts `value` in and hands back what was there, so that the caller drops it after the lock is open again.
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
            if round < 64 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }
}
