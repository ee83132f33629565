//! The fork registry: every registered lock is taken before `fork` and released on both sides. A process-wide lock is
//! registered unless nothing else can run while it is held; `tests/test_project.py` lists these exceptions.
//!
//! A thread that holds a lock does not exist in the child, so an unregistered lock could stay locked there forever.
//! `prepare` takes the registered locks in the order of their rank and the registry's own lock last, because a thread
//! that holds a lock may still register another. Parent and child release them in reverse. Hooks that rebuild something
//! in the child (the thread pool forgets its dead workers) run after the release.

use std::ops::{Deref, DerefMut};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{self, Mutex, MutexGuard, Once, PoisonError, UnsafeCell};

/// The order in which locks are taken before a fork. A thread that holds a lock may take only locks of a higher rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rank {
    Graph = 1,
    Profiler = 2,
    Random = 3,
    Tables = 4,
    Pool = 5,
    Arena = 6,
    FreeList = 7,
    MemoryRecord = 8,
}

#[derive(Clone)]
struct Entry {
    rank: Rank,
    lock: &'static dyn Registered,
}

trait Registered: Sync {
    fn acquire(&self);
    /// # Safety
    /// Called only after `acquire` by the same thread (in the child: by the thread that forked).
    unsafe fn release(&self);
}

sync::statics! {
    static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
    static CHILD_HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
    static INSTALLED: Once = Once::new();
    static GENERATION: AtomicU64 = AtomicU64::new(0);
    static OPEN: Slot = Slot(UnsafeCell::new(None));
}

/// The number of forks between the first process that used rushlight and this one.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// A function that every forked child runs after the locks are released. Declare it as a `static` and enrol it before
/// it is needed.
pub struct ChildHook {
    hook: fn(),
    registered: AtomicBool,
}

impl ChildHook {
    sync::const_fn! {
        pub const fn new(hook: fn()) -> Self {
            ChildHook { hook, registered: AtomicBool::new(false) }
        }
    }

    #[inline]
    pub fn register(&self) {
        if !self.registered.load(Ordering::Acquire) {
            self.register_hook();
        }
    }

    #[cold]
    fn register_hook(&self) {
        install();
        let mut hooks = CHILD_HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.registered.swap(true, Ordering::AcqRel) {
            hooks.push(self.hook);
        }
    }
}

#[cfg(debug_assertions)]
sync::thread_local! {
    /// The number of registered locks that this thread holds.
    static HELD: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Panics in development builds if this thread holds a registered lock. Called before anything that may wait for the
/// GIL or run Python code: another thread may hold the GIL while it waits for the lock.
#[inline]
#[track_caller]
pub fn assert_no_lock_held() {
    #[cfg(debug_assertions)]
    assert!(HELD.with(std::cell::Cell::get) == 0, "a registered lock is held where Python code may run");
}

/// Counts a lock that this thread takes or releases. A thread that ends has no counter any more.
#[cfg(debug_assertions)]
fn count_held(taken: bool) {
    let _ = HELD.try_with(|held| held.set(if taken { held.get() + 1 } else { held.get() - 1 }));
}

/// A process-wide lock that is held across `fork`. Declare it as a `static`; it registers itself on first use.
pub struct ForkMutex<T> {
    rank: Rank,
    registered: AtomicBool,
    mutex: Mutex<()>,
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a guard of `mutex`, `held` only between `acquire` and `release`.
unsafe impl<T: Send> Sync for ForkMutex<T> {}

impl<T> ForkMutex<T> {
    sync::const_fn! {
        pub const fn new(rank: Rank, value: T) -> Self {
            ForkMutex {
                rank,
                registered: AtomicBool::new(false),
                mutex: Mutex::new(()),
                held: UnsafeCell::new(None),
                value: UnsafeCell::new(value),
            }
        }
    }
}

impl<T: Send + 'static> ForkMutex<T> {
    pub fn lock(&'static self) -> ForkGuard<'static, T> {
        if !self.registered.load(Ordering::Acquire) {
            self.register();
        }
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(debug_assertions)]
        count_held(true);
        ForkGuard { value: &self.value, _guard: guard }
    }

    #[cold]
    fn register(&'static self) {
        install();
        let mut entries = entries();
        if !self.registered.swap(true, Ordering::AcqRel) {
            entries.push(Entry { rank: self.rank, lock: self });
            entries.sort_by_key(|entry| entry.rank);
        }
    }
}

impl<T: Send + 'static> Registered for ForkMutex<T> {
    fn acquire(&self) {
        // SAFETY: registered locks are statics (`lock` takes `&'static self`), so the guard may live as long as the
        // process.
        let this: &'static Self = unsafe { &*(self as *const Self) };
        let guard = this.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the mutex is held, and only the holder touches the slot.
        unsafe { *self.held.get() = Some(guard) };
    }

    /// # Safety
    /// This thread holds the lock.
    unsafe fn release(&self) {
        // SAFETY: `acquire` filled the slot and this thread still holds the mutex.
        unsafe { *self.held.get() = None };
    }
}

pub struct ForkGuard<'a, T> {
    value: &'a UnsafeCell<T>,
    _guard: MutexGuard<'a, ()>,
}

#[cfg(debug_assertions)]
impl<T> Drop for ForkGuard<'_, T> {
    fn drop(&mut self) {
        count_held(false);
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the mutex.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the mutex and is borrowed mutably.
        unsafe { &mut *self.value.get() }
    }
}

/// Makes `fork` take and release the registered locks. Called when the engine starts, before a second thread could
/// fork.
pub fn install() {
    INSTALLED.call_once(|| sync::at_fork(prepare, parent, child));
}

/// The two guards that are held from `prepare` to `release`, in parent and child alike.
type Guards = (MutexGuard<'static, Vec<Entry>>, MutexGuard<'static, Vec<fn()>>);
struct Slot(UnsafeCell<Option<Guards>>);
// SAFETY: touched only by the forking thread while it holds both mutexes.
unsafe impl Sync for Slot {}

extern "C" fn prepare() {
    loop {
        let known = entries().clone();
        known.iter().for_each(|entry| entry.lock.acquire());
        let entries = entries();
        if entries.len() == known.len() {
            let hooks = CHILD_HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: see `Slot`.
            unsafe { *OPEN.0.get() = Some((entries, hooks)) };
            return;
        }
        // A lock was registered meanwhile. It has a place in the order, so all locks are taken again.
        drop(entries);
        open(&known);
    }
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Releases locks that `prepare` took on this thread.
fn open(entries: &[Entry]) {
    for entry in entries.iter().rev() {
        // SAFETY: `prepare` acquired these locks on this thread.
        unsafe { entry.lock.release() };
    }
}

/// Releases every lock and returns the hooks that the child runs.
fn release() -> Vec<fn()> {
    // SAFETY: see `Slot`; `prepare` filled it on this thread.
    let Some((entries, hooks)) = (unsafe { (*OPEN.0.get()).take() }) else { return Vec::new() };
    open(&entries);
    hooks.clone()
}

extern "C" fn parent() {
    release();
}

extern "C" fn child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    for hook in release() {
        hook();
    }
}

#[cfg(test)]
mod tests {
    use super::{ForkMutex, Rank, assert_no_lock_held};

    static LOCK: ForkMutex<()> = ForkMutex::new(Rank::FreeList, ());

    #[test]
    fn a_lock_counts_until_it_is_released() {
        drop(LOCK.lock());
        assert_no_lock_held();
        let held = LOCK.lock();
        assert!(std::panic::catch_unwind(assert_no_lock_held).is_err());
        drop(held);
        assert_no_lock_held();
    }
}
