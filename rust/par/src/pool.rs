//! The workers: built when first needed, replaced when their number changes, forgotten in a forked child.
//!
//! After `fork` the child inherits a pool whose threads do not exist there. Joining or dropping it would wait for them, so
//! the child's hook leaks it and the next loop builds a new one.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

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

/// When the system last refused threads, and for how long nobody asks again.
struct Refusal {
    at: Instant,
    pause: Duration,
}

impl Refusal {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(10);

    fn after(last: Option<&Refusal>) -> Refusal {
        let pause = last.map_or(Refusal::FIRST, |last| (last.pause * 2).min(Refusal::LONGEST));
        Refusal { at: Instant::now(), pause }
    }

    fn holds(&self) -> bool {
        self.at.elapsed() < self.pause
    }
}

struct State {
    pool: Option<Arc<Pool>>,
    refusal: Option<Refusal>,
}

static POOL: ForkMutex<State> = ForkMutex::new(Rank::Pool, State { pool: None, refusal: None });
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

/// The pool with that many workers; nothing if the system refuses threads, so that the caller works alone. A refusal costs
/// as much as starting those that it grants first, so the next question waits, longer each time.
pub(crate) fn workers(wanted: usize) -> Option<Arc<Pool>> {
    HOOK.enrol();
    let mut state = POOL.lock();
    if let Some(pool) = state.pool.as_ref().filter(|pool| pool.workers == wanted) {
        return Some(pool.clone());
    }
    if state.refusal.as_ref().is_some_and(Refusal::holds) {
        return None;
    }
    let built = build(wanted);
    state.refusal = if built.is_none() { Some(Refusal::after(state.refusal.as_ref())) } else { None };
    let retired = built.clone().and_then(|built| state.pool.replace(built));
    drop(state);
    drop(retired);
    built
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
    let mut state = POOL.lock();
    state.refusal = None;
    std::mem::forget(state.pool.take());
    drop(state);
    INSIDE.set(false);
}

#[cfg(test)]
mod tests {
    use super::Refusal;

    #[test]
    fn refusals_are_believed_for_longer_each_time() {
        let mut last = Refusal::after(None);
        assert!(last.holds() && last.pause == Refusal::FIRST);
        for _ in 0..20 {
            let next = Refusal::after(Some(&last));
            assert_eq!(next.pause, (2 * last.pause).min(Refusal::LONGEST));
            last = next;
        }
        assert_eq!(last.pause, Refusal::LONGEST);
        last.at -= Refusal::LONGEST;
        assert!(!last.holds());
    }
}
