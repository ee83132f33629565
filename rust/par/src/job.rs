//! One loop, shared out: pieces are claimed from a counter, so that fast threads take more of them.
//!
//! The caller claims pieces from the first moment on. A helper joins when it wakes; once the caller finds nothing left it
//! closes the job and waits only for helpers that are in the middle of a piece. A helper that comes later sees the job
//! closed and goes away: the counter is then all it touches, and the job's memory is counted, so it may come at any time.
//! Wake-ups fan out as a tree, because waking a thread costs about as much as a small kernel.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::pool::{self, Pool};

/// Set in `active` when no more helpers may join.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Rounds of waiting for the last helpers before the caller sleeps: about two microseconds.
const SPINS: usize = 100;

/// The loop's body with its lifetime erased: called only while `run` is on the caller's stack.
struct Body(*const (dyn Fn(usize) + Sync));
// SAFETY: the closure is `Sync`, and `Job` guards the lifetime.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

struct Job {
    body: Body,
    pieces: usize,
    /// The next piece to claim.
    next: AtomicUsize,
    /// Helpers still to be woken.
    asleep: AtomicUsize,
    /// Helpers at work, and `CLOSED`.
    active: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
}

/// Calls `body` for `0..pieces` on this thread and up to `helpers` workers.
pub(crate) fn run(pool: &Pool, pieces: usize, helpers: usize, body: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes. `close` below returns after the last helper has left, and later ones are refused.
    let body =
        Body(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(body) });
    let job = Arc::new(Job {
        body,
        pieces,
        next: AtomicUsize::new(0),
        asleep: AtomicUsize::new(helpers),
        active: AtomicUsize::new(0),
        panic: Mutex::new(None),
        caller: thread::current(),
    });
    job.wake_two(|helper| pool.spawn(helper));
    pool::enter(|| job.work());
    job.close();
    let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
}

impl Job {
    fn wake_two(self: &Arc<Self>, spawn: impl Fn(Box<dyn FnOnce() + Send>)) {
        for _ in 0..2 {
            let more = self.asleep.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
            if !more || self.next.load(Ordering::Relaxed) >= self.pieces {
                return;
            }
            let job = self.clone();
            spawn(Box::new(move || job.help()));
        }
    }

    /// A worker's visit.
    fn help(self: Arc<Self>) {
        let joined =
            self.active.fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| (n & CLOSED == 0).then_some(n + 1));
        if joined.is_err() {
            return;
        }
        self.wake_two(rayon::spawn);
        self.work();
        if self.active.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.caller.unpark();
        }
    }

    /// Claims pieces until none is left. A panic is kept for the caller and ends the loop early.
    fn work(&self) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let piece = self.next.fetch_add(1, Ordering::Relaxed);
                if piece >= self.pieces {
                    return;
                }
                // SAFETY: the caller is still inside `run`: it is this thread, or it waits for this helper in `close`.
                unsafe { (*self.body.0)(piece) };
            }
        }));
        if let Err(payload) = outcome {
            self.next.store(self.pieces, Ordering::Relaxed);
            self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }

    /// Refuses further helpers and waits for those inside.
    fn close(&self) {
        let mut active = self.active.fetch_or(CLOSED, Ordering::AcqRel);
        let mut round = 0;
        while active & !CLOSED != 0 {
            if round < SPINS {
                round += 1;
                std::hint::spin_loop();
            } else {
                thread::park();
            }
            active = self.active.load(Ordering::Acquire);
        }
    }
}
