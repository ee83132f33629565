//! The fork registry: every process-wide lock of rushlight is taken before `fork` and released on both sides.
//!
//! A thread that holds a lock does not exist in the child, so an unregistered lock could stay closed there for ever.
//! `prepare` takes the registered locks in the order of their rank, and the registry's own last, since whoever holds a lock
//! may still enrol another; parent and child release them in reverse.
//! Hooks that must rebuild something in the child (the thread pool forgets its dead workers) run after the release.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// The order in which locks are taken before a fork: a holder of one lock may take only locks of a higher rank.
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
}

#[derive(Clone)]
struct Entry {
    rank: Rank,
    lock: &'static dyn Registered,
}

trait Registered: Sync {
    fn acquire(&self);
    /// # Safety
    /// Only after `acquire` by the same thread (in the child: by the thread that forked).
    unsafe fn release(&self);
}

static ENTRIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
static CHILD_HOOKS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
static INSTALLED: Once = Once::new();
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the first one that used rushlight.
pub fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// What every forked child runs, after the locks are open again. Declare it as a `static` and enrol it before it matters.
pub struct ChildHook {
    hook: fn(),
    enrolled: AtomicBool,
}

impl ChildHook {
    pub const fn new(hook: fn()) -> Self {
        ChildHook { hook, enrolled: AtomicBool::new(false) }
    }

    #[inline]
    pub fn enrol(&self) {
        if !self.enrolled.load(Ordering::Acquire) {
            self.enlist();
        }
    }

    #[cold]
    fn enlist(&self) {
        install();
        let mut hooks = CHILD_HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.enrolled.swap(true, Ordering::AcqRel) {
            hooks.push(self.hook);
        }
    }
}

/// A process-wide lock that is closed over `fork`. Declare it as a `static`; it registers itself on first use.
pub struct ForkMutex<T> {
    rank: Rank,
    enrolled: AtomicBool,
    mutex: Mutex<()>,
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a guard of `mutex`, `held` only between `acquire` and `release`.
unsafe impl<T: Send> Sync for ForkMutex<T> {}

impl<T> ForkMutex<T> {
    pub const fn new(rank: Rank, value: T) -> Self {
        ForkMutex {
            rank,
            enrolled: AtomicBool::new(false),
            mutex: Mutex::new(()),
            held: UnsafeCell::new(None),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: Send + 'static> ForkMutex<T> {
    pub fn lock(&'static self) -> ForkGuard<'static, T> {
        if !self.enrolled.load(Ordering::Acquire) {
            self.enrol();
        }
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        ForkGuard { value: &self.value, _guard: guard }
    }

    #[cold]
    fn enrol(&'static self) {
        install();
        let mut entries = entries();
        if !self.enrolled.swap(true, Ordering::AcqRel) {
            entries.push(Entry { rank: self.rank, lock: self });
            entries.sort_by_key(|entry| entry.rank);
        }
    }
}

impl<T: Send + 'static> Registered for ForkMutex<T> {
    fn acquire(&self) {
        // SAFETY: registered locks are statics (`lock` asks for `&'static self`), so the guard may live as long as the process.
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

/// Makes `fork` take and release the registered locks. Done when the engine starts, before a second thread could fork.
pub fn install() {
    INSTALLED.call_once(|| {
        // SAFETY: the three handlers are `extern "C"` functions that live as long as the process and do not unwind.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

/// The two guards that stay alive from `prepare` to `release`, in parent and child alike.
type Guards = (MutexGuard<'static, Vec<Entry>>, MutexGuard<'static, Vec<fn()>>);
struct Slot(UnsafeCell<Option<Guards>>);
// SAFETY: touched only by the forking thread while it holds both mutexes.
unsafe impl Sync for Slot {}
static OPEN: Slot = Slot(UnsafeCell::new(None));

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
        // A lock was enrolled meanwhile: it has its place in the order, so all of them again.
        drop(entries);
        open(&known);
    }
}

fn entries() -> MutexGuard<'static, Vec<Entry>> {
    ENTRIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens locks that `prepare` closed on this thread.
fn open(entries: &[Entry]) {
    for entry in entries.iter().rev() {
        // SAFETY: by the caller's word.
        unsafe { entry.lock.release() };
    }
}

/// Opens every lock again and returns the hooks that the child runs.
fn release() -> Vec<fn()> {
    // SAFETY: see `Slot`; `prepare` filled it on this very thread.
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
