//! The workers: built when first needed, replaced when their number changes, forgotten in a forked child.
//!
//! After `fork` the child inherits a pool whose threads do not exist there. Joining or dropping it would wait for them, so
//! the child's hook leaks it and the next loop builds a new one.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rushlight_core::fork::{self, ChildHook, ForkMutex, Rank};

use crate::job::Ear;

pub(crate) struct Pool {
    inner: ManuallyDrop<rayon::ThreadPool>,
    workers: usize,
    /// Where each worker listens.
    pub(crate) ears: Arc<[Ear]>,
    /// The fork generation that owns the threads.
    generation: u64,
}

impl Pool {
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.inner.spawn(task);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            // SAFETY: dropped once, here. The threads end after what they have been given; nobody waits for them.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

static POOL: ForkMutex<Option<Arc<Pool>>> = ForkMutex::new(Rank::Pool, "par.pool", None);
static HOOK: ChildHook = ChildHook::new(forget);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is a worker, or a caller in the middle of its own loop.
pub(crate) fn inside() -> bool {
    INSIDE.get()
}

/// Runs `f` as part of a parallel loop: loops within it run inline.
pub(crate) fn enter<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            INSIDE.set(self.0);
        }
    }
    let _restore = Restore(INSIDE.replace(true));
    f()
}

/// The pool with that many workers; nothing if the system refuses threads, so that the caller works alone.
pub(crate) fn workers(wanted: usize) -> Option<Arc<Pool>> {
    HOOK.enrol();
    let mut slot = POOL.lock();
    if let Some(pool) = slot.as_ref().filter(|pool| pool.workers == wanted) {
        return Some(pool.clone());
    }
    let built = build(wanted)?;
    let retired = slot.replace(built.clone());
    drop(slot);
    drop(retired);
    Some(built)
}

fn build(workers: usize) -> Option<Arc<Pool>> {
    let inner = rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|index| format!("rushlight-{index}"))
        .start_handler(|_| INSIDE.set(true))
        .build()
        .ok()?;
    let ears = (0..workers).map(|_| Ear::default()).collect();
    Some(Arc::new(Pool { inner: ManuallyDrop::new(inner), workers, ears, generation: fork::generation() }))
}

fn forget() {
    std::mem::forget(POOL.lock().take());
    INSIDE.set(false);
}
