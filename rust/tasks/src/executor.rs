//! The queue of tasks that have not begun, and the threads that run them.
//!
//! A thread is added when a task is queued and none is idle, because tasks may block; idle threads end after a while.
//! The threads do not exist in a forked child: the queue is discarded there, and a thread that waits for a queued task
//! runs it itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use rushlight_core::fork::{ChildHook, ForkMutex, Rank};
use rushlight_core::futex;
use rushlight_core::sync::atomic::{AtomicU32, Ordering};
use rushlight_core::sync::{self, thread};

use crate::deadlock;
use crate::future::Future;

/// The maximum number of threads. Further tasks run one after the other.
const THREADS: usize = 64;
/// The stack size; Python's frames need room.
const STACK: usize = 16 << 20;
/// How long an idle thread waits for a task.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

trait Run: Send + Sync {
    fn run(&self);
}

impl<T: Send + Sync> Run for Future<T> {
    fn run(&self) {
        Future::run(self);
    }
}

struct Queue {
    tasks: VecDeque<Arc<dyn Run>>,
    threads: usize,
    idle: usize,
    closed: bool,
}

const EMPTY: Queue = Queue { tasks: VecDeque::new(), threads: 0, idle: 0, closed: false };
sync::statics! {
    static QUEUE: ForkMutex<Queue> = ForkMutex::new(Rank::Pool, EMPTY);
    /// Incremented whenever idle threads should check the queue.
    static WAKEUPS: AtomicU32 = AtomicU32::new(0);
    static HOOK: ChildHook = ChildHook::new(forget);
}

/// Queues a task and returns a future with its result. The task runs with the gradient modes of the thread that forked
/// it.
pub fn fork<T: Send + Sync + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Arc<Future<T>> {
    HOOK.register();
    let future = Arc::new(Future::new(Box::new(task)));
    let mut queue = QUEUE.lock();
    if queue.closed {
        return future;
    }
    queue.tasks.push_back(future.clone());
    let short = queue.tasks.len() > queue.idle && queue.threads < THREADS;
    queue.threads += usize::from(short);
    drop(queue);
    if short {
        // If the system cannot start a thread, the task waits for an idle one, or for the thread that waits for it.
        let thread = thread::Builder::new().name("rushlight-task".into()).stack_size(STACK).spawn(work);
        if thread.is_err() {
            QUEUE.lock().threads -= 1;
        }
    }
    WAKEUPS.fetch_add(1, Ordering::Release);
    futex::wake(&WAKEUPS, 1);
    future
}

fn work() {
    loop {
        let news = WAKEUPS.load(Ordering::Acquire);
        let mut queue = QUEUE.lock();
        if let Some(task) = queue.tasks.pop_front() {
            drop(queue);
            task.run();
            continue;
        }
        if queue.closed {
            queue.threads -= 1;
            return;
        }
        queue.idle += 1;
        drop(queue);
        futex::wait(&WAKEUPS, news, IDLE_TIMEOUT);
        let mut queue = QUEUE.lock();
        queue.idle -= 1;
        if queue.tasks.is_empty() && WAKEUPS.load(Ordering::Acquire) == news {
            queue.threads -= 1;
            return;
        }
    }
}

/// Accepts no more tasks, drops those that have not begun, and waits until the running ones are done, at most for
/// `patience`. Returns whether all are done.
pub fn close(patience: Duration) -> bool {
    let mut queue = QUEUE.lock();
    queue.closed = true;
    let dropped = std::mem::take(&mut queue.tasks);
    drop(queue);
    drop(dropped);
    WAKEUPS.fetch_add(1, Ordering::Release);
    futex::wake(&WAKEUPS, i32::MAX);
    let pause = Duration::from_millis(1);
    let mut left = patience;
    while QUEUE.lock().threads > 0 {
        let Some(rest) = left.checked_sub(pause) else { return false };
        left = rest;
        thread::sleep(pause);
    }
    true
}

fn forget() {
    let lost = std::mem::replace(&mut *QUEUE.lock(), EMPTY);
    // The tasks may own objects that only the parent may drop.
    std::mem::forget(lost);
    deadlock::forget();
}
