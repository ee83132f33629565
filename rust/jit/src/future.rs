//! A task and, later, its result. The state is one number that threads sleep on; no lock guards it, so a fork at any
//! moment leaves every future usable in the child.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rushlight_autograd::{Ticket, modes};
use rushlight_core::{fork, sleep};

use crate::waits::{self, Circle};

const PENDING: u32 = 0;
const DONE: u32 = 1;

/// The state of a task that runs in this process. It differs in a forked child, which so knows that nobody runs it there.
fn running() -> u32 {
    2 + fork::generation() as u32 % (u32::MAX - 2)
}

/// What a task returned, or the payload of its panic.
pub type Outcome<T> = Result<T, Box<dyn Any + Send + Sync>>;

/// How a wait went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    Done,
    /// Not yet; ask again.
    Waiting,
    /// The task runs in the process from which this one was forked: its result will never come here.
    Elsewhere,
    /// The task waits, maybe through others, for the thread that asks.
    Circular,
}

type Task<T> = Box<dyn FnOnce() -> T + Send>;

pub struct Future<T> {
    state: AtomicU32,
    /// The thread that runs the task; zero for the moment until it has said so.
    runner: AtomicU64,
    task: UnsafeCell<Option<(Task<T>, Ticket)>>,
    value: OnceLock<Outcome<T>>,
    /// Whether the forking thread recorded gradients, and whether it was in inference mode.
    modes: (bool, bool),
}

// SAFETY: `task` is touched only by the thread that moved the state away from `PENDING`, or by the last owner.
unsafe impl<T: Send + Sync> Sync for Future<T> {}

impl<T: Send + Sync> Future<T> {
    pub(crate) fn new(task: Task<T>) -> Self {
        Future {
            state: AtomicU32::new(PENDING),
            runner: AtomicU64::new(0),
            task: UnsafeCell::new(Some((task, Ticket::reserve()))),
            value: OnceLock::new(),
            modes: (modes::grad_enabled(), modes::inference_enabled()),
        }
    }

    /// Runs the task here unless somebody has begun it.
    pub fn run(&self) {
        if self.state.compare_exchange(PENDING, running(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        self.runner.store(waits::this_thread(), Ordering::Relaxed);
        // SAFETY: this thread has just claimed the task.
        let task = unsafe { (*self.task.get()).take() };
        if let Some((task, ticket)) = task {
            let (grad, inference) = self.modes;
            let _inference = modes::InferenceMode::new(inference);
            let _grad = modes::GradMode::new(grad);
            let outcome = catch_unwind(AssertUnwindSafe(|| ticket.take(task))).map_err(|payload| {
                let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
                let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
                Box::new(text.unwrap_or_default()) as Box<dyn Any + Send + Sync>
            });
            let _ = self.value.set(outcome);
        }
        self.state.store(DONE, Ordering::Release);
        sleep::wake(&self.state, i32::MAX);
    }

    /// The result, once there is one.
    pub fn get(&self) -> Option<&Outcome<T>> {
        (self.state.load(Ordering::Acquire) == DONE).then(|| self.value.get()).flatten()
    }

    /// Sleeps until the task that another thread runs is done, at most for `patience`.
    pub fn wait(&self, patience: Duration) -> Progress {
        let state = self.state.load(Ordering::Acquire);
        match state {
            DONE => return Progress::Done,
            PENDING => return Progress::Waiting,
            here if here == running() => {}
            _ => return Progress::Elsewhere,
        }
        let runner = self.runner.load(Ordering::Relaxed);
        if runner != 0 {
            let _waiting = match waits::begin(runner) {
                Ok(waiting) => waiting,
                Err(Circle) => return Progress::Circular,
            };
            sleep::while_equal(&self.state, state, patience);
        }
        if self.state.load(Ordering::Acquire) == DONE { Progress::Done } else { Progress::Waiting }
    }
}
