//! One parallel loop: each thread has a share of the pieces, and then claims pieces that other threads have not begun.
//!
//! A thread has the same share of every loop, so what one loop wrote is still in the cache of the thread that reads it
//! in the next: fetching a line from another core's cache costs more than most arithmetic on it. Pieces are claimed one
//! at a time, so that fast threads take more.
//!
//! The caller claims pieces from the start. A helper joins when it receives the job. Once the caller finds no piece
//! left it closes the job and waits only for helpers that are in the middle of a piece. A helper that comes later sees
//! that the job is closed and leaves. It touches only the counter, and the job's memory is reference-counted, so it may
//! come at any time.
//!
//! Waking a thread costs both sides more than a small kernel. So a helper that is done polls its [`Mailbox`] for a moment,
//! in which the next loop usually comes; sleeping helpers are woken as a tree.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use rushlight_core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use rushlight_core::sync::thread::{self, Thread};
use rushlight_core::sync::{Arc, Mutex, PoisonError, hint, rounds};

use crate::{denormals, inside};

/// Set in `active` when no more helpers may join.
const CLOSED: usize = 1 << (usize::BITS - 1);
/// Rounds of waiting for the last helpers before the caller sleeps: about the time of one piece.
const SPINS: usize = rounds(1000);
/// Rounds for which a helper polls before it sleeps: some fifty microseconds.
const POLLS: usize = rounds(2000);

/// The most shares; with more threads, several begin with the same one.
const SHARES: usize = 8;

/// A range of the loop's pieces: the next to claim, and the end.
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

/// The state of a worker: null while it sleeps, a marker while it polls or is busy, else the job that it was given.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Mailbox(AtomicPtr<Job>);

impl Mailbox {
    /// The markers are addresses that no job has.
    fn listening(&self) -> *mut Job {
        (&raw const *self).cast_mut().cast()
    }

    fn busy(&self) -> *mut Job {
        self.listening().wrapping_byte_add(1)
    }

    fn sleeps(&self) -> bool {
        self.0.load(Ordering::Relaxed).is_null()
    }

    /// Hands the job to the worker if it is polling.
    fn post(&self, job: &Arc<Job>) -> bool {
        if self.0.load(Ordering::Relaxed) != self.listening() {
            return false;
        }
        let own = Arc::into_raw(job.clone()).cast_mut();
        let posted = self.0.compare_exchange(self.listening(), own, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if !posted {
            // SAFETY: the reference was made above and was not taken.
            drop(unsafe { Arc::from_raw(own) });
        }
        posted
    }

    /// Polls for a moment; `None` means that the worker goes to sleep.
    fn poll(&self) -> Option<Arc<Job>> {
        self.0.store(self.listening(), Ordering::Relaxed);
        for _ in 0..POLLS {
            if self.0.load(Ordering::Relaxed) != self.listening() {
                break;
            }
            hint::spin_loop();
        }
        let heard = self.0.swap(self.busy(), Ordering::AcqRel);
        if heard == self.listening() {
            self.0.store(ptr::null_mut(), Ordering::Relaxed);
            return None;
        }
        // SAFETY: `post` put it there, with a reference of its own.
        Some(unsafe { Arc::from_raw(heard) })
    }
}

/// The state of each worker. `std`'s `Arc` also under a model, whose own does not take slices.
pub(crate) type Ears = std::sync::Arc<[Mailbox]>;

pub(crate) struct Job {
    body: Body,
    shares: [Share; SHARES],
    /// How many of the shares are in use.
    count: usize,
    /// Helpers that have still to be woken.
    asleep: AtomicUsize,
    /// The number of helpers at work, and `CLOSED`.
    active: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
    /// Whether the caller's arithmetic flushes denormals.
    flush: bool,
    /// The states of the pool's workers.
    mailboxes: Ears,
}

/// Calls `body` for `0..pieces` on this thread and up to `helpers` workers, who listen at `mailboxes` or are started by `spawn`.
pub(crate) fn run(
    mailboxes: &Ears,
    spawn: impl Fn(Box<dyn FnOnce() + Send>),
    pieces: usize,
    helpers: usize,
    body: &(dyn Fn(usize) + Sync),
) {
    // SAFETY: only the lifetime changes. `close` below returns after the last helper has left, and none can enter later.
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
        mailboxes: mailboxes.clone(),
    });
    let woken = mailboxes.iter().filter(|ear| ear.post(&job)).take(helpers).count();
    let sleeping = mailboxes.iter().filter(|ear| ear.sleeps()).count();
    job.asleep.store(sleeping.min(helpers - woken), Ordering::Relaxed);
    Job::wake_two(&job, spawn);
    inside::enter(|| job.work(0));
    job.close();
    let panic = job.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(payload) = panic {
        resume_unwind(payload);
    }
}

impl Job {
    fn wake_two(job: &Arc<Job>, spawn: impl Fn(Box<dyn FnOnce() + Send>)) {
        for _ in 0..2 {
            let more = job.asleep.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok();
            if !more || !job.shares.iter().any(Share::is_left) {
                return;
            }
            let job = job.clone();
            spawn(Box::new(move || Job::help(job)));
        }
    }

    /// Runs on a worker: joins the job, and those that follow at once.
    fn help(first: Arc<Job>) {
        let worker = rayon::current_thread_index().unwrap_or(0);
        let mailboxes = first.mailboxes.clone();
        let Some(ear) = mailboxes.get(worker) else { return };
        ear.0.store(ear.busy(), Ordering::Relaxed);
        let mut next = Some(first);
        while let Some(job) = next {
            Job::join(&job, worker);
            drop(job);
            next = ear.poll();
        }
    }

    fn join(job: &Arc<Job>, worker: usize) {
        let joined =
            job.active.fetch_update(Ordering::Acquire, Ordering::Relaxed, |n| (n & CLOSED == 0).then_some(n + 1));
        if joined.is_err() {
            return;
        }
        Job::wake_two(job, rayon::spawn);
        denormals::with_flush(job.flush, || job.work(1 + worker));
        if job.active.fetch_sub(1, Ordering::Release) == CLOSED | 1 {
            job.caller.unpark();
        }
    }

    /// Claims pieces until none is left, those of the thread's own share first. A panic is stored for the caller and
    /// ends the loop early.
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

    /// Lets no more helpers join and waits for those that have joined.
    fn close(&self) {
        let mut active = self.active.fetch_or(CLOSED, Ordering::AcqRel);
        let mut round = 0;
        while active & !CLOSED != 0 {
            if round < SPINS {
                round += 1;
                hint::spin_loop();
            } else {
                thread::park();
            }
            active = self.active.load(Ordering::Acquire);
        }
    }
}
