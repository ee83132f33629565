//! A task and, later, its result. The state is one number on which threads sleep. There is no lock, so a fork at any
//! moment leaves every future usable in the child.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rushlight_autograd::{SequenceRange, modes};
use rushlight_core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use rushlight_core::sync::{OnceLock, UnsafeCell};
use rushlight_core::{fork, futex};

use crate::deadlock::{self, Deadlock};

const PENDING: u32 = 0;
const DONE: u32 = 1;

/// The state of a task that runs in this process. The value is different in a forked child, where it shows that the
/// task's thread does not exist.
fn running() -> u32 {
    2 + fork::generation() as u32 % (u32::MAX - 2)
}

/// The value that a task returned, or the payload of its panic.
pub type Outcome<T> = Result<T, Box<dyn Any + Send + Sync>>;

/// The outcome of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    Done,
    /// The task has not finished.
    Waiting,
    /// The task runs in the parent process of a fork: its result will never arrive here.
    Elsewhere,
    /// The task waits, possibly through others, for the calling thread.
    Deadlock,
}

type Task<T> = Box<dyn FnOnce() -> T + Send>;

pub struct Future<T> {
    state: AtomicU32,
    /// The thread that runs the task; zero until it is set.
    runner: AtomicU64,
    task: UnsafeCell<Option<(Task<T>, SequenceRange)>>,
    value: OnceLock<Outcome<T>>,
    /// Whether the forking thread recorded gradients, and whether it was in inference mode.
    modes: (bool, bool),
}

// SAFETY: `task` is accessed only by the thread that changed the state from `PENDING`, or by the last owner.
unsafe impl<T: Send + Sync> Sync for Future<T> {}

impl<T: Send + Sync> Future<T> {
    pub(crate) fn new(task: Task<T>) -> Self {
        Future {
            state: AtomicU32::new(PENDING),
            runner: AtomicU64::new(0),
            task: UnsafeCell::new(Some((task, SequenceRange::reserve()))),
            value: OnceLock::new(),
            modes: (modes::grad_enabled(), modes::inference_enabled()),
        }
    }

    /// Runs the task on this thread unless it has begun.
    pub fn run(&self) {
        if self.state.compare_exchange(PENDING, running(), Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        self.runner.store(deadlock::this_thread(), Ordering::Relaxed);
        // SAFETY: this thread has just claimed the task.
        let task = unsafe { (*self.task.get()).take() };
        if let Some((task, sequence)) = task {
            let (grad, inference) = self.modes;
            let _inference = modes::InferenceMode::new(inference);
            let _grad = modes::GradMode::new(grad);
            let outcome = catch_unwind(AssertUnwindSafe(|| sequence.take(task))).map_err(|payload| {
                let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
                let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
                Box::new(text.unwrap_or_default()) as Box<dyn Any + Send + Sync>
            });
            let _ = self.value.set(outcome);
        }
        self.state.store(DONE, Ordering::Release);
        futex::wake(&self.state, i32::MAX);
    }

    /// The result, once there is one.
    pub fn get(&self) -> Option<&Outcome<T>> {
        (self.state.load(Ordering::Acquire) == DONE).then(|| self.value.get()).flatten()
    }

    /// Sleeps until the task, which runs on another thread, is done, at most for `patience`.
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
            let _waiting = match deadlock::begin(runner) {
                Ok(waiting) => waiting,
                Err(Deadlock) => return Progress::Deadlock,
            };
            futex::wait(&self.state, state, patience);
        }
        if self.state.load(Ordering::Acquire) == DONE { Progress::Done } else { Progress::Waiting }
    }
}
