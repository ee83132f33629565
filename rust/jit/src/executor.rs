//! The queue of tasks that nobody has begun, and the threads that take from it.
//!
//! A thread is added when a task comes and none is idle, since tasks may block; idle threads go after a while. In a forked
//! child the threads do not exist: the queue is forgotten there, and who waits for a task of it runs it himself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rushlight_core::fork::{ChildHook, ForkMutex, Rank};
use rushlight_core::sleep;

use crate::future::Future;
use crate::waits;

/// More tasks than this run one after the other, whatever they wait for.
const THREADS: usize = 64;
/// Python's own frames need room.
const STACK: usize = 16 << 20;
/// How long an idle thread stays.
const PATIENCE: Duration = Duration::from_secs(10);

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
static QUEUE: ForkMutex<Queue> = ForkMutex::new(Rank::Pool, EMPTY);
/// Counts what idle threads should look at.
static NEWS: AtomicU32 = AtomicU32::new(0);
static HOOK: ChildHook = ChildHook::new(forget);

/// Queues a task; its future has the result. The task sees the gradient modes of the thread that forked it.
pub fn fork<T: Send + Sync + 'static>(task: impl FnOnce() -> T + Send + 'static) -> Arc<Future<T>> {
    HOOK.enrol();
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
        // Where the system refuses threads the task waits for an idle one, or for who waits for it.
        let thread = thread::Builder::new().name("rushlight-jit".into()).stack_size(STACK).spawn(work);
        if thread.is_err() {
            QUEUE.lock().threads -= 1;
        }
    }
    NEWS.fetch_add(1, Ordering::Release);
    sleep::wake(&NEWS, 1);
    future
}

fn work() {
    loop {
        let news = NEWS.load(Ordering::Acquire);
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
        sleep::while_equal(&NEWS, news, PATIENCE);
        let mut queue = QUEUE.lock();
        queue.idle -= 1;
        if queue.tasks.is_empty() && NEWS.load(Ordering::Acquire) == news {
            queue.threads -= 1;
            return;
        }
    }
}

/// Takes no more tasks, drops those that nobody has begun, and waits until those that run are done.
pub fn close() {
    let mut queue = QUEUE.lock();
    queue.closed = true;
    let dropped = std::mem::take(&mut queue.tasks);
    drop(queue);
    drop(dropped);
    NEWS.fetch_add(1, Ordering::Release);
    sleep::wake(&NEWS, i32::MAX);
    while QUEUE.lock().threads > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

fn forget() {
    let lost = std::mem::replace(&mut *QUEUE.lock(), EMPTY);
    // The tasks may own what only the parent may end.
    std::mem::forget(lost);
    waits::forget();
}
