//! A group of processes that exchange tensors through shared memory, which companions keep equal between machines.
//!
//! `memory` is the shared memory and where things lie in it, `places` the machines of the ranks, `peers` the meetings of
//! ranks and the watch over their processes. `collectives` has the calls of all ranks together, `reduce` their
//! arithmetic, `transfer` what of a call other machines need. `mailbox` has the messages between two ranks, `ring` the
//! memory through which they go, `work` the state of a call that is under way.
//!
//! Ranks are combined in their order, so that all of them get the same bits in every run. No wait is without an end: a
//! rank that dies, leaves, gives up or makes another call is an error on all others.

mod collectives;
mod mailbox;
pub(crate) mod memory;
mod peers;
mod places;
mod reduce;
pub(crate) mod ring;
pub(crate) mod transfer;
mod work;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rushlight_core::storage::Storage;
use rushlight_core::{Error, Result, fork};

use collectives::Channel;
use mailbox::Mailbox;
use memory::GroupMemory;
use peers::Limit;

pub use collectives::{Collective, Span};
pub use memory::size;
pub use peers::Pause;
pub use places::Places;
pub use reduce::{Reduction, check};
pub use work::{Outcome, Work};

const STACK: usize = 256 << 10;
/// How long a wait for another thread lasts before the pause function is called.
const PAUSE_INTERVAL: Duration = Duration::from_millis(20);

struct Job {
    call: Collective,
    timeout: Duration,
    began: Instant,
    work: Arc<Work>,
}

/// Collective calls, which are carried out in the order in which they were made.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<Job>,
    /// Whether a thread carries out a call.
    busy: bool,
    channel: Channel,
    has_thread: bool,
}

struct Shared {
    memory: GroupMemory,
    queue: Mutex<Queue>,
    changed: Condvar,
    mailbox: Mutex<Mailbox>,
    /// Whether a thread moves messages.
    moving: AtomicBool,
    closing: AtomicBool,
}

/// This process's part of a group.
pub struct Group {
    shared: Arc<Shared>,
    generation: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Group {
    /// Joins the group whose memory lies in `storage` as `rank`.
    pub fn join(storage: Storage, rank: usize, places: Places) -> Result<Group> {
        let memory = GroupMemory::new(storage, rank, places)?;
        memory.join()?;
        let shared = Shared {
            mailbox: Mutex::new(Mailbox::new(memory.ranks)),
            memory,
            queue: Mutex::default(),
            changed: Condvar::new(),
            moving: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        };
        Ok(Group { shared: Arc::new(shared), generation: fork::generation() })
    }

    pub fn rank(&self) -> usize {
        self.shared.memory.rank
    }

    pub fn ranks(&self) -> usize {
        self.shared.memory.ranks
    }

    fn check(&self) -> Result<()> {
        if self.generation != fork::generation() {
            return Err(Error::runtime("the process group belongs to the process that forked this one")
                .hint("Call init_process_group() in each process of the group, after it has started."));
        }
        if self.shared.closing.load(Ordering::Acquire) {
            return Err(Error::runtime("the process group was destroyed"));
        }
        self.shared.memory.check()
    }

    /// Makes a collective call on this thread, after those that were begun before.
    pub fn call(&self, call: &Collective, timeout: Duration, mut pause: Pause<'_>) -> Result<()> {
        self.check()?;
        let mut limit = Limit::new(timeout, &mut pause);
        let mut queue = lock(&self.shared.queue);
        while queue.busy || !queue.waiting.is_empty() {
            queue = self.shared.changed.wait_timeout(queue, PAUSE_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            (limit.pause)()?;
            if limit.is_over() {
                let milliseconds = timeout.as_millis();
                return Err(Error::runtime(format!(
                    "Timed out waiting {milliseconds}ms for the calls before {} to complete",
                    call.name()
                )));
            }
        }
        self.shared.run(queue, call, &mut limit)
    }

    /// Begins a collective call and returns at once.
    pub fn begin(&self, call: Collective, timeout: Duration) -> Result<Arc<Work>> {
        self.check()?;
        let mut queue = lock(&self.shared.queue);
        if !queue.has_thread {
            let shared = self.shared.clone();
            let spawned = thread::Builder::new().name("rushlight-group".into()).stack_size(STACK);
            let spawned = spawned.spawn(move || shared.serve());
            spawned.map_err(|error| Error::runtime(format!("no thread for an asynchronous call: {error}")))?;
            queue.has_thread = true;
        }
        let work = Arc::new(Work::default());
        queue.waiting.push_back(Job { call, timeout, began: Instant::now(), work: work.clone() });
        self.shared.changed.notify_all();
        Ok(work)
    }

    fn other(&self, rank: usize, what: &str) -> Result<()> {
        if rank == self.rank() {
            return Err(Error::value(format!(
                "Invalid {what} rank: {what} rank should not be the same as the rank of the current process."
            )));
        }
        if rank >= self.ranks() {
            return Err(Error::value(format!("{what} rank {rank} is not in a group of {}", self.ranks())));
        }
        Ok(())
    }

    /// Begins to send bytes to a rank.
    pub fn send(&self, span: Span, to: usize, tag: u32, timeout: Duration) -> Result<Arc<Work>> {
        self.check()?;
        self.other(to, "destination")?;
        let mut mailbox = lock(&self.shared.mailbox);
        let work = mailbox.send(span, to, tag, timeout);
        mailbox.advance(&self.shared.memory);
        Ok(work)
    }

    /// Begins to receive bytes from a rank, or from any.
    pub fn receive(&self, span: Span, from: Option<usize>, tag: u32, timeout: Duration) -> Result<Arc<Work>> {
        self.check()?;
        if let Some(from) = from {
            self.other(from, "source")?;
        }
        let mut mailbox = lock(&self.shared.mailbox);
        let work = mailbox.receive(span, from, tag, timeout);
        mailbox.advance(&self.shared.memory);
        Ok(work)
    }

    /// Has a thread move the messages under way, for callers that do not wait for them at once.
    pub fn move_messages(&self) -> Result<()> {
        if lock(&self.shared.mailbox).is_idle() || self.shared.moving.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let shared = self.shared.clone();
        let spawned = thread::Builder::new().name("rushlight-messages".into()).stack_size(STACK);
        spawned.spawn(move || shared.move_messages()).map(drop).map_err(|error| {
            self.shared.moving.store(false, Ordering::Release);
            Error::runtime(format!("no thread for asynchronous messages: {error}"))
        })
    }

    /// The outcome of a call, if it is over. Moves messages.
    pub fn poll(&self, work: &Work) -> Option<Outcome> {
        if self.generation == fork::generation() {
            lock(&self.shared.mailbox).advance(&self.shared.memory);
        }
        work.outcome()
    }

    /// Waits for a call that was begun. The call itself has a timeout; `patience` may end the wait earlier.
    pub fn wait(&self, work: &Work, patience: Option<Duration>, pause: Pause<'_>) -> Outcome {
        if self.generation != fork::generation() {
            self.check()?;
        }
        let began = Instant::now();
        let mut paused = began;
        loop {
            let heard = self.shared.memory.own().bell.load(Ordering::Acquire);
            let (moved, idle) = {
                let mut mailbox = lock(&self.shared.mailbox);
                (mailbox.advance(&self.shared.memory), mailbox.is_idle())
            };
            if let Some(outcome) = work.outcome() {
                return outcome;
            }
            if self.shared.closing.load(Ordering::Acquire) {
                return Err(Error::runtime("the process group was destroyed"));
            }
            if idle {
                if let Some(outcome) = work.wait(PAUSE_INTERVAL) {
                    return outcome;
                }
            } else if !moved {
                self.shared.memory.await_bell(heard);
            }
            if paused.elapsed() >= PAUSE_INTERVAL {
                pause()?;
                paused = Instant::now();
            }
            if patience.is_some_and(|patience| began.elapsed() >= patience) {
                let milliseconds = patience.unwrap_or_default().as_millis();
                return Err(Error::runtime(format!(
                    "Timed out waiting {milliseconds}ms for the operation to complete"
                )));
            }
        }
    }

    /// Leaves the group. Calls that are under way fail.
    pub fn leave(&self) {
        if self.generation != fork::generation() || self.shared.closing.swap(true, Ordering::AcqRel) {
            return;
        }
        self.shared.changed.notify_all();
        self.shared.memory.leave();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Shared {
    /// Carries out a call while `busy` keeps other threads away, without the lock.
    fn run(&self, mut queue: MutexGuard<'_, Queue>, call: &Collective, limit: &mut Limit<'_>) -> Result<()> {
        queue.busy = true;
        let mut channel = std::mem::take(&mut queue.channel);
        drop(queue);
        let result = channel.run(&self.memory, call, limit);
        let mut queue = lock(&self.queue);
        queue.channel = channel;
        queue.busy = false;
        drop(queue);
        self.changed.notify_all();
        result
    }

    /// The thread that carries out asynchronous calls.
    fn serve(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let job = loop {
                let closing = self.closing.load(Ordering::Acquire);
                if closing {
                    for job in queue.waiting.drain(..) {
                        job.work.fail(Error::runtime("the process group was destroyed"));
                    }
                    return;
                }
                if !queue.busy
                    && let Some(job) = queue.waiting.pop_front()
                {
                    break job;
                }
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
            };
            let mut pause = || match self.closing.load(Ordering::Acquire) {
                true => Err(Error::runtime("the process group was destroyed")),
                false => Ok(()),
            };
            let mut limit = Limit { timeout: job.timeout, began: job.began, pause: &mut pause };
            let result = self.run(queue, &job.call, &mut limit);
            job.work.finish(result.map(|()| None));
        }
    }

    /// The thread that moves messages until none is under way.
    fn move_messages(&self) {
        loop {
            let heard = self.memory.own().bell.load(Ordering::Acquire);
            let moved = {
                let mut mailbox = lock(&self.mailbox);
                let moved = mailbox.advance(&self.memory);
                if mailbox.is_idle() || self.closing.load(Ordering::Acquire) {
                    self.moving.store(false, Ordering::Release);
                    return;
                }
                moved
            };
            if !moved {
                self.memory.await_bell(heard);
            }
        }
    }
}
