//! The workers: started when first needed, replaced when their number changes, abandoned in a forked child.
//!
//! After `fork` the child inherits a pool whose threads do not exist there. Joining or dropping it would wait for them,
//! so the child's hook leaks it and the next loop builds a new one.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rushlight_core::fork::{self, ChildHook, ForkMutex, Rank};
use rushlight_core::sync;

use crate::inside;
use crate::job::{Ears, Mailbox};

pub(crate) struct Pool {
    inner: ManuallyDrop<rayon::ThreadPool>,
    workers: usize,
    pub(crate) mailboxes: Ears,
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
            // SAFETY: dropped once, here. The threads end after their current jobs; nothing waits for them.
            unsafe { ManuallyDrop::drop(&mut self.inner) };
        }
    }
}

/// When the system last failed to start threads, and how long to wait before the next attempt.
struct SpawnBackoff {
    at: Instant,
    pause: Duration,
}

impl SpawnBackoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(10);

    fn after(last: Option<&SpawnBackoff>) -> SpawnBackoff {
        let pause = last.map_or(SpawnBackoff::FIRST, |last| (last.pause * 2).min(SpawnBackoff::LONGEST));
        SpawnBackoff { at: Instant::now(), pause }
    }

    fn holds(&self) -> bool {
        self.at.elapsed() < self.pause
    }
}

struct State {
    pool: Option<Arc<Pool>>,
    refusal: Option<SpawnBackoff>,
}

sync::statics! {
    static POOL: ForkMutex<State> = ForkMutex::new(Rank::Pool, State { pool: None, refusal: None });
    static HOOK: ChildHook = ChildHook::new(forget);
}

/// The pool with that many workers; `None` if the system cannot start the threads, so that the caller works alone. A
/// failed attempt costs as much as starting the threads that succeed before it, so the delay before the next attempt
/// grows each time.
pub(crate) fn workers(wanted: usize) -> Option<Arc<Pool>> {
    HOOK.register();
    let mut state = POOL.lock();
    if let Some(pool) = state.pool.as_ref().filter(|pool| pool.workers == wanted) {
        return Some(pool.clone());
    }
    if state.refusal.as_ref().is_some_and(SpawnBackoff::holds) {
        return None;
    }
    let built = build(wanted);
    state.refusal = if built.is_none() { Some(SpawnBackoff::after(state.refusal.as_ref())) } else { None };
    let retired = built.clone().and_then(|built| state.pool.replace(built));
    drop(state);
    drop(retired);
    built
}

fn build(workers: usize) -> Option<Arc<Pool>> {
    let inner = rayon::ThreadPoolBuilder::new()
        .num_threads(workers)
        .thread_name(|index| format!("rushlight-{index}"))
        .start_handler(|_| inside::set(true))
        .build()
        .ok()?;
    let mailboxes = (0..workers).map(|_| Mailbox::default()).collect();
    Some(Arc::new(Pool { inner: ManuallyDrop::new(inner), workers, mailboxes, generation: fork::generation() }))
}

fn forget() {
    let mut state = POOL.lock();
    state.refusal = None;
    std::mem::forget(state.pool.take());
    drop(state);
    inside::set(false);
}

#[cfg(test)]
mod tests {
    use super::SpawnBackoff;

    #[test]
    fn refusals_are_believed_for_longer_each_time() {
        let mut last = SpawnBackoff::after(None);
        assert!(last.holds() && last.pause == SpawnBackoff::FIRST);
        for _ in 0..20 {
            let next = SpawnBackoff::after(Some(&last));
            assert_eq!(next.pause, (2 * last.pause).min(SpawnBackoff::LONGEST));
            last = next;
        }
        assert_eq!(last.pause, SpawnBackoff::LONGEST);
        last.at -= SpawnBackoff::LONGEST;
        assert!(!last.holds());
    }
}
