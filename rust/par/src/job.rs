//! One loop, shared out: each thread has a share of the pieces, and claims what others left of theirs once it is done.
//!
//! A thread has the same share of every loop, so what one loop wrote is still near the thread that the next one gives it
//! to: fetching a line from another core's cache costs more than most arithmetic on it. Claims are counted, so that fast
//! threads take more.
//!
//! The caller claims pieces from the first moment on. A helper joins when it hears of the job; once the caller finds
//! nothing left it closes the job and waits only for helpers that are in the middle of a piece. A helper that comes later
//! sees the job closed and goes away: the counter is then all it touches, and the job's memory is counted, so it may come
//! at any time.
//!
//! Waking a thread costs more than a small kernel, on either side. So a helper that is done listens at its [`Ear`] for a
//! moment, in which the next loop usually comes; those that sleep are woken as a tree.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};

use crate::denormals;
use crate::pool::{self, Pool};

/// Set in `active` when no more helpers may join.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Rounds of waiting for the last helpers before the caller sleeps: about the time of a piece.
const SPINS: usize = 1000;
/// Rounds for which a helper listens before it sleeps: some fifty microseconds.
const PATIENCE: usize = 2000;

/// Most shares; of more threads several begin with the same one.
const SHARES: usize = 8;

/// Some pieces of the loop: the next to claim, and the end.
#[repr(align(64))]
struct Share {
    next: AtomicUsize,
    end: usize,
}

impl Share {
    fn is_left(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.end
    }
}

/// The loop's body with its lifetime erased: called only while `run` is on the caller's stack.
struct Body(*const (dyn Fn(usize) + Sync));
// SAFETY: the closure is `Sync`, and `Job` guards the lifetime.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

/// What a worker is doing: null while it sleeps, one of two signs while it listens or is busy, else the job it was told.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Ear(AtomicPtr<Job>);

impl Ear {
    /// The signs are addresses that no job has.
    fn listening(&self) -> *mut Job {
        (&raw const *self).cast_mut().cast()
    }

    fn busy(&self) -> *mut Job {
        self.listening().wrapping_byte_add(1)
    }

    fn sleeps(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Hands the job over if the worker listens.
    fn tell(&self, job: &Arc<Job>) -> bool {
        if self.0.load(Ordering::Relaxed) != self.listening() {
            return false;
        }
        let own = Arc::into_raw(job.clone()).cast_mut();
        let told = self.0.compare_exchange(self.listening(), own, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !told {
            // SAFETY: the reference was made above and nobody took it.
            drop(unsafe { Arc::from_raw(own) });
        }
        told
    }

    /// Listens for a moment; hears nothing only when it falls asleep.
    fn listen(&self) -> Option<Arc<Job>> {
        self.0.store(self.listening(), Ordering::Relaxed);
        for _ in 0..PATIENCE {
            if self.0.load(Ordering::Relaxed) != self.listening() {
                break;
            }
            std::hint::spin_loop();
        }
        let heard = self.0.swap(self.busy(), Ordering::AcqRel);
        if heard == self.listening() {
            self.0.store(ptr::null_mut(), Ordering::Relaxed);
            return None;
        }
        // SAFETY: `tell` put it there, with a reference of its own.
        Some(unsafe { Arc::from_raw(heard) })
    }
}

pub(crate) struct Job {
    body: Body,
    shares: [Share; SHARES],
    /// How many of the shares are in use.
    count: usize,
    /// Helpers still to be woken.
    asleep: AtomicUsize,
    /// Helpers at work, and `CLOSED`.
    active: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
    /// Whether the caller's arithmetic flushes denormals.
    flush: bool,
    /// Of the pool's workers.
    ears: Arc<[Ear]>,
}

/// Calls `body` for `0..pieces` on this thread and up to `helpers` workers.
pub(crate) fn run(pool: &Pool, pieces: usize, helpers: usize, body: &(dyn Fn(usize) + Sync)) {
    // SAFETY: only the lifetime changes. `close` below returns after the last helper has left, and later ones are refused.
    let body =
        Body(unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync), *const (dyn Fn(usize) + Sync)>(body) });
    let count = (helpers + 1).min(SHARES);
    let bound = |share: usize| pieces * share.min(count) / count;
    let job = Arc::new(Job {
        body,
        shares: std::array::from_fn(|i| Share { next: AtomicUsize::new(bound(i)), end: bound(i + 1) }),
        count,
        asleep: AtomicUsize::new(0),
        active: AtomicUsize::new(0),
        panic: Mutex::new(None),
        caller: thread::current(),
        flush: denormals::flushes(),
        ears: pool.ears.clone(),
    });
    let told = pool.ears.iter().filter(|ear| ear.tell(&job)).take(helpers).count();
    let sleeping = pool.ears.iter().filter(|ear| ear.sleeps()).count();
    job.asleep.store(sleeping.min(helpers - told), Ordering::Relaxed);
    job.wake_two(|helper| pool.spawn(helper));
    pool::enter(|| job.work(0));
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
            if !more || !self.shares.iter().any(Share::is_left) {
                return;
            }
            let job = self.clone();
            spawn(Box::new(move || job.help()));
        }
    }

    /// A worker's visit, and those that follow at once.
    fn help(self: Arc<Self>) {
        let worker = rayon::current_thread_index().unwrap_or(0);
        let ears = self.ears.clone();
        let Some(ear) = ears.get(worker) else { return };
        ear.0.store(ear.busy(), Ordering::Relaxed);
        let mut next = Some(self);
        while let Some(job) = next {
            job.join(worker);
            drop(job);
            next = ear.listen();
        }
    }

    fn join(self: &Arc<Self>, worker: usize) {
        let joined =
            self.active.fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| (n & CLOSED == 0).then_some(n + 1));
        if joined.is_err() {
            return;
        }
        self.wake_two(rayon::spawn);
        denormals::with_flush(self.flush, || self.work(1 + worker));
        if self.active.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            self.caller.unpark();
        }
    }

    /// Claims pieces until none is left, of the thread's own share first. A panic is kept for the caller and ends the loop
    /// early.
    fn work(&self, thread: usize) {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for share in (0..self.count).map(|i| &self.shares[(thread + i) % self.count]) {
                loop {
                    let piece = share.next.fetch_add(1, Ordering::Relaxed);
                    if piece >= share.end {
                        break;
                    }
                    // SAFETY: the caller is still inside `run`: it is this thread, or it waits for this helper in `close`.
                    unsafe { (*self.body.0)(piece) };
                }
            }
        }));
        if let Err(payload) = outcome {
            self.shares.iter().for_each(|share| share.next.store(share.end, Ordering::Relaxed));
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
